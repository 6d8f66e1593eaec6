"""Records that a job does not read, because each time it did they ended it. They are named in the topic `quarantine`.

`extract` refuses such a record unread, as a dead letter with the reason: it is counted in its window as any other refused
record. The other jobs leave it out. A job without such records has the same query plan as ever.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Container
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from models.records.records import MAX_REASON, QuarantinedRecord

REFUSAL = "map<string,struct<reason:string,head:string,length:bigint,sha256:string>>"


@dataclass(frozen=True)
class Quarantine:
    """Records in quarantine, in the order in which they were found: one for each job, place and append time.

    Where a topic is made again, offsets begin anew: what has one of them then has another append time, and is read.
    """

    records: tuple[QuarantinedRecord, ...] = ()

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.records)

    def of(self, job: str, topics: Container[str]) -> Quarantine:
        """Those that a job does not read, in these topics."""
        return Quarantine(tuple(one for one in self.records if one.job == job and one.topic in topics))

    def contains(self, topic: str, partition: int, offset: int, timestamp: int) -> bool:
        """Whether it holds the record at a place that was appended at a time, epoch ms."""
        return any(one.place == (topic, partition, offset) and one.is_of(timestamp) for one in self.records)

    def left_out(self, frame: DataFrame) -> DataFrame:
        """Kafka's rows without those in quarantine."""
        return frame.where(~self._listed()) if self else frame

    def unread(self, frame: DataFrame) -> DataFrame:
        """Kafka's rows, with null for the value of those in quarantine: whatever reads them finds nothing to read."""
        return frame.withColumn("value", F.when(~self._listed(), F.col("value"))) if self else frame

    def refused(self, frame: DataFrame) -> DataFrame:
        """Rows of `unread`, parsed: those refused for being in quarantine get that as `reason`, and their first bytes as `raw_value`."""
        if not self:
            return frame
        listed, reason = self._listed() & F.col("reason").isNotNull(), F.lit("quarantined: ")
        return frame.withColumns(
            {
                "reason": F.when(listed, F.concat(reason, self._known("reason"))).otherwise(F.col("reason")),
                "raw_value": F.when(listed, F.unbase64(self._known("head"))).otherwise(F.col("raw_value")),
            }
        )

    def length(self, own: Column) -> Column:
        """The bytes of a record: of those in quarantine as it is known, of others their own."""
        return F.when(self._listed(), self._known("length")).otherwise(own) if self else own

    def sha256(self, own: Column) -> Column:
        """The same for the SHA-256."""
        return F.when(self._listed(), self._known("sha256")).otherwise(own) if self else own

    def _listed(self) -> Column:
        """Whether a row is in quarantine; never null."""
        offsets: dict[tuple[str, int], list[int]] = defaultdict(list)
        for one in self.records:
            offsets[one.topic, one.partition].append(one.offset)
        each = (
            (F.col("topic") == topic) & (F.col("partition") == partition) & F.col("offset").isin(sorted(found))
            for (topic, partition), found in sorted(offsets.items())
        )
        names = sorted(map(name_of, self.records))
        named = reduce(Column.__or__, (name.isin(names) for name in names_of_row()))
        return F.coalesce(reduce(Column.__or__, each) & named, F.lit(False))

    def _known(self, field: str) -> Column:
        """What the quarantine says of a row."""
        known = {
            name_of(one): {
                "reason": one.reason[:MAX_REASON],
                "head": one.head,
                "length": one.length,
                "sha256": one.sha256,
            }
            for one in self.records
        }
        found = F.from_json(F.lit(json.dumps(known)), REFUSAL)
        return F.coalesce(*(found[name] for name in names_of_row()))[field]


def name_of(one: QuarantinedRecord) -> str:
    """A record's place and append time; the place alone where the time is not known."""
    return f"{one.name}/{one.timestamp}" if one.timestamp else one.name


def names_of_row() -> tuple[Column, Column]:
    """The names that a row may have in quarantine."""
    place = F.concat_ws("/", "topic", "partition", "offset")
    return F.concat_ws("/", place, F.unix_millis("timestamp")), place


NOTHING = Quarantine()
