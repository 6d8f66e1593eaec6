"""`kappa change` and `kappa topology`: what is announced, and what is refused before anything is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from app.cli import main
from models.records.records import ChangeMade, Topology
from models.records.schema import parsed


def answer(*arguments: str) -> tuple[int, str]:
    found = CliRunner().invoke(main.app, list(arguments))
    return found.exit_code, found.output


def test_a_change_is_shown_and_not_written_by_a_dry_run() -> None:
    arguments = ("cart", "--version", "1.8.2", "--at", "2026-01-05T10:00:00+01:00", "--author", "me", "--dry-run")
    assert answer("change", *arguments) == (0, "would announce: deployment 1.8.2 of cart\n")
    code, text = answer("change", *arguments, "--json")
    made = parsed(ChangeMade, json.loads(text))
    assert (code, made) == (
        0,
        ChangeMade(change="deployment", service="cart", version="1.8.2", at="2026-01-05T10:00:00+01:00", author="me"),
    )


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "name a SERVICE, or a host with --host"),
        (("cart", "--kind", "repair"), "--kind is 'repair'; wanted deployment, configuration, scaling, other"),
        (("cart", "--at", "noon"), "--at is 'noon'; wanted ISO 8601 such as"),
        (("cart", "--at", "2026-01-05T10:00:00"), "has no zone; append Z or an offset"),
        (("c" * 257,), "wanted at most 256 characters"),
        (("a\nb",), "all of them printable"),
        (("cart", "--comment", "x" * 201), "--comment has 201 characters; wanted at most 200"),
    ],
)
def test_what_is_no_change_is_refused_in_words(arguments: tuple[str, ...], why: str) -> None:
    found = CliRunner().invoke(main.app, ["change", *arguments, "--dry-run"])
    assert found.exit_code != 0
    assert why in str(found.exception)


def test_calls_come_from_a_file_of_lines(tmp_path: Path) -> None:
    file = tmp_path / "topology.jsonl"
    calls: list[dict[str, Any]] = [
        {"client": "web", "server": "cart"},
        {"client": "web", "server": "db", "removed": True},
    ]
    file.write_text("\n\n".join(map(json.dumps, calls)))
    assert answer("topology", str(file), "--dry-run") == (0, "would announce: 2 calls\n")
    code, text = answer("topology", str(file), "--dry-run", "--json")
    assert (code, json.loads(text)) == (0, {"calls": 2, "written": False})
    assert parsed(Topology, calls[1]).removed


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "has no calls"),
        ("web -> cart", "line 1: "),
        ('{"client": "web", "server": "cart"}\n[]', "line 2: Topology: client is missing"),
        ('{"client": "web"}', "server is missing"),
        ('{"client": "web", "server": ""}', "server is empty"),
        ('{"client": "web", "server": "web"}', "web calls itself"),
        ("[" * 100_000, "line 1: "),
    ],
)
def test_a_line_that_is_no_call_is_named(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "topology.jsonl"
    file.write_text(text)
    found = CliRunner().invoke(main.app, ["topology", str(file), "--dry-run"])
    assert found.exit_code != 0
    assert why in str(found.exception)
