"""Rules as people write them into files: tables `[[rules]]` of TOML -> records of the topic `rules`."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from models.rules.rule import instant
from models.rules.rule_log import KEYS, MOST_BYTES, MOST_RULES, record_of, record_text
from pipelines.errors import InputError

MOST_FILE = 4 << 20  # bytes
TABLE = "rules"


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
    found = [checked(f"{file}, {title(one, i)}", record_of_table(one, since, about)) for i, one in enumerate(tables, 1)]
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
        msg = f"{file}: cannot be read ({error}); wanted TOML with tables [[{TABLE}]]"
        raise InputError(msg) from error
    found = source.pop(TABLE, None)
    if (
        source
        or len(data) > MOST_FILE
        or not isinstance(found, list)
        or not all(isinstance(one, dict) for one in found)
    ):
        more = f", found {sorted(source)[0]!r} as well" if source else ""
        msg = f"{file}: wanted tables [[{TABLE}]] and nothing else, in {MOST_FILE} bytes at most{more}"
        raise InputError(msg)
    if len(found) > MOST_RULES:
        msg = f"{file} has {len(found)} rules; wanted at most {MOST_RULES}"
        raise InputError(msg)
    return found


def title(table: Mapping[str, Any], number: int) -> str:
    """How a rule is called in messages."""
    return f"rule {str(table.get('name', number))[:100]!r}"


def record_of_table(table: Mapping[str, Any], since: str | None, about: Mapping[str, str]) -> dict[str, Any]:
    """A table as a record; instants of TOML become text."""
    keys = {name: value.isoformat() if isinstance(value, datetime) else value for name, value in table.items()}
    if since is not None and "since" not in keys and "reset" not in keys:
        keys["since"] = since
    return record_text(keys, **about)


def checked(where: str, record: dict[str, Any]) -> dict[str, Any]:
    """The record, with instants in one form. Raises InputError for one that would be refused."""
    try:
        text = json.dumps(record, ensure_ascii=False)
        record_of(text)
    except (ValueError, TypeError) as error:
        msg = f"{where}: {error}"
        raise InputError(msg) from error
    size = len(text.encode())
    if size > MOST_BYTES:
        msg = f"{where} has {size} bytes as JSON; wanted at most {MOST_BYTES}"
        raise InputError(msg)
    return {k: instant(k, v) if k in ("since", "until", "reset") else v for k, v in record.items()}


def keys_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of the rule in a record."""
    return {name: record[name] for name in KEYS if name in record}
