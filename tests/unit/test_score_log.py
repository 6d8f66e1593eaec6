"""What is read of the topic `scores`: which part of a range, which records, and how windows become points."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.kafka.score_log import CurvePoint, Question, add, cut, score_of
from app.runtime.score_server import MOST_SECONDS, question_of
from pipelines.errors import InputError

QUESTION = {"version": "live", "series": ["gauge/vm-1//cpu"], "since": 0, "until": 60_000, "focus": 30_000}


@given(st.integers(0, 10_000), st.integers(0, 10_000), st.integers(0, 10_000), st.integers(1, 5_000))
def test_a_cut_is_within_its_range_has_the_focus_and_is_as_long_as_it_may_be(a: int, b: int, c: int, most: int) -> None:
    start, focus, end = sorted((a, b, c))
    first, last = cut(start, focus, end, most=most)
    assert start <= first <= focus <= last <= end or first == last == end
    assert last - first == min(most, end - start)


def test_windows_become_one_point_of_means_and_extremes() -> None:
    point = CurvePoint()
    for at, value, kind in ((10, 1.0, "normal"), (20, 5.0, "anomaly"), (30, None, "warming")):
        point.add({"window_end": at, "value": value, "score": value, "kind": kind, "typical": 2.0})
    assert point.to_json() == {
        "time": 30, "value": 3.0, "least": 1.0, "most": 5.0, "score": 5.0, "kind": "anomaly", "typical": 2.0, "lower": None, "upper": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    "value", [None, b"", b"\xff", b"[" * 100_000, b"[]", b"{}", b'{"window_end": "x"}', b'{"window_end": 1.5}']
)
def test_what_is_no_score_is_none(value: bytes | None) -> None:
    assert score_of(value) is None


def test_scores_of_another_time_are_left_out() -> None:
    points: dict[int, CurvePoint] = {}
    asked = Question(("gauge/vm-1//cpu",), 10, 20, 20)
    for at in (9, 10, 20, 21):
        add(points, {"window_end": at}, asked, 1)
    assert sorted(points) == [10, 20]


def test_a_question_has_bounds() -> None:
    version, found = question_of(json.dumps(QUESTION | {"seconds": 1e9}).encode())
    assert (version, found.seconds) == ("live", MOST_SECONDS)
    many = [f"gauge/vm-{n}//cpu" for n in range(51)]
    for wrong in (
        {"series": many},
        {"focus": 70_000},
        {"since": -1},
        {"until": 1e12},
        {"seconds": "x"},
        {"series": [1]},
        {"version": 1},
    ):
        with pytest.raises(InputError, match="not a question about scores"):
            question_of(json.dumps(QUESTION | wrong).encode())
    for junk in (b"", b"[]", b"\xff", b"[" * 50_000):
        with pytest.raises(InputError, match="not a question about scores"):
            question_of(junk)
