"""Machines that live for an hour: their ends and beginnings are no news after a while, and all else still is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime

import numpy as np
import pytest
from support.fleet_story import START, windows

from models.core.parameters import DetectorParameters
from models.detection.controlled_parameters import ControlledParameters
from models.detection.detector import ShardDetector
from models.incidents.correlator import Correlator
from models.incidents.parameters import CorrelationParameters
from models.records.records import USUAL_END, EpisodeEvent, IncidentEvent, Watched
from models.rules.rule import Rule

MINUTELY = DetectorParameters(window_seconds=60)
NODES, LIVED, APART, HOURS = 5, 60, 10, 6  # a worker lives for 60 windows, and one begins every 10 windows
FAULT = 60 * HOURS - 50


def hosts(window: int, fault: str, service: str) -> list[str]:
    """The series of the hosts that are there in a window."""
    late = window >= FAULT
    nodes = range(1, NODES) if late and fault == "a node ends" else range(NODES)
    begun = [b for b in range(-LIVED, window + 1, APART) if window - LIVED < b <= window]
    if late and fault == "all workers end":
        begun = []
    if late and fault == "many workers begin":
        begun += [10_000 + k for k in range(12)]
    metrics = [f"gauge/node-{k}//{name}" for k in nodes for name in ("cpu", "memory")]
    if fault == "a service comes later":
        metrics += [f"gauge/worker-{b}//load" for b in begun]
        begun = [b for b in begun if b < window]
    if fault == "each logs by other programs":
        metrics += [f"logs/worker-{b}/program-{b}/info" for b in begun]
    return metrics + [f"gauge/worker-{b}/{service}/{name}" for b in begun for name in ("cpu", "memory")]


def story(fault: str, service: str) -> Iterator[dict[str, float]]:
    """Windows of all hosts; `fault` comes 50 windows before the end."""
    rng = np.random.default_rng(7)
    for window in range(60 * HOURS):
        rows = {name: 100 * float(np.exp(0.03 * rng.standard_normal())) for name in hosts(window, fault, service)}
        if window >= FAULT and fault == "cpu":
            rows["gauge/node-0//cpu"] *= 4
        if fault == "nodes end one after the other":
            ended = {f"gauge/node-{k}/" for k in range(4) if window >= FAULT - 30 * (3 - k)}
            rows = {name: value for name, value in rows.items() if not name.startswith(tuple(ended) or "-")}
        if fault == "a worker is strange and ends":
            last = FAULT - FAULT % APART
            rows |= {name: 4 * rows[name] for name in rows if f"worker-{last - 40}/" in name and window >= last + 10}
        yield rows


class WorkerStory:
    """A fleet that was watched to the end of a story."""

    def __init__(self, fault: str = "", service: str = "batch", p: DetectorParameters = MINUTELY) -> None:
        self.detector, self.correlator = ShardDetector(p), Correlator(CorrelationParameters())
        self.events, self.late_events = list[EpisodeEvent](), list[EpisodeEvent]()
        self.late_incidents = list[IncidentEvent]()
        for window, rows in enumerate(story(fault, service)):
            now = START + 60_000 * (window + 1)
            _, found = self.detector.step(now, windows(rows))
            incidents = self.correlator.step(now, found, self.detector.watched)
            self.events += found
            if window >= FAULT:
                self.late_events += found
                self.late_incidents += incidents

    def silent(self, part: str = "silence") -> set[str]:
        """The hosts that were reported as silent."""
        return {e.host for e in self.events if e.part == part and e.status == "open"}


@pytest.mark.parametrize(
    ("kind", "service"),
    [("", "batch"), ("", ""), ("a service comes later", "batch"), ("each logs by other programs", "batch")],
)
def test_hosts_that_come_and_go_are_no_news_after_three_have_ended(kind: str, service: str) -> None:
    run = WorkerStory(kind, service)
    assert {(event.part, event.score) for event in run.late_events} == {("usual end", 0.0)}
    assert not run.late_incidents
    workers = {event.host for event in run.events if event.host.startswith("worker")}
    assert 3 <= len(run.silent()) < len(workers)
    given_up = {e.host for e in run.events if e.kind == "change" and e.reason.endswith("hosts like it end often")}
    assert given_up == run.silent()
    assert USUAL_END not in {cause for _, cause in run.detector._state.episodes.recurrences.known}


@pytest.mark.parametrize("fault", ["cpu", "a node ends"])
def test_what_happens_to_a_host_that_stays_is_an_incident_of_its_own(fault: str) -> None:
    opened = [incident for incident in WorkerStory(fault).late_incidents if incident.status == "open"]
    assert [incident.hosts for incident in opened] == [["node-0"]]


def test_the_end_of_most_of_such_hosts_at_once_is_news() -> None:
    run = WorkerStory("all workers end")
    opened = [incident for incident in run.late_incidents if incident.status == "open"]
    assert [incident.kind for incident in opened] == ["silence"]
    assert len(opened[0].hosts) > 1


def usual_end(host: str, now: int) -> EpisodeEvent:
    return EpisodeEvent(
        series=f"host/{host}", kind="silence", status="open", start=now - 300_000, window_end=now, score=0.0, evidence=0.0,
        value=0.0, typical=1.0, lower=math.nan, upper=math.nan, unit="reports/window", reason="", part=USUAL_END,
    )  # fmt: skip


def test_such_hosts_that_end_at_once_in_many_shards_are_news() -> None:
    correlator, found = Correlator(CorrelationParameters()), list[IncidentEvent]()
    watched = Watched(series=80, hosts=40, window_seconds=60.0)
    for window in range(600):
        # One ends every ten minutes, and in the end 15 at once.
        hosts = range(15) if window == 595 else [100 + window] if window % 10 == 0 else []
        now = START + 60_000 * (window + 1)
        found += correlator.step(now, [usual_end(f"worker-{k}", now) for k in hosts], watched)
    opened = [incident for incident in found if incident.status == "open"]
    assert [(incident.kind, incident.scope, len(incident.hosts)) for incident in opened] == [("silence", "fleet", 15)]


def test_the_end_of_such_a_host_is_no_part_of_an_incident_that_it_had() -> None:
    correlator, watched = Correlator(CorrelationParameters()), Watched(series=80, hosts=40, window_seconds=60.0)
    strange = EpisodeEvent(
        series="gauge/worker-1//cpu", kind="anomaly", status="open", start=START, window_end=START + 60_000, score=60.0,
        evidence=60.0,
    )  # fmt: skip
    assert [found.status for found in correlator.step(START + 60_000, [strange], watched)] == ["open"]
    assert correlator.step(START + 400_000, [usual_end("worker-1", START + 400_000)], watched) == []


def test_many_more_such_hosts_at_once_than_usual_are_news() -> None:
    begun = {event.host for event in WorkerStory("many workers begin").late_events if event.kind == "change"}
    assert {f"worker-{10_000 + k}" for k in range(12)} <= begun


@pytest.mark.parametrize("rules", [(), (Rule(host="node-*", reset=datetime.fromtimestamp(START / 1000 + 6_000, UTC)),)])
def test_hosts_of_a_fleet_without_churn_that_end_on_one_day_are_news_each(rules: tuple[Rule, ...]) -> None:
    run = WorkerStory("nodes end one after the other", p=ControlledParameters(window_seconds=60, rules=rules))
    assert {f"node-{k}" for k in range(4)} <= run.silent()
    ended = [e for e in run.events if e.host.startswith("node") and e.reason.endswith("hosts like it end often")]
    assert not ended


def test_what_is_open_on_such_a_host_ends_with_it() -> None:
    run = WorkerStory("a worker is strange and ends")
    found = [event for event in run.late_events if event.kind == "anomaly" and event.status == "open"]
    assert {event.host.startswith("worker") for event in found} == {True}
    assert not run.detector._state.episodes.open
    assert {incident.kind for incident in run.late_incidents} == {"anomaly"}
    assert not [one for incident in run.late_incidents for one in incident.series if one.series.startswith("host/")]
