"""When a process that has ended is started again, and when no more: pure decisions, with the clock passed in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class RestartLimits:
    """How restarts are spaced, in seconds.

    `first_seconds`    the longest wait before the first restart; it doubles with each further one.
    `most_seconds`     the longest wait of all.
    `good_seconds`     a process that ran for so long after every job had made progress was well: waits begin again at the first.
    `most_in_vain`     after so many starts in a row in which not every job made progress there is no further one.
    """

    first_seconds: float = 1.0
    most_seconds: float = 60.0
    good_seconds: float = 30.0
    most_in_vain: int = 10


class RestartPolicy:
    """Decides how long to wait before each restart.

    A wait is drawn evenly between half of its limit and the limit, so that processes which one fault has ended do not all
    start at the same moment. `draw` returns a number from 0 to 1. Times are seconds of any clock that does not go back.
    """

    def __init__(self, limits: RestartLimits, draw: Callable[[], float]) -> None:
        self.limits = limits
        self._draw = draw
        self._row = 0
        self._good_since: float | None = None
        self.in_vain = 0

    def progressed(self, now: float) -> None:
        """Every job of the process has ended a batch, or has found that there is nothing to do."""
        self.in_vain = 0
        if self._good_since is None:
            self._good_since = now

    def ended(self, now: float, waits_for_others: bool = False) -> float | None:
        """The process has ended: the seconds to wait before the next start, or None to give up.

        With `waits_for_others` it ended because a server cannot be reached; such starts are not counted as in vain.
        """
        was_well = self._good_since is not None and now - self._good_since >= self.limits.good_seconds
        self._row = 1 if was_well else self._row + 1
        if self._good_since is None and not waits_for_others:
            self.in_vain += 1
        self._good_since = None
        if self.in_vain >= self.limits.most_in_vain:
            return None
        longest = min(self.limits.most_seconds, self.limits.first_seconds * 2.0 ** min(self._row - 1, 30))
        return longest * (1 + self._draw()) / 2
