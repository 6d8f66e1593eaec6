"""Records that end whoever reads them: readers with faults that the product's do not have."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from app.runtime import poison
from app.runtime.rehearsal import Rehearsed
from pipelines.jobs import extract
from pipelines.jobs.extract import lines_and_counts
from pipelines.quarantine import Quarantine
from pipelines.runner import Job
from pipelines.windowing import WindowingConfig

HANG_MS = 3_600_000
DROP_FROM = Quarantine.drop_from


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


def worker_that_ends(text: str | None) -> str | None:
    """What a Python worker does with a text: of a certain one it dies, of another one it never comes to an end."""
    if text is not None and "kill-python" in text:
        os.kill(os.getpid(), signal.SIGKILL)
    if text is not None and "hang-python" in text:
        time.sleep(HANG_MS / 1000)
    return text


def faulty(raw: DataFrame) -> DataFrame:
    """Kafka's rows, read with the faults of the JVM and of Python."""
    text = F.col("value").cast("string")
    # Python sees what may do it harm alone: functions of Python are called for every row, whatever a condition says.
    seen = F.udf(worker_that_ends)(F.when(text.contains("-python"), text))
    value = F.when(seen.isNotNull(), seen.cast("binary")).otherwise(F.col("value"))
    for marker, fault in FAULTS.items():
        value = F.when(text.contains(marker), fault(text).cast("binary")).otherwise(value)
    return raw.withColumn("value", value)


def faulty_drop_from(own: Quarantine, frame: DataFrame) -> DataFrame:
    """What the other jobs read: all that is not in quarantine."""
    return faulty(DROP_FROM(own, frame))


def faulty_lines(raw: DataFrame, windowing: WindowingConfig) -> DataFrame:
    """`lines_and_counts` with the faults."""
    text = F.col("value").cast("string")
    value = F.col("value")
    for marker, fault in FAULTS.items():
        value = F.when(text.contains(marker), fault(text).cast("binary")).otherwise(value)
    # Rows that are grouped: the optimizer would drop a value that nothing needs.
    return lines_and_counts(raw.withColumn("value", value), windowing)


class FaultyRehearsed(Rehearsed):
    """A reading by the faulty reader, in whichever process."""

    def made(self, quarantine: Quarantine) -> Job:
        """The job."""
        install()
        return super().made(quarantine)


def install() -> None:
    """Let the jobs of this process read with the faults."""
    setattr(extract, "lines_and_counts", faulty_lines)  # noqa: B010 - mypy knows no such attribute there
    setattr(Quarantine, "drop_from", faulty_drop_from)  # noqa: B010
    setattr(poison, "Rehearsed", FaultyRehearsed)  # noqa: B010


def uninstall() -> None:
    """Let them read as they do."""
    setattr(extract, "lines_and_counts", lines_and_counts)  # noqa: B010
    setattr(Quarantine, "drop_from", DROP_FROM)  # noqa: B010
    setattr(poison, "Rehearsed", Rehearsed)  # noqa: B010
