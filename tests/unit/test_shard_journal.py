"""The journal of a shard: windows since the last snapshot, and the model that follows from both."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pyarrow as pa
import pytest
from support.savepoint_stories import QUICK

from models.core.windows import Windows
from models.detection.detector import ShardDetector
from pipelines.errors import DeterminismViolation
from pipelines.state.shard_journal import (
    ENTRY,
    EVERY,
    ShardJournal,
    TakenWindows,
    decode_entry,
    encode_entry,
    full_parts,
    restore_model,
)
from pipelines.state.state_packing import BUFFER, NOW

START, STEP = 1_767_614_400_000, 10_000


def random_windows(rng: np.random.Generator, n: int) -> Windows:
    """Rows of every kind of value that a window may hold."""
    names = np.array(sorted(f"gauge/höst-{i}/web/metric.{i}" for i in range(n)), dtype=object)
    x = rng.normal(1e6, 1, n)
    peers = np.where(rng.random((n, 4)) < 0.5, np.nan, rng.normal(size=(n, 4)))
    texts = np.array([None, "", "a\n<*>"], dtype=object)[rng.integers(0, 3, n)]
    return Windows(names, rng.integers(1, 10**10, n), x, np.full(n, np.nan), x - 1, x + 1, -x, texts, texts, peers)


def taken(rng: np.random.Generator, sizes: list[int]) -> TakenWindows:
    return [(START + i * STEP, random_windows(rng, n)) for i, n in enumerate(sizes)]


def same(one: Windows, other: Windows) -> bool:
    pairs = [(getattr(one, f.name), getattr(other, f.name)) for f in fields(Windows)]
    return all(
        x.dtype == y.dtype
        and x.shape == y.shape
        and (x.tolist() if x.dtype == object else x.tobytes()) == (y.tolist() if y.dtype == object else y.tobytes())
        for x, y in pairs
    )


@pytest.mark.parametrize("sizes", [[0], [5], [3, 0, 7], [0, 0]])
def test_windows_are_read_as_they_were_written(sizes: list[int]) -> None:
    written = taken(np.random.default_rng(1), sizes)
    read = list(decode_entry(encode_entry(written)))
    assert [end for end, _ in read] == [end for end, _ in written]
    assert all(same(one, other) for (_, one), (_, other) in zip(read, written, strict=True))


def test_an_entry_that_is_not_ours_is_refused() -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("series", pa.string())])):
        pass
    with pytest.raises(ValueError, match="journal of a shard has format none"):
        list(decode_entry(sink.getvalue().to_pybytes()))


def gauges(rng: np.random.Generator, n: int) -> Windows:
    """A window of gauges, among them one that is new now and then."""
    names = sorted({*(f"gauge/host-{i % 3}/web/m{i}" for i in range(n)), f"gauge/host-1/web/rare{rng.integers(9)}"})
    nothing = np.full(len(names), None, dtype=object)
    x = rng.normal(50, 1, len(names))
    return Windows(np.array(names, dtype=object), np.full(len(names), 1), x, 0 * x, x, x, x, nothing, nothing)


@pytest.mark.parametrize("shard", [0, 3])
def test_a_snapshot_and_the_windows_since_are_the_model(shard: int) -> None:
    """After each batch, of one to four windows; what is left of earlier snapshots is not taken again."""
    rng, detector, end = np.random.default_rng(shard), ShardDetector(QUICK, shard=shard), START
    stored: dict[str, bytes] = {}
    snapshots = 0
    for _ in range(60):
        journal, kept = ShardJournal(detector, shard), NOW in stored
        for _ in range(rng.integers(1, 5)):
            end += STEP * int(rng.integers(1, 4))
            rows = gauges(rng, 12)
            journal.add(end, rows)
            detector.step(end, rows)
        changes = journal.changes(kept)
        snapshots += NOW in changes
        stored |= changes
        again = restore_model({**stored, BUFFER: b"rows that wait"}, end, QUICK, shard)
        assert again is not None
        assert (again.steps, again.last_window) == (detector.steps, end)
        # of a copy: a dump changes what the next one holds
        assert full_parts(stored, end, QUICK, shard) == again.dump()
    assert full_parts(stored, end, QUICK, shard) == detector.dump()
    assert detector.steps // EVERY <= snapshots <= detector.steps // EVERY + 1
    assert sum(name.startswith(ENTRY) for name in stored) <= EVERY


def journal_of(windows: int, batch: int = 1) -> tuple[dict[str, bytes], int]:
    """What is stored of shard 0 after so many windows, some to a batch, and the end of the last one."""
    rng, detector, stored = np.random.default_rng(1), ShardDetector(QUICK), dict[str, bytes]()
    for begin in range(0, windows, batch):
        journal, kept = ShardJournal(detector, 0), NOW in stored
        for k in range(begin, begin + batch):
            rows = gauges(rng, 3)
            journal.add(START + k * STEP, rows)
            detector.step(START + k * STEP, rows)
        stored |= journal.changes(kept)
    return stored, detector.last_window


@pytest.mark.parametrize("batch", [1, 2])
def test_a_missing_entry_is_found(batch: int) -> None:
    """Whichever it is of those since the last snapshot: each of the others is as it was, and the last one ends where the buffer does."""
    stored, done = journal_of(2 * EVERY - 2, batch)
    assert restore_model(stored, done, QUICK, 0) is not None
    fresh = [
        name for name in stored if name.startswith(ENTRY) and list(decode_entry(stored[name]))[-1][0] > START + 8 * STEP
    ]
    assert len(fresh) > 2 // batch
    for name in fresh:
        torn = {part: data for part, data in stored.items() if part != name}
        with pytest.raises(
            DeterminismViolation, match=r"the state of shard 0 ends at 2026-.*Z, wanted 2026-.*Z: windows are missing"
        ):
            restore_model(torn, done, QUICK, 0)


def test_an_entry_too_many_is_found() -> None:
    stored, done = journal_of(EVERY + 4)
    with pytest.raises(DeterminismViolation, match="or too many"):
        full_parts(stored, done - STEP, QUICK, 0)


def test_shards_write_their_snapshots_in_turns() -> None:
    at = {}
    for shard in range(EVERY):
        detector, rng = ShardDetector(QUICK, shard=shard), np.random.default_rng(shard)
        for k in range(2 * EVERY):
            journal = ShardJournal(detector, shard)
            rows = gauges(rng, 2)
            journal.add(START + k * STEP, rows)
            detector.step(START + k * STEP, rows)
            if k >= EVERY and NOW in journal.changes(has_snapshot=True):
                at[shard] = k
    assert sorted(at.values()) == list(range(EVERY, 2 * EVERY))


def test_a_batch_of_many_windows_keeps_few_of_them() -> None:
    detector, rng = ShardDetector(QUICK), np.random.default_rng(1)
    journal = ShardJournal(detector, 0)
    for k in range(3 * EVERY):
        journal.add(START + k * STEP, gauges(rng, 2))
        detector.step(START + k * STEP, gauges(rng, 2))
    assert NOW in journal.changes(has_snapshot=True)


def test_a_shard_without_a_snapshot_has_no_model() -> None:
    assert restore_model({BUFFER: b"rows that wait"}, -1, QUICK, 0) is None
    assert full_parts({BUFFER: b"rows that wait"}, -1, QUICK, 0) == {}


def test_a_window_writes_a_fraction_of_a_snapshot() -> None:
    """Bytes of a gauge with one point in each window."""
    rng, series = np.random.default_rng(1), 2_000
    stored: dict[str, bytes] = {}
    names = np.array(sorted(f"gauge/host-{i % 40:04}/web/metric.{i:04}" for i in range(series)), dtype=object)
    nothing, ones = np.full(series, None, dtype=object), np.ones(series, dtype=np.int64)
    detector = ShardDetector(QUICK)
    written = []
    for k in range(4 * EVERY):
        x = np.round(rng.normal(50, 1, series), 4)
        rows = Windows(names, ones, x, 0 * x, x, x, x, nothing, nothing)
        journal = ShardJournal(detector, 0)
        journal.add(START + k * STEP, rows)
        detector.step(START + k * STEP, rows)
        changes = journal.changes(NOW in stored)
        stored |= changes
        written.append(sum(map(len, changes.values())) / series)
    assert np.median(written) < 60 < max(written)
