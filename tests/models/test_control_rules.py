"""Rules by themselves: when they hold, which series they mean, what they refuse."""

from __future__ import annotations

import dataclasses
import json
import time
import tracemalloc
from datetime import UTC, datetime
from typing import Any

import pytest

from models.rules.rule import Rule, rule_of
from models.rules.table import RuleTable

WINDOW = 10_000


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


@pytest.mark.parametrize(
    ("window_end", "holds"),
    [
        ("2026-01-05T10:00:00Z", False),
        ("2026-01-05T10:00:10Z", True),
        ("2026-01-05T10:30:00Z", True),
        ("2026-01-05T10:30:10Z", True),  # the window has the first five seconds in it
        ("2026-01-05T10:30:20Z", False),
    ],
)
def test_a_rule_holds_in_every_window_that_overlaps_its_span(window_end: str, holds: bool) -> None:
    rule = Rule(mute=True, since="2026-01-05T10:00:00Z", until="2026-01-05T11:30:05+01:00")
    assert rule.holds(at(window_end), WINDOW) is holds


@pytest.mark.parametrize(
    ("window_end", "holds"),
    [
        ("2026-01-09T21:59:50+01:00", False),  # a Friday
        ("2026-01-09T22:00:10+01:00", True),
        ("2026-01-10T05:59:50+01:00", True),  # Saturday's morning belongs to Friday's night
        ("2026-01-10T06:00:20+01:00", False),
        ("2026-01-10T22:30:00+01:00", False),
        ("2026-07-10T22:30:00+02:00", True),  # the same hours in summer
        ("2026-07-10T21:30:00+02:00", False),
    ],
)
def test_hours_over_midnight_belong_to_the_day_on_which_they_begin(window_end: str, holds: bool) -> None:
    rule = Rule(mute=True, days=("fri",), hours="22:00-06:00", zone="Europe/Berlin")
    assert rule.holds(at(window_end), WINDOW) is holds


def test_a_long_window_counts_by_its_first_and_its_last_moment() -> None:
    rule = Rule(mute=True, hours="10:00-11:00")
    hour = 3_600_000
    assert [rule.holds(at(f"2026-01-05T{h}:30:00Z"), hour) for h in (10, 11, 12)] == [True, True, False]


@pytest.mark.parametrize(
    ("patterns", "series", "text", "meant"),
    [
        ({"host": "db-*"}, "gauge/db-1//cpu", None, True),
        ({"host": "db-*"}, "gauge/web-1//cpu", None, False),
        ({"host": "db-?", "metric": "disk.*"}, "gauge/db-1//disk.used{device=sda}", None, True),
        ({"metric": "disk.used"}, "gauge/h//disk.used{device=sda}", None, True),
        ({"metric": "disk.used{device=sdb}"}, "gauge/h//disk.used{device=sda}", None, False),
        ({"metric": "re:disk\\.used"}, "gauge/h//disk.used{device=sda}", None, False),
        ({"metric": "re:disk\\.used.*sda.*"}, "gauge/h//disk.used{device=sda}", None, True),
        ({"metric": "a/b"}, "gauge/h//a%2Fb", None, True),
        ({"metric": "*"}, "logs/h/web/info", None, False),  # a series without the part is not meant
        ({"service": "*"}, "gauge/h//cpu", None, False),
        ({"service": "re:.*"}, "gauge/h//cpu", None, False),
        ({"service": ""}, "gauge/h//cpu", None, True),
        ({"service": ""}, "service/h/", None, True),
        ({"service": ""}, "gauge/h/web/cpu", None, False),
        ({"service": ""}, "host/h", None, False),  # a kind that has no services
        ({"service": ""}, "fleet///hosts in shard 1", None, False),
        ({"level": ""}, "logs/h//", None, True),
        ({"level": ""}, "logs/h//info", None, False),
        ({"level": ""}, "gauge/h//cpu", None, False),
        ({"level": "error", "kind": "logs"}, "logs/h/web/error", None, True),
        ({"level": "error", "kind": "logs"}, "template/h/web/error/00aa", "x", False),
        ({"template": "00aa"}, "template/h/web/error/00aa", "lost <*>", True),
        ({"template": "lost *"}, "template/h/web/error/00aa", "lost <*>", True),
        ({"template": "lost *"}, "template/h/web/error/00aa", None, False),
        ({"host": "h", "kind": "host"}, "host/h", None, True),
        ({"host": "H"}, "host/h", None, False),
        ({}, "host/h", None, True),
    ],
)
def test_all_patterns_must_match(patterns: dict[str, Any], series: str, text: str | None, meant: bool) -> None:
    assert Rule(mute=True, **patterns).selector.matches(series, text) is meant


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ({"host": "h"}, "does nothing"),
        ({"mute": True, "colour": "red"}, "no key 'colour'"),
        ({"mute": True, "host": "re:("}, "no regular expression"),
        ({"mute": True, "since": "2026-01-05T10:00:00"}, "without a zone"),
        ({"mute": True, "since": "soon"}, "wanted an instant"),
        ({"mute": True, "since": "2026-01-05T10:00:00Z", "until": "2026-01-05T09:00:00Z"}, "since before until"),
        ({"mute": True, "days": ["friday"]}, "days has 'friday'"),
        ({"mute": True, "hours": "22-6"}, "hours is '22-6'"),
        ({"mute": True, "hours": "24:00-25:00"}, "hours is"),
        ({"mute": True, "zone": "Mars/Olympus"}, "zone is 'Mars/Olympus'"),
        ({"planned": True}, "without since and until would never learn; wanted both since and until, or days or hours"),
        ({"dont_learn": True, "since": "2026-01-05T10:00:00Z"}, "without until would never learn"),
        ({"planned": True, "until": "2026-01-05T10:00:00Z"}, "without since would never learn"),
        ({"reset": "2026-01-05T10:00:00Z", "days": ["mon"]}, "an instant of its own"),
        ({"direction": "sideways"}, "direction is 'sideways'"),
        ({"least_deviation": 0}, "least_deviation is 0"),
        ({"alarm_chance": 1.5}, "below 1"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_a_reason(rule: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        rule_of(rule)


def test_a_rule_comes_back_from_json() -> None:
    rule = Rule(
        host="a",
        planned=True,
        since=datetime(2026, 1, 5, 10, tzinfo=UTC),
        until="2026-01-05T12:00:00+01:00",
        days=("mon",),
    )
    assert rule_of(json.loads(json.dumps(dataclasses.asdict(rule)))) == rule
    assert rule.until == "2026-01-05T11:00:00Z"


def test_rules_cost_little_for_many_names_and_remember_none() -> None:
    names = [f"gauge/host-{i % 50}/web/some.metric.{i}{{disk={i}}}" for i in range(20_000)]
    rules = [Rule(mute=True, metric=f"re:.*[.]{i}[{{].*" if i % 2 else f"*.{i}", host="host-*") for i in range(60)]
    tracemalloc.start()
    table = RuleTable(rules)
    began = time.process_time()
    found = table.masks(names, {})
    seconds, kept = time.process_time() - began, tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert found.sum(axis=1).tolist() == [1] * 60
    assert (
        seconds < 5.0
    )  # nearly all of it tracemalloc's; with an expression for each name it was nine, and twice as long with this
    assert kept < 4_000_000  # 1.2 MB are the answers; where each pattern remembered its names, it was 200 MB
