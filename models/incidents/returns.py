"""Series that go back to where they were before a change: the end of something that is known, and no incident of their own.

A change that was adopted within the last day has an expected interval of before it. An episode of the same series whose value lies in
that interval is a *return*. So is a mix of templates in which the template is rarer again whose rate had risen, or the other way round:
that a rate has fallen is known by the mix alone. A return stays an episode, and is no evidence for an incident.

A return that is adopted ends what is remembered: if the same happens again, that is an incident like the first one. Changes of spread are
not remembered.

It fails where what was usual up to a day ago is brought back by a fault.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from models.core.series import quote
from models.records.records import EpisodeEvent

MEMORY_MS = 86_400_000
MOST = 10_000  # changes that are remembered, about 150 bytes each; of more the oldest are forgotten
MIX, SPREAD = "mix", "spread"


class Before(NamedTuple):
    """Where a series was before it changed: when it did (epoch ms), the expected interval before, and whether it has risen since."""

    at: int
    lower: float
    upper: float
    rose: bool


@dataclass
class Returns:
    """The changes of the last day, by `own_key`."""

    changes: dict[str, Before] = field(default_factory=dict)

    def learn(self, event: EpisodeEvent) -> None:
        """Take in an event. A change is remembered; one that goes back ends what is."""
        if event.kind != "change" or event.status == "close" or event.part == SPREAD:
            return
        if self.has(event):
            for key in (own_key(event), rate_key(event)):
                self.changes.pop(key, None)
        elif event.lower <= event.before <= event.upper and self._known(own_key(event), event.start) is None:
            found, oldest = (
                Before(event.window_end, event.lower, event.upper, event.after > event.before),
                2 * MEMORY_MS,
            )
            kept = {key: before for key, before in self.changes.items() if found.at - before.at <= oldest}
            self.changes = kept | {own_key(event): found}
            if len(self.changes) > MOST:
                del self.changes[min(self.changes, key=lambda key: (self.changes[key].at, key))]

    def has(self, event: EpisodeEvent) -> bool:
        """Whether an anomaly or a change is a return."""
        if event.kind not in ("anomaly", "change") or event.part == SPREAD:
            return False
        before = self._known(own_key(event), event.start)
        if before is not None and before.lower <= event.value <= before.upper:
            return True
        of_rate = self._known(rate_key(event), event.start) if event.part == MIX else None
        return of_rate is not None and (event.value < event.lower if of_rate.rose else event.value > event.upper)

    def _known(self, key: str, start: int) -> Before | None:
        """Where it was before a change that was adopted within the day before an episode began."""
        found = self.changes.get(key)
        return found if found is not None and start - found.at <= MEMORY_MS else None

    @classmethod
    def load(cls, changes: Mapping[str, Sequence[Any]]) -> Returns:
        """From JSON types."""
        return cls({key: Before(*before) for key, before in changes.items()})


def own_key(event: EpisodeEvent) -> str:
    """Names what an episode is about: its series; of a template the text, of a mix also the template that differs most."""
    if event.part == MIX:
        return f"mix/{event.series}/{quote(event.template or '')}"
    return rate_key(event) if event.template else event.series


def rate_key(event: EpisodeEvent) -> str:
    """Names the rate of the template of an episode, on its host."""
    return f"rate/{quote(event.host)}/{quote(event.service)}/{quote(event.template or '')}"
