"""Joined scores as probabilities."""

import numpy as np
import pytest
from scipy import stats

from models import calibration


def test_nats_are_those_of_the_law_and_rise_beyond_it() -> None:
    assert calibration.nats(np.array(calibration.LAW)) == pytest.approx(calibration.NATS)
    beyond = calibration.nats(np.linspace(0, 20, 500))
    assert (np.diff(beyond) > 0).all()


def test_what_is_not_known_stays_so() -> None:
    assert np.isnan(calibration.nats(np.array([np.nan, 1.0]))).tolist() == [True, False]


@pytest.mark.parametrize("scale", [0.5, 1.0, 1.5])
def test_the_law_of_a_series_makes_its_answers_uniform(scale: float) -> None:
    rng, n = np.random.default_rng(0), 20
    answers = scale * rng.exponential(1.0, (30_000, n)) ** 1.1
    levels, said = np.repeat(calibration.OWN_NATS[:, None], n, axis=1).astype(np.float32), []
    for row, base in enumerate(answers):
        said.append(calibration.own(base, levels.astype(np.float64)))
        levels = calibration.learn(levels, base, np.full(n, float(row)))
    nats = np.concatenate(said[10_000:])
    assert stats.kstest(np.exp(-nats), "uniform").statistic < 0.04
    for chance in (1e-2, 1e-3, 1e-4):
        assert 0.5 < np.mean(nats > -np.log(chance)) / chance < 2, chance


def test_a_law_that_has_learnt_nothing_is_that_of_normal_data_at_large() -> None:
    base = np.array([0.0, 0.1, 1.0, 3.0, 6.0, 11.0, 30.0])
    levels = np.repeat(calibration.OWN_NATS[:, None], len(base), axis=1)
    assert calibration.own(base, levels) == pytest.approx(base)


def test_an_outage_does_not_teach_what_is_normal() -> None:
    levels = calibration.OWN_NATS[:, None].astype(np.float32)
    for _ in range(1000):
        levels = calibration.learn(levels, np.array([20.0]), np.array([500.0]))
    assert levels[:, 0] == pytest.approx(calibration.OWN_NATS)


def test_a_model_that_is_off_is_seen_within_a_day() -> None:
    rng = np.random.default_rng(1)
    mean = np.full(2, 0.5, np.float32)
    for row in range(288):
        score = np.array([rng.exponential(1.0), 3 * rng.exponential(1.0)])
        mean = calibration.average(mean, score, np.full(2, 2 ** (-1 / 288)), np.full(2, 1000.0 + row))
    assert abs(mean[0] - 0.5) < calibration.OFF / 2
    assert 0.5 - mean[1] > calibration.OFF / 2
