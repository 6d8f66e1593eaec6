"""Rows of a table: one alarm for each event, and hosts by the joined scores of their metrics."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.core.parameters import DetectorParameters
from models.detection.table_score import RowAnswer, TableScorer, make_increasing

BEGIN, STEP = 1_700_006_400_000, 300_000


def answers_of(scorer: TableScorer, values: np.ndarray) -> list[RowAnswer]:
    return [scorer.step(BEGIN + STEP * (k + 1), row) for k, row in enumerate(values)]


def test_the_order_of_columns_has_no_effect() -> None:
    values = np.random.default_rng(1).normal(5, 1, (80, 3))
    p = DetectorParameters(window_seconds=300)
    one = answers_of(TableScorer(["a", "b", "c"], p, host=True), values)
    two = answers_of(TableScorer(["c", "a", "b"], p, host=True), values[:, [2, 0, 1]])
    for first, second in zip(one, two, strict=True):
        assert np.array_equal(first.anomaly_score, second.anomaly_score, equal_nan=True)
        assert first.top == second.top


def test_an_episode_that_lasts_raises_one_alarm() -> None:
    values = np.random.default_rng(2).normal(20, 1, 150)
    values[120:140] += 60
    p = DetectorParameters(window_seconds=300)
    found = answers_of(TableScorer(["v"], p, host=False), values[:, None])
    alarms = [k for k, row in enumerate(found) if row.anomaly_score >= p.alert_nats]
    assert alarms == [120]
    assert found[125].kind == "anomaly"
    assert found[125].anomaly_score == 0
    assert found[125].since == BEGIN + STEP * 120  # the begin of the window that ends with row 120


@pytest.mark.parametrize(("usual", "then", "lasts"), [(0.0, 1.0, None), (0.0, 1.0, 10), (3.0, 4.0, 1)])
def test_a_gauge_that_stands_still_raises_one_alarm_and_one_change_where_it_moves(
    usual: float, then: float, lasts: int | None
) -> None:
    """Ten days at one value, then for so many rows at another, or for good: replicas, limits, a count of what is broken."""
    days, moves = 14, 10 * 288 + 170
    values = np.full(days * 288, usual)
    values[moves : None if lasts is None else moves + lasts] = then
    found = answers_of(TableScorer(["v"], DetectorParameters(window_seconds=300), host=False), values[:, None])
    kinds = [row.kind for row in found if row.novelty]
    assert kinds == (["anomaly"] if lasts else ["anomaly", "change"])
    assert found[moves].novelty
    assert found[-1].typical == pytest.approx(usual if lasts else then, abs=1e-3)


def test_noise_that_halves_for_good_is_no_new_anomaly_once_it_is_adopted() -> None:
    rng, days, halves = np.random.default_rng(3), 14, 10 * 288
    values, wanders = rng.normal(0, 1, days * 288), rng.normal(0, 0.34, days * 288)
    for k in range(1, len(wanders)):
        wanders[k] += 0.944 * wanders[k - 1]  # half forgotten in an hour
    wanders[0] = 0.0
    values += wanders
    values[halves:] /= 2
    found = answers_of(TableScorer(["v"], DetectorParameters(window_seconds=300), host=False), 60 + values[:, None])
    assert [row.kind for row in found[halves:] if row.novelty] == ["anomaly", "change"]


def test_a_row_above_the_threshold_that_opens_no_episode_has_an_anomaly_score_below_it() -> None:
    values = np.random.default_rng(3).normal(20, 1, 700)
    values[690:] += 60
    p = DetectorParameters(window_seconds=10)
    scorer = TableScorer(["v"], p, host=False)
    found = [scorer.step(BEGIN + 10_000 * (k + 1), np.array([value])) for k, value in enumerate(values)]
    opened = [k for k, row in enumerate(found) if row.novelty]
    assert len(opened) == 1
    assert 690 < opened[0] < 696
    assert found[690].score >= p.alert_nats > found[690].anomaly_score > 0


def test_a_host_without_any_value_says_nothing_and_learns_nothing() -> None:
    values = np.random.default_rng(4).normal(5, 1, (60, 2))
    p = DetectorParameters(window_seconds=300)
    scorer, other = (TableScorer(["a", "b"], p, host=True) for _ in range(2))
    answers_of(scorer, values)
    answers_of(other, values)
    assert scorer.step(BEGIN + STEP * 61, np.full(2, np.nan)).kind == "missing"
    later = BEGIN + STEP * 62
    assert scorer.step(later, values[0]) == other.step(later, values[0])


@pytest.mark.slow
def test_anomalies_of_metrics_one_after_the_other_add_up() -> None:
    values = np.random.default_rng(7).normal(20, 1, (400, 3))
    p = DetectorParameters(window_seconds=300)
    apart, alone = values.copy(), values.copy()
    for metric, row in enumerate((390, 392, 394)):
        apart[row, metric] += 12
    alone[394, 2] += 12
    found, one = (answers_of(TableScorer(["a", "b", "c"], p, host=True), rows) for rows in (apart, alone))
    assert found[394].anomaly_score > one[394].anomaly_score + 0.5
    assert set(found[394].top) == {"a", "b", "c"}
    assert sum(found[394].share) == pytest.approx(1)


def test_a_host_s_values_are_those_of_its_top_metric_in_the_row_whose_score_is_held() -> None:
    values = np.random.default_rng(8).normal(20, 1, (400, 2))
    values[390, 1] += 30
    later = answers_of(TableScorer(["a", "b"], DetectorParameters(window_seconds=300), host=True), values)[392]
    assert later.top[0] == "b"
    assert later.value == pytest.approx(values[390, 1], abs=1e-3)
    assert later.lower < later.typical < later.upper < later.value


@given(st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=60))
def test_rising_times_are_kept_and_others_made_to_rise(times: list[int]) -> None:
    found = make_increasing(np.array(times, dtype=np.float64))
    assert (np.diff(found) >= 1).all()
    assert (found >= np.array(times)).all()
    ordered = np.array(sorted(set(times)), dtype=np.float64)
    assert np.array_equal(make_increasing(ordered), ordered)


@pytest.mark.parametrize("metrics", [1, 38])
def test_a_host_of_normal_metrics_is_as_rarely_strange_as_its_score_says(metrics: int) -> None:
    """-ln P of the joined score of independent series by the reference distribution, against Monte Carlo."""
    from models.detection import host_score
    from models.stats import reference_distribution

    rng, p = np.random.default_rng(6), host_score.HostParameters()
    scores = reference_distribution.joined_score(
        rng.exponential(size=(20_000, metrics))
    )  # nats of normal series are exponential
    joined = np.sum(scores**p.norm, axis=1) ** (1 / p.norm)
    surprisals = host_score.surprisal(joined, np.full(len(joined), metrics), p)
    for level in (3.0, 6.0):
        assert np.exp(-level) / 2 < np.mean(surprisals >= level) < np.exp(-level) * 2
    order = np.argsort(joined)
    assert (np.diff(surprisals[order]) >= 0).all()


@pytest.mark.slow
def test_noise_in_a_young_series_of_long_windows_rarely_opens_an_episode() -> None:
    """Thirty rows of five minutes are blocks of history already: counted as usual rows, they made noise improbable."""
    values, p = np.random.default_rng(5).normal(20, 1, (90, 24)), DetectorParameters(window_seconds=300)
    alarms = sum(row.novelty for one in values.T for row in answers_of(TableScorer(["v"], p, host=False), one[:, None]))
    assert alarms <= 5
