"""What `benchmarks.million` says of a run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.core.settings import Settings, load
from benchmarks.million import Look, summary


def settings() -> Settings:
    base = load()
    windowing = replace(base.windowing, window_seconds=10, lateness_seconds=15, disorder_seconds=0)
    return base.model_copy(update={"windowing": windowing})


def looks(until: int) -> list[Look]:
    """The jobs use a core of the JVM and half of one in the workers, the broker a tenth."""
    return [Look(at, {"jvm": 1.0 * at, "python": 0.5 * at}, 0.1 * at) for at in range(1, until + 1)]


def test_a_run_that_keeps_up_has_every_window_before_the_next_one_closes() -> None:
    delay = settings().windowing.watermark_delay_seconds
    done = {1000 * end: end + delay + 4.0 for end in range(20, 160, 10)}
    found = summary(settings(), 1_000, 5.0, looks(200), done)
    assert (found["in_time"], found["latency_median"], found["latency_p99"]) == pytest.approx((14 / 16, 4.0, 4.0))
    assert (found["jvm_seconds"], found["python_seconds"], found["broker_seconds"]) == pytest.approx((10, 5, 1))
    assert found["core_seconds"] == pytest.approx(15)
    assert found["windows"] == 14


def test_what_was_judged_too_late_or_not_at_all_is_not_in_time() -> None:
    delay = settings().windowing.watermark_delay_seconds
    behind = {1000 * end: end + delay + 11.0 for end in range(20, 100, 10)}
    found = summary(settings(), 1_000, 5.0, looks(200), behind)
    assert found["in_time"] == 0.0
    assert summary(settings(), 1_000, 5.0, looks(200), {}) == {"series": 1_000, "windows": 0, "due": found["due"]}
