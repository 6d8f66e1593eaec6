"""What a shard remembers of mutes and labels, as rows that any table can hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

UNSAID, SPOKEN, DEMAND = "unsaid", "spoken", "demand"
# Columns of the rows, and their types as Arrow calls them.
COLUMNS = {"series": "string", "what": "string", "pattern": "string", "nats": "double", "at": "int64", "size": "double"}


@dataclass
class ControlState:
    """`unsaid` are the series whose open episodes have not been said, because they are muted.

    `spoken` has of series the pattern of their last episode that was said, when (epoch ms), and how far off it was, in the
    unit of the novelty; `demands` what patterns need beyond the usual, nats, since when, and how far off they were that
    were labelled (0: whatever that is). See `labels`.
    """

    unsaid: set[str] = field(default_factory=set)
    spoken: dict[str, tuple[str, int, float]] = field(default_factory=dict)
    demands: dict[str, dict[str, tuple[float, int, float]]] = field(default_factory=dict)

    def rows(self) -> list[dict[str, Any]]:
        """All of it, in a fixed order: a dict by `COLUMNS` each."""
        found: list[tuple[str, str, str, float, int, float]] = [(name, UNSAID, "", 0.0, 0, 0.0) for name in self.unsaid]
        found += [(name, SPOKEN, pattern, 0.0, at, size) for name, (pattern, at, size) in self.spoken.items()]
        for name, own in self.demands.items():
            found += [(name, DEMAND, pattern, nats, at, size) for pattern, (nats, at, size) in own.items()]
        return [dict(zip(COLUMNS, row, strict=True)) for row in sorted(found)]

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> ControlState:
        """The inverse of `rows`."""
        state = cls()
        for row in rows:
            if row["what"] == UNSAID:
                state.unsaid.add(row["series"])
            elif row["what"] == SPOKEN:
                state.spoken[row["series"]] = (row["pattern"], row["at"], row["size"])
            else:
                state.demands.setdefault(row["series"], {})[row["pattern"]] = (row["nats"], row["at"], row["size"])
        return state

    def forget(self, names: Iterable[str]) -> None:
        """Nothing is remembered of what was said of these series, and of labels."""
        for name in names:
            self.spoken.pop(name, None)
            self.demands.pop(name, None)
