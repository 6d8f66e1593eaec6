"""Windows come out complete, in order, once: whatever the batches, repeats and crashes."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.records.records import PEERS
from pipelines.state.window_buffer import NUMBERS, SCHEMA, WindowBuffer

Item = tuple[str, int, int]  # ("row", window, series) or ("watermark", window, 0)


def rows(pairs: list[tuple[int, int]]) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "series": np.array([f"gauge/h/s/m{s}" for _, s in pairs], dtype=object),
        "window_end": np.array([w for w, _ in pairs], dtype=np.int64),
        "n": np.ones(len(pairs), dtype=np.int64),
        "template": np.full(len(pairs), None, dtype=object),
        "sample": np.full(len(pairs), None, dtype=object),
    }
    columns |= {name: np.array([w * 100.0 + s for w, s in pairs]) for name in NUMBERS}
    columns |= {name: np.full(len(pairs), np.nan) for name in PEERS}
    return {name: columns[name] for name in SCHEMA.names}


def feed(buffer: WindowBuffer, items: list[Item]) -> list[tuple[int, list[str], list[float]]]:
    """One batch: its rows and watermarks, and the windows that it completes."""
    pairs = [(w, s) for kind, w, s in items if kind == "row"]
    watermarks = [w for kind, w, _ in items if kind == "watermark"]
    if watermarks:
        buffer.add_watermarks(np.array(watermarks, dtype=np.int64))
    if pairs:
        buffer.add_rows(rows(pairs))
    return [(w, list(x.series), list(x.mean)) for w, x in buffer.take()]


def log_of(content: dict[int, set[int]]) -> list[Item]:
    """What extract writes: the rows of each window, then its watermark."""
    return [
        item for w in sorted(content) for item in [*[("row", w, s) for s in sorted(content[w])], ("watermark", w, 0)]
    ]


def test_a_long_name_does_not_make_the_others_long() -> None:
    columns = rows([(10, s) for s in range(5_000)])
    columns["series"][7] = "gauge/h/s/" + "m" * 2_038
    buffer = WindowBuffer()
    buffer.add_rows(columns)
    buffer.dump()  # the first time modules are imported
    tracemalloc.start()
    try:
        buffer.dump()
        assert tracemalloc.get_traced_memory()[1] < 4_000_000  # 41 MB with texts of numpy
    finally:
        tracemalloc.stop()


contents = st.dictionaries(st.integers(1, 8).map(lambda w: w * 10), st.sets(st.integers(0, 5)), min_size=1, max_size=6)


@given(contents, st.data())
def test_any_split_repeat_and_crash_gives_the_same_windows(content: dict[int, set[int]], data: st.DataObject) -> None:
    log = log_of(content)
    expected = feed(WindowBuffer(), log)
    got, buffer, at = [], WindowBuffer(), 0
    while at < len(log):
        size = data.draw(st.integers(1, len(log)))
        batch = log[at : at + size]
        if data.draw(st.booleans()):  # the sink wrote the batch twice
            batch = batch + batch
        saved = buffer.dump()
        out = feed(buffer, batch)
        if data.draw(st.booleans()):  # killed before the commit: the batch is done again from the saved state
            buffer = WindowBuffer.load(saved)
            out = feed(buffer, batch)
        got += out
        back = data.draw(st.integers(0, 2))  # extract restarted and wrote its last records again
        at = max(0, at + size - back) if data.draw(st.booleans()) and at + size < len(log) else at + size
    assert got == expected


@given(contents)
def test_dump_and_load_are_inverse(content: dict[int, set[int]]) -> None:
    log = log_of(content)
    buffer = WindowBuffer()
    feed(buffer, log[: len(log) // 2])
    again = WindowBuffer.load(buffer.dump())
    assert again.dump() == buffer.dump()
    assert feed(again, log[len(log) // 2 :]) == feed(buffer, log[len(log) // 2 :])


def test_a_window_without_rows_of_this_shard_is_still_a_window() -> None:
    assert feed(WindowBuffer(), [("watermark", 10, 0), ("watermark", 20, 0)]) == [(10, [], []), (20, [], [])]


def test_rows_without_their_tick_are_kept() -> None:
    buffer = WindowBuffer()
    assert feed(buffer, [("row", 10, 0)]) == []
    assert len(buffer.rows["n"]) == 1


def test_another_format_is_refused() -> None:
    data = WindowBuffer().dump().replace(b"format\x00", b"farmat\x00")
    with pytest.raises(ValueError, match="format"):
        WindowBuffer.load(data)


def test_repeats_of_windows_that_are_done_are_not_kept() -> None:
    buffer, batch = WindowBuffer(), [("row", 10, 0), ("watermark", 10, 0)]
    assert feed(buffer, batch) == [(10, ["gauge/h/s/m0"], [1000.0])]
    assert feed(buffer, batch) == []
    assert len(buffer.rows["n"]) == 0
