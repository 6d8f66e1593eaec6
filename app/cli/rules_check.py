"""What `kappa config check` does, callable from Python: the rules of the settings against the series that are known."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from pydantic import ValidationError
from rich.markup import escape

from app.core.errors import SettingsError
from app.core.settings import Settings, load, problems
from app.kafka.connection import open_consumer
from models.core.series import parse
from models.rules.check import explain
from pipelines.errors import InputError, ServiceUnavailable

MOST_RECORDS = 100_000  # of `statistics`, the newest of each partition
EMPTY_POLLS = 3
WAIT_MS = 1_000

Known = dict[str, str | None]  # texts of templates by the names of series
Report = Callable[[str], None]


class RulesRefused(SettingsError):
    """The settings are not valid; `lines` has a sentence for each thing that is wrong."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


def settings_of(config: Path | None) -> Settings:
    """The settings. Raises RulesRefused with everything that is wrong, not the first thing alone."""
    try:
        return load(config)
    except SettingsError as error:
        cause = error.__cause__
        raise RulesRefused(problems(cause) if isinstance(cause, ValidationError) else [str(error)]) from error


def check(settings: Settings, file: Path | None, connect: Callable[[], Settings], report: Report) -> dict[str, Any]:
    """Each rule with what it matches, and warnings.

    Series are those of `file`, else the newest of the version's `statistics`; without a broker that answers none are
    known, which is said. Raises InputError for a file that is none.
    """
    series: Known = {}
    whence = "no series known"
    if file is not None:
        series, whence = from_file(file), str(file)
    elif settings.control.rules:
        try:
            own = connect()
            series, whence = from_statistics(own), f"the newest records of {own.topic('statistics')}"
        except (ServiceUnavailable, InputError) as error:
            report(
                f"series are not known, so it is not checked what rules match: {error}; or name a file with --series"
            )
    rules, warnings = explain(settings.control.rules, series)
    return {"series": len(series), "from": whence, "rules": [asdict(rule) for rule in rules], "warnings": warnings}


def from_file(file: Path) -> Known:
    """Names of series, one a line, after a tab the text of a template. Raises InputError for a line that is none."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        msg = f"--series {file} cannot be read: {why}; wanted a text file with the name of a series on each line"
        raise InputError(msg) from error
    found: Known = {}
    for number, line in enumerate(lines, 1):
        name, _, text = line.strip().partition("\t")
        if name:
            try:
                parse(name)
            except ValueError as error:
                msg = f"--series {file}, line {number}: {error}"
                raise InputError(msg) from error
            found[name] = text or None
    return found


def from_statistics(settings: Settings) -> Known:
    """Series in the newest records of the version's `statistics`."""
    topic = settings.topic("statistics")
    with open_consumer(settings) as consumer:
        parts = [TopicPartition(topic, p) for p in sorted(consumer.partitions_for_topic(topic) or ())]
        if not parts:
            msg = f"there is no topic {topic}"
            raise InputError(msg)
        found: Known = {}
        for key, value in newest(consumer, parts):
            name = key.decode()
            text = json.loads(value).get("template") if name.startswith("template/") else None
            found[name] = text or found.get(name)
        return found


def newest(consumer: KafkaConsumer, parts: list[TopicPartition]) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of the newest records of partitions; ticks, which have no key, are left out."""
    begins, ends = consumer.beginning_offsets(parts), consumer.end_offsets(parts)
    consumer.assign(parts)
    for part in parts:
        consumer.seek(part, max(begins[part], ends[part] - MOST_RECORDS))
    empty = 0
    while empty < EMPTY_POLLS and any(consumer.position(part) < ends[part] for part in parts):
        polled = consumer.poll(timeout_ms=WAIT_MS)
        empty = 0 if polled else empty + 1
        for records in polled.values():
            yield from ((record.key, record.value) for record in records if record.key is not None)


def rows(answer: dict[str, Any]) -> list[list[str]]:
    """An answer as the rows of a table."""
    found = []
    for rule in answer["rules"]:
        matches = f"{rule['matches']} on {rule['hosts']} hosts" if answer["series"] else "not known"
        found.append(
            [escape(text) for text in (rule["title"], rule["does"], rule["when"], matches, "\n".join(rule["examples"]))]
        )
    return found
