"""How a model's parts are stored."""

from __future__ import annotations

import pytest

from pipelines.parts import NOW, joined, parted

PARTS = {"names": b"n", "texts": b"", "cold": b"c", "gauges": b"\x00\xff", "counts": b"c" * 100_000, "hosts": b""}


def test_parts_that_change_often_are_stored_as_one() -> None:
    stored = joined(PARTS)
    assert sorted(stored) == ["cold", "names", NOW, "texts"]
    assert parted(stored) == PARTS


def test_what_was_stored_of_the_others_stays_where_only_some_are_dumped() -> None:
    stored = joined(PARTS)
    stored |= joined({"gauges": b"new", "counts": b"", "hosts": b"h"})
    assert parted(stored) == PARTS | {"gauges": b"new", "counts": b"", "hosts": b"h"}


def test_equal_parts_are_stored_as_equal_bytes() -> None:
    assert joined(dict(reversed(PARTS.items()))) == joined(PARTS)


def test_parts_that_are_not_ours_are_refused() -> None:
    with pytest.raises(ValueError):
        parted({NOW: b"something else"})
