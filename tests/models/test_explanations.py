"""What each episode event explains: which part of the model found it, how sure, provisional or not, before and after."""

import math

import numpy as np
import pytest
from support.fleet_story import DetectorRun, Row
from support.machine_stories import CPU, LEVEL, Machine, after_an_hour, beside_another_log

from models.detection.episodes import certainty
from models.records.records import EpisodeEvent


@pytest.fixture
def story() -> tuple[Machine, DetectorRun]:
    return after_an_hour()


@pytest.fixture
def machine(story: tuple[Machine, DetectorRun]) -> Machine:
    return story[0]


@pytest.fixture
def run(story: tuple[Machine, DetectorRun]) -> DetectorRun:
    return story[1]


def of(series: str, events: list[EpisodeEvent]) -> list[EpisodeEvent]:
    return [n for n in events if n.series == series]


def test_an_anomaly_is_provisional_until_it_is_over(run: DetectorRun, machine: Machine) -> None:
    events = of(CPU, run.play(machine.windows(12, cpu=93.1), machine.windows(60)))
    assert [n.provisional for n in events] == [True] * (len(events) - 1) + [False]
    assert events[0].part in ("level", "step", "mean", "local")
    assert [n.certainty for n in events] == [certainty(n.evidence) for n in events]
    # What fields say is no part of the sentence: neither since when, nor how sure that is.
    assert not any(word in n.reason for n in events for word in ("since", "sure", "provisional"))


def test_a_change_has_the_levels_before_and_after_it_and_is_decided(run: DetectorRun, machine: Machine) -> None:
    rng = np.random.default_rng(1)
    events = of(CPU, [n for _ in range(180) for n in run.play(machine.windows(1, cpu=55 + rng.normal(0, 1.5)))])
    change = next(n for n in events if n.kind == "change")
    assert (change.part, change.provisional) == ("level", False)
    assert change.before == pytest.approx(30, abs=1)
    assert change.after == pytest.approx(55, abs=1)
    assert change.certainty > 0.99
    assert all(math.isnan(n.before) and math.isnan(n.after) for n in events if n.kind != "change")


def test_what_repeats_a_value_says_that_it_is_stuck(run: DetectorRun, machine: Machine) -> None:
    assert of(CPU, run.play(machine.windows(30, cpu=30.12)))[0].part == "stuck"


def test_lines_speak_by_their_rate_and_by_their_silence(run: DetectorRun, machine: Machine) -> None:
    assert of(LEVEL, run.play(machine.windows(10, info=60)))[0].part == "rate"
    run.play(machine.windows(60))
    run.play(beside_another_log(machine.windows(60)))
    assert of(LEVEL, run.play(beside_another_log(machine.windows(30, info=None, aa=None))))[0].part == "silence"


def test_a_rate_that_is_adopted_has_its_levels(run: DetectorRun, machine: Machine) -> None:
    rng = np.random.default_rng(2)
    story = (rows for _ in range(90) for rows in machine.windows(1, info=float(rng.poisson(30))))
    change = next(n for n in of(LEVEL, run.play(story)) if n.kind == "change")
    assert (change.part, change.unit) == ("rate", "lines/min")
    assert change.before == pytest.approx(7 * 6, rel=0.2)
    assert change.after == pytest.approx(30 * 6, rel=0.2)


def test_a_silence_says_how_often_it_reported(run: DetectorRun, machine: Machine) -> None:
    events, *later = run.play(machine.windows(30, cpu=None))
    assert {n.status for n in later} <= {"update"}
    assert (events.part, events.value, events.provisional) == ("silence", 0.0, True)
    assert events.typical == pytest.approx(1.0, abs=0.01)
    assert "it reported in more than 99.9 % of windows" in events.reason


def test_what_appears_is_a_fact(run: DetectorRun, machine: Machine) -> None:
    extra: dict[str, Row] = {"gauge/vm-1/db/size": 5.0}
    (events, _) = run.play(rows | extra for rows in machine.windows(3))
    assert (events.part, events.certainty, events.provisional) == ("new service", 1.0, False)
    more: dict[str, Row] = {"gauge/vm-1/web/queue": 5.0}
    assert run.play(rows | more for rows in machine.windows(3))[0].part == "new metric"


def test_a_new_template_is_as_sure_as_its_evidence(run: DetectorRun, machine: Machine) -> None:
    name = "template/vm-1/web/error/dead"
    events = run.play(rows | {name: (3, "disk on fire")} for rows in machine.windows(6))[0]
    assert (events.part, events.certainty) == ("new template", certainty(events.evidence))
