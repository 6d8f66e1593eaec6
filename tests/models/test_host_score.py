"""Hosts: joined scores and shares."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.detection import host_score
from models.detection.host_score import HostParameters

P = HostParameters()
SCORES = st.lists(st.floats(0, 50), min_size=1, max_size=30)


@given(SCORES)
def test_the_joined_score_lies_between_the_largest_and_the_sum(scores: list[float]) -> None:
    x = np.array(scores)
    joined, share = host_score.join_scores(x, np.zeros(len(x), np.int64), 1, P)
    assert x.max() - 1e-9 <= joined[0] <= x.sum() + 1e-9
    too_small_to_tell = 0 < x.max() <= 1e-90
    assert too_small_to_tell or share.sum() == pytest.approx(float(x.any()), abs=1e-6)


@given(SCORES, st.randoms())
def test_the_order_of_series_has_no_effect(scores: list[float], random: object) -> None:
    x = np.array(scores)
    order = np.array(random.sample(range(len(x)), len(x)))  # type: ignore[attr-defined]
    zero = np.zeros(len(x), np.int64)
    assert host_score.join_scores(x, zero, 1, P)[0] == host_score.join_scores(x[order], zero, 1, P)[0]


def test_hosts_do_not_touch_and_the_unknown_has_no_share() -> None:
    joined, share = host_score.join_scores(np.array([3.0, np.nan, 4.0, np.nan]), np.array([0, 0, 1, 2]), 4, P)
    assert joined[:2] == pytest.approx([3.0, 4.0])
    assert np.isnan(joined[2:]).all()
    assert share[[0, 2]] == pytest.approx([1.0, 1.0])
    assert np.isnan(share[[1, 3]]).all()


def test_twins_are_not_evidence_twice() -> None:
    one, _ = host_score.join_scores(np.array([6.0]), np.zeros(1, np.int64), 1, P)
    two, _ = host_score.join_scores(np.array([6.0, 6.0]), np.zeros(2, np.int64), 1, P)
    assert two[0] < 1.3 * one[0]


def test_the_hold_fades_by_its_half_life() -> None:
    p = HostParameters(hold_minutes=30)
    found = host_score.hold_scores(np.array([8.0, np.nan, 8.0]), np.array([1.0, 2.0, np.nan]), np.full(3, 1800.0), p)
    assert found == pytest.approx([4.0, 2.0, 4.0])
