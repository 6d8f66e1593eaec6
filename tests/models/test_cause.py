"""Ranking of causes: small cases whose answer is known."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.incidents.cause import BORDER, LARGEST, Suspect, rank, strength


def strange(service: str, strong: float, onset: float = 0.0, metric: str = "latency", delay: float = 0.0) -> Suspect:
    return Suspect(service, metric, onset, strong, delay)


def services(*suspects: Suspect, calls: tuple[tuple[str, str], ...] = ()) -> list[str]:
    return [cause.service for cause in rank(suspects, calls)]


def test_strength_is_distance_in_widths_of_the_side_it_lies_on() -> None:
    assert strength(30.0, 10.0, 9.0, 15.0) == pytest.approx(4.0)
    assert strength(7.0, 10.0, 9.0, 15.0) == pytest.approx(3.0)
    assert strength(15.0, 10.0, 9.0, 15.0) == pytest.approx(BORDER)
    assert strength(10.0, 10.0, 10.0, 10.0) == 0.0
    assert strength(11.0, 10.0, 10.0, 10.0) == BORDER
    assert strength(1.0, 0.0, -1.0, 1e-300) == LARGEST
    assert strength(math.nan, 10.0, 9.0, 15.0) == BORDER


@given(st.floats(0.1, 1e6), st.floats(-1e6, 1e6), st.floats(-1e3, 1e3))
def test_strength_does_not_depend_on_the_unit(scale: float, shift: float, value: float) -> None:
    plain = strength(value, 0.0, -2.0, 3.0)
    moved = strength(value * scale + shift, shift, shift - 2.0 * scale, shift + 3.0 * scale)
    assert moved == pytest.approx(plain, rel=1e-3, abs=1e-3)


def test_without_calls_the_strongest_is_first() -> None:
    assert services(strange("a", 2.0), strange("b", 5.0), strange("c", 3.0)) == ["b", "c", "a"]


def test_a_callee_comes_before_its_louder_caller() -> None:
    assert services(strange("web", 50.0), strange("db", 2.0), calls=(("web", "db"),)) == ["db", "web"]


def test_a_callee_that_is_not_strange_explains_nothing() -> None:
    calls = (("web", "shop"), ("shop", "db"))
    assert services(strange("web", 9.0), strange("shop", 2.0), calls=calls) == ["shop", "web"]
    # the strange ones are not linked: a healthy one lies between them
    assert services(strange("web", 9.0), strange("db", 2.0), calls=calls) == ["web", "db"]


def test_of_two_callees_the_one_that_explains_more_is_first() -> None:
    suspects = (strange("web", 5.0), strange("shop", 5.0), strange("db", 4.0), strange("mail", 6.0))
    causes = rank(suspects, (("web", "shop"), ("shop", "db"), ("web", "mail")))
    assert [(cause.service, cause.score) for cause in causes] == [
        ("db", 14.0),
        ("mail", 11.0),
        ("shop", 10.0),
        ("web", 5.0),
    ]


def test_services_that_call_each_other_do_not_explain_each_other_away() -> None:
    calls = (("a", "b"), ("b", "a"), ("web", "a"))
    assert services(strange("a", 2.0), strange("b", 3.0), strange("web", 9.0), calls=calls) == ["b", "a", "web"]


def test_of_equals_the_one_that_began_first_is_first_less_what_its_series_is_late() -> None:
    assert services(strange("a", 2.0, onset=20.0), strange("b", 2.0, onset=10.0)) == ["b", "a"]
    assert services(strange("a", 2.0, onset=20.0, delay=15.0), strange("b", 2.0, onset=10.0)) == ["a", "b"]


def test_the_metric_named_is_the_strongest_and_the_sentence_says_why() -> None:
    (first, second) = rank([strange("db", 2.0, metric="cpu"), strange("db", 7.5), strange("web", 3.0)], [("web", "db")])
    assert (first.service, first.metric, first.score) == ("db", "latency", 10.5)
    assert first.why == (
        "latency of db went 7.5 times as far as its interval; of what it calls nothing else is strange, and 1 of its callers are"
    )
    assert second.why.endswith("; it calls db, which is strange too")
    assert rank([]) == []


NAMES = st.sampled_from("abcdef")
SUSPECTS = st.lists(st.builds(strange, NAMES, st.floats(0, 100), st.floats(0, 100)), max_size=12)


@given(SUSPECTS, st.lists(st.tuples(NAMES, NAMES), max_size=12), st.randoms())
def test_order_of_what_is_given_changes_nothing(
    suspects: list[Suspect], calls: list[tuple[str, str]], random: Random
) -> None:
    once = services(*suspects, calls=tuple(calls))
    random.shuffle(suspects)
    random.shuffle(calls)
    assert services(*suspects, calls=tuple(calls)) == once
    assert sorted(once) == sorted({s.service for s in suspects})
