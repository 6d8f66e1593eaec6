"""Parts of the gauge detector: rates of counters, runs of repeated values, columns of single precision."""

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from models.core.store import SeriesTable
from models.detection import compiled_metrics as step
from models.detection import gauge_columns as col
from models.detection.gauge_detector import LONGER
from models.detection.gauge_episodes import forget_repeats

HALF_LIVES = 21_600.0, 604_800.0  # of the run lengths, and of the longest run, seconds


@numba.njit(error_model="numpy")  # type: ignore[untyped-decorator]
def repeats(s: np.ndarray, x: float, same: bool, warming: bool, seconds: float) -> float:
    """The surprise of the run of the first series of a table, which is learnt."""
    left = step.share_left(seconds, HALF_LIVES[0]), step.share_left(seconds, HALF_LIVES[1])
    surprise: float = step.score_repeats(s, 0, x, same, warming, seconds, left, LONGER)
    return surprise


@numba.njit(error_model="numpy")  # type: ignore[untyped-decorator]
def rates(last: np.ndarray, previous: np.ndarray, seconds: float) -> np.ndarray:
    """The rates of several counters."""
    found = np.empty(len(last))
    for j in range(len(last)):
        found[j] = step.rate(last[j], previous[j], seconds)
    return found


def feed(values: list[float], warm: int = 30) -> np.ndarray:
    """The surprise of the run after each window."""
    s = np.zeros((len(col.COLUMNS), 1))
    found = []
    for k, x in enumerate(values):
        found.append(repeats(s, x, k > 0 and x == values[k - 1], k < warm, 10.0))
    return np.array(found)


@given(st.lists(st.floats(0.01, 1e6), min_size=2, max_size=20), st.floats(1, 1e4))
def test_rates_times_seconds_sum_up_to_the_growth_of_the_counter(steps: list[float], seconds: float) -> None:
    totals = 1e3 + np.cumsum(steps)
    found = rates(totals[1:], totals[:-1], seconds)
    assert np.isclose((found * seconds).sum(), totals[-1] - totals[0], rtol=1e-9)


def test_a_reset_and_a_first_row_have_no_rate_and_the_row_after_has_one() -> None:
    found = rates(np.array([5.0, 100.0, 25.0]), np.array([100.0, np.nan, 5.0]), 10.0)
    assert np.isnan(found[:2]).all()
    assert found[2] == 2.0


def test_a_longer_run_of_one_value_is_more_surprising() -> None:
    varied = np.random.default_rng(1).normal(50, 2, 300).round(3).tolist()
    nats = feed(varied + [50.0] * 12 + varied[:5])
    assert nats[:300].max() < 18
    assert (np.diff(nats[300:312]) > 0).all()
    assert nats[311] > 18
    assert nats[312] == 0


def test_a_series_that_repeats_itself_is_never_stuck() -> None:
    steps = np.repeat(np.random.default_rng(2).normal(50, 2, 60), 10).tolist()
    assert feed([*steps, *[7.0] * 30])[100:].max() < 18


def test_the_lengths_of_runs_before_tell_their_mean_and_not_that_all_are_alike() -> None:
    """Beta-geometric: the product of its conditional probabilities, after a series in which one window in four repeats a value."""
    rng = np.random.default_rng(6)
    values = rng.integers(1, 5, 2000).astype(float).tolist()
    nats = feed([*values, *[9.0] * 60])[2000:]
    beta = step.STAY_BETA
    alpha = (beta - 1) * 0.25 / 0.75  # of which the mean is that of the geometric distribution
    wanted = -np.log(stats.betabinom.pmf(20, 20, alpha, beta))
    assert nats[21] - nats[1] == pytest.approx(wanted, rel=0.1)
    assert nats[21] < 18 < -20 * np.log(0.25)


def test_a_run_is_stuck_once_it_is_twice_as_long_as_any_before() -> None:
    """Small counts at night: runs of about a dozen windows among values that hardly ever repeat."""
    rng = np.random.default_rng(4)
    busy, night = rng.normal(50, 2, 2000).tolist(), np.repeat(rng.normal(5, 1, 12), rng.integers(9, 13, 12)).tolist()
    assert feed([*busy[:1000], *night])[1000:].max() > 18
    later = feed([*busy[:1000], *night, *busy[1000:], *night, *busy[:20], *[7.0] * 300])
    assert later[-len(night) - 320 : -320].max() == 0
    assert later[-1] > 18


def test_the_longest_run_fades() -> None:
    run, noise = [50.0] * 30, np.random.default_rng(5).normal(50, 2, 300).tolist()
    s = np.zeros((len(col.COLUMNS), 1))

    def last(values: list[float], seconds: float) -> float:
        found = 0.0
        for before, x in zip([np.nan, *values], values, strict=False):
            found = repeats(s, x, x == before, False, seconds)
        return found

    assert last([*noise, *run], 10.0) > 18
    assert last([*noise, *run], 10.0) == 0
    last([1.0, 2.0], 14 * 86_400.0)
    assert last([*noise, *run], 10.0) > 18


def test_an_idle_gauge_is_not_stuck_where_another_value_would_be() -> None:
    busy = np.random.default_rng(3).poisson(9, 300).astype(float).tolist()
    assert feed(busy + [0.0] * 60)[300:].max() == 0
    assert feed(busy + [9.0] * 60)[300:].max() > 18


def test_only_the_chosen_series_forgets_its_repeats() -> None:
    s = np.ones((len(col.COLUMNS), 2))
    forget_repeats(s, 1)
    assert s[col.REPEAT, 0].sum() == 4
    assert s[col.REPEAT, 1].sum() == 0


def test_what_is_rounded_off_is_dumped_to_the_bit() -> None:
    table = SeriesTable(col.COLUMNS, kinds=tuple(col.COLUMN_TYPES.values()))
    rng = np.random.default_rng(0)
    for name in "abc":
        table.add(name)
    table.matrix[:] = rng.gamma(2, 1000, table.matrix.shape)
    table.matrix[col.HOST_WINDOW] = [0, 7, 2**31]
    table.matrix[col.SEEN] = 1_767_571_200_000 + np.arange(3)
    table.matrix[col.SINGLE] = table.matrix[col.SINGLE].astype(np.float32)
    loaded = SeriesTable(col.COLUMNS, kinds=tuple(col.COLUMN_TYPES.values()))
    loaded.load(table.names, table.dump())
    assert (loaded.matrix == table.matrix).all()
    assert loaded.dump() == table.dump()


def test_times_and_totals_keep_every_bit() -> None:
    s = np.full((len(col.COLUMNS), 1), 1_767_571_200_001.0)
    s[col.SINGLE] = s[col.SINGLE].astype(np.float32)
    kept = {name for name, value in zip(col.COLUMNS, s[:, 0], strict=True) if value == 1_767_571_200_001}
    assert kept == {"seen", "total", "host_window"}
