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

    The append time is part of a record's identity, because offsets begin anew when a topic is deleted and created again.
    """

    records: tuple[QuarantinedRecord, ...] = ()

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.records)

    def for_job(self, job: str, topics: Container[str]) -> Quarantine:
        """The records of these topics that a job does not read."""
        return Quarantine(tuple(one for one in self.records if one.job == job and one.topic in topics))

    def contains(self, topic: str, partition: int, offset: int, timestamp: int) -> bool:
        """Whether the record at this place with this append time, epoch ms, is in quarantine."""
        return any(one.place == (topic, partition, offset) and one.is_of(timestamp) for one in self.records)

    def drop_from(self, frame: DataFrame) -> DataFrame:
        """Rows of a Kafka source without those in quarantine."""
        return frame.where(~self._listed()) if self else frame

    def blank_values(self, frame: DataFrame) -> DataFrame:
        """Rows of a Kafka source, where those in quarantine have null as `value`, so that no reader parses them."""
        return frame.withColumn("value", F.when(~self._listed(), F.col("value"))) if self else frame

    def mark_refused(self, frame: DataFrame) -> DataFrame:
        """Rows of `blank_values` after parsing: those in quarantine get the recorded `reason`, and their first bytes as `raw_value`."""
        if not self:
            return frame
        listed, reason = self._listed() & F.col("reason").isNotNull(), F.lit("quarantined: ")
        return frame.withColumns(
            {
                "reason": F.when(listed, F.concat(reason, self._known("reason"))).otherwise(F.col("reason")),
                "raw_value": F.when(listed, F.unbase64(self._known("head"))).otherwise(F.col("raw_value")),
            }
        )

    def known_length(self, own: Column) -> Column:
        """A record's number of bytes: as recorded for those in quarantine, `own` for others."""
        return F.when(self._listed(), self._known("length")).otherwise(own) if self else own

    def known_sha256(self, own: Column) -> Column:
        """A record's SHA-256: as recorded for those in quarantine, `own` for others."""
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
        names = sorted(map(quarantine_name, self.records))
        named = reduce(Column.__or__, (name.isin(names) for name in possible_names()))
        return F.coalesce(reduce(Column.__or__, each) & named, F.lit(False))

    def _known(self, field: str) -> Column:
        """A field of the quarantine's entry about a row; null for rows that are not in quarantine."""
        known = {
            quarantine_name(one): {
                "reason": one.reason[:MAX_REASON],
                "head": one.head,
                "length": one.length,
                "sha256": one.sha256,
            }
            for one in self.records
        }
        found = F.from_json(F.lit(json.dumps(known)), REFUSAL)
        return F.coalesce(*(found[name] for name in possible_names()))[field]


def quarantine_name(one: QuarantinedRecord) -> str:
    """`TOPIC/PARTITION/OFFSET/TIMESTAMP` of a record; without the timestamp where it is not known."""
    return f"{one.name}/{one.timestamp}" if one.timestamp else one.name


def possible_names() -> tuple[Column, Column]:
    """The names under which a row may be in quarantine: with and without its append time."""
    place = F.concat_ws("/", "topic", "partition", "offset")
    return F.concat_ws("/", place, F.unix_millis("timestamp")), place


NO_QUARANTINE = Quarantine()
