"""Rules that are records of the log: from which window on they hold, what replaces and ends them, what is refused."""

from __future__ import annotations

import dataclasses
import json
import random
import re
from collections import deque
from typing import Any

import pytest
from support.control_stories import CPU, QUICK, column, of, story, turns, when, with_appended
from support.fleet_story import START, WINDOW, DetectorRun, windows
from support.rule_stories import VOID, Appended, keyed, played, rule, run, same

from models.detection.detector import ShardDetector
from models.records.records import RuleRecord
from models.records.schema import fields_of
from models.rules.rule import Rule
from models.rules.rule_log import KEYS, MOST_A_WINDOW, MOST_RULES, RuleLog, record_text, take_all

FAULT = {range(60, 75): {CPU: 40.0}}


EFFECTS: list[dict[str, Any]] = [
    {"mute": True},
    {"host": "h-1", "planned": True, "until": when(90)},
    {"metric": "cpu", "dont_learn": True, "until": when(80)},
    {"metric": "cpu", "direction": "down"},
    {"service": "web", "least_deviation": 100.0, "half_life_days": 1},
    {"host": "h-1", "reset": when(62)},
]


@pytest.mark.parametrize("effect", EFFECTS, ids=lambda effect: next(reversed(effect)))
def test_a_rule_has_its_effect_from_the_window_in_which_it_was_appended(effect: dict[str, Any]) -> None:
    rows = story(100, FAULT)
    logged = played(rows, {58: [rule(**effect)]})
    begin = {} if "reset" in effect else {"since": when(58)}
    pinned = run(Rule(name="a", **(effect | begin)))
    pinned.play(rows)
    assert same(logged, pinned)
    assert not same(logged, played(rows, {}))


def test_a_rule_that_is_much_older_than_the_rest_of_the_log_makes_no_host_new() -> None:
    """Kafka keeps the last record of a rule for ever, and of all else two weeks."""
    rows, one = story(60), run()
    old = START - 14 * 8_640 * WINDOW
    one.detector.step(old, with_appended(windows({}), [(f"rule/0/{0:020d}", *keyed(rule(host="h-9", mute=True)))]))
    assert same(played(rows, {}, one), played(rows, {}))
    assert not one.events


def test_a_mute_that_is_removed_is_no_more_from_that_window_on() -> None:
    rows = story(100, {range(60, 90): {CPU: 40.0}})
    muted = played(rows, {20: [rule(mute=True)], 70: [rule(removed=True)]})
    first = next(n for n in muted.events if n.series == CPU)
    assert (first.status, first.window_end) == ("open", START + 71 * WINDOW)


def test_the_same_name_replaces_and_another_name_does_not() -> None:
    rows = story(100, FAULT)
    replaced = played(rows, {20: [rule(mute=True)], 30: [rule(host="h-2", mute=True)]})
    assert turns(CPU, replaced) == turns(CPU, played(rows, {}))
    assert played(rows, {20: [rule(mute=True)], 30: [rule("b", host="h-2", mute=True)]}).events == []


def test_a_rule_of_the_configuration_is_replaced_and_ended_by_its_name() -> None:
    rows, born = story(100, FAULT), Rule(name="a", mute=True)
    assert played(rows, {}, run(born)).events == []
    for record in (rule(removed=True), rule(host="h-2", mute=True), rule(mute=True, until=when(40))):
        assert of(CPU, played(rows, {30: [record]}, run(born)))[0] == ("open", "anomaly")


def test_a_rule_of_the_configuration_stays_replaced_after_the_rule_of_the_log_has_ended() -> None:
    hours = [story(1)[0]] * 500
    ended = played(hours, {3: [rule(host="h-2", mute=True, until=when(5))]}, run(Rule(name="a", mute=True)))
    assert [one.rule for one in ended.detector._state.rules.values()] == [""]
    assert ended.detector._control._rules == ()


def test_a_route_changes_no_score_and_no_event_and_ends_the_rule_whose_name_it_takes() -> None:
    rows = story(100, FAULT)
    mute, route = rule(host="h-2", mute=True), rule("r", service="web", channels=["ops"], since=when(30))
    removed = {20: [mute], 62: [rule(removed=True)]}
    routed: Appended = {
        20: [mute, route],
        30: [rule("q", channels=[])],
        62: [rule(channels=["ops"])],
        70: [rule("r", removed=True)],
    }
    assert same(played(rows, routed), played(rows, removed))
    assert [one.name for one in played(rows, routed).detector._state.rules.values()] == ["a", "q"]


def test_repeats_of_a_record_change_nothing() -> None:
    rows = story(140, {range(60, 75): {CPU: 40.0}, range(110, 120): {CPU: 40.0}})
    records = [rule(host="h-1", reset=when(30)), rule("b", metric="cpu", least_deviation=3)]
    once = played(rows, {50: records})
    often = played(rows, {50: records * 2, 70: records, 71: records[::-1]})
    assert same(once, often)
    assert once.detector._control._rules == often.detector._control._rules


def test_what_was_to_be_reset_before_is_reset_when_the_rule_comes() -> None:
    rows = story(100, FAULT)
    late, now = played(rows, {50: [rule(reset=when(10))]}), played(rows, {50: [rule(reset=when(50))]})
    assert same(late, now)


@pytest.mark.parametrize("instant", [330, 345, 360, 365, 369])
def test_a_reset_in_a_gap_over_the_end_of_an_hour_happens_in_the_first_window_after_it(instant: int) -> None:
    rows, appended = story(90), {300: [rule(host="h-1", reset=when(instant))]}
    runs = [run(), run(Rule(name="a", host="h-1", reset=when(instant))), run()]
    for one, records in zip(runs, (appended, {}, {}), strict=True):
        one.now = START + 270 * WINDOW
        played(rows[:60], records, one)  # up to window 329; the hour ends with window 359
        one.gap(40)
        played(rows[60:], {}, one)
    logged, pinned, without = runs
    assert same(logged, pinned)
    assert column(logged, CPU, "kind")[59:61] == ["normal", "warming"]
    assert column(without, CPU, "kind")[59:61] == ["normal", "normal"]


def test_a_detector_that_is_dumped_and_loaded_goes_on_bit_for_bit() -> None:
    rows = story(140, FAULT)
    appended: Appended = {
        20: [rule("z", least_deviation=2), rule("b", metric="cpu", least_deviation=100)],
        64: [rule("z", least_deviation=200), rule("c", host="h-2", mute=True)],
        70: [rule("b", removed=True)],
    }
    whole, cut = played(rows, appended), run()
    kept: dict[str, bytes] = {}
    for number, window in enumerate(rows):
        played([window], appended, cut)
        kept |= cut.detector.dump(only_changed=bool(kept))
        if number in (19, 20, 63, 64, 65, 70, 100):
            cut.detector = ShardDetector.load(kept, QUICK)
    assert same(whole, cut)
    assert whole.detector.dump() == cut.detector.dump() == kept


def test_records_that_the_configuration_has_taken_in_are_left_out() -> None:
    rows = story(100, FAULT)
    assert of(CPU, played(rows, {20: [rule(mute=True)]}, run(rules_from=2_001)))[0] == ("open", "anomaly")
    assert of(CPU, played(rows, {20: [rule(mute=True)]}, run(rules_from=2_000))) == []
    begun = played(rows[:30], {20: [rule(mute=True)]}).detector.dump()
    later = DetectorRun(ShardDetector.load(begun, dataclasses.replace(QUICK, rules_from=2_001)), START + 30 * WINDOW)
    assert of(CPU, played(rows[30:], {}, later))[0] == ("open", "anomaly")
    assert later.detector._state.rules == {}


REFUSED: list[tuple[Any, str]] = [
    ("no JSON", "Expecting value"),
    ([], "wanted a JSON object"),
    (rule(mute="yes"), "mute is 'yes'"),
    (rule(mute=True, hosts="h-1"), "no key 'hosts'"),
    (rule(host=5, mute=True), "host is 5"),
    (rule(host="h-1"), "does nothing"),
    (rule(host="re:(a|b", mute=True), "no regular expression"),
    (rule(host="re:(?=a)b", mute=True), "no regular expression"),
    (rule(host="re:a{1000}", mute=True), "counts repetitions"),
    (rule(host="re:\\\\\\pL*", mute=True), "a class of Unicode"),
    (rule(host="\ud800*", mute=True), "host is .*; wanted text"),
    (rule(channels=["ops"], labels={"\ud800": "a"}), "labels is .*; wanted an object"),
    (rule(host="re:" + "a" * 200, mute=True), "wanted at most 200"),
    (rule(host="a" * 513, mute=True), "wanted at most 512"),
    (rule(planned=True), "would never learn"),
    (rule(mute=True, since="0001-01-01T00:00:00+14:00"), "wanted an instant from 1970"),
    (rule(mute=True, since="1970-01-01T00:00:00+01:00"), "wanted an instant from 1970"),
    (rule(mute=True, until="2199-12-31T23:59:59-01:00"), "wanted an instant from 1970"),
    (rule(mute=True, zone="../../etc/passwd"), "zone is"),
    (rule(mute=True, zone="Europe"), "zone is"),
    (rule(mute=True, zone="localtime"), "zone is"),
    (rule(mute=True, days=["mon", 3]), "days is"),
    (rule(mute=True, hours="99"), "hours is"),
    (rule("a" * 101, mute=True), "1 to 100 printable"),
    (rule("a\nb", mute=True), "1 to 100 printable"),
    (rule(" a", mute=True), "1 to 100 printable"),
    (rule("", mute=True), "1 to 100 printable"),
    ({"record": "rule", "mute": True}, "name is missing"),
    (rule(mute=True) | {"record": "label"}, "record is 'label'"),
    ('{"record":"rule","name":"a","least_deviation":1e999}', "no number of JSON"),
    ('{"record":"rule","name":"a","least_deviation":NaN}', "no number of JSON"),
    ('{"record":"rule","name":"a","mute":true,"name":"b"}', "there twice"),
    (rule(least_deviation=1e16), "above 0, at most"),
    ('{"record":"rule","name":"a","mute":' + "[" * 100_000, "nested too deeply"),
    (rule(channels="ops"), "channels is 'ops'"),
    (rule(channels=["Ops\n"]), "is no name of a channel"),
    (rule(channels=[f"c{i}" for i in range(17)]), "channels has 17 members"),
    (rule(channels=["ops"], mute=True), "no key 'mute' in such a rule: channels says where incidents go"),
    (rule(channels=["ops"], metric="cpu"), "no key 'metric' in such a rule"),
    (rule(channels=["ops"], reset=when(9)), "no key 'reset' in such a rule"),
    (rule(mute=True, severity="major"), "no key 'severity' in such a rule: without channels it is about series"),
    (rule(channels=["ops"], severity="fatal"), "severity has 'fatal'"),
    (rule(channels=["ops"], kinds=["gauge"]), "kinds has 'gauge'"),
    (rule(channels=["ops"], labels={"zone": "re:a{9}"}), "labels.zone is .* counts repetitions"),
    (rule(channels=["ops"], labels={f"l{i}": "*" for i in range(17)}), "labels has 17 members"),
    (rule(channels=["ops"], escalate_minutes=5), "belong together"),
    (rule(channels=["ops"], escalate_minutes=-5, escalate_to=["ops"]), "above 0, at most"),
    (rule(channels=["ops"], hours="99"), "hours is"),
]


@pytest.mark.parametrize(("record", "why"), REFUSED, ids=[why for _, why in REFUSED])
def test_what_cannot_be_meant_is_refused_and_changes_nothing(record: Any, why: str) -> None:
    text = record if isinstance(record, str) else json.dumps(record)
    name = record["name"] if isinstance(record, dict) and "name" in record else "a"
    log = RuleLog()
    with pytest.raises(ValueError, match=why):
        log.take(name, text, 7, START)
    assert log.known == {}
    detector = ShardDetector(QUICK)
    detector.step(START + WINDOW, with_appended(windows({CPU: 1.0}), [(f"rule/0/{7:020d}", name, text)]))
    (refused,) = detector.refused_rules
    assert (refused.offset, refused.text) == (7, text)
    assert re.search(why, refused.reason)
    detector.step(START + 2 * WINDOW, windows({CPU: 1.0}))
    assert detector.refused_rules == []


def test_there_are_no_more_rules_than_the_most_and_one_that_ends_makes_room() -> None:
    log = RuleLog()
    for i in range(MOST_RULES):
        log.take(*keyed(rule(f"r{i}", mute=True, until=when(10 + i))), i, START)
    with pytest.raises(ValueError, match="which is the most"):
        log.take(*keyed(rule("more", mute=True)), 1_000, START)
    assert log.take(*keyed(rule("r3", mute=True)), 1_001, START)  # it replaces
    assert log.forget(START + 10 * WINDOW)
    assert log.take(*keyed(rule("more", mute=True)), 1_002, START)
    names = [one.name for one in log.rules()]
    assert len(names) == MOST_RULES and names == sorted(names) and {"more", "r3"} < set(names)


def test_what_is_in_effect_follows_from_the_last_record_under_each_name() -> None:
    """Whatever has been written, refused records and other keys among it: compaction leaves no more than these."""
    ways: list[dict[str, Any]] = [
        {"mute": True},
        {"least_deviation": 2},
        {"channels": ["ops"]},
        {"removed": True},
        {"mute": "yes"},
        {"host": "h-1"},
        {"planned": True, "until": when(3)},
        {"planned": True, "until": when(60)},
    ]
    for seed in range(40):
        chance = random.Random(seed)
        born = (Rule(name="a", mute=True), Rule(name="d", mute=True), Rule(host="h", mute=True))
        written = [
            (
                number,
                START + number // 4 * WINDOW,
                *keyed(chance.choice([rule(name, **chance.choice(ways)), {"name": name}])),
            )
            for number in range(30)
            for name in chance.choice("abcd")
        ]
        last = {name: offset for offset, _, name, _ in written}
        left = [one for one in written if last[one[2]] == one[0]]
        for pinned in ((), born):
            whole, compacted = RuleLog(pinned), RuleLog(pinned)
            for log, records in ((whole, written), (compacted, left)):
                deque(take_all(log, records, WINDOW), maxlen=0)
                log.forget(START + 50 * WINDOW)
            assert [one.name for one in whole.rules()] == [one.name for one in compacted.rules()]
            assert {name: one.rule for name, one in whole.known.items()} == {
                name: one.rule for name, one in compacted.known.items()
            }


def test_a_record_that_is_no_rule_ends_the_rule_under_whose_name_it_is() -> None:
    rows = story(100, {range(60, 90): {CPU: 40.0}})
    shown = ("open", "anomaly")
    for no_rule in (VOID, rule(mute="yes"), rule(mute=True, hosts="h-1")):
        ended = played(rows, {20: [rule(mute=True)], 70: [no_rule]})
        first = next(n for n in ended.events if n.series == CPU)
        assert (first.status, first.window_end) == ("open", START + 71 * WINDOW)
        born = run(Rule(name="a", mute=True))
        assert played(rows, {70: [no_rule]}, born).events == []
        again = {20: [rule(host="h-2", mute=True)], 30: [no_rule]}
        assert played(rows, again, run(Rule(name="a", mute=True))).events == []
        assert of(CPU, played(rows, {20: [rule(mute=True)], 70: [no_rule | {"name": "b"}]})) == []
        assert of(CPU, ended)[0] == shown


def test_a_record_has_every_key_of_a_rule_and_comes_back_from_one() -> None:
    assert set(KEYS) <= set(fields_of(RuleRecord))
    keys: dict[str, Any] = {
        "name": "n",
        "host": "a*",
        "days": ["mon"],
        "hours": "22:00-06:00",
        "planned": True,
        "least_deviation": 2,
    }
    log = RuleLog()
    log.take(*keyed(record_text(keys, comment="why", author="me")), 0, START)
    (found,) = log.rules()
    assert dataclasses.replace(found, since=None) == Rule(**keys)
    assert found.span[0] == START


def test_a_rule_may_say_until_when_alone_and_must_not_have_ended_before_it_came() -> None:
    log = RuleLog()
    assert log.take(*keyed(rule(planned=True, until=when(5))), 0, START)
    with pytest.raises(ValueError, match="since before until"):
        log.take(*keyed(rule("b", mute=True, until=when(0))), 1, START + 10 * WINDOW)


def test_of_a_window_no_more_records_are_read_than_the_most_and_the_next_one_is_read_again() -> None:
    log, text = RuleLog(), json.dumps(record_text({"name": "a", "mute": True, "host": "vm-1"}))
    answers = [log.take("a", text, offset, START) for offset in range(MOST_A_WINDOW)]
    assert answers == [True, *[False] * (MOST_A_WINDOW - 1)]
    with pytest.raises(ValueError, match="more than 1000 records about rules in a window"):
        log.take("a", "not even JSON", MOST_A_WINDOW, START)
    assert log.take("a", text.replace("vm-1", "vm-2"), MOST_A_WINDOW + 1, START + WINDOW)
