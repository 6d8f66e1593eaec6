"""Randomness that does not depend on who asks first, and the shapes of load over time."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from models.core.arrays import Floats


DAY = 86_400.0
MONDAY = 4 * DAY  # 1970-01-05, in epoch seconds


def generator(seed: int, purpose: str, *ids: int) -> np.random.Generator:
    """A generator of its own for each purpose and ids: two processes that ask for the same get the same numbers."""
    key = (zlib.crc32(purpose.encode()), *ids)
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(seed, spawn_key=key)))


def rhythm(epoch_seconds: Floats, peak_hour: float, daily_depth: float, weekly_depth: float) -> Floats:
    """Relative load over the day and the week, about 1 on a working day; same shape as the times.

    A cosine with its maximum at `peak_hour` (UTC), times a smooth dip of `weekly_depth` at the week-end.
    """
    day = (epoch_seconds % DAY) / DAY
    week = ((epoch_seconds - MONDAY) % (7 * DAY)) / (7 * DAY)
    daily = 1 + daily_depth * np.cos(2 * np.pi * (day - peak_hour / 24))
    weekend = ((1 + np.cos(2 * np.pi * (week - 6 / 7))) / 2) ** 3
    out: Floats = daily * (1 - weekly_depth * weekend)
    return out


def saw(epoch_seconds: Floats, period: Floats, phase: Floats) -> Floats:
    """From 0 to 1 over nine tenths of a period, back to 0 in the last tenth: growth and gradual cleaning."""
    part = (epoch_seconds / period + phase) % 1.0
    out: Floats = np.where(part < 0.9, part / 0.9, (1 - part) / 0.1)
    return out


def autoregressive(innovations: Floats, memory: Floats, last: Floats) -> Floats:
    """AR(1) paths of unit variance, `(rows, steps)`, from standard normals; `memory` and `last` are `(rows,)`."""
    out = innovations * np.sqrt(1 - memory**2)[:, None]
    before = last
    for step in range(out.shape[1]):
        out[:, step] += memory * before
        before = out[:, step]
    return out


def smoothed(values: Floats, memory: float, last: Floats) -> Floats:
    """Exponential smoothing along the last axis, `(rows, steps)`; `last` is what the previous call ended with."""
    out = values * (1 - memory)
    before = last
    for step in range(out.shape[1]):
        out[:, step] += memory * before
        before = out[:, step]
    return out


@dataclass(frozen=True)
class TimeBlock:
    """A block of time: its number, and the middles of its steps in seconds from the start, `(T,)`."""

    number: int
    middle: Floats


def time_block(number: int, low: int, high: int, interval_seconds: int) -> TimeBlock:
    """The steps from `low` up to, not including, `high`."""
    return TimeBlock(number, (np.arange(low, high, dtype=np.float64) + 0.5) * float(interval_seconds))


def memory_of(seconds: float, interval_seconds: float) -> float:
    """The AR(1) coefficient whose correlation falls to 1/e in `seconds`."""
    return float(np.exp(-interval_seconds / seconds))
