"""Progress within a batch: a batch of a large backlog may take minutes, and all the while its tasks go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from pyspark.sql import SparkSession

from pipelines.spark_internals import active_stage_progress


class TaskProgress:
    """Calls `on_work` with the name of each job whose running stages have got further since the last look.

    A look costs a few calls to the JVM; there is one every `every_seconds` at most.
    """

    def __init__(
        self, on_work: Callable[[str], None], every_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._on_work, self._every, self._clock = on_work, every_seconds, clock
        self._looked = clock()
        self._seen: Mapping[str, tuple[int, ...]] = {}

    def look(self, spark: SparkSession) -> None:
        """Compare what the running stages have done with the last time."""
        now = self._clock()
        if now - self._looked >= self._every:
            self._looked = now
            self.compare(active_stage_progress(spark))

    def compare(self, found: Mapping[str, tuple[int, ...]]) -> None:
        """Take in what the running stages of each job have done."""
        for job, done in found.items():
            if self._seen.get(job) != done:
                self._on_work(job)
        self._seen = found
