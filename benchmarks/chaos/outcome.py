"""What a run of faults came to: one JSON object, and tables for people."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.chaos.comparison import SideBySide


class ChaosFailed(Exception):
    """The jobs did not recover, or refused to go on."""


@dataclass
class RefusalRecord:
    """A refusal, in the words of the jobs after a restart, the command that brought them back, its answer, and how long all of it took."""

    kind: str
    sentence: str
    command: str
    answer: Any
    seconds: float


@dataclass
class FaultRecord:
    """A fault that was done: when (ISO 8601), to what, at which batch of `extract`, and how soon a batch was committed afterwards."""

    number: int
    kind: str
    at: str
    hit: str
    batch: int
    took_seconds: float
    progress_after_seconds: float | None = None


@dataclass
class ChaosOutcome:
    """A whole run.

    `ended_by_themselves`: exit codes and last words of jobs that ended without having been killed. `left_out`: which faults could not
    be done here, and why.
    """

    seed: int
    machine: dict[str, Any]
    faults: list[FaultRecord] = field(default_factory=list)
    ended_by_themselves: list[str] = field(default_factory=list)
    refusals: list[RefusalRecord] = field(default_factory=list)
    left_out: str = ""
    starts: int = 0
    events: int = 0
    chaos_seconds: float = 0.0
    drain_seconds: float = 0.0
    fault_free_seconds: float = 0.0
    records: dict[str, SideBySide] = field(default_factory=dict)
    documents: dict[str, SideBySide] = field(default_factory=dict)
    topics_and_documents: dict[str, dict[str, int]] = field(default_factory=dict)
    replay_diff: dict[str, Any] = field(default_factory=dict)
    failure: str = ""

    @property
    def kills(self) -> int:
        """How many faults were SIGKILL that hit something."""
        return sum(fault.kind.startswith("kill") and bool(fault.hit) for fault in self.faults)

    @property
    def compared(self) -> int:
        """Records and documents of the faulty run that were compared."""
        return sum(side.chaos for side in (*self.records.values(), *self.documents.values()))

    @property
    def differences(self) -> int:
        """Records and documents that are not the same in both runs."""
        unequal = sum(side.differences for side in (*self.records.values(), *self.documents.values()))
        missing = sum(abs(both["topics"] - both["documents"]) for both in self.topics_and_documents.values())
        return unequal + missing + int(self.replay_diff.get("differences", 0))

    @property
    def passed(self) -> bool:
        """Whether all was compared, and nothing differed."""
        return not self.failure and self.differences == 0 and self.compared > 0

    def by_kind(self) -> dict[str, int]:
        """How many faults there were of each kind."""
        return dict(sorted(Counter(fault.kind for fault in self.faults if fault.hit).items()))

    def record(self) -> dict[str, Any]:
        """As JSON types."""
        return {
            "passed": self.passed,
            "kills": self.kills,
            "faults_by_kind": self.by_kind(),
            "kills_per_hour": round(3600 * self.kills / self.chaos_seconds, 1) if self.chaos_seconds else None,
            "compared": self.compared,
            "differences": self.differences,
            **asdict(self),
        }

    def show(self, console: Console) -> None:
        """Tables of faults and of what was compared."""
        kinds = Table(title=f"seed {self.seed}: {len(self.faults)} faults, {self.kills} kills", title_justify="left")
        kinds.add_column("fault")
        for column in ("times", "median s until a batch was committed", "longest"):
            kinds.add_column(column, justify="right")
        for kind, times in self.by_kind().items():
            after = sorted(
                f.progress_after_seconds for f in self.faults if f.kind == kind and f.progress_after_seconds is not None
            )
            shown = [f"{after[len(after) // 2]:.1f}", f"{after[-1]:.1f}"] if after else ["-", "-"]
            kinds.add_row(kind, str(times), *shown)
        console.print(kinds)
        table = Table(title="with faults against a run without faults of the same log", title_justify="left")
        for column in ("", "fault-free", "with faults", "only fault-free", "only with faults", "repeats"):
            table.add_column(column, justify="right")
        for what, sides in (("", self.records), ("documents: ", self.documents)):
            for kind, side in sides.items():
                numbers = (side.fault_free, side.chaos, side.only_fault_free, side.only_chaos, side.repeats)
                table.add_row(what + kind, *(f"{n:,}" for n in numbers))
        console.print(table)
        for line in [one for sides in (self.records, self.documents) for side in sides.values() for one in side.first]:
            console.print(line, markup=False, soft_wrap=True)
        for kind, both in self.topics_and_documents.items():
            if both["topics"] != both["documents"]:
                console.print(f"{kind}: topics speak of {both['topics']:,}, there are {both['documents']:,} documents")
        for refusal in self.refusals:
            line = (
                f"{refusal.kind}: refused, then `{refusal.command}` ({refusal.seconds:.0f} s): {refusal.sentence[:300]}"
            )
            console.print(line, markup=False, soft_wrap=True)
        if self.left_out:
            console.print(f"left out: {self.left_out}", markup=False)
        if self.failure:
            console.print(f"FAILED: {self.failure}", markup=False)
        console.print(
            f"{self.compared:,} records and documents compared, {self.differences} differences; "
            f"{self.starts} starts of the jobs, {len(self.ended_by_themselves)} times they ended by themselves"
        )
