"""A sine sums to zero over each whole period in event-time windows, in whatever order it comes, and by arrival it does not."""

from __future__ import annotations

from itertools import pairwise

import pytest
from pyspark.sql import SparkSession
from support.sine import PERIOD, PERIODS, SAMPLES, early_at_the_end, early_sums, exact_sums, samples, sums_by_arrival

pytestmark = pytest.mark.spark
WINDOWS = [PERIOD * number for number in range(1, PERIODS + 1)]


OTHER = samples(seed=7)  # the same, in another order


@pytest.fixture(scope="module")
def sums(spark: SparkSession) -> dict[str, dict[int, float]]:
    """Of both orders."""
    return exact_sums(spark, {"one": samples(), "other": OTHER})


@pytest.fixture(scope="module")
def exact(sums: dict[str, dict[int, float]]) -> dict[int, float]:
    """As the records of the picture are appended."""
    return sums["one"]


def test_records_come_late_and_out_of_order() -> None:
    events = [one.event for one in samples()]
    turned = sum(later < earlier for earlier, later in pairwise(events))
    assert len(events) == PERIODS * SAMPLES and turned > len(events) / 4
    assert sum(one.append >= PERIOD * (one.event // PERIOD + 1) for one in samples()) >= 30


def test_each_whole_period_sums_to_zero_by_event_time(exact: dict[int, float]) -> None:
    assert exact == dict.fromkeys(WINDOWS, 0.0)  # not nearly: sums are of fixed point


def test_no_period_sums_to_zero_by_arrival() -> None:
    found = sums_by_arrival(samples())
    assert max(found) > WINDOWS[-1], "the last ones arrive after the last period"
    assert all(abs(total) > 0.1 for total in found.values())
    assert sum(found.values()) == pytest.approx(0.0, abs=1e-9)


def test_early_sums_become_the_exact_ones_with_the_last_record_of_a_window(exact: dict[int, float]) -> None:
    last = {one.window: one.total for one in early_sums(samples())}
    assert last == pytest.approx(exact, abs=1e-9)
    at_the_end = early_at_the_end(samples())
    assert sorted(at_the_end) == WINDOWS
    assert all(total > 1.0 for total in at_the_end.values()), "what is missing at the end of a period is negative"


def test_another_order_of_arrival_changes_sums_by_arrival_alone(
    sums: dict[str, dict[int, float]], exact: dict[int, float]
) -> None:
    assert sums["other"] == exact
    assert sums_by_arrival(OTHER) != sums_by_arrival(samples())
