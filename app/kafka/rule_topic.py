"""The topic `rules` as a whole: what it says up to its end, and appending to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from kafka import KafkaConsumer, TopicPartition

from app.core.settings import Settings
from app.kafka.append import append
from app.kafka.connection import open_consumer
from app.kafka.quarantine import records_to
from models.records.records import RuleRecord
from models.rules.rule_log import MOST_BYTES, Placed, RuleLog, record_of, strict, taken
from pipelines.errors import InputError
from pipelines.windowing import MILLIS

log = structlog.get_logger()

KIND = "rules"


@dataclass(frozen=True)
class AppendedRule:
    """A record of the topic: its offset, append time and the beginning of the window of that (epoch ms), and its JSON."""

    offset: int
    appended: int
    since: int
    text: str

    @property
    def record(self) -> RuleRecord:
        """What it says. Raises ValueError for what is no rule."""
        return record_of(self.text)


@dataclass(frozen=True)
class RuleTopic:
    """What the topic says up to the offset `end`: its records without heartbeats, in order; `window_ms` is the length of windows."""

    end: int
    records: tuple[AppendedRule, ...]
    window_ms: int

    @property
    def placed(self) -> list[Placed]:
        """The records as `models.rules.rule_log` takes them."""
        return [(one.offset, one.since, one.text) for one in self.records]

    def in_effect(self) -> RuleLog:
        """The rules that are in effect after the last record, and those that will be."""
        found = RuleLog()
        deque(taken(found, self.placed, self.window_ms, refused), maxlen=0)
        return found

    def at(self, offset: int) -> AppendedRule:
        """The record with an offset."""
        return next(one for one in self.records if one.offset == offset)


def refused(offset: int, reason: str) -> None:
    """Note a record that takes no effect: for jobs it is a dead letter."""
    log.warning("a record of the topic rules takes no effect", offset=offset, reason=reason)


def read(settings: Settings, until: int | None = None) -> RuleTopic:
    """Read the topic.

    Parameters
    ----------
    settings
        `topics.prefix`, the length of windows, and the broker.
    until
        Read up to this offset only; None for all there is now.

    Returns
    -------
    RuleTopic
        What it says.

    Raises
    ------
    InputError
        There is no such topic.
    ServiceUnavailable
        Kafka does not answer.
    """
    topic = settings.topic(KIND)
    # Checksums in Python would take two thirds of the time, and most records are heartbeats; rules are parsed strictly in any case.
    with open_consumer(settings, check_crcs=False) as consumer:
        if not consumer.partitions_for_topic(topic):
            msg = f"there is no topic {topic}; `kappa topics create` makes it"
            raise InputError(msg)
        at = TopicPartition(topic, 0)
        end = consumer.end_offsets([at])[at]
        end = end if until is None else min(until, end)
        window_ms = settings.windowing.window_seconds * MILLIS
        return RuleTopic(end, tuple(records_of(settings, consumer, at, end)), window_ms)


class RuleTail:
    """The topic, read further whenever it is asked for: what has come since."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._next = settings, 0
        self.window_ms = settings.windowing.window_seconds * MILLIS

    def read(self) -> Iterator[Placed]:
        """What was appended since the last time, up to now; nothing without a topic. Raises ServiceUnavailable where Kafka does not answer."""
        at = TopicPartition(self._settings.topic(KIND), 0)
        with open_consumer(self._settings, check_crcs=False) as consumer:
            if consumer.partitions_for_topic(at.topic):
                end = consumer.end_offsets([at])[at]
                begin = self._next if self._next <= end else 0  # it was made anew
                for one in records_of(self._settings, consumer, at, end, begin):
                    yield one.offset, one.since, one.text
                self._next = end


def records_of(
    settings: Settings, consumer: KafkaConsumer, at: TopicPartition, end: int, begin: int = 0
) -> Iterator[AppendedRule]:
    """The records from an offset up to another that may be rules: no heartbeats, and none that `extract` refuses for its size, kind or key."""
    length = settings.windowing.window_seconds * MILLIS
    for record in records_to(settings, consumer, at, max(begin, consumer.beginning_offsets([at])[at]), end):
        text = rule_text(record.key, record.value)
        if text is not None:
            yield AppendedRule(record.offset, record.timestamp, record.timestamp // length * length, text)


def rule_text(key: bytes | None, value: bytes | None) -> str | None:
    """The JSON of a record that may be a rule, under its name as the key; None for anything else."""
    # heartbeats are most of them; but any letter may be written as an escape
    if value is None or len(value) > MOST_BYTES or (b'"rule"' not in value and b"\\" not in value):
        return None
    try:
        text = value.decode()
        source = strict(text)
        name = source.get("name")
        keyed = isinstance(name, str) and name.encode() == key
        return text if keyed and source.get("record") == RuleRecord.KIND else None
    except ValueError:
        return None


def write(settings: Settings, records: Sequence[Mapping[str, Any]]) -> None:
    """Append rules. Raises ServiceUnavailable if Kafka does not take them."""
    append(settings, KIND, ((str(record["name"]), record) for record in records))
