"""Predictives against closed forms and scipy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from models.stats import normal_gamma

VALUES = st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=40)


@pytest.mark.parametrize("df", [3.0, 5.0, 12.0, 100.0, 1e4])
def test_surprise_is_the_two_sided_tail_of_students_t_to_four_percent(df: float) -> None:
    tau = np.linspace(0.05, 12, 60)
    exact = -np.log(2 * stats.t.sf(tau, df))
    assert normal_gamma.surprisal(tau, np.full(60, df)) == pytest.approx(exact, rel=0.04, abs=0.02)


def test_surprise_never_underflows_and_is_bounded() -> None:
    found = normal_gamma.surprisal(np.array([0.0, 1e3, 1e9, 1e150]), np.full(4, 1e5))
    assert found[0] == 0
    assert (np.diff(found) >= 0).all()
    assert found[-1] == normal_gamma.MOST_NATS


@given(VALUES)
def test_without_forgetting_the_posterior_is_that_of_all_data(values: list[float]) -> None:
    x = np.array(values)
    mean, sums, weight = np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((1, 1))
    for value in x:
        weight = normal_gamma.learn(mean, sums, weight, np.ones(1), value - mean, 1.0)
    assert mean[0, 0] == pytest.approx(x.mean(), abs=1e-6)
    assert sums[0, 0] == pytest.approx(((x - x.mean()) ** 2).sum(), rel=1e-6, abs=1e-6)
    assert weight[0, 0] == pytest.approx(len(x))


@given(VALUES, st.floats(0.05, 1.0))
def test_forgetting_weighs_by_age(values: list[float], kept: float) -> None:
    x = np.array(values)
    mean, sums, weight = np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((1, 1))
    for value in x:
        weight = normal_gamma.learn(mean, sums, weight, np.full(1, kept), value - mean, 1.0)
    w = kept ** np.arange(len(x))[::-1]
    assert weight[0, 0] == pytest.approx(w.sum())
    assert mean[0, 0] == pytest.approx(np.average(x, weights=w), rel=1e-6, abs=1e-6)
    assert sums[0, 0] == pytest.approx((w * (x - np.average(x, weights=w)) ** 2).sum(), rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("tau", [0.0, 1.0, 4.0, 10.0, 300.0])
def test_weight_is_the_posterior_of_the_mixture(tau: float) -> None:
    df, eps = 7.0, 0.01
    inside, outside = (1 - eps) * stats.t.pdf(tau, df), eps * stats.t.pdf(tau / 10, df) / 10
    found = normal_gamma.regular(np.array([tau]), np.array([df]), eps)
    assert found[0] == pytest.approx(inside / (inside + outside), rel=1e-9)


def test_tails_of_data_from_the_model_are_uniform() -> None:
    rng, n = np.random.default_rng(3), 4000
    mean, sums, weight = np.zeros((1, n)), np.zeros((1, n)), np.zeros((1, n))
    x = rng.normal(size=(21, n)) * rng.gamma(3, 1, n) + rng.normal(size=n) * 50
    for row in x[:-1]:
        weight = normal_gamma.learn(mean, sums, weight, np.ones(n), row - mean, 1.0)
    tau, nu = normal_gamma.distances(x[-1] - mean, weight - 1, sums, (np.zeros((1, n)), np.zeros((1, n))), 1e-9)
    tau *= np.sqrt(1 + 1 / (weight - 1)) / np.sqrt(1 + 1 / weight)
    assert stats.kstest(np.exp(-normal_gamma.surprisal(tau, nu))[0], "uniform").pvalue > 0.01


@pytest.mark.parametrize("df", [4, 8, 20])
def test_quantile_of_students_t_is_the_inverse_of_the_tail(df: int) -> None:
    t = normal_gamma.t_quantile(df, 1e-4)
    assert 2 * stats.t.sf(t, df) == pytest.approx(1e-4)
