"""What is watched: how many series and hosts there are, and how many hosts have each role. Told with every tick."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from models.records.statements import Key


@dataclass(frozen=True)
class Watched:
    """Numbers of series and hosts, of hosts by service (`""`: series without a service), and the length of a window.

    All 0 where it is not known.
    """

    series: int = 0
    hosts: int = 0
    window_seconds: float = 0.0
    services: Mapping[str, int] = field(default_factory=dict)

    def population(self, role: Key) -> int:
        """How many hosts could do what is done in this role; 0 if that is not known."""
        return self.hosts if role[0] == "host" else self.services.get(role[1], 0)

    def record(self) -> dict[str, Any]:
        """Its fields, as JSON types, in one order."""
        return {**vars(self), "services": dict(sorted(self.services.items()))}


NOTHING = Watched()


def together(parts: Iterable[Watched]) -> Watched:
    """What several shards watch: no host is in two of them."""
    parts = list(parts)
    services: Counter[str] = Counter()
    for part in parts:
        services.update(part.services)
    return Watched(
        sum(part.series for part in parts),
        sum(part.hosts for part in parts),
        max((part.window_seconds for part in parts), default=0.0),
        services,
    )
