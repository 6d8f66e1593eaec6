"""The jobs of a deployment, made from its settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from app.core.settings import Settings
from app.kafka.connection import kafka_connection
from app.kafka.data_loss import checkpoints
from app.kafka.topics import DELIVERIES, EARLY, input_topics_of_job, topic_names
from app.search.connection import elasticsearch_connection
from app.versions.start_position import StartPosition, start_position
from models.detection.alarm_bounds import EarlyParameters
from pipelines.elasticsearch.bulk import IsPrepared, Prepare, Stopping
from pipelines.elasticsearch.documents import documents
from pipelines.errors import InputError
from pipelines.gates import WindowGrid
from pipelines.jobs import correlate, detect, extract, index
from pipelines.quarantine import NO_QUARANTINE, Quarantine
from pipelines.runner import Input, Job
from pipelines.state import savepoint_format
from pipelines.windowing import MILLIS, TopicOfShards

NAMES = ("extract", "detect", "correlate", "index")
ALONE = ("notify", "early")  # processes of their own, which `kappa run` starts too
FEW_LABELS, MANY_LABELS = 20, 1_000_000
MOST_HEAVY = 500_000  # records of a batch of any other job than extract

Topic = TypeVar("Topic", bound=TopicOfShards)


@dataclass(frozen=True)
class JobSelection:
    """The jobs of a version that a process runs."""

    names: tuple[str, ...]

    def checkpoints(self, settings: Settings) -> dict[str, Path]:
        """Their checkpoints by the names that they run under."""
        return checkpoints(settings, self.names)


def selected(names: Sequence[str]) -> JobSelection:
    """Jobs as the command line names them: `all` means every one. Raises InputError for what there is not."""
    wanted = NAMES if "all" in names else tuple(dict.fromkeys(names))
    unknown = [name for name in names if name not in (*NAMES, "all")]
    if unknown:
        what = f"{unknown[0]} runs beside no other job" if unknown[0] in ALONE else f"no job {unknown[0]!r}"
        msg = f"{what}; wanted {', '.join(NAMES)} or all, or one of {' and '.join(ALONE)} by itself"
        raise InputError(msg)
    return JobSelection(wanted)


def extract_job(
    settings: Settings, on_refused: extract.OnRefused | None = None, quarantine: Quarantine = NO_QUARANTINE
) -> Job:
    """telemetry, logs, labels, changes, rules -> statistics, late, dead-letters."""
    windowing, topics, delay = settings.windowing, topic_names(settings), settings.windowing.watermark_delay_seconds
    starting = starting_of(start_position(settings))
    partitions = settings.input_partitions
    unread = quarantine.for_job("extract", [topics[kind] for kind in partitions])
    return Job(
        name="extract",
        inputs=tuple(
            Input((topics[kind],), tuple(range(count)), delay, starting=starting) for kind, count in partitions.items()
        ),
        transform=lambda *frames: extract.closed_windows(
            **dict(zip(partitions, frames, strict=True)), windowing=windowing, quarantine=unread, limits=settings.limits
        ),
        sink=extract.make_sink(
            windowing,
            topics,
            settings.topics.partitions,
            kafka_connection(settings),
            on_refused,
            settings.limits,
        ),
        checkpoint=str(settings.checkpoint("extract")),
        max_records_per_batch=settings.spark.max_records_per_batch,
        readers=extract.make_readers(windowing, unread),
        windows=WindowGrid(windowing.window_seconds, delay, append_times=settings.topics.timestamps == "append"),
    )


def most_records(settings: Settings) -> int:
    """The most records that a job other than `extract` reads in a batch: they are larger than events."""
    most = settings.spark.max_records_per_batch
    return max(min(most, 1_000), min(most // 4, MOST_HEAVY))


def starting_of(begun: StartPosition | None) -> Mapping[str, Mapping[int, int]] | None:
    """The offsets at which a job without a checkpoint begins; None for the beginning of the log."""
    return None if begun is None else begun.offsets


def detect_job(settings: Settings, quarantine: Quarantine = NO_QUARANTINE) -> Job:
    """statistics -> scores, novelties, with `early.enabled` bounds."""
    topics, partitions = topic_names(settings), settings.topics.partitions
    begun = start_position(settings)
    begin = None if begun is None or begun.folder is None else partial(savepoint_format.shard_start, str(begun.folder))
    shards = settings.windowing.shards
    early = EarlyParameters(settings.early.false_alarms_a_day, shards) if settings.early.enabled else None
    processor = detect.DetectProcessor(settings.detector, settings.version, shards, begin, topics["rules"], early)
    unread = quarantine.for_job("detect", (topics["statistics"],))
    source = topic_of_shards(TopicOfShards, settings, "statistics")
    return Job(
        name="detect",
        inputs=(Input((topics["statistics"],), starting=starting_of(begun)),),
        transform=lambda raw: detect.output_records(
            detect.observe_progress(detect.detect(unread.drop_from(raw), processor, source)), topics, partitions
        ),
        checkpoint=str(settings.checkpoint("detect")),
        max_records_per_batch=most_records(settings),
    )


def topic_of_shards(kind: type[Topic], settings: Settings, topic: str) -> Topic:
    """What records of a topic must agree with, for the job that reads it to believe them."""
    windowing = settings.windowing
    return kind(
        settings.topic(topic),
        settings.topics.partitions,
        windowing.shards,
        windowing.window_seconds * MILLIS,
        windowing.most_ahead_ms(history=settings.topics.timestamps != "append"),
    )


def correlate_job(settings: Settings, quarantine: Quarantine = NO_QUARANTINE) -> Job:
    """novelties -> incidents."""
    topics = topic_names(settings)
    begun = start_position(settings)
    begin = (
        None if begun is None or begun.folder is None else partial(savepoint_format.correlator_start, str(begun.folder))
    )
    unread = quarantine.for_job("correlate", (topics["novelties"],))
    source = topic_of_shards(correlate.NoveltiesTopic, settings, "novelties")
    return Job(
        name="correlate",
        inputs=(Input((topics["novelties"],), starting=starting_of(begun)),),
        transform=lambda raw: correlate.correlate(
            unread.drop_from(raw), settings.correlation, settings.version, topics, source, begin
        ),
        checkpoint=str(settings.checkpoint("correlate")),
        max_records_per_batch=most_records(settings),
    )


def index_job(
    settings: Settings,
    stopping: Stopping,
    prepare: Prepare | None = None,
    quarantine: Quarantine = NO_QUARANTINE,
    is_prepared: IsPrepared = lambda client: True,
) -> Job:
    """novelties, incidents, late, dead-letters, labels, deliveries, early (and scores, where switched on) -> Elasticsearch."""
    topics = topic_names(settings) | {kind: settings.topic(kind) for kind in (DELIVERIES, EARLY)}
    since = settings.index.scores_since
    first = None if since is None else int(1000 * since.timestamp())
    own, labels = input_topics_of_job(settings, "index")
    unread = quarantine.for_job("index", (*own, *labels))
    return Job(
        name="index",
        inputs=(
            Input(own, headers=True),
            Input(labels, headers=True, min_records=FEW_LABELS, max_records=MANY_LABELS),
        ),
        transform=lambda raw, raw_labels: documents(
            unread.drop_from(raw.unionByName(raw_labels)), settings.version, topics, first
        ),
        sink=index.make_sink(
            topics,
            elasticsearch_connection(settings),
            kafka_connection(settings),
            stopping=stopping,
            prepare=prepare,
            is_prepared=is_prepared,
        ),
        checkpoint=str(settings.checkpoint("index")),
        max_records_per_batch=most_records(settings),
    )
