"""`kappa change` and `kappa topology`: records in the topic `changes`. `change_record`, `calls_in` and `send` do it from Python."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.connection import Config, connected
from app.cli.output import Json, print_json, print_line
from app.core.settings import Settings, load
from app.core.timestamps import milliseconds
from app.core.user_name import user_name
from models.core.wording import counted
from models.records.records import CHANGE_KINDS, MAX_NAME, MOST_TEXT, ChangeMade, Topology
from models.records.schema import parsed, plain
from pipelines.errors import InputError

MOST_LINES = 100_000
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check it and show it; write nothing.")]


def change(
    service: Annotated[str, typer.Argument(help="What was changed, as its metrics name it; empty with --host.")] = "",
    kind: Annotated[str, typer.Option(help="deployment, configuration, scaling or other.")] = "deployment",
    version: Annotated[str, typer.Option(help="The new version of the service.")] = "",
    host: Annotated[str, typer.Option(help="The host that was changed.")] = "",
    at: Annotated[str | None, typer.Option(help="When, ISO 8601 with an offset. Default: now.")] = None,
    comment: Annotated[str, typer.Option(help="What was changed, for people.")] = "",
    author: Annotated[str | None, typer.Option(help="Author of the change. Default: the user who runs this.")] = None,
    dry_run: DryRun = False,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Announce a change, such as a deployment: incidents that begin shortly after it name it as a likely cause."""
    author_name = user_name() if author is None else author
    made = change_record(kind, service, host, version, at, comment, author_name)
    if not dry_run:
        send(connected(load(config), ("kafka",)), [made])
    if as_json:
        print_json(made)
        return
    name, word = service or host, "would announce" if dry_run else "announced"
    print_line(f"{word}: {kind}{f' {version}' if version else ''} of {name}")


def topology(
    file: Annotated[Path, typer.Argument(help='A line of JSON for each call: {"client": "web", "server": "cart"}.')],
    dry_run: DryRun = False,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Announce which services call which: a failing callee is then ranked as the cause before its callers."""
    calls = calls_in(file)
    if not dry_run:
        send(connected(load(config), ("kafka",)), calls)
    if as_json:
        print_json({"calls": len(calls), "written": not dry_run})
        return
    print_line(f"{'would announce' if dry_run else 'announced'}: {counted(len(calls), 'call')}")


def change_record(
    kind: str, service: str, host: str, version: str, at: str | None, comment: str, author: str
) -> dict[str, Any]:
    """The change as a record. Raises InputError for an unknown kind, no name, a text that is too long, or a time that is none."""
    if kind not in CHANGE_KINDS:
        msg = f"--kind is {kind!r}; wanted {', '.join(CHANGE_KINDS)}"
        raise InputError(msg)
    if not service and not host:
        msg = "a change of no service and no host; name a SERVICE, or a host with --host"
        raise InputError(msg)
    for name, text in (("SERVICE", service), ("--host", host)):
        check_name(name, text)
    for name, text in (("--version", version), ("--comment", comment), ("--author", author)):
        if len(text) > MOST_TEXT:
            msg = f"{name} has {len(text)} characters; wanted at most {MOST_TEXT}"
            raise InputError(msg)
    if at is not None:
        at = checked_time(at)
    about = {"service": service, "host": host, "version": version, "comment": comment, "author": author}
    return plain(ChangeMade(change=kind, at=at, **about))


def checked_time(text: str) -> str:
    """A time with its offset. Raises InputError for anything else."""
    milliseconds("--at", text)
    return datetime.fromisoformat(text).isoformat()


def check_name(what: str, text: str) -> None:
    """Raise InputError for a name that no service and no host can have."""
    if len(text) > MAX_NAME or any(not character.isprintable() for character in text):
        msg = f"{what} is {text[:100]!r}; wanted at most {MAX_NAME} characters, all of them printable"
        raise InputError(msg)


def calls_in(file: Path) -> list[dict[str, Any]]:
    """The calls in a file, a record each. Raises InputError where it cannot be read, naming the line."""
    try:
        lines = file.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        msg = f"{file} cannot be read: {why}; wanted a text file with a call on each line"
        raise InputError(msg) from error
    if len(lines) > MOST_LINES:
        msg = f"{file} has {len(lines)} lines; wanted at most {MOST_LINES}"
        raise InputError(msg)
    found = [call_of(f"{file}, line {number}", line) for number, line in enumerate(lines, 1) if line.strip()]
    if not found:
        msg = f'{file} has no calls; wanted a line of JSON for each, such as {{"client": "web", "server": "cart"}}'
        raise InputError(msg)
    return found


def call_of(where: str, line: str) -> dict[str, Any]:
    """A call from a line of JSON. Raises InputError for anything else."""
    try:
        source = json.loads(line)
        call = parsed(Topology, source if isinstance(source, dict) else {})
    except (ValueError, RecursionError) as error:
        msg = f'{where}: {error}; wanted JSON such as {{"client": "web", "server": "cart"}}'
        raise InputError(msg) from error
    for what, name in (("client", call.client), ("server", call.server)):
        check_name(f"{where}: {what}", name)
        if not name:
            msg = f"{where}: {what} is empty"
            raise InputError(msg)
    if call.client == call.server:
        msg = f"{where}: {call.client} calls itself; wanted two services"
        raise InputError(msg)
    return plain(call)


def send(settings: Settings, records: Sequence[dict[str, Any]]) -> None:
    """Append records to the topic `changes`. Raises ServiceUnavailable if Kafka does not take them."""
    from app.kafka.append import append  # loads Kafka's client

    about = ("service", "host", "client")
    append(settings, "changes", ((next(filter(None, map(one.get, about)), ""), one) for one in records))
