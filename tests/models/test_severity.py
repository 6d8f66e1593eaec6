"""Severity: worse with rarer, wider and longer trouble; stories of it from the correlator."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.incident_stories import CPU, at, brief, episode_event, incidents_of

from models.incidents.severity import LEAST, severity
from models.records.records import SEVERITIES, Watched

MANY = Watched(series=10_000, hosts=1_000, window_seconds=10.0, services={"web": 1_000})
KINDS = ("anomaly", "silence", "change", "new")
SECONDS = {"minute": 60.0, "hour": 3600.0}
often = st.floats(1e-30, 10.0)
hosts = st.integers(1, 100_000)
seconds = st.floats(0, 1e6)


@given(st.sampled_from(KINDS), st.none() | often | st.just(0.0), hosts, hosts, seconds)
def test_severity_has_0_to_100_points_and_the_word_of_its_points(
    kind: str, chance: float | None, touched: int, population: int, lasted: float
) -> None:
    found = severity(kind, chance, touched, min(touched / population, 1.0), lasted)
    assert 0 <= found.points <= 100
    assert found.word == next(word for word, least in LEAST if found.points >= least)
    assert found.word in SEVERITIES


@given(st.sampled_from(KINDS), often, often, hosts, hosts, seconds, seconds)
def test_what_is_rarer_wider_and_longer_is_never_less_severe(
    kind: str, one: float, other: float, few: int, more: int, short: float, long: float
) -> None:
    low = severity(kind, max(one, other), min(few, more), min(few, more) / 100_000, min(short, long))
    high = severity(kind, min(one, other), max(few, more), max(few, more) / 100_000, max(short, long))
    assert high.points >= low.points


@given(st.none() | often, st.integers(10, 100_000), seconds)
def test_one_host_of_many_is_never_critical(chance: float | None, population: int, lasted: float) -> None:
    assert severity("silence", chance, 1, 1 / population, lasted).word != "critical"


def test_most_hosts_of_a_service_are_critical_at_once() -> None:
    assert severity("anomaly", 1e-6, 40, 0.8, 0.0).word == "critical"
    assert severity("silence", 1e-6, 2, 1.0, 0.0).word == "critical"


@given(st.sampled_from(("anomaly", "silence")), st.none() | often, hosts, hosts, seconds)
def test_what_may_have_to_be_repaired_is_at_least_minor_from_its_first_moment(
    kind: str, chance: float | None, touched: int, population: int, lasted: float
) -> None:
    assert severity(kind, chance, touched, min(touched / population, 1.0), lasted).word != "info"


def test_something_new_is_at_most_minor_however_wide_it_is() -> None:
    assert severity("change", 0.0, 100_000, 1.0, 1e6).word == "minor"
    assert severity("new", 1e-6, 1, 0.05, 0.0).word == "info"


def test_table_of_the_documentation_is_what_the_function_says() -> None:
    page = (Path(__file__).parents[2] / "docs" / "alerts.md").read_text()
    row = r"^\| (\w+) \| ([\d,]+) days? \| (\d+) of (\d+) \| (\d+) (minute|hour)s? \| (\w+), (\d+) \|$"
    rows = re.findall(row, page, re.M)
    assert {kind for kind, *_ in rows} == set(KINDS)
    for kind, days, touched, population, lasts, unit, word, points in rows:
        chance, seconds = 1 / int(days.replace(",", "")), int(lasts) * SECONDS[unit]
        found = severity(kind, chance, int(touched), int(touched) / int(population), seconds)
        assert (found.word, found.points) == (word, int(points)), kind


def test_hosts_of_another_service_are_no_share_of_those_with_the_first_one() -> None:
    """On host `a` runs the only `x`, on a hundred hosts `y`: both are slow on `a`, then `y` on `b`."""
    fleet = Watched(series=10_000, hosts=1_000, window_seconds=10.0, services={"x": 1, "y": 100})
    story = [
        episode_event("gauge/a/x/latency", 1, score=40.0, evidence=40.0),
        episode_event("gauge/a/y/latency", 1, score=20.0, evidence=20.0),
        episode_event("gauge/b/y/latency", 2, score=20.0, evidence=20.0),
    ]
    found = incidents_of(story, until=3, watched=fleet)[-1]
    assert found.hosts == ["a", "b"]
    assert found.severity == "major"


def test_an_incident_is_published_again_when_it_becomes_worse_by_lasting() -> None:
    steady: dict[str, Any] = {"evidence": 22.0, "score": 24.0}
    story = [episode_event(CPU, 1, **steady)]
    story += [episode_event(CPU, window, "update", start=1, **steady) for window in (200, 400)]
    found = incidents_of(story, until=401, watched=MANY)
    assert brief(found)[:2] == [(1, "open", "anomaly"), (200, "update", "anomaly")]
    words = [one.severity for one in found]
    assert words == sorted(words, key=SEVERITIES.index)
    assert words[0] != words[1]
    assert found[1].severity_points > found[0].severity_points


def test_the_sentence_of_an_incident_does_not_say_how_sure_one_of_its_series_is() -> None:
    # A log line may say so.
    sentence = "template '50 % sure (provisional), 3 % sure' is new"
    (found,) = incidents_of([episode_event(CPU, 1, reason=sentence, certainty=0.11)], until=2)
    assert found.reason == found.series[0].reason == f"vm-003: {sentence}"
    assert found.start == at(1)
