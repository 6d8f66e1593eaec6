"""When the process of jobs is started again, when that ends, and what counts as progress: by a clock that the tests set."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.runtime.task_progress import TaskProgress
from app.supervision.policy import RestartLimits, RestartPolicy
from app.supervision.progress import ProgressWatch

LIMITS = RestartLimits(first_seconds=1.0, most_seconds=60.0, good_seconds=30.0, most_in_vain=10)


def policy(draw: float = 1.0) -> RestartPolicy:
    return RestartPolicy(LIMITS, lambda: draw)


# --- waits


def test_waits_double_up_to_a_minute_and_the_tenth_start_in_vain_is_the_last() -> None:
    ours = policy()
    assert [ours.ended(0.0) for _ in range(10)] == [1, 2, 4, 8, 16, 32, 60, 60, 60, None]


@given(st.floats(0, 1), st.integers(1, 9))
def test_a_wait_lies_between_half_of_its_limit_and_the_limit(draw: float, restarts: int) -> None:
    ours = policy(draw)
    for number in range(restarts):
        limit = min(60.0, 2.0**number)
        wait = ours.ended(0.0)
        assert wait is not None
        assert limit / 2 <= wait <= limit


def test_after_a_good_stretch_waits_begin_again() -> None:
    ours = policy()
    waits = [ours.ended(0.0) for _ in range(4)]
    ours.progressed(100.0)
    ours.progressed(110.0)
    assert [*waits, ours.ended(130.0)] == [1, 2, 4, 8, 1]


def test_progress_that_never_lasts_is_tried_for_ever_but_ever_more_slowly() -> None:
    ours, waits = policy(), []
    for start in range(0, 2000, 20):
        ours.progressed(start + 5.0)
        waits.append(ours.ended(start + 10.0))
    assert waits[:7] == [1, 2, 4, 8, 16, 32, 60]
    assert set(waits[7:]) == {60}


def test_a_server_that_is_away_is_waited_for_without_end() -> None:
    ours = policy()
    assert {ours.ended(0.0, waits_for_others=True) for _ in range(500)} >= {1.0, 60.0}
    assert ours.in_vain == 0


def test_waiting_for_a_server_does_not_forgive_starts_in_vain() -> None:
    ours = policy()
    found = [ours.ended(0.0, waits_for_others=number % 2 == 0) for number in range(20)]
    assert found[-1] is None
    assert None not in found[:-1]


# --- progress


def watch() -> ProgressWatch:
    return ProgressWatch(0.0, stale_seconds=10.0, start_seconds=100.0)


def test_each_job_needs_progress_of_its_own() -> None:
    ours = watch()
    for job in ("extract", "detect"):
        ours.expect(job, 0.0)
        ours.progress(job, 1.0)
    for second in range(1, 12):
        ours.progress("extract", float(second))
    assert ours.hung(11.0) is None
    assert ours.hung(11.5) == "detect has made no progress for 10 s"


@pytest.mark.parametrize(("seconds", "hangs"), [(100.0, False), (101.0, True)])
def test_before_its_first_progress_a_job_has_more_time(seconds: float, hangs: bool) -> None:
    ours = watch()
    ours.expect("extract", 0.0)
    assert (ours.hung(seconds) is not None) == hangs


def test_a_process_that_starts_no_job_hangs_unless_it_gives_signs_of_life() -> None:
    ours = watch()
    assert ours.hung(101.0) == "it has started no job within 100 s"
    ours.alive(101.0)
    assert ours.hung(200.0) is None


def test_jobs_that_were_stopped_need_no_progress() -> None:
    ours = watch()
    ours.expect("extract", 0.0)
    ours.progress("extract", 1.0)
    ours.forget(5.0)
    ours.progress("extract", 6.0)
    assert ours.jobs == ()
    assert ours.hung(100.0) is None


# --- tasks


def test_stages_that_get_further_are_progress_of_their_job_and_those_that_stand_still_are_not() -> None:
    working: list[str] = []
    ours = TaskProgress(working.append, 5.0)
    for found in ({"extract": (1, 0, 10), "detect": (2, 1, 0)}, {"extract": (1, 0, 20), "detect": (2, 1, 0)}, {}):
        ours.compare(found)
        working.append("-")
    assert working == ["extract", "detect", "-", "extract", "-", "-"]
