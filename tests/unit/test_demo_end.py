"""What the demonstration says while nothing else happens, and at its end of windows that the jobs have not judged."""

from __future__ import annotations

import io
import shlex
from pathlib import Path

import pytest
from rich.console import Console

from app.cli.demonstration import Reporter, demo_settings, not_judged, seen_with, so_far
from app.cli.local_time import local
from app.core.settings import load

NOON = 1_767_614_400_000


def test_a_demo_whose_jobs_have_caught_up_says_nothing() -> None:
    assert not_judged(NOON, NOON) is None
    assert not_judged(NOON, 0) is None, "it ended before the feeding did"


def test_a_demo_whose_jobs_are_behind_says_how_far_they_came_and_what_to_do() -> None:
    sentence = not_judged(NOON, NOON + 600_000)
    assert sentence is not None
    assert f"up to {local(NOON):%H:%M:%S} of what was sent up to {local(NOON + 600_000):%H:%M:%S}" in sentence
    assert "count as missed" in sentence
    assert "--minutes" in sentence


def test_a_demo_whose_jobs_have_judged_nothing_says_so() -> None:
    sentence = not_judged(0, NOON)
    assert sentence is not None
    assert "judged nothing" in sentence


def test_other_commands_see_the_demo_with_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And fetch no jar again, which would take 100 MB and minutes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KAPPA_HOME", str(tmp_path / "a home"))
    own = demo_settings(load())
    for variable in shlex.split(seen_with(own)):
        monkeypatch.setenv(*variable.split("=", maxsplit=1))
    seen = load()
    assert (seen.home, seen.jars) == (own.home, own.jars) == (tmp_path / "a home/demo", tmp_path / "a home/jars")


def test_nobody_waits_long_for_a_line() -> None:
    """How far the jobs are is printed where nothing else was, and not more often."""
    written, now = io.StringIO(), [0.0]
    report = Reporter(Console(file=written), lambda: now[0])
    for second in range(1, 61):
        now[0] = float(second)
        if second == 20:
            report("an incident")
        report.if_quiet(lambda: so_far(1_234, 0))
    lines = written.getvalue().splitlines()
    assert [line[:9].strip("[] ") for line in lines] == ["15 s", "20 s", "35 s", "50 s"]
    assert lines[0].endswith("1,234 events of the fleet are in the log; the jobs have judged nothing yet")
    assert "the jobs have judged up to " in so_far(1, 1_767_571_200_000)
