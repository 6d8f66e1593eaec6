"""Announced changes and calls: from the rows of a shard to the causes of an incident."""

from __future__ import annotations

import json
import math
from random import Random

import numpy as np
import pytest
from support.incident_stories import at, episode_event, play

from models.core.parameters import DetectorParameters
from models.core.windows import Windows
from models.detection.detector import ShardDetector
from models.detection.limits import CHANGES, MOST_READ
from models.incidents.announced import DAY_MS, LEADS, MOST_CALLS, MOST_CHANGES, Announced
from models.incidents.correlator import Correlator
from models.incidents.parameters import CorrelationParameters
from models.records.records import (
    AnnouncedCall,
    AnnouncedChange,
    Cause,
    EpisodeEvent,
    IncidentEvent,
    Watched,
)
from models.records.schema import plain

DEPLOYED = AnnouncedChange(at(5) - 40_000, "deployment", "cart", version="1.8.2")


def strange(service: str, window: int = 5, strength: float = 8.0, host: str = "vm-003") -> EpisodeEvent:
    return episode_event(f"gauge/{host}/{service}/latency", window, strength=strength, delay=10.0)


def announced(*changes: AnnouncedChange, topology: tuple[AnnouncedCall, ...] = ()) -> Watched:
    return Watched(1, 1, 10.0, changes=list(changes), topology=list(topology))


QUIET = Watched(1, 1, 10.0)


def incidents(*changes: AnnouncedChange, story: tuple[EpisodeEvent, ...] = (strange("cart"),)) -> list[IncidentEvent]:
    correlator = Correlator(CorrelationParameters())
    correlator.step(at(-1), [], announced(*changes))
    return play(correlator, story, 8, QUIET)


def test_what_began_shortly_after_a_change_of_its_service_has_it_as_the_first_cause() -> None:
    first, second = incidents(DEPLOYED)[0].causes
    assert (first.kind, first.service, first.metric, first.onset) == ("change", "cart", "deployment", DEPLOYED.at)
    assert first.why.startswith("began 40 s after deployment 1.8.2 of cart; chance brings a change so close to 1 of ")
    assert (second.kind, second.service) == ("episode", "cart")
    # one change a day is believed of each name until more is known, and 50 s go by until the window has ended
    assert first.score == pytest.approx(-math.log(-math.expm1(-2 * 50 / 86_400)), rel=1e-2)


@pytest.mark.parametrize(
    "change",
    [
        AnnouncedChange(DEPLOYED.at, "deployment", "mail"),
        AnnouncedChange(at(5) + 10_000, "deployment", "cart"),
        AnnouncedChange(at(5) - 8 * DAY_MS, "deployment", "cart"),
    ],
)
def test_a_change_elsewhere_or_later_or_long_ago_is_no_cause(change: AnnouncedChange) -> None:
    assert [cause.kind for cause in incidents(change)[0].causes] == ["episode"]


def test_a_change_of_the_host_or_of_a_service_that_is_called_counts_as_well() -> None:
    of_host = AnnouncedChange(DEPLOYED.at, "configuration", host="vm-003", comment="kernel 6.9")
    (first, _) = incidents(of_host)[0].causes
    assert first.why.startswith("began 40 s after configuration of vm-003 (kernel 6.9); chance")
    correlator = Correlator(CorrelationParameters())
    correlator.step(at(-1), [], announced(DEPLOYED, topology=(AnnouncedCall("web", "cart"),)))
    (opened,) = play(correlator, (strange("web"),), 5, QUIET)
    assert opened.causes[0].why.startswith("web began 40 s after deployment 1.8.2 of cart, which it calls; chance")


def test_the_scaling_of_its_own_rollout_does_not_hide_a_deployment() -> None:
    scaled = [AnnouncedChange(DEPLOYED.at + 10_000 * n, "scaling", "cart", comment=f"to {n}") for n in (1, 2, 3)]
    found = [cause for cause in incidents(DEPLOYED, *scaled)[0].causes if cause.kind == "change"]
    assert [(cause.metric, cause.onset) for cause in found] == [
        ("deployment", DEPLOYED.at),
        ("scaling", scaled[-1].at),
    ]


def test_a_change_of_a_service_on_a_host_is_a_cause_of_what_is_strange_on_that_host_once() -> None:
    change = AnnouncedChange(DEPLOYED.at, "configuration", "cart", host="vm-003")
    for story in ((strange("", host="vm-003"),), (strange("cart", host="vm-003"),), (strange("cart", host="vm-7"),)):
        found = [cause for cause in incidents(change, story=story)[0].causes if cause.kind == "change"]
        assert [cause.onset for cause in found] == [change.at]
        assert "after configuration of cart on vm-003; chance" in found[0].why


def test_a_change_of_a_service_that_changes_all_the_time_stands_behind() -> None:
    for minutes, place in ((60, 0), (5, 1)):
        often = [
            AnnouncedChange(DEPLOYED.at - i * 60_000 * minutes, "configuration", "cart", version=str(i))
            for i in range(1, 24 * 60 // minutes)
        ]
        correlator = Correlator(CorrelationParameters())
        correlator.step(at(-1) - DAY_MS, [], announced(often[-1]))
        correlator.step(at(-1), [], announced(DEPLOYED, *often))
        (opened,) = play(correlator, (strange("cart"),), 5, QUIET)
        kinds = [cause.kind for cause in opened.causes]
        assert kinds.index("change") == place


def test_of_incidents_that_have_nothing_to_do_with_changes_one_in_twenty_has_one_at_its_head() -> None:
    source, leads, count = Random(7), 0, 2_000
    for _ in range(count):
        changes = sorted(source.uniform(-7.0, 0.0) * DAY_MS for _ in range(source.randrange(1, 60)))
        known = Announced(at(0) - 7 * DAY_MS)
        known.learn(at(0), announced(*(AnnouncedChange(at(0) + round(c), "deployment", "cart") for c in changes)))
        cause = Cause(kind="episode", service="cart", onset=at(0), score=1.0, why="")
        leads += any(one.chance <= LEADS for one in known.candidates([cause], [], 0))
    assert 0.6 * LEADS < leads / count < 1.4 * LEADS


def test_changes_of_the_likeliest_service_come_first_and_are_few() -> None:
    names = ("a", "b", "c", "d", "e")
    story = tuple(strange(name, strength=9.0 - i) for i, name in enumerate(names))
    causes = incidents(*(AnnouncedChange(DEPLOYED.at, "deployment", name) for name in names), story=story)[0].causes
    assert [(c.kind, c.service) for c in causes][:4] == [
        ("change", "a"),
        ("change", "b"),
        ("change", "c"),
        ("episode", "a"),
    ]


def test_an_announced_call_holds_until_it_is_removed() -> None:
    known = Announced()
    known.learn(at(0), announced(topology=(AnnouncedCall("a", "b"), AnnouncedCall("b", "c"))))
    known.learn(at(1), announced(topology=(AnnouncedCall("a", "b", removed=True),)))
    assert known.calls == [("b", "c")]
    assert Announced.load(json.loads(json.dumps(known.dump()))) == known


def test_what_is_remembered_is_bounded_whatever_times_changes_claim() -> None:
    known = Announced()
    for window in range(12):
        changes = [AnnouncedChange(at(window) + 10**12 * (i % 2) + i, "other", f"s{i}") for i in range(200)]
        calls = tuple(AnnouncedCall(f"c{window}", f"s{i:05d}") for i in range(2_000))
        known.learn(at(window), announced(*changes, topology=calls))
    assert (len(known.changes), len(known.calls)) == (MOST_CHANGES, MOST_CALLS)
    assert known.changes[-1][0] == at(11) and known.calls[-1] == ("c11", "s01999")


def test_windows_without_events_and_announcements_may_be_stepped_through_or_not() -> None:
    story = {
        1: ([], announced(DEPLOYED)),
        5: ([strange("cart")], QUIET),
        9: ([], announced(DEPLOYED)),
        61_000: ([], QUIET),
    }
    results = []
    for every in (True, False):
        correlator, found = Correlator(CorrelationParameters()), []
        for window in range(-3, 20) if every else ():
            events, watched = story.get(window, ([], announced(DEPLOYED) if window == 2 else QUIET))
            found += correlator.step(at(window), events, watched)
        for window, (events, watched) in story.items():
            if not every or window > 20:
                found += correlator.step(at(window), events, watched)
                correlator = Correlator.load(correlator.dump(), CorrelationParameters())
        results.append(found)
    assert results[0] == results[1]
    assert [incident.causes[0].kind for incident in results[0]] == ["change", "change"]


def rows(*texts: str) -> Windows:
    names = [f"change/cart/{i:020d}" for i in range(len(texts))] + ["gauge/vm-1//load"]
    n, values, none = np.ones(len(names), dtype=np.int64), np.ones(len(names)), np.full(len(names), None, dtype=object)
    sample = np.array([*texts, None], dtype=object)
    return Windows(np.array(names, dtype=object), n, values, 0 * values, values, values, values, none, sample)


def test_a_shard_passes_on_what_was_announced_in_the_window_and_scores_the_rest() -> None:
    detector = ShardDetector(DetectorParameters())
    call = AnnouncedCall("web", "cart")
    scores, _ = detector.step(at(0), rows(*(json.dumps(plain(one)) for one in (DEPLOYED, call, DEPLOYED))))
    assert scores.series.tolist() == ["gauge/vm-1//load"]
    assert (detector.watched.changes, detector.watched.topology, detector.watched.series) == ([DEPLOYED], [call], 1)
    detector.step(at(1), rows())
    assert (detector.watched.changes, detector.watched.topology) == ([], [])


@pytest.mark.parametrize("removed", [False, True])
def test_of_a_call_that_is_announced_twice_in_a_window_the_last_one_counts(removed: bool) -> None:
    """As when somebody ends all calls and announces those of today."""
    detector, known = ShardDetector(DetectorParameters()), Announced(calls=[("web", "cart")])
    texts = [
        json.dumps(plain(AnnouncedCall("web", "cart", is_removed))) for is_removed in (removed, not removed, removed)
    ]
    detector.step(at(0), rows(*texts))
    assert detector.watched.topology == [AnnouncedCall("web", "cart", removed)]
    known.learn(at(0), detector.watched)
    assert known.calls == ([] if removed else [("web", "cart")])


def test_what_a_watermark_message_has_no_room_for_is_counted_in_a_letter() -> None:
    detector = ShardDetector(DetectorParameters())
    changes = [AnnouncedChange(at(0), "other", f"{i:04d}" + "s" * 250, comment="c" * 200) for i in range(500)]
    detector.step(at(0), rows(*(json.dumps(plain(one)) for one in changes)))
    (letter,) = detector.overflow
    kept = len(detector.watched.changes)
    assert detector.watched.changes == changes[:kept]
    assert (letter.limit, letter.wanted, letter.most, letter.left_out) == ("changes", 500, kept, 500 - kept)
    assert 0 < kept < 500
    detector.step(at(1), rows())
    assert detector.overflow == []


def test_of_a_window_no_more_announcements_are_read_than_the_most_those_that_were_appended_first() -> None:
    detector, call = ShardDetector(DetectorParameters()), AnnouncedCall("web", "cart")
    detector.step(at(0), rows(*[json.dumps(plain(call))] * MOST_READ[CHANGES], *["not even JSON"] * 7))
    (letter,) = detector.overflow
    assert (letter.limit, letter.wanted, letter.most, letter.left_out) == (
        "changes",
        MOST_READ[CHANGES] + 7,
        MOST_READ[CHANGES],
        7,
    )
    assert detector.watched.topology == [call]
