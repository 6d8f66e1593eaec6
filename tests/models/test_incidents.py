"""Incidents: stories of a fleet, events on the left, what is published about incidents on the right."""

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.incident_stories import CPU, DISK, at, brief, episode_event, incidents_of, play

from models.incidents.correlator import Correlator
from models.incidents.members import kind_of, member_of
from models.incidents.open_incident import OpenIncident
from models.incidents.parameters import CorrelationParameters
from models.records.records import NOTHING, EpisodeEvent, Watched


def test_one_episode_is_one_incident_that_closes_when_it_has_been_quiet() -> None:
    incidents = incidents_of([episode_event(CPU, 1), episode_event(CPU, 4, "close", start=1)])
    assert brief(incidents) == [(1, "open", "anomaly"), (10, "close", "anomaly")]
    assert [i.end for i in incidents] == [None, at(4)]
    assert {i.id for i in incidents} == {incidents[0].id}


@pytest.mark.parametrize(
    ("anomaly", "silence", "silent", "kind"),
    [
        (60.0, 15.0, "logs/vm-003/web/info", "anomaly"),
        (15.0, 60.0, "logs/vm-003/web/info", "silence"),
        (60.0, 15.0, "host/vm-003", "silence"),
    ],
)
def test_a_silence_makes_the_kind_where_it_has_more_evidence_or_is_of_a_whole_host(
    anomaly: float, silence: float, silent: str, kind: str
) -> None:
    events = [
        episode_event(CPU, 1, evidence=anomaly),
        episode_event(silent, 1, kind="silence", evidence=silence),
    ]
    for order in (events, events[::-1]):
        assert kind_of(map(member_of, order)) == kind


def test_novelties_of_one_host_that_touch_in_time_are_one_incident() -> None:
    story = [
        episode_event(CPU, 1),
        episode_event(DISK, 3),
        episode_event(CPU, 4, "close", start=1),
        episode_event(DISK, 5, "close", start=3),
    ]
    incidents = incidents_of(story)
    assert brief(incidents) == [(1, "open", "anomaly"), (3, "update", "anomaly"), (11, "close", "anomaly")]
    assert incidents[-1].novelties == 2
    assert incidents[-1].hosts == ["vm-003"]


def test_novelties_of_one_host_that_do_not_touch_in_time_are_two() -> None:
    story = [
        episode_event(CPU, 1),
        episode_event(CPU, 2, "close", start=1),
        episode_event(DISK, 20),
        episode_event(DISK, 21, "close", start=20),
    ]
    assert brief(incidents_of(story)) == [
        (1, "open", "anomaly"),
        (8, "close", "anomaly"),
        (20, "open", "anomaly"),
        (27, "close", "anomaly"),
    ]


def test_the_same_metric_of_one_service_on_another_host_joins() -> None:
    story = [episode_event("gauge/a/web/latency{code=200}", 1), episode_event("gauge/b/web/latency{code=500}", 3)]
    incidents = incidents_of(story, until=5)
    assert brief(incidents) == [(1, "open", "anomaly"), (3, "update", "anomaly")]
    assert incidents[-1].hosts == ["a", "b"]


def test_another_metric_or_another_service_on_another_host_stays_apart() -> None:
    story = [
        episode_event("gauge/a/web/latency", 1),
        episode_event("gauge/b/web/queue", 2),
        episode_event("gauge/c/db/latency", 3),
        episode_event("gauge/d//latency", 4),
    ]
    assert [i.status for i in incidents_of(story, until=5)] == ["open"] * 4


def test_the_same_level_of_one_service_on_another_host_joins() -> None:
    story = [
        episode_event("logs/a/web/error", 1),
        episode_event("template/b/web/error/4f", 2),
        episode_event("logs/c/web/info", 3),
    ]
    incidents = incidents_of(story, until=5)
    assert [(i.status, i.hosts) for i in incidents] == [("open", ["a"]), ("update", ["a", "b"]), ("open", ["c"])]


def test_the_same_template_anywhere_joins() -> None:
    story = [
        episode_event("template/a/web/error/4f", 1, template="lost <*>"),
        episode_event("template/b/db/warn/4f", 2, template="lost <*>"),
    ]
    incidents = incidents_of(story, until=5)
    assert [i.status for i in incidents] == ["open", "update"]
    assert incidents[-1].templates == ["lost <*>"]


def test_novelties_of_one_window_that_are_linked_through_a_third_join_at_once() -> None:
    story = [
        episode_event("gauge/a/web/latency", 1),
        episode_event("gauge/b/db/queue", 1),
        episode_event("template/a/web/error/4f", 1),
        episode_event("template/b/db/error/4f", 1),
    ]
    incidents = incidents_of(story, until=2)
    assert [(i.status, i.hosts, i.novelties) for i in incidents] == [("open", ["a", "b"], 4)]


def test_a_novelty_between_two_incidents_joins_the_one_that_was_opened_first() -> None:
    story = [
        episode_event("gauge/b/db/queue", 1),
        episode_event("gauge/a/web/latency", 2),
        episode_event("gauge/a/db/queue", 3),
    ]
    incidents = incidents_of(story, until=4)
    assert [(i.status, i.hosts) for i in incidents] == [("open", ["b"]), ("open", ["a"]), ("update", ["a", "b"])]
    assert incidents[2].id == incidents[0].id


def test_novelties_without_a_host_are_not_held_together_by_its_absence() -> None:
    story = [episode_event("gauge//web/latency", 1), episode_event("gauge//db/queue", 1)]
    assert [i.status for i in incidents_of(story, until=2)] == ["open", "open"]


def test_an_incident_stays_open_while_an_episode_is() -> None:
    assert brief(incidents_of([episode_event(CPU, 1), episode_event(CPU, 30, "close", start=1)])) == [
        (1, "open", "anomaly"),
        (36, "close", "anomaly"),
    ]


def test_an_episode_without_a_word_counts_as_ended_when_it_is_stale() -> None:
    incidents = incidents_of([episode_event(CPU, 1)], stale_seconds=100)
    assert brief(incidents) == [(1, "open", "anomaly"), (17, "close", "anomaly")]
    assert incidents[-1].end == at(1)


def test_the_end_of_an_episode_that_went_stale_opens_nothing() -> None:
    story = [episode_event(CPU, 1), episode_event(CPU, 30, "close", start=1)]
    assert brief(incidents_of(story, stale_seconds=100)) == [(1, "open", "anomaly"), (17, "close", "anomaly")]


def test_an_episode_that_went_stale_and_goes_on_is_another_incident() -> None:
    """As of a host that sends more than it may for weeks, and then half as much again."""
    story = [episode_event(CPU, 1), episode_event(CPU, 30, "update", start=1), episode_event(CPU, 35, "close", start=1)]
    first, over, second, again = incidents_of(story, until=60, stale_seconds=100)
    assert [i.status for i in (first, over, second, again)] == ["open", "close", "open", "close"]
    assert first.id == over.id != second.id == again.id


@pytest.mark.parametrize("kind", ["change", "new", "anomaly"])
def test_an_end_that_comes_after_its_incident_has_closed_opens_nothing(kind: str) -> None:
    story = [episode_event(CPU, 1, kind=kind), episode_event(CPU, 30, "close", start=1, kind=kind)]
    found = incidents_of(story, stale_seconds=100)
    assert [i.status for i in found] == ["open", "close"]


WEAK: dict[str, Any] = {"score": 9.0, "evidence": 9.0}
WATCHED = Watched(series=1000, hosts=10, window_seconds=10.0)
LATE_ENDS = {
    "change": [episode_event(CPU, 1), *(episode_event(CPU, n, s, start=1, kind="change") for n, s in ((2, "update"), (31, "close")))],
    "new host": [episode_event("host/vm-003", n, s, start=1, kind="change", part="new host") for n, s in ((1, "open"), (31, "close"))],
}  # fmt: skip


@pytest.mark.parametrize("late", LATE_ENDS)
@pytest.mark.parametrize(
    "more",
    [
        [],
        [episode_event(DISK, 10)],
        [episode_event(DISK, 31)],
        [episode_event(DISK, 31, **WEAK)],
        [episode_event(f"gauge/{host}/web/queue", 31) for host in ("a", "b", "vm-003")],
    ],
    ids=["nothing else", "another one goes on", "one begins", "a weak one begins", "the fleet begins"],
)
def test_an_end_that_comes_after_its_incident_has_closed_changes_nothing(late: str, more: list[EpisodeEvent]) -> None:
    """As it does in windows that are longer than `close_seconds`."""
    began = LATE_ENDS[late]
    with_end, without = Correlator(CorrelationParameters()), Correlator(CorrelationParameters())
    assert play(with_end, [*began, *more], 40, WATCHED) == play(without, [*began[:-1], *more], 40, WATCHED)
    assert with_end.dump() == without.dump()


def test_what_begins_with_such_an_end_is_an_incident_of_its_own_with_its_own_beginning() -> None:
    found = incidents_of([*LATE_ENDS["change"], episode_event(DISK, 31)])
    assert brief(found)[1:] == [(2, "update", "change"), (8, "close", "change"), (31, "open", "anomaly")]
    assert found[-1].id != found[0].id
    assert (found[-1].start, found[-1].episodes) == (at(31), [f"{DISK}@31"])


def test_a_weak_episode_that_goes_on_does_not_date_a_later_incident_of_its_host() -> None:
    incidents = incidents_of([episode_event(CPU, 1, **WEAK), episode_event(DISK, 20, score=30.0)], 25, WATCHED)
    assert brief(incidents) == [(20, "open", "anomaly")]
    assert incidents[0].start == at(20)
    assert incidents[0].episodes == [f"{DISK}@20", f"{CPU}@1"], "it is part of the incident all the same"


def test_a_weak_episode_just_before_is_how_an_incident_began() -> None:
    incidents = incidents_of([episode_event(CPU, 1, **WEAK), episode_event(DISK, 6, score=30.0)], 25, WATCHED)
    assert [(i.start, i.novelties) for i in incidents] == [(at(1), 2)]


def test_a_weak_episode_that_grows_strong_within_a_published_incident_is_not_a_second_one() -> None:
    story = [episode_event(CPU, 1, **WEAK), episode_event(DISK, 20, score=30.0)]
    story.append(episode_event(CPU, 30, "update", start=1, score=40.0))
    assert brief(incidents_of(story, 35, WATCHED)) == [(20, "open", "anomaly")]


def test_what_an_incident_takes_in_of_another_one_counts_with_its_service_and_template() -> None:
    weak = episode_event("template/vm-003/db/error/4f", 1, **WEAK, template="lost <*>")
    found = incidents_of([weak, episode_event(DISK, 20, score=30.0)], 25, WATCHED)
    assert (found[0].services, found[0].templates) == (["db", "web"], ["lost <*>"])


def test_of_an_incident_that_lost_an_episode_to_another_nothing_of_it_is_left() -> None:
    """Weak ones of two hosts are together; the one of `a` goes to an incident of `a` that is published, and then that of `b` is strong."""
    of_a, of_b = "gauge/a/web/latency", "gauge/b/web/latency"
    story = [
        episode_event(of_a, 1, **WEAK),
        episode_event(of_b, 2, **WEAK),
        episode_event("gauge/a/db/disk", 20, score=30.0),
        episode_event(of_b, 25, "update", start=2, score=30.0),
    ]
    last = incidents_of(story, 26, WATCHED)[-1]
    assert [one.series for one in last.series] == [of_b]
    assert (last.scope, last.hosts, last.affected, last.start) == ("host", ["b"], 1, at(2))


def test_a_weak_episode_on_another_host_stays_out_of_an_incident() -> None:
    story = [episode_event("gauge/a/web/latency", 1, **WEAK), episode_event("gauge/b/web/latency", 20, score=30.0)]
    assert [i.hosts for i in incidents_of(story, 25, WATCHED)] == [["b"]]


@pytest.mark.parametrize("name", ["gauge/vm-003/web/queue", "counter/vm-003//bytes", "logs/vm-003//"])
def test_a_fault_long_after_a_metric_or_log_of_its_host_went_missing_is_an_incident_of_its_own(name: str) -> None:
    story = [episode_event(name, 1, kind="silence"), episode_event(name, 300, "update", start=1, kind="silence")]
    soon = [*story, episode_event(CPU, 31)]
    assert len({i.id for i in incidents_of(soon, 320)}) == 1
    late = [*story, episode_event(CPU, 32), episode_event(DISK, 310)]
    assert brief(i for i in incidents_of(late, 320) if i.status == "open") == [
        (1, "open", "silence"),
        (32, "open", "anomaly"),
    ]


@pytest.mark.parametrize("name", ["gauge/vm-003/web/users", "logs/vm-003//"])
def test_what_else_goes_missing_on_the_host_of_a_missing_metric_belongs_to_that(name: str) -> None:
    story = [episode_event("gauge/vm-003/web/queue", 1, kind="silence"), episode_event(name, 300, kind="silence")]
    assert len({i.id for i in incidents_of(story, 320)}) == 1
    gone = [story[0], episode_event("host/vm-003", 300, kind="silence")]
    assert len({i.id for i in incidents_of(gone, 320)}) == 2


def test_what_begins_when_a_missing_metric_is_back_belongs_to_that() -> None:
    missing = "gauge/vm-003/web/queue"
    story = [episode_event(missing, 1, kind="silence"), episode_event(missing, 300, "close", start=1, kind="silence")]
    assert len({i.id for i in incidents_of([*story, episode_event(CPU, 302)], 320)}) == 1


def test_a_host_that_is_silent_holds_together_what_begins_on_it_however_long_it_is_silent() -> None:
    silent = "host/vm-003"
    story = [episode_event(silent, 1, kind="silence"), episode_event(silent, 300, "close", start=1, kind="silence")]
    assert len({i.id for i in incidents_of([*story, episode_event(CPU, 250)], 320)}) == 1


def test_what_is_new_or_a_change_does_not_hold_an_incident_open() -> None:
    new = episode_event("template/a/web/info/4f", 1, kind="new")
    change = episode_event("host/b", 1, kind="change")
    assert brief(incidents_of([new])) == [(1, "open", "new"), (7, "close", "new")]
    assert brief(incidents_of([change])) == [(1, "open", "change"), (7, "close", "change")]


@pytest.mark.parametrize("statuses", [("open", "close"), ("close",)])
def test_an_episode_of_one_window_is_an_incident(statuses: tuple[str, ...]) -> None:
    incidents = incidents_of([episode_event("service/a/web", 1, status, kind="change") for status in statuses])
    assert brief(incidents) == [(1, "open", "change"), (7, "close", "change")]
    assert incidents[0].novelties == 1


def test_an_update_comes_for_half_as_much_score_again_and_not_for_less() -> None:
    story = [
        episode_event(CPU, 1, score=20.0, evidence=20.0),
        episode_event(CPU, 2, "update", start=1, score=29.9, evidence=29.9),
        episode_event(CPU, 3, "update", start=1, score=30.0, evidence=30.0),
        episode_event(CPU, 4, "update", start=1, score=31.0, evidence=31.0),
    ]
    assert [(i.status, i.score) for i in incidents_of(story, until=5)] == [("open", 20.0), ("update", 30.0)]


def test_the_same_series_again_is_no_news() -> None:
    story = [episode_event(CPU, 1), episode_event(CPU, 2, "close", start=1), episode_event(CPU, 4)]
    assert [(i.status, i.novelties) for i in incidents_of(story, until=5)] == [("open", 1)]


def test_a_fault_that_is_adopted_becomes_a_change() -> None:
    story = [
        episode_event(CPU, 1),
        episode_event(CPU, 5, "update", start=1, kind="change", reason="cpu is 90 now"),
        episode_event(CPU, 5, "close", start=1, kind="change"),
    ]
    incidents = incidents_of(story)
    assert brief(incidents) == [(1, "open", "anomaly"), (5, "update", "change"), (11, "close", "change")]
    assert incidents[-1].reason == "vm-003: cpu is 90 now"


def test_a_deployment_is_a_change() -> None:
    story = [
        episode_event("template/a/web/info/4f", 1, kind="new", evidence=15.0),
        episode_event("gauge/a/web/latency", 2, evidence=40.0),
        episode_event("gauge/a/web/errors", 2, evidence=12.0),
        episode_event("gauge/a/web/latency", 9, "update", start=2, kind="change", evidence=90.0),
    ]
    assert brief(incidents_of(story, until=9)) == [
        (1, "open", "new"),
        (2, "update", "anomaly"),
        (9, "update", "change"),
    ]


def test_a_small_change_does_not_explain_a_large_fault() -> None:
    story = [
        episode_event("gauge/a/web/latency", 1, evidence=200.0),
        episode_event("service/a/cache", 2, kind="change", evidence=20.0),
    ]
    assert [i.kind for i in incidents_of(story, until=3)] == ["anomaly", "anomaly"]


def test_a_host_that_is_silent_is_a_silence_whatever_else_it_did() -> None:
    story = [
        episode_event("gauge/a/web/latency", 1, evidence=500.0),
        episode_event("host/a", 4, kind="silence", reason="a is silent"),
    ]
    incidents = incidents_of(story, until=5)
    assert [(i.kind, i.reason) for i in incidents] == [
        ("anomaly", "a: latency is strange"),
        ("silence", "a is silent (+1 series)"),
    ]


def test_shares_of_evidence_rank_the_series_and_sum_to_one() -> None:
    story = [
        episode_event(CPU, 1, evidence=30.0),
        episode_event(DISK, 1, evidence=60.0),
        episode_event("logs/vm-003/web/error", 1, evidence=10.0),
    ]
    (incident,) = incidents_of(story, until=1)
    assert [(c.series, c.share) for c in incident.series] == [(DISK, 0.6), (CPU, 0.3), ("logs/vm-003/web/error", 0.1)]
    assert incident.reason == "vm-003: system.disk.io is strange (+2 series)"


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
def test_a_score_that_is_no_number_counts_as_none(value: float | None) -> None:
    raw = {**episode_event(CPU, 1).to_record("live"), "score": value, "evidence": value}
    (incident,) = incidents_of([EpisodeEvent.from_record(raw)], until=1)
    assert (incident.score, incident.series[0].share) == (0.0, 1.0)


def test_a_record_that_lacks_a_field_or_has_an_unknown_status_is_refused() -> None:
    raw = episode_event(CPU, 1).to_record("live")
    with pytest.raises(ValueError, match="series"):
        EpisodeEvent.from_record({k: v for k, v in raw.items() if k != "series"})
    with pytest.raises(ValueError, match="perhaps"):
        EpisodeEvent.from_record({**raw, "status": "perhaps"})


def test_windows_out_of_order_are_refused() -> None:
    correlator = Correlator(CorrelationParameters())
    correlator.step(at(2), [])
    with pytest.raises(ValueError, match="in order"):
        correlator.step(at(2), [])


@pytest.mark.parametrize(
    "name",
    [
        *("join_seconds", "close_seconds", "stale_seconds", "growth", "max_members", "max_shown"),
        *("max_hosts", "fleet_hosts", "false_alarms_per_day"),
    ],
)
def test_a_parameter_out_of_range_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        CorrelationParameters(**{name: -1})


def test_a_storm_is_counted_in_full_and_remembered_in_part() -> None:
    storm = [episode_event(f"gauge/h{n:04}/web/latency", 1, evidence=float(n)) for n in range(2_000)]
    correlator = Correlator(CorrelationParameters(max_members=50))
    (incident,) = play(correlator, storm, 1)
    assert (incident.novelties, len(incident.hosts), len(incident.series)) == (2_000, 50, 20)
    assert (incident.scope, incident.affected) == ("fleet", 2_000)
    assert incident.series[0].series == "gauge/h1999/web/latency"
    assert len(correlator.dump()) < 112_000  # the ids of those that it has to forget are a tenth of it


def test_a_forgotten_episode_comes_back_uncounted() -> None:
    story = [episode_event(f"gauge/h{n}/web/latency", 1, evidence=n + 1.0) for n in range(3)]
    story += [episode_event("gauge/h0/web/latency", 2, "update", start=1, evidence=99.0)]
    incidents = incidents_of(story, until=2, max_members=2)
    assert [(i.novelties, i.series[0].series) for i in incidents] == [
        (3, "gauge/h2/web/latency"),
        (3, "gauge/h0/web/latency"),
    ]


def test_the_sentence_says_that_series_were_forgotten() -> None:
    story = [episode_event(f"gauge/h{n}/web/latency", 1, evidence=n + 1.0) for n in range(1_200)]
    whole, forgetful = (incidents_of(story, until=2, max_members=most)[-1].reason for most in (2_000, 1_100))
    assert whole.endswith(" (+1,199 series, 1,200 hosts)")
    assert forgetful.endswith(" (+1,099 series or more, 1,200 hosts)")


def test_an_incident_lists_the_ids_of_its_episodes_strongest_first_and_counts_the_rest() -> None:
    story = [episode_event(f"gauge/h{n}/web/latency", 1, evidence=n + 1.0) for n in range(5)]
    story += [episode_event("gauge/other/db/reads", 12)]
    story += [episode_event(f"gauge/h{n}/web/latency", 4, "close", start=1, evidence=n + 1.0) for n in range(5)]
    incidents = [i for i in incidents_of(story, until=20, max_episodes=3) if i.hosts != ["other"]]
    assert [i.status for i in incidents] == ["open", "close"]
    for incident in incidents:
        assert incident.episodes == [f"gauge/h{n}/web/latency@1" for n in (4, 3, 2)]
        assert (incident.novelties, incident.episodes_omitted) == (5, 2)


def test_the_state_of_another_format_is_refused() -> None:
    with pytest.raises(ValueError, match="format"):
        Correlator.load(b'{"format": 99}', CorrelationParameters())


SERIES = (
    "gauge/a/web/latency", "gauge/b/web/latency", "gauge/b/db/queue", "logs/c/db/error", "template/c/db/error/4f",
    "template/d/cache/info/4f", "host/e", "service/a/web", "gauge/a//load", "gauge/b//load", "gauge/c//load", "gauge/d//load",
)  # fmt: skip


@st.composite
def stories(draw: st.DrawFn) -> list[EpisodeEvent]:
    """Episodes with an open, perhaps updates, perhaps a close."""
    found: list[EpisodeEvent] = []
    for series, start in draw(st.sets(st.tuples(st.sampled_from(SERIES), st.integers(0, 30)), max_size=12)):
        kind = draw(st.sampled_from(("anomaly", "change", "new", "silence")))
        end = start + draw(st.integers(0, 12))
        low = draw(st.booleans())  # of two levels, 10 and 20: the one that it was at before
        level: dict[str, Any] = {"part": "level", "lower": 9.0 if low else 19.0, "upper": 11.0 if low else 21.0}
        level |= {
            "before": 10.0 if low else 20.0,
            "after": 20.0 if low else 10.0,
            "value": draw(st.sampled_from((10, 20))),
        }
        more = level | {"kind": kind}
        found.append(
            episode_event(series, start, score=draw(st.floats(0, 50)), evidence=draw(st.floats(0, 300)), **more)
        )
        for window in sorted(draw(st.sets(st.integers(start, end), max_size=2))):
            found.append(episode_event(series, window, "update", start=start, score=draw(st.floats(0, 90)), **more))
        if draw(st.booleans()):
            more = level | {"kind": draw(st.sampled_from((kind, "change")))}
            found.append(episode_event(series, end, "close", start=start, **more))
    return list({(s.id, s.window_end, s.status): s for s in found}.values())


known_or_not = pytest.mark.parametrize("watched", [NOTHING, WATCHED], ids=["fleet not known", "fleet known"])


@known_or_not
@given(story=stories(), chance=st.randoms(use_true_random=False))
def test_order_within_a_window_changes_nothing(
    watched: Watched, story: list[EpisodeEvent], chance: random.Random
) -> None:
    shuffled = list(story)
    chance.shuffle(shuffled)
    assert incidents_of(shuffled, watched=watched) == incidents_of(story, watched=watched)


@known_or_not
@given(story=stories(), pause=st.integers(0, 40))
def test_saving_and_resuming_equals_one_pass(watched: Watched, story: list[EpisodeEvent], pause: int) -> None:
    parameters = CorrelationParameters()
    whole, first = Correlator(parameters), Correlator(parameters)
    wanted = play(whole, story, 40, watched)
    found = play(first, story, pause, watched)
    second = Correlator.load(first.dump(), parameters)
    assert second.dump() == first.dump()
    for window in range(pause + 1, 41):
        found += second.step(at(window), [s for s in story if s.window_end == at(window)], watched)
    assert found == wanted
    assert second.dump() == whole.dump()


def resumed(story: list[EpisodeEvent], pause: int, until: int, **parameters: Any) -> list[Any]:
    """What is published of a story from after a pause on, by a correlator that was saved and loaded then."""
    limits = CorrelationParameters(**parameters)
    first = Correlator(limits)
    play(first, [e for e in story if e.window_end <= at(pause)], pause, WATCHED)
    second = Correlator.load(first.dump(), limits)
    later = {w: [e for e in story if e.window_end == at(w)] for w in range(pause + 1, until + 1)}
    return [i for w, events in later.items() for i in second.step(at(w), events, WATCHED)]


def test_a_restart_does_not_change_which_of_two_alike_is_named_as_the_cause() -> None:
    story = [
        replace(episode_event(f"template/a/web/error/{name}", 1, kind="new", part="new template"), id=own)
        for name, own in (("1a", "z"), ("2b", "y"))
    ]
    story += [episode_event(f"gauge/a/web/queue{window}", window, strength=0.5) for window in (1, 4)]
    whole = [i for i in incidents_of(story, until=9, watched=WATCHED) if i.window_end > at(2)]
    assert whole[0].causes[0].series == "template/a/web/error/1a"
    assert resumed(story, 2, 9) == whole


def test_a_restart_does_not_change_what_there_is_room_for_in_an_incident() -> None:
    """Two weak episodes begin in one window, the later one on the host whose name is first, before something strong on both hosts."""
    story = [
        episode_event(f"template/{host}/{service}/info/{text}", 6, start=start, template=text, **WEAK)
        for host, service, text, start in (("a", "x", "one", 5), ("b", "y", "two", 4))
    ]
    story += [episode_event(f"gauge/{host}/web/latency", 20, score=60.0, evidence=60.0) for host in "ab"]
    whole = [i for i in incidents_of(story, until=30, watched=WATCHED, max_shown=1) if i.window_end > at(9)]
    assert [(i.novelties, i.templates) for i in whole] == [(4, ["two"])]
    assert resumed(story, 9, 30, max_shown=1) == whole


@known_or_not
@given(story=stories())
def test_steps_of_windows_without_statements_change_nothing(watched: Watched, story: list[EpisodeEvent]) -> None:
    sparse = Correlator(CorrelationParameters(stale_seconds=100))
    windows = sorted({s.window_end for s in story} | {at(50)})
    found = [i for w in windows for i in sparse.step(w, [s for s in story if s.window_end == w], watched)]
    assert found == incidents_of(story, until=50, watched=watched, stale_seconds=100)


@given(stories(), st.sampled_from((20, 200)))
def test_every_incident_is_opened_once_first_and_closed_once_last(story: list[EpisodeEvent], stale: int) -> None:
    by_id: dict[str, list[str]] = {}
    for incident in incidents_of(story, until=100, stale_seconds=stale, close_seconds=stale):
        by_id.setdefault(incident.id, []).append(incident.status)
    for statuses in by_id.values():
        assert statuses[0] == "open"
        assert statuses[-1] == "close"
        assert set(statuses[1:-1]) <= {"update"}


def test_what_an_incident_has_forgotten_is_counted_once_after_another_one_has_taken_it_in() -> None:
    few, (one, other) = CorrelationParameters(max_members=1), (OpenIncident(name, at(1), at(1), at(1)) for name in "ab")
    other.add_events([episode_event(CPU, 1), episode_event(DISK, 1, evidence=20.0)], few)
    other.forget(few)
    one.merge(other, few)
    one.add_events([episode_event(DISK, 3, "update", start=1)], few)
    assert one.novelties == 2


def test_an_incident_from_which_episodes_moved_is_about_the_services_of_those_that_stay() -> None:
    incident = OpenIncident("a", at(1), at(1), at(1))
    moves, stays = episode_event("gauge/a/web/latency", 1), episode_event("gauge/b/db/queue", 1)
    incident.add_events([moves, stays], CorrelationParameters())
    incident.release_members([moves.id])
    assert (incident.hosts, incident.services) == ({"b"}, {"db"})


@given(stories())
def test_every_novelty_is_counted_in_one_incident(story: list[EpisodeEvent]) -> None:
    # No event of an episode comes after its incident is closed: that would open another.
    incidents = incidents_of(story, until=100, stale_seconds=200, close_seconds=200)
    closed = [i for i in incidents if i.status == "close"]
    assert sum(i.novelties for i in closed) == len({s.id for s in story})


@known_or_not
@given(story=stories())
def test_an_incident_gets_at_most_one_statement_a_window(watched: Watched, story: list[EpisodeEvent]) -> None:
    found = [(i.id, i.window_end) for i in incidents_of(story, until=80, watched=watched)]
    assert len(found) == len(set(found))
