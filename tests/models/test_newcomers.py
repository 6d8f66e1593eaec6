"""Newcomers: hosts that are born into a known role, with a start of their own, and with faults in their first half hour."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from support.control_stories import with_appended
from support.fleet_story import windows
from support.machine_stories import CPU, LEVEL, Machine

from benchmarks.offline import quantiles_of_others
from models.core.arrays import Floats
from models.core.parameters import DetectorParameters
from models.core.windows import Windows
from models.detection.controlled_parameters import ControlledParameters
from models.detection.detector import ShardDetector
from models.detection.newcomers import Newcomers
from models.detection.shard_state import ShardState
from models.records.records import FALSE_ALARM, EpisodeEvent
from models.rules.rule import Rule

START, WINDOW, MINUTE = 1_767_571_200_000, 10_000, 6
HOSTS, BORN, LIVED = 12, 40 * MINUTE, 30 * MINUTE
NEW = HOSTS - 1  # the last host is born after 40 minutes, and lives for half an hour
P = DetectorParameters()
METRICS = ("web/requests", "/cpu", "/memory")  # the first one has peers


def fleet(seed: int = 1) -> Floats:
    """Values of hosts of one role that differ by a third and move by 3 %, `(metrics, windows, hosts)`; NaN before a host is born."""
    rng = np.random.default_rng(seed)
    own = 100 * np.exp(0.3 * rng.standard_normal((len(METRICS), 1, HOSTS)))
    out: Floats = own * np.exp(0.03 * rng.standard_normal((len(METRICS), BORN + LIVED, HOSTS)))
    out[:, :BORN, NEW] = np.nan
    return out


def window_of(values: Floats, number: int, hosts: Iterable[int], peers: bool) -> Windows:
    """Rows of those of `hosts` that are there; `values` are of a window, `(metrics, hosts)`."""
    there, rows = np.flatnonzero(np.isfinite(values[0])), []
    others = np.full((4, HOSTS), np.nan)
    if peers and number % 7 == 0:
        others[:, there] = quantiles_of_others(values[0, there])
    for m, metric in enumerate(METRICS):
        for host in sorted({*hosts} & {*there.tolist()}):
            name = f"gauge/vm-{host:02}/{metric}"
            rows.append((name, values[m, host], others[:, host] if m == 0 else np.full(4, np.nan)))
    rows.sort(key=lambda row: row[0])
    names = np.array([row[0] for row in rows], dtype=object)
    x, none = np.array([row[1] for row in rows]), np.full(len(rows), None, dtype=object)
    return Windows(
        names, np.ones(len(rows), dtype=np.int64), x, np.zeros(len(rows)), x, x, x, none, none.copy(),
        np.array([row[2] for row in rows]).reshape(-1, 4),
    )  # fmt: skip


def reported(
    values: Floats,
    hosts: Iterable[int] = (NEW,),
    *,
    peers: bool = True,
    saved_every: int = 0,
    p: DetectorParameters = P,
) -> list[EpisodeEvent]:
    """What is reported of some hosts, apart from what is new; `saved_every` so many windows the shard is saved and loaded."""
    state, found = ShardState(), list[EpisodeEvent]()
    detector = ShardDetector(p, state)
    for t in range(values.shape[1]):
        rows = window_of(values[:, t], t, hosts, peers)
        found += detector.step(START + WINDOW * (t + 1), rows)[1]
        if saved_every and t % saved_every == 0:
            state = ShardState.load(state.dump(only_changed=False))
            detector = ShardDetector(p, state)
    return [event for event in found if not event.part.startswith("new ")]


def serving_after(minutes: int) -> Floats:
    """A fleet in which the new host does 3 % of its work until it serves."""
    values = fleet()
    values[:, BORN : BORN + MINUTE * minutes, NEW] *= 0.03
    return values


def with_fault(factor: float, metric: int | slice = 0, after: int = 12) -> Floats:
    """A fleet in which a metric of the new host is so many times as large from some minutes after its birth on."""
    values = fleet()
    values[metric, BORN + MINUTE * after :, NEW] *= factor
    return values


# --- what is reported


@pytest.mark.parametrize("minutes", [13, 17, 22])
def test_a_new_host_that_begins_to_work_as_its_peers_do_is_no_anomaly(minutes: int) -> None:
    assert reported(serving_after(minutes)) == []


@pytest.mark.parametrize("values", [serving_after(17), with_fault(4.0)])
def test_a_new_host_without_peers_is_not_judged_for_half_an_hour(values: Floats) -> None:
    assert reported(values, peers=False) == []


@pytest.mark.parametrize(("metric", "named"), [(0, "requests"), (1, "cpu"), (2, "memory")])
def test_a_fault_in_the_first_half_hour_is_found_within_two_minutes(metric: int, named: str) -> None:
    first, *_ = reported(with_fault(4.0, metric))
    assert (first.metric, first.status, first.kind) == (named, "open", "anomaly")
    begin = START + WINDOW * (BORN + 12 * MINUTE)
    assert begin <= first.start < first.window_end <= begin + 120_000


def test_a_fault_after_a_late_start_is_found_once_the_host_has_warmed_up_at_work() -> None:
    values = serving_after(12)
    values[1, BORN + MINUTE * 25 :, NEW] *= 4
    assert {event.metric for event in reported(values)} == {"cpu"}


def test_what_is_there_before_the_warm_up_is_over_is_learnt() -> None:
    assert reported(with_fault(4.0, 1, after=2)) == []


def test_in_a_shard_that_is_new_itself_nothing_is_judged_for_half_an_hour() -> None:
    values = fleet()[:, BORN - 20 * MINUTE :]
    values[1, 12 * MINUTE : 20 * MINUTE, 0] *= 4
    values[1, 32 * MINUTE : 39 * MINUTE, NEW] *= 4  # born before the grace period of the shard was over
    assert reported(values, (0, NEW)) == []


def test_a_host_that_goes_beyond_its_peers_has_not_joined_them() -> None:
    assert {event.metric for event in reported(with_fault(20.0, slice(None)))} == {"requests", "cpu", "memory"}


def test_one_metric_that_comes_nearer_to_the_peers_is_no_beginning_of_work() -> None:
    values = fleet()
    values[0, :, NEW] *= 0.5
    values[0, BORN + MINUTE * 12 :, NEW] *= 2
    assert {event.metric for event in reported(values)} == {"requests"}


def test_an_old_host_that_comes_nearer_to_its_peers_is_reported() -> None:
    values = fleet()
    values[:, : BORN - 5 * MINUTE, 0] *= 0.03
    assert {event.metric for event in reported(values, (0,))} == {"requests", "cpu", "memory"}


def test_series_of_a_host_that_has_joined_warm_up_again() -> None:
    state, values = ShardState(), serving_after(17)
    detector = ShardDetector(P, state)
    for t in range(BORN + 20 * MINUTE):
        detector.step(START + WINDOW * (t + 1), window_of(values[:, t], t, (NEW,), peers=True))
    rows = [state.describe_state(f"gauge/vm-{NEW}/{metric}") for metric in METRICS]
    assert [row["episode"] for row in rows] == [None] * 3
    assert 2 * MINUTE < state.univariate.hot["rows"].max() <= 3 * MINUTE
    assert state.host_column("first").tolist() == [START + WINDOW * (BORN + 1)]


def test_neither_shards_nor_batches_nor_saving_matter() -> None:
    values = serving_after(17)
    values[1, BORN + MINUTE * 29 :, NEW] *= 9
    values[2, BORN:, 3] *= 5
    together = [*map(str, reported(values, range(HOSTS)))]
    apart = [str(event) for host in range(HOSTS) for event in reported(values, (host,))]
    assert sorted(together) == sorted(apart)
    assert [*map(str, reported(values, range(HOSTS), saved_every=7))] == together
    assert any("vm-03" in event for event in together)


@pytest.mark.parametrize("loaded", [None, BORN + MINUTE * 14])
def test_a_host_that_has_joined_forgets_labels_whether_its_detector_is_loaded_or_goes_on(loaded: int | None) -> None:
    """While another host still has some, and within the hour."""
    old, new = (f"gauge/vm-{host:02}//cpu" for host in (0, NEW))
    labels = [
        (f"label/{name.split('/')[1]}/{at:020d}", json.dumps({"label": FALSE_ALARM, "series": [name]}))
        for name in (old, new)
        for at in range(3)
    ]
    values, detector, demanded, opened = serving_after(13), ShardDetector(P), [], []
    values[1, BORN + MINUTE * 25 :, NEW] *= 2
    for t in range(BORN + LIVED):
        rows = window_of(values[:, t], t, (0, NEW), peers=True)
        rows = with_appended(rows, labels) if t == BORN + MINUTE * 12 else rows
        _, events = detector.step(START + WINDOW * (30 * MINUTE + t + 1), rows)
        opened += [(event.series, t) for event in events if event.status == "open" and event.kind == "anomaly"]
        demanded.append({*detector._state.control.demands})
        if t == loaded:
            detector = ShardDetector.load(detector.dump(), P)
    assert (demanded[BORN + MINUTE * 12], demanded[-1]) == ({old, new}, {old})
    assert [(name, t < BORN + MINUTE * 26) for name, t in opened] == [(new, True)]


# --- when things are judged


def warming(names: list[str], fresh: dict[str, int], p: DetectorParameters = P) -> Iterator[dict[str, bool]]:
    """Which gauges have no score in each window of a shard; the peers of `web` gauges are six others. `fresh` say when a gauge comes."""
    detector, rng = ShardDetector(p), np.random.default_rng(3)
    for t in range(106 * MINUTE):
        rows = {name: 50 + rng.standard_normal() for name in names if t >= fresh.get(name, 0)}
        web = np.array(["/web/" in name for name in sorted(rows)])[:, None]
        peers = np.where(web, [[6.0, 48.7, 50.0, 51.3]], np.nan)
        scores, _ = detector.step(START + WINDOW * (t + 1), replace(windows(rows), peers=peers))
        yield dict(zip(scores.series.tolist(), np.isnan(scores.score).tolist(), strict=True))


def judged_after(fresh: dict[str, int], p: DetectorParameters = P) -> dict[str, int]:
    """Windows until each of some gauges is judged, which then goes on without end; an old host is always there."""
    found: dict[str, int] = {}
    for t, now in enumerate(warming(["gauge/old/web/m", *fresh], fresh, p)):
        assert not any(now[name] for name in found), "once it is judged it stays so"
        found |= {name: t - fresh.get(name, 0) for name, waits in now.items() if not waits and name not in found}
    return {name: found[name] for name in fresh}


def test_only_series_that_come_with_a_young_host_of_a_known_role_are_judged_sooner() -> None:
    minutes = {
        "gauge/born/web/m": (40, 10),
        "gauge/born//cpu": (40, 10),
        "gauge/born/web/after_20": (60, 10),
        "gauge/born/web/after_35": (75, 30),  # later than 30 minutes
        "gauge/other//cpu": (40, 30),  # without a role
        "gauge/early/web/m": (20, 30),  # of a shard that is new itself
        "gauge/old/web/late": (45, 30),
    }
    found = judged_after({name: MINUTE * came for name, (came, _) in minutes.items()})
    assert found == {name: MINUTE * wanted for name, (_, wanted) in minutes.items()}


@pytest.mark.parametrize(("seconds", "minutes", "age", "needed"), [
    (10, 30, 1, 10), (10, 30, 39, 10), (10, 30, 47, 17), (10, 30, 59, 29), (10, 30, 60, None), (10, 5, 1, None),
    (10, 12, 1, 5), (60, 30, 1, None), (60, 120, 1, 40),
])  # fmt: skip
def test_a_third_of_the_time_and_thirty_windows_are_needed(
    seconds: float, minutes: float, age: int, needed: float | None
) -> None:
    state = ShardState()
    state.first = START
    state.last = START + 60_000 * (40 + age)
    state.hosts.add("old", first=START)
    state.hosts.add("born", first=START + 60_000 * 40)
    state.gauges.add("gauge/born/web/m", (1, 0))
    state.peers.find_or_add(np.array([0]))
    p = DetectorParameters(window_seconds=seconds, warm_up_minutes=minutes)
    found = Newcomers(state, p).needed_minutes(minutes)
    assert (None if found is None else found.tolist()) == (None if needed is None else [minutes, needed])


def test_a_rule_says_for_how_long_a_series_warms_up_on_a_new_host_too() -> None:
    p = ControlledParameters(rules=(Rule(metric="cpu", warm_up_minutes=20),))
    fresh = {"gauge/born/web/m": 40 * MINUTE, "gauge/born//cpu": 40 * MINUTE}
    assert judged_after(fresh, p) == {"gauge/born/web/m": 10 * MINUTE, "gauge/born//cpu": 20 * MINUTE}


BROKEN = "template/vm-1/web/info/broken"


def grow_old(detector: ShardDetector) -> None:
    """An hour of windows without a host."""
    for minute in range(0, 60, 10):
        detector.step(START - 60_000 * (60 - minute), windows({}))


def born_machine(minutes: int, broken: int) -> tuple[ShardDetector, list[EpisodeEvent]]:
    """A detector, and what it reports of a host of so many minutes, in which a template is new after `broken` minutes."""
    machine, detector, events = Machine(), ShardDetector(P), list[EpisodeEvent]()
    grow_old(detector)
    for t in range(MINUTE * minutes):
        rows = machine.window() | ({BROKEN: (2, "disk <num> broke")} if t >= MINUTE * broken else {})
        at = sorted(rows).index("gauge/vm-1/web/latency")
        peers = np.full((len(rows), 4), np.nan)
        peers[at] = 6, 18, 20, 23
        events += detector.step(START + WINDOW * (t + 1), replace(windows(rows), peers=peers))[1]
    return detector, events


@pytest.mark.parametrize(("broken", "found"), [(12, ["new"]), (8, [])])
def test_a_new_template_of_a_new_host_is_news_after_ten_minutes(broken: int, found: list[str]) -> None:
    _, events = born_machine(broken + 2, broken)
    assert [event.kind for event in events if event.series == BROKEN and event.status == "open"] == found


@pytest.mark.parametrize("series", [CPU, LEVEL])
def test_what_is_known_of_a_series_says_how_long_it_warms_up(series: str) -> None:
    detector, _ = born_machine(6, 60)
    to_go = detector.describe_state(series)["windows_to_go"]
    assert to_go == 4 * MINUTE


def test_noise_of_new_hosts_raises_no_alarms() -> None:
    rng, n = np.random.default_rng(4), 300
    names = np.array([f"gauge/h-{i:03}/web/m" for i in range(n)], dtype=object)
    detector, none = ShardDetector(P), np.full(n, None, dtype=object)
    slow, opened = np.zeros(n), 0
    grow_old(detector)
    for t in range(LIVED):
        slow = 0.995 * slow + rng.standard_normal(n) * 0.1 * 5
        x = 50 + slow + rng.standard_normal(n)
        peers = np.tile([n - 1.0, *np.quantile(x, [0.1, 0.5, 0.9])], (n, 1))
        rows = Windows(names, np.ones(n, dtype=np.int64), x, np.zeros(n), x, x, x, none, none, peers)
        scores, events = detector.step(START + WINDOW * (t + 1), rows)
        opened += sum(event.status == "open" and event.kind == "anomaly" for event in events)
    assert np.isfinite(scores.score).all()
    assert opened <= P.alarm_chance * n / 2  # of half an hour
