"""Calls between services: from the labels of series to the causes of an incident."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fleet_story import WINDOW, DetectorRun, Row
from support.incident_stories import at, episode_event, play

from models.core.calls import calls_of
from models.core.parameters import DetectorParameters
from models.detection.calls_seen import LEAST_BYTES, share_fairly
from models.detection.detector import ShardDetector
from models.incidents.correlator import Correlator
from models.incidents.parameters import CorrelationParameters
from models.records.records import CALL_BYTES, MOST_CALLS, CallSeen, Watched, bytes_in_list, total
from models.records.schema import plain

GRAPH = "traces_service_graph_request_server_seconds.sum{client=%s,connection_type=,failed=false,server=%s}"


@pytest.mark.parametrize(
    ("metric", "calls"),
    [
        ("traces_service_graph_request_total{client=web,connection_type=,failed=false,server=cart}", [("web", "cart")]),
        (
            "istio_requests_total{destination_app=ratings,destination_canonical_service=ratings,"
            "destination_workload=ratings-v1,reporter=source,response_code=200,source_app=reviews,"
            "source_canonical_service=reviews,source_workload=reviews-v2}",
            [("reviews", "ratings"), ("reviews-v2", "ratings-v1")],
        ),
        ("istio_requests_total{destination_app=ratings,source_app=unknown}", []),
        ("requests{client=web}", []),
        ("requests{client=web,server=}", []),
        ("requests{client=web,server=web}", []),
        ("requests.client=web,server=cart", []),
        ("requests", []),
    ],
)
def test_labels_of_a_metric_tell_who_calls_whom(metric: str, calls: list[tuple[str, str]]) -> None:
    assert calls_of(metric) == calls


@given(st.text(max_size=60))
def test_any_name_has_calls_or_none(text: str) -> None:
    assert all(caller != callee and caller and callee for caller, callee in calls_of(text))
    assert len(calls_of("m{client=" + text)) <= 4


def graph(*calls: tuple[str, str], host: str = "collector") -> dict[str, Row]:
    return {f"counter/{host}//{GRAPH % call}": 1.0 for call in calls}


def seen(run: DetectorRun) -> list[tuple[str, str]]:
    return [(call.client, call.server) for call in run.detector.watched.calls]


def test_a_shard_tells_the_calls_of_its_series_until_their_series_are_forgotten() -> None:
    run = DetectorRun(ShardDetector(DetectorParameters(forget_days=1)))
    run.play([graph(("web", "cart"))])
    assert seen(run) == [("web", "cart")]
    run.play([graph(("cart", "db"), ("a%2Fb", "c"))])
    assert seen(run) == [("a/b", "c"), ("cart", "db"), ("web", "cart")]
    loaded = DetectorRun(ShardDetector.load(run.detector.dump(), DetectorParameters(forget_days=1)), run.now)
    assert seen(loaded) == seen(run)
    for one in (run, loaded):
        one.gap(2 * 86_400_000 // WINDOW)
        one.play([graph(("web", "cart"))])
        assert seen(one) == [("web", "cart")]
        one.gap(2 * 86_400_000 // WINDOW)
        one.play([{"gauge/collector//load": 1.0}])
        assert seen(one) == []


def test_calls_of_a_shard_are_bounded_and_do_not_depend_on_the_order_in_which_they_came() -> None:
    calls = [(f"s{i:04d}" + "\U0001f600" * 100, "s") for i in range(2 * MOST_CALLS)]
    runs = [DetectorRun(ShardDetector(DetectorParameters())) for _ in range(2)]
    runs[0].play([graph(call) for call in calls])
    runs[1].play([graph(*calls[::-1])])
    found = [run.detector.watched.calls for run in runs]
    assert found[0] == found[1] == sorted(found[0])
    size = len(json.dumps([plain(call) for call in found[0]], ensure_ascii=False).encode())
    assert 0 < len(found[0]) <= MOST_CALLS
    assert CALL_BYTES / 2 < size <= 1.1 * CALL_BYTES


@pytest.mark.parametrize("name", ["a%d", "\U0001f600" * 200 + "%d"])
def test_calls_that_one_host_makes_up_do_not_displace_those_of_the_others(name: str) -> None:
    run = DetectorRun(ShardDetector(DetectorParameters()))
    others = [("web", f"s{i:03d}") for i in range(200)]
    made_up = [(name % i, "b") for i in range(3 * MOST_CALLS)]
    run.play([graph(*made_up, host="hostile") | graph(*others)])
    found = seen(run)
    assert set(others) <= set(found)
    assert len(found) <= MOST_CALLS and 0 < len(set(found) & set(made_up)) < len(made_up)


@given(
    st.lists(st.sets(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 40).map(str)), max_size=60), max_size=5),
    st.integers(1, 400),
)
def test_where_calls_do_not_fit_each_host_that_loses_some_has_the_room_of_the_largest(
    named: list[set[tuple[str, str]]], length: int
) -> None:
    by_host = {f"h{i}": {(a * length, b) for a, b in calls} for i, calls in enumerate(named)}
    found = set(share_fairly(by_host))
    everything = set().union(*by_host.values())
    assert found <= everything and found == set(share_fairly(dict(reversed(by_host.items()))))
    size = {call: max(bytes_in_list(CallSeen(*call)), LEAST_BYTES) for call in everything}
    largest = max(size.values(), default=0)
    if found == everything:
        return
    assert CALL_BYTES - largest <= sum(size[call] for call in found) <= CALL_BYTES
    room = {host: sum(size[call] for call in calls & found) for host, calls in by_host.items()}
    short = [room[host] for host, calls in by_host.items() if not calls <= found]
    fair_share = CALL_BYTES / len(by_host)
    assert min(short) > fair_share - 2 * largest, "who loses calls has a fair share of the room"


def watching(*calls: tuple[str, str]) -> Watched:
    return Watched(calls=[CallSeen(*call) for call in calls])


def test_what_shards_tell_of_calls_is_put_together_once_and_in_order() -> None:
    found = total([watching(("web", "cart"), ("web", "db")), watching(("cart", "db"), ("web", "db"))])
    assert found.calls == watching(("cart", "db"), ("web", "cart"), ("web", "db")).calls


STORY = (
    episode_event("gauge/vm-003/web/latency", 5, strength=8.0, delay=10.0),
    episode_event("gauge/vm-003/cart/latency", 5, strength=3.0, delay=10.0),
)


def causes(*calls: tuple[str, str], reload: bool = False) -> list[list[str]]:
    correlator = Correlator(CorrelationParameters())
    found = play(correlator, STORY, 5, watching(*calls))
    if reload:
        correlator = Correlator.load(correlator.dump(), CorrelationParameters())
    found += correlator.step(at(61_000), [])  # as stale
    return [[cause.service for cause in incident.causes] for incident in found]


def test_calls_that_are_known_put_the_callee_before_its_caller() -> None:
    assert causes() == [["web", "cart"]] * 2
    assert causes(("web", "cart")) == [["cart", "web"]] * 2
    assert causes(("web", "cart"), reload=True) == [["cart", "web"]] * 2


def test_an_incident_goes_by_the_calls_of_the_window_of_its_latest_events() -> None:
    correlator = Correlator(CorrelationParameters())
    (opened,) = play(correlator, STORY, 5, watching(("web", "cart")))
    assert opened.causes[0].service == "cart"
    # windows without events may be stepped or not, as batches have it: what is watched in them changes nothing
    correlator.step(at(6), [], watching())
    (closed,) = correlator.step(at(61_000), [])
    assert closed.causes[0].service == "cart"


def test_what_is_measured_of_a_call_is_told_of_who_is_called() -> None:
    of_call = dataclasses.replace(STORY[0], series=f"counter/collector/otel/{GRAPH % ('web', 'cart')}", id="")
    (opened,) = play(Correlator(CorrelationParameters()), (of_call,), 5)
    assert [(cause.host, cause.service) for cause in opened.causes] == [("collector", "cart")]
