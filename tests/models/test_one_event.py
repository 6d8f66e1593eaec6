"""What begins when an incident began is part of it; what goes back to where it was before a change is none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.incident_stories import at, brief, episode_event, incidents_of, play

from models.incidents.correlator import Correlator
from models.incidents.parameters import CorrelationParameters
from models.incidents.returns import MEMORY_MS, MOST, Returns, own_key
from models.records.records import EpisodeEvent, Watched

WATCHED = Watched(series=1_000, hosts=50, window_seconds=10.0, services={"": 50, "web": 20, "db": 5})
WEAK: dict[str, Any] = {"score": 12.0, "evidence": 12.0}
CALLER, CALLED = "gauge/a/web/latency", "gauge/b/db/queue"


def test_two_hosts_of_different_services_that_begin_within_a_minute_are_one_incident() -> None:
    story = [episode_event(CALLER, 1), episode_event(CALLED, 7)]
    story += [episode_event(CALLER, 9, "close", start=1), episode_event(CALLED, 20, "close", start=7)]
    incidents = incidents_of(story, watched=WATCHED)
    assert brief(incidents) == [(1, "open", "anomaly"), (7, "update", "anomaly"), (26, "close", "anomaly")]
    assert {i.id for i in incidents} == {incidents[0].id}
    last = incidents[-1]
    assert (last.start, last.end, last.hosts, last.services, last.novelties) == (
        at(1),
        at(20),
        ["a", "b"],
        ["db", "web"],
        2,
    )


def test_what_begins_later_is_an_incident_of_its_own() -> None:
    story = [episode_event(CALLER, 1), episode_event(CALLED, 8)]
    assert [i.hosts for i in incidents_of(story, until=8, watched=WATCHED)] == [["a"], ["b"]]


def test_an_incident_that_is_published_later_joins_by_when_it_began() -> None:
    story = [episode_event(CALLED, 1, **WEAK), episode_event(CALLER, 2)]
    story.append(episode_event(CALLED, 15, "update", start=1, score=30.0, evidence=30.0))
    incidents = incidents_of(story, until=15, watched=WATCHED)
    assert [(i.status, i.hosts) for i in incidents] == [("open", ["a"]), ("update", ["a", "b"])]


def test_one_that_has_closed_is_not_opened_again() -> None:
    story = [episode_event(CALLER, 1), episode_event(CALLER, 2, "close", start=1)]
    story += [episode_event(CALLED, 2, **WEAK), episode_event(CALLED, 15, "update", start=2, score=30.0, evidence=30.0)]
    incidents = incidents_of(story, until=15, watched=WATCHED)
    assert [(i.status, i.hosts) for i in incidents] == [("open", ["a"]), ("close", ["a"]), ("open", ["b"])]


@pytest.mark.parametrize(("minutes", "quiet_days", "joins"), [(2, 0, False), (2, 4, True), (30, 0, True)])
def test_where_incidents_are_frequent_a_minute_between_two_says_nothing(
    minutes: int, quiet_days: int, joins: bool
) -> None:
    every = 6 * minutes
    often = [episode_event(f"gauge/r{n:03}/s{n}/load", 1 + every * n) for n in range(150)]
    often += [
        episode_event(f"gauge/r{n:03}/s{n}/load", 2 + every * n, "close", start=1 + every * n) for n in range(150)
    ]
    now = every * 150 + 30 + 8_640 * quiet_days
    story = [episode_event(CALLER, now), episode_event(CALLED, now + 5)]
    found = [i for i in incidents_of([*often, *story], until=now + 5, watched=WATCHED) if i.start >= at(now)]
    assert [(i.status, i.hosts) for i in found] == [
        ("open", ["a"]),
        ("update", ["a", "b"]) if joins else ("open", ["b"]),
    ]


def test_a_joined_incident_ends_with_its_last_episode_after_a_restart_too() -> None:
    story = [episode_event(f"gauge/h{n}/s{n}/load", 1 + n) for n in range(2)]
    story += [episode_event(f"gauge/h{n}/s{n}/load", 20 + n, "close", start=1 + n) for n in range(2)]
    whole = incidents_of(story, watched=WATCHED)
    correlator = Correlator(CorrelationParameters())
    found = play(correlator, [e for e in story if e.window_end <= at(5)], 5, WATCHED)
    again = Correlator.load(correlator.dump(), CorrelationParameters())
    assert again.dump() == correlator.dump()
    for window in range(6, 41):
        found += again.step(at(window), [e for e in story if e.window_end == at(window)], WATCHED)
    assert found == whole
    assert [i.status for i in whole] == ["open", "update", "close"]


def level(
    window: int, value: float, status: str = "open", *, before: float = float("nan"), **more: object
) -> EpisodeEvent:
    """An event about the memory of host a, which was within 390 and 460, or within 600 and 800 after its change."""
    lower, upper = (390.0, 460.0) if more.pop("low", True) else (600.0, 800.0)
    return episode_event(
        "gauge/a/web/memory",
        window,
        status,
        value=value,
        lower=lower,
        upper=upper,
        part="level",
        before=before,
        after=value,
        **more,
    )


def adopted(window: int, value: float = 700.0, *, before: float = 420.0, low: bool = True) -> list[EpisodeEvent]:
    """A level that begins, is adopted 30 windows later, and is no episode any more."""
    return [
        level(window, value, low=low),
        level(window + 30, value, "update", before=before, kind="change", start=window, low=low),
        level(window + 31, value, "close", before=before, kind="change", start=window, low=low),
    ]


def test_a_series_that_goes_back_to_where_it_was_is_no_incident() -> None:
    story = adopted(1) + adopted(100, 425.0, before=700.0, low=False)
    incidents = incidents_of(story, until=200, watched=WATCHED)
    assert brief(incidents) == [(1, "open", "anomaly"), (31, "update", "change"), (38, "close", "change")]


def test_one_that_goes_elsewhere_is() -> None:
    story = adopted(1) + adopted(100, 1_200.0, before=700.0, low=False)
    assert [i.status for i in incidents_of(story, until=200, watched=WATCHED)] == ["open", "update", "close"] * 2


def test_one_that_goes_back_and_then_elsewhere_is() -> None:
    story = [*adopted(1), level(100, 425.0, low=False), level(110, 90.0, "update", start=100, low=False)]
    found = incidents_of(story, until=110, watched=WATCHED)[3:]
    assert brief(found) == [(110, "open", "anomaly")]


def test_the_same_change_again_is_an_incident_again() -> None:
    story = adopted(1) + adopted(100, 425.0, before=700.0, low=False) + adopted(200)
    opened = [i for i in incidents_of(story, until=300, watched=WATCHED) if i.status == "open"]
    assert [i.window_end for i in opened] == [at(1), at(200)]


def test_what_has_been_so_for_more_than_a_day_is_the_usual() -> None:
    day = MEMORY_MS // 10_000
    for later, opened in ((day - 5, 1), (day + 40, 2)):
        story = adopted(1) + adopted(31 + later, 425.0, before=700.0, low=False)
        found = [i for i in incidents_of(story, until=31 + later + 40, watched=WATCHED) if i.status == "open"]
        assert len(found) == opened


ERRORS = "request <*> failed"
RATE = {"template": ERRORS, "part": "rate", "unit": "lines/min"}
SHARE = {"template": ERRORS, "part": "mix", "unit": "%"}


def mix(window: int, value: float, lower: float, upper: float, host: str = "a", template: str = ERRORS) -> EpisodeEvent:
    """The mix of templates of a host is strange, first of all the share of one."""
    more = SHARE | {"template": template}
    return episode_event(f"service/{host}/web", window, value=value, lower=lower, upper=upper, **more)


def test_a_mix_that_returns_with_the_rate_of_a_template_is_no_incident() -> None:
    series = "template/a/web/error/4f"
    story = [
        episode_event(series, 1, value=20.0, lower=0.0, upper=3.0, **RATE),
        episode_event(series, 60, "update", start=1, kind="change", value=20.0, lower=0.0, upper=3.0, before=0.2, after=20.0, **RATE),
        episode_event(series, 61, "close", start=1, kind="change", value=20.0, lower=0.0, upper=3.0, before=0.2, after=20.0, **RATE),
    ]  # fmt: skip
    for event, opened in (
        (mix(200, 0.5, 20.0, 60.0), 1),
        (mix(200, 80.0, 20.0, 60.0), 2),  # rarer it was, not more frequent
        (mix(200, 0.5, 20.0, 60.0, host="b"), 2),
        (mix(200, 0.5, 20.0, 60.0, template="another"), 2),
    ):
        found = incidents_of([*story, event], until=201, watched=WATCHED)
        assert len({i.id for i in found}) == opened, event


def test_returns_on_many_hosts_at_once_are_no_incident_either() -> None:
    changes = [
        replace(e, id=f"{host}{e.id}", series=f"gauge/{host}/web/memory", host=host)
        for host in "abcd"
        for e in adopted(1)
    ]
    returns = [
        replace(e, id=f"{host}{e.id}", series=f"gauge/{host}/web/memory", host=host)
        for host in "abcd"
        for e in adopted(100, 425.0, before=700.0, low=False)
    ]
    found = incidents_of([*changes, *returns], until=200, watched=WATCHED)
    assert {i.id for i in found} == {found[0].id}


def test_a_bounded_number_of_changes_is_remembered_and_for_two_days() -> None:
    returns, change = Returns(), adopted(1)[1]
    many = [replace(change, series=f"gauge/h{n:06}/web/memory", window_end=at(31 + n)) for n in range(MOST + 5)]
    returns.learn(many, at(31 + MOST))
    names = sorted(returns.changes)
    assert len(names) == MOST
    assert own_key(replace(change, series="gauge/h000005/web/memory")) == names[0]
    returns.learn([replace(change, window_end=at(40) + 2 * MEMORY_MS)], at(40) + 2 * MEMORY_MS)
    assert min(change.at for change in returns.changes.values()) == at(40)


@pytest.mark.parametrize("part", ["spread", "stuck", "roughness", "peers", "limit"])
def test_what_is_no_matter_of_the_value_is_no_return(part: str) -> None:
    returns, change = Returns(), adopted(1)[1]
    returns.learn([replace(change, part=part)], at(31))
    assert not returns.changes
    returns.learn([change], at(31))
    back = level(100, 425.0, low=False)
    assert returns.is_return(back)
    assert not returns.is_return(replace(back, part=part))


def test_a_change_within_what_was_expected_is_not_remembered() -> None:
    """A series that is adopted at 455, where 390 to 460 was expected, and is stuck there has not gone back."""
    returns = Returns()
    returns.learn([adopted(1, 455.0)[1]], at(31))
    assert not returns.changes
    returns.learn([replace(adopted(1)[1], lower=float("-inf"))], at(31))
    assert not returns.changes


def test_nearer_to_where_it_is_than_to_where_it_was_is_no_return() -> None:
    returns = Returns()
    returns.learn([adopted(1, 470.0)[1]], at(31))
    assert returns.is_return(level(100, 440.0, low=False))
    assert not returns.is_return(level(100, 459.0, low=False))


@pytest.mark.parametrize("wait", [1, 6, 7, 20])
def test_a_return_whose_end_comes_late_is_none_either(wait: int) -> None:
    opened, update, close = adopted(100, 425.0, before=700.0, low=False)
    late = replace(close, window_end=update.window_end + 10_000 * wait)
    found = incidents_of([*adopted(1), opened, update, late], until=200, watched=WATCHED)
    assert brief(found) == [(1, "open", "anomaly"), (31, "update", "change"), (38, "close", "change")]


def test_a_return_that_was_forgotten_among_many_members_is_no_evidence_when_it_is_back() -> None:
    weak: dict[str, Any] = {"score": 5.0, "evidence": 5.0}
    story = [*adopted(1), level(100, 425.0, low=False), episode_event("gauge/a/web/cpu", 100, **weak)]
    story.append(episode_event("gauge/a/web/cpu", 101, "update", start=100, score=6.0, evidence=12.0))
    story += [level(window, 425.0, "update", start=100, low=False, score=40.0, evidence=90.0) for window in (110, 120)]
    for remembered in (1, 500):
        assert len(incidents_of(story, until=121, watched=WATCHED, max_members=remembered)) == 3


def test_a_limit_is_part_of_no_other_incident_and_the_other_way_round() -> None:
    limit = episode_event("host/z", 1, part="limit", kind="new", score=90.0, evidence=90.0)
    story = [limit, episode_event(CALLER, 2), episode_event(CALLER, 10, "close", start=2)]
    for first in (story, [replace(limit, window_end=at(3)), *story[1:]]):
        incidents = incidents_of(first, until=40, watched=WATCHED)
        assert {tuple(i.hosts) for i in incidents} == {("z",), ("a",)}


def test_what_began_first_is_when_the_incident_began_unless_that_is_published() -> None:
    story = [episode_event(CALLED, 1, **WEAK), episode_event(CALLER, 4, **WEAK)]
    story += [
        episode_event(series, 5, "update", start=start, score=30.0, evidence=30.0)
        for series, start in ((CALLED, 1), (CALLER, 4))
    ]
    (incident,) = incidents_of(story, until=5, watched=WATCHED)
    assert (incident.start, incident.hosts) == (at(1), ["a", "b"])


def test_a_service_that_is_down_is_so_in_the_incident_of_another_host() -> None:
    watched = Watched(series=1_000, hosts=50, window_seconds=10.0, services={"": 50, "web": 40, "db": 5})
    down = [episode_event(f"gauge/db-{n}/db/load", 2, score=40.0, evidence=40.0) for n in range(5)]
    alone = incidents_of(down, until=2, watched=watched)[-1]
    joined = incidents_of([episode_event("gauge/w/web/cpu", 1), *down], until=2, watched=watched)[-1]
    assert (alone.affected, alone.population, alone.share) == (joined.affected, joined.population, joined.share)
    assert (joined.population, joined.severity) == (5, alone.severity)
    assert "w" in joined.hosts
