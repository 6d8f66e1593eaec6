"""Pods that live for minutes as labels of the metrics of their node: their ends and beginnings are no news after a while, and all else still is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pytest
from support.fleet_story import START, DetectorRun, windows

from models.core.parameters import DetectorParameters
from models.detection.detector import ShardDetector
from models.incidents.correlator import Correlator
from models.incidents.parameters import CorrelationParameters
from models.records.records import EpisodeEvent, IncidentEvent

MINUTELY = DetectorParameters(window_seconds=60)
NODES, LIVED, HOURS = 4, 60, 8  # a pod lives for 60 windows, and each node gets a pod every 20 windows
FAULT = 60 * HOURS - 40
KEPT = 5  # pods of another service of each node, which stay


def metrics(node: int, window: int, *, lost: Iterable[str] = ()) -> list[str]:
    """The metrics of a node in a window: its own, those of three pods that come and go, and those of pods that stay."""
    host = f"node-{node}"
    pods = [born for born in range(-LIVED, window + 1, 20) if window - LIVED < born + 3 * node <= window]
    own = [f"gauge/{host}//cpu", f"gauge/{host}//memory"]
    own += [f"gauge/{host}/batch/{name}{{pod=job-{born}}}" for born in pods for name in ("cpu", "memory")]
    own += [f"gauge/{host}/shop/cpu{{pod=shop-{number}}}" for number in range(KEPT)]
    return [name for name in own if not any(part in name for part in lost)]


def story(fault: str = "") -> Iterator[dict[str, float]]:
    """Windows of all nodes; `fault` comes 40 windows before the end on node 0."""
    rng = np.random.default_rng(7)
    for window in range(60 * HOURS):
        rows = {}
        for node in range(NODES):
            late = node == 0 and window >= FAULT
            for name in metrics(node, window, lost=("/batch/",) if late and fault == "batch ends" else ()):
                rows[name] = 100 * float(np.exp(0.03 * rng.standard_normal()))
            if late and fault == "cpu":
                rows["gauge/node-0//cpu"] *= 4
            if late and fault == "a metric of each shop pod ends":
                rows = {name: value for name, value in rows.items() if "node-0/shop" not in name}
            if late and fault == "new metrics":
                rows |= {f"gauge/node-0/batch/disk{{mount={k}}}": float(rng.normal(50, 1)) for k in range(20)}
            if fault == "pods begin with new lines" and (window - 3 * node) % 20 == 0:
                rows |= {f"template/node-{node}/batch/info/{window}-{k}": 1.0 for k in range(12)}
        yield rows


class PodStory:
    """A fleet that was watched to the end of a story."""

    def __init__(self, fault: str = "") -> None:
        self.detector, correlator = ShardDetector(MINUTELY), Correlator(CorrelationParameters())
        self.events, self.late_events = list[EpisodeEvent](), list[EpisodeEvent]()
        self.late_incidents = list[IncidentEvent]()
        for window, rows in enumerate(story(fault)):
            now = START + 60_000 * (window + 1)
            _, found = self.detector.step(now, windows(rows))
            incidents = correlator.step(now, found, self.detector.watched)
            self.events += found
            if window >= FAULT:
                self.late_events += found
                self.late_incidents += incidents


def test_pods_that_come_and_go_are_no_news_after_three_have_ended_on_a_node() -> None:
    run = PodStory()
    assert not run.late_events
    assert not run.late_incidents
    ended = [event for event in run.events if event.kind == "silence" and event.status == "open"]
    assert len({event.series for event in ended}) <= NODES * 2 * 3
    given_up = {event.id for event in run.events if event.reason.endswith("metrics of this service end often")}
    assert given_up == {event.id for event in ended}


@pytest.mark.parametrize("fault", ["cpu", "batch ends", "a metric of each shop pod ends", "new metrics"])
def test_what_happens_beside_them_is_an_incident_of_its_own(fault: str) -> None:
    run = PodStory(fault)
    opened = [incident for incident in run.late_incidents if incident.status == "open"]
    assert len(opened) == 1
    assert opened[0].hosts == ["node-0"]
    assert {event.host for event in run.late_events} == {"node-0"}


def test_only_series_that_report_count_as_tests() -> None:
    run = PodStory()
    here = sum(len(metrics(node, 60 * HOURS - 1)) for node in range(NODES))
    assert run.detector.watched.series > 2 * here
    assert here <= run.detector.watched.tests <= here + NODES * 2


def test_pods_that_begin_are_no_news_whatever_they_write_to_their_logs() -> None:
    run = PodStory("pods begin with new lines")
    assert not [event for event in run.late_events if event.part == "new metric"]


def test_a_pod_that_was_strange_when_it_ended_and_comes_back_strange_has_another_episode() -> None:
    run, again = DetectorRun(ShardDetector(MINUTELY), window=60_000), "gauge/node-0/batch/cpu{pod=again}"
    rng = np.random.default_rng(8)
    for window, rows in enumerate(story()):
        if 300 <= window < 400 or window >= 460:
            strange = 390 <= window < 400 or window == 460
            for name in (again, again.replace("cpu", "memory")):
                rows[name] = 100 * float(np.exp(0.03 * rng.standard_normal()))
            rows[again] *= 4 if strange else 1
        run.play([rows])
    own = [event for event in run.events if event.series == again and event.status != "update"][:3]
    assert [event.status + " " + event.kind for event in own] == ["open anomaly", "close change", "open anomaly"]
    assert own[1].reason.endswith("metrics of this service end often")
    assert (own[2].start - START) // 60_000 == 460
