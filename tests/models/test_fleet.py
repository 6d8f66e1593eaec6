"""What many hosts do at once is one incident."""

import math
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from scipy.stats import poisson
from support.incident_stories import at, brief, episode_event, incidents_of, play

from models.incidents.correlator import Correlator
from models.incidents.fleet import Cluster, Onsets, find_clusters
from models.incidents.parameters import CorrelationParameters
from models.records.records import EpisodeEvent, Watched, total

WATCHED = Watched(series=60_000, hosts=1_200, window_seconds=10, services={"": 1_200, "web": 1_100})
STRONG = 60.0
NOISE: dict[str, Any] = {"evidence": 25.0, "score": 25.0}
WEAK: dict[str, Any] = {"evidence": 12.0, "score": 12.0}


def test_a_thousand_hosts_are_one_incident_with_honest_counts() -> None:
    names = [f"gauge/h{n:04}//load" for n in range(1_000)]
    story = [episode_event(name, 1 + n % 4, evidence=STRONG) for n, name in enumerate(names)]
    story += [episode_event(name, 20 + n % 5, "close", start=1 + n % 4) for n, name in enumerate(names)]
    incidents = incidents_of(story, until=60, watched=WATCHED, max_members=100)
    assert len({i.id for i in incidents}) == 1
    assert [i.status for i in incidents] == ["open", "update", "update", "update", "close"]
    last = incidents[-1]
    assert (last.scope, last.affected, last.population, last.novelties) == ("fleet", 1_000, 1_200, 1_000)
    assert last.share == 1_000 / 1_200
    assert len(last.hosts) == 100
    assert last.reason.startswith("1,000 of 1,200 hosts at once: ")


def test_the_state_of_a_storm_is_bounded() -> None:
    story = [episode_event(f"gauge/h{n:05}//load", 1, evidence=STRONG) for n in range(3_000)]
    correlator = Correlator(CorrelationParameters(max_members=100, max_hosts=500))
    (incident,) = correlator.step(at(1), story, WATCHED)
    assert (incident.affected, incident.novelties) == (500, 3_000)
    assert len(correlator.dump()) < 80_000


def test_an_incident_is_not_over_while_an_episode_goes_on_that_it_has_forgotten() -> None:
    names = [f"host/h{n:03}" for n in range(300)]
    story = [episode_event(name, 1, kind="silence", evidence=STRONG) for name in names]
    story += [episode_event(name, 50, "close", start=1, kind="silence") for name in names[:100]]
    story += [episode_event(names[250], 90, "update", start=1, kind="silence", evidence=2 * STRONG)]
    story += [episode_event(name, 200, "close", start=1, kind="silence") for name in names[100:]]
    found = incidents_of(story, until=300, watched=WATCHED, max_members=100)
    assert [(i.id, i.status) for i in found if i.status != "update"] == [(found[0].id, "open"), (found[0].id, "close")]
    assert (found[-1].end, found[-1].novelties) == (at(200), 300)
    correlator = Correlator(CorrelationParameters(max_members=100))
    whole = [i for w in range(80) for i in correlator.step(at(w), [e for e in story if e.window_end == at(w)], WATCHED)]
    again = Correlator.load(correlator.dump(), CorrelationParameters(max_members=100))
    whole += [
        i for w in range(80, 301) for i in again.step(at(w), [e for e in story if e.window_end == at(w)], WATCHED)
    ]
    assert whole == found


def test_the_population_of_a_role_are_the_hosts_with_its_service() -> None:
    story = [episode_event(f"gauge/{host}/web/latency", 1, evidence=STRONG) for host in "abc"]
    (incident,) = incidents_of(story, until=1, watched=WATCHED)
    assert (incident.scope, incident.affected, incident.population) == ("fleet", 3, 1_100)
    assert incident.reason.startswith("3 of 1,100 hosts with web at once: a: latency is strange")


def test_what_the_same_hosts_do_next_is_the_same_incident() -> None:
    names = [f"h{n}" for n in range(20)]
    story = [episode_event(f"service/{host}/web", 1, evidence=STRONG) for host in names]
    story += [episode_event(f"template/{host}/web/error/aa", 2, evidence=STRONG) for host in names[:15]]
    story += [episode_event(f"gauge/{host}//disk", 12, evidence=STRONG) for host in ("x", "y", "z", "h0")]
    incidents = incidents_of(story, until=13, watched=WATCHED)
    assert [(i.status, i.scope, i.novelties) for i in incidents] == [
        ("open", "fleet", 20),
        ("update", "fleet", 35),
        ("open", "fleet", 4),
    ]


def test_a_fault_an_hour_after_a_metric_was_renamed_on_all_hosts_is_an_incident_of_its_own() -> None:
    names = [f"h{n}" for n in range(20)]
    story = [episode_event(f"gauge/{host}//load", 1, kind="silence", evidence=STRONG) for host in names]
    story += [episode_event(f"gauge/{host}//load.1", 1, "close", kind="change", part="new metric") for host in names]
    story += [episode_event(f"gauge/{host}/web/latency", 360, evidence=STRONG) for host in names[:3]]
    story += [episode_event(f"host/{names[9]}", 720, kind="silence", evidence=STRONG)]
    # an episode that had been forgotten and is back is no younger for that
    again = {"start": 1, "kind": "silence", "evidence": 2 * STRONG}
    story += [episode_event(f"gauge/{host}//load", 700, "update", **again) for host in names[5:]]
    incidents = incidents_of(story, until=721, watched=WATCHED, max_members=15)
    assert [(i.window_end, i.scope, i.affected) for i in incidents if i.status == "open"] == [
        (at(1), "fleet", 20),
        (at(360), "fleet", 3),
        (at(720), "host", 1),
    ]


def upgrade(ended: int, begun: int, later: int = 0) -> list[EpisodeEvent]:
    """On each of 20 hosts metrics end, and others begin so many windows later."""
    names = [f"h{n:02}" for n in range(20)]
    story = [
        episode_event(f"gauge/{host}//new-{n}", 1 + later, "close", start=1 + later, kind="change", part="new metric")
        for host in names
        for n in range(begun)
    ]
    story += [
        episode_event(f"gauge/{host}//old-{n}", 5 + later, "open", start=1, kind="silence", evidence=STRONG)
        for host in names
        for n in range(ended)
    ]
    return story + [
        episode_event(f"gauge/{host}//old-0", 40, "update", start=1, kind="silence", evidence=2 * STRONG)
        for host in names
    ]


@pytest.mark.parametrize("remembered", [500, 30])
def test_metrics_that_end_as_others_begin_are_a_change_of_what_is_collected(remembered: int) -> None:
    incidents = incidents_of(upgrade(2, 3), until=41, watched=WATCHED, max_members=remembered)
    assert {(i.kind, i.severity) for i in incidents} <= {("change", "info"), ("change", "minor")}
    assert (incidents[-1].affected, incidents[-1].novelties, len({i.id for i in incidents})) == (20, 100, 1)


def test_a_fault_among_metrics_that_are_replaced_is_none_of_them() -> None:
    story = [*upgrade(2, 3), *(episode_event(f"host/h{n:02}", 8, kind="silence", evidence=STRONG) for n in range(20))]
    last = incidents_of(story, until=41, watched=WATCHED)[-1]
    assert (last.kind, last.severity) == ("silence", "critical")


@pytest.mark.parametrize(("ended", "begun", "later"), [(1, 0, 0), (3, 2, 0), (1, 1, 31)])
def test_metrics_that_end_without_as_many_that_begin_are_a_silence(ended: int, begun: int, later: int) -> None:
    last = incidents_of(upgrade(ended, begun, later), until=41, watched=WATCHED)[-1]
    assert (last.kind, last.severity) == ("silence", "critical")


def test_an_incident_says_how_many_of_its_peers_do_the_same() -> None:
    story = [
        episode_event("gauge/a/web/latency", 1, evidence=STRONG),
        episode_event("gauge/a//load", 1, evidence=STRONG / 2),
    ]
    story += [
        episode_event("gauge/b/web/latency", 9, evidence=STRONG),
        episode_event("host/c", 30, kind="silence", evidence=STRONG),
    ]
    incidents = incidents_of(story, until=30, watched=WATCHED)
    assert [(i.scope, i.population, i.reason) for i in incidents] == [
        ("host", None, "a: latency is strange (+1 series); on 1 of 1,100 hosts with web"),
        ("hosts", None, "a: latency is strange (+2 series, 2 hosts); on 2 of 1,100 hosts with web"),
        ("host", None, "c: it is strange; on 1 of 1,200 hosts"),
    ]


def test_two_hosts_are_one_incident_and_no_fleet() -> None:
    story = [episode_event(f"gauge/{host}//load", 1, evidence=STRONG) for host in "ab"]
    assert [(i.scope, i.hosts) for i in incidents_of(story, until=1, watched=WATCHED)] == [("hosts", ["a", "b"])]


def test_both_hosts_of_a_fleet_of_two_are_all_of_it() -> None:
    story = [episode_event(f"host/{host}", 1, kind="silence", evidence=STRONG) for host in "ab"]
    two, three = (Watched(20, n, 10.0, {"web": n}, hosts_lately=n) for n in (2, 3))
    (incident,) = incidents_of(story, until=1, watched=two)
    assert (incident.scope, incident.affected, incident.population) == ("fleet", 2, 2)
    assert incident.reason.startswith("2 of 2 hosts at once: ")
    assert [i.scope for i in incidents_of(story[:1], until=1, watched=two)] == ["host"]
    assert [i.scope for i in incidents_of(story, until=1, watched=three)] == ["hosts"]


def test_hosts_that_fall_silent_together_are_one_incident() -> None:
    story = [episode_event(f"host/{name}", 1, kind="silence", evidence=STRONG) for name in ("a", "b", "c")]
    story.append(episode_event("host/d", 12, kind="change", evidence=STRONG))
    first, second = incidents_of(story, until=12, watched=WATCHED)
    assert (first.kind, first.scope, first.affected, first.population) == ("silence", "fleet", 3, 1_200)
    assert (second.kind, second.scope, second.population) == ("change", "host", None)


def test_the_third_host_within_the_time_makes_it_one_of_the_fleet() -> None:
    story = [
        episode_event(f"gauge/{host}//load", window, evidence=STRONG) for window, host in enumerate("abcd", start=1)
    ]
    incidents = incidents_of(story, until=5, watched=WATCHED)
    assert [(i.status, i.scope, i.affected) for i in incidents] == [
        ("open", "host", 1),
        ("update", "hosts", 2),
        ("update", "fleet", 3),
        ("update", "fleet", 4),
    ]
    assert {i.id for i in incidents} == {incidents[0].id}
    assert [i.population for i in incidents] == [None, None, 1_200, 1_200]


def test_who_began_first_is_taken_into_the_fleet_if_nobody_has_been_told() -> None:
    begun = [("a", 1), ("b", 2), *((f"h{n}", 3) for n in range(9))]
    story = [episode_event(f"gauge/{host}//load", window, evidence=16.0, score=16.0) for host, window in begun]
    story += [
        episode_event(f"gauge/{host}//load", 4, "update", start=window, evidence=STRONG, score=STRONG)
        for host, window in begun
    ]
    (incident,) = incidents_of(story, until=5, watched=WATCHED)
    assert (incident.scope, len(incident.hosts), incident.novelties) == ("fleet", 11, 11)
    assert (incident.start, incident.window_end) == (at(1), at(3))  # so many at once are no chance, however weak


def test_who_began_first_is_taken_into_a_handful_of_hosts_that_chance_does_not_bring_together() -> None:
    begun = list(zip("abcd", (1, 4, 4, 4), strict=True))
    story = [episode_event(f"gauge/{host}//load", window, evidence=16.0, score=16.0) for host, window in begun]
    story += [
        episode_event(f"gauge/{host}//load", 6, "update", start=window, evidence=STRONG, score=STRONG)
        for host, window in begun
    ]
    found = [i for i in incidents_of(story, until=6, watched=WATCHED) if i.status == "open"]
    assert [(i.scope, i.hosts, i.start) for i in found] == [("fleet", ["a", "b", "c", "d"], at(1))]


def test_weak_episodes_that_begin_on_many_hosts_at_once_are_published_unless_the_fleet_is_restless() -> None:
    weak: dict[str, Any] = {"evidence": 8.0, "score": 8.0}
    fault = [episode_event(f"gauge/{host}/web/latency", 3_000 + k, **weak) for k, host in enumerate("abcd")]
    (incident, *updates) = incidents_of(fault, until=3_010, watched=WATCHED)
    assert (incident.scope, incident.hosts) == ("fleet", ["a", "b", "c"])
    assert [i.hosts for i in updates] == [["a", "b", "c", "d"]]
    assert 9.1 < incident.score == pytest.approx(-math.log(poisson.sf(2, 80 / 3_600)), abs=0.2)
    often = [episode_event(f"gauge/r{k:05}/db/load", 1 + 10 * k, **weak) for k in range(299)]
    assert incidents_of([*often, *fault], until=3_010, watched=WATCHED) == []


def test_hosts_do_not_explain_themselves() -> None:
    onsets = Onsets(number=4.0, since=at(0), last=at(360))
    four = Cluster((), at(350), at(356), frozenset("abcd"), frozenset("abcd"))
    before = onsets.without(4, 60)
    assert onsets.coincidence(four, 60_000) == before.surprise(4, 120) > onsets.surprise(4, 120)
    assert onsets.coincidence(replace(four, rolls=True), 60_000) == 0.0


def test_what_hosts_do_one_after_the_other_is_not_of_the_fleet() -> None:
    story = [episode_event(f"gauge/{host}//load", 10 * k, evidence=STRONG) for k, host in enumerate("abcd", start=1)]
    assert {i.scope for i in incidents_of(story, until=45, watched=WATCHED)} == {"host"}


def test_a_fleet_does_not_go_into_what_one_of_its_hosts_was_in_before() -> None:
    story = [episode_event("gauge/b//disk", 1, evidence=STRONG)]
    story += [episode_event(f"gauge/{host}//load", 20, evidence=STRONG) for host in "abc"]
    incidents = incidents_of(story, until=21, watched=WATCHED)
    assert brief(incidents) == [(1, "open", "anomaly"), (20, "open", "anomaly")]
    assert incidents[1].hosts == ["a", "b", "c"]


def test_many_series_of_one_host_are_no_fleet() -> None:
    story = [episode_event(f"gauge/a//disk{{mount={n}}}", 1, evidence=STRONG) for n in range(9)]
    (incident,) = incidents_of(story, until=1, watched=WATCHED)
    assert (incident.scope, incident.affected) == ("host", 1)


def test_the_ends_of_what_was_forgotten_open_nothing() -> None:
    assert incidents_of([episode_event("gauge/a//load", 5, "close", start=1, evidence=STRONG)], watched=WATCHED) == []


def test_hosts_of_different_services_that_begin_at_once_are_one_incident() -> None:
    day = 8_640
    story = [episode_event("gauge/a//load", 1, evidence=STRONG), episode_event("gauge/a//load", 2, "close", start=1)]
    story += [episode_event(f"gauge/h{n}/service-{n}/latency-{n}", day + n, evidence=STRONG) for n in range(6)]
    incidents = [i for i in incidents_of(story, until=day + 6, watched=WATCHED) if i.hosts != ["a"]]
    assert [(i.status, i.scope, i.affected, i.population) for i in incidents] == [
        ("open", "host", 1, None),
        ("update", "hosts", 2, None),
        *(("update", "fleet", n, 1_200) for n in (3, 4, 5, 6)),
    ]
    assert incidents[-1].reason.startswith("6 of 1,200 hosts at once: h0: latency-0 is strange (+5 series, 6 hosts)")


def test_hosts_of_different_services_are_apart_where_episodes_begin_all_the_time() -> None:
    restless = [episode_event(f"gauge/r{n}/old-{n}/load", 7 * n, evidence=STRONG) for n in range(240)]
    restless += [episode_event(f"gauge/r{n}/old-{n}/load", 7 * n + 1, "close", start=7 * n) for n in range(240)]
    story = [episode_event(f"gauge/h{n}/service-{n}/latency-{n}", 1_700, evidence=STRONG) for n in range(3)]
    quiet, busy = (incidents_of(one, until=1_700, watched=WATCHED) for one in (story, restless + story))
    assert [i.scope for i in quiet] == ["fleet"]
    assert [i.scope for i in busy if i.start == at(1_700)] == ["host"] * 3


def test_one_host_on_which_something_begins_all_the_time_does_not_make_the_fleet_restless() -> None:
    noisy = [(f"gauge/noisy//m{n % 5}", 7 * n) for n in range(420)]
    story = [episode_event(name, window, **NOISE) for name, window in noisy]
    story += [episode_event(name, window + 2, "close", start=window, **NOISE) for name, window in noisy]
    story += [episode_event(f"gauge/h{n}//x{n}", 3_020 + 2 * n, evidence=STRONG) for n in range(5)]
    incidents = incidents_of(story, until=3_040, watched=WATCHED)
    assert [i.scope for i in incidents if i.start >= at(3_020)][-1] == "fleet"
    assert len({i.id for i in incidents if "noisy" not in i.hosts}) == 1


DAY = 8_640  # windows


def silent(host: str, window: int, windows: int) -> list[EpisodeEvent]:
    """A host that is silent for some windows, and found so in the first of them."""
    back = episode_event(f"host/{host}", window + windows, "close", start=window, kind="silence", evidence=STRONG)
    return [episode_event(f"host/{host}", window, kind="silence", evidence=STRONG), back]


def test_a_rolling_restart_is_one_incident_that_is_no_worse_than_what_is_away_at_once() -> None:
    story = silent("a", 1, 5)
    for n in range(40):
        story += silent(f"h{n:02}", DAY + 18 * n, 5)
    story += silent("b", DAY + 18 * 40 + 70, 5)
    incidents = [i for i in incidents_of(story, until=DAY + 18 * 40 + 90, watched=WATCHED) if i.hosts != ["a"]]
    opened = [i for i in incidents if i.status == "open"]
    assert [(i.hosts, i.scope) for i in opened] == [
        (["h00"], "host"),
        (["h01"], "host"),
        (["h02"], "fleet"),
        (["b"], "host"),
    ]
    *_, last = [i for i in incidents if i.id == opened[2].id]
    assert (last.status, last.affected, last.severity, last.end) == ("close", 40, "major", at(DAY + 18 * 39 + 5))
    assert last.window_end == at(DAY + 18 * 39 + 5 + 60), "ten minutes later"
    assert last.reason.startswith("40 of 1,200 hosts one after the other: h02: it is strange")


def test_a_rolling_restart_after_which_a_metric_is_strange_is_one_incident() -> None:
    story = []
    for n in range(30):
        story += silent(f"h{n:02}", 360 + 9 * n, 4)
        low = f"gauge/h{n:02}//m{n}", 360 + 9 * n + 4
        story += [episode_event(*low, **WEAK), episode_event(low[0], low[1] + 12, "close", start=low[1], **WEAK)]
    opened = {i.id: i for i in incidents_of(story, until=360 + 9 * 30, watched=WATCHED)}
    assert len(opened) <= 5
    assert max(i.affected for i in opened.values()) >= 26


def test_what_else_goes_on_on_the_hosts_of_a_roll_makes_none_of_them_be_away() -> None:
    """Each of them has more that is strange for an hour than the incident remembers."""
    story = []
    for n in range(20):
        story += silent(f"h{n:02}", DAY + 9 * n, 5)
        for metric in range(5):
            series = f"gauge/h{n:02}/s{n}/m{metric}"
            story += [
                episode_event(series, DAY + 9 * n, **WEAK),
                episode_event(series, DAY + 400, "close", start=DAY + 9 * n, **WEAK),
            ]
    *_, last = incidents_of(story, until=DAY + 400, watched=WATCHED, max_members=40)
    assert (last.scope, last.affected, last.severity) == ("fleet", 20, "major")
    assert last.reason.startswith("20 of 1,200 hosts one after the other: ")


def test_a_roll_goes_on_after_its_state_was_saved() -> None:
    story = silent("a", 1, 5)
    for n in range(12):
        story += silent(f"h{n:02}", DAY + 18 * n, 5)
    whole = incidents_of(story, until=DAY + 300, watched=WATCHED)
    correlator = Correlator(CorrelationParameters())
    found = []
    for window in range(DAY + 301):
        if window > DAY:
            correlator = Correlator.load(correlator.dump(), CorrelationParameters())
        found += correlator.step(at(window), [e for e in story if e.window_end == at(window)], WATCHED)
    assert found == whole
    assert whole[-1].affected == 12


def test_a_slow_roll_in_a_fleet_of_which_nothing_was_known_does_not_explain_itself() -> None:
    incidents = incidents_of([e for n in range(40) for e in silent(f"h{n:02}", 9 * n, 5)], until=500, watched=WATCHED)
    assert [i.scope for i in incidents if i.status == "open"] == ["host"] * 4 + ["fleet"]
    assert (incidents[-1].affected, incidents[-1].severity) == (40, "major")


def test_hosts_that_are_away_by_turns_all_day_are_no_roll_once_that_is_known() -> None:
    story = [event for n in range(200) for event in silent(f"h{n:03}", 36 * n, 5)]
    incidents = incidents_of(story, until=36 * 200, watched=WATCHED)
    opened = [i for i in incidents if i.status == "open"]
    late = [i for i in opened if i.window_end >= at(6 * 360)]
    assert [i.scope for i in opened].count("fleet") == 1
    assert [i.scope for i in late] == ["host"] * 140, "six hours later each is an incident of its own"


def test_all_that_are_away_at_the_same_time_are_so_at_once_however_they_went() -> None:
    story = [e for n in range(12) for e in silent(f"h{n:02}", DAY + (n > 5) * 30, 300)]
    last = incidents_of([*silent("a", 1, 5), *story], until=DAY + 200, watched=WATCHED)[-1]
    assert last.reason.startswith("12 of 1,200 hosts at once: ")


def test_hosts_that_fall_silent_at_once_are_no_roll() -> None:
    story = silent("a", 1, 5)
    for n in range(40):
        story += silent(f"h{n:02}", DAY + n // 4, 60)
    *_, last = incidents_of(story, until=DAY + 80, watched=WATCHED)
    assert (last.status, last.severity, last.window_end) == ("close", "critical", at(DAY + 9 + 60 + 6))
    assert last.reason.startswith("40 of 1,200 hosts at once: h00")


def test_chance_brings_hosts_together_as_poisson_says() -> None:
    onsets = Onsets()
    for window in range(0, 86_400, 600):
        onsets.learn(1_000_000 + 1000 * window, 1)
    assert onsets.rate == pytest.approx(1 / 600, rel=0.05)
    year = 365 * 86_400 / 60
    for hosts in (1, 2, 3, 4, 5):
        expected = poisson.sf(hosts - 1, 60 * onsets.rate) * year
        assert onsets.is_no_chance(hosts, 60) == (expected < 1)
    assert not onsets.is_no_chance(4, 60)
    assert onsets.is_no_chance(5, 60)


def test_clusters_are_cut_where_an_episode_begins_too_late() -> None:
    begun = [episode_event(f"gauge/{host}//load", w) for host, w in zip("abcdef", (0, 6, 12, 19, 25, 31), strict=True)]
    found = find_clusters(begun, 60_000, 3)
    assert [(sorted(c.hosts), c.start) for c in found] == [(["a", "b", "c"], at(0)), (["d", "e", "f"], at(19))]


def test_what_shards_watch_adds_up() -> None:
    one, two = Watched(10, 2, 10.0, {"web": 2, "": 1}), Watched(5, 1, 10.0, {"web": 1})
    assert total([one, two]) == Watched(15, 3, 10.0, {"web": 3, "": 1}, tests=15)
    assert total([replace(one, tests=4), two]).tests == 9  # 0 stands for all
    assert total([]) == Watched()


def test_an_incident_that_the_fleet_has_emptied_takes_in_nothing_more() -> None:
    """Else what another group of the window says would belong to an incident that is open for ever."""
    story = [episode_event("gauge/h05//cpu", 1, evidence=16.0, score=16.0)]
    story += [episode_event(f"gauge/h{n:02}//cpu", 3, evidence=STRONG, score=STRONG) for n in range(1, 13) if n != 5]
    story += [episode_event("gauge/h05//disk", 3, evidence=STRONG, score=STRONG)]
    story += [episode_event(s.series, 8, "close", start=1 if s is story[0] else 3) for s in list(story)]
    incidents = incidents_of(story, until=60, watched=WATCHED)
    closed = [i for i in incidents if i.status == "close"]
    assert {i.id for i in incidents} == {i.id for i in closed}
    assert sum(i.novelties for i in closed) == len(story) / 2


def by_chance(windows: int, a_window: float) -> list[EpisodeEvent]:
    """Weak episodes of nine minutes, of any of ten metrics of a thousand hosts with ten services."""
    chance, story = Random(7), []
    for window in range(1, windows + 1):
        for _ in range(int(a_window) + (chance.random() < a_window % 1)):
            host = chance.randrange(1_000)
            name = f"gauge/h{host:03}/s{host % 10}/m{chance.randrange(10)}"
            story.append(episode_event(name, window, score=11.0, evidence=11.0))
            story.append(episode_event(name, window + 54, "close", start=window, score=11.0, evidence=11.0))
    return story


BUSY = Watched(series=100_000, hosts=1_000, window_seconds=10, services={f"s{i}": 100 for i in range(10)})


def test_what_chance_makes_all_the_time_is_learnt_though_it_never_pauses() -> None:
    """An episode in each window, as of 100,000 metrics with 0.6 a week each: no two are a minute apart, so all are one run."""
    correlator = Correlator(CorrelationParameters())
    play(correlator, by_chance(240, 1.0), 240, BUSY)
    # an hour with one episode is believed beforehand
    assert 100 < 3_600 * correlator._onsets.rate < 360 * 240 / (360 + 240)


def test_what_chance_makes_in_each_window_is_learnt_where_windows_are_longer_than_what_is_at_once() -> None:
    """Ten hosts in each window of five minutes."""
    correlator, watched, minutes = Correlator(CorrelationParameters()), replace(BUSY, window_seconds=300), 60_000
    for window in range(1, 61):
        names = [f"gauge/h{(7 * window + n) % 1_000:03}/s{n}/m{window % 9}" for n in range(10)]
        end = at(0) + 5 * minutes * window
        events = [replace(episode_event(name, 0, score=11.0, evidence=11.0), id=f"{name}{window}") for name in names]
        found = correlator.step(end, [replace(e, start=end - 5 * minutes, window_end=end) for e in events], watched)
    assert 60 < 3_600 * correlator._onsets.rate < 120
    assert [i for i in found if i.status == "open"] == []


def test_what_always_begins_is_no_incident_of_the_fleet_once_that_is_known() -> None:
    correlator = Correlator(CorrelationParameters())
    correlator._onsets = Onsets(number=4 * 360.0, since=at(-4 * 360), last=at(0))
    assert play(correlator, by_chance(180, 1.0), 180, BUSY) == []
    assert 3_600 * correlator._onsets.rate == pytest.approx(300, rel=0.1)


def test_an_event_of_the_fleet_hardly_changes_what_begins_by_itself() -> None:
    rates = []
    for seconds in (0, 120, 900):
        correlator = Correlator(CorrelationParameters())
        correlator._onsets = Onsets(number=5.0, since=at(-2_000), last=at(-100))
        story = [
            episode_event(f"gauge/h{n:03}/s{n % 7}/m{n % 3}", 1 + n * seconds // 1_000 // 10) for n in range(1_000)
        ]
        play(correlator, story, 100, BUSY)
        rates.append(3_600 * correlator._onsets.rate)
    assert max(rates[:2]) < 1
    assert rates[2] < 18, "a thousand hosts, but no more than some of each window"


@pytest.mark.parametrize(("hosts", "score", "joins"), [(5_000, 12.0, False), (5_000, 60.0, True), (50, 12.0, True)])
def test_what_chance_brings_to_some_host_of_a_service_joins_no_incident_by_its_metric(
    hosts: int, score: float, joins: bool
) -> None:
    """An episode each two seconds among 500,000 series: in a service of 5,000 hosts each metric has one every three minutes."""
    watched = Watched(series=500_000, hosts=5_000, window_seconds=10, services={"node": hosts})
    correlator = Correlator(CorrelationParameters())
    correlator._onsets = Onsets(number=86_400 / 2 / math.log(2), since=at(-9 * 8_640), last=at(0))
    story = [episode_event("gauge/a/node/load", 1, score=80.0, evidence=80.0)]
    story += [episode_event("gauge/b/node/load", 61, score=score, evidence=score)]
    *_, last = play(correlator, story, 62, watched)
    assert (last.id, last.hosts) == (correlator._open[0].id, ["a", "b"] if joins else ["a"])
