"""`kappa rules`: records in the topic `rules`, and what is in effect by them. `difference` and `removal` do it from Python."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import label
from app.cli.config import KnownSeries, from_statistics
from app.cli.connection import Config, connected
from app.cli.output import DryRun, Json, print_json, print_line, print_table, report
from app.cli.rule_files import checked, rules_in
from app.cli.rule_incident import MAINTENANCE, MUTE, answer_of, rules_of_incident, writable
from app.core.settings import Settings, load
from app.core.timestamps import iso, milliseconds, wall_clock
from app.core.user_name import user_name
from app.versions import serving
from models.core.wording import counted
from models.records.records import ACKNOWLEDGED, MOST_COMMENT, RuleRecord
from models.rules.check import describe_effects, describe_selection, describe_times, explain
from models.rules.rule import Rule
from models.rules.rule_log import MOST_RULES, OF_ROUTES, LoggedRule, keys_of, record_of, rule_from, rule_json
from pipelines.errors import InputError, KappaError

if TYPE_CHECKING:
    from app.kafka.rule_topic import AppendedRule, RulesNow

rules_app = typer.Typer(
    help="Rules about alarms, learning and who is notified; they are kept in the log.", no_args_is_help=True
)

NO_RULE = "no rule, which ends the one of this name: see the dead letter"
NEW, CHANGED, SAME, REMOVED = "new", "changed", "unchanged", "removed"

Since = Annotated[
    str | None,
    typer.Option(help="Time from which it was true, ISO 8601, for replays with --rules-as-known-now. Default: now."),
]
Comment = Annotated[str, typer.Option(help="Why, for people.")]
Author = Annotated[str | None, typer.Option(help="Author. Default: the user who runs this.")]


@dataclass(frozen=True)
class Difference:
    """What becomes of one rule: a word, its name, its record, and the keys that it had, empty where it was not in effect."""

    word: str
    name: str
    record: Mapping[str, Any]
    before: str = ""


@rules_app.command("apply")
def apply(
    file: Annotated[Path, typer.Argument(help="TOML with tables rules, each with a name.")],
    dry_run: DryRun = False,
    again: Annotated[
        bool, typer.Option("--again", help="Write those that are in effect as well, so that the log keeps them.")
    ] = False,
    since: Since = None,
    comment: Comment = "",
    author: Author = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Write the rules of a file that are new or have changed. Rules that the file lacks stay in effect."""
    found, settings = rules_in(file, checked_time("since", since), **about(comment, author)), load(config)
    check_channels(file, found, settings)
    settings = connected(settings, ("kafka",))
    applied(settings, found, again, dry_run, as_json)


def applied(
    settings: Settings, records: Sequence[Mapping[str, Any]], again: bool, dry_run: bool, as_json: bool
) -> None:
    """Write those of the records that change something, with `again` those in effect as well, and print the difference."""
    from app.kafka import rule_topic  # loads Kafka's client

    now = rule_topic.read(settings).in_effect(wall_clock())
    differences = difference(now, records)
    changing = [one for one in differences if one.word != SAME or (again and one.before)]
    carried_out(settings, differences, changing, dry_run, as_json)
    warn([one.record for one in differences if one.word != SAME], now.since, settings)


def warn(records: Sequence[Mapping[str, Any]], since: int, settings: Settings) -> None:
    """Say of which rules it is doubtful that they do what they are meant to, by the series in the newest records of `statistics`."""
    if not any(OF_ROUTES not in record for record in records):
        return
    try:
        lines = doubtful(records, since, from_statistics(settings))
    except KappaError as error:
        report(f"series are not known, so what the rules match is not checked: {error}")
        return
    for line in lines:
        report(f"warning: {line}")


def doubtful(records: Sequence[Mapping[str, Any]], since: int, series: KnownSeries) -> list[str]:
    """Warnings about rules that begin at `since`, epoch ms, where they do not say when: what matches none of the series, and the like."""
    # in the order in which jobs apply them
    found = [
        rule_from(keys_of(record_of(json.dumps(record))), since)
        for record in sorted(records, key=lambda record: str(record["name"]))
    ]
    return explain([rule for rule in found if isinstance(rule, Rule)], series)[1]


def carried_out(
    settings: Settings,
    differences: Sequence[Difference],
    changing: Sequence[Difference],
    dry_run: bool,
    as_json: bool,
    **counts: int,
) -> None:
    """Write those that change something, and print all; `counts` are further members of the JSON."""
    from app.kafka import rule_topic  # loads Kafka's client

    if changing and not dry_run:
        rule_topic.write(settings, [one.record for one in changing])
    if as_json:
        rows = [{"rule": one.name, "is": one.word, "record": one.record} for one in differences]
        print_json({"written": 0 if dry_run else len(changing), "rules": rows, **counts})
        return
    word = "would write" if dry_run else "wrote"
    print_table(
        f"{word} {len(changing)} of {counted(len(differences), 'rule')}", ["", "rule", "is", "was"], shown(differences)
    )


@rules_app.command("incident")
def incident(
    identity: Annotated[
        str,
        typer.Argument(metavar="INCIDENT", help="Id of the incident, as in the topic incidents and on the dashboard."),
    ],
    what: Annotated[str, typer.Argument(metavar="WHAT", help="mute or maintenance.")],
    until: Annotated[
        str | None,
        typer.Option(help="End, ISO 8601. A mute without it has no end; a maintenance ends with the incident."),
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Start of the maintenance, ISO 8601. Default: start of the incident.")
    ] = None,
    comment: Comment = "",
    author: Author = None,
    dry_run: DryRun = False,
    version: Annotated[
        str | None, typer.Option(help="Version of the incident. Default: the version that serves.")
    ] = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Mute what is strange in an incident, or say that its hosts were in maintenance. Whoever does so has acknowledged it."""
    from app.kafka import rule_topic  # loads Kafka's client

    if what not in (MUTE, MAINTENANCE) or (what == MUTE and since is not None):
        msg = f"rules incident: got {what!r}{' with --since' if since else ''}; wanted {MUTE} [--until], or {MAINTENANCE} [--since] [--until]"
        raise InputError(msg)
    span = checked_time("since", since), checked_time("until", until)
    settings = connected(serving.of_version(config, version), ("kafka", "elasticsearch"))
    found = label.incident_document(settings, identity)
    of, texts = label.about_incident(found), about(comment, author)
    rules, left_out = writable(rules_of_incident(identity, of, what, *span, **texts))
    answer = label.record(settings, identity, ACKNOWLEDGED, answer_of(what, comment), author, of)
    differences = difference(rule_topic.read(settings).in_effect(wall_clock()), rules)
    if not dry_run:
        label.send(settings, answer)
    unshown = label.unshown(found) if what == MUTE else 0
    if unshown:
        report(
            f"the rules are about the {len(of['series'])} series that the incident shows, not those of {counted(unshown, 'further episode')}: "
            "write rules for these into a file for `kappa rules apply`"
        )
    if left_out:
        report(f"left out: {counted(left_out, 'rule')} about names that are too long for a pattern")
    changing = [one for one in differences if one.word != SAME]
    carried_out(settings, differences, changing, dry_run, as_json, left_out=left_out)


@rules_app.command("list")
def list_rules(config: Config = None, as_json: Json = False) -> None:
    """List the rules that are in effect, or will be."""
    from app.kafka import rule_topic  # loads Kafka's client

    settings = connected(load(config), ("kafka",))
    topic = rule_topic.read(settings)
    found = [described(one, topic.at(one.offset)) for one in topic.in_effect(wall_clock()).known.values()]
    if as_json:
        print_json({"rules": found})
        return
    columns = ["rule", "series", "does", "when", "written", "by"]
    rows = [[one[name] for name in ("name", "series", "does", "when", "written", "author")] for one in found]
    print_table(
        f"{counted(len(found), 'rule')} of the log, {len(settings.control.rules)} of the settings", columns, rows
    )


@rules_app.command("show")
def show(
    name: Annotated[str, typer.Argument(help="Name of the rule.")], config: Config = None, as_json: Json = False
) -> None:
    """Show one rule: what it says, and every record of it."""
    from app.kafka import rule_topic  # loads Kafka's client

    topic = rule_topic.read(connected(load(config), ("kafka",)))
    history = [one for one in topic.records if one.name == name]
    known = topic.in_effect(wall_clock()).known.get(name)
    if not history:
        msg = f"the log has no rule {name!r}; see `kappa rules list`"
        raise InputError(msg)
    records = [
        {"offset": one.offset, "written": iso(one.appended), "record": one.text and json.loads(one.text)}
        for one in history
    ]
    if as_json:
        print_json({"name": name, "in_effect": None if known is None else json.loads(known.rule), "records": records})
        return
    print_line(f"{name}: {'not in effect' if known is None else known.rule}")
    for one in records:
        is_rule = one["record"] is not None
        print_line(f"{one['written']} {json.dumps(one['record'], ensure_ascii=False) if is_rule else NO_RULE}")


@rules_app.command("remove")
def remove(
    names: Annotated[list[str], typer.Argument(help="Names of rules, of the log or of the settings.")],
    dry_run: DryRun = False,
    since: Since = None,
    comment: Comment = "",
    author: Author = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """End rules: from now on they have no effect."""
    from app.kafka import rule_topic  # loads Kafka's client

    settings = connected(load(config), ("kafka",))
    known = rule_topic.read(settings).in_effect(wall_clock()).known
    records = removal(settings, known, names, checked_time("since", since))
    records = [{**record, **about(comment, author)} for record in records]
    if not dry_run:
        rule_topic.write(settings, records)
    if as_json:
        print_json({"written": 0 if dry_run else len(records), "rules": records})
        return
    print_line(f"{'would end' if dry_run else 'ended'}: {', '.join(names)}")


def difference(rules: RulesNow, records: Sequence[Mapping[str, Any]]) -> list[Difference]:
    """What each record changes. One that says what has ended changes nothing.

    Raises InputError where there would be too many rules, and for one that jobs would refuse.
    """
    found = []
    for record in records:
        before = rules.known.get(record["name"])
        last = before or rules.over.get(record["name"])
        keys = keys_of(record_of(json.dumps(record)))
        word = NEW if before is None else CHANGED
        if last is not None and last.rule == rule_json(keys):
            word = SAME
        if word != SAME:
            check_lasts(keys, rules.since)
        found.append(Difference(word, record["name"], record, "" if before is None else before.rule))
    new = sum(one.word == NEW for one in found)
    if new > rules.room:
        msg = f"{counted(new, 'rule')} more than the {MOST_RULES - rules.room} that are there; wanted at most {MOST_RULES} in all: remove some first"
        raise InputError(msg)
    return found


def check_lasts(keys: Mapping[str, Any], since: int) -> None:
    """Raise InputError for a rule that would hold from `since` on, epoch ms, and has ended by then."""
    try:
        rule_from(keys, since)
    except ValueError as error:
        msg = (
            f"rule {keys['name']!r} was over at {keys.get('until')}; wanted a later `until`, or a `since` before it, for replays that know "
            "rules beforehand"
        )
        raise InputError(msg) from error


def check_channels(file: Path, records: Sequence[Mapping[str, Any]], settings: Settings) -> None:
    """Raise InputError for a rule that names a channel that the settings do not have."""
    known = settings.notify.channels
    for record in records:
        unknown = [name for part in ("channels", "escalate_to") for name in record.get(part, ()) if name not in known]
        if unknown:
            msg = (
                f"{file}, rule {record['name']!r} names channel {unknown[0]!r}; the settings have {', '.join(known) or 'none'}: add "
                f"[notify.channels.{unknown[0]}] first"
            )
            raise InputError(msg)


def removal(
    settings: Settings, known: Mapping[str, LoggedRule], names: Sequence[str], since: str | None
) -> list[dict[str, Any]]:
    """Records that end rules. Raises InputError for a name that no rule has."""
    of_settings = [rule.name for rule in settings.control.rules] + [route.name for route in settings.notify.routes]
    there = known.keys() | {name for name in of_settings if name}
    unknown = [name for name in names if name not in there]
    if unknown:
        msg = f"there is no rule {unknown[0]!r}; see `kappa rules list`"
        raise InputError(msg)
    begin = {} if since is None else {"since": since}
    return [checked(name, {"record": RuleRecord.KIND, "name": name, "removed": True, **begin}) for name in names]


def checked_time(option: str, given: str | None) -> str | None:
    """A time as ISO 8601 in UTC, to the second. Raises InputError."""
    return None if given is None else iso(milliseconds(f"rules: --{option}", given))


def about(comment: str, author: str | None) -> dict[str, str]:
    """What a record says for people. Raises InputError for a text that is too long."""
    if len(comment) > MOST_COMMENT:
        msg = f"--comment has {len(comment)} characters; wanted at most {MOST_COMMENT}"
        raise InputError(msg)
    texts = {"comment": comment, "author": user_name() if author is None else author}
    return {name: text for name, text in texts.items() if text}


def described(one: LoggedRule, appended: AppendedRule) -> dict[str, Any]:
    """A rule for people."""
    record, rule = appended.record, rule_from(json.loads(one.rule), one.since)
    return {
        "name": one.name,
        "series": describe_selection(rule),
        "does": describe_effects(rule),
        "when": describe_times(rule),
        "written": iso(appended.appended),
        "author": record.author,
        "comment": record.comment,
        "incident": record.incident,
        "rule": json.loads(one.rule),
    }


def shown(differences: Sequence[Difference]) -> list[list[str]]:
    """Differences as the rows of a table, without what stays."""
    return [
        [
            one.word,
            one.name,
            "" if one.word == REMOVED else rule_json(keys_of(record_of(json.dumps(one.record)))),
            one.before,
        ]
        for one in differences
        if one.word != SAME
    ]
