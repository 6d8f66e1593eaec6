"""How a model's parts are stored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from models.core.parameters import DetectorParameters
from models.core.store import read_numbers, read_part, write_numbers
from models.core.windows import Windows
from models.detection.detector import ShardDetector
from pipelines.state.state_packing import NOW, pack_parts, unpack_parts

PARTS = {"names": b"n", "texts": b"", "cold": b"c", "gauges": b"\x00\xff", "counts": b"c" * 100_000, "hosts": b""}


def test_parts_that_change_often_are_stored_as_one() -> None:
    stored = pack_parts(PARTS)
    assert sorted(stored) == ["cold", "names", NOW, "texts"]
    assert unpack_parts(stored) == PARTS


def test_what_was_stored_of_the_others_stays_where_only_some_are_dumped() -> None:
    stored = pack_parts(PARTS)
    stored |= pack_parts({"gauges": b"new", "counts": b"", "hosts": b"h"})
    assert unpack_parts(stored) == PARTS | {"gauges": b"new", "counts": b"", "hosts": b"h"}


def test_equal_parts_are_stored_as_equal_bytes() -> None:
    assert pack_parts(dict(reversed(PARTS.items()))) == pack_parts(PARTS)


@pytest.mark.parametrize("n", [0, 1, 7])
def test_numbers_of_any_type_and_size_are_read_as_they_were_written(n: int) -> None:
    rng = np.random.default_rng(n)
    kinds = {"u1": 1, "u2": 3, "f2": 4, "f4": 1, "u4": 2, "f8": 5, "i4": 1}
    columns = {kind: rng.integers(0, 256, (size, n, np.dtype(kind).itemsize), np.uint8) for kind, size in kinds.items()}
    numbers = {kind: data.view(kind)[..., 0] for kind, data in columns.items()} | {"flat": np.arange(float(n))}
    found = read_numbers(*read_part(write_numbers(numbers)))
    assert list(found) == list(numbers)
    for name, read in found.items():
        assert (read.dtype, read.tobytes()) == (numbers[name].dtype, numbers[name].tobytes())
        assert read.flags.writeable


def test_bytes_that_are_alike_lie_side_by_side() -> None:
    values = 1000 + np.random.default_rng(1).standard_normal(10_000)
    packed = len(pa.compress(write_numbers({"x": values}), "lz4"))
    assert packed < 0.9 * len(pa.compress(values.tobytes(), "lz4"))


def test_parts_that_are_not_ours_are_refused() -> None:
    with pytest.raises(ValueError):
        unpack_parts({NOW: b"something else"})


@pytest.mark.slow
def test_an_ordinary_window_writes_at_most_300_bytes_of_a_gauge() -> None:
    """Series of all sizes, some whole and some constant, each with a history of its own, and windows that are missing."""
    rng, series = np.random.default_rng(1), 2_000
    names = np.array(sorted(f"gauge/host-{i % 40:04}/web/metric.{i:04}" for i in range(series)), dtype=object)
    level, spread, first = (
        10 ** rng.uniform(0, 6, series),
        10 ** rng.uniform(-2, 3, series),
        rng.integers(0, 60, series),
    )
    nothing = np.full(series, None, dtype=object)
    detector = ShardDetector(DetectorParameters())
    for window in range(200):
        x = level + spread * rng.standard_normal(series)
        x[::4], x[1::10] = np.round(x[::4]), level[1::10]
        there = (first <= window) & (rng.random(series) > 0.005)
        columns: tuple[Any, ...] = (
            np.full(series, 10),
            x,
            spread**2 * rng.chisquare(9, series),
            x - 1,
            x + 1,
            x,
            nothing,
            nothing,
        )
        rows = Windows(*(column[there] for column in (names, *columns)))
        detector.step(1_800_000_000_000 + 10_000 * window, rows)
    whole = detector.dump()
    assert sorted(stored := pack_parts(detector.dump(only_changed=True))) == [NOW]
    assert unpack_parts(pack_parts(whole) | stored) == whole
    assert len(stored[NOW]) / series < 300
