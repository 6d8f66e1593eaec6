"""An episode that ends because something else begins ends its run: what comes later is another episode with a start of its own."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from support.control_stories import CPU, QUICK, STORY, story, when
from support.fleet_story import START, WINDOW, DetectorRun

from models.core.parameters import DetectorParameters
from models.detection.controlled_parameters import ControlledParameters
from models.detection.detector import ShardDetector
from models.records.records import EpisodeEvent
from models.rules.rule import Rule

LOG = "logs/h-2//"
OTHER = "gauge/other//load"


def run(*rules: Rule, p: ControlledParameters = QUICK, **more: Any) -> DetectorRun:
    return DetectorRun(ShardDetector(dataclasses.replace(p, rules=rules, **more)))


def without(rows: STORY, windows: range, *beginnings: str) -> STORY:
    """The story without some series in some windows."""
    return [
        {name: value for name, value in row.items() if k not in windows or not name.startswith(beginnings)}
        for k, row in enumerate(rows)
    ]


def opened(events: list[EpisodeEvent], series: str) -> list[tuple[str, int]]:
    """Kind and first window of each episode of a series."""
    found = [event for event in events if event.series == series and event.status == "open"]
    assert len({event.id for event in found}) == len(found), "an episode is opened once"
    return [(event.kind, (event.start - START) // WINDOW) for event in found]


def test_a_metric_that_is_strange_before_and_after_a_silence_has_an_episode_for_each() -> None:
    rows = without(story(150, {range(60, 150): {CPU: 40.0}}), range(66, 100), CPU)
    events = run(patience_minutes=600, persistence_minutes=600).play(rows)
    assert opened(events, CPU) == [("anomaly", 60), ("silence", 66), ("anomaly", 100)]


def test_a_value_that_is_stuck_before_and_after_a_silence_is_stuck_from_its_return_on() -> None:
    rows = story(700)
    for row in rows[420:]:
        row[CPU] = 20.5
    events = run(p=ControlledParameters()).play(without(rows, range(460, 500), CPU))
    assert opened(events, CPU) == [("anomaly", 421), ("silence", 460), ("anomaly", 501)]


def test_lines_that_stayed_away_before_their_log_did_are_missed_from_its_return_on() -> None:
    rows = story(700)
    beat = "template/h-1/web/info/bb"
    for row in rows[:200]:
        row[beat] = (5, "beat <*>")
    rows = without(rows, range(225, 640), "logs/h-1", "template/h-1")
    events = run(silence_patience_hours=0.25, patience_minutes=600).play(rows)
    assert [start for _, start in opened(events, beat)] in ([200], [200, 640])


def test_the_silence_of_a_log_ends_when_its_host_is_given_up() -> None:
    rows = without(without(story(380), range(100, 380), "logs/h-2"), range(140, 380), "gauge/h-2")
    of_log = [event for event in run(silence_patience_hours=0.2).play(rows) if event.series == LOG]
    assert [event.status for event in of_log if event.status != "update"] == ["open", "close"]
    assert of_log[-1].reason.endswith("; its host has been silent for 0.2 h")


@pytest.mark.parametrize("host", ["h-1", "h-2", "*"])
def test_a_rule_that_plans_a_host_and_not_what_it_sends_leaves_scores_as_they_are(host: str) -> None:
    rule = Rule(kind="host", host=host, planned=True, since=when(60), until=when(70))
    with_rule, plain = run(rule), run()
    for row in story(80):
        with_rule.play([row])
        plain.play([row])
    assert [s.series.tolist() for s in with_rule.scores] == [s.series.tolist() for s in plain.scores]
    assert [s.score.tobytes() for s in with_rule.scores] == [s.score.tobytes() for s in plain.scores]
    assert with_rule.detector.dump()["hosts"] == plain.detector.dump()["hosts"]


def test_a_host_that_is_planned_may_be_away() -> None:
    away = without(story(120), range(60, 100), "gauge/h-2", "logs/h-2")
    rule = Rule(kind="host", host="h-2", planned=True, since=when(55), until=when(105))
    assert ("silence", 60) in opened(run().play(away), "host/h-2")
    assert opened(run(rule).play(away), "host/h-2") == opened(run().play(story(120)), "host/h-2")


def test_a_rule_that_plans_a_log_by_its_own_name_keeps_its_silence_quiet() -> None:
    more = "template/h-2//info/cc"
    rows = [{**row, **({more: (3, "x <*>")} if "logs/h-2//info" in row else {})} for row in story(200)]
    rows = without(rows, range(105, 190), "logs/h-2", "template/h-2")
    rule = Rule(host="h-2", kind="logs", planned=True, since=when(100), until=when(195))
    assert ("silence", 105) in opened(run().play(rows), LOG)
    assert opened(run(rule).play(rows), LOG) == []


def test_what_is_open_on_a_planned_host_is_not_closed_for_a_silence_that_there_is_not() -> None:
    rows = story(420, {range(95, 420): {CPU: 40.0}})
    rule = Rule(host="h-1", planned=True, since=when(100), until=when(400))
    events = run(rule, silence_patience_hours=0.25, patience_minutes=600, persistence_minutes=600).play(rows)
    assert not [event for event in events if "has been silent" in event.reason]


def test_a_deviation_that_a_rule_does_not_count_is_not_adopted_when_an_episode_ends() -> None:
    rows = story(700, {range(420, 432): {CPU: 30.0}, range(432, 486): {CPU: -15.0}})
    events = run(Rule(metric="cpu", direction="up"), p=ControlledParameters()).play(rows)
    assert [(event.status, event.kind) for event in events if event.series == CPU and event.status != "update"] == [
        ("open", "anomaly"),
        ("close", "anomaly"),
    ]


@pytest.mark.parametrize("days", [1, 20])
def test_where_windows_are_days_long_an_episode_goes_on_and_nothing_is_forgotten(days: int) -> None:
    window, rng = 86_400_000 * days, np.random.default_rng(7)
    seconds = window / 1000
    daily = DetectorRun(ShardDetector(DetectorParameters(window_seconds=seconds)), window=window)
    daily.play({CPU: float(value)} for value in rng.normal(100, 3, 60))
    events = daily.play({CPU: float(value)} for value in rng.normal(160, 3, 20))
    assert opened(events, CPU), "the level is found"
    assert "silent" not in " ".join(event.reason for event in events)
    assert np.isfinite(daily.score_of(CPU))


def test_the_episode_of_a_host_that_comes_once_a_day_goes_on() -> None:
    rows, rng = 200, np.random.default_rng(8)
    hourly = DetectorRun(ShardDetector(DetectorParameters(window_seconds=3600)), window=3_600_000)
    story = [{OTHER: float(rng.normal(50, 1))} for _ in range(24 * rows)]
    for day in range(rows):
        story[24 * day][CPU] = float(rng.normal(100, 3) + (100 if day > 180 else 0))
    events = hourly.play(story)
    assert opened(events, CPU), "the level is found"
    assert "silent" not in " ".join(event.reason for event in events if event.series == CPU)


def test_an_anomaly_that_ends_because_its_host_is_gone_was_as_long_as_something_came() -> None:
    of_host = "gauge/h-1", "counter/h-1", "logs/h-1", "template/h-1"
    rows = without(story(420, {range(60, 80): {CPU: 40.0}}), range(80, 420), *of_host)
    found = run(silence_patience_hours=0.25, patience_minutes=600, persistence_minutes=600)
    events = [event for event in found.play(rows) if event.series == CPU]
    assert events[-1].status == "close" and "its host has been silent" in events[-1].reason
    assert found.detector._state.episodes.recurrences.known[CPU, "strange"].longest == 200.0
