"""The documents name what there is, with the defaults that it has, and nothing else."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import typer.main

from app.cli import main, rule_files, settings_page
from app.core.settings import PROJECT, Settings, load
from app.early.metrics import LaneHealth
from app.kafka import topics
from app.kafka.heartbeats import STEP_SECONDS
from app.notify import chain, notification, outbox
from app.notify.chain_watch import LOOK_SECONDS
from app.runtime.bounded_server import ASK_SECONDS, MOST_CONNECTIONS
from app.search.mappings import PROPERTIES
from app.simulator.settings import GENERATOR_VERSION
from app.supervision.parent import SupervisedCommand
from dashboards.kibana.fields import fields_of
from models.challengers.memory import PART as CHALLENGERS
from models.core import store
from models.core.parameters import DetectorParameters
from models.incidents import parameters
from models.univariate.parameters import UnivariateParameters
from pipelines import errors
from pipelines.jobs import correlate
from pipelines.runner import Runner
from pipelines.spark_internals import TESTED_WITH
from pipelines.state import savepoint_format, window_buffer
from pipelines.state.savepoint_tables import TABLES

README = PROJECT / "README.md"
RUNNING = PROJECT / "docs" / "running.md"
REPLAY = PROJECT / "docs" / "replay.md"
ARCHITECTURE = PROJECT / "docs" / "architecture.md"
ALERTS = PROJECT / "docs" / "alerts.md"
SECURITY = PROJECT / "docs" / "security.md"
CLUSTER = PROJECT / "docs" / "cluster.md"
GLOSSARY = PROJECT / "docs" / "glossary.md"
CHANGES = PROJECT / "CHANGELOG.md"
DOCUMENTS = [README, CHANGES, *sorted((PROJECT / "docs").rglob("*.md"))]
DECISIONS = sorted((PROJECT / "docs" / "decisions").glob("*.md"))
LONGEST_DECISION = 60
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.S)
NESTED = ("novelty.causes", "novelty.contributions")  # fields of incidents with fields of their own
OF_EVERY_SHELL = {"--install-completion", "--show-completion"}  # Typer's, which it adds when it runs
OF_OTHERS = {"spark.archives", "spark.jars", "log.level"}  # settings of Spark itself, a field of records
FORMATS = {
    "models of a shard": store.FORMAT,
    "rows that wait for their watermark message": int(window_buffer.FORMAT),
    "incidents": parameters.STATE_FORMAT,
    "episode events that wait for their watermark messages": correlate.FORMAT,
    "simulated fleet (same seed, same bytes)": GENERATOR_VERSION,
}
PACKAGES = ("app", "pipelines", "models", "dashboards", "replay", "benchmarks", "tests", "deploy")
SOURCES = sorted(path for package in PACKAGES for path in (PROJECT / package).rglob("*.py"))
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
NAME = re.compile(r"`((?:[a-z_][a-z0-9_]*\.)*[a-z_][a-z0-9_]*)`")
MADE = ("benchmarks/results", "docs/operations.md")  # by `make bench`; of the past, in the change log
PATH = re.compile(rf"(?<![\w./<{{-])((?:{'|'.join(PACKAGES)}|docs)/[\w./-]*\w)")
MODULE = re.compile(rf"(?<![\w./$-])((?:{'|'.join(PACKAGES)})(?:\.\w+)+)(?![\w/-])")
FIGURE_AND_SETTING = re.compile(r"(?<![\w.])(\d[\d,.]*)(?: [a-z]+)? \(`([a-z]+\.[a-z_]+)`\)")
SETTING_AND_FIGURE = re.compile(r"`([a-z]+\.[a-z_]+)` \((\d[\d,.]*)(?: [a-z]+)?\)")
UNIVARIATE, DEFAULTS = UnivariateParameters(), DetectorParameters()
FACTS = [
    (GLOSSARY, f"half-life of {UNIVARIATE.fast_half_life_minutes:g} minutes, or {UNIVARIATE.fast_rows:g} rows if"),
    (GLOSSARY, f"half-life of {UNIVARIATE.level_half_life_days:g} days, or {UNIVARIATE.level_rows:g} rows if"),
    (GLOSSARY, f"half-life of {UNIVARIATE.robust_half_life_days:g} days, which learns outliers little"),
    (GLOSSARY, f"at least {UNIVARIATE.warm_up_rows} windows of a metric"),
    (GLOSSARY, f"{DEFAULTS.alert_nats:.1f} nats for windows of {DEFAULTS.window_seconds:g} s"),
    (GLOSSARY, f"appends one at least every {STEP_SECONDS} s to"),
    (RUNNING, f"at most {STEP_SECONDS} s apart"),
    (RUNNING, f"within {signature(Runner.stop).parameters['timeout_seconds'].default:g} s for all of them together"),
    (RUNNING, f"has not ended after {SupervisedCommand.stop_seconds:g} s is killed"),
    (
        RUNNING,
        f"`labels` of {int(topics.MOST_OF_LABELS) >> 10} KiB and `rules` of {int(topics.MOST_OF_RULES) >> 10} KiB",
    ),
    (ALERTS, f"Titles have at most {notification.LONGEST_TITLE} characters, texts {notification.LONGEST_TEXT:,}"),
    (ALERTS, f"more than {outbox.MOST_WAITING:,} notifications wait for a channel"),
    (ALERTS, f"Every {LOOK_SECONDS:g} s the notifier looks"),
    (ALERTS, f"What holds for {LOOK_SECONDS * chain.LOOKS:g} s is sent"),
    (
        SECURITY,
        f"answer {MOST_CONNECTIONS} clients at a time, and close one that has not asked within {ASK_SECONDS:g} seconds",
    ),
    (CLUSTER, f"executors run Spark {TESTED_WITH} for"),
    (README, f"its fast mean (half-life {UNIVARIATE.fast_half_life_minutes:g} minutes)"),
    (PROJECT / "docs" / "control.md", f"({UNIVARIATE.level_half_life_days:g} days without it"),
]


def commands(group: Any, path: str = "kappa") -> Iterator[str]:
    """Every command with the groups before it: `kappa topics create`."""
    for name, inner in getattr(group, "commands", {}).items():
        yield f"{path} {name}"
        yield from commands(inner, f"{path} {name}")


def rows(document: Path) -> dict[str, str]:
    """Tables of a document: the second cell by the first, without backticks. Of equal first cells the first counts."""
    cells = [line.split("|")[1:3] for line in document.read_text().splitlines() if re.match(r"\|.*\|.*\|", line)]
    return {first.strip().strip("`"): second.strip().strip("`") for first, second in reversed(cells)}


def anchors(document: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", document.read_text(), flags=re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def explained(source: Path) -> str:
    """The docstrings and comments of a Python file."""
    text = source.read_text()
    nodes = ast.walk(ast.parse(text))
    docstrings = [ast.get_docstring(node) or "" for node in nodes if isinstance(node, DOCUMENTED)]
    return "\n".join([*docstrings, *re.findall(r"(?:^|\s)# .*$", text, re.M)])


def words_of_code() -> set[str]:
    """All words of the sources outside of docstrings, and the names of modules."""
    found = {path.stem for path in SOURCES} | {path.parent.name for path in SOURCES}
    for source in SOURCES:
        lines = source.read_text().splitlines()
        for node in ast.walk(ast.parse("\n".join(lines))):
            if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
                first, last = node.body[0].lineno - 1, node.body[0].end_lineno or 0
                lines[first:last] = [""] * (last - first)
        found |= set(re.findall(r"\w+", "\n".join(lines)))
    for source in (PROJECT / "pipelines" / "jvm").glob("*.java"):
        found |= set(re.findall(r"\w+", source.read_text()))
    return found


def unknown_names(text: str) -> list[str]:
    """Paths of this repository, and names of its modules, classes and functions, that do not exist."""
    missing = [path for path in PATH.findall(text) if not (PROJECT / path).exists() and path not in MADE]
    return missing + [name for name in MODULE.findall(text) if not exists(name)]


def exists(name: str) -> bool:
    """Whether a dotted name is a module or package, or something that is defined in one."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        base = PROJECT.joinpath(*parts[:count])
        file = base.with_suffix(".py") if base.with_suffix(".py").exists() else base / "__init__.py"
        if file.exists():
            text = file.read_text()
            return all(re.search(rf"\b{part}\b", text) for part in parts[count:])
    return base.is_dir()


COMMANDS = sorted(commands(typer.main.get_command(main.app)))
SETTINGS = {one.name: one for group in settings_page.entries().values() for one in group}
GROUPS = {name.split(".")[0] for name in SETTINGS if "." in name}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_in_a_document(command: str) -> None:
    assert command in README.read_text() + RUNNING.read_text() + REPLAY.read_text()


def test_the_readme_has_all_privileges_that_jobs_and_dashboard_need() -> None:
    lists = re.findall(r'"(?:cluster|privileges)": (\[.*?\])', SECURITY.read_text())
    (sentence,) = re.findall(r"One key of Elasticsearch.*?\)\)", README.read_text(), re.S)
    within = {"view_index_metadata"}  # of `manage`
    assert set(re.findall(r"`([a-z_]+)`", sentence)) == {name for one in lists for name in json.loads(one)} - within


def named_options(text: str) -> Iterator[tuple[list[str], str]]:
    """The command and the option, for each option of `kappa` in code and blocks of code."""
    blocks = re.findall(r"```.*?```", text, re.S)
    pieces = [line for block in blocks for line in block.splitlines()]
    pieces += re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.S))
    for piece in pieces:
        for call in re.findall(r"\bkappa (?:[a-z]+\b ?)+[^|;&#]*", piece):
            yield from ((call.split()[1:], option) for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", call))


def options_of(words: list[str]) -> set[str]:
    """The options of the command that some words begin with."""
    command: Any = typer.main.get_command(main.app)
    for word in words:
        if word not in getattr(command, "commands", {}):
            break
        command = command.commands[word]
    return {name for one in command.params for name in (*one.opts, *one.secondary_opts)} | {"--help"}


@pytest.mark.parametrize("document", [path for path in DOCUMENTS if path != CHANGES], ids=lambda path: path.name)
def test_documents_name_no_option_that_the_command_does_not_have(document: Path) -> None:
    missing = [(words, name) for words, name in named_options(document.read_text()) if name not in options_of(words)]
    assert [one for one in missing if one[1] not in OF_EVERY_SHELL] == []


def test_the_search_for_options_finds_one_that_there_is_not() -> None:
    text = "`kappa rules apply FILE --dry-run`\n```\nkappa replay diff a b --moost 3   # --most\n```"
    assert [name for words, name in named_options(text) if name not in options_of(words)] == ["--moost"]


def helps(group: Any) -> Iterator[str]:
    """What `--help` says of a command, of those below it, and of their arguments and options."""
    yield group.help or ""
    yield from (getattr(one, "help", None) or "" for one in group.params)
    for command in getattr(group, "commands", {}).values():
        yield from helps(command)


def test_no_help_has_brackets_which_the_terminal_takes_for_markup() -> None:
    assert [text for text in helps(typer.main.get_command(main.app)) if re.search(r"\[[a-z\[]", text)] == []


EVERY_COMMAND = {" ".join(command.split()[:count]) for command in COMMANDS for count in (2, 3)}
COMMAND_GROUPS = {" ".join(command.split()[:2]) for command in COMMANDS if command.count(" ") > 1}


def named_commands(text: str) -> Iterator[str]:
    """The commands of `kappa` in code and blocks of code; of a group with the command of it that is named."""
    for call in re.findall(r"\bkappa [a-z]+\b(?: [a-z][a-z-]*\b)?", "\n".join(CODE.findall(text))):
        first = " ".join(call.split()[:2])
        yield call if first in COMMAND_GROUPS else first


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_documents_name_no_command_that_there_is_not(document: Path) -> None:
    assert set(named_commands(document.read_text())) <= EVERY_COMMAND


def test_the_search_for_commands_finds_those_that_there_are_not() -> None:
    text = "`kappa rules aply F`, `kappa rules apply F`, `kappa replay --to-time T`, `kappa nothing`, `kappa score F`"
    assert [name for name in named_commands(text) if name not in EVERY_COMMAND] == ["kappa rules aply", "kappa nothing"]


def test_settings_page_is_what_the_classes_say() -> None:
    written = settings_page.PAGE.read_text()
    assert written == settings_page.page(), "docs/settings.md is out of date: run `make docs`"


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_setting_is_described(setting: str) -> None:
    assert SETTINGS[setting].meaning.endswith("."), "a sentence in the description or in the docstring's Parameters"
    assert "|" not in SETTINGS[setting].meaning


@pytest.mark.parametrize("document", [path for path in DOCUMENTS if path != CHANGES], ids=lambda path: path.name)
def test_documents_name_no_setting_that_there_is_not(document: Path) -> None:
    """Names of two parts such as `kafka.url`, where the first is a group of settings."""
    dotted = set(re.findall(r"`([a-z]+\.[a-z_]+)`", document.read_text()))
    named = {name for name in dotted if name.split(".")[0] in GROUPS and not name.endswith((".log", ".py"))}
    assert named - OF_OTHERS <= SETTINGS.keys()


def test_metrics_are_documented_with_their_types_and_labels() -> None:
    """As the page has it: the label is `kappa_job` unless the row says otherwise."""
    wanted = {}
    for metric in LaneHealth(Settings()).health.metrics.registry._collector_to_names:
        own: Any = metric
        labels = ["version", "python", "spark"] if own._type == "info" else list(own._labelnames)
        named = (
            f"label{'s' * (len(labels) > 1)} " + ", ".join(f"`{label}`" for label in labels) if labels else "no label"
        )
        kind = "gauge" if own._type == "info" else own._type
        name = own._name + {"counter": "_total", "info": "_info"}.get(own._type, "")
        wanted[name] = (kind if labels == ["kappa_job"] else f"{kind}, {named}").strip("`")
    assert {name: kind for name, kind in rows(RUNNING).items() if name.startswith("kappa_")} == wanted


def test_every_file_of_a_savepoint_is_documented() -> None:
    tables = [f"{name}.parquet" for name in (*TABLES, CHALLENGERS)]
    text = REPLAY.read_text()
    for file in (*tables, savepoint_format.SHARDS, savepoint_format.CORRELATOR, savepoint_format.MANIFEST):
        assert f"`{file}`" in text


def test_every_error_is_documented() -> None:
    text = RUNNING.read_text()
    for error in errors.KappaError.__subclasses__():
        assert f"`{error.__name__}`" in text


def test_every_topic_is_documented() -> None:
    for document in (ARCHITECTURE, RUNNING):
        for topic in (*topics.INPUTS, *topics.OUTPUTS):
            assert f"`{topic}`" in document.read_text()


def test_fields_are_in_the_kinds_of_documents_that_the_page_says() -> None:
    text = (PROJECT / "docs" / "elasticsearch.md").read_text()
    listed: dict[str, set[str]] = {}
    for row in re.findall(r"^\| (`[^|]*) \| ([^|]*) \|", text[text.index("## Fields") : text.index("## Why")], re.M):
        names = re.findall(r"`([^`]+)`", row[0])
        for name in names:
            full = names[0].rpartition(".")[0] + name if name.startswith(".") else name
            listed[full] = listed.get(full, set()) | set(PROPERTIES if row[1] == "all" else row[1].split(", "))
    known = {kind: fields_of(properties) for kind, properties in PROPERTIES.items()}
    wanted = {name: {kind for kind, own in known.items() if name in own} for own in known.values() for name in own}
    assert listed == wanted | {name: {"incidents"} for name in NESTED}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_examples_of_settings_and_rules_can_be_read(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the password that the README has in the environment, and with channels of the examples before."""
    monkeypatch.setenv("KAPPA_KAFKA__SASL_PASSWORD", "secret") if document == README else None
    for example in re.findall(r"```toml\n(.*?)```", document.read_text(), re.S):
        file = tmp_path / "example.toml"
        file.write_text(example)
        if "[[rules]]" in example:
            assert rule_files.rules_in(file)
            continue
        routed = {
            name
            for names in re.findall(r"^(?:channels|escalate_to) = \[(.*)\]", example, re.M)
            for name in json.loads(f"[{names}]")
        }
        file.write_text(
            example
            + "".join(f'[notify.channels.{name}]\nkind = "apprise"\nurl = "json://h"\n' for name in sorted(routed))
        )
        load(file)


def test_every_decision_is_linked_from_the_readme_or_the_architecture() -> None:
    text = README.read_text() + ARCHITECTURE.read_text()
    assert DECISIONS
    for decision in DECISIONS:
        assert f"decisions/{decision.name}" in text


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_paths_and_modules_that_a_document_names_exist(document: Path) -> None:
    text = LINK.sub("", document.read_text())  # links have a test of their own
    assert unknown_names(text) == []


def test_paths_and_modules_that_docstrings_and_comments_name_exist() -> None:
    found = {str(source.relative_to(PROJECT)): unknown_names(explained(source)) for source in SOURCES}
    assert len(found) > len(PACKAGES)
    assert {file: names for file, names in found.items() if names} == {}


def test_names_in_the_docstrings_of_the_product_exist() -> None:
    """`names` in docstrings are those of modules, functions, parameters, fields, topics: something in the code has them."""
    known = words_of_code()
    begun = tuple(word for word in known if len(word) > 2 and word.endswith("_"))  # of names such as f"sums_{name}"
    sources = [path for path in SOURCES if path.relative_to(PROJECT).parts[0] not in ("tests", "benchmarks")]
    named = {str(path.relative_to(PROJECT)): NAME.findall(explained(path)) for path in sources}
    missing = {
        f"{file}: {name}"
        for file, names in named.items()
        for name in names
        if name.split(".")[-1] not in known and not name.startswith(begun)
    }
    assert missing == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_figures_beside_a_setting_are_its_default(document: Path) -> None:
    """`15 s (`windowing.lateness_seconds`)`, or `windowing.lateness_seconds` (15 s)."""
    text = " ".join(document.read_text().split())
    beside = [(name, figure) for figure, name in FIGURE_AND_SETTING.findall(text)] + SETTING_AND_FIGURE.findall(text)
    for name, figure in beside:
        assert (name, figure.rstrip(".,")) == (name, SETTINGS[name].default)


@pytest.mark.parametrize(("document", "fact"), FACTS)
def test_figures_of_the_models_are_those_of_the_code(document: Path, fact: str) -> None:
    assert fact in " ".join(document.read_text().split())


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda path: path.name)
def test_every_decision_is_short_and_says_what_was_asked_decided_and_not_chosen(decision: Path) -> None:
    text = decision.read_text()
    assert len(text.splitlines()) <= LONGEST_DECISION
    parts = [re.search(rf"\*\*{part}", text) for part in ("Question", "Decision", "[^*]*[Ff]igures", "Not chosen")]
    assert all(parts), parts


def test_picture_of_rooms_is_what_import_linter_checks() -> None:
    contracts = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    checked = [layer.split(" | ") for one in contracts if one["type"] == "layers" for layer in one["layers"]]
    text = ARCHITECTURE.read_text()
    rooms = text[text.index("## Rooms") : text.index("## The jobs")]
    drawn = [re.match(r"    ((?:[a-z.]+ {0,4})+)", line) for line in rooms.splitlines() if re.match(r"    [a-z]", line)]
    assert [line.group(1).split() for line in drawn if line] == checked


@pytest.mark.parametrize(("state", "version"), FORMATS.items())
def test_change_log_names_the_format_that_is_written(state: str, version: int) -> None:
    assert rows(CHANGES)[state] == str(version)


def test_example_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    examples = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
    assert len(examples) == 1
    exec(examples[0], {})
    assert capsys.readouterr().out.startswith("30000 anomaly ")


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


def test_the_readme_names_the_versions_of_the_servers_that_tests_run() -> None:
    jars = (PROJECT / "app" / "embedded" / "jars.toml").read_text()
    (kafka,), (elasticsearch,) = (
        re.findall(rf'^"{name}-([0-9.]+)\.jar"', jars, re.M) for name in ("kafka-server", "elasticsearch")
    )
    assert f"tested with Kafka {kafka} and Elasticsearch {elasticsearch}" in README.read_text()
