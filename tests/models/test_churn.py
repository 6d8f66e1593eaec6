"""Hosts, services, metrics and logs that come and go at random: whatever comes together, a detector works, and a restart changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from support.fleet_story import DetectorRun, Row
from support.machine_stories import Machine

from models.core.parameters import DetectorParameters
from models.detection.detector import ShardDetector
from models.incidents.correlator import Correlator
from models.incidents.parameters import CorrelationParameters

HOURS_FORGOTTEN = DetectorParameters(
    warm_up_minutes=5, grace_minutes=5, silence_patience_hours=0.3, forget_days=0.02, patience_minutes=20
)
WINDOWS = 900
STATES = ("works", "silent", "no log", "log only", "no cpu", "renamed", "stuck", "other level", "errors", "gone")


class RestlessHost:
    """A host that is in one of `STATES`, and reports its metrics in one window of `apart`."""

    def __init__(self, rng: np.random.Generator, number: int) -> None:
        self.name, self.rng = f"host-{number}", rng
        self.machine = Machine(int(rng.integers(1 << 30)), self.name)
        self.apart, self.state, self.born = int(rng.choice([1, 1, 3, 6])), "works", number

    def window(self, k: int) -> dict[str, Row]:
        """Its rows of window `k`."""
        rows, rng, state = self.machine.window(), self.rng, self.state
        metrics = {name: row for name, row in rows.items() if not name.startswith(("logs/", "template/"))}
        lines = {name: row for name, row in rows.items() if name not in metrics}
        if state in ("silent", "gone"):
            return {}
        cpu = f"gauge/{self.name}//cpu"
        if state == "no cpu":
            del metrics[cpu]
        elif state == "renamed":
            metrics[f"{cpu}.percent"] = metrics.pop(cpu)
        elif state == "stuck":
            metrics[cpu] = 31.0
        elif state == "other level":
            metrics[cpu] = float(rng.choice([90.0, 1e9, -4.0, 1e300])) + float(rng.normal())
        elif state == "errors":
            many = int(rng.integers(1, 400))
            text = f"failed {rng.integers(3)} of <num>"
            lines[f"logs/{self.name}/web/error"] = many
            lines[f"template/{self.name}/web/error/{text.replace(' ', '')}"] = (many, text)
        if (k + self.born) % self.apart or state == "log only":
            metrics = {}
        return metrics | ({} if state == "no log" else lines)


def story(seed: int) -> Iterator[dict[str, Row]]:
    """Windows of a fleet of five hosts and more."""
    rng = np.random.default_rng(seed)
    hosts = [RestlessHost(rng, number) for number in range(5)]
    for k in range(WINDOWS):
        if rng.random() < 0.02:
            hosts.append(RestlessHost(rng, k + 5))
        for host in hosts:
            if rng.random() < 0.015:
                host.state = "works" if host.state != "works" and rng.random() < 0.5 else str(rng.choice(STATES))
        hosts = [host for host in hosts if host.state != "gone"] or [RestlessHost(rng, k + 10_000)]
        yield {name: row for host in hosts for name, row in host.window(k).items()}


@pytest.mark.parametrize("seed", range(4))
def test_whatever_comes_and_goes_is_worked_off_and_a_restart_changes_nothing(seed: int) -> None:
    run, again = (DetectorRun(ShardDetector(HOURS_FORGOTTEN)) for _ in range(2))
    incidents, restarted = (Correlator(CorrelationParameters()) for _ in range(2))
    rng, published = np.random.default_rng(seed), 0
    for rows in story(seed):
        if rng.random() < 0.05:
            again.detector = ShardDetector.load(again.detector.dump(), HOURS_FORGOTTEN)
            restarted = Correlator.load(restarted.dump(), CorrelationParameters())
        events = run.play([rows])
        assert repr(again.play([rows])) == repr(events)  # NaN is not NaN
        found = incidents.step(run.now, events, run.detector.watched)
        assert repr(restarted.step(run.now, events, again.detector.watched)) == repr(found)
        published += len(found)
    assert {event.kind for event in run.events} >= {"anomaly", "change", "silence"}
    assert len({event.series.split("/")[1] for event in run.events}) > 5
    assert published > 20
