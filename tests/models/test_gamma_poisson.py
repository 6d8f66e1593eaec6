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
    nats, _ = poisson.upper_tail_surprisal(np.array([float(x)]), np.array([mean]), np.array([shape]), 1e-3)
    regular = negative_binomial(mean, shape).sf(x - 1)
    burst = stats.geom(1 / (10 * mean + 11)).sf(x)
    assert nats[0] == pytest.approx(-math.log(0.999 * regular + 0.001 * burst), rel=1e-6)


@given(st.integers(0, 50), st.floats(0.5, 100), st.floats(0.5, 100))
def test_lower_tail_is_that_of_scipy(x: int, mean: float, shape: float) -> None:
    ours = poisson.lower_tail_surprisal(np.array([float(x)]), np.array([mean]), np.array([shape]))[0]
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
    for column, value in poisson.state_without_lines(s[:, 0], P).items():
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


# --- what is forgotten


SUMS = (poisson.SUM, poisson.WINDOWS, poisson.EXCESS, poisson.SQUARE)


def known(*rates: float, windows: int = 500, seed: int = 6) -> np.ndarray:
    """States of Poisson logs after an unbroken sequence of windows."""
    s, rng = fresh(len(rates)), np.random.default_rng(seed)
    feed(s, rng.poisson(rates, (windows, len(rates))).astype(float), P)
    return s


def untaught(n: int) -> poisson.CountMemory:
    return poisson.CountMemory(
        np.full(n, P.count_half_life_hours), np.full(n, P.warm_up_minutes), np.zeros(n, dtype=bool)
    )


@pytest.mark.parametrize("apart", [1, 3, 6])
def test_what_is_learnt_of_windows_a_minute_apart_at_most_is_discounted_by_their_time_to_the_last_bit(
    apart: int,
) -> None:
    s, seconds = fresh(3), np.full(3, 10.0 * apart)
    rate, spread, runs = (
        np.exp2(-seconds / (3600.0 * hours))
        for hours in (P.count_half_life_hours, P.spread_half_life_hours, P.habit_half_life_hours)
    )
    for k, x in enumerate(np.random.default_rng(7).poisson([1, 6, 60], (400, 3)).astype(float)):
        s[poisson.SEEN] = START + 10_000 * apart * k
        now, before = START + 10_000 * apart * (k + 1), s.copy()
        b = poisson.predict(s, x, now, P)
        poisson.learn(s, x, now, b, P)
        w = np.where(b.warming, 1.0, b.regular * (b.zero < poisson.NOT_LEARNT_NATS))
        new = x, np.ones(3), (x - b.mean) ** 2 - b.mean, b.mean**2
        for column, decay, more in zip(SUMS, (rate, rate, spread, spread), new, strict=True):
            expected = np.where(w > 0, before[column] * decay + w * more, before[column])
            assert np.array_equal(s[column], expected), poisson.COLUMNS[column]
        assert np.array_equal(s[poisson.ZERO][0], before[poisson.ZERO][0] * runs + (before[poisson.ZERO_EVIDENCE] <= 0))


def test_what_is_not_taught_is_not_forgotten_however_long_that_is() -> None:
    s = known(0.2, 5, 60)
    before, rng = s.copy(), np.random.default_rng(8)
    for k in range(300):
        x, now = rng.poisson([0.2, 5, 60]).astype(float), int(before[poisson.SEEN, 0]) + 600_000 * (k + 1)
        poisson.learn(s, x, now, poisson.predict(s, x, now, P, untaught(3)), P, untaught(3))
    for column in (*SUMS, *range(len(poisson.COLUMNS))[poisson.ZERO]):
        assert np.array_equal(s[column], before[column]), poisson.COLUMNS[column]


@pytest.mark.parametrize("column", [poisson.FROZEN, poisson.ZERO_EVIDENCE])
def test_what_an_episode_or_a_long_silence_keeps_from_being_learnt_moves_no_rate(column: int) -> None:
    """A silence need not have an episode: a rule may say that single logs may stop."""
    s = known(5, 60)
    s[column] = 1.0 if column == poisson.FROZEN else poisson.NOT_LEARNT_NATS
    before = s.copy()
    feed(s, np.zeros((1000, 2)), P, 500)
    for one in SUMS:
        assert np.array_equal(s[one], before[one]), poisson.COLUMNS[one]


def test_windows_without_a_line_are_learnt() -> None:
    s = known(0.05)
    before = s[:, 0].copy()
    feed(s, np.zeros((20, 1)), P, 500)
    assert s[poisson.WINDOWS, 0] > before[poisson.WINDOWS] * 2 ** (-20 / 360) + 19
    assert s[poisson.SUM, 0] == pytest.approx(before[poisson.SUM] * 2 ** (-20 / 360))
    assert s[poisson.ZERO].sum() > before[poisson.ZERO].sum()


@given(st.floats(0, 1e7), st.floats(0.1, 1e4), st.floats(0.01, 1e3))
def test_a_gap_leaves_so_many_windows_of_what_was_known(seconds: float, windows: float, rate: float) -> None:
    s = fresh(1)
    s[poisson.WINDOWS], s[poisson.SUM] = windows, windows * rate
    b = poisson.predict(s, np.zeros(1), START + int(1000 * seconds), P)
    faded = windows * 2 ** (-int(1000 * seconds) / 3_600_000)
    least = min(windows * 2 ** (-1 / poisson.LEAST_WINDOWS), poisson.LEAST_WINDOWS)
    left = max(faded, least)
    assert b.mean[0] == pytest.approx((left * rate + poisson.PRIOR_SUM) / (left + poisson.PRIOR_WINDOWS))


@pytest.mark.parametrize("hours", [1, 12, 24, 240])
def test_after_a_gap_a_rate_is_where_it_was_and_less_certain(hours: int) -> None:
    s, x = known(5, 20, 60), np.array([5.0, 20.0, 60.0])
    now = int(s[poisson.SEEN, 0])
    before = poisson.predict(s, x, now + 10_000, P)
    after = poisson.predict(s, x, now + 3_600_000 * hours, P)
    assert after.mean == pytest.approx(before.mean, rel=0.02)
    assert np.all(after.shape < before.shape)
    poisson.learn(s, x, now + 3_600_000 * hours, after, P)
    later = poisson.predict(s, x, now + 3_600_000 * hours + 10_000, P)
    assert np.all(before.phi <= later.phi)
    assert np.all(later.phi < poisson.PRIOR_PHI)


def test_a_log_that_comes_one_window_a_day_has_its_own_rate_and_not_the_prior_one() -> None:
    s = fresh(1)
    for day in range(1, 60):
        now, x = START + 86_400_000 * day, np.array([40.0])
        b = poisson.predict(s, x, now, P)
        poisson.learn(s, x, now, b, P)
    assert b.mean[0] == pytest.approx(40, rel=0.05)


@pytest.mark.parametrize("hours", [0, 1, 12, 24, 240])
def test_a_log_that_falls_silent_after_a_gap_is_found(hours: int) -> None:
    s, rng = known(5, 20, 60), np.random.default_rng(9)
    s[poisson.SEEN] -= 3_600_000 * hours
    feed(s, rng.poisson([5, 20, 60], (5, 3)).astype(float), P, 500)
    assert np.all(feed(s, np.zeros((8, 3)), P, 505)[-1].zero >= P.zero_nats)


def test_a_pause_is_longer_only_than_those_that_were_usual_lately() -> None:
    """Lines in bursts: a pause of 300 windows after many of two is a silence once; one that was reported is not usual."""
    p = DetectorParameters()
    longest = []
    for frozen in (0.0, 1.0):
        s = np.zeros((len(poisson.COLUMNS), 1))
        now = 0
        for lines in [1.0, *[0.0] * 300, 1.0, *[0.0] * 100, 1.0]:
            now += 10_000
            b = poisson.predict(s, np.array([lines]), now, p)
            s[poisson.FROZEN] = frozen
            poisson.learn(s, np.array([lines]), now, b, p)
        longest.append(float(s[poisson.ZERO_LONGEST, 0]))
    assert longest == pytest.approx([300 * 2 ** (-101 / 2160), 0.0])
