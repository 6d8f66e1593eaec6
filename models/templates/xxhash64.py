"""XXH64 of bytes, as Spark's function `xxhash64` has it of one text: with the seed 42.

Source: the specification of xxHash (Yann Collet), section "XXH64 algorithm". 64-bit arithmetic, little endian:

    round(a, x) = rotl(a + x P2, 31) P1
    32 bytes or more: four accumulators take 8 bytes each in turn, and are merged
    the rest: 8 bytes, 4 bytes, single bytes, each mixed in; then the avalanche
"""

from __future__ import annotations

import struct

__all__ = ["xxhash64"]

SEED = 42  # Spark's
_MASK = 2**64 - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def xxhash64(data: bytes, seed: int = SEED) -> int:
    """The hash as a number from 0 to 2^64 - 1."""
    stripes = len(data) // 32 * 32
    value = _stripes(data[:stripes], seed) if stripes else (seed + _P5) & _MASK
    return _avalanche(_rest(data[stripes:], (value + len(data)) & _MASK))


def _rotated(x: int, bits: int) -> int:
    return (x << bits | x >> 64 - bits) & _MASK


def _round(accumulator: int, lane: int) -> int:
    return _rotated((accumulator + lane * _P2) & _MASK, 31) * _P1 & _MASK


def _stripes(data: bytes, seed: int) -> int:
    """Whole stripes of 32 bytes."""
    lanes = [(seed + start) & _MASK for start in (_P1 + _P2, _P2, 0, -_P1)]
    for stripe in struct.iter_unpack("<4Q", data):
        lanes = [_round(lane, word) for lane, word in zip(lanes, stripe, strict=True)]
    value = sum(_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
    for lane in lanes:
        value = ((value ^ _round(0, lane)) * _P1 + _P4) & _MASK
    return value


def _rest(data: bytes, value: int) -> int:
    """The last bytes, fewer than 32."""
    eights = len(data) // 8 * 8
    for (word,) in struct.iter_unpack("<Q", data[:eights]):
        value = (_rotated(value ^ _round(0, word), 27) * _P1 + _P4) & _MASK
    data = data[eights:]
    if len(data) >= 4:
        (half,) = struct.unpack_from("<I", data)
        value = (_rotated(value ^ half * _P1 & _MASK, 23) * _P2 + _P3) & _MASK
        data = data[4:]
    for byte in data:
        value = _rotated(value ^ byte * _P5 & _MASK, 11) * _P1 & _MASK
    return value


def _avalanche(value: int) -> int:
    value = (value ^ value >> 33) * _P2 & _MASK
    value = (value ^ value >> 29) * _P3 & _MASK
    return value ^ value >> 32
