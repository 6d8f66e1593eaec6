"""`kappa replay promote` says how far the candidate is also where nobody sits at a terminal."""

from __future__ import annotations

import itertools

import pytest

from app.cli.replay_promote import progress, progress_line
from replay.promote import PromotionProgress

NOON = 1_767_614_400_000


def test_without_a_terminal_there_is_a_line_every_30_s(capsys: pytest.CaptureFixture[str]) -> None:
    seconds = itertools.count()
    with progress(clock=lambda: next(seconds) / 2) as on_progress:  # two looks at the clock a second
        for number in range(200):
            on_progress(PromotionProgress(NOON, NOON - 60_000 + 100 * number, NOON if number > 100 else None))
    lines = capsys.readouterr().err.splitlines()
    assert 2 <= len(lines) <= 4
    assert lines[0].startswith("indexed up to 2026-01-05T11:59:0") and "s of event time behind" in lines[0]
    assert lines[-1].endswith("; going over after 2026-01-05T12:00:00Z")


def test_a_promotion_of_less_than_30_s_says_nothing_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(clock=lambda: 1.0) as on_progress:
        on_progress(PromotionProgress(NOON, NOON, NOON))
    assert capsys.readouterr().err == ""


def test_a_candidate_that_has_indexed_nothing_says_so_and_where_it_has_to_come_to() -> None:
    assert (
        progress_line(PromotionProgress(NOON, None, None))
        == "starting: nothing is indexed yet; wanted up to 2026-01-05T12:00:00Z"
    )
    assert progress_line(PromotionProgress(None, None, None)).startswith("starting: nothing is indexed yet")
