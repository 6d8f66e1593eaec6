"""Gauges: the conjugate updates against closed forms, a scalar twin, and data from the model."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from models import normal_gamma as gauge
from models.parameters import Parameters

P = Parameters()
FOR_EVER = Parameters(level_half_life_hours=1e12, spread_half_life_hours=1e12, warm_up_minutes=1e9)
START = 1_767_571_200_000
VALUES = st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=40)


def fresh(n: int) -> np.ndarray:
    s = np.zeros((len(gauge.COLUMNS), n))
    s[gauge.SEEN] = START
    return s


def feed(s: np.ndarray, rows: np.ndarray, p: Parameters, begin: int = 0) -> list[gauge.Belief]:
    """Windows of values, `(windows, n)`; answers what was believed before each was learnt."""
    beliefs = []
    for k, x in enumerate(rows, begin + 1):
        now = START + 10_000 * k
        if k == 1:
            gauge.begin(s, x, np.ones(len(x), dtype=bool))
        beliefs.append(gauge.believe(s, x, now, p))
        gauge.learn(s, x, now, beliefs[-1], p)
    return beliefs


@given(VALUES)
def test_without_forgetting_the_posterior_is_that_of_all_data(values: list[float]) -> None:
    s, x = fresh(1), np.array(values)
    feed(s, x[:, None], FOR_EVER)
    assert s[gauge.LEVEL, 0] == pytest.approx(x.mean(), abs=1e-6)
    assert s[gauge.SPREAD_SUM, 0] == pytest.approx(((x - x.mean()) ** 2).sum(), rel=1e-6, abs=1e-6)
    assert s[gauge.WEIGHT, 0] == pytest.approx(len(x))
    assert s[gauge.SPREAD_WEIGHT, 0] == pytest.approx(len(x))


@given(VALUES)
def test_with_forgetting_the_level_is_the_discounted_mean(values: list[float]) -> None:
    s, x = fresh(1), np.array(values)
    feed(s, x[:, None], Parameters(warm_up_minutes=1e9, level_half_life_hours=100 / 3600))
    weights = 0.5 ** (np.arange(len(x))[::-1] / 10)
    assert s[gauge.LEVEL, 0] == pytest.approx(np.average(x, weights=weights), abs=1e-6)
    assert s[gauge.WEIGHT, 0] == pytest.approx(weights.sum())


def test_forgetting_goes_by_time_not_by_windows() -> None:
    s = fresh(1)
    feed(s, np.full((10, 1), 5.0), P)
    before = s[gauge.WEIGHT, 0]
    now = int(s[gauge.SEEN, 0]) + 1_800_000
    x = np.array([5.0])
    gauge.learn(s, x, now, gauge.believe(s, x, now, P), P)
    assert s[gauge.WEIGHT, 0] == pytest.approx(before / 2 + 1)


def test_the_predictive_is_the_student_t_of_the_posterior() -> None:
    """Few windows: no cap yet. 2 alpha = n + 2 with two windows at the floor as prior."""
    rng = np.random.default_rng(1)
    values = rng.normal(50, 4, 5)
    s = fresh(1)
    feed(s, values[:, None], FOR_EVER)
    x = np.array([60.0])
    b = gauge.believe(s, x, START + 60_000, FOR_EVER)
    prior = 2 * (0.01 * values.mean()) ** 2 + 2 * 0.25 * s[gauge.QUANTUM, 0] ** 2
    df = 5 + 2
    scale = math.sqrt((((values - values.mean()) ** 2).sum() + prior) / df * (1 + 1 / 5))
    regular = 2 * stats.t.sf((60 - values.mean()) / scale, df)
    eps = 0.5 / 505
    wide = 2 * stats.t.sf((60 - values.mean()) / scale / 10, 4)
    assert b.value_nats[0] == pytest.approx(-math.log((1 - eps) * regular + eps * wide), rel=1e-3)


def twin(values: np.ndarray, p: Parameters) -> tuple[float, float, float]:
    """The update of level and spread for one series in plain arithmetic: level, weight, spread."""
    level, weight, spread_weight, spread, outliers, quantum = values[0], 0.0, 0.0, 0.0, 0.0, 0.0
    last = values[0]
    for k, x in enumerate(values):
        floor = (p.relative_floor * level) ** 2 + 1e-24 + 0.25 * max(quantum, 0) ** 2
        df = spread_weight + 2
        variance = max((spread + 2 * floor) / df, floor) * (1 + 1 / max(weight, 1e-9))
        big = max(df, 8)
        scale = math.sqrt(variance) * math.sqrt(big / (big - 2) * 6 / 8)
        eps = (0.5 + outliers) / (500 + spread_weight + outliers)
        t = abs(x - level) / scale
        wide = eps * stats.t.pdf(t / 10, 4) / 10
        regular = (1 - eps) * stats.t.pdf(t, 8)
        warming = k < p.windows(minutes=p.warm_up_minutes)
        w = 1.0 if warming else regular / (regular + wide)
        seconds = 10.0
        kept = weight * 0.5 ** (seconds / 3600 / p.level_half_life_hours)
        fade = 0.5 ** (seconds / 3600 / p.spread_half_life_hours)
        outliers = outliers * fade + (0.0 if warming else 1 - w)
        spread_weight = spread_weight * fade + w
        spread = spread * fade + w * kept / (kept + w) * (x - level) ** 2
        level, weight = level + w / (kept + w) * (x - level), kept + w
        if k and x != last:
            step = abs(x - last)
            quantum = -step if quantum == 0 else min(abs(quantum), step)
        last = x
    return level, weight, spread


def test_vectors_agree_with_a_scalar_twin() -> None:
    rng = np.random.default_rng(2)
    values = rng.normal(20, 3, 260)
    values[[200, 230]] += 90
    s = fresh(1)
    feed(s, values[:, None], P)
    level, weight, spread = twin(values, P)
    assert s[gauge.LEVEL, 0] == pytest.approx(level, rel=1e-9)
    assert s[gauge.WEIGHT, 0] == pytest.approx(weight, rel=1e-9)
    assert s[gauge.SPREAD_SUM, 0] == pytest.approx(spread, rel=1e-9)


def test_scoring_changes_no_state() -> None:
    s = fresh(3)
    feed(s, np.random.default_rng(3).normal(10, 1, (20, 3)), P)
    before = s.copy()
    gauge.believe(s, np.array([0.0, 10.0, 1e6]), START + 10_000_000, P)
    assert np.array_equal(s, before)


def test_p_values_are_uniform_in_the_body_and_conservative_in_the_tail() -> None:
    rng = np.random.default_rng(4)
    n = 400
    spread = rng.uniform(3, 9, n)
    rows = rng.uniform(20, 100, n) + spread * rng.normal(size=(500, n))
    beliefs = feed(fresh(n), rows, P)[360::10]
    for nats in ("value_nats", "level_nats"):
        p = np.exp(-np.concatenate([getattr(b, nats) for b in beliefs]))
        for q in (0.9, 0.5, 0.2, 0.1):
            assert (p < q).mean() == pytest.approx(q, rel=0.25)
        assert (p < 0.001).mean() < 0.001


def test_an_outlier_is_hardly_learnt() -> None:
    s = fresh(1)
    feed(s, np.random.default_rng(5).normal(50, 2, (300, 1)), P)
    level, spread = s[gauge.LEVEL, 0], s[gauge.SPREAD_SUM, 0] / s[gauge.SPREAD_WEIGHT, 0]
    feed(s, np.full((1, 1), 150.0), P, begin=300)
    assert abs(s[gauge.LEVEL, 0] - level) < 0.05
    assert s[gauge.SPREAD_SUM, 0] / s[gauge.SPREAD_WEIGHT, 0] == pytest.approx(spread, rel=0.05)


def test_one_wild_window_does_not_carry_the_fast_mean_over_the_threshold() -> None:
    s = fresh(1)
    feed(s, np.random.default_rng(6).normal(50, 2, (400, 1)), P)
    b = feed(s, np.full((1, 1), 5000.0), P, begin=400)[0]
    assert b.level_nats[0] < P.level_nats


def test_first_change_of_a_constant_is_as_rare_as_changes_have_been() -> None:
    s = fresh(1)
    feed(s, np.zeros((400, 1)), P)
    b = feed(s, np.full((1, 1), 0.1), P, begin=400)[0]
    assert b.value_nats[0] == pytest.approx(math.log(401 / 0.5))


def test_quantum_is_the_least_step_after_the_first_change() -> None:
    s = fresh(1)
    feed(s, np.array([[16.0], [16.0], [8.0]]), P)
    assert s[gauge.QUANTUM, 0] == -8
    feed(s, np.array([[8.0], [10.0]]), P, begin=3)
    assert s[gauge.QUANTUM, 0] == 2


def test_lower_bound_is_not_negative_where_the_series_never_was() -> None:
    assert gauge.above(np.array([-3.0, -3.0]), np.array([0.0, -1.0])).tolist() == [0.0, -3.0]
