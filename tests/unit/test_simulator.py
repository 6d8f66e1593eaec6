"""The simulator: same seed, same bytes; the ground truth is in the data; scores of detections are as documented."""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import SettingsError
from app.kafka.heartbeats import HEARTBEAT_KEY
from app.simulator import SIMULATED_KINDS, Planned, Simulation, SimulatorSettings, match, simulate, write
from app.simulator.fleet import SERVICES
from app.simulator.ground_truth import iso, milliseconds
from app.simulator.publish import cut, paced, partition_of, routed
from app.simulator.settings import DEFAULT_START, FAULTS
from app.simulator.simulation import Batch, Block
from app.simulator.vocabulary import TEMPLATES
from models.core.series import parse
from pipelines.errors import InputError

Event = dict[str, Any]
SMALL = SimulatorSettings(hosts=12, hours=0.5, seed=3)


def events_of(simulation: Simulation, topic: str, host: str = "") -> Iterator[tuple[int, Event]]:
    """Time of arrival and event, of one host or of all."""
    for block in simulation.blocks():
        batch = block.topics[topic]
        for arrival, key, value in zip(batch.arrival.tolist(), batch.keys, batch.values, strict=True):
            if host in ("", key.decode()):
                yield arrival, json.loads(value)


def hashes(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def standard() -> Simulation:
    return simulate(SimulatorSettings(), processes=1)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("simulated") / "out"
    write(simulate(SMALL, processes=1), folder)
    return folder


# --- determinism and order


@pytest.mark.slow
def test_same_seed_gives_same_bytes_whatever_the_number_of_processes(written: Path, tmp_path: Path) -> None:
    write(simulate(SMALL, processes=2), tmp_path / "two")
    assert hashes(tmp_path / "two") == hashes(written)


def test_another_seed_gives_other_bytes(written: Path, tmp_path: Path) -> None:
    write(simulate(SimulatorSettings(hosts=12, hours=0.5, seed=4), processes=1), tmp_path / "other")
    assert not set(hashes(tmp_path / "other").values()) & set(hashes(written).values())


def test_files_are_in_order_of_arrival_with_an_arrival_for_every_line(written: Path) -> None:
    truth = json.loads((written / "truth.json").read_text(encoding="utf-8"))
    for topic in ("telemetry", "logs"):
        arrival = np.load(written / f"{topic}.arrival.npy")
        lines = (written / f"{topic}.jsonl").read_bytes().splitlines()
        assert len(arrival) == len(lines) == truth["counts"][topic] > 1000
        assert (np.diff(arrival) >= 0).all()


def test_every_line_is_canonical_json(written: Path) -> None:
    for topic in ("telemetry", "logs"):
        for line in (written / f"{topic}.jsonl").read_text(encoding="utf-8").splitlines():
            assert json.dumps(json.loads(line), separators=(",", ":"), ensure_ascii=False) == line


def test_a_folder_that_is_not_empty_is_not_written_into(written: Path, tmp_path: Path) -> None:
    before = hashes(written)
    with pytest.raises(InputError, match="not an empty folder"):
        write(simulate(SMALL, processes=1), written)
    assert hashes(written) == before
    (tmp_path / "old").write_text("old", encoding="utf-8")
    write(simulate(SimulatorSettings(hosts=2, hours=0.02), processes=1), tmp_path, overwrite=True)
    assert (tmp_path / "truth.json").exists()


def test_starting_in_the_middle_gives_the_same_blocks_as_running_there() -> None:
    settings = SimulatorSettings(hosts=5, hours=1.0, seed=5)
    begin = settings.start + 40 * 60_000
    whole = [block for block in simulate(settings, processes=1).blocks() if block.begin >= begin]
    part = list(simulate(settings, processes=1).blocks(begin))
    assert [(b.begin, b.topics["logs"].values, b.topics["telemetry"].values) for b in part] == [
        (b.begin, b.topics["logs"].values, b.topics["telemetry"].values) for b in whole
    ]


def test_blocks_follow_each_other_and_hold_what_arrives_in_them() -> None:
    end = SMALL.start
    for block in simulate(SMALL, processes=1).blocks():
        assert block.begin == end
        end = block.end
        for batch in block.topics.values():
            assert len(batch.arrival) == len(batch.keys) == len(batch.values)
            assert ((batch.arrival >= block.begin) & (batch.arrival < block.end)).all()


# --- what is generated


def test_the_wanted_share_of_events_is_late_and_nothing_arrives_before_it_happens() -> None:
    settings = SimulatorSettings(hosts=20, hours=0.2, late_share=0.02, scenario="clean")
    simulation = simulate(settings, processes=1)
    lags = np.array(
        [a - milliseconds(e["@timestamp"]) for t in ("telemetry", "logs") for a, e in events_of(simulation, t)]
    )
    assert lags.min() > 0
    late = lags > 15_000
    assert late.mean() == pytest.approx(0.02, abs=0.002)
    assert lags[late].min() >= 20_000
    assert lags[late].max() <= 300_001
    assert simulation.counts.late == int(late.sum())


def test_logs_come_from_at_least_a_hundred_templates_with_parameters(standard: Simulation) -> None:
    assert len(TEMPLATES) >= 100
    patterns = [re.compile(".+?".join(re.escape(p) for p in re.split(r"\{\w+\}", t.text)) + "$") for t in TEMPLATES]
    messages = [
        e["message"] for _, e in events_of(simulate(SimulatorSettings(hosts=20, hours=1.0), processes=1), "logs")
    ]
    seen = {next(i for i, pattern in enumerate(patterns) if pattern.match(m)) for m in messages[::3]}
    assert len(seen) >= 100
    assert len(set(messages)) > 0.7 * len(messages)


def test_counters_never_fall_except_at_a_restart() -> None:
    schedule = (Planned("host_silent", 600, 180, "vm-002"),)
    simulation = simulate(SimulatorSettings(hosts=5, hours=0.4, schedule=schedule, late_share=0), processes=1)
    values: dict[tuple[str, str], list[tuple[str, float]]] = {}
    for _, event in events_of(simulation, "telemetry"):
        if event.get("metric.type") == "counter":
            key = (event["host.name"], event["metric.name"])
            values.setdefault(key, []).append((event["@timestamp"], event["metric.value"]))
    falls = {key for key, points in values.items() if (np.diff([v for _, v in sorted(points)]) < 0).any()}
    assert falls == {key for key in values if key[0] == "vm-002"}
    assert len(falls) == 4


def test_metrics_of_a_machine_are_correlated_through_its_load() -> None:
    simulation = simulate(SimulatorSettings(hosts=5, hours=4.0, scenario="clean", logs_per_second=0), processes=1)
    values: dict[tuple[str, str], dict[str, float]] = {}
    for _, event in events_of(simulation, "telemetry"):
        values.setdefault((event["host.name"], event["metric.name"]), {})[event["@timestamp"]] = event["metric.value"]

    def correlation(host: str, one: str, other: str) -> float:
        shared = sorted(values[host, one].keys() & values[host, other].keys())
        return float(np.corrcoef([[values[host, metric][t] for t in shared] for metric in (one, other)])[0, 1])

    hosts = [vm.name for vm in simulation.fleet.vms]
    assert np.median([correlation(h, "system.cpu.utilization", "system.load.1m") for h in hosts]) > 0.6
    assert np.median([correlation(h, "system.cpu.utilization", "service.request.rate") for h in hosts]) > 0.5
    assert abs(np.median([correlation(h, "system.cpu.utilization", "system.cpu.steal") for h in hosts])) < 0.3


# --- truth


def test_every_kind_is_there_at_least_once_for_any_seed() -> None:
    for seed in range(1, 9):
        assert {record["kind"] for record in simulate(SimulatorSettings(seed=seed)).truth} == set(SIMULATED_KINDS)


def test_the_first_half_is_clean_and_faults_of_a_host_do_not_touch(standard: Simulation) -> None:
    half = DEFAULT_START + 2 * 3_600_000
    busy: dict[str, list[tuple[int, int]]] = {}
    for record in standard.truth:
        begin = milliseconds(record["from"])
        assert begin >= half
        end = milliseconds(record["to"]) if record["to"] else begin
        for host in record["hosts"]:
            busy.setdefault(host, []).append((begin, end))
    for spans in busy.values():
        for (_, end), (begin, _) in zip(sorted(spans), sorted(spans)[1:], strict=False):
            assert begin - end >= 15 * 60_000


@pytest.mark.slow
def test_series_of_the_truth_are_series_that_occur() -> None:
    simulation = simulate(SimulatorSettings(hosts=20, hours=1.0, interval_seconds=30, logs_per_second=0.7), processes=1)
    names: set[str] = set()
    for _, e in events_of(simulation, "telemetry"):
        labels = "{" + ",".join(f"{k}={v}" for k, v in sorted(e["labels"].items())) + "}" if "labels" in e else ""
        kind = "counter" if e.get("metric.type") == "counter" else "gauge"
        names.add(
            "/".join([kind, e["host.name"], e.get("service.name", ""), (e["metric.name"] + labels).replace("/", "%2F")])
        )
    for _, e in events_of(simulation, "logs"):
        names.add(f"logs/{e['host.name']}/{e['service.name']}/{e['log.level']}")
    affected = {series for record in simulation.truth for series in record["series"]}
    assert all(parse(series).host for series in affected)
    assert affected <= names


def scheduled(kind: str, host: str = "vm-001", hours: float = 0.75) -> tuple[Simulation, dict[str, Any]]:
    """Ten hosts, one episode from minute 30 to 40."""
    schedule = (Planned(kind, 1800, 600, host),)
    simulation = simulate(SimulatorSettings(hosts=10, hours=hours, schedule=schedule, late_share=0), processes=1)
    (record,) = simulation.truth
    return simulation, record


MOVED = {
    "cpu_contention": ("system.cpu.utilization", 1),
    "memory_leak": ("system.memory.used", 1),
    "disk_filling": ("system.disk.used.percent", 1),
    "network_delay": ("service.latency.p95", 1),
    "packet_loss": ("system.network.retransmits", 1),
    "error_burst": ("service.error.rate", 1),
    "noisy_neighbour": ("system.cpu.steal", 1),
    "slow_drift": ("service.latency.p95", 1),
    "deployment": ("service.latency.p95", 1),
    "traffic_moved": ("service.request.rate", 1),
    "nightly_job": ("system.disk.io.bytes", 1),
}


@pytest.mark.parametrize("kind", sorted(MOVED))
def test_a_fault_moves_its_metric_clearly_and_only_while_it_lasts(kind: str) -> None:
    metric, sign = MOVED[kind]
    simulation, record = scheduled(kind)
    begin, points = milliseconds(record["from"]), []
    for _, event in events_of(simulation, "telemetry", record["hosts"][-1]):
        if event["metric.name"] == metric:
            same = "service.name" not in event or event["service.name"] == record["services"][0]
            points += [(milliseconds(event["@timestamp"]) - begin, event["metric.value"])] if same else []
    points.sort()
    at, values = np.array([p[0] for p in points], dtype=float), np.array([p[1] for p in points], dtype=float)
    if "bytes" in metric or "retransmits" in metric:
        at, values = at[1:], np.diff(values)
    before, during = values[(at > -600_000) & (at < 0)], values[(at > 300_000) & (at < 600_000)]
    assert sign * (during.mean() - before.mean()) > 4 * before.std() + 1e-9
    if record["to"] is not None:
        after = values[at > 660_000]
        assert abs(after.mean() - before.mean()) < 0.5 * abs(during.mean() - before.mean())


def lines_of(simulation: Simulation, record: dict[str, Any]) -> tuple[list[Event], list[Event]]:
    """Log lines of the episode's first host and service: while it lasts, and otherwise."""
    begin, end = milliseconds(record["from"]), milliseconds(record["to"] or iso(simulation.end))
    during: list[Event] = []
    outside: list[Event] = []
    for _, event in events_of(simulation, "logs", record["hosts"][0]):
        if event["service.name"] in record["services"]:
            inside = begin <= milliseconds(event["@timestamp"]) < end
            (during if inside else outside).append(event)
    return during, outside


@pytest.mark.parametrize("kind", ["new_message", "deployment", "nightly_job"])
def test_new_templates_appear_with_their_episode_and_never_before(kind: str) -> None:
    simulation, record = scheduled(kind, hours=1.5 if kind == "deployment" else 0.75)
    during, outside = lines_of(simulation, record)
    assert record["templates"]
    for literals in record["templates"]:
        assert any(all(part in event["message"] for part in literals) for event in during)
        assert not any(all(part in event["message"] for part in literals) for event in outside)


def test_a_silent_service_logs_nothing_and_a_silent_host_reports_nothing() -> None:
    simulation, record = scheduled("log_silence")
    during, outside = lines_of(simulation, record)
    assert not during
    assert len(outside) > 100
    simulation, record = scheduled("host_silent")
    begin, end = milliseconds(record["from"]), milliseconds(record["to"])
    for topic in ("telemetry", "logs"):
        own = [e for _, e in events_of(simulation, topic, "vm-001")]
        assert own
        assert not [e for e in own if begin <= milliseconds(e["@timestamp"]) < end]


def test_a_stuck_metric_repeats_one_value_exactly() -> None:
    simulation, record = scheduled("stuck_metric")
    begin, end = milliseconds(record["from"]), milliseconds(record["to"])
    (series,) = record["series"]
    metric = parse(series).metric
    inside, outside = set[float](), set[float]()
    for _, event in events_of(simulation, "telemetry", "vm-001"):
        if event["metric.name"] == metric:
            held = begin <= milliseconds(event["@timestamp"]) < end
            (inside if held else outside).add(event["metric.value"])
    assert len(inside) == 1
    assert len(outside) > 50


def test_a_wrong_clock_is_five_minutes_ahead_and_no_fault() -> None:
    simulation, record = scheduled("wrong_clock")
    assert record["category"] == "data"
    lead = [milliseconds(e["@timestamp"]) - a for a, e in events_of(simulation, "telemetry", "vm-001")]
    ahead = [ms for ms in lead if ms > 60_000]
    assert len(ahead) > 500
    assert min(ahead) > 290_000
    assert max(ahead) < 300_000


def test_added_machines_report_from_their_birth_on() -> None:
    simulation, record = scheduled("machines_added", host="")
    assert record["hosts"] == ["vm-009"]
    born = [milliseconds(e["@timestamp"]) for _, e in events_of(simulation, "telemetry", "vm-009")]
    assert 0 <= min(born) - milliseconds(record["from"]) < 10_000


def test_with_one_service_all_virtual_machines_have_the_same_role() -> None:
    fleet = simulate(SimulatorSettings(hosts=10, hours=0.5, seed=3, services=1)).fleet
    assert {vm.services for vm in fleet.vms} == {(SERVICES[0].name,)}


def test_a_schedule_is_kept_to_the_interval_and_what_does_not_fit_is_an_error() -> None:
    _, record = scheduled("cpu_contention", host="vm-007")
    assert record["hosts"] == ["vm-007"]
    assert record["from"] == "2026-01-05T00:30:00.000Z"
    assert record["to"] == "2026-01-05T00:40:00.000Z"
    twice = (Planned("cpu_contention", 600, 120, "vm-001"), Planned("memory_leak", 660, 120, "vm-001"))
    with pytest.raises(InputError, match="does not fit on vm-001"):
        simulate(SimulatorSettings(hosts=5, hours=1.0, schedule=twice))


def test_strength_scales_an_episode() -> None:
    peaks = []
    for strength in (0.25, 1.0):
        schedule = (Planned("packet_loss", 600, 120, "vm-001"),)
        settings = SimulatorSettings(hosts=5, hours=0.25, schedule=schedule, fault_strength=strength)
        counts = sorted(
            e["metric.value"]
            for _, e in events_of(simulate(settings, processes=1), "telemetry", "vm-001")
            if e["metric.name"] == "system.network.retransmits"
        )
        peaks.append(counts[-1] - counts[0])
    assert peaks[1] == pytest.approx(4 * peaks[0], rel=0.15)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"hosts": 1}, "hosts is 1"),
        ({"scenario": "mayhem"}, "scenario is 'mayhem'"),
        ({"kinds": ("fire",)}, "'fire'"),
        ({"clean_hours": 9.0}, "clean_hours"),
    ],
)
def test_impossible_settings_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(message)):
        SimulatorSettings(**wrong)


# --- scoring


def record_of(kind: str, category: str, minutes: tuple[int, int | None], host: str = "vm-001", **more: Any) -> Event:
    begin, end = minutes
    return {
        "id": f"1-{kind}",
        "kind": kind,
        "category": category,
        "from": iso(60_000 * begin),
        "to": None if end is None else iso(60_000 * end),
        "hosts": [host],
        "related_hosts": [],
        "services": [],
        "series": [],
        "templates": [],
        **more,
    }


def detection(minute: float, host: str = "vm-001", kind: str = "anomaly", after: float = 0.5, **more: Any) -> Event:
    return {"host": host, "start": 60_000 * minute, "window_end": 60_000 * (minute + after), "kind": kind, **more}


def test_a_fault_is_found_by_the_first_detection_on_its_host() -> None:
    truth = [record_of("cpu_contention", "fault", (100, 105)), record_of("memory_leak", "fault", (200, 230), "vm-002")]
    table = match(truth, [detection(103), detection(101), detection(102, "vm-009")])
    assert (table.faults, table.found, table.missed, table.false_alarms) == (2, 1, 1, 1)
    assert table.median_seconds_to_detect == 90.0


def test_a_fault_is_found_by_one_of_its_series_within_the_grace_and_not_after() -> None:
    series = "gauge/vm-001//system.cpu.utilization"
    truth = [record_of("cpu_contention", "fault", (100, 105), series=[series])]
    assert match(truth, [detection(106, "elsewhere", series=[{"series": series, "share": 1.0}])]).found == 1
    late = match(truth, [detection(107.1)])
    assert late.found == 0
    assert late.false_alarms == 0
    assert match(truth, [detection(99.5)]).found == 0


def test_a_change_is_announced_by_a_change_and_only_found_by_an_anomaly() -> None:
    truth = [record_of("deployment", "change", (100, None))]
    assert match(truth, [detection(102, kind="change")]).changes_announced == 1
    only = match(truth, [detection(102), detection(103, kind="new")])
    assert (only.changes, only.changes_announced, only.changes_found, only.false_alarms) == (1, 0, 1, 0)
    added = [record_of("machines_added", "change", (100, None))]
    assert match(added, [detection(101, kind="new")]).changes_announced == 1


def test_trouble_with_data_excuses_a_detection_and_is_no_fault() -> None:
    truth = [record_of("wrong_clock", "data", (100, 103))]
    table = match(truth, [detection(101, kind="silence")])
    assert (table.faults, table.false_alarms) == (0, 0)


def test_runs_of_a_recurring_job_and_related_hosts_are_excused() -> None:
    windows = [[iso(60_000 * m), iso(60_000 * (m + 10))] for m in (100, 160)]
    truth = [record_of("nightly_job", "change", (100, None), windows=windows, related_hosts=["ph-01"])]
    assert match(truth, [detection(165), detection(101, "ph-01")]).false_alarms == 0
    assert match(truth, [detection(150), detection(400)]).false_alarms == 2


@given(st.lists(st.tuples(st.integers(0, 300), st.sampled_from(["vm-001", "vm-002", "vm-003"])), max_size=12))
def test_scores_do_not_depend_on_the_order_of_detections(made: list[tuple[int, str]]) -> None:
    truth = [record_of("cpu_contention", "fault", (100, 105)), record_of("deployment", "change", (150, None), "vm-002")]
    detections = [detection(minute, host) for minute, host in made]
    table, turned = match(truth, detections), match(truth, detections[::-1])
    assert table.records == turned.records
    assert table.false_alarms == turned.false_alarms == len(table.false)
    assert table.found + table.missed == table.faults


def test_truth_itself_as_detections_finds_every_fault(standard: Simulation) -> None:
    made = [
        {"hosts": r["hosts"], "start": r["from"], "detected_at": r["from"], "kind": "change", "series": r["series"]}
        for r in standard.truth
    ]
    table = match(standard.truth, made)
    assert (table.faults, table.missed, table.false_alarms) == (len(FAULTS), 0, 0)
    assert table.changes_announced == table.changes == 4
    assert table.median_seconds_to_detect == 0


# --- the way into Kafka, up to the producer


def test_records_of_a_partition_are_in_order_of_arrival_with_a_heartbeat_every_second() -> None:
    block = next(iter(simulate(SMALL, processes=1).blocks()))
    parts = routed(block, "telemetry", 3, heartbeats=True)
    assert sum(len(part.values) - part.beats for part in parts) == len(block.topics["telemetry"])
    for number, part in enumerate(parts):
        assert part.beats == 60
        assert part.arrival == sorted(part.arrival)
        for arrival, key, value in zip(part.arrival, part.keys, part.values, strict=True):
            if key == HEARTBEAT_KEY:
                assert json.loads(value) == {"record": "heartbeat", "@timestamp": iso(arrival)}
            else:
                assert zlib.crc32(key) % 3 == partition_of(key, 3) == number


def test_cutting_a_block_loses_and_doubles_nothing() -> None:
    block = next(iter(simulate(SMALL, processes=1).blocks()))
    middle = block.begin + 12_345
    left, right = cut(block, block.begin, middle), cut(block, middle, block.end)
    for topic, batch in block.topics.items():
        assert left.topics[topic].values + right.topics[topic].values == batch.values
        assert all(arrival < middle for arrival in left.topics[topic].arrival)


def block_of(begin: int, end: int, arrivals: list[int]) -> Block:
    batch = Batch(np.array(arrivals, dtype=np.int64), [b"h"] * len(arrivals), [b"%d" % a for a in arrivals])
    return Block(begin, end, {"telemetry": batch, "logs": batch})


class ManualClock:
    """A clock that moves only when somebody waits."""

    def __init__(self, now: int, stop_at: int = 10**9) -> None:
        self.now, self.stop_at = now, stop_at

    def read(self) -> int:
        return self.now

    def wait(self, seconds: float) -> bool:
        self.now += round(1000 * seconds)
        return self.now >= self.stop_at


def test_live_events_are_given_at_their_time_of_arrival_and_never_before() -> None:
    watch = ManualClock(1000)
    given_at = []
    for part in paced(
        [block_of(0, 2000, [100, 990, 1010, 1999]), block_of(2000, 4000, [2000, 3500])], 500, watch.read, watch.wait
    ):
        given_at += [(arrival, watch.now) for arrival in part.topics["logs"].arrival.tolist()]
    assert [arrival for arrival, _ in given_at] == [990, 1010, 1999, 2000, 3500]
    assert all(0 <= now - arrival <= 101 for arrival, now in given_at)


def test_live_stops_when_told_and_catches_up_after_a_pause() -> None:
    watch = ManualClock(0, stop_at=1550)
    arrivals = [
        a
        for part in paced([block_of(0, 4000, [10, 1400, 1600])], 0, watch.read, watch.wait)
        for a in part.topics["logs"].arrival
    ]
    assert arrivals == [10, 1400]
    late = ManualClock(3950)
    slices = list(paced([block_of(0, 4000, [10, 1400, 1600])], 0, late.read, late.wait))
    assert slices[0].topics["logs"].arrival.tolist() == [10, 1400, 1600]
    assert late.now == 4000
