"""The elementary functions of compiled code: within the errors that they state, against extended precision and scipy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special
from support.compiled_functions import over

from models.stats import elementary

Floats = np.ndarray
RNG = np.random.default_rng(7)
WIDE = np.concatenate([np.exp(RNG.uniform(-690, 690, 20_000)), RNG.uniform(0.0, 3.0, 20_000)])
CASES: dict[str, tuple[Floats, Callable[[Any], Any], float]] = {
    "exp": (np.concatenate([RNG.uniform(-708, 708, 20_000), RNG.uniform(-1, 1, 20_000)]), np.exp, 1.5),
    "exp2": (np.concatenate([RNG.uniform(-900, 900, 20_000), RNG.uniform(-0.3, 0.3, 20_000)]), np.exp2, 1.5),
    "log": (WIDE, np.log, 1.0),
    "log1p": (WIDE, np.log1p, 1.0),
    "asinh": (np.concatenate([-np.sqrt(WIDE), np.sqrt(WIDE)]), np.arcsinh, 2.0),
}

extended = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant < 63, reason="long doubles are no more precise than doubles here"
)


@extended
@pytest.mark.parametrize("name", CASES)
def test_errors_are_those_stated_in_units_of_the_last_place(name: str) -> None:
    x, exact, most = CASES[name]
    wanted = exact(x.astype(np.longdouble))
    off = np.abs(over(getattr(elementary, name), x) - wanted) / np.spacing(np.abs(wanted.astype(np.float64)))
    assert off.max() <= most


def test_two_sided_surprisals_agree_with_scipy() -> None:
    z = np.concatenate([RNG.uniform(0, 20, 20_000), np.exp(RNG.uniform(-40, 0, 5_000))])
    assert over(elementary.two_sided, z) == pytest.approx(-special.log_ndtr(-z) - np.log(2), rel=1e-14, abs=2e-15)
    small = over(elementary.two_sided, np.array([0.0, 1e-200, 1e-9]))
    assert small == pytest.approx(np.array([0.0, 1e-200, 1e-9]) * np.sqrt(2 / np.pi), rel=1e-8)


def test_powers_agree_with_numpy() -> None:
    y = np.concatenate([[0.0], RNG.uniform(0, 1e4, 5_000)])
    for exponent in (1 / 3, 2.7):
        assert over(elementary.power, y, exponent) == pytest.approx(y**exponent, rel=1e-13)


def test_ends_of_the_range_are_zero_infinite_or_not_a_number() -> None:
    nan, inf = np.nan, np.inf
    assert over(elementary.exp, np.array([-inf, -1e300, -709.0, 0.0, 710.0, inf])).tolist() == [0, 0, 0, 1, inf, inf]
    assert over(elementary.log, np.array([0.0, 1.0])).tolist() == [-inf, 0.0]
    assert over(elementary.log1p, np.array([0.0])).tolist() == [0.0]
    for name in ("exp", "exp2", "log", "log1p", "asinh", "two_sided"):
        assert np.isnan(over(getattr(elementary, name), np.array([nan]))).all(), name
    assert np.isnan(over(elementary.log, np.array([-1.0]))).all()


def test_one_number_at_a_time_has_the_bits_of_many_at_once() -> None:
    for name, (x, _, _) in CASES.items():
        function = getattr(elementary, name)
        together = over(function, x[:999])
        assert together.tolist() == [over(function, x[k : k + 1])[0] for k in range(999)], name
