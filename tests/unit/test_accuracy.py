"""`make accuracy` without data says so; with figures there is one table with all of them, and the page has the same published ones."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from app.core.settings import PROJECT
from benchmarks.published import PUBLISHED

PAGE = PROJECT / "docs" / "accuracy.md"
LONGEST_PAGE = 120

TABLE = """
import json, sys
from rich.console import Console
from benchmarks.accuracy import COLUMNS, PUBLISHED, table
ours = {name: {"kappa": dict.fromkeys(heads, 1.5) | {"seconds": 2.0}} for name, heads in COLUMNS.items()}
Console(width=200).print(table(ours))
print(json.dumps({name: list(others) for name, others in PUBLISHED.items()}))
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=PROJECT, timeout=120, check=False)


def test_without_data_it_says_so_in_one_line(tmp_path: Path) -> None:
    done = run("-m", "benchmarks.accuracy", "--data", str(tmp_path))
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert f"no labelled data in {tmp_path}, nothing was measured" in done.stderr


def test_there_is_one_table_with_ours_and_what_others_published() -> None:
    done = run("-c", TABLE)
    assert done.returncode == 0, done.stderr
    *shown, published = done.stdout.splitlines()
    text = "\n".join(shown)
    assert text.count("kappa") == 10
    for others in json.loads(published).values():
        assert others
        assert all(who in text for who in others)


def as_on_the_page(collection: str, who: str) -> str:
    """How docs/accuracy.md writes what others published."""
    figures = PUBLISHED[collection][who]
    if collection == "nab":
        scores = (figures[key] for key in ("standard", "reward_low_FP_rate", "reward_low_FN_rate"))
        return " | ".join([f"| {who}", *(f"{score:.1f}" for score in scores)]) + " |"
    if collection == "wsd":
        measures = ("f1", "precision", "recall", "false_per_week", "best_pa7_f1")
        return " | ".join([f"| {who}", *(f"{figures[name]:.2f}" for name in measures)]) + " |"
    if collection in ("smd", "asd"):
        return f"| {who} | {figures['auc_pr']:.3f} | {figures['best_f1']:.3f} |"
    if collection == "nezha":
        return f"{who} {figures['in_time']} of {figures['found']}"
    first, second = ("f1", "covering") if collection == "tcpd" else ("ga", "fga")
    return f"{who} {figures[first]:.3f} / {figures[second]:.3f}"


@pytest.mark.parametrize(
    ("collection", "who"), [(collection, who) for collection, others in PUBLISHED.items() for who in others]
)
def test_page_has_the_published_figures_of_the_benchmark(collection: str, who: str) -> None:
    assert as_on_the_page(collection, who) in PAGE.read_text()


def test_page_is_short_and_begins_with_what_is_worse_than_a_baseline() -> None:
    text = PAGE.read_text()
    assert len(text.splitlines()) <= LONGEST_PAGE
    assert text.index("## Where simple baselines win") < text.index("## Shared and held-out")
