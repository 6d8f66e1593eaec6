"""The search for records that cannot be read finds exactly them, in few readings."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from app.runtime.halving import OffsetSpan, Place, Spans, find_unreadable, halves, size


def places(spans: Spans) -> list[Place]:
    return [(one.topic, one.partition, offset) for one in spans for offset in range(one.begin, one.end)]


@st.composite
def some_spans(draw: st.DrawFn) -> Spans:
    """Ranges of one or more partitions, some of them empty at first."""
    parts = draw(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3)), min_size=1, max_size=6, unique=True))
    begins = [draw(st.integers(0, 10**12)) for _ in parts]
    return tuple(
        OffsetSpan(topic, partition, begin, begin + draw(st.integers(1, 400)))
        for (topic, partition), begin in zip(parts, begins, strict=True)
    )


class Reader:
    """Fails where one of its killers is read, and where all of `together` are."""

    def __init__(self, killers: set[Place], together: set[Place] | None = None) -> None:
        self.killers, self.together, self.probes = killers, together, 0

    def probe(self, spans: Spans, without: Sequence[Place]) -> str | None:
        self.probes += 1
        read = set(places(spans)) - set(without)
        if self.together is not None and self.together <= read:
            return "too many"
        return "killed" if self.killers & read else None


@given(some_spans())
def test_halves_are_the_whole_in_order(spans: Spans) -> None:
    if size(spans) > 1:
        left, right = halves(spans)
        assert places(left) + places(right) == places(spans)
        assert size(right) - size(left) in (0, 1)


@given(some_spans(), st.data())
def test_exactly_the_records_that_cannot_be_read_are_found_in_few_probes(spans: Spans, data: st.DataObject) -> None:
    killers = set(data.draw(st.lists(st.sampled_from(places(spans)), max_size=6)))
    reader = Reader(killers)
    assert {place for place, _ in find_unreadable(spans, reader.probe)} == killers
    depth = math.ceil(math.log2(size(spans))) if size(spans) > 1 else 0
    assert reader.probes <= 1 + len(killers) * (2 + depth)


@given(some_spans(), st.data())
def test_records_that_fail_only_together_are_not_found(spans: Spans, data: st.DataObject) -> None:
    together = set(
        data.draw(st.lists(st.sampled_from(places(spans)), min_size=2, max_size=5, unique=True))
        if size(spans) > 1
        else []
    )
    if together:
        reader = Reader(set(), together)
        assert not list(find_unreadable(spans, reader.probe))
        assert reader.probes <= 3 + math.ceil(math.log2(size(spans)))


def test_a_reader_that_always_fails_ends_the_search_once_every_record_was_named() -> None:
    spans = (OffsetSpan("a", 0, 5, 8),)
    assert [place for place, _ in find_unreadable(spans, lambda spans, without: "away")] == [("a", 0, 5)]
