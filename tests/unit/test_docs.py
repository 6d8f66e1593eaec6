"""The documents name what there is, with the defaults that it has, and nothing else."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from pydantic import BaseModel

from app.cli import main
from app.core.settings import PROJECT, Settings
from app.kafka import topics
from app.runtime.health import Health
from app.simulator.settings import GENERATOR_VERSION
from models.core import store
from models.incidents import correlator
from pipelines import errors
from pipelines.jobs import correlate
from pipelines.state import window_buffer

README = PROJECT / "README.md"
OPERATIONS = PROJECT / "docs" / "operations.md"
ARCHITECTURE = PROJECT / "docs" / "architecture.md"
CHANGES = PROJECT / "CHANGELOG.md"
DOCUMENTS = [README, CHANGES, *sorted((PROJECT / "docs").rglob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.S)
FORMATS = {
    "models of a shard": store.FORMAT,
    "rows that wait for their tick": int(window_buffer.FORMAT),
    "incidents": correlator.FORMAT,
    "statements that wait for their ticks": correlate.FORMAT,
    "simulated fleet (same seed, same bytes)": GENERATOR_VERSION,
}


def commands(group: Any, path: str = "kappa") -> Iterator[str]:
    """Every command with the groups before it: `kappa topics create`."""
    for name, inner in getattr(group, "commands", {}).items():
        yield f"{path} {name}"
        yield from commands(inner, f"{path} {name}")


def names_of(group: Any) -> list[str]:
    """The fields of a group of settings; none for a plain value."""
    if isinstance(group, BaseModel):
        return list(type(group).model_fields)
    return [field.name for field in dataclasses.fields(group)] if dataclasses.is_dataclass(group) else []


def settings() -> dict[str, Any]:
    """Defaults of all settings by their dotted names, whatever the environment says."""
    found: dict[str, Any] = {}
    for name, field in Settings.model_fields.items():
        group = field.get_default(call_default_factory=True)
        inner = names_of(group)
        found |= {f"{name}.{key}": getattr(group, key) for key in inner} if inner else {name: group}
    return found


def rows(document: Path) -> dict[str, str]:
    """Tables of a document: the second cell by the first, without backticks. Of equal first cells the first counts."""
    cells = [line.split("|")[1:3] for line in document.read_text().splitlines() if re.match(r"\|.*\|.*\|", line)]
    return {first.strip().strip("`"): second.strip().strip("`") for first, second in reversed(cells)}


def shown(default: Any) -> str:
    """A default as the documents write it."""
    if default is None:
        return "none"
    if default in ("", {}, ()):
        return "empty"
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:,}".removesuffix(".0") if isinstance(default, int | float) else str(default)


def anchors(document: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", document.read_text(), flags=re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


COMMANDS = sorted(commands(typer.main.get_command(main.app)))
SETTINGS = settings()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_in_a_document(command: str) -> None:
    assert command in README.read_text() + OPERATIONS.read_text()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_documents_name_no_command_that_there_is_not(document: Path) -> None:
    code = "\n".join(CODE.findall(document.read_text()))
    named = set(re.findall(r"\bkappa ([a-z]+)\b", code))
    assert named <= {command.split()[1] for command in COMMANDS}


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_setting_is_in_operations_with_its_default(setting: str) -> None:
    documented = rows(OPERATIONS)
    assert setting in documented
    if setting != "home":  # depends on where it is installed
        assert documented[setting] == shown(SETTINGS[setting])


def test_operations_names_no_setting_that_there_is_not() -> None:
    groups = {setting.split(".")[0] for setting in SETTINGS if "." in setting}
    dotted = set(re.findall(r"`([a-z]+\.[a-z_]+)`", OPERATIONS.read_text()))
    named = {name for name in dotted if name.split(".")[0] in groups and not name.endswith(".log")}
    assert named
    assert named <= SETTINGS.keys()


def test_every_metric_is_in_operations() -> None:
    text = OPERATIONS.read_text()
    families = list(Health(1.0).registry.collect())
    assert families
    for family in families:
        name = f"{family.name}_total" if family.type == "counter" else family.name
        assert f"`{name}`" in text


def test_every_error_is_in_operations() -> None:
    text = OPERATIONS.read_text()
    for error in errors.KappaError.__subclasses__():
        assert f"`{error.__name__}`" in text


def test_every_topic_is_in_the_architecture_and_in_operations() -> None:
    for document in (ARCHITECTURE, OPERATIONS):
        for topic in (*topics.INPUTS, *topics.OUTPUTS):
            assert f"`{topic}`" in document.read_text()


def test_every_decision_is_linked_from_the_readme_or_the_architecture() -> None:
    text = README.read_text() + ARCHITECTURE.read_text()
    decisions = list((PROJECT / "docs" / "decisions").glob("*.md"))
    assert decisions
    for decision in decisions:
        assert f"decisions/{decision.name}" in text


@pytest.mark.parametrize(("state", "version"), FORMATS.items())
def test_change_log_names_the_format_that_is_written(state: str, version: int) -> None:
    assert rows(CHANGES)[state] == str(version)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_somewhere(document: Path) -> None:
    for link in LINK.findall(CODE.sub("", document.read_text())):
        if "://" in link:
            continue
        file, _, anchor = link.partition("#")
        target = (document.parent / file).resolve() if file else document
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link
