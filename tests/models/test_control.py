"""Rules at work: windows of a small fleet, and what is published, scored and known with them and without."""

from __future__ import annotations

import dataclasses
import tracemalloc
from typing import Any

import numpy as np
import pytest
from support.control_stories import (
    BYTES,
    CPU,
    LEVEL,
    LINES,
    QUICK,
    SIZE,
    STORY,
    column,
    of,
    story,
    texts_of,
    turns,
    when,
)
from support.fleet_story import START, WINDOW, DetectorRun, words

from models.core.limits import LimitParameters
from models.detection.detector import ShardDetector
from models.rules.rule import Rule


def between(first: int, last: int) -> dict[str, Any]:
    """Times of the windows from one to before another."""
    return {"since": when(first), "until": when(last)}


def run(*rules: Rule, **parameters: Any) -> DetectorRun:
    return DetectorRun(ShardDetector(dataclasses.replace(QUICK, rules=rules, **parameters)))


def played(rules: tuple[Rule, ...], rows: STORY) -> DetectorRun:
    one = run(*rules)
    one.play(rows)
    return one


def parts_but_hosts(one: DetectorRun) -> dict[str, bytes]:
    parts = one.detector.dump()
    return {name: parts[name] for name in ("gauges", "hot", "cold", "counts", "contexts", "names")}


FAULT = {range(60, 75): {CPU: 40.0}}


def test_without_rules_the_fault_is_said() -> None:
    assert of(CPU, played((), story(100, FAULT)))[0] == ("open", "anomaly")


def test_what_is_remembered_of_episodes_is_dumped_when_one_was_published_and_not_again() -> None:
    one = run()
    kept: dict[str, bytes] = {}
    when_dumped = []
    for k, rows in enumerate(story(100, FAULT)):
        one.play([rows])
        parts = one.detector.dump(only_changed=bool(kept))
        when_dumped += [k] if "remembered" in parts else []
        kept |= parts
    assert when_dumped[0] == 0
    assert len(when_dumped) > 1
    assert 60 < when_dumped[1] <= when_dumped[-1] < 90
    assert one.detector._state.control.published[CPU][0] == "strange up"
    again = ShardDetector.load(kept, QUICK)
    assert again._state.control == one.detector._state.control
    assert again.dump() == one.detector.dump() == kept


# --- planned


def test_a_planned_event_leaves_the_state_as_a_gap_does() -> None:
    rows = story(120, {range(60, 75): {CPU: 40.0, SIZE: -30.0, LINES: 20.0}})
    rows = [{name: row for name, row in window.items() if name != BYTES} for window in rows]
    rule = Rule(planned=True, **between(60, 75))
    planned, gap = played((rule,), rows), run(rule)
    gap.play(rows[:60])
    gap.gap(15)
    gap.play(rows[75:])
    assert texts_of(planned) == texts_of(gap)
    assert parts_but_hosts(planned) == parts_but_hosts(gap)
    for what in ("score", "typical", "lower"):
        np.testing.assert_array_equal(column(planned, CPU, what)[-45:], column(gap, CPU, what)[-45:])


def test_a_planned_row_has_a_value_and_no_score() -> None:
    planned = played((Rule(host="h-1", planned=True, **between(60, 75)),), story(80, FAULT))
    assert set(column(planned, CPU, "kind")[60:75]) == {"planned"}
    assert np.isnan(np.array(column(planned, CPU, "score")[60:75])).all()
    assert min(column(planned, CPU, "value")[60:75]) > 50
    assert set(column(planned, "gauge/h-2//cpu", "kind")[60:75]) == {"normal"}
    for scores, rows in zip(planned.scores, story(80, FAULT), strict=True):
        assert scores.series[: len(rows)].tolist() == sorted(rows)
        with_text = [name for name, text in zip(scores.series, scores.template, strict=True) if text is not None]
        assert with_text == [name for name in scores.series if name.startswith("template/")]


def test_a_planned_counter_goes_on_from_its_last_total() -> None:
    rows = story(90, {range(60, 75): {BYTES: 50_000.0}})
    planned = played((Rule(metric="bytes", planned=True, **between(60, 75)),), rows)
    assert np.nanmax(column(planned, BYTES, "value")[75:]) < 120  # not the mean over the event
    assert of(BYTES, planned) == []


def test_a_planned_host_may_be_silent_and_a_host_that_is_not_planned_may_not() -> None:
    rows = [{n: r for n, r in w.items() if not (60 <= k < 100 and "/h-1/" in n)} for k, w in enumerate(story(140))]
    assert ("host/h-1", "open", "silence") in words(played((), rows).events)
    assert played((Rule(host="h-1", planned=True, **between(60, 100)),), rows).events == []
    assert ("host/h-1", "open", "silence") in words(
        played((Rule(host="h-2", planned=True, **between(60, 100)),), rows).events
    )


def test_a_host_whose_services_alone_are_planned_is_not_silent() -> None:
    rows = [{n: r for n, r in w.items() if "/web/" in n or "h-2" in n} for w in story(140)]
    assert played((Rule(service="web", planned=True, **between(60, 100)),), rows).events == []


@pytest.mark.slow
def test_planned_metrics_and_lines_that_stop_are_not_missed() -> None:
    rows = [{n: r for n, r in w.items() if not (60 <= k < 110 and "/web/" in n)} for k, w in enumerate(story(140))]
    assert {name for name, _, _ in words(played((), rows).events)} & {CPU, LINES, LEVEL}
    assert played((Rule(service="web", planned=True, **between(60, 110)),), rows).events == []


# --- mute


def test_names_that_somebody_makes_up_during_a_planned_event_are_not_remembered() -> None:
    one = run(Rule(host="h-1", planned=True, **between(0, 100)), limits=LimitParameters(metrics_per_host=100))
    for k in range(30):
        if k == 5:
            tracemalloc.start()
        one.play([{f"gauge/h-2/web/{k}.{i}": 1.0 for i in range(1_000)}])
        one.scores.clear()
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept < 1_000_000  # each name that ever came was: 5 MB


def test_a_mute_changes_what_is_said_and_nothing_else() -> None:
    rows = story(100, FAULT)
    muted, open_ = played((Rule(host="h-1", mute=True),), rows), played((), rows)
    assert muted.events == []
    assert parts_but_hosts(muted) == parts_but_hosts(open_)
    np.testing.assert_array_equal(column(muted, CPU, "score"), column(open_, CPU, "score"))
    kinds = list(zip(column(muted, CPU, "kind"), column(open_, CPU, "kind"), strict=True))
    assert set(kinds) >= {("normal", "normal"), ("muted", "anomaly")}
    assert all(a in (b, "muted") for a, b in kinds)


def test_a_mute_of_hosts_as_a_whole_hides_that_they_come_and_go_and_nothing_else() -> None:
    """As docs/control.md has it for machines that come and go."""
    rows = [{n: r for n, r in w.items() if k < 90 or "/h-1/" not in n} for k, w in enumerate(story(140, FAULT))]
    rows = [
        w | ({n.replace("/h-2/", "/h-9/"): r for n, r in w.items() if "/h-2/" in n} if k >= 70 else {})
        for k, w in enumerate(rows)
    ]
    open_, muted = played((), rows), played((Rule(host="h-*", kind="host", mute=True),), rows)
    of_hosts = [one for one in words(open_.events) if one[0].startswith("host/")]
    assert {(name, kind) for name, _, kind in of_hosts} == {("host/h-9", "change"), ("host/h-1", "silence")}
    assert words(muted.events) == [one for one in words(open_.events) if one not in of_hosts]
    assert of(CPU, muted)[0] == ("open", "anomaly")


def test_what_goes_on_after_a_mute_is_said_then_with_its_true_beginning() -> None:
    rows = story(100, {range(60, 90): {CPU: 40.0}})
    muted = played((Rule(mute=True, **between(55, 70)),), rows)
    first = next(n for n in muted.events if n.series == CPU)
    assert (first.status, first.window_end) == ("open", START + 71 * WINDOW)
    assert first.start < START + 63 * WINDOW


def test_what_is_over_when_a_mute_ends_is_never_said() -> None:
    assert of(CPU, played((Rule(mute=True, **between(55, 77)),), story(110, FAULT))) == []


def test_an_episode_that_was_said_is_closed_under_a_mute() -> None:
    muted = played((Rule(mute=True, **between(70, 130)),), story(130, FAULT))
    assert [status for status, _ in turns(CPU, muted)] == ["open", "close"]


# --- don't learn


@pytest.mark.slow
def test_a_range_that_is_not_learnt_is_scored_and_said_and_forgotten() -> None:
    rows = story(120, {range(60, 75): {CPU: 40.0, LINES: 20.0}})
    held, gap = played((Rule(dont_learn=True, **between(60, 75)),), rows), run()
    gap.play(rows[:60])
    before = {name: gap.detector.describe_state(name) for name in (CPU, LINES)}
    cut = run(Rule(dont_learn=True, **between(60, 75)))
    cut.play(rows[:75])
    after = {name: cut.detector.describe_state(name) for name in (CPU, LINES)}
    assert of(CPU, held)[0] == ("open", "anomaly")
    assert of(LINES, held)[0] == ("open", "anomaly")
    for name in ("typical", "spread", "rows", "ever", "healthy", "fast"):
        assert after[CPU][name] == before[CPU][name]
    for name in ("rows", "sum", "windows", "excess", "square", "zero_trials", "zero_asked"):
        assert after[LINES][name] == before[LINES][name]


@pytest.mark.slow
def test_a_level_is_not_adopted_where_nothing_is_learnt() -> None:
    rows = story(200, {range(60, 200): {CPU: 40.0}})
    assert ("update", "change") in of(CPU, played((), rows))
    held = played((Rule(dont_learn=True, **between(60, 200)),), rows)
    assert {kind for _, kind in of(CPU, held)} == {"anomaly"}
    assert held.detector.describe_state(CPU)["typical"] < 25


def test_an_episode_whose_series_has_recovered_is_over_where_nothing_is_learnt_as_elsewhere() -> None:
    rows = story(230, {range(120, 150): {CPU: 40.0}})
    patient = {"persistence_minutes": 60, "patience_minutes": 240}
    plain, held = run(**patient), run(Rule(dont_learn=True, **between(140, 220)), **patient)
    plain.play(rows)
    held.play(rows[:140])
    before = held.detector.describe_state(CPU)["fast"]
    held.play(rows[140:])
    assert before > 22, "the fast mean has followed the fault, and stays there while nothing is learnt"
    assert turns(CPU, plain) == turns(CPU, held) == [("open", "anomaly"), ("close", "anomaly")]
    assert len({event.id for event in held.events if event.series == CPU}) == 1
    assert held.events[-1].window_end == plain.events[-1].window_end < START + 160 * WINDOW


# --- what counts


@pytest.mark.slow
def test_deviations_the_other_way_open_nothing() -> None:
    assert of(CPU, played((Rule(metric="cpu", direction="down"),), story(100, FAULT))) == []
    assert of(CPU, played((Rule(metric="cpu", direction="up"),), story(100, FAULT)))[0] == ("open", "anomaly")
    fewer = [rows | {"logs/h-1/db/info": 3} for rows in story(140, {range(60, 140): {LINES: 0.0}})]
    assert ("open", "silence") in of(LEVEL, played((), fewer))
    assert of(LEVEL, played((Rule(direction="up"),), fewer)) == []
    assert ("open", "silence") in of(LEVEL, played((Rule(direction="down"),), fewer))


@pytest.mark.parametrize(
    ("rule", "events"),
    [
        ({"least_deviation": 30.0}, True),
        ({"least_deviation": 50.0}, False),
        ({"least_relative_deviation": 1.5}, True),
        ({"least_relative_deviation": 2.5}, False),
        ({"alarm_chance": 1e-12}, False),
    ],
)
def test_a_deviation_must_be_large_enough(rule: dict[str, Any], events: bool) -> None:
    assert bool(of(CPU, played((Rule(host="h-1", metric="cpu", **rule),), story(100, FAULT)))) is events


def test_the_least_deviation_of_lines_is_a_minute_s() -> None:
    more = story(100, {range(60, 75): {LINES: 4.0}})
    assert of(LEVEL, played((Rule(kind="logs", least_deviation=60.0),), more))[0] == ("open", "anomaly")
    assert of(LEVEL, played((Rule(kind="logs", least_deviation=600.0),), more)) == []


def test_the_last_rule_counts() -> None:
    rules = (Rule(metric="cpu", direction="down"), Rule(host="h-1", direction="both"))
    assert of(CPU, played(rules, story(100, FAULT)))[0] == ("open", "anomaly")
    assert of(CPU, played(rules[::-1], story(100, FAULT))) == []


# --- memory


@pytest.mark.slow
def test_a_shorter_memory_forgets_sooner_and_the_others_as_before() -> None:
    rows = story(300, {range(150, 300): {CPU: 1.0, SIZE: 1.0}})
    short = played((Rule(metric="cpu", half_life_days=0.001), Rule(kind="logs", half_life_days=0.001)), rows)
    plain = played((), rows)
    believed = {name: [one.detector.describe_state(name)["healthy"] for one in (short, plain)] for name in (CPU, SIZE)}
    assert believed[SIZE][0] == believed[SIZE][1]
    assert believed[CPU][0]["value"]["mean"] > believed[CPU][1]["value"]["mean"] + 0.1
    assert short.detector.describe_state(LEVEL)["windows"] < plain.detector.describe_state(LEVEL)["windows"]


def test_warming_up_takes_as_long_as_a_rule_says() -> None:
    slow = played((Rule(host="h-1", warm_up_minutes=10), Rule(kind="logs", warm_up_minutes=10)), story(70))
    first = {name: column(slow, name, "kind").index("normal") for name in (CPU, "gauge/h-2//cpu", "logs/h-2//info")}
    assert first[CPU] - first["gauge/h-2//cpu"] == 30
    assert first["logs/h-2//info"] == 60


def test_a_reset_begins_anew() -> None:
    reset = played((Rule(host="h-1", reset=when(80)),), story(100))
    kinds = column(reset, CPU, "kind")
    assert (kinds[79], kinds[80]) == ("normal", "warming")
    assert reset.detector.describe_state(CPU)["rows"] == 20
    with_lines = sum(LEVEL in rows for rows in list(story(100))[80:])
    assert reset.detector.describe_state(LEVEL)["rows"] == with_lines  # one without a line of the host is not observed
    assert column(reset, "gauge/h-2//cpu", "kind")[80] == "normal"
    fresh = run()
    fresh.now += 80 * WINDOW
    fresh.play(story(100)[80:])
    assert reset.detector.describe_state(CPU)["healthy"] == fresh.detector.describe_state(CPU)["healthy"]


def test_a_reset_closes_what_is_open() -> None:
    reset = played((Rule(reset=when(70)),), story(100, {range(60, 100): {CPU: 40.0}}))
    assert [status for status, _ in turns(CPU, reset)] == ["open", "close"]
    assert reset.events[-1].window_end == START + 71 * WINDOW


# --- going on from a dump, and splitting

RULES = (
    Rule(host="h-1", service="web", planned=True, **between(60, 70)),
    Rule(metric="size", mute=True, **between(40, 80)),
    Rule(host="h-2", dont_learn=True, **between(50, 90)),
    Rule(metric="bytes", direction="up", half_life_days=1, warm_up_minutes=7, alarm_chance=0.01),
    Rule(kind="logs", reset=when(77), name="new release"),
)


@pytest.mark.slow
@pytest.mark.parametrize("cut", [41, 61, 76, 77, 78])
def test_a_detector_that_is_loaded_follows_the_rules_to_the_bit(cut: int) -> None:
    rows = story(130, {range(55, 85): {CPU: 40.0, SIZE: 40.0, LINES: 9.0, "gauge/h-2//cpu": 9.0, BYTES: 4000.0}})
    whole, first = played(RULES, rows), played(RULES, rows[:cut])
    p = dataclasses.replace(QUICK, rules=RULES)
    second = DetectorRun(ShardDetector.load(first.detector.dump(), p), first.now)
    second.play(rows[cut:])
    assert texts_of(whole) == texts_of(first, second)
    assert whole.detector.dump() == second.detector.dump()
    assert whole.events


@pytest.mark.slow
def test_splitting_a_shard_by_hosts_changes_nothing_under_rules() -> None:
    rows = story(130, {range(55, 85): {CPU: 40.0, SIZE: 40.0, LINES: 9.0, "gauge/h-2//cpu": 9.0}})
    whole = played(RULES, rows)
    apart = [
        played(RULES, [{n: r for n, r in w.items() if n.split("/")[1] == host} for w in rows])
        for host in ("h-1", "h-2")
    ]
    assert whole.events
    assert sorted(map(str, whole.events)) == sorted(map(str, apart[0].events + apart[1].events))
