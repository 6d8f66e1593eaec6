"""index: novelties, incidents, late, dead-letters, labels, deliveries, early (and scores, where switched on) -> Elasticsearch.

A batch is written to the end before it counts as done: while the cluster is away the job waits. What the cluster
refuses for good goes to `dead-letters`, and the rest of the batch is indexed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

import structlog
from pyspark.sql import DataFrame, SparkSession

from models.records.records import LETTER_BYTES, RefusedRecord
from pipelines.elasticsearch.bulk import (
    BulkParameters,
    Elastic,
    IsPrepared,
    Prepare,
    Refused,
    Stopping,
    lacks_preparation,
    prepare_when_available,
    write_all,
)
from pipelines.elasticsearch.documents import newest
from pipelines.runner import BatchSink, Kafka, write_to_kafka

log = structlog.get_logger()

STAGE = "index"
DEAD_LETTER_DDL = "topic string, key binary, value binary, headers array<struct<key:string,value:binary>>"


def make_sink(
    topics: Mapping[str, str],
    elastic: Elastic,
    kafka: Kafka,
    *,
    stopping: Stopping,
    parameters: BulkParameters | None = None,
    prepare: Prepare | None = None,
    is_prepared: IsPrepared = lambda client: True,
) -> BatchSink:
    """A sink that indexes a batch of `documents.documents`. A batch that is repeated becomes the same documents.

    `topics` says how each kind's topic is called. `stopping` is the `wait` of a `threading.Event`; when it returns True
    while the cluster is away, the batch ends with ServiceUnavailable and will come again. `prepare` gets a client before
    the first batch, to put templates: a job that starts while the cluster is away waits as any other does, and the jobs beside it run. It is
    called again where `is_prepared` says, before documents are sent, that they are gone: without templates
    documents would make indices that have no alias, which nobody sees.
    """
    sending = parameters or BulkParameters()
    prepared = threading.Event()

    def put_what_is_missing() -> None:
        if prepare is not None and (not prepared.is_set() or lacks_preparation(elastic, is_prepared)):
            if prepared.is_set():
                log.warning("index templates are gone from Elasticsearch, and put again", url=elastic.url)
            prepare_when_available(elastic, prepare, sending, stopping)
            prepared.set()

    def write(found: DataFrame, batch_id: int) -> None:
        outcome = write_all(newest(found), elastic, sending, stopping, put_what_is_missing)
        write_dead_letters(found.sparkSession, outcome.refused, topics, kafka)
        log.debug(
            "batch indexed", batch=batch_id, written=outcome.written, settled=outcome.settled, retries=outcome.retries
        )

    return write


def write_dead_letters(
    spark: SparkSession, refused: Iterable[Refused], topics: Mapping[str, str], kafka: Kafka
) -> None:
    """Append dead letters about refused documents.

    None about documents of `late` and `dead-letters`: `index` would read it, and be refused again, without end.
    """
    own = (topics["late"], topics["dead-letters"])
    letters = []
    for one in refused:
        source = {"from_topic": one.topic, "partition": one.partition, "offset": one.offset}
        if one.topic in own:
            log.error("document of a dead letter refused", **source, reason=one.reason)
        else:
            log.warning("document refused", **source, reason=one.reason)
            value = one.document.encode()
            letters.append((topics["dead-letters"], None, value[:LETTER_BYTES], dead_letter_headers(one)))
    if letters:
        write_to_kafka(spark.createDataFrame(letters, DEAD_LETTER_DDL), kafka)


def dead_letter_headers(refused: Refused) -> list[tuple[str, bytes]]:
    """The headers of every dead letter: why it was refused, and where it is."""
    about = {name: getattr(refused, name) for name in ("topic", "partition", "offset", "timestamp", "reason")}
    return RefusedRecord.about(refused.document.encode(), **about, stage=STAGE).headers()
