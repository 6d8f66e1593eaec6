"""`kappa config`: effective settings, and the rules in them against the series that are known."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import ValidationError

from app.cli.connection import Config, connected
from app.cli.output import Cell, Json, print_error, print_json, print_line, print_table, report
from app.core.errors import SettingsError
from app.core.report import Report
from app.core.secrets import is_secret
from app.core.server_files import check_files
from app.core.settings import DEFAULT_FILE, Settings, dotted_names, file_in_use, load, problems
from models.core.series import SERIES_KINDS, parse
from models.core.wording import counted
from models.rules.check import explain
from pipelines.errors import InputError, ServiceUnavailable

if TYPE_CHECKING:
    from kafka import KafkaConsumer, TopicPartition

config_app = typer.Typer(help="Show and check settings.", no_args_is_help=True)

MOST_RECORDS = 100_000  # of `statistics`, the newest of each partition
EMPTY_POLLS = 3
WAIT_MS = 1_000

KnownSeries = dict[str, str | None]  # texts of templates by the names of series


class RulesRefused(SettingsError):
    """The settings are not valid; `lines` has a sentence for each thing that is wrong."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


@config_app.command("show")
def show(config: Config = None, as_json: Json = False) -> None:
    """Show effective settings: defaults, file, environment. Secrets are masked."""
    masked = load(config).shown()
    if as_json:
        print_json(masked)
        return
    for key, value in dotted_names(masked):
        print_line(f"{key} = {json.dumps(value)}")


@config_app.command("check")
def check_rules(
    config: Config = None,
    series: Annotated[
        Path | None, typer.Option(help="File with a series' name on each line. Default: what `statistics` has.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check settings and channels without sending anything, and show what each rule matches and when. Exit 1 for wrong settings."""
    try:
        settings = settings_of(config)
        check_files(settings, ("kafka", "elasticsearch"))
        of_channels = warnings_of_channels(settings)
    except RulesRefused as error:
        for line in error.lines:
            print_error(line)
        raise typer.Exit(1) from error
    answer = check(settings, series, lambda: connected(settings, ("kafka",)), report)
    answer["channels"], answer["warnings"] = list(settings.notify.channels), [*answer["warnings"], *of_channels]
    if as_json:
        print_json(answer)
        return
    file = file_in_use(config)
    print_line(
        f"the settings are valid: {file or f'no {DEFAULT_FILE} in this folder'}, the environment and the defaults"
    )
    if answer["rules"]:
        columns = ["rule", "does", "when", "series", "such as"]
        title = f"{counted(len(answer['rules']), 'rule')} of the settings, {answer['series']} series ({answer['from']})"
        print_table(title, columns, rows(answer))
    else:
        print_line("no rules in the settings; `kappa rules list` shows those of the log")
    if answer["channels"]:
        print_line(
            f"channels that can be used: {', '.join(answer['channels'])}; `kappa notify test CHANNEL` sends a message"
        )
    for line in answer["warnings"]:
        report(f"warning: {line}")


@config_app.command("spark")
def spark(config: Config = None) -> None:
    """Print Spark's configuration as a properties file for `spark-submit --properties-file`; `kappa` itself adds secrets.

    The jars that it names have to be there: missing ones are fetched first.
    """
    from app.runtime.spark import configuration, properties  # loads Spark

    options = configuration(load(config), report)
    sys.stdout.write(properties({name: text for name, text in options.items() if not is_secret(name)}))


def settings_of(config: Path | None) -> Settings:
    """The settings. Raises RulesRefused with everything that is wrong, not the first thing alone."""
    try:
        return load(config)
    except SettingsError as error:
        cause = error.__cause__
        raise RulesRefused(problems(cause) if isinstance(cause, ValidationError) else [str(error)]) from error


def warnings_of_channels(settings: Settings) -> list[str]:
    """What is doubtful about channels of notifications. Raises RulesRefused with a sentence for each that cannot be used."""
    if not settings.notify.channels:
        return []
    from app.notify.channels.kinds import examined  # loads apprise

    warnings, refused = [], []
    for name in settings.notify.channels:
        try:
            warnings.append(examined(settings.notify, name))
        except SettingsError as error:
            refused.append(str(error))
    if refused:
        raise RulesRefused(refused)
    return [one for one in warnings if one]


def check(settings: Settings, file: Path | None, connect: Callable[[], Settings], report: Report) -> dict[str, Any]:
    """Each rule with what it matches, and warnings.

    Series are read from `file`, else from the newest records of the version's `statistics`. Without a broker that answers
    none are known, and `report` gets a line about it. Raises InputError for a file that cannot be read.
    """
    series: KnownSeries = {}
    source = "no series known"
    if file is not None:
        series, source = from_file(file), str(file)
    elif settings.control.rules:
        try:
            own = connect()
            series, source = from_statistics(own), f"the newest records of {own.topic('statistics')}"
        except (ServiceUnavailable, InputError) as error:
            report(
                f"series are not known, so what the rules match is not checked: {error}; or name a file with --series"
            )
    rules, warnings = explain(settings.control.rules, series)
    return {"series": len(series), "from": source, "rules": [asdict(rule) for rule in rules], "warnings": warnings}


def from_file(file: Path) -> KnownSeries:
    """Names of series, one a line, optionally a tab and the text of the template. Raises InputError for a malformed line."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        msg = f"--series {file} cannot be read: {why}; wanted a text file with the name of a series on each line"
        raise InputError(msg) from error
    found: KnownSeries = {}
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


def from_statistics(settings: Settings) -> KnownSeries:
    """Series in the newest records of the version's `statistics`."""
    from kafka import TopicPartition

    from app.kafka.connection import open_consumer  # loads Kafka's client

    topic = settings.topic("statistics")
    with open_consumer(settings) as consumer:
        parts = [TopicPartition(topic, p) for p in sorted(consumer.partitions_for_topic(topic) or ())]
        if not parts:
            msg = f"there is no topic {topic}"
            raise InputError(msg)
        return series_of(newest(consumer, parts))


def series_of(records: Iterable[tuple[bytes, bytes]]) -> KnownSeries:
    """Series among records of `statistics`, which also has labels, changes, rules and what is over a limit."""
    found: KnownSeries = {}
    for key, value in records:
        name = key.decode()
        kind = name.partition("/")[0]
        if kind in SERIES_KINDS:
            text = json.loads(value).get("template") if kind == "template" else None
            found[name] = text or found.get(name)
    return found


def newest(consumer: KafkaConsumer, parts: list[TopicPartition]) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of the newest records of partitions. Watermark messages, which have no key, are left out."""
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


def rows(answer: dict[str, Any]) -> list[list[Cell]]:
    """An answer as the rows of a table."""
    found = []
    for rule in answer["rules"]:
        matches = f"{rule['matches']} on {counted(rule['hosts'], 'host')}" if answer["series"] else "not known"
        found.append([rule["title"], rule["does"], rule["when"], matches, rule["examples"]])
    return found
