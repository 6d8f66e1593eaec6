"""Records that end whoever reads them: a reader of log lines with faults that the product's does not have."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from app.runtime import poison
from app.runtime.rehearsal import Rehearsed
from pipelines.inputs import log_lines
from pipelines.jobs import extract
from pipelines.quarantine import Quarantine
from pipelines.runner import Job

HANG_MS = 3_600_000


def called(kind: str, method: str, *arguments: Column) -> Column:
    """A static method of Java."""
    return F.call_function("java_method", F.lit(kind), F.lit(method), *arguments)


# What the text of a record makes the reader do.
FAULTS: dict[str, Callable[[Column], Column]] = {
    "kill-by-exception": lambda text: F.raise_error(F.concat(F.lit("cannot be read: "), F.substring(text, 1, 20))),
    "kill-by-exit": lambda text: called("java.lang.System", "exit", F.lit(9)),
    "kill-by-hanging": lambda text: called("java.lang.Thread", "sleep", F.lit(HANG_MS).cast("long")),
    "kill-by-memory": lambda text: F.size(F.sequence(F.length(text).cast("long"), F.lit(10**9).cast("long"))).cast(
        "string"
    ),
    "kill-by-stack": lambda text: F.regexp_extract(F.repeat(text, 5_000), "^(a|b|[^x])*$", 1),
}


def faulty_lines(raw: DataFrame) -> DataFrame:
    """`log_lines` with the faults."""
    text = F.col("value").cast("string")
    value = F.col("value")
    for marker, fault in FAULTS.items():
        value = F.when(text.contains(marker), fault(text).cast("binary")).otherwise(value)
    # Rows that are grouped: the optimizer would drop a value that nothing needs.
    return log_lines(raw.withColumn("value", value))


class FaultyRehearsed(Rehearsed):
    """A reading by the faulty reader, in whichever process."""

    def made(self, quarantine: Quarantine) -> Job:
        """The job."""
        install()
        return super().made(quarantine)


def install() -> None:
    """Let the jobs of this process read with the faults."""
    setattr(extract, "log_lines", faulty_lines)  # noqa: B010 - mypy knows no such attribute there
    setattr(poison, "Rehearsed", FaultyRehearsed)  # noqa: B010


def uninstall() -> None:
    """Let them read as they do."""
    setattr(extract, "log_lines", log_lines)  # noqa: B010
    setattr(poison, "Rehearsed", Rehearsed)  # noqa: B010
