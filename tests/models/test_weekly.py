"""The weekly rhythm: what is learnt of it, what is news with it, and what it does not take for a rhythm."""

import math

import numpy as np
import pytest

from models.core.arrays import Floats
from models.univariate import weekly
from models.univariate.model import Univariate
from models.univariate.parameters import UnivariateParameters
from models.univariate.univariate_state import UnivariateState

BEGIN = 1_767_571_200_000  # a Monday, midnight
STEP_MS, A_DAY = 3_600_000, 24
THRESHOLD = 6.0


def fleet(seed: int, weeks: int, n: int, weekend: float) -> Floats:
    """Loads with a daily rhythm, `(rows, n)`; at weekends they are `weekend` times as high."""
    rng = np.random.default_rng(seed)
    height, noise = np.exp(rng.normal(3, 0.5, n)), rng.normal(size=n)
    out = np.empty((weeks * 7 * A_DAY, n))
    for row in range(len(out)):
        noise = 0.6 * noise + 0.8 * rng.normal(size=n)
        daily = 0.5 - 0.5 * math.cos(2 * math.pi * (row % A_DAY / A_DAY - 0.1))
        out[row] = (20 + height * daily * (weekend if row // A_DAY % 7 >= 5 else 1.0)) * (1 + 0.05 * noise)
    return out


def day_of(x: Floats, which: int, day: int) -> slice:
    """The rows of a day of a week."""
    first = (7 * which + day) * A_DAY
    return slice(first, first + A_DAY)


def score_rows(model: Univariate, x: Floats, first: int = 0) -> Floats:
    """`base` of every row, `(rows, n)`."""
    n = x.shape[1]
    index, one, none = np.arange(n), np.ones(n, np.int64), np.zeros(n)
    return np.array([
        model.step(BEGIN + STEP_MS * (first + row + 1), index, one, values, none).base for row, values in enumerate(x)
    ])  # fmt: skip


def new(n: int) -> Univariate:
    model = Univariate(UnivariateParameters())
    model.state.grow(n)
    return model


@pytest.mark.slow
def test_a_weekday_like_a_sunday_is_news_and_a_weekend_is_none() -> None:
    n, weeks = 12, 7
    x = fleet(1, weeks, n, weekend=0.4)
    holiday = day_of(x, 6, 2)
    x[holiday] = x[day_of(x, 5, 6)]
    model = new(n)
    base = score_rows(model, x)
    assert np.median(weekly.share(model.state.cold["week_fit"])) > 0.5
    assert np.median(base[holiday].max(axis=0)) > THRESHOLD
    weekends = np.concatenate([base[day_of(x, w, d)] for w in (3, 4, 5) for d in (0, 5, 6)])
    assert (weekends.max(axis=0) > THRESHOLD).sum() <= 1


@pytest.mark.slow
def test_without_a_weekly_rhythm_none_is_believed() -> None:
    model = new(12)
    score_rows(model, fleet(2, 5, 12, weekend=1.0))
    assert np.median(weekly.share(model.state.cold["week_fit"])) == 0.0
    assert weekly.share(model.state.cold["week_fit"]).max() < 0.3


def test_nothing_is_believed_before_a_whole_week_was_foretold() -> None:
    x, model = fleet(3, 3, 4, weekend=0.3), new(4)
    shares = []
    for day in range(21):
        score_rows(model, x[day * A_DAY : (day + 1) * A_DAY], first=day * A_DAY)
        shares.append(float(weekly.share(model.state.cold["week_fit"]).max()))
    assert max(shares[:14]) == 0.0
    assert shares[-1] > 0.3


def test_the_share_is_what_the_weeks_before_explain() -> None:
    fit = np.array([[100.0, 100.0, 100.0, 0.0], [20.0, 120.0, 20.0, 0.0], [70.0, 70.0, 20.0, 0.0]], np.float32)
    assert weekly.share(fit) == pytest.approx([1 - 1.1 * 0.2, 0.0, 0.0, 0.0], rel=1e-6)


def test_an_offset_is_a_line_between_the_middles_of_slots() -> None:
    state = UnivariateState(1)
    state.cold["week"][:, 0] = weekly.to_halves(np.zeros(weekly.SLOTS))
    state.cold["week"][1:3, 0] = weekly.to_halves(np.array([8.0, 16.0]))
    state.cold["week_fit"][:, 0] = [1.0, 0.0, 100.0]
    hours = np.arange(4, 18)
    found = weekly.offsets(state.cold, np.zeros(len(hours), np.int64), hours + 168 * 1000)
    assert found == pytest.approx(np.interp(hours + 0.5, [3.0, 9.0, 15.0, 21.0], [0.0, 8.0, 16.0, 0.0]))


@pytest.mark.slow
def test_one_outage_is_no_rhythm() -> None:
    n = 6
    x = fleet(4, 6, n, weekend=0.4)
    outage = day_of(x, 4, 2)
    x[outage] *= 50
    model = new(n)
    score_rows(model, x[: outage.stop + 7 * A_DAY])
    hour = BEGIN // 3_600_000 + (7 * 4 + 2) * 24 + 12
    offset = weekly.offsets(model.state.cold, np.arange(n), np.full(n, hour))
    assert np.abs(offset).max() < 0.3 * x[outage.start - A_DAY : outage.start].max()


def test_numbers_are_kept_to_eight_bits() -> None:
    values = np.concatenate(
        [np.random.default_rng(5).normal(size=100) * 10.0 ** np.arange(-30, 30, 0.6), [0.0, np.nan]]
    )
    kept = weekly.from_halves(weekly.to_halves(values))
    np.testing.assert_allclose(kept, values, rtol=2**-8)
    assert weekly.from_halves(np.array([weekly.UNSEEN], np.uint16)) != 0  # not a number


def test_a_state_that_was_loaded_goes_on_to_the_bit() -> None:
    x, model = fleet(6, 5, 3, weekend=0.4), new(3)
    cut = 4 * 7 * A_DAY + 17
    score_rows(model, x[:cut])
    assert weekly.share(model.state.cold["week_fit"]).max() > 0
    loaded = Univariate(UnivariateParameters(), UnivariateState.load(model.state.dump()))
    np.testing.assert_array_equal(score_rows(model, x[cut:], first=cut), score_rows(loaded, x[cut:], first=cut))
