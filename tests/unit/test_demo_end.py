"""What the demonstration says at its end of windows that the jobs have not judged."""

from __future__ import annotations

from app.cli.demonstration import not_judged
from app.cli.local_time import local

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
