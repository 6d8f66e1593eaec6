"""Whether the chain itself is well: is it behind, are its jobs healthy, is anything in quarantine or left out by a limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.core.timestamps import is_due
from models.core.wording import counted, duration

ALIVE, BEHIND, UNHEALTHY = "KappaAlive", "KappaBehind", "KappaUnhealthy"
QUARANTINE, LIMITS, VIOLATION = "KappaQuarantine", "KappaLimits", "KappaViolation"
ALERTS = (ALIVE, BEHIND, UNHEALTHY, QUARANTINE, LIMITS, VIOLATION)
OF_JOBS = (QUARANTINE, VIOLATION)  # what they alone know: while none runs these stay as they are
PASSED = {  # what is sent when an alert ends, after a restart too, when its own sentence is not known any more
    ALIVE: "it is not sure that windows are scored in time: kappa's other alerts say why",
    BEHIND: "windows are scored in time again",
    UNHEALTHY: "all jobs make progress again",
    QUARANTINE: "no records are in quarantine any more",
    LIMITS: "no limit has left anything out for ten minutes",
    VIOLATION: "no violation of determinism is left that nobody has accepted",
}
LOOKS = 6  # as often in a row something must hold, or not, before it counts
LARGEST = 2**53  # counts that are exact
LIMITS_MS = 600_000  # how long after a limit left something out


@dataclass(frozen=True)
class ChainState:
    """What is known at a moment. `behind_seconds`: the age of the last window that all shards have scored, or of this process where
    there is none. `health`: what processes with jobs say; `silent`: the jobs for which a process has answered, and none does now.
    """

    behind_seconds: float
    health: Sequence[Mapping[str, Any]] = ()
    silent: Sequence[str] = ()


@dataclass(frozen=True)
class ChainVerdict:
    """The alerts that hold, a sentence by each one's name, and those that do not. Of others it is not known yet."""

    holds: Mapping[str, str]
    passed: frozenset[str]


@dataclass
class ChainAlerts:
    """Which alerts hold. Looked at every few seconds; something must hold, or not, a few times in a row."""

    behind_seconds: float
    active: dict[str, str] = field(default_factory=dict)  # a sentence by the alert's name

    def __post_init__(self) -> None:
        self._streak: dict[str, tuple[bool, int]] = {}
        self._left_out: float | None = None
        self._left_out_at: int | None = None

    def update(self, state: ChainState, now_ms: int) -> ChainVerdict:
        """What is known by now."""
        holds = self._problems(state, now_ms)
        unknown = () if any(one["jobs"] for one in state.health) else OF_JOBS
        holds |= {name: self.active[name] for name in unknown if name in self.active}
        if BEHIND not in holds and UNHEALTHY not in holds and VIOLATION not in holds:
            holds[ALIVE] = "windows are scored in time: without this alert something is wrong with kappa"
        for name in ALERTS:
            if name in unknown:
                continue
            is_on, times = name in holds, 1
            before = self._streak.get(name)
            if before is not None and before[0] == is_on:
                times = min(before[1] + 1, LOOKS)
            self._streak[name] = (is_on, times)
            if times >= LOOKS:
                if not is_on:
                    self.active.pop(name, None)
                elif name not in self.active:
                    self.active[name] = holds[name]
        passed = (name for name, (is_on, times) in self._streak.items() if times >= LOOKS and not is_on)
        return ChainVerdict(dict(self.active), frozenset(passed))

    def _problems(self, state: ChainState, now_ms: int) -> dict[str, str]:
        found = {}
        if state.behind_seconds > self.behind_seconds:
            found[BEHIND] = f"no window of the last {duration(state.behind_seconds)} is scored: incidents come late"
        jobs = {name: job for one in state.health for name, job in one["jobs"].items() if isinstance(job, Mapping)}
        sick = sorted(name for name, job in jobs.items() if job.get("healthy") is not True)
        unhealthy = [f"{', '.join(sick)}: no progress"] if sick else []
        unhealthy += [f"{', '.join(state.silent)}: the process does not answer any more"] if state.silent else []
        if unhealthy:
            found[UNHEALTHY] = "; ".join(unhealthy)
        # Each says how many there are in all.
        kept = max((count_at(one, "quarantined") for one in state.health), default=0)
        if kept:
            found[QUARANTINE] = f"in quarantine: {counted(int(kept), 'record')}, see `kappa quarantine list`"
        violations = sum(
            count_at(one, "violations", "count") - count_at(one, "violations", "accepted") for one in state.health
        )
        if violations > 0:
            found[VIOLATION] = "a promise of determinism is broken: `kappa doctor` says which"
        if self._has_left_out(state, now_ms):
            found[LIMITS] = "a limit leaves out series, services or hosts: see docs/limits.md"
        return found

    def _has_left_out(self, state: ChainState, now_ms: int) -> bool:
        """Whether anything was left out lately."""
        limits = [one.get("limits") for one in state.health]
        counts = [of.get("left_out") for of in limits if isinstance(of, Mapping)]
        left_out = sum(count_at(of, name) for of in counts if isinstance(of, Mapping) for name in of)
        if self._left_out is not None and left_out > self._left_out:
            self._left_out_at = now_ms
        self._left_out = left_out
        return self._left_out_at is not None and not is_due(self._left_out_at + LIMITS_MS, now_ms, LIMITS_MS)


def count_at(of: Mapping[str, Any], *path: str) -> float:
    """A number in nested mappings; 0 where there is none that can be a count."""
    value: Any = of
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return float(value) if isinstance(value, int | float) and abs(value) < LARGEST else 0.0
