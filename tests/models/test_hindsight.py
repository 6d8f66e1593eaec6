"""Rules of the log as if they had been known when they were true."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest
from support.control_stories import CPU, QUICK, STORY, of, story, when
from support.fleet_story import START, WINDOW, DetectorRun
from support.rule_stories import VOID, Appended, keyed, played, rule, run, same

from models.detection.detector import ShardDetector
from models.rules.hindsight import rules_known_beforehand
from models.rules.rule import Rule
from models.rules.rule_log import Placed

FAULT = {range(60, 75): {CPU: 40.0}}


def placed(appended: Appended) -> list[Placed]:
    """The records of a story as they lie in the topic."""
    return [
        (100 * window + i, START + window * WINDOW, *keyed(record))
        for window in sorted(appended)
        for i, record in enumerate(appended[window])
    ]


def corrected(rows: STORY, appended: Appended, *pinned: Rule) -> DetectorRun:
    """A run over the same log that knows all its rules beforehand."""
    rules = rules_known_beforehand(pinned, placed(appended), WINDOW)
    parameters = dataclasses.replace(QUICK, rules=rules, rules_from=10**9)
    return played(rows, appended, DetectorRun(ShardDetector(parameters)))


def test_what_was_planned_and_became_known_later_is_learnt_as_if_it_had_been_known() -> None:
    rows = story(140, FAULT)
    late: Appended = {100: [rule("work", host="h-1", planned=True, since=when(60), until=when(75))]}
    knew = run(Rule(name="work", host="h-1", planned=True, since=when(60), until=when(75)))
    knew.play(rows)
    assert of(CPU, played(rows, late))[0] == ("open", "anomaly")
    found = corrected(rows, late)
    assert same(found, knew)
    assert found.detector.dump() == knew.detector.dump()


def test_what_was_planned_is_the_same_as_a_record_that_came_in_time() -> None:
    rows = story(140, FAULT)
    late: Appended = {100: [rule("work", host="h-1", planned=True, since=when(60), until=when(75))]}
    in_time: Appended = {58: [rule("work", host="h-1", planned=True, since=when(60), until=when(75))]}
    assert same(corrected(rows, late), played(rows, in_time))


def test_records_that_do_not_look_back_change_nothing_in_hindsight() -> None:
    """Whatever is written, replaced, ended and written again in any order."""
    rows = story(100, FAULT)
    effects: list[dict[str, Any]] = [
        {"mute": True},
        {"removed": True},
        {"host": "h-1", "planned": True, "until": when(72)},
        {"metric": "cpu", "least_deviation": 30.0},
        {"metric": "cpu", "direction": "down", "since": when(66)},
        {"kind": "logs", "reset": when(64)},
        {"service": "web", "dont_learn": True, "until": when(90)},
        {"service": "web", "channels": ["ops"]},
    ]
    for seed in range(6):
        chance = random.Random(seed)
        appended: Appended = {}
        for window in sorted(chance.sample(range(20, 95), 12)):
            ahead = [e for e in effects if window < 64 or not {"reset", "since"} & e.keys()]
            written = [rule(chance.choice("abc"), **chance.choice(ahead)) for _ in range(chance.randint(1, 2))]
            appended[window] = [chance.choice((one, one, one, VOID)) for one in written]
        born = (Rule(name="a", host="h-2", mute=True), Rule(metric="size", least_deviation=1.0))
        live = played(rows, appended, run(*born))
        assert same(live, corrected(rows, appended, *born)), appended


def test_an_end_may_look_back_as_well() -> None:
    records: Appended = {10: [rule(mute=True)], 50: [rule(removed=True, since=when(30))]}
    assert rules_known_beforehand((), placed(records), WINDOW) == (
        Rule(name="a", mute=True, since=when(10), until=when(30)),
    )
    born = rules_known_beforehand((Rule(name="a", mute=True), Rule(mute=True)), placed({50: records[50]}), WINDOW)
    assert born == (Rule(name="a", mute=True, until=when(30)), Rule(mute=True))


def test_the_later_record_counts_from_when_it_is_true() -> None:
    records: Appended = {
        10: [rule(mute=True)],
        50: [rule(host="h-1", mute=True, since=when(30))],
        60: [rule(host="h-2", mute=True, since=when(20), until=when(40)), rule("b", mute=True, until=when(70))],
        65: [rule("none", mute="yes"), rule("b", mute=True, until=when(70))],
    }
    refused: list[int] = []
    found = rules_known_beforehand((), placed(records), WINDOW, lambda offset, reason: refused.append(offset))
    assert found == (
        Rule(name="a", mute=True, since=when(10), until=when(20)),
        Rule(name="a", host="h-2", mute=True, since=when(20), until=when(40)),
        Rule(name="b", mute=True, since=when(60), until=when(70)),
    )
    assert refused == [6_500]


@pytest.mark.parametrize(("reset", "kept"), [(30, True), (5, True), (60, False)])
def test_a_reset_counts_where_its_rule_was_not_replaced_before(reset: int, kept: bool) -> None:
    records: Appended = {10: [rule(reset=when(reset))], 50: [rule(removed=True)]}
    assert rules_known_beforehand((), placed(records), WINDOW) == ((Rule(name="a", reset=when(reset)),) if kept else ())
