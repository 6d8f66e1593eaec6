"""`make accuracy` without data says so; its one table has each collection with and without it, and the page has the published figures."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from app.core.settings import PROJECT
from app.supervision.processes import python_path
from benchmarks.accuracy import LEFT_OUT, NAIVE, SHIPPED, gathered, tasks_of
from benchmarks.accuracy_table import MEASURES, Measured, best_by, differs, table_of
from benchmarks.published import PUBLISHED, RULES

PAGE = PROJECT / "docs" / "accuracy.md"
LONGEST_PAGE = 120


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command, env = [sys.executable, *arguments], os.environ | {"PYTHONPATH": python_path()}
    return subprocess.run(command, capture_output=True, text=True, cwd=PROJECT, env=env, timeout=120, check=False)


def shown(found: dict[str, Measured], **options: bool) -> str:
    console = Console(width=200)
    with console.capture() as captured:
        console.print(table_of(found, **options))
    return captured.get()


def test_without_data_it_says_so_in_one_line(tmp_path: Path) -> None:
    done = run("-m", "benchmarks.accuracy", "--data", str(tmp_path))
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert f"no labelled data in {tmp_path}, nothing was measured" in done.stderr


def row_of(text: str, measure: str) -> list[str]:
    """The cells of the row that begins with a measure."""
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in text.splitlines() if line.startswith("│")]
    return next(cells for first, *cells in rows if first == measure)


def test_the_table_shows_each_measure_left_out_and_with_beside_the_best_baseline_and_publication() -> None:
    rows = {"f1": 0.5, "precision": 0.7, "recall": 0.4, "false_per_week": 0.6, "best_pa7_f1": 0.8}
    found = Measured(
        shipped=rows | {"figure": 0.5, "spread": 0.04, "seconds": 3.0},
        left_out=rows | {"f1": 0.44, "recall": 0.41},
        configuration={"univariate.norm": 2.0},
        naive={"never": dict.fromkeys(rows, 0.0), "3 sigma": rows | {"f1": 0.49, "false_per_week": 0.2}},
        published={"others": {"f1": 0.9}},
    )
    text = shown({"wsd": found})
    assert "univariate.norm 2.0" in text
    assert row_of(text, "F1 of events") == ["0.440 !", "0.500", "0.490", "0.900"]
    assert row_of(text, "recall") == ["0.410", "0.400", "0.400", ""]
    assert row_of(text, "false a curve and week") == ["0.600", "0.600 <", "0.200", ""]
    assert row_of(text, "figure") == ["", "0.500 ± 0.040", "", ""]
    assert "never" not in text
    assert "never" in shown({"wsd": found}, everyone=True)


def test_a_difference_of_more_than_a_tenth_is_marked() -> None:
    assert differs(0.5, 0.44)
    assert not differs(0.5, 0.46)
    assert differs(0.44, 0.5)
    assert not differs(0.0, 0.0)


def test_the_best_has_the_least_false_alarms() -> None:
    assert best_by("false_per_week", {"a": {"false_per_week": 1.0}, "b": {"false_per_week": 0.5}}) == "b"
    assert best_by("f1", {"a": {"f1": 0.4}, "b": {}}) == "a"
    assert best_by("f1", {}) == ""


def test_every_collection_has_its_section() -> None:
    text = shown({name: Measured(shipped=dict.fromkeys(measures, 1.5)) for name, measures in MEASURES.items()})
    assert all(name in text for name in MEASURES)
    assert text.count("1.5") >= sum(map(len, MEASURES.values()))


def test_the_shipped_configuration_is_not_measured_twice() -> None:
    chosen: dict[str, dict[str, Any]] = {"nab": {}, "wsd": {"univariate.norm": 2.0}}
    tasks = tasks_of(["nab", "wsd", "logs"], chosen, perturbed=False, challenged=False)
    assert sorted(tasks) == [
        ("logs", SHIPPED), ("nab", SHIPPED), ("nab", NAIVE), ("wsd", SHIPPED), ("wsd", LEFT_OUT), ("wsd", NAIVE),
    ]  # fmt: skip
    answers = {task: {task[1]: {"f1": 0.1 * place}} for place, task in enumerate(sorted(tasks))}
    found = gathered(answers, ["nab", "wsd", "logs"], chosen)
    assert found["nab"].left_out == found["nab"].shipped
    assert found["wsd"].left_out == answers["wsd", LEFT_OUT][LEFT_OUT]
    assert found["logs"].left_out is None


def as_on_the_page(collection: str, who: str) -> str:
    """How docs/accuracy.md writes what others published."""
    figures = (PUBLISHED | RULES)[collection][who]
    if collection == "nab":
        scores = (figures[key] for key in ("standard", "reward_low_FP_rate", "reward_low_FN_rate"))
        return " ".join([who, " / ".join(f"{score:.1f}" for score in scores)])
    if collection == "nezha":
        return f"{who} {figures['in_time']} of {figures['found']}"
    first, second = ("f1", "covering") if collection == "tcpd" else ("ga", "fga")
    return f"{who} {figures[first]:.3f} / {figures[second]:.3f}"


@pytest.mark.parametrize(
    ("collection", "who"), [(collection, who) for collection, others in (PUBLISHED | RULES).items() for who in others]
)
def test_page_has_the_published_figures_of_the_benchmark(collection: str, who: str) -> None:
    assert as_on_the_page(collection, who) in PAGE.read_text()


def test_page_is_short_and_begins_with_what_is_worse_than_a_baseline() -> None:
    text = PAGE.read_text()
    assert len(text.splitlines()) <= LONGEST_PAGE
    assert text.index("## Where simple baselines win") < text.index("## The table")
