"""Per-series calibration: uniform probabilities, a fitted tail, and what does not count."""

import math

import numpy as np
import pytest
from scipy import integrate, signal, stats

from models.core.arrays import Floats
from models.stats import per_series_calibration

LEAST = 1e-3


def play(answers: Floats, *, an_hour: int = 12) -> tuple[Floats, Floats]:
    """Nats of each row `(rows, n)`, before it is learnt, and the tails at the end; hours have so many rows."""
    n = answers.shape[1]
    (quantiles, tail), counted, least = per_series_calibration.begin(n), np.zeros(n, np.uint8), np.full(n, LEAST)
    events = []
    for row, base in enumerate(answers):
        if row % an_hour == 0:
            counted //= 2
        events.append(per_series_calibration.surprisal(base, quantiles.astype(float), tail.astype(float)))
        quantiles, tail, counted = per_series_calibration.learn(
            quantiles, tail, counted, base, np.full(n, float(row)), least
        )
    return np.array(events), tail.astype(float)


@pytest.mark.slow
def test_scores_are_uniform_whatever_the_scale_of_a_series() -> None:
    answers = np.random.default_rng(0).exponential(1.0, (20_000, 90)) ** 1.1
    nats = play(answers * np.repeat([0.7, 1.0, 1.5], 30))[0][10_000:]
    for of_scale in np.split(nats, 3, axis=1):
        assert stats.kstest(np.exp(-of_scale.ravel()), "uniform").statistic < 0.04
        for chance, least in ((1e-2, 0.5), (1e-3, 0.5), (1e-4, 0.25)):  # a fitted tail is careful far out
            assert least < np.mean(of_scale > -math.log(chance)) / chance < 2, chance


def test_scores_of_dependent_rows_are_uniform_as_well() -> None:
    rng, rows, n = np.random.default_rng(1), 12_000, 60
    z = signal.lfilter([math.sqrt(1 - 0.81)], [1.0, -0.9], rng.normal(size=(rows, n)), axis=0)
    nats = play(-stats.norm.logsf(z))[0][5_000:]
    assert np.median([stats.kstest(np.exp(-column), "uniform").statistic for column in nats.T]) < 0.05
    assert 0.5 < np.mean(nats > -math.log(1e-3)) / 1e-3 < 2


def test_a_series_that_has_learnt_nothing_is_calibrated_by_the_reference_distribution() -> None:
    base = np.array([0.0, 0.1, 1.0, 3.0])
    quantiles, tail = per_series_calibration.begin(len(base))
    assert per_series_calibration.surprisal(base, quantiles.astype(float), tail.astype(float)) == pytest.approx(
        base, rel=1e-6
    )
    (quantiles, tail), far = per_series_calibration.begin(1), np.array([17.0])
    assert (
        10 < per_series_calibration.surprisal(far, quantiles.astype(float), tail.astype(float))[0] < 14
    )  # it is not sure of the tail


@pytest.mark.parametrize(("number", "total"), [(0.0, 0.0), (40.0, 25.0), (40.0, 70.0)])
def test_the_tail_is_the_predictive_of_its_prior(number: float, total: float) -> None:
    excess, a = 3.0, per_series_calibration.PRIOR_EXCESSES
    rates = stats.gamma(a + number, scale=1 / (a / per_series_calibration.PRIOR_RATE + total))
    wanted = integrate.quad(lambda rate: math.exp(-rate * excess) * rates.pdf(rate), 0, 10)[0]
    quantiles = per_series_calibration.begin(1)[0].astype(float)
    found = per_series_calibration.surprisal(quantiles[-1] + excess, quantiles, np.array([[number], [total]]))
    assert math.exp(-found[0]) == pytest.approx(per_series_calibration.CHANCES[-1] * wanted, rel=1e-6)


def test_an_excess_that_is_too_far_out_is_only_known_to_be_so() -> None:
    quantiles, tail = per_series_calibration.begin(2)
    base = quantiles[-1] + np.array([per_series_calibration.STRANGE + 0.1, 50.0])
    tails = per_series_calibration.learn(
        quantiles, tail, np.zeros(2, np.uint8), base, np.full(2, 500.0), np.full(2, LEAST)
    )[1]
    assert tails[0].tolist() == [0.0, 0.0]
    assert tails[1] == pytest.approx([per_series_calibration.STRANGE] * 2)


def test_an_outage_does_not_teach_what_is_normal() -> None:
    rng = np.random.default_rng(2)
    answers = rng.exponential(1.0, (3_000, 10))
    outage = answers.copy()
    outage[2_000:2_144] = 25.0
    (after, _), (usual, _) = play(outage), play(answers)
    assert np.abs(after - usual)[2_300:].mean() < 0.1
    far = np.full((1, 10), 15.0)
    assert (play(np.concatenate([outage, far]))[0][-1] > 7).all()


def test_a_series_with_many_high_scores_has_its_tail_fitted() -> None:
    rng = np.random.default_rng(3)
    usual, higher = rng.exponential(1.0, (5_000, 1)), rng.exponential(2.0, (5_000, 1))
    both = play(np.concatenate([np.concatenate([usual, higher], axis=1), np.full((1, 2), 15.0)]))[0][-1]
    assert both[1] < both[0] - 3


def test_rows_without_an_answer_teach_nothing() -> None:
    quantiles, tail = per_series_calibration.begin(1)
    found = per_series_calibration.learn(
        quantiles, tail, np.zeros(1, np.uint8), np.array([np.nan]), np.array([500.0]), np.array([LEAST])
    )
    np.testing.assert_array_equal(found[0], quantiles)
    np.testing.assert_array_equal(found[1], tail)
    assert found[2].tolist() == [0]


def test_calibration_is_learnt_faster_while_it_has_drifted() -> None:
    answers = np.random.default_rng(4).exponential(1.0, (300, 1))
    quantiles, tail = per_series_calibration.begin(1)
    ends = []
    for least in (LEAST, per_series_calibration.OFF_GAIN):
        at, rest, counted = quantiles, tail, np.zeros(1, np.uint8)
        for row, base in enumerate(0.3 * answers):
            at, rest, counted = per_series_calibration.learn(
                at, rest, counted, base, np.array([20_000.0 + row]), np.array([least])
            )
        ends.append(float(at[4, 0]))
    usual = 0.3 * float(per_series_calibration.NATS[4])
    assert abs(ends[1] - usual) < 0.5 * abs(ends[0] - usual)
