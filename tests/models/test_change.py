"""A change of state or a passing outlier: regimes against least squares, stories with a true answer."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models import change
from models import regression as reg
from models.change import EXPLANATIONS, ChangeParameters, ChangeState

START, STEP = 1_767_571_200_000, 60_000
P = ChangeParameters()


def tell(x: np.ndarray, p: ChangeParameters = P, state: ChangeState | None = None) -> list[tuple[int, str]]:
    """Rows after which changes began, and what they were."""
    s = state or ChangeState(1)
    found = []
    for k, value in enumerate(x):
        v = change.step(s, np.array([START + STEP * k * 1.0]), np.array([value]), p)
        if v.announced[0]:
            found.append((int((v.start[0] - START) // STEP) + 1, EXPLANATIONS[v.what[0]]))
    return found


@settings(max_examples=30)
@given(st.lists(st.floats(-100, 100), min_size=5, max_size=30), st.floats(-5, 5))
def test_a_regime_is_the_regression_of_all_data(values: list[float], slope: float) -> None:
    t = np.arange(len(values), dtype=float)
    x = np.array(values) + slope * t
    r = reg.begin(np.zeros(1), np.zeros(1), np.ones(1), (1e-9, 1.0, 1e-9))
    for time, value in zip(t, x, strict=True):
        reg.learn(r, np.array([time]), np.array([value]))
    place, _, df = reg.predict(r, np.array([float(len(x))]))
    fit = np.polyfit(t, x, 1)
    assert place[0] == pytest.approx(np.polyval(fit, len(x)), rel=1e-4, abs=1e-3)
    assert df[0] == 2 + len(x)


def test_a_new_level_is_announced_once_with_where_it_began() -> None:
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.normal(10, 1, 150), rng.normal(16, 1, 150)])
    found = tell(x)
    assert len(found) == 1
    assert abs(found[0][0] - 150) <= 2
    assert found[0][1] in ("level", "trend")


def test_a_new_trend_is_announced() -> None:
    rng = np.random.default_rng(2)
    x = np.concatenate([rng.normal(10, 1, 150), 10 + 0.5 * np.arange(150) + rng.normal(0, 1, 150)])
    found = tell(x)
    assert found
    assert abs(found[0][0] - 150) <= 25


def test_a_new_spread_is_announced_as_one() -> None:
    rng = np.random.default_rng(3)
    found = tell(np.concatenate([rng.normal(10, 1, 300), rng.normal(10, 6, 300)]))
    assert found
    assert found[0][1] == "spread"
    assert abs(found[0][0] - 300) <= 12


@pytest.mark.parametrize("size", [8.0, 50.0, 1e4])
def test_passing_outliers_are_no_change(size: float) -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(10, 1, 400)
    x[[100, 180, 181, 260]] += size
    assert tell(x) == []


def test_nothing_is_said_of_normal_data() -> None:
    rng = np.random.default_rng(5)
    s, total = ChangeState(200), 0
    for k in range(1000):
        total += change.step(s, np.full(200, START + STEP * k * 1.0), rng.normal(5, 2, 200), P).announced.sum()
    assert total <= 10


def test_dependent_neighbours_are_less_evidence() -> None:
    rng = np.random.default_rng(6)
    s, total = ChangeState(100), 0
    x = np.zeros(100)
    for k in range(600):
        x = 0.9 * x + rng.normal(0, 1, 100)
        total += change.step(s, np.full(100, START + STEP * k * 1.0), x, P).announced.sum()
    assert total <= 60


def test_back_to_the_old_level_is_a_change_of_its_own() -> None:
    rng = np.random.default_rng(7)
    parts = [rng.normal(level, 1, 200) for level in (10, 20, 10)]
    found = tell(np.concatenate(parts))
    assert [abs(row - at) <= 2 for (row, _), at in zip(found, (200, 400), strict=True)] == [True, True]


def test_undecided_until_the_evidence_decides() -> None:
    rng = np.random.default_rng(8)
    x = np.concatenate([rng.normal(10, 1, 200), rng.normal(17, 1, 30)])
    s, said = ChangeState(1), []
    for k, value in enumerate(x):
        v = change.step(s, np.array([START + STEP * k * 1.0]), np.array([value]), P)
        said.append((bool(v.undecided[0]), bool(v.announced[0])))
    first = next(k for k, (_, announced) in enumerate(said) if announced)
    assert first > 202
    assert all(undecided for undecided, _ in said[201:first])


@settings(max_examples=10)
@given(st.integers(0, 1000), st.sampled_from([1e-6, 1e3, 1e9]), st.floats(-5, 5))
def test_unit_and_offset_are_not_seen(seed: int, scale: float, offset: float) -> None:
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.normal(0, 1, 60), rng.normal(5, 1, 60)])
    assert tell(x) == tell(scale * (x + offset))


@settings(max_examples=5)
@given(st.integers(0, 1000), st.integers(1, 199))
def test_dump_and_load_equal_one_pass_to_the_bit(seed: int, cut: int) -> None:
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.normal(0, 1, (100, 3)), rng.normal(4, 1, (100, 3))])
    whole, parts = ChangeState(3), ChangeState(3)
    for k, row in enumerate(x):
        if k == cut:
            parts = ChangeState.load(parts.dump())
        now = np.full(3, START + STEP * k * 1.0)
        one, two = (change.step(s, now, row, P) for s in (whole, parts))
        assert all(np.array_equal(a, b) for a, b in zip(vars(one).values(), vars(two).values(), strict=True))
    assert whole.dump() == parts.dump()


def test_series_do_not_touch() -> None:
    rng = np.random.default_rng(9)
    x = np.concatenate([rng.normal(0, 1, (80, 4)), rng.normal(4, 1, (80, 4))])
    whole, alone = ChangeState(4), ChangeState(1)
    for k, row in enumerate(x):
        now = np.full(4, START + STEP * k * 1.0)
        a, b = change.step(whole, now, row, P), change.step(alone, now[2:3], row[2:3], P)
        assert a.lead[2] == b.lead[0]


def test_parameters_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="clip_nats"):
        ChangeParameters(clip_nats=0)
