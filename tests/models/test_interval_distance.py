"""Distances from expected intervals, by hand and by their invariances."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.numpy_metrics import in_widths_of_many, two_farthest_of_many

from models.stats.interval_distance import BORDER, LARGEST, distance_in_widths, two_farthest


def distance(*numbers: float) -> float:
    return float(in_widths_of_many(*(np.array([number]) for number in numbers))[0])


def test_distance_is_in_widths_of_the_side_it_lies_on() -> None:
    assert distance(30.0, 10.0, 9.0, 15.0) == pytest.approx(4.0)
    assert distance(7.0, 10.0, 9.0, 15.0) == pytest.approx(3.0)
    assert distance(15.0, 10.0, 9.0, 15.0) == pytest.approx(BORDER)
    assert distance(10.0, 10.0, 10.0, 10.0) == 0.0
    assert distance(11.0, 10.0, 10.0, 10.0) == BORDER
    assert distance(1.0, 0.0, -1.0, 1e-300) == LARGEST
    assert math.isnan(distance(math.nan, 10.0, 9.0, 15.0))


@given(st.floats(0.1, 1e6), st.floats(-1e6, 1e6), st.floats(-1e3, 1e3))
def test_distance_does_not_depend_on_the_unit(scale: float, shift: float, value: float) -> None:
    plain = distance(value, 0.0, -2.0, 3.0)
    moved = distance(value * scale + shift, shift, shift - 2.0 * scale, shift + 3.0 * scale)
    assert moved == pytest.approx(plain, rel=1e-3, abs=1e-3)


@given(st.lists(st.floats(0, 1e6), min_size=2))
def test_two_farthest_are_the_first_of_the_sorted_distances(distances: list[float]) -> None:
    farthest = second = np.zeros(1)
    for one in distances:
        farthest, second = two_farthest_of_many(farthest, second, np.array([one]))
    assert [farthest[0], second[0]] == sorted(distances, reverse=True)[:2]
    assert two_farthest_of_many(farthest, second, np.array([math.nan])) == (farthest, second)


NUMBERS = st.floats() | st.sampled_from([0.0, -0.0, 5e-324, 1e-300, 1.0, 1e15, -1e15, 1.7e308, -1.7e308])


@given(st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS))
def test_one_value_has_the_distance_that_it_has_among_many_to_the_bit(numbers: tuple[float, ...]) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        many = np.float64(distance(*numbers))
    assert np.float64(distance_in_widths(*numbers)).tobytes() == many.tobytes() or math.isnan(many)
    for farthest, second in ((0.0, 0.0), (3.0, 1.0), (LARGEST, LARGEST)):
        found = two_farthest(farthest, second, float(many))
        assert found == tuple(
            float(one[0]) for one in two_farthest_of_many(*(np.array([one]) for one in (farthest, second, many)))
        )
