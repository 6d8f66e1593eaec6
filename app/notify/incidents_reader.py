"""Reads the incidents of the version that serves, and of those that `notify.versions` names, and early alarms where a channel takes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import structlog
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from app.core.notify_settings import NotifySettings
from app.core.settings import Settings
from app.kafka.connection import client_options, translate_errors, unavailable_error
from app.kafka.early_records import parse_alarm
from app.kafka.topics import EARLY
from app.notify.incident import LogPlace, ReadIncident, parse_incident
from app.versions import serving
from app.versions.serving import Serving
from models.records.labels import MOST_BYTES, is_label
from models.records.records import EarlyAlarm
from models.rules.rule_log import parse_strict_json

log = structlog.get_logger()

POLL_MS = 500
MOST_RECORDS = 500
LONGEST_ID = 64


@dataclass(frozen=True)
class PolledRecord:
    """A record at `place`: an `incident`, an early `alarm`, or a label, of which `acknowledged` is the incident's id; none for other records.

    `key` is what channels know the incident by; `news` says whether channels that do not know it are to be notified of it.
    """

    place: LogPlace
    incident: ReadIncident | None = None
    key: str = ""
    news: bool = True
    acknowledged: str = ""
    alarm: EarlyAlarm | None = None
    appended: int = 0  # of an alarm, epoch ms


class IncidentsReader:
    """A consumer without a group. Positions come from outside."""

    def __init__(self, settings: Settings, until: Mapping[TopicPartition, int], labels_since_ms: int) -> None:
        """`until`: where to begin, by partition; `labels_since_ms`: of labels, the time of the first (epoch ms).

        Raises ServiceUnavailable if Kafka does not answer.
        """
        self._settings, self._until = settings, dict(until)
        self._serves, self._versions = serving.ServingVersionWatch(settings.home), dict[str, str]()
        self._serving = serving.read(settings.home)
        self._missing: set[str] = set()
        self._labels = TopicPartition(settings.topic("labels"), 0)
        self._labels_since, self._labels_end = labels_since_ms, 0
        self._early = TopicPartition(settings.topic(EARLY), 0)
        self._reads_early = any(channel.early for channel in settings.notify.channels.values())
        options = client_options(settings)
        with translate_errors(options):
            self._consumer = KafkaConsumer(
                **options, allow_auto_create_topics=False, auto_offset_reset="earliest", max_poll_records=MOST_RECORDS
            )

    @property
    def versions(self) -> tuple[str, ...]:
        """Versions whose incidents are read; the one that serves is first."""
        return tuple(self._versions.values())

    def wanted(self) -> list[str]:
        """Versions whose incidents people are notified of, whether they have run yet or not; the one that serves is first."""
        return list(dict.fromkeys((self._serves.version(), *self._settings.notify.versions)))

    def update_assignment(self) -> tuple[str, ...]:
        """Assign the topics of the versions that notify now; returns the versions that no longer do."""
        wanted = self.wanted()
        if [*self._versions.values()] == wanted:
            return ()
        before, self._serving = self.versions, serving.read(self._settings.home)
        topics = {self._topic(version): version for version in wanted}
        try:
            parts = {name: self._consumer.partitions_for_topic(name) or () for name in topics}
            there = {name: version for name, version in topics.items() if parts[name]}
            self._missing |= topics.keys() - there.keys()
            if there == self._versions:
                return ()
            self._versions = there
            self._assign([TopicPartition(name, p) for name in self._versions for p in sorted(parts[name])])
        except (KafkaError, OSError) as error:
            raise unavailable_error(self._settings, error) from error
        return tuple(version for version in before if version not in wanted)

    def _topic(self, version: str) -> str:
        return self._settings.model_copy(update={"version": version}).topic("incidents")

    def _assign(self, parts: list[TopicPartition]) -> None:
        """Go on where the log of deliveries says; else at the end. At the beginning of a topic that was not there, and of a version that was
        promoted, if the one before it was read.
        """
        self._until |= {at: self._consumer.position(at) for at in self._consumer.assignment()}
        read_labels = bool(self._consumer.partitions_for_topic(self._labels.topic))
        early = self._reads_early and bool(self._consumer.partitions_for_topic(self._early.topic))
        more = [part for part, is_read in ((self._labels, read_labels), (self._early, early)) if is_read]
        self._consumer.assign([*parts, *more])
        if early:
            end = self._consumer.end_offsets([self._early])[self._early]
            self._consumer.seek(self._early, self._until.get(self._early, end))
        if read_labels:
            self._seek_labels()
        ends = self._consumer.end_offsets(parts)
        followed = any(at not in (self._labels, self._early) for at in self._until)
        for at in parts:
            promoted = (
                followed and len(self._serving.intervals) > 1 and self._versions[at.topic] == self._serving.version
            )
            begin = 0 if promoted or at.topic in self._missing else ends[at]
            self._consumer.seek(at, self._until.get(at, begin))

    def _seek_labels(self) -> None:
        """To where they were read before, else to the time from which on they matter."""
        begin = self._until.get(self._labels)
        self._labels_end = self._consumer.end_offsets([self._labels])[self._labels]
        if begin is None:
            found = self._consumer.offsets_for_times({self._labels: self._labels_since})[self._labels]
            begin = self._labels_end if found is None else found.offset
        self._consumer.seek(self._labels, begin)

    @property
    def labels_read(self) -> bool:
        """Whether the labels are read that were there at the start."""
        there = self._labels in self._consumer.assignment()
        return not there or self._consumer.position(self._labels) >= self._labels_end

    def positions(self) -> dict[TopicPartition, int]:
        """The next offset of each partition."""
        return {at: self._consumer.position(at) for at in self._consumer.assignment() if at != self._labels}

    def poll(self) -> Iterator[PolledRecord]:
        """Records that have arrived; waits for half a second at the most."""
        try:
            polled = self._consumer.poll(timeout_ms=POLL_MS)
        except KafkaError as error:
            raise unavailable_error(self._settings, error) from error
        for at, records in polled.items():
            if at == self._labels:
                yield from (
                    PolledRecord(LogPlace(at.topic, 0, r.offset), acknowledged=labelled_incident(r.value))
                    for r in records
                )
                continue
            if at == self._early:
                for r in records:
                    alarm = parse_alarm(r.value)
                    own_alarm = alarm if alarm is not None and alarm.version == self._serving.version else None
                    yield PolledRecord(LogPlace(at.topic, 0, r.offset), alarm=own_alarm, appended=r.timestamp)
                continue
            version = self._versions[at.topic]
            for record in records:
                place, found = LogPlace(at.topic, at.partition, record.offset), parse_incident(record.value)
                if found is None or found.version != version:
                    yield PolledRecord(place)
                    continue
                key = found.id if version == self._serving.version else key_with_version(found)
                yield PolledRecord(place, found, key, news=is_news(self._settings.notify, self._serving, found))

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()


def key_with_version(incident: ReadIncident) -> str:
    """What channels know an incident by while its version does not serve: versions have the same ids, so it says which one it is of."""
    return f"{incident.id}-{incident.version}"


def is_news(notify: NotifySettings, served: Serving, incident: ReadIncident) -> bool:
    """Whether people are notified of an incident by this record: its version serves, or served, when it was published, or is named."""
    at = incident.window_end
    return incident.version in notify.versions or any(
        (after is None or at > after) and (end is None or at <= end) for after, end in served.ranges(incident.version)
    )


def labelled_incident(value: bytes | None) -> str:
    """The incident that a label is about; empty of heartbeats, and of what is no label: `extract` refuses it, and no page shows it."""
    if value is None or len(value) > MOST_BYTES or (b'"label"' not in value and b"\\" not in value):
        return ""
    try:
        found = parse_strict_json(value.decode("utf-8-sig"))  # without a byte order mark, as `extract` reads it
    except ValueError:
        return ""
    incident = found.get("incident") if is_label(found) else None
    return incident if isinstance(incident, str) and len(incident) <= LONGEST_ID else ""
