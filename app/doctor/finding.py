"""What a check has found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import IntEnum


class Status(IntEnum):
    """How bad it is; the worst first."""

    DANGER = 0
    WARNING = 1
    OK = 2


@dataclass(frozen=True)
class Finding:
    """A fact of a deployment: what was looked at, what was found, what was wanted, and what to do."""

    status: Status
    check: str
    found: str
    wanted: str = ""
    advice: str = ""

    def record(self) -> dict[str, str]:
        """As JSON types."""
        return {**asdict(self), "status": self.status.name.lower()}


def ok(check: str, found: str) -> Finding:
    """A finding that is as it should be."""
    return Finding(Status.OK, check, found)


def warning(check: str, found: str, wanted: str, advice: str) -> Finding:
    """A finding that will be a problem when something else goes wrong."""
    return Finding(Status.WARNING, check, found, wanted, advice)


def danger(check: str, found: str, wanted: str, advice: str) -> Finding:
    """A finding by which data or results are lost, or jobs stop."""
    return Finding(Status.DANGER, check, found, wanted, advice)
