"""Models that are off are seen, those that are right are not."""

import numpy as np
import pytest

from models.core.arrays import Floats, Halves
from models.stats import calibration_drift


def blocks(means: Floats, state: Halves | None = None, first: int = 0) -> tuple[list[int], Halves]:
    """After how many blocks each series was off, 0 if never, and the state at the end; `means` are `(blocks, n)`."""
    n = means.shape[1]
    at, state = np.zeros(n, int), calibration_drift.begin(n) if state is None else state
    for number, mean in enumerate(means):
        state = calibration_drift.check(state, mean, np.full(n, float(first + number)))
        at = np.where((at == 0) & calibration_drift.is_off(state), number + 1, at)
    return at.tolist(), state


@pytest.mark.parametrize("observations", [1, 3, 12])
def test_a_model_that_is_right_is_not_off_however_much_its_rows_depend_on_one_another(observations: int) -> None:
    rng = np.random.default_rng(0)
    at, _ = blocks(rng.random((2_000, 200, observations)).mean(axis=2))
    assert sum(a > 0 for a in at) <= 2  # in 46 years of hours


@pytest.mark.parametrize("mean", [0.2, 0.8])
def test_a_model_that_is_off_is_seen_within_hours(mean: float) -> None:
    rng, n = np.random.default_rng(1), 50
    before = rng.random((200, n, 12)).mean(axis=2)
    power = 1 / mean - 1  # the mean of u^power is 1 / (1 + power)
    _, state = blocks(before)
    at, _ = blocks((rng.random((48, n, 12)) ** power).mean(axis=2), state, 200)
    assert min(at) >= 3, "one strange hour is no model that is off"
    assert max(at) <= 8


def test_a_model_that_is_good_again_is_said_to_be_so() -> None:
    rng, n = np.random.default_rng(2), 50
    _, state = blocks(rng.random((100, n, 12)).mean(axis=2) * 0.4)
    assert calibration_drift.is_off(state).all()
    _, state = blocks(rng.random((24, n, 12)).mean(axis=2), state, 100)
    assert not calibration_drift.is_off(state).any()


def test_a_mean_that_is_a_little_off_is_good_enough() -> None:
    rng = np.random.default_rng(3)
    at, _ = blocks(rng.random((1_000, 50, 12)).mean(axis=2) * 0.9)
    assert not any(at)
