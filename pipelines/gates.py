"""Gates: let a batch of a job begin only when it can close a window, or has records to read (`pipelines/jvm/Gate.java`).

Planning a batch takes 0.3 to 0.5 s of a core, and a batch that closes no window has no result
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
    """The windows that a job closes: their `length`, and the `delay` of the watermark behind the append time, both in seconds.

    With `append_times` the broker sets the timestamps of records, so those of a partition never decrease.
    """

    length: int
    delay: int
    append_times: bool = True


@dataclass
class Gate:
    """The gate of one query. `clock` is the Java object that Spark asks for the time, by which it triggers batches."""

    clock: Any
    _looks: int = field(default=0, init=False)

    def attach_to(self, query: StreamingQuery) -> None:
        """Attach it to the query that uses it as its clock, whose watermark it raises."""
        self.clock.belongsTo(spark_internals.progress_of(query))

    def set_backlog(self, records: int) -> None:
        """Say how many records the last batch has left unread: with any it opens at once."""
        self.clock.behind(records)

    def has_polled(self) -> bool:
        """Whether the gate has polled Kafka while its query waited, and got an answer, since the last call."""
        before, self._looks = self._looks, self.clock.looks()
        return self._looks != before

    def close(self) -> None:
        """End its connection to Kafka."""
        self.clock.close()


def make_gate(
    spark: SparkSession, client: dict[str, str], topics: Mapping[str, int], windows: WindowGrid | None = None
) -> Gate:
    """Make a gate, which is closed.

    Parameters
    ----------
    spark
        A session.
    client
        Options of Kafka's own clients.
    topics
        What the job reads, `TOPIC/PARTITION`, or `TOPIC` for all its partitions -> the most records of it in a batch.
    windows
        With them the gate opens when a window can be closed, or many records wait; without, when records have come.
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
