"""What an operator accepts for one start of jobs, as options of `kappa run` say it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Accepted:
    """What jobs go on with, where without it they are refused.

    `gap`         records that were deleted unread; the gap is recorded in `dead-letters`.
    `violation`   a violation of determinism that has ended the version; it is recorded in `dead-letters`.
    `other_home`  results of the version that another home has made.
    """

    gap: bool = False
    violation: bool = False
    other_home: bool = False

    @property
    def options(self) -> tuple[str, ...]:
        """As options of the command."""
        found = (
            ("--accept-gap", self.gap),
            ("--accept-violation", self.violation),
            ("--take-over", self.other_home),
        )
        return tuple(option for option, given in found if given)


NOTHING = Accepted()
