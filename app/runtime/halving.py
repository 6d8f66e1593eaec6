"""Which records of some ranges of offsets cannot be read: found by halving, with few readings. Knows nothing of Spark or Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

Place = tuple[str, int, int]  # topic, partition, offset


@dataclass(frozen=True)
class OffsetSpan:
    """The records of a partition from offset `begin` to `end` - 1."""

    topic: str
    partition: int
    begin: int
    end: int

    @property
    def records(self) -> int:
        """How many offsets it has."""
        return self.end - self.begin


Spans = tuple[OffsetSpan, ...]
# Reads spans without some records; answers why that cannot be done, None where it can.
Probe = Callable[[Spans, Sequence[Place]], str | None]
OnSearch = Callable[[Spans], None]


def size(spans: Spans) -> int:
    """How many offsets spans have together."""
    return sum(span.records for span in spans)


def halves(spans: Spans) -> tuple[Spans, Spans]:
    """Spans of at least two offsets in two parts of equal size, in their order."""
    left, right, wanted = [], [], size(spans) // 2
    for span in spans:
        here = min(span.records, wanted)
        wanted -= here
        cut = span.begin + here
        if here:
            left.append(OffsetSpan(span.topic, span.partition, span.begin, cut))
        if cut < span.end:
            right.append(OffsetSpan(span.topic, span.partition, cut, span.end))
    return tuple(left), tuple(right)


def find_unreadable(
    spans: Spans, probe: Probe, on_search: OnSearch = lambda spans: None
) -> Iterator[tuple[Place, str]]:
    """The records that cannot be read, each with the reason, one after the other.

    With k of them among n it takes at most 1 + k (3 + log2 n) probes. Where no record fails by itself, but several do together,
    none is found.

    Parameters
    ----------
    spans
        All records, n of them.
    probe
        Reads some of them, without records that have been found.
    on_search
        Called with what is looked at.

    Yields
    ------
    tuple
        Topic, partition and offset of a record, and why it could not be read by itself.
    """
    found: list[Place] = []
    while probe(spans, found) is not None:
        part = spans
        while size(part) > 1:
            on_search(part)
            left, right = halves(part)
            part = right if probe(left, found) is None else left
        (one,) = part
        place = one.topic, one.partition, one.begin
        reason = probe(part, found)
        if reason is None or place in found:
            return
        found.append(place)
        yield place, reason
