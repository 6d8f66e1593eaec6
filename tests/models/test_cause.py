"""Ranking of causes: small cases whose answer is known."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.incident_stories import CPU, episode_event, incidents_of

from models.incidents.cause import Suspect, find_reachable, rank_services


def strange(service: str, strong: float, onset: float = 0.0, metric: str = "latency", delay: float = 0.0) -> Suspect:
    return Suspect("vm-1", service, metric, onset, strong, delay)


def services(*suspects: Suspect, calls: tuple[tuple[str, str], ...] = ()) -> list[str]:
    return [cause.service for cause in rank_services(suspects, calls)]


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
    causes = rank_services(suspects, (("web", "shop"), ("shop", "db"), ("web", "mail")))
    assert [(cause.service, cause.score) for cause in causes] == [
        ("db", 14.0),
        ("mail", 11.0),
        ("shop", 10.0),
        ("web", 5.0),
    ]


def test_services_that_call_each_other_do_not_explain_each_other_away() -> None:
    calls = (("a", "b"), ("b", "a"), ("web", "a"))
    assert services(strange("a", 2.0), strange("b", 3.0), strange("web", 9.0), calls=calls) == ["b", "a", "web"]


def test_a_callee_explains_only_what_began_with_it() -> None:
    calls = (("web", "db"),)
    for apart, first in ((10.0, "db"), (11.0, "web")):
        suspects = strange("web", 5.0, onset=100.0 + apart, delay=10.0), strange("db", 2.0, onset=100.0, delay=5.0)
        assert services(*suspects, calls=calls)[0] == first
    # one of its metrics did, though its strongest has been strange for long
    assert services(*suspects, strange("db", 1.5, 111.0, "errors"), calls=calls)[0] == "db"


def test_a_host_counts_as_a_service_of_its_own() -> None:
    suspects = Suspect("vm-1", "", "cpu", 0.0, 9.0), Suspect("vm-1", "web", "latency", 0.0, 3.0)
    assert [(c.host, c.service, c.metric) for c in rank_services(suspects)] == [
        ("vm-1", "", "cpu"),
        ("vm-1", "web", "latency"),
    ]


def test_of_equals_the_one_that_began_first_is_first_less_what_its_series_is_late() -> None:
    assert services(strange("a", 2.0, onset=20.0), strange("b", 2.0, onset=10.0)) == ["b", "a"]
    assert services(strange("a", 2.0, onset=20.0, delay=15.0), strange("b", 2.0, onset=10.0)) == ["a", "b"]


def test_the_metric_named_is_the_strongest_and_the_sentence_says_why() -> None:
    (first, second) = rank_services(
        [strange("db", 2.0, metric="cpu"), strange("db", 7.5), strange("web", 3.0)], [("web", "db")]
    )
    assert (first.service, first.metric, first.score) == ("db", "latency", 10.5)
    assert first.why == (
        "latency of db went 7.5 times as far from its usual value as it normally does; "
        "of what it calls nothing else is strange, and 1 of its callers is"
    )
    assert second.why.endswith("; it calls db, which is strange too")
    assert rank_services([]) == []


def test_of_services_that_call_each_other_none_is_said_to_call_nothing_strange() -> None:
    first, second, caller = rank_services(
        [strange("a", 2.0), strange("b", 3.0), strange("web", 9.0)], [("a", "b"), ("b", "a"), ("web", "a")]
    )
    assert first.why.endswith("; it and a, which is strange too, call each other")
    assert second.why.endswith("; it and b, which is strange too, call each other")
    assert caller.why.endswith("; it calls a, which is strange too")


NAMES = st.sampled_from("abcdef")
SUSPECTS = st.lists(st.builds(strange, NAMES, st.floats(0, 100), st.floats(0, 100)), max_size=12)


@given(SUSPECTS, st.lists(st.tuples(NAMES, NAMES), max_size=12), st.randoms())
def test_order_of_what_is_given_changes_nothing(
    suspects: list[Suspect], calls: list[tuple[str, str]], random: Random
) -> None:
    suspects = [replace(one, series=f"template/vm-1/{one.service}/error/{i}") for i, one in enumerate(suspects)]
    once = rank_services(suspects, calls)
    random.shuffle(suspects)
    random.shuffle(calls)
    assert rank_services(suspects, calls) == once
    assert sorted(cause.service for cause in once) == sorted({s.service for s in suspects})


def test_an_incident_says_who_is_likely_the_cause_and_whence_it_knows() -> None:
    story = (
        episode_event(CPU, 5, strength=3.0, delay=10.0),
        episode_event("gauge/vm-003/shop/latency", 5, strength=8.0, delay=10.0),
        episode_event("gauge/vm-003/shop/errors", 6, strength=2.0, delay=10.0),
        episode_event("logs/vm-003/shop/error", 6, kind="silence"),
    )
    opened, *_, closed = incidents_of(story)
    assert [(c.service, c.metric) for c in opened.causes] == [("shop", "latency"), ("web", "system.cpu.utilization")]
    first = closed.causes[0]
    assert (first.kind, first.host, first.series, first.score) == (
        "episode",
        "vm-003",
        "gauge/vm-003/shop/latency",
        8.0,
    )
    assert first.onset == story[1].start
    assert first.why == "latency of shop went 8.0 times as far from its usual value as it normally does"


def test_another_likely_cause_is_published_as_when_a_spike_was_one_of_a_window() -> None:
    story = (
        episode_event(CPU, 5, strength=50.0),
        episode_event("gauge/vm-003/shop/latency", 5, strength=8.0),
        episode_event(CPU, 6, status="update", start=5, strength=0.5),
    )
    assert [(i.status, i.causes[0].service) for i in incidents_of(story)] == [("open", "web"), ("update", "shop")]


def test_what_has_no_measure_counts_as_the_border_and_is_told_by_its_kind() -> None:
    (opened, *_) = incidents_of((episode_event("host/vm-003", 5, kind="silence", part="silence"),))
    (cause,) = opened.causes
    assert (cause.host, cause.score, cause.why) == ("vm-003", 1.0, "host vm-003 is silent")


@pytest.mark.parametrize(
    ("series", "kind", "why"),
    [
        ("logs/vm-003/web/error", "silence", "error lines of web are missing"),
        ("template/vm-003//info/0123456789abcdef", "silence", "info lines of a template of vm-003 are missing"),
        ("template/vm-003/web/info/0123456789abcdef", "new", "info lines of a template of web are new"),
        ("logs/vm-003//", "silence", "the log of vm-003 is silent"),
    ],
)
def test_lines_that_are_missing_or_new_are_called_so_as_a_cause(series: str, kind: str, why: str) -> None:
    (opened, *_) = incidents_of((episode_event(series, 5, kind=kind, part="silence"),))
    assert opened.causes[0].why == why


@pytest.mark.parametrize(("kind", "word"), [("silence", "missing"), ("new", "new")])
def test_a_metric_that_is_missing_or_new_is_called_so_as_a_cause(kind: str, word: str) -> None:
    (opened, *_) = incidents_of((episode_event("gauge/vm-003/web/cpu", 5, kind=kind),))
    assert opened.causes[0].why == f"cpu of web is {word}"


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=20))
def test_what_calls_lead_to_is_what_steps_lead_to(calls: list[tuple[int, int]]) -> None:
    steps = np.eye(8, dtype=bool)
    for caller, callee in calls:
        steps[caller, callee] = True
    wanted = np.linalg.matrix_power(steps.astype(int), 8) > 0
    assert np.array_equal(find_reachable(8, calls), wanted)


def test_a_long_chain_of_services_that_a_sender_makes_up_is_ranked_in_little_time() -> None:
    chain = [f"s{i:03}" for i in range(500)]
    began = time.process_time()
    found = rank_services([strange(name, 2.0) for name in chain], pairwise(chain))
    assert time.process_time() - began < 0.1, "it took 0.21 s, twice in each window"
    assert (found[0].service, found[0].score) == ("s499", 1000.0)
