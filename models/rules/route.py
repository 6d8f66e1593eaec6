"""Routes: which incidents are sent to which channels, as people write them into the settings or into the log."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from models.records.records import EPISODE_KINDS, INFO, SEVERITIES
from models.rules.rule import Instant, Matcher, Rule, instant, place_patterns

INSTANT_MS = 1
MOST_MINUTES = 1e6
CHANNEL_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


@dataclass(frozen=True)
class Route:
    """A route, and the incidents that it is for: all that is given must hold.

    Parameters
    ----------
    name
        What people call it; its number in the settings if empty.
    kinds
        Kinds of incidents.
    severity
        Severity that an incident has at least.
    host, service
        Patterns, as those of rules; one host or service of the incident must match.
    labels
        Patterns by name of a label; one of its metrics must have a label that matches.
    since, until, days, hours, zone
        As those of rules; the last window of the incident must be in them.
    channels
        Names of the channels that it goes to. Without any it goes to none.
    escalate_minutes, escalate_to
        After how many minutes it goes to which channels as well, where nobody has labelled it.

    Raises
    ------
    ValueError
        For a malformed pattern, name or time, an unknown kind or severity, or half of an escalation.
    """

    name: str = ""
    kinds: tuple[str, ...] = ()
    severity: str = INFO
    host: str | None = None
    service: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    since: Instant = None
    until: Instant = None
    days: tuple[str, ...] = ()
    hours: str = ""
    zone: str = "UTC"
    channels: tuple[str, ...] = ()
    escalate_minutes: float | None = None
    escalate_to: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the values. Lists become tuples, instants text."""
        for name in ("since", "until"):
            object.__setattr__(self, name, instant(name, getattr(self, name)))
        for name in ("kinds", "days", "channels", "escalate_to"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        wanted = {"kinds": (self.kinds, EPISODE_KINDS), "severity": ((self.severity,), SEVERITIES)}
        for name, (given, known) in wanted.items():
            unknown = [one for one in given if one not in known]
            if unknown:
                msg = f"{name} has {unknown[0]!r}; wanted {', '.join(known)}"
                raise ValueError(msg)
        malformed = [name for name in self.named_channels if not CHANNEL_NAME.fullmatch(name)]
        if malformed:
            msg = f"{malformed[0]!r} is no name of a channel; wanted a to z, 0 to 9 and _, 40 at most, a letter first"
            raise ValueError(msg)
        if (self.escalate_minutes is None) != (not self.escalate_to):
            msg = "escalate_minutes and escalate_to belong together: set both, or neither"
            raise ValueError(msg)
        if self.escalate_minutes is not None and not 0 < self.escalate_minutes <= MOST_MINUTES:
            msg = f"escalate_minutes is {self.escalate_minutes}; wanted a number above 0, at most {MOST_MINUTES}"
            raise ValueError(msg)
        _ = self.times, self.patterns  # raise ValueError for what is malformed

    @property
    def named_channels(self) -> tuple[str, ...]:
        """All channels that it names."""
        return (*self.channels, *self.escalate_to)

    @property
    def span(self) -> tuple[float, float]:
        """`since` and `until`, epoch milliseconds; infinite where they are not given."""
        return self.times.span

    @cached_property
    def times(self) -> Rule:
        """Its times as those of a rule, which must have an effect; this one's is not used."""
        days, hours, zone = self.days, self.hours, self.zone
        return Rule(since=self.since, until=self.until, days=days, hours=hours, zone=zone, mute=True)

    @cached_property
    def patterns(self) -> dict[str, Matcher]:
        """Patterns of host, service and labels, by `host`, `service` and `labels.NAME`."""
        return place_patterns(self.host, self.service, self.labels)

    def holds(self, window_end: int) -> bool:
        """Whether the end of a window, epoch ms, is in its times."""
        return self.times.holds(window_end, INSTANT_MS)
