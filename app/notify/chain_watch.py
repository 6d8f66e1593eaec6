"""A thread that looks every few seconds whether the chain is well, by its watermark messages and by what its jobs serve."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog
from kafka import KafkaConsumer, TopicPartition

from app.core.settings import Settings
from app.core.timestamps import is_due
from app.kafka.connection import open_consumer
from app.kafka.shard_watermarks import WATERMARKS_BACK_MS, ShardWatermarks
from app.notify.chain import ChainAlerts, ChainState, ChainVerdict
from app.runtime.served_health import own_answers
from app.versions import serving
from pipelines.errors import KappaError

log = structlog.get_logger()

LOOK_SECONDS = 5.0
AGAIN_SECONDS = 5.0

MOST_BACK = 10_000  # records of a partition among which its last watermark messages are

OnAlerts = Callable[[ChainVerdict], None]


def begin_at(recent: int | None, first: int, end: int) -> int:
    """The offset from which on a partition is read: of its first recent record; where it has none, so that its last watermarks are found."""
    return max(first, end - MOST_BACK) if recent is None else recent


class ChainWatch:
    """Reads the newest watermark messages of `novelties`. While Kafka is away it goes on looking: then windows grow old."""

    def __init__(
        self,
        settings: Settings,
        on_alerts: OnAlerts,
        ending: threading.Event,
        clock: Callable[[], int],
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        """`on_alerts` gets which alerts hold at every look; `ending` ends the thread."""
        self._look_ms = int(1000 * look_seconds)
        self._settings, self._on_alerts, self._ending, self._clock = settings, on_alerts, ending, clock
        self._serves = serving.ServingVersionWatch(settings.home)
        self._alerts = ChainAlerts(settings.notify.behind_seconds + settings.windowing.window_seconds)
        self._started, self._looked = clock(), 0
        self._watermarks = ShardWatermarks()
        self._answered: set[str] = set()  # jobs for which a process has answered
        self.thread = threading.Thread(target=self._run, name="notify chain", daemon=True)

    def start(self) -> None:
        """Begin."""
        self.thread.start()

    def join(self, seconds: float) -> None:
        """Wait for the thread, after `ending` has been set."""
        if self.thread.is_alive():
            self.thread.join(seconds)

    def _run(self) -> None:
        version = ""
        while not self._ending.is_set():
            serves = self._serves.version()
            if serves != version:
                version, self._answered = serves, set()
            own = self._settings.model_copy(update={"version": version})
            try:
                with open_consumer(own, auto_offset_reset="latest") as consumer:
                    self._watch(own, consumer)
            except KappaError as error:
                log.warning("the watermarks cannot be read", error=str(error))
                self._look(own)
                self._ending.wait(AGAIN_SECONDS)

    def _watch(self, own: Settings, consumer: KafkaConsumer) -> None:
        """Until another version serves."""
        topic = own.topic("novelties")
        parts = [TopicPartition(topic, p) for p in sorted(consumer.partitions_for_topic(topic) or ())]
        self._watermarks = ShardWatermarks()
        consumer.assign(parts)
        if parts:
            recent = consumer.offsets_for_times(dict.fromkeys(parts, self._clock() - WATERMARKS_BACK_MS))
            firsts, ends = consumer.beginning_offsets(parts), consumer.end_offsets(parts)
            for at in parts:
                found = recent.get(at)
                consumer.seek(at, begin_at(None if found is None else found.offset, firsts[at], ends[at]))
        while not self._ending.is_set() and self._serves.version() == own.version:
            for records in (consumer.poll(timeout_ms=min(1_000, self._look_ms)) if parts else {}).values():
                for record in records:
                    self._watermarks.update(record.value, record.timestamp)
            self._look(own)
            if not parts and not self._ending.wait(AGAIN_SECONDS):
                return  # the topic may be there now

    def _look(self, own: Settings) -> None:
        now = self._clock()
        if not is_due(self._looked + self._look_ms, now, self._look_ms):
            return
        self._looked = now
        behind = self._watermarks.behind(now / 1000)
        healths = own_answers(own)
        answering = {name for found in healths for name in found["jobs"]}
        self._answered |= answering
        silent = sorted(self._answered - answering)
        known = (now - self._started) / 1000 if behind is None else behind
        self._on_alerts(self._alerts.update(ChainState(known, healths, silent), now))
