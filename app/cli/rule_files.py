"""Rules as people write them into files: tables `[[rules]]` of TOML -> records of the topic `rules`."""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any

from models.records.records import RuleRecord
from models.rules.rule import instant
from models.rules.rule_log import KEYS, MOST_BYTES, MOST_RULES, record_of, record_text
from pipelines.errors import InputError

MOST_FILE = 4 << 20  # bytes
TABLE = "rules"
PEOPLE = ("comment", "author", "incident")  # keys of a record that are for people


def rules_in(file: Path, since: str | None = None, **about: str) -> list[dict[str, Any]]:
    """The rules of a file as records.

    Parameters
    ----------
    file
        TOML with tables `[[rules]]`; each needs a name of its own.
    since
        From when on what they say is true, ISO 8601, of those that do not say themselves; None for when they are appended.
    about
        `comment`, `author`.

    Returns
    -------
    list of dict
        One record for each, in the order of the file.

    Raises
    ------
    InputError
        It cannot be read, or a rule cannot be meant; the message has the rule's name or number.
    """
    tables = tables_in(file)
    places = [f"{file}, {title(one, i)}" for i, one in enumerate(tables, 1)]
    found = [
        checked(where, record_of_table(where, one, since, about)) for where, one in zip(places, tables, strict=True)
    ]
    names = [record["name"] for record in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        msg = f"{file}: two rules have the name {twice[0]!r}; wanted a name of its own for each, as the same name replaces"
        raise InputError(msg)
    return found


def tables_in(file: Path) -> list[dict[str, Any]]:
    """The tables `[[rules]]` of a file. Raises InputError."""
    try:
        with file.open("rb") as opened:
            data = opened.read(MOST_FILE + 1)
        source = tomllib.loads(data.decode())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        msg = f"{file} cannot be read: {why}; wanted TOML with tables [[{TABLE}]]"
        raise InputError(msg) from error
    if len(data) > MOST_FILE:
        msg = f"{file} has more than {MOST_FILE} bytes"
        raise InputError(msg)
    found = source.pop(TABLE, None)
    if source or not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        own = (
            f"it has {sorted(source)[0]!r}"
            if source
            else f"it has {'no such table' if found is None else TABLE + ' in another form'}"
        )
        msg = f"{file}: wanted tables [[{TABLE}]] and nothing else; {own}"
        raise InputError(msg)
    if len(found) > MOST_RULES:
        msg = f"{file} has {len(found)} rules; wanted at most {MOST_RULES}"
        raise InputError(msg)
    return found


def title(table: Mapping[str, Any], number: int) -> str:
    """How a rule is called in messages."""
    return f"rule {str(table['name'])[:100]!r}" if "name" in table else f"rule {number}"


def record_of_table(
    where: str, table: Mapping[str, Any], since: str | None, about: Mapping[str, str]
) -> dict[str, Any]:
    """A table as a record; instants of TOML become text. Raises InputError without a name, and for a key that rules do not have."""
    unknown = sorted(table.keys() - set(KEYS) - set(PEOPLE))
    if unknown:
        likely = difflib.get_close_matches(unknown[0], KEYS, 1)
        more = f", did you mean {likely[0]}?" if likely else "; docs/control.md lists the keys of rules"
        msg = f"{where}: no key {unknown[0]!r} in a rule{more}"
        raise InputError(msg)
    if "name" not in table:
        msg = f"{where} has no name; it is replaced and removed by its name"
        raise InputError(msg)
    days = [name for name, value in table.items() if isinstance(value, date) and not isinstance(value, datetime)]
    if days:
        msg = f"{where}: {days[0]} is a day without a time; wanted an instant such as 2026-01-05T10:00:00Z"
        raise InputError(msg)
    keys = {name: value.isoformat() if isinstance(value, datetime) else value for name, value in table.items()}
    if since is not None and "since" not in keys and "reset" not in keys:
        keys["since"] = since
    return record_text(keys, **about)


def checked(where: str, record: dict[str, Any]) -> dict[str, Any]:
    """The record, with instants in one form. Raises InputError for one that would be refused."""
    try:
        text = json.dumps(record, ensure_ascii=False)
        record_of(text)
    except (ValueError, TypeError, RecursionError) as error:
        msg = f"{where}: {str(error).removeprefix(f'{RuleRecord.__name__}: ')}"
        raise InputError(msg) from error
    size = len(text.encode())
    if size > MOST_BYTES:
        msg = f"{where} has {size} bytes as JSON; wanted at most {MOST_BYTES}"
        raise InputError(msg)
    return {k: instant(k, v) if k in ("since", "until", "reset") else v for k, v in record.items()}


def keys_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of the rule in a record."""
    return {name: record[name] for name in KEYS if name in record}
