"""`kappa rules`: what a file of rules becomes, what changes, and what is refused before anything is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.keyed_rules import KEYED_RULES, is_rule
from support.rule_stories import keyed, rule

from app.cli.config import KnownSeries
from app.cli.rule_files import rules_in
from app.cli.rules import CHANGED, NEW, SAME, difference, doubtful, removal
from app.core.settings import load
from app.kafka.heartbeats import HEARTBEAT_KEY
from app.kafka.rule_topic import AppendedRule, RulesNow, RuleTopic, name_of, rule_text
from models.rules.rule import Rule
from models.rules.rule_log import MOST_RULES, RuleLog
from pipelines.errors import InputError

MONDAY, HOUR, WINDOW = 1_767_571_200_000, 3_600_000, 10_000  # 2026-01-05
FILE = """
[[rules]]
name = "nightly backup"
host = "db-*"
mute = true
days = ["mon", "fri"]
hours = "22:00-04:00"
zone = "Europe/Berlin"

[[rules]]
name = "rack"
host = "web-1?"
planned = true
since = 2026-03-03T09:00:00+01:00
until = 2026-03-03T11:30:00+01:00
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "rules.toml"
    file.write_text(text)
    return file


def topic_of(*written: tuple[int, dict[str, Any]]) -> RuleTopic:
    """The topic, with these records that were appended then."""
    found = [AppendedRule(at, when, when, *keyed(record)) for at, (when, record) in enumerate(written)]
    return RuleTopic(len(found), tuple(found), WINDOW)


def after(records: list[dict[str, Any]], now: int = MONDAY) -> RulesNow:
    """What the topic says now of records that were appended on Monday."""
    return topic_of(*((MONDAY, record) for record in records)).in_effect(now)


def words(rules: RulesNow, *records: dict[str, Any]) -> list[str]:
    return [one.word for one in difference(rules, records)]


def test_a_file_becomes_records_with_instants_in_utc(tmp_path: Path) -> None:
    found = rules_in(written(tmp_path, FILE), author="me")
    assert found[1] == {
        "record": "rule",
        "name": "rack",
        "host": "web-1?",
        "planned": True,
        "since": "2026-03-03T08:00:00Z",
        "until": "2026-03-03T10:30:00Z",
        "author": "me",
    }
    assert json.loads(after(found).known["nightly backup"].rule)["days"] == ["mon", "fri"]


def test_since_is_given_to_rules_that_do_not_say_it(tmp_path: Path) -> None:
    found = rules_in(written(tmp_path, FILE), "2026-03-01T00:00:00Z")
    assert [one["since"] for one in found] == ["2026-03-01T00:00:00Z", "2026-03-03T08:00:00Z"]


def test_what_is_in_effect_as_the_file_has_it_is_not_written_again(tmp_path: Path) -> None:
    first = rules_in(written(tmp_path, FILE))
    changed = rules_in(written(tmp_path, FILE.replace("db-*", "db-?") + '\n[[rules]]\nname = "x"\nmute = true\n'))
    known = after(first)
    assert words(known, *first) == [SAME, SAME]
    assert [(one.word, one.name) for one in difference(known, changed)] == [
        (CHANGED, "nightly backup"),
        (SAME, "rack"),
        (NEW, "x"),
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("rules = 3", "wanted tables .* it has rules in another form"),
        ("[rules]", "wanted tables"),
        ("", "wanted tables .* it has no such table"),
        ('[[control.rules]]\nname = "a"', "it has 'control'"),
        ("not TOML", "cannot be read"),
        (f'[[rules]]\nname = "x"\nhost{".a" * 3_000} = 1', "rule 'x'"),
        ("[[rules]]\nmute = true", "rule 1 has no name"),
        ('[[rules]]\nnam = "a"\nmute = true', "rule 1: no key 'nam' in a rule, did you mean name?"),
        ('[[rules]]\nname = "a"\nmuted = true', "rule 'a': no key 'muted' in a rule, did you mean mute?"),
        ('[[rules]]\nname = "a"\nmute = "yes"', "rule 'a': mute is 'yes'; wanted true or false"),
        ('[[rules]]\nname = "a"\nhost = 3\nmute = true', "rule 'a': host is 3; wanted text"),
        ('[[rules]]\nname = "a"\nchannels = "ops"', "rule 'a': channels is 'ops'; wanted a list of text"),
        ('[[rules]]\nname = "a"\nlabels = 3\nchannels = []', "rule 'a': labels is 3; wanted an object"),
        ('[[rules]]\nname = "a"\nmute = true\nsince = 2026-03-03', "since is a day without a time"),
        ('[[rules]]\nname = "a"\nmute = true\n[[rules]]\nname = "a"\nmute = true', "two rules have the name 'a'"),
        ('[[rules]]\nname = "a"\nplanned = true', "would never learn"),
        (
            '[[rules]]\nname = "a"\nmute = true\nlevel = "eror"',
            "rule 'a': level is 'eror', .* there are trace, debug, info, warn",
        ),
        ('[[rules]]\nname = "a"\nmute = true\nlevel = "ERROR"', "level is 'ERROR', which no series has"),
        ('[[rules]]\nname = "a"\nmute = true\nkind = "gage"', "kind is 'gage', .* there are gauge, counter"),
        ('[[rules]]\nname = "a"\nmute = true\nhost = ""', "host is empty"),
        ('[[rules]]\nname = "a"\nmute = true\nhost = "re:"', "host is empty"),
        ('[[rules]]\nname = "a"\nmute = true\nservice = "re:"', "service is empty"),
        ('[[rules]]\nname = "a"\nmute = true\nkind = ""', "kind is empty"),
        ('[[rules]]\nname = "a"\nmute = true\nkind = "host"\nservice = ""', "no series of kind 'host' has service"),
        (
            '[[rules]]\nname = "a"\nmute = true\nmetric = "m"\nlevel = "info"',
            "no series has metric and level; there are",
        ),
        ('[[rules]]\nname = "a"\nmute = true\nmetric = "m"\nkind = "logs"', "no series of kind 'logs' has metric"),
        ('[[rules]]\nname = "a"\nmute = true\ndays = ["monday"]', "days has 'monday'; wanted some of mon, tue"),
        (
            '[[rules]]\nname = "a"\nmute = true\ndirection = "upp"',
            "no key 'direction'|direction is 'upp'; wanted up, down",
        ),
        ('[[rules]]\nname = "a"\nchannels = []\nseverity = "high"', "severity has 'high'; wanted info, minor"),
        ('[[rules]]\nname = "a"\nchannels = []\nkinds = ["outage"]', "kinds has 'outage'; wanted"),
        ('[[rules]]\nname = "a"\nchannels = []\nservice = ""', "service is empty"),
        ('[[rules]]\nname = "a"\nchannels = []\nlabels = {zone = ""}', "labels.zone is empty"),
        ('[[rules]]\nname = "a"\nmute = true\nsince = 2026-03-03T09:00:00', "without a zone"),
        ('[[rules]]\nname = "a"\nmute = true\nhours = 09:00:00', "rule 'a'"),
        ('[[rules]]\nname = "a"\nmute = true\nhost = "re:(a+)+{9}"', "counts repetitions"),
        ('[[rules]]\nname = "a"\nmute = true\ncomment = "' + "ä" * 3_000 + '"', "bytes as JSON; wanted at most"),
        (
            "\n".join(f'[[rules]]\nname = "{i}"\nmute = true' for i in range(MOST_RULES + 1)),
            f"wanted at most {MOST_RULES}",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        rules_in(written(tmp_path, text))


def test_more_rules_than_there_may_be_are_refused() -> None:
    known = after([{"record": "rule", "name": f"r{i}", "mute": True} for i in range(MOST_RULES - 1)])
    more = [{"record": "rule", "name": f"x{i}", "mute": True} for i in range(2)]
    assert len(difference(known, more[:1])) == 1
    with pytest.raises(InputError, match="remove some first"):
        difference(known, more)


def test_rules_that_have_ended_are_neither_listed_nor_counted_and_make_room_when_jobs_forget_them() -> None:
    ended = [rule(f"r{i}", mute=True, until="2026-01-05T00:30:00Z") for i in range(MOST_RULES)]
    before, after_it, next_hour = (after(ended, MONDAY + part) for part in (0, HOUR // 2, HOUR))
    assert (len(before.known), before.room) == (MOST_RULES, 0)
    assert (len(after_it.known), after_it.room) == (0, 0)
    assert (len(next_hour.known), next_hour.room) == (0, MOST_RULES)
    more = rule("more", mute=True)
    for when, taken in ((MONDAY + HOUR // 2, False), (MONDAY + HOUR, True)):
        later = topic_of(*((MONDAY, one) for one in ended), (when, more)).in_effect(when)
        assert ("more" in later.known) is taken, "there is the room that jobs have"
    assert words(next_hour, more) == [NEW]
    with pytest.raises(InputError, match="1 rule more than the 256 that are there"):
        difference(after_it, [more])


OVER = rule("over", mute=True, until="2026-01-05T00:30:00Z")
RESET = rule("over", host="h-1", reset="2025-12-01T00:00:00Z")


OTHER = (MONDAY + HOUR, rule("other", mute=True))


@pytest.mark.parametrize("ended", [OVER, RESET])
def test_a_rule_that_has_ended_is_not_written_again(ended: dict[str, Any]) -> None:
    """A reset that is written again removes what has been learnt since."""
    for now in (MONDAY + WINDOW, MONDAY + HOUR, MONDAY + 40 * 24 * HOUR):
        for topic in (topic_of((MONDAY, ended)), topic_of((MONDAY, ended), OTHER)):
            assert words(topic.in_effect(now), ended | {"comment": "why"}) == [SAME]
    rules = topic_of((MONDAY, ended), OTHER).in_effect(MONDAY + 2 * HOUR)
    assert rules.known.keys() == {"other"}
    (found,) = difference(rules, [ended])
    assert (found.word, found.before) == (SAME, ""), "--again writes what is in effect"


@pytest.mark.parametrize("ended", [OVER | {"since": "2026-01-05T00:00:00Z"}, RESET])
def test_a_rule_that_has_ended_is_written_where_it_is_changed_or_another_record_came_later(
    ended: dict[str, Any],
) -> None:
    later = MONDAY + 2 * HOUR
    assert words(topic_of((MONDAY, ended), OTHER).in_effect(later), ended | {"host": "h-2"}) == [NEW]
    for last in (rule("over", removed=True), {"name": "over"}, rule("over", mute="yes"), rule("over", mute=True)):
        assert words(topic_of((MONDAY, ended), OTHER, (later, last)).in_effect(later), ended) in ([NEW], [CHANGED])


@pytest.mark.parametrize("keys", [{"mute": True}, {"host": "h-1", "planned": True}, {"channels": ["ops"]}])
def test_what_jobs_would_refuse_because_it_is_over_is_refused_before_it_ends_the_rule_of_its_name(
    keys: dict[str, Any],
) -> None:
    over, now = rule("a", **keys, until="2026-01-05T00:30:00Z"), MONDAY + HOUR
    why = "rule 'a' was over at 2026-01-05T00:30:00Z; wanted a later `until`, or a `since` before it"
    for known in (topic_of(), topic_of((MONDAY, rule("a", mute=True)))):
        rules = known.in_effect(now)
        with pytest.raises(InputError, match=why):
            difference(rules, [rule("b", mute=True), over])
        for fine in (over | {"since": "2026-01-05T00:00:00Z"}, over | {"until": "2026-01-05T01:00:01Z"}):
            (found,) = difference(rules, [fine])
            text = json.dumps(found.record)
            assert found.word in (NEW, CHANGED) and RuleLog().take("a", text, 1, now), "jobs take what is written"


def test_a_rule_that_matches_no_series_is_doubtful_and_so_is_one_that_another_one_changes() -> None:
    known: KnownSeries = {"gauge/web-1.example.net/web/cpu": None, "gauge/db-1.example.net/db/cpu": None}
    matches = {"record": "rule", "name": "b", "host": "web-1.*", "metric": "cpu", "least_deviation": 2.0}
    misspelt = {"record": "rule", "name": "misspelt", "host": "web-1.*", "metric": "cpus", "mute": True}
    short = {"record": "rule", "name": "short", "host": "web-1", "mute": True}
    route = {"record": "rule", "name": "route", "host": "nobody", "channels": []}
    nothing = "matches no series that is known"
    assert doubtful([matches, misspelt, route, short], MONDAY, known) == [f"misspelt {nothing}", f"short {nothing}"]
    earlier = {**matches, "name": "a", "least_deviation": 3.0}
    (line,) = doubtful([matches, earlier], MONDAY, known)
    assert line.endswith("the later one, b, counts"), "in the order of their names"
    assert doubtful([misspelt], MONDAY, {}) == [], "nothing is known of a log that is empty"


def test_rules_of_the_log_and_of_the_settings_can_be_ended_and_no_others() -> None:
    settings = load(control={"rules": (Rule(name="born", mute=True),)})
    known = after([{"record": "rule", "name": "a", "mute": True}]).known
    found = removal(settings, known, ["a", "born"], "2026-03-01T00:00:00Z")
    assert found[1] == {"record": "rule", "name": "born", "removed": True, "since": "2026-03-01T00:00:00Z"}
    with pytest.raises(InputError, match="there is no rule 'b'"):
        removal(settings, known, ["a", "b"], None)


def test_no_spelling_hides_a_rule_that_takes_effect() -> None:
    hidden = rb'{"rec\u006frd":"rul\u0065","name":"a","mute":true}'
    log = RuleLog()
    assert log.take("a", hidden.decode(), 0, 0)
    assert rule_text("a", hidden) == hidden.decode()
    assert rule_text("a", b'{"record":"heartbeat"}') is None
    assert rule_text("a", None) is None
    assert name_of(HEARTBEAT_KEY) is None


@pytest.mark.parametrize("what", KEYED_RULES)
def test_what_is_under_another_key_than_its_name_is_no_rule(what: str) -> None:
    """`tests/streaming/test_rule_lines.py` has the same records for `extract`."""
    key, value, expected = KEYED_RULES[what]
    name = name_of(key)
    assert (name is not None and is_rule(rule_text(name, value))) is expected
