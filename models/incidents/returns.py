"""Series that go back to where they were before a change: the end of something that is known, and no incident of their own.

A change to beyond the expected interval, adopted within the last day, is remembered with that interval. An episode of the same series whose
value lies in it, nearer to the level before than to the one after, is a *return*. So is a mix of templates in which the template is rarer
again whose rate had risen, or the other way round: that a rate has fallen is known by the mix alone. A return stays an episode, and is no
evidence for an incident. What is no matter of the value, as one that is stuck, is no return.

A return that is adopted ends what is remembered: if the same happens again, that is an incident like the first one.

It fails where what was usual up to a day ago is brought back by a fault. A template that is merged with others meanwhile is another one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from models.core.series import quote
from models.records.records import EpisodeEvent

MEMORY_MS = 86_400_000
MOST = 10_000  # changes that are remembered, about 150 bytes each; of more the oldest are forgotten
MIX = "mix"
# parts of the model that speak of how large something is
OF_VALUES = (MIX, "rate", "level", "step", "mean", "rhythm", "local")


class AdoptedChange(NamedTuple):
    """When a series changed (epoch ms), what was expected of it until then, and the levels before and after."""

    at: int
    lower: float
    upper: float
    before: float
    after: float


@dataclass
class Returns:
    """The changes of the last day, by `own_key`."""

    changes: dict[str, AdoptedChange] = field(default_factory=dict)

    def learn(self, events: Iterable[EpisodeEvent], window_end: int) -> None:
        """Take in the events of a window (its end in epoch ms): changes are remembered, and the end of one that goes back ends what is."""
        changes = [event for event in events if event.kind == "change" and event.part in OF_VALUES]
        for event in changes:
            if not self.is_return(event):
                self._remember(event)
            elif event.status == "close":
                for key in (own_key(event), rate_key(event)):
                    self.changes.pop(key, None)
        if changes:
            self._forget(window_end)

    def _remember(self, event: EpisodeEvent) -> None:
        """Keep a change that leaves what was expected, unless another one of its series is known."""
        change = AdoptedChange(event.window_end, event.lower, event.upper, event.before, event.after)
        leaves = change.lower <= change.before <= change.upper and not change.lower <= change.after <= change.upper
        if all(map(math.isfinite, change)) and leaves and event.status != "close" and self._known(event) is None:
            self.changes[own_key(event)] = change

    def _forget(self, now: int) -> None:
        """Forget what is two days old, as an episode may be adopted late, and of more than `MOST` changes the oldest."""
        kept = sorted((change.at, key) for key, change in self.changes.items() if now - change.at <= 2 * MEMORY_MS)
        self.changes = {key: self.changes[key] for _, key in kept[-MOST:]}

    def is_return(self, event: EpisodeEvent) -> bool:
        """Whether an anomaly or a change is a return."""
        if event.kind not in ("anomaly", "change") or event.part not in OF_VALUES:
            return False
        change = self._known(event)
        if change is not None and change.lower <= event.value <= change.upper:
            return abs(event.value - change.before) < abs(event.value - change.after)
        of_rate = self._of_rate(event)
        if of_rate is None:
            return False
        return event.value < event.lower if of_rate.after > of_rate.before else event.value > event.upper

    def is_over(self, event: EpisodeEvent) -> bool:
        """Whether an episode that was a return goes elsewhere now; not of one whose change is forgotten."""
        return (self._known(event) or self._of_rate(event)) is not None and not self.is_return(event)

    def _known(self, event: EpisodeEvent) -> AdoptedChange | None:
        """The change of its series that was adopted within the day before an episode began."""
        return self._lately(own_key(event), event.start)

    def _of_rate(self, event: EpisodeEvent) -> AdoptedChange | None:
        """The same of the rate of the template that differs most in a mix."""
        return self._lately(rate_key(event), event.start) if event.part == MIX else None

    def _lately(self, key: str, start: int) -> AdoptedChange | None:
        found = self.changes.get(key)
        return found if found is not None and start - found.at <= MEMORY_MS else None

    @classmethod
    def load(cls, changes: Mapping[str, Sequence[Any]]) -> Returns:
        """From JSON types."""
        return cls({key: AdoptedChange(*change) for key, change in changes.items()})


def own_key(event: EpisodeEvent) -> str:
    """Names what an episode is about: its series; of a template the text, of a mix also the template that differs most."""
    if event.part == MIX:
        return f"mix/{event.series}/{quote(event.template or '')}"
    return rate_key(event) if event.template else event.series


def rate_key(event: EpisodeEvent) -> str:
    """Names the rate of the template of an episode, on its host."""
    return f"rate/{quote(event.host)}/{quote(event.service)}/{quote(event.template or '')}"
