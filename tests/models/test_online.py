"""`models.Detector`: what `kappa score` finds, row by row from Python; scoring changes nothing, wrong rows are refused."""

from __future__ import annotations

import doctest
import math
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

import models
from models import Detection, Detector
from models.core.parameters import DetectorParameters
from models.detection import online
from models.detection.table_score import TableScorer

START = datetime(2026, 1, 5, tzinfo=UTC)


def rows(count: int, spike_at: int = -1) -> list[tuple[datetime, float]]:
    """Noise around a slow wave, one value a minute."""
    noise = np.random.default_rng(3).normal(0, 0.3, count)
    values = 20 + np.sin(np.arange(count) / 40) + noise
    if spike_at >= 0:
        values[spike_at] = 60.0
    return [(START + timedelta(minutes=i), float(value)) for i, value in enumerate(values, 1)]


def same(one: Detection, other: Detection) -> bool:
    """Equal, with NaN equal to NaN."""
    return repr(one) == repr(other)


def test_the_examples_of_the_docstring_hold() -> None:
    found = doctest.testmod(online)
    assert found.attempted > 8
    assert found.failed == 0


def test_it_is_exported() -> None:
    assert models.Detector is Detector


@pytest.mark.slow
def test_one_row_at_a_time_a_batch_and_scoring_before_learning_come_to_the_same() -> None:
    stream = rows(300, spike_at=280)
    batch = Detector().detect_many(stream)
    one, apart = Detector(), Detector()
    scores = []
    for (time, value), expected in zip(stream, batch, strict=True):
        assert same(one.detect_one(time, value), expected)
        scores.append(apart.score_one(time, value))
        apart.learn_one(time, value)
    np.testing.assert_array_equal(scores, [found.score for found in batch])
    assert batch[280].novelty and batch[280].kind == "anomaly"
    assert np.nanargmax(scores) == 280


def test_it_finds_what_the_scorer_of_files_finds() -> None:
    stream = rows(200, spike_at=150)
    scorer = TableScorer(("value",), DetectorParameters(window_seconds=60.0), host=False)
    for (time, value), found in zip(stream, Detector().detect_many(stream), strict=True):
        expected = scorer.step(int(1000 * time.timestamp()), np.array([value]))
        np.testing.assert_array_equal([found.score, found.upper], [expected.anomaly_score, expected.upper])
        assert (found.novelty, found.kind) == (expected.novelty, expected.kind)


def test_scoring_learns_nothing() -> None:
    stream = rows(200)
    asked, other = Detector(), Detector()
    asked.detect_many(stream[:-1])
    other.detect_many(stream[:-1])
    time, value = stream[-1]
    wild = [asked.score_one(time, number) for number in (1e9, -1e9, value, 1e9)]
    assert wild[0] == wild[3] > wild[2]
    assert same(asked.detect_one(time, value), other.detect_one(time, value))


def test_the_metrics_of_a_host_are_named_with_their_shares() -> None:
    noise = np.random.default_rng(4).normal(0, 1, (2, 300))
    host = Detector(["cpu", "memory"])
    for minute in range(1, 300):
        values = {"cpu": 30 + noise[0, minute], "memory": 50 + noise[1, minute] if minute % 9 else None}
        found = host.detect_one(60.0 * minute, values)
    assert found.kind == "normal"
    found = host.detect_one(60.0 * 300, {"cpu": 95.0, "memory": 50.0})
    assert next(iter(found.contributions)) == "cpu"
    assert 0 < sum(found.contributions.values()) <= 1


def test_a_missing_value_is_reported_as_missing() -> None:
    detector = Detector()
    for value in (None, math.nan, math.inf, -1.1e15, 1e300):
        found = detector.detect_one(60.0 * (1 + (detector._last_ms or 0) // 60_000), value)
        assert found.kind == "missing" and math.isnan(found.score)


def test_a_number_that_stands_for_none_hides_nothing_however_long_it_comes() -> None:
    detector, rng = Detector(), np.random.default_rng(3)
    values = [*rng.normal(100, 1, 600), *[3.4e38] * 200, *rng.normal(100, 1, 600)]
    detector.detect_many((60.0 * (k + 1), value) for k, value in enumerate(values))
    found = detector.detect_one(60.0 * (len(values) + 1), 200.0)
    assert found.novelty and 110 > found.upper > found.typical > 90


@pytest.mark.parametrize(
    ("arguments", "row", "message"),
    [
        ({}, (60.0, 1.0), "wanted one after that of the last row"),
        ({}, (math.nan, 1.0), "wanted seconds since 1970"),
        ({}, (datetime(2026, 1, 5), 1.0), "without a time zone"),  # noqa: DTZ001
        ({}, (120.0, {"cpu": 1.0}), r"wanted a number, or Detector\(metrics=\['cpu'\]\)"),
        ({"metrics": ["cpu"]}, (120.0, 1.0), "wanted a mapping of cpu to numbers"),
        ({"metrics": ["cpu"]}, (120.0, {"disk": 1.0}), "no metric 'disk'; there are cpu"),
    ],
)
def test_a_row_that_cannot_be_taken_is_refused_in_words(arguments: dict[str, Any], row: Any, message: str) -> None:
    detector = Detector(**arguments)
    detector.learn_one(60.0, {"cpu": 1.0} if arguments else 1.0)
    for method in (detector.score_one, detector.learn_one, detector.detect_one):
        with pytest.raises(ValueError, match=message):
            method(*row)
    assert detector.detect_one(120.0, {"cpu": 1.0} if arguments else 1.0).kind == "warming"


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="wanted each name once"):
        Detector(["a", "a"])
    with pytest.raises(ValueError, match="window_seconds is 0"):
        Detector(window_seconds=0)
