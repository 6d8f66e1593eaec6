"""What a host, and the fleet, may cost: what is over a limit is left out, counted, and one episode."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.control_stories import with_appended
from support.fleet_story import WINDOW, DetectorRun, Row, windows, words
from support.machine_stories import CPU, Machine
from support.rule_stories import rule

from models.core.limits import LimitParameters
from models.core.windows import Scores, Windows
from models.detection.controlled_parameters import ControlledParameters
from models.detection.detector import ShardDetector
from models.detection.labels import MOST_DEMANDED
from models.detection.limits import (
    CHANGES,
    HOSTS,
    LABELS,
    METRICS,
    MOST_READ,
    NEW,
    RULES,
    SERVICES,
    TEMPLATES,
    hosts_with,
)
from models.detection.shard_state import ALL_SERIES
from models.incidents.correlator import Correlator
from models.incidents.parameters import CorrelationParameters
from models.records.records import EpisodeEvent, IncidentEvent, Overflow
from models.rules.rule_log import MOST_A_WINDOW

SMALL = LimitParameters(metrics_per_host=20, templates_per_host=6, services_per_host=4, new_series_per_host=15, hosts=3)
QUICK = ControlledParameters(grace_minutes=1.0, warm_up_minutes=2.0, limits=SMALL)
Story = list[dict[str, Row]]
FALSE_ALARMS = {"label": "false-alarm", "series": [f"gauge/h0//m{i:05d}" for i in range(MOST_DEMANDED + 5)]}


class LimitedRun(DetectorRun):
    """A detector with limits, and what it leaves out."""

    def __init__(self, parameters: ControlledParameters = QUICK) -> None:
        super().__init__(ShardDetector(parameters))
        self.overflow: list[Overflow] = []

    def step(self, rows: Windows) -> list[EpisodeEvent]:
        """One window."""
        self.now += WINDOW
        scores, events = self.detector.step(self.now, rows)
        self.scores.append(scores)
        self.overflow += self.detector.overflow
        return events

    def tell(self, story: Story) -> list[EpisodeEvent]:
        """Several windows."""
        return [event for rows in story for event in self.step(windows(rows))]

    def left_out(self, limit: str) -> list[int]:
        return [one.left_out for one in self.overflow if one.limit == limit]


def flood(host: str, count: int, first: int = 0) -> dict[str, Row]:
    return {f"gauge/{host}//flood.{i}": float(i) for i in range(first, first + count)}


def quiet(count: int, seed: int = 0) -> Story:
    return list(Machine(seed).windows(count))


def known_of(run: LimitedRun, host: str, kinds: tuple[str, ...] = ("gauge", "counter")) -> list[str]:
    state = run.detector._state
    names = [*state.gauges.names, *state.counts.names]
    return [name for name in names if name.split("/")[0] in kinds and name.split("/")[1] == host]


def test_within_the_limits_nothing_is_left_out() -> None:
    run = LimitedRun()
    story = [rows | flood("big", 15) if k < 30 else rows | flood("big", 20) for k, rows in enumerate(quiet(60))]
    run.tell(story)
    assert run.overflow == []
    assert len(known_of(run, "big")) == 20


def test_a_host_keeps_what_it_has_and_no_more_than_it_may() -> None:
    run = LimitedRun()
    run.tell([rows | flood("big", 12) for rows in quiet(30)])
    run.tell([rows | flood("big", 500) for rows in quiet(30, 1)])
    kept = known_of(run, "big")
    assert len(kept) == 20
    assert kept[:12] == sorted(flood("big", 12))
    assert run.left_out(METRICS) == [480] * 30
    assert {len(one.names) for one in run.overflow} == {10}


def test_what_is_left_out_has_no_score_and_everything_else_has_one() -> None:
    run = LimitedRun()
    run.tell([rows | flood("big", 500) for rows in quiet(3)])
    names = run.scores[-1].series.tolist()
    assert sorted(known_of(run, "big")) == [name for name in names if name.startswith("gauge/big/")]
    assert CPU in names


def test_new_ones_do_not_depend_on_the_order_or_the_rest_of_the_window() -> None:
    alone, together = LimitedRun(), LimitedRun()
    alone.tell([flood("big", 500)] * 2)
    together.tell([rows | flood("big", 500) | flood("zz", 3) for rows in quiet(2)])
    assert set(known_of(alone, "big")) == set(known_of(together, "big"))


def test_other_hosts_have_the_same_scores_bit_by_bit_beside_a_flood() -> None:
    alone, beside = LimitedRun(), LimitedRun()
    story = quiet(80)
    alone.tell(story)
    beside.tell([rows | (flood("vm-0", 900, 7 * k) if k > 20 else flood("vm-0", 3)) for k, rows in enumerate(story)])
    for one, other in zip(alone.scores, beside.scores, strict=True):
        assert of_host(one, "vm-1") == of_host(other, "vm-1")


def of_host(scores: Scores, host: str) -> list[tuple[object, ...]]:
    columns = [getattr(scores, f.name).tolist() for f in dataclasses.fields(scores)]
    return [tuple(map(repr, row)) for row in zip(*columns, strict=True) if str(row[0]).split("/")[1] == host]


def test_a_flood_is_one_episode_of_the_host_and_one_incident() -> None:
    run = LimitedRun()
    run.tell([rows | flood("big", 12) for rows in quiet(30)])
    events = run.tell([rows | flood("big", 500) for rows in quiet(60, 1)])
    events += run.tell([rows | flood("big", 12) for rows in quiet(90, 2)])
    about = [event for event in events if event.part == "limit"]
    assert [(e.series, e.status, e.kind) for e in about] == [
        ("host/big", "open", "anomaly"),
        ("host/big", "close", "anomaly"),
    ]
    begun = "host big has 500 metric series, 25 times the 20 that a host may have; 480 are left out"
    assert about[0].reason.startswith(begun)
    assert about[0].certainty == 1.0
    assert not about[0].provisional
    assert about[1].window_end - about[0].window_end == 59 * WINDOW + 600_000
    incidents = correlated(events)
    assert [(i.status, i.kind) for i in incidents if "limit" in i.reason or "may have" in i.reason] == [
        ("open", "anomaly"),
        ("close", "anomaly"),
    ]


def correlated(events: list[EpisodeEvent]) -> list[IncidentEvent]:
    correlator = Correlator(CorrelationParameters())
    found: list[IncidentEvent] = []
    ends = sorted({event.window_end for event in events})
    for end in [*ends, ends[-1] + 3_600_000]:
        found += correlator.step(end, [event for event in events if event.window_end == end])
    return found


def test_a_growing_flood_is_said_again_a_few_times() -> None:
    run = LimitedRun()
    run.tell([flood("big", 12)] * 30)
    events = run.tell([flood("big", 30 * 2**k) for k in range(12)])
    statuses = [event.status for event in events if event.part == "limit"]
    assert statuses[0] == "open"
    assert 6 <= statuses.count("update") <= 8


def test_a_young_host_with_many_series_gets_them_in_a_few_windows_without_an_episode() -> None:
    run = LimitedRun()
    run.tell([flood("old", 3)] * 30)
    events = run.tell([flood("old", 3) | flood("big", 20)] * 3)
    assert run.left_out(NEW) == [5]
    assert len(known_of(run, "big")) == 20
    assert not [event for event in events if event.part == "limit"]


def test_many_new_series_of_a_known_host_wait_and_are_an_episode() -> None:
    run = LimitedRun()
    run.tell([flood("big", 2)] * 30)
    events = run.tell([flood("big", 19)] * 2)
    assert run.left_out(NEW) == [2]
    assert [event.reason.split(",")[0] for event in events if event.part == "limit"] == [
        "host big has 17 new series in a window"
    ]


def test_services_and_templates_have_limits() -> None:
    run = LimitedRun()
    lines: dict[str, Row] = {f"template/big/s/info/{i:016x}": (3, f"line {i}") for i in range(12)}
    services: dict[str, Row] = {f"gauge/big/s{i}/m": 1.0 for i in range(9)}
    run.tell([lines | services | {"logs/big/s/info": 36}] * 2)
    assert run.left_out(SERVICES)[0] == 6  # s, and nine more
    known = {name.split("/")[2] for name in known_of(run, "big", ("gauge", "template", "logs"))}
    assert len(known) == 4
    only = LimitedRun()
    only.tell([lines | {"logs/big/s/info": 36}] * 2)
    assert only.left_out(TEMPLATES) == [6, 6]
    assert len(known_of(only, "big", ("template",))) == 6
    assert only.scores[-1].series.tolist()[0] == "logs/big/s/info"


def test_hosts_beyond_the_limit_are_left_out_and_one_incident_of_the_fleet() -> None:
    runs = [LimitedRun(), LimitedRun()]
    runs[1].detector._limits._shard = 1
    events = []
    for run in runs:
        run.tell([flood(f"h{i}", 2) for i in range(3)])
        events += run.tell([flood("h0", 2) | flood("h1", 2) | flood(f"new-{k}", 2) for k in range(5)])
    assert runs[0].left_out(HOSTS) == [1] * 5
    assert runs[0].detector.watched.hosts == 3
    assert words(events) == [
        ("fleet///hosts in shard 0", "open", "anomaly"),
        ("fleet///hosts in shard 1", "open", "anomaly"),
    ]
    assert len([incident for incident in correlated(events) if incident.status == "open"]) == 1


def test_series_beyond_what_all_hosts_may_have_are_left_out_and_one_incident_of_the_fleet() -> None:
    """Many hosts with as many series as each may have: what is known stays, and there is a bound."""
    small = LimitParameters(metrics_per_host=20, new_series_per_host=20, hosts=100, all_series=50)
    alone, beside = (LimitedRun(dataclasses.replace(QUICK, limits=small)) for _ in range(2))
    story = quiet(60)
    alone.tell(story)
    made_up = {name: row for i in range(30) for name, row in flood(f"made-up-{i}", 20).items()}
    events = beside.tell([rows | (made_up if k > 20 else {}) for k, rows in enumerate(story)])
    state = beside.detector._state
    known = len(alone.detector._state.gauges) + len(alone.detector._state.counts)
    assert len(state.gauges) + len(state.counts) == 50
    assert beside.left_out(ALL_SERIES)[0] == known + 600 - 50
    about = [event for event in events if event.part == "limit"]
    assert [(e.series, e.status) for e in about] == [("fleet///all_series in shard 0", "open")]
    assert about[0].reason.startswith(f"shard 0 has {known + 600} series of all hosts, ")
    for one, other in zip(alone.scores, beside.scores, strict=True):
        for host in ("vm-0", "vm-1"):
            assert of_host(one, host) == of_host(other, host)


def test_a_full_fleet_forgets_what_has_not_been_sent_for_a_day() -> None:
    run = LimitedRun(dataclasses.replace(QUICK, limits=LimitParameters(all_series=30)))
    run.tell([flood("a", 15) | flood("b", 15)] * 3)
    run.now += 3 * 86_400_000
    run.tell([flood("a", 15) | flood("c", 15)] * 3)
    assert known_of(run, "c") == []
    run.now += 3_600_000
    run.tell([flood("a", 15) | flood("c", 15)] * 2)
    assert sorted(run.detector._state.hosts.names) == ["a", "c"]
    assert sorted(known_of(run, "c")) == sorted(flood("c", 15))


WRITTEN: dict[str, list[tuple[str, ...]]] = {
    CHANGES: [
        (f"change/s/{i:020d}", json.dumps({"client": "a", "server": "b"})) for i in range(MOST_READ[CHANGES] + 300)
    ],
    LABELS: [
        (f"label/a/{i:020d}", json.dumps({"label": "true", "series": []} if i else FALSE_ALARMS)) for i in range(2)
    ],
    RULES: [(f"rule/0/{i:020d}", "a", json.dumps(rule(mute=True, host="h0"))) for i in range(MOST_A_WINDOW + 500)],
}
SAID = {
    CHANGES: "shard 0 has 3,300 announced changes or calls in a window, 1.1 times the 3,000 that there may be in a shard; 300 are left out",
    LABELS: "shard 0 has 2,005 series with labels, 1 times the 2,000 that there may be in a shard; 5 are left out",
    RULES: "shard 0 has 1,500 records about rules, 1.5 times the 1,000 that there may be in a shard; 500 are left out",
}


@pytest.mark.parametrize("limit", WRITTEN)
def test_what_people_write_beyond_a_bound_is_an_incident_of_its_own_beside_one_of_hosts(limit: str) -> None:
    run, known = LimitedRun(), [flood(f"h{i}", 2) for i in range(3)]
    run.tell(known)
    events = run.step(with_appended(windows(known[0] | flood("new", 2)), WRITTEN[limit]))
    assert words(events) == [(f"fleet///{one} in shard 0", "open", "anomaly") for one in sorted([HOSTS, limit])]
    assert [event.reason for event in events if limit in event.series] == [SAID[limit]]
    assert run.left_out(limit) == [int(SAID[limit].split("; ")[1].split()[0])]
    assert len([incident for incident in correlated(events) if incident.status == "open"]) == 2
    loaded = ShardDetector.load(run.detector.dump(), QUICK)
    for detector in (run.detector, loaded):
        _, closed = detector.step(run.now + 600_000, windows(known[0]))
        assert (f"fleet///{limit} in shard 0", "close", "anomaly") in words(closed)
    assert detector.overflow == []


def test_too_many_rules_are_said_by_one_shard() -> None:
    assert ShardDetector(QUICK, shard=1).step(WINDOW, with_appended(windows(flood("h0", 1)), WRITTEN[RULES]))[1] == []


def test_a_full_host_forgets_what_it_has_not_sent_for_a_day() -> None:
    run = LimitedRun()
    run.tell([flood("big", 15)] * 3)
    run.now += 3 * 86_400_000
    run.tell([flood("big", 15, first=100)] * 3)
    assert len(known_of(run, "big")) == 20
    run.now += 3_600_000
    run.tell([flood("big", 15, first=100)] * 3)
    assert sorted(known_of(run, "big")) == sorted(flood("big", 15, first=100))
    alone = LimitedRun()
    alone.tell([flood("big", 15)] * 3)
    alone.now += 3 * 86_400_000
    alone.tell([flood("big", 2)] * 3)
    assert len(known_of(alone, "big")) == 15


def test_a_full_shard_forgets_hosts_that_are_gone_for_a_day() -> None:
    run = LimitedRun()
    run.tell([flood("h0", 1) | flood("h1", 1) | flood("h2", 1)] * 3)
    run.now += 3 * 86_400_000
    run.tell([flood("h0", 1) | flood("new", 1)] * 3)
    run.now += 3_600_000
    run.tell([flood("h0", 1) | flood("new", 1)] * 2)
    assert sorted(run.detector._state.hosts.names) == ["h0", "new"]


def overflow_rows(rows: Mapping[str, Row], left_out: Mapping[str, tuple[int, int]]) -> Windows:
    """Rows, and rows of what `extract` has left out: `(sent, left out)` by the middle of the series' name."""
    found = windows(dict(rows) | {f"overflow/{name}": 1.0 for name in left_out})
    for at, name in enumerate(found.series.tolist()):
        if name.startswith("overflow/"):
            sent, gone = left_out[name.removeprefix("overflow/")]
            found.n[at], found.last[at] = gone, sent
            found.sample[at] = json.dumps(["gauge/vm-1//x"])
    return found


# What is left out of the rows of vm-1, which has one in each window; whether it is of vm-1; how the sentence begins.
OF_HOST = {"vm-1/metrics": (900_000, 885_000), "vm-1/templates": (8_000, 1_000)}
OF_EXTRACT = [
    (OF_HOST, True, "host vm-1 has 900,000 metric series, 90 times the 10,000"),
    ({"/all_series": (1, 999_999)}, True, "shard 0 has 1,000,000 series of all hosts, 2 times the 500,000"),
    ({"/all_series": (2, 999_999)}, False, "shard 0 has 1,000,000 series of all hosts, 2 times the 500,000"),
    (
        {"vm-1/metrics": (3_000, 1_125), "vm-1/templates": (300, 1)},
        True,
        "host vm-1 has 3,000 metric series with long names: more than there is room for; 1,125 are left out",
    ),
    (
        {"/all_series": (1, 300_000)},
        True,
        "shard 0 has 300,001 series of all hosts with long names, or of hosts that are summed together: more than",
    ),
    (
        {"/changes": (5_000, 2_000)},
        False,
        "shard 0 has 5,000 announced changes or calls in a window, 1.67 times the 3,000",
    ),
    ({"/rules": (9_000, 8_000)}, False, "shard 0 has 9,000 records about rules, 9 times the 1,000"),
    ({}, False, ""),
]


@pytest.mark.parametrize(("out", "of_host", "reason"), OF_EXTRACT)
def test_what_extract_has_left_out_is_not_silent(out: dict[str, tuple[int, int]], of_host: bool, reason: str) -> None:
    run = LimitedRun(dataclasses.replace(QUICK, warm_up_minutes=10.0, limits=LimitParameters()))
    run.tell(quiet(200))
    events: list[EpisodeEvent] = []
    for rows in quiet(40, 1):
        less = {name: row for name, row in rows.items() if name == "gauge/vm-1/web/latency"}
        events += run.step(overflow_rows(less, out))
    silent = {event.series for event in events if event.kind == "silence"}
    assert silent == (set() if of_host else {CPU, "counter/vm-1//bytes", "logs/vm-1//"})
    limit = [event for event in events if event.part == "limit"]
    assert [event.status for event in limit] == (["open"] if out else [])
    assert all(event.reason.startswith(reason) for event in limit)


def test_a_host_with_long_names_has_as_much_as_one_with_more_of_them() -> None:
    rows = windows(flood("a", 3) | {f"gauge/b//m{i}{{k={'x' * 300}}}": 1.0 for i in range(2)})
    assert [sorted(hosts_with(rows, least)) for least in (3, 4, 5)] == [["a", "b"], ["b"], []]


def test_hosts_that_extract_has_left_out_are_not_silent() -> None:
    run = LimitedRun(dataclasses.replace(QUICK, limits=LimitParameters()))
    run.tell([flood("a", 1) | flood("b", 1)] * 100)
    events: list[EpisodeEvent] = []
    for _ in range(50):
        events += run.step(overflow_rows(flood("a", 1), {"/hosts": (300_000, 100_000)}))
    assert [event.series for event in events] == ["fleet///hosts in shard 0"]
    events = [event for _ in range(50) for event in run.step(windows(flood("a", 1)))]
    assert ("host/b", "open", "silence") in words(events)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.dictionaries(st.sampled_from("abcde"), st.integers(0, 60), max_size=4), min_size=3, max_size=9),
    st.integers(1, 8),
)
def test_what_is_known_is_bounded_and_a_detector_that_is_loaded_goes_on(story: list[dict[str, int]], cut: int) -> None:
    known: Story = [
        {name: row for k, count in hosts.items() for name, row in flood(k, count, i % 3).items()}
        for i, hosts in enumerate(story)
    ]
    one, other = LimitedRun(), LimitedRun()
    one.tell(known)
    other.tell(known[:cut])
    other.detector = ShardDetector.load(other.detector.dump(), QUICK)
    other.tell(known[cut:])
    assert one.overflow == other.overflow
    assert one.detector.dump() == other.detector.dump()
    for host in one.detector._state.hosts.names:
        assert len(known_of(one, host)) <= 20
    assert len(one.detector._state.hosts) <= 3


def test_a_share_of_the_fleet_has_room_for_uneven_shards() -> None:
    limits = LimitParameters(hosts=20_000)
    hashes = np.random.default_rng(0).integers(0, 64, (200, 20_000))
    most = max(np.bincount(row, minlength=64).max() for row in hashes)
    share = limits.of_shard(64).hosts
    assert most <= share <= 1.35 * 20_000 / 64
    assert limits.of_shard(1).hosts == 20_000


def test_a_share_of_all_series_has_room_for_uneven_hosts_and_for_one_that_is_as_large_as_a_host_may_be() -> None:
    hosts = np.random.default_rng(0).integers(0, 64, (200, 5_000))
    limits = LimitParameters(all_series=100 * 5_000)
    assert 100 * max(np.bincount(row, minlength=64).max() for row in hosts) <= limits.of_shard(64).all_series
    assert limits.of_shard(64).all_series == limits.metrics_per_host + limits.templates_per_host
    assert limits.of_shard(16).all_series == 46_875
    assert limits.of_shard(1).all_series == 500_000


@pytest.mark.parametrize("name", [f.name for f in dataclasses.fields(LimitParameters)])
def test_a_limit_is_above_zero(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is 0; wanted a number above 0"):
        LimitParameters(**{name: 0})


def test_a_window_of_which_half_has_no_room_costs_no_more_than_if_all_had() -> None:
    rows = windows({name: row for host in range(60) for name, row in flood(f"h{host:02d}", 400).items()})

    def seconds(most: int) -> float:
        run = LimitedRun(ControlledParameters(limits=LimitParameters(all_series=most)))
        began = time.process_time()
        run.step(rows)
        assert sum(run.left_out(ALL_SERIES)) == 24_000 - most
        return time.process_time() - began

    seconds(24_000)  # what is compiled at first
    assert seconds(12_000) < 2 * seconds(24_000) + 0.2, "ten times as much where each name is compared with each"
