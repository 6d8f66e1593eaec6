"""The law of a series' own answers: uniform probabilities, a fitted tail, and what does not count."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from models.core.arrays import Floats
from models.stats import per_series_calibration

LEAST = 1e-3


def tell(answers: Floats, *, an_hour: int = 12) -> tuple[Floats, Floats]:
    """Nats of each row `(rows, n)`, before it is learnt, and the tails at the end; hours have so many rows."""
    n = answers.shape[1]
    (levels, tail), counted, least = per_series_calibration.begin(n), np.zeros(n, np.uint8), np.full(n, LEAST)
    said = []
    for row, base in enumerate(answers):
        if row % an_hour == 0:
            counted //= 2
        said.append(per_series_calibration.surprisal(base, levels.astype(float), tail.astype(float)))
        levels, tail, counted = per_series_calibration.learn(levels, tail, counted, base, np.full(n, float(row)), least)
    return np.array(said), tail.astype(float)


@pytest.mark.parametrize("scale", [0.7, 1.0, 1.5])
def test_the_law_of_a_series_makes_its_answers_uniform(scale: float) -> None:
    answers = scale * np.random.default_rng(0).exponential(1.0, (30_000, 20)) ** 1.1
    nats = tell(answers)[0][10_000:].ravel()
    assert stats.kstest(np.exp(-nats), "uniform").statistic < 0.04
    for chance in (1e-2, 1e-3, 1e-4):
        assert 0.5 < np.mean(nats > -math.log(chance)) / chance < 2, chance


def test_answers_that_depend_on_their_neighbours_are_uniform_as_well() -> None:
    rng, rows, n = np.random.default_rng(1), 15_000, 60
    z, out = rng.normal(size=n), np.empty((rows, n))
    for row in range(rows):
        z = 0.9 * z + math.sqrt(1 - 0.81) * rng.normal(size=n)
        out[row] = -stats.norm.logsf(z)
    nats = tell(out)[0][5_000:]
    assert np.median([stats.kstest(np.exp(-column), "uniform").statistic for column in nats.T]) < 0.05
    assert 0.5 < np.mean(nats > -math.log(1e-3)) / 1e-3 < 2


def test_a_law_that_has_learnt_nothing_is_nearly_that_of_normal_data_at_large() -> None:
    base = np.array([0.0, 0.1, 1.0, 3.0])
    levels, tail = per_series_calibration.begin(len(base))
    assert per_series_calibration.surprisal(base, levels.astype(float), tail.astype(float)) == pytest.approx(
        base, rel=1e-6
    )
    (levels, tail), far = per_series_calibration.begin(1), np.array([17.0])
    assert (
        10 < per_series_calibration.surprisal(far, levels.astype(float), tail.astype(float))[0] < 14
    )  # it is not sure of the tail


@pytest.mark.parametrize(("number", "total"), [(0.0, 0.0), (40.0, 25.0), (40.0, 70.0)])
def test_the_tail_is_the_predictive_of_its_prior(number: float, total: float) -> None:
    excess, a = 3.0, per_series_calibration.PRIOR_EXCESSES
    law = stats.gamma(a + number, scale=1 / (a / per_series_calibration.PRIOR_RATE + total))
    wanted = integrate.quad(lambda rate: math.exp(-rate * excess) * law.pdf(rate), 0, 10)[0]
    levels = per_series_calibration.begin(1)[0].astype(float)
    found = per_series_calibration.surprisal(levels[-1] + excess, levels, np.array([[number], [total]]))
    assert math.exp(-found[0]) == pytest.approx(per_series_calibration.CHANCES[-1] * wanted, rel=1e-6)


def test_an_excess_that_is_too_far_out_is_only_known_to_be_so() -> None:
    levels, tail = per_series_calibration.begin(2)
    base = levels[-1] + np.array([per_series_calibration.STRANGE + 0.1, 50.0])
    tails = per_series_calibration.learn(
        levels, tail, np.zeros(2, np.uint8), base, np.full(2, 500.0), np.full(2, LEAST)
    )[1]
    assert tails[0].tolist() == [0.0, 0.0]
    assert tails[1] == pytest.approx([per_series_calibration.STRANGE] * 2)


def test_an_outage_does_not_teach_what_is_normal() -> None:
    rng = np.random.default_rng(2)
    answers = rng.exponential(1.0, (3_000, 10))
    outage = answers.copy()
    outage[2_000:2_144] = 25.0
    (after, _), (usual, _) = tell(outage), tell(answers)
    assert np.abs(after - usual)[2_300:].mean() < 0.1
    far = np.full((1, 10), 15.0)
    assert (tell(np.concatenate([outage, far]))[0][-1] > 7).all()


def test_a_talkative_series_is_weighed_by_its_own_tail() -> None:
    rng = np.random.default_rng(3)
    calm, loud = rng.exponential(1.0, (5_000, 1)), rng.exponential(2.0, (5_000, 1))
    both = tell(np.concatenate([np.concatenate([calm, loud], axis=1), np.full((1, 2), 15.0)]))[0][-1]
    assert both[1] < both[0] - 3


def test_rows_without_an_answer_teach_nothing() -> None:
    levels, tail = per_series_calibration.begin(1)
    found = per_series_calibration.learn(
        levels, tail, np.zeros(1, np.uint8), np.array([np.nan]), np.array([500.0]), np.array([LEAST])
    )
    np.testing.assert_array_equal(found[0], levels)
    np.testing.assert_array_equal(found[1], tail)
    assert found[2].tolist() == [0]


def test_the_law_of_a_model_that_is_off_is_learnt_anew() -> None:
    answers = np.random.default_rng(4).exponential(1.0, (300, 1))
    levels, tail = per_series_calibration.begin(1)
    ends = []
    for least in (LEAST, per_series_calibration.OFF_GAIN):
        at, rest, counted = levels, tail, np.zeros(1, np.uint8)
        for row, base in enumerate(0.3 * answers):
            at, rest, counted = per_series_calibration.learn(
                at, rest, counted, base, np.array([20_000.0 + row]), np.array([least])
            )
        ends.append(float(at[4, 0]))
    usual = 0.3 * float(per_series_calibration.NATS[4])
    assert abs(ends[1] - usual) < 0.5 * abs(ends[0] - usual)
