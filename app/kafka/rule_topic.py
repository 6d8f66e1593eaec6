"""The topic `rules` as a whole: what it says up to its end, and appending to it."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from kafka import KafkaConsumer, TopicPartition

from app.core.settings import Settings
from app.kafka import quarantine
from app.kafka.append import append
from app.kafka.connection import open_consumer
from app.kafka.record_range import records_between
from models.records.records import RuleRecord
from models.rules.rule_log import (
    MOST_BYTES,
    MOST_NAME,
    MOST_RULES,
    LoggedRule,
    Placed,
    RuleLog,
    forgotten_until,
    has_ended,
    parse_strict_json,
    record_of,
    rule_in,
    take_all,
)
from pipelines.errors import InputError
from pipelines.inputs import fields
from pipelines.quarantine import NO_QUARANTINE, Quarantine
from pipelines.windowing import MILLIS

log = structlog.get_logger()

KIND = "rules"
CONTROL = re.compile(fields.CONTROL)


@dataclass(frozen=True)
class AppendedRule:
    """A record under a name: its offset, append time and the beginning of the window of that (epoch ms), and its JSON.

    `text` is None for what is no rule, which ends the rule of this name.
    """

    offset: int
    appended: int
    since: int
    name: str
    text: str | None

    @property
    def record(self) -> RuleRecord:
        """What it says. Raises ValueError for what is no rule."""
        return record_of(self.text or "")

    @property
    def placed(self) -> Placed:
        """The record as `models.rules.rule_log` takes it."""
        return self.offset, self.since, self.name, self.text


@dataclass(frozen=True)
class RulesNow:
    """What the topic says now.

    Attributes
    ----------
    since
        When the window begins, epoch ms, in which a record would be appended.
    known
        The rules that are in effect, or will be, in the order of their names.
    room
        How many more rules jobs would take. It is less than what `known` leaves where rules have ended in this hour.
    over
        Those that have ended, by name, where they are the last record of it.
    """

    since: int
    known: Mapping[str, LoggedRule]
    room: int
    over: Mapping[str, LoggedRule]


@dataclass(frozen=True)
class RuleTopic:
    """What the topic says up to the offset `end`: its records under names, in order; `window_ms` is the length of windows."""

    end: int
    records: tuple[AppendedRule, ...]
    window_ms: int

    @property
    def placed(self) -> list[Placed]:
        """The records as `models.rules.rule_log` takes them."""
        return [one.placed for one in self.records]

    def in_effect(self, now: int) -> RulesNow:
        """The rules that are in effect in the window of `now`, epoch ms, or of the last record if that is later, and those that will be."""
        log, since = RuleLog(), max([now // self.window_ms * self.window_ms, *(one.since for one in self.records[-1:])])
        deque(take_all(log, self.placed, self.window_ms, log_refused), maxlen=0)
        log.forget(forgotten_until(since, self.window_ms))
        room = MOST_RULES - len(log.known)
        log.forget(since)
        last = (rule_in(one.placed) for one in {one.name: one for one in self.records}.values())
        over = {one.name: one for one in last if one is not None and has_ended(one.effective_record(), since)}
        return RulesNow(since, {one.name: one for one in log.rules_of_log()}, room, over)

    def at(self, offset: int) -> AppendedRule:
        """The record with an offset."""
        return next(one for one in self.records if one.offset == offset)


def log_refused(offset: int, reason: str) -> None:
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
            msg = f"there is no topic {topic}, or this user may not read it; `kappa topics create` makes it, `kappa topics acls` has the rights"
            raise InputError(msg)
        at = TopicPartition(topic, 0)
        end = consumer.end_offsets([at])[at]
        end = end if until is None else min(until, end)
        window_ms = settings.windowing.window_seconds * MILLIS
        unread = quarantined_rules(settings, consumer, at)
        return RuleTopic(end, tuple(named_records(settings, consumer, at, end, 0, unread)), window_ms)


@dataclass(frozen=True)
class NewRules:
    """Records about rules in order. `anew`: these are all that there are, and what was read before no longer counts."""

    records: tuple[Placed, ...] = ()
    anew: bool = False


class RuleTail:
    """The topic, read further whenever it is asked for: what has come since."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._next, self._unread = settings, 0, NO_QUARANTINE
        self.window_ms = settings.windowing.window_seconds * MILLIS

    def read(self) -> NewRules:
        """What was appended since the last time, up to now; nothing without a topic.

        All of it where the topic was made anew, or a record that was read before is in quarantine by now: jobs leave it unread, and so does who
        begins from scratch. Raises ServiceUnavailable where Kafka does not answer.
        """
        at = TopicPartition(self._settings.topic(KIND), 0)
        with open_consumer(self._settings, check_crcs=False) as consumer:
            if not consumer.partitions_for_topic(at.topic):
                return NewRules()
            unread, end = quarantined_rules(self._settings, consumer, at), consumer.end_offsets([at])[at]
            later = any(one.offset < self._next for one in unread.records if one not in self._unread.records)
            begin = 0 if later or self._next > end else self._next
            found = tuple(one.placed for one in named_records(self._settings, consumer, at, end, begin, unread))
            self._next, self._unread = end, unread
        return NewRules(found, begin == 0)


def quarantined_rules(settings: Settings, consumer: KafkaConsumer, at: TopicPartition) -> Quarantine:
    """The records in quarantine that `extract` does not read."""
    return quarantine.read_with(settings, consumer).found.for_job("extract", [at.topic])


def named_records(
    settings: Settings, consumer: KafkaConsumer, at: TopicPartition, end: int, begin: int, unread: Quarantine
) -> Iterator[AppendedRule]:
    """The records from an offset up to another that are under names; what `extract` refuses, or does not read, comes without its JSON."""
    length = settings.windowing.window_seconds * MILLIS
    for record in records_between(settings, consumer, at, max(begin, consumer.beginning_offsets([at])[at]), end):
        name = name_of(record.key)
        if name is not None:
            is_read = not unread.contains(record.topic, record.partition, record.offset, record.timestamp)
            text = rule_text(name, record.value) if is_read else None
            yield AppendedRule(record.offset, record.timestamp, record.timestamp // length * length, name, text)


def name_of(key: bytes | None) -> str | None:
    """The text of a key, where that may be a rule's name; else None, as of heartbeats."""
    try:
        name = "" if key is None or len(key) > 4 * MOST_NAME else key.decode()
    except UnicodeDecodeError:
        return None
    return name if 0 < len(name) <= MOST_NAME and not CONTROL.search(name) else None


def rule_text(name: str, value: bytes | None) -> str | None:
    """The JSON of a record under a name, where it may be a rule of that name; None for anything else."""
    if value is None or len(value) > MOST_BYTES:
        return None
    try:
        text = value.decode("utf-8-sig")  # without a byte order mark, as `extract` reads it
        source = parse_strict_json(text)
    except ValueError:
        return None
    return text if source.get("record") == RuleRecord.KIND and source.get("name") == name else None


def write(settings: Settings, records: Sequence[Mapping[str, Any]]) -> None:
    """Append rules. Raises ServiceUnavailable if Kafka does not take them."""
    append(settings, KIND, ((str(record["name"]), record) for record in records))
