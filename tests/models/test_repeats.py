"""Stuck values: runs of one exact value, against the series' habit."""

import numpy as np

from models.detection import metric_rows as of
from models.detection import repeats


def feed(values: list[float], warm: int = 30) -> np.ndarray:
    """The surprise of the run after each window."""
    s = np.zeros((len(of.COLUMNS), 1))
    found = []
    for k, x in enumerate(values):
        same = np.array([k > 0 and x == values[k - 1]])
        found.append(repeats.step(s, np.array([x]), same, np.array([k < warm]), np.array([10.0]), 21_600))
    return np.array(found)[:, 0]


def test_a_run_is_the_stranger_the_longer_it_is() -> None:
    varied = np.random.default_rng(1).normal(50, 2, 300).round(3).tolist()
    nats = feed(varied + [50.0] * 12 + varied[:5])
    assert nats[:300].max() < 18
    assert (np.diff(nats[300:312]) > 0).all()
    assert nats[311] > 18
    assert nats[312] == 0


def test_a_series_that_repeats_itself_is_never_stuck() -> None:
    steps = np.repeat(np.random.default_rng(2).normal(50, 2, 60), 10).tolist()
    assert feed([*steps, *[7.0] * 30])[100:].max() < 18


def test_an_idle_gauge_is_not_stuck() -> None:
    busy = np.random.default_rng(3).poisson(9, 300).astype(float).tolist()
    assert feed(busy + [0.0] * 60)[300:].max() == 0


def test_what_is_forgiven_is_no_habit() -> None:
    s = np.ones((len(of.COLUMNS), 2))
    repeats.forgive(s, 1)
    assert s[of.REPEAT, 0].sum() == 4
    assert s[of.REPEAT, 1].sum() == 0
