"""What a shard remembers of mutes and labels, as rows that any table can hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

UNSAID, SPOKEN, DEMAND = "unsaid", "spoken", "demand"
# Columns of the rows, and their types as Arrow calls them.
COLUMNS = {"series": "string", "what": "string", "pattern": "string", "nats": "double", "at": "int64"}


@dataclass
class ControlState:
    """`unsaid` are the series whose open episodes have not been said, because they are muted.

    `spoken` has of series the pattern of their last episode that was said, and when (epoch ms); `demands` what patterns need
    beyond the usual, nats, and since when: see `labels`.
    """

    unsaid: set[str] = field(default_factory=set)
    spoken: dict[str, tuple[str, int]] = field(default_factory=dict)
    demands: dict[str, dict[str, tuple[float, int]]] = field(default_factory=dict)

    def rows(self) -> list[dict[str, Any]]:
        """All of it, in a fixed order: a dict by `COLUMNS` each."""
        found: list[tuple[str, str, str, float, int]] = [(name, UNSAID, "", 0.0, 0) for name in self.unsaid]
        found += [(name, SPOKEN, pattern, 0.0, at) for name, (pattern, at) in self.spoken.items()]
        for name, own in self.demands.items():
            found += [(name, DEMAND, pattern, nats, at) for pattern, (nats, at) in own.items()]
        return [dict(zip(COLUMNS, row, strict=True)) for row in sorted(found)]

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> ControlState:
        """The inverse of `rows`."""
        state = cls()
        for row in rows:
            if row["what"] == UNSAID:
                state.unsaid.add(row["series"])
            elif row["what"] == SPOKEN:
                state.spoken[row["series"]] = (row["pattern"], row["at"])
            else:
                state.demands.setdefault(row["series"], {})[row["pattern"]] = (row["nats"], row["at"])
        return state

    def forget(self, names: Iterable[str]) -> None:
        """Nothing is remembered of what was said of these series, and of labels."""
        for name in names:
            self.spoken.pop(name, None)
            self.demands.pop(name, None)
