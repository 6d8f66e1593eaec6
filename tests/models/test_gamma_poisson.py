"""Counts: the negative binomial against scipy, the updates against closed forms, data from the model."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from models.core.parameters import DetectorParameters
from models.stats import gamma_poisson as poisson

P = DetectorParameters()
START = 1_767_571_200_000


def fresh(n: int) -> np.ndarray:
    s = np.zeros((len(poisson.COLUMNS), n))
    s[poisson.SEEN] = START
    return s


def feed(s: np.ndarray, rows: np.ndarray, p: DetectorParameters, begin: int = 0) -> list[poisson.CountPrediction]:
    beliefs = []
    for k, x in enumerate(rows, begin + 1):
        beliefs.append(poisson.predict(s, x, START + 10_000 * k, p))
        poisson.learn(s, x, START + 10_000 * k, beliefs[-1], p)
    return beliefs


def negative_binomial(mean: float, shape: float) -> stats.rv_discrete:
    return stats.nbinom(shape, shape / (shape + mean))


@given(st.integers(1, 200), st.floats(0.01, 100), st.floats(0.05, 100))
def test_tail_is_that_of_the_mixture_with_a_burst(x: int, mean: float, shape: float) -> None:
    nats, _ = poisson.too_many(np.array([float(x)]), np.array([mean]), np.array([shape]), 1e-3)
    regular = negative_binomial(mean, shape).sf(x - 1)
    burst = stats.geom(1 / (10 * mean + 11)).sf(x)
    assert nats[0] == pytest.approx(-math.log(0.999 * regular + 0.001 * burst), rel=1e-6)


@given(st.integers(0, 50), st.floats(0.5, 100), st.floats(0.5, 100))
def test_lower_tail_is_that_of_scipy(x: int, mean: float, shape: float) -> None:
    ours = poisson.too_few(np.array([float(x)]), np.array([mean]), np.array([shape]))[0]
    assert ours == pytest.approx(-negative_binomial(mean, shape).logcdf(x), rel=1e-6, abs=1e-9)


def test_surprise_of_no_lines_is_that_of_zero() -> None:
    s = fresh(1)
    feed(s, np.random.default_rng(0).poisson(6, (250, 1)).astype(float), P)
    b = poisson.predict(s, np.zeros(1), START + 2_510_000, P)
    assert b.low_nats[0] == pytest.approx(-negative_binomial(b.mean[0], b.shape[0]).logpmf(0))


@given(st.lists(st.integers(0, 30), min_size=1, max_size=40))
def test_the_posterior_is_the_discounted_gamma(counts: list[int]) -> None:
    p = DetectorParameters(warm_up_minutes=1e9, count_half_life_hours=100 / 3600)
    s, x = fresh(1), np.array(counts, dtype=float)
    feed(s, x[:, None], p)
    weights = 0.5 ** (np.arange(len(x))[::-1] / 10)
    assert s[poisson.SUM, 0] == pytest.approx((weights * x).sum())
    assert s[poisson.WINDOWS, 0] == pytest.approx(weights.sum())


def test_mean_of_the_predictive_is_that_of_the_gamma() -> None:
    s = fresh(1)
    s[poisson.SUM], s[poisson.WINDOWS] = 40.0, 10.0
    b = poisson.predict(s, np.array([4.0]), START, P)
    assert b.mean[0] == pytest.approx((40 + poisson.PRIOR_SUM) / (10 + poisson.PRIOR_WINDOWS))


def test_over_dispersion_is_recovered() -> None:
    rng = np.random.default_rng(1)
    rows = rng.poisson(10 * rng.gamma(8, 1 / 8, (800, 200))).astype(float)
    b = feed(fresh(200), rows, P)[-1]
    assert np.median(b.phi) == pytest.approx(1 / 8, rel=0.15)


def test_p_values_are_honest_on_data_from_the_model() -> None:
    rng = np.random.default_rng(2)
    n = 400
    rows = rng.poisson(rng.uniform(5, 40, n) * rng.gamma(8, 1 / 8, (600, n))).astype(float)
    beliefs = feed(fresh(n), rows, P)[360::10]
    p = np.exp(-np.concatenate([np.where(b.high_nats > 0, b.high_nats, 0.0) for b in beliefs]))
    for q in (0.2, 0.1, 0.05):
        assert (p < q).mean() == pytest.approx(q, rel=0.25)
    assert (p < 0.001).mean() < 0.001


def test_a_burst_is_hardly_learnt() -> None:
    s = fresh(1)
    feed(s, np.random.default_rng(3).poisson(2, (300, 1)).astype(float), P)
    before = s[poisson.SUM, 0]
    feed(s, np.full((1, 1), 60.0), P, begin=300)
    assert s[poisson.SUM, 0] <= before + 1


def test_scoring_changes_no_state() -> None:
    s = fresh(2)
    feed(s, np.random.default_rng(4).poisson(2, (30, 2)).astype(float), P)
    before = s.copy()
    poisson.predict(s, np.array([0.0, 50.0]), START + 900_000, P)
    assert np.array_equal(s, before)


@given(st.floats(2, 200), st.floats(2, 100))
def test_interval_is_near_the_quantiles_of_the_negative_binomial(mean: float, shape: float) -> None:
    lower, upper = poisson.interval(mean, 1 / shape + 1 / mean, 0.05)
    exact = negative_binomial(mean, shape)
    assert exact.cdf(lower - 1) < 0.05
    assert exact.sf(upper) < 0.05
    assert exact.cdf(upper) - exact.cdf(lower - 1) > 0.9


def test_a_cron_that_logs_every_minute_is_not_silent_in_between() -> None:
    rows = np.zeros((900, 1))
    rows[::6] = 3
    assert max(b.zero[0] for b in feed(fresh(1), rows, P)[200:]) < 3


def test_a_series_without_lines_so_far_is_as_one_that_was_fed_zeros() -> None:
    s, lines = fresh(2), np.random.default_rng(5).poisson(6, 1500).astype(float)
    feed(s, np.stack([lines, np.zeros(1500)], axis=1), P)
    for column, value in poisson.without_lines(s[:, 0], P).items():
        assert value == pytest.approx(s[poisson.COLUMNS.index(column), 1], rel=0.01), column


@pytest.mark.parametrize("lines", [1e4, 2e5, 1e7, 1e12])
def test_however_many_lines_a_log_has_its_silence_has_a_finite_surprisal_above_those_of_quieter_ones(
    lines: float,
) -> None:
    # 200,000 lines in a window were enough for a probability of none that is 0 as a float
    p, s = DetectorParameters(), fresh(2)
    feed(s, np.full((400, 2), [30.0, lines]), p)
    quieter, found = feed(s, np.zeros((40, 2)), p, 400)[-1].zero
    assert 50 < quieter < found < math.inf
