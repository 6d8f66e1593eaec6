"""Which jobs of a process still make progress: pure bookkeeping, with the clock passed in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class _Since:
    """When a job last made progress, and whether it ever did."""

    at: float
    begun: bool = False


class ProgressWatch:
    """Knows of each job when it last made progress.

    A job counts as hung after `stale_seconds` without any, and before its first progress after `start_seconds`. While no job is
    expected, because the process starts or waits for another one, the process itself has to give signs of life, within
    `start_seconds`. Times are seconds of any clock that does not go back.
    """

    def __init__(self, now: float, stale_seconds: float, start_seconds: float) -> None:
        self._stale, self._start = stale_seconds, max(start_seconds, stale_seconds)
        self._process = now
        self._jobs: dict[str, _Since] = {}

    @property
    def jobs(self) -> tuple[str, ...]:
        """The jobs that are expected to make progress."""
        return tuple(self._jobs)

    def alive(self, now: float) -> None:
        """The process gives a sign of life."""
        self._process = now

    def expect(self, job: str, now: float) -> None:
        """A job has been started."""
        self._jobs[job] = _Since(now)

    def forget(self, now: float) -> None:
        """All jobs have been stopped."""
        self._jobs.clear()
        self._process = now

    def progress(self, job: str, now: float) -> None:
        """A job has made progress. One that is not expected any more does not count."""
        since = self._jobs.get(job)
        if since is not None:
            since.at, since.begun = now, True

    def hung(self, now: float) -> str | None:
        """What makes no progress any more, in words; None while all is well."""
        for job, since in self._jobs.items():
            idle = now - since.at
            if idle > (self._stale if since.begun else self._start):
                return f"{job} has made no progress for {idle:.0f} s"
        if not self._jobs and now - self._process > self._start:
            return f"it has started no job within {self._start:.0f} s"
        return None
