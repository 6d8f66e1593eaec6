"""Which runbook an incident has, and its address: links by kind, host, service and labels, as people write them into the settings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import quote, urlsplit

from models.rules.rule import Matcher, place_patterns

NAMES = ("kind", "severity", "host", "service", "series", "incident")
DOTS = (".", "..")
IN_BRACES = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class IncidentFacts:
    """What chooses a runbook: `series` is the one with the largest share, `labels` are those of all its metrics."""

    identity: str
    kind: str
    severity: str
    hosts: Sequence[str]
    services: Sequence[str]
    series: str
    labels: frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Runbook:
    """A runbook, and the incidents that it is for: all that is given must hold.

    Parameters
    ----------
    url
        Its address, with names of the incident in braces, see `fill_address`.
    kinds
        Kinds of incidents.
    host, service
        Patterns, as those of rules; one host or service of the incident must match.
    labels
        Patterns by name of a label; one of its metrics must have a label that matches.

    Raises
    ------
    ValueError
        For a malformed pattern, for a name in braces that an incident does not have, and for one before the path: senders choose
        names, and would say where people are led.
    """

    url: str
    kinds: Sequence[str] = ()
    host: str | None = None
    service: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the patterns, and the names in braces."""
        _ = self._patterns
        unknown = [name for name in IN_BRACES.findall(self.url) if name not in NAMES]
        if unknown:
            msg = f"an address of runbooks has {{{unknown[0]}}}, which an incident does not have; there are {', '.join(NAMES)}"
            raise ValueError(msg)
        if IN_BRACES.search(urlsplit(self.url).netloc):
            msg = "an address of runbooks has a name in braces before its path: senders choose names, and would say where it leads"
            raise ValueError(msg)

    @cached_property
    def _patterns(self) -> dict[str, Matcher]:
        return place_patterns(self.host, self.service, self.labels)

    def matches(self, of: IncidentFacts) -> bool:
        """Whether it is for an incident."""
        if self.kinds and of.kind not in self.kinds:
            return False
        return all(any(map(pattern, values_of_part(of, part))) for part, pattern in self._patterns.items())


def values_of_part(of: IncidentFacts, part: str) -> list[str]:
    """What a pattern is compared with: hosts, services, or the values of a label."""
    if part.startswith("labels."):
        name = part.removeprefix("labels.")
        return [value for key, value in of.labels if key == name]
    return list(of.hosts if part == "host" else of.services)


def runbook_address(runbooks: Iterable[Runbook], of: IncidentFacts) -> str | None:
    """The address of the first runbook that is for an incident; None where none is."""
    return next((fill_address(one.url, of) for one in runbooks if one.matches(of)), None)


def fill_address(url: str, of: IncidentFacts) -> str:
    """An address with the names of an incident. They are quoted: whatever they hold, they are part of its path or query.

    Names that are `.` or `..` have a `~` behind them: in a path they would lead out of it, quoted as well.
    """
    host, service = next(iter(of.hosts), ""), next(iter(of.services), "")
    texts = (of.kind, of.severity, host, service, of.series, of.identity)
    for name, text in zip(NAMES, texts, strict=True):
        url = url.replace(f"{{{name}}}", quote(f"{text}~" if text in DOTS else text, safe=""))
    return url
