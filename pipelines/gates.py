"""When a batch of a job begins: where it can close a window, or has something to read (`pipelines/jvm/Gate.java`).

A batch costs 0.3 to 0.5 s of a core for its plan alone, and between two windows it buys nothing
(docs/decisions/0036-batches-when-a-window-can-close.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pipelines import spark_internals


@dataclass(frozen=True)
class WindowGrid:
    """Windows that a job closes: their length, and how far the watermark stays behind the append time, seconds.

    With `append_times` the broker sets the times of records, so that those of a partition never go back.
    """

    length: int
    delay: int
    append_times: bool = True


@dataclass
class Gate:
    """The gate of one query, and how often it had looked at the log when it was last asked."""

    clock: Any
    _looks: int = field(default=0, init=False)

    def belongs_to(self, query: StreamingQuery) -> None:
        """Let it raise the watermark of the query that has it for a clock."""
        self.clock.belongsTo(spark_internals.progress_of(query))

    def behind(self, records: int) -> None:
        """Open at once where the last batch has left records unread."""
        self.clock.behind(records)

    def has_looked(self) -> bool:
        """Whether the query has waited, and Kafka answered, since the last call."""
        before, self._looks = self._looks, self.clock.looks()
        return self._looks != before

    def close(self) -> None:
        """End its connection to Kafka."""
        self.clock.close()


def gate_of(
    spark: SparkSession, client: dict[str, str], topics: Mapping[str, int], windows: WindowGrid | None = None
) -> Gate:
    """A closed gate.

    Parameters
    ----------
    spark
        A session.
    client
        Options of Kafka's own clients.
    topics
        What the job reads: `TOPIC/PARTITION`, or `TOPIC` for all its partitions, and how many records a batch takes of it.
    windows
        Of a job that closes windows. It opens when one can be closed or many records wait; without, when records have come.
    """
    jvm = spark_internals.jvm_of(spark)
    options, names, most = jvm.java.util.HashMap(), jvm.java.util.ArrayList(), jvm.java.util.HashMap()
    for name, value in client.items():
        options.put(name, value)
    for topic, records in topics.items():
        names.add(topic)
        most.put(topic, records)
    if windows is None:
        return Gate(spark_internals.java_object(spark, "ArrivalGate", options, names))
    length, delay = 1000 * windows.length, 1000 * windows.delay
    arguments = (options, names, length, delay, most, windows.append_times)
    return Gate(spark_internals.java_object(spark, "ClosingGate", *arguments))
