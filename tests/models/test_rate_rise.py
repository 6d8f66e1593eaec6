"""Rare lines that come more often than usual: evidence against closed forms, false alarms and delays against theory, stories of logs."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats
from support.fleet_story import START, DetectorRun, Row, words

from models.core.arrays import Bools, Floats
from models.core.parameters import DetectorParameters
from models.detection.detector import ShardDetector
from models.stats import rate_rise
from models.stats.gamma_poisson import PRIOR_SUM, PRIOR_WINDOWS

P = DetectorParameters(window_seconds=60)
SECONDS, HOUR, DAY = 10.0, 360, 8_640  # windows
TEMPLATE = "template/pay-1/payments/error/0123456789abcdef"
TEXT = "order <*> declined by issuer"


def known(n: int, lines: float, windows: float) -> Floats:
    """States of series that came in so many of so many windows, a day ago and before."""
    s = np.zeros((len(rate_rise.COLUMNS), n))
    s[rate_rise.SUM], s[rate_rise.WINDOWS], s[rate_rise.FIRST] = lines, windows, START
    return s


def run(s: Floats, there: Bools, first: int = DAY) -> Iterator[tuple[int, rate_rise.Rise]]:
    """Rises of series with lines in some windows, `(windows, n)`, of which the first one is so many after the first line."""
    nothing = np.zeros(there.shape[1], dtype=bool)
    for at, lines in enumerate(there, first + 1):
        now = int(START + 1000 * SECONDS * at)
        windows = np.full(there.shape[1], float(at - first))
        yield at - first, rate_rise.step(s, np.flatnonzero(lines), windows, now, SECONDS, nothing)


@given(st.integers(1, 20), st.integers(1, 200), st.floats(0, 50), st.floats(100, 5000))
def test_evidence_is_the_ratio_of_the_marginals(lines: int, windows: int, before: float, known_windows: float) -> None:
    s = known(1, before, known_windows)
    ours = rate_rise.evidence(s, np.full((2, 1), float(lines)), np.full((2, 1), float(windows)))[:, 0]
    known_rate = stats.gamma(before + PRIOR_SUM, scale=1 / (known_windows + PRIOR_WINDOWS))

    def marginal(times: float) -> float:
        middle = (before + PRIOR_SUM + lines) / (known_windows + PRIOR_WINDOWS + times * windows)

        def density(u: float) -> float:
            rate = middle * u
            return float(
                known_rate.pdf(rate) * math.exp(lines * math.log(times * rate) - times * rate * windows) * middle
            )

        return float(integrate.quad(density, 0, 20, points=[0.5, 1, 2], limit=200, epsabs=0)[0])

    usual = marginal(1.0)
    for one, times in zip(ours, rate_rise.FACTORS[:, 0], strict=True):
        assert one == pytest.approx(math.log(marginal(times) / usual), rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("nats", [8.0, 9.0])
def test_false_alarms_are_fewer_than_the_bound(nats: float) -> None:
    rng, n = np.random.default_rng(1), 3_000
    rate = np.exp(rng.normal(np.log(1 / HOUR), 0.5, n))  # lines a window
    s = known(n, 0.0, 4.0 * DAY)
    s[rate_rise.SUM] = rng.poisson(4 * DAY * rate)
    there = rng.random((DAY // 2, n)) < rate
    highest = np.zeros(n)
    for _, rise in run(s, there):
        highest = np.maximum(highest, rise.evidence)
    false, lines = float((highest >= nats).mean()), float(there.sum(axis=0).mean())
    assert 0 < false <= lines * float(rate_rise.FACTORS.mean()) * math.exp(-nats)


@pytest.mark.parametrize(("times", "factor"), [(25.0, 30.0), (5.0, 5.0)])
def test_delay_is_that_of_the_theory(times: float, factor: float) -> None:
    rng, n, rate = np.random.default_rng(2), 300, 2 / HOUR
    s = known(n, 4 * DAY * rate, 4.0 * DAY)
    found = np.full(n, np.inf)
    for at, rise in run(s, rng.random((DAY, n)) < times * rate):
        found = np.where(np.isinf(found) & rise.is_at_least(P.count_nats, 0.0), at, found)
    drift = rate * (times * math.log(factor) - (factor - 1))  # nats a window, of a rate that is known
    assert np.mean(found) == pytest.approx((P.count_nats + math.log(2)) / drift, rel=0.3)


def test_rises_that_are_usual_are_no_news_and_greater_ones_are() -> None:
    there = np.zeros((3 * DAY + 8 * HOUR, 1), dtype=bool)
    for at in range(HOUR, 3 * DAY, DAY // 2):
        there[at : at + 60 : 6] = True  # ten lines in ten minutes, twice a day
    there[3 * DAY + 6 * HOUR : 3 * DAY + 7 * HOUR : 6] = True
    found = [
        at for at, rise in run(known(1, 0.0, float(DAY)), there, first=0) if rise.is_at_least(P.count_nats, 0.0)[0]
    ]
    assert found
    assert all(3 * DAY + 6 * HOUR < at <= 3 * DAY + 7 * HOUR for at in found)


def test_the_first_day_is_learnt_only() -> None:
    s = known(1, 0.0, float(DAY))
    there = np.zeros((DAY + HOUR, 1), dtype=bool)
    there[::HOUR] = there[6 * HOUR : 8 * HOUR : 6] = True
    assert max(rise.evidence[0] for at, rise in run(s, there, first=0) if at < DAY) == 0
    assert s[rate_rise.SUM, 0] == pytest.approx(there[:DAY].sum(), abs=3)


def test_a_rise_that_has_ended_is_learnt_and_another_one_begins_anew() -> None:
    s = known(1, 10.0, float(DAY))
    there = np.zeros((HOUR, 1), dtype=bool)
    there[::6] = True
    strongest = max(rise.evidence[0] for _, rise in run(s, there))
    assert strongest > P.count_nats
    rate_rise.end_rise(s, 0)
    one = rate_rise.step(
        s, np.array([0]), np.array([HOUR + 1.0]), START + 10_000 * (DAY + HOUR), SECONDS, np.zeros(1) > 0
    )
    assert one.evidence[0] < 5
    assert one.usual[0] == pytest.approx(strongest, rel=0.01)
    assert s[rate_rise.SUM, 0] == pytest.approx(70, rel=0.01)


def test_the_sum_of_series_comes_as_often_as_they_do_together() -> None:
    s = np.hstack([known(1, 10.0, 900.0), known(1, 20.0, 1_000.0)])
    out = rate_rise.combine_states(s, 1_200.0)
    assert out[[rate_rise.SUM, rate_rise.WINDOWS, rate_rise.KNOWN]].tolist() == [30.0, 1_000.0, 1_200.0]


def log(minutes: int, a_minute: float, seed: int) -> Iterator[dict[str, Row]]:
    """Windows of a minute of a service that writes all the time, and now and then an error."""
    rng = np.random.default_rng(seed)
    for errors in rng.random(minutes) < a_minute:
        rows: dict[str, Row] = {"logs/pay-1/payments/info": int(1 + rng.poisson(20))}
        if errors:
            rows[TEMPLATE] = (1, TEXT)
        yield rows


@pytest.fixture(scope="module")
def two_days() -> tuple[dict[str, bytes], int]:
    """A detector that has known an error of each hour for two days, and when that was."""
    story = DetectorRun(ShardDetector(P), window=60_000)
    story.play(log(2_880, 1 / 60, seed=3))
    return story.detector.dump(), story.now


@pytest.fixture
def story(two_days: tuple[dict[str, bytes], int]) -> DetectorRun:
    return DetectorRun(ShardDetector.load(two_days[0], P), two_days[1], window=60_000)


def test_an_error_of_each_hour_that_comes_each_other_minute_is_found_and_ends(story: DetectorRun) -> None:
    began = story.now
    events = [one for one in story.play(log(60, 0.5, seed=4)) if one.series == TEMPLATE]
    assert [(one.status, one.kind, one.part) for one in events][:1] == [("open", "anomaly", "rate")]
    assert events[0].window_end - began <= 30 * 60_000
    assert abs(events[0].start - began) <= 10 * 60_000
    assert "lines of 'order <*> declined by issuer' come " in events[0].reason
    assert " times as often as usual for " in events[0].reason
    assert events[0].value >= events[0].upper > events[0].typical
    after = [one for one in story.play(log(60, 1 / 60, seed=5)) if one.series == TEMPLATE]
    assert [status for _, status, _ in words(after)][-1] == "close"
    assert after[-1].kind != "change"


def test_a_rate_that_lasts_is_a_change_and_usual_then(story: DetectorRun) -> None:
    events = [one for one in story.play(log(600, 0.5, seed=6)) if one.series == TEMPLATE]
    assert [one.status for one in events if one.status != "update"] == ["open", "close"]
    assert events[-1].kind == "change"
    assert events[-1].after == pytest.approx(0.5, rel=0.3)
    assert events[-1].window_end < story.now - 200 * 60_000
