"""The model of a shard as it lies in the state of `detect`: a snapshot, and a journal of the windows that it has taken since.

A gauge's share of a snapshot is several times as large as its row of a window, and every window changes all of it. So a batch writes
a snapshot once in `EVERY` windows, shards in turns, and its windows otherwise. Whoever needs the model takes these windows again:
the state after a window depends on the log alone, so it is the same model, to the byte. Decision 50 has figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields

import numpy as np
import pyarrow as pa

from models.core.parameters import DetectorParameters
from models.core.windows import Windows
from models.detection.alarm_bounds import EarlyParameters
from models.detection.detector import ShardDetector
from models.records.records import PEERS
from pipelines.errors import DeterminismViolation
from pipelines.state.state_packing import BUFFER, pack_parts, unpack_parts
from pipelines.state.window_buffer import decode_stream, encode_stream

FORMAT = b"1"
EVERY = 8  # windows
# Of entries, which each batch writes of each shard: Zstandard takes 0.2 ms more of one, however small.
CODEC = pa.Codec("lz4")
ENTRY = "windows-"  # and a number below `EVERY`: an entry of the journal, the windows of a batch
COLUMNS = tuple(one.name for one in fields(Windows) if one.name != "peers")
TYPES = {"series": pa.string(), "n": pa.int64(), "template": pa.string(), "sample": pa.string()}
SCHEMA = pa.schema([(name, TYPES.get(name, pa.float64())) for name in (*COLUMNS, *PEERS)])

TakenWindows = list[tuple[int, Windows]]


class ShardJournal:
    """Decides what a batch writes of the model of a shard: a journal entry or a snapshot.

    `add` each window that the model is stepped over, then store what `changes` returns.
    """

    def __init__(self, detector: ShardDetector, shard: int) -> None:
        """`detector` is the model before the batch's first window."""
        self._detector, self._shard, self._before = detector, shard, detector.steps
        self._taken: TakenWindows = []

    def add(self, window_end: int, windows: Windows) -> None:
        """Note a window that ends at `window_end`, epoch milliseconds, with the rows that the model is stepped with."""
        if len(self._taken) < EVERY:  # with more there is a snapshot in any case
            self._taken.append((window_end, windows))

    def changes(self, has_snapshot: bool) -> dict[str, bytes]:
        """The parts to store, by name: the windows since the last batch, or a snapshot, a full one unless the state has one already."""
        before, after = self._before + self._shard, self._detector.steps + self._shard
        if has_snapshot and before // EVERY == after // EVERY:
            return {f"{ENTRY}{before % EVERY}": encode_entry(self._taken)}
        return pack_parts(self._detector.dump(only_changed=has_snapshot))


def restore_model(
    stored: Mapping[str, bytes],
    done: int,
    parameters: DetectorParameters,
    shard: int,
    early: EarlyParameters | None = None,
) -> ShardDetector | None:
    """Restore the model of a shard from its snapshot and journal; None if there is no snapshot.

    `done` is the last window that the buffer of waiting rows has returned. Raises ValueError for another format, DeterminismViolation where the
    model does not end at that window: an entry of the journal is missing.
    """
    snapshot = unpack_snapshot(stored)
    if not snapshot:
        return None
    detector = ShardDetector.load(snapshot, parameters, shard, early)
    while (entry := f"{ENTRY}{(detector.steps + shard) % EVERY}") in stored:
        windows = [one for one in decode_entry(stored[entry]) if one[0] > detector.last_window]
        if not windows:  # left from an earlier snapshot
            break
        for window_end, rows in windows:
            detector.step(window_end, rows)
    check_end(detector, done, shard)
    return detector


def check_end(detector: ShardDetector, done: int, shard: int) -> None:
    """Raise DeterminismViolation unless a model has taken all windows up to `done`, and no other."""
    found, wanted = detector.last_window, max(done, 0)  # before the first one 0, and BEGINNING
    if found != wanted:
        msg = (
            f"detect: the state of shard {shard} ends at {np.datetime64(found, 'ms')}Z, wanted {np.datetime64(wanted, 'ms')}Z: "
            "windows are missing, or too many; start from a savepoint, `kappa run all --savepoint NAME --replace`, or replay the log"
        )
        raise DeterminismViolation(msg)


def full_parts(stored: Mapping[str, bytes], done: int, parameters: DetectorParameters, shard: int) -> dict[str, bytes]:
    """All parts of the restored model, as `ShardDetector.dump` returns them; none if there is no snapshot."""
    detector = (
        restore_model(stored, done, parameters, shard) if any(name.startswith(ENTRY) for name in stored) else None
    )
    return unpack_snapshot(stored) if detector is None else detector.dump()


def unpack_snapshot(stored: Mapping[str, bytes]) -> dict[str, bytes]:
    """The parts of the last snapshot, without the journal and the buffer."""
    return unpack_parts({name: data for name, data in stored.items() if name != BUFFER and not name.startswith(ENTRY)})


def encode_entry(taken: TakenWindows) -> bytes:
    """Encode windows as an Arrow IPC stream. Its schema has the format's version, the windows' ends, and the number of rows of each."""
    about = {"ends": [end for end, _ in taken], "rows": [len(windows) for _, windows in taken]}
    columns = {name: np.concatenate([getattr(windows, name) for _, windows in taken]) for name in COLUMNS}
    columns |= dict(zip(PEERS, np.concatenate([windows.peers for _, windows in taken]).T, strict=True))
    arrays = [pa.array(columns[one.name], type=one.type) for one in SCHEMA]
    return encode_stream(arrays, SCHEMA, FORMAT, about, CODEC)


def decode_entry(entry: bytes) -> Iterator[tuple[int, Windows]]:
    """The inverse of `encode_entry`. Raises ValueError for another format."""
    table, about = decode_stream(entry, FORMAT, "journal of a shard")
    columns = {name: table[name].to_numpy() for name in COLUMNS}
    peers = np.stack([table[name].to_numpy() for name in PEERS], axis=1)
    at = 0
    for end, rows in zip(about["ends"], about["rows"], strict=True):
        own = slice(at, at + rows)
        at += rows
        yield end, Windows(**{name: column[own] for name, column in columns.items()}, peers=peers[own])
