"""The results of a version: its topics as bounded DataFrames, and the windows that it has closed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka import TopicPartition
from kafka.admin import KafkaAdminClient, OffsetSpec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from app.core.settings import Settings
from app.kafka.connection import admin_client, kafka_connection
from models.records.records import WatermarkMessage
from pipelines.errors import InputError
from pipelines.runner import Kafka

# Ends are read in this order: scores are written before the watermark messages of `novelties`, so those of a closed window are there.
READ_ORDER = ("novelties", "scores", "incidents")
WATERMARK = "record string, watermark long, shard int, shards int"
# A window's watermark messages are appended soon after its scores. What retention has left is whole from so much later.
MARGIN_SECONDS = 600

OffsetsByPartition = Mapping[int, tuple[int, int]]


@dataclass(frozen=True)
class VersionResults:
    """A version's records by kind: DataFrames that have `value` (bytes), and `partition, timestamp` where they are read
    from the log. `deleted` names by kind the partitions whose first records are gone.
    """

    version: str
    scores: DataFrame
    novelties: DataFrame
    incidents: DataFrame
    deleted: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def of(self, kind: str) -> DataFrame:
        """The records of one kind."""
        return {"scores": self.scores, "novelties": self.novelties, "incidents": self.incidents}[kind]


def read(spark: SparkSession, settings: Settings, version: str) -> VersionResults:
    """The results that a version's topics hold now.

    Offsets are resolved here, once: each action on the DataFrames sees the same records.

    Parameters
    ----------
    spark
        A session.
    settings
        Those of the deployment.
    version
        Whose results.

    Returns
    -------
    VersionResults
        Scores, novelties and incidents.

    Raises
    ------
    InputError
        There is no such version; names those that have results.
    """
    extents = offsets_of(settings, version)
    own = settings.model_copy(update={"version": version})
    kafka = kafka_connection(settings)
    frames = {kind: _read_bounded(spark, kafka, own.topic(kind), extents[kind]) for kind in READ_ORDER}
    gone = {kind: tuple(p for p, (first, _) in extents[kind].items() if first > 0) for kind in READ_ORDER}
    return VersionResults(
        version, **frames, deleted={kind: partitions for kind, partitions in gone.items() if partitions}
    )


def offsets_of(settings: Settings, version: str) -> dict[str, OffsetsByPartition]:
    """Offsets that a version's topics hold, by kind. Raises InputError, with those there are, for no such version."""
    own = settings.model_copy(update={"version": version})
    client = admin_client(settings)
    try:
        there = client.list_topics()
        missing = [own.topic(kind) for kind in READ_ORDER if own.topic(kind) not in there]
        if missing:
            known = ", ".join(versions(settings, there)) or "none"
            msg = f"no version {version!r}: there is no topic {missing[0]}; versions with results: {known}"
            raise InputError(msg)
        return {kind: _offset_extents(client, own.topic(kind)) for kind in READ_ORDER}
    finally:
        client.close()


def versions(settings: Settings, there: list[str]) -> list[str]:
    """Versions that have results, among these topics: `live` for plain names."""
    plain = f"{settings.topics.prefix}scores"
    named = sorted(name.removeprefix(f"{plain}.") for name in there if name.startswith(f"{plain}."))
    return (["live"] if plain in there else []) + named


def _offset_extents(client: KafkaAdminClient, topic: str) -> dict[int, tuple[int, int]]:
    """The first offset, and the one after the last, by partition."""
    count = len(client.describe_topics([topic])[0]["partitions"])
    parts = [TopicPartition(topic, p) for p in range(count)]
    first = client.list_partition_offsets(dict.fromkeys(parts, OffsetSpec.EARLIEST))
    last = client.list_partition_offsets(dict.fromkeys(parts, OffsetSpec.LATEST))
    return {part.partition: (first[part].offset, last[part].offset) for part in parts}


def _read_bounded(spark: SparkSession, kafka: Kafka, topic: str, extent: OffsetsByPartition) -> DataFrame:
    options = {
        "assign": json.dumps({topic: list(extent)}),
        "startingOffsets": json.dumps({topic: {str(p): first for p, (first, _) in extent.items()}}),
        "endingOffsets": json.dumps({topic: {str(p): last for p, (_, last) in extent.items()}}),
    }
    loaded = spark.read.format("kafka").options(**kafka.prefixed(), **options).load()
    return loaded.select("partition", "timestamp", "value")


def closed_windows(results: VersionResults) -> DataFrame:
    """The windows that a version has closed: `watermark`, and whether all shards have closed it (`whole`)."""
    text = F.col("value").cast("string")
    watermarks = (
        results.novelties.select(F.from_json(text, WATERMARK).alias("t"))
        .select("t.*")
        .where(F.col("record") == WatermarkMessage.KIND)
    )
    return watermarks.groupBy("watermark").agg((F.size(F.collect_set("shard")) >= F.max("shards")).alias("whole"))


def incomplete_until(results: VersionResults) -> int | None:
    """The last window that may lack records, because retention has deleted them; None for none.

    Topics of results are stamped by the broker, so a partition still has all that was appended after its first record.
    """
    began = {kind: _first_append_times(results, kind) for kind in results.deleted}
    known = [at for times in began.values() for at in times]
    # Incidents are rare: that a partition has none left says nothing. Scores and watermark messages are in every window.
    emptied = any(len(began[kind]) < len(results.deleted[kind]) for kind in began if kind != "incidents")
    if not known and not emptied:
        return None
    early = F.lit(True) if emptied else F.unix_millis("timestamp") <= max(known) + 1000 * MARGIN_SECONDS
    watermark = F.get_json_object(F.col("value").cast("string"), "$.watermark").cast("long")
    row = results.novelties.where(early).agg(F.max(watermark)).first()
    return row[0] if row else None


def _first_append_times(results: VersionResults, kind: str) -> list[int]:
    """The append time of the first record that each cut partition still has, epoch ms; an empty partition has none."""
    cut = results.deleted[kind]
    first = F.unix_millis(F.min("timestamp"))
    rows = results.of(kind).where(F.col("partition").isin(*cut)).groupBy("partition").agg(first).collect()
    return [row[1] for row in rows]
