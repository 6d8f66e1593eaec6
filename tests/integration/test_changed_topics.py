"""`index.scores` is switched off and on again, after retention has deleted the beginning of `scores`: `index` goes on each time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from elasticsearch import Elasticsearch
from kafka import KafkaProducer, TopicPartition
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from support.live_jobs import settings_file

from app.core.settings import IndexSettings, Settings, load
from app.embedded.stack_state import Addresses
from app.kafka import changed_topics, topics
from app.kafka.connection import client_options, open_admin
from app.kafka.data_loss import append_dead_letter
from app.runtime.run import index_to_end
from app.search.mappings import drop_version
from models.records.index_names import alias_of
from models.records.records import RefusedRecord

pytestmark = [pytest.mark.stack, pytest.mark.spark]

NIGHT = 1_795_305_590_000


class IndexedTopics:
    """Appends scores and letters, and knows how many there are."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.scores, self.letters = settings, 0, 0

    def append(self, scores: int) -> None:
        """Some scores in each partition, and a letter."""
        producer = KafkaProducer(**client_options(self.settings), acks="all")
        for n in range(scores):
            for partition in range(self.settings.topics.partitions):
                series = f"gauge/h{partition}//m{self.scores + n}"
                score = {"record": "score", "series": series, "window_end": NIGHT, "score": 1.0}
                producer.send(self.settings.topic("scores"), json.dumps(score).encode(), partition=partition)
        producer.flush()
        producer.close()
        letter = RefusedRecord.about(
            b"", topic="t", partition=0, offset=self.letters, timestamp=NIGHT, reason="no record", stage="extract"
        )
        append_dead_letter(self.settings, letter.headers(), self.letters % self.settings.topics.partitions)
        self.scores, self.letters = self.scores + scores, self.letters + 1

    def delete(self, before: int) -> None:
        """What retention does to scores."""
        with open_admin(self.settings) as admin:
            parts = range(self.settings.topics.partitions)
            admin.delete_records({TopicPartition(self.settings.topic("scores"), p): before for p in parts})


def counted(settings: Settings, kind: str) -> int:
    """The documents of a kind."""
    with Elasticsearch(str(settings.elasticsearch.url)) as client:
        client.indices.refresh(index=alias_of(kind, settings.version))
        return int(client.count(index=alias_of(kind, settings.version))["count"])


def plan_in_vain(spark: SparkSession, settings: Settings) -> None:
    """Let Spark plan a batch of `index` with these topics over a checkpoint of others, as releases without this comparison did."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changed_topics, "adapt_checkpoints", lambda *_: None)
        with pytest.raises(StreamingQueryException):
            index_to_end(spark, settings)


def test_index_goes_on_when_scores_are_switched_off_and_on(
    stack: Addresses, spark: SparkSession, tmp_path: Path, unique: str
) -> None:
    with_scores = load(settings_file(tmp_path, stack, unique, f"v{unique}", 40_000))
    without = with_scores.model_copy(update={"index": IndexSettings(scores=False)})
    topics.create(with_scores)
    log = IndexedTopics(with_scores)
    try:
        log.append(2)
        index_to_end(spark, with_scores)
        assert (counted(with_scores, "scores"), counted(with_scores, "pipeline")) == (4, 1)
        log.append(3)
        plan_in_vain(spark, without)
        index_to_end(spark, without)
        assert (counted(with_scores, "scores"), counted(with_scores, "pipeline")) == (4, 2)
        log.append(1)
        log.delete(before=4)  # two of these six have been indexed, two are deleted unread, and two are left
        plan_in_vain(spark, with_scores)
        index_to_end(spark, with_scores)
        assert (counted(with_scores, "scores"), counted(with_scores, "pipeline")) == (8, 3)
        log.append(1)
        index_to_end(spark, with_scores)
        assert (counted(with_scores, "scores"), counted(with_scores, "pipeline")) == (10, 4)
    finally:
        with Elasticsearch(str(stack.elasticsearch)) as client:
            drop_version(client, with_scores.version)
