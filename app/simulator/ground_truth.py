"""What was put in, as records for people and scorers, and the comparison of detections with it."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from app.simulator.faults import stuck_metric
from app.simulator.metrics import PHYSICAL_METRICS, SERVICE_METRICS, VM_METRICS, Metric
from app.simulator.telemetry import series_name
from app.simulator.vocabulary import TEMPLATES, Template, extra_templates, released_templates
from models.core.series import Series, build

if TYPE_CHECKING:
    from app.simulator.fleet import Fleet
    from app.simulator.schedule import Disturbance, Placement
    from app.simulator.settings import SimulatorSettings

Record = dict[str, Any]
GRACE_SECONDS = 120.0
ANNOUNCE_SECONDS = 1200.0
EARLY_SECONDS = 10.0
SETTLE_SECONDS = 600.0
LASTING_SECONDS = 1800.0

_VM = {metric.name: metric for metric in VM_METRICS}
_SERVICE = {metric.name: metric for metric in SERVICE_METRICS}
_PHYSICAL = {metric.name: metric for metric in PHYSICAL_METRICS}
CPU, LOAD, STEAL = "system.cpu.utilization", "system.load.1m", "system.cpu.steal"
MEMORY, DISK, DISK_IO = "system.memory.used", "system.disk.used.percent", "system.disk.io.bytes"
RECEIVE, TRANSMIT = "system.network.receive.bytes", "system.network.transmit.bytes"
RETRANSMITS, PROCESSES = "system.network.retransmits", "system.processes.count"
RATE, LATENCY, ERRORS = "service.request.rate", "service.latency.p95", "service.error.rate"
ALL_LEVELS = ("debug", "info", "warn", "error")

# kind: metrics of the virtual machine, metrics of the service, levels of its logs, one sentence
_TOUCHED: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], str]] = {
    "cpu_contention": ((CPU, LOAD, PROCESSES), (LATENCY,), ("warn",), "runaway processes take the processors"),
    "memory_leak": ((MEMORY,), (LATENCY,), ("warn",), "memory grows until the service is restarted"),
    "disk_filling": ((DISK, DISK_IO), (), (), "the data disk fills up and is cleaned at the end"),
    "network_delay": ((RECEIVE, TRANSMIT), (LATENCY, RATE), ("warn",), "every call over the network takes longer"),
    "packet_loss": ((RETRANSMITS, RECEIVE, TRANSMIT), (LATENCY, ERRORS), (), "packets are lost and sent again"),
    "error_burst": ((), (ERRORS,), ("error", "warn"), "many requests fail with messages that are known"),
    "new_message": ((), (ERRORS,), ("error",), "an error is logged that was never seen before"),
    "log_silence": ((), (), ALL_LEVELS, "the service works on but stops logging"),
    "host_silent": (tuple(_VM), tuple(_SERVICE), ALL_LEVELS, "nothing comes from the host, which then restarts"),
    "stuck_metric": ((), (), (), "a metric repeats one value exactly"),
    "noisy_neighbour": ((STEAL, LOAD), (LATENCY,), (), "a neighbour on the physical host steals processor time"),
    "slow_drift": ((), (LATENCY,), (), "a metric drifts away slowly"),
    "machines_added": (tuple(_VM), tuple(_SERVICE), ALL_LEVELS, "new machines join the fleet"),
    "deployment": (
        (CPU, LOAD, MEMORY), (LATENCY,), ("debug", "info"), "a release: other messages, higher latency and memory",
    ),
    "traffic_moved": (
        (CPU, LOAD, DISK_IO, RECEIVE, TRANSMIT, MEMORY), (RATE, LATENCY), ("info",), "load moves to another host",
    ),
    "nightly_job": (
        (CPU, LOAD, DISK_IO, RECEIVE, TRANSMIT, PROCESSES), (), ("info",), "a recurring backup job is introduced",
    ),
    "wrong_clock": ((), (), (), "the clock of the host is five minutes ahead"),
}  # fmt: skip


def iso(milliseconds: float) -> str:
    """ISO 8601 in UTC with milliseconds, as events carry it."""
    stamp = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return stamp.strftime("%Y-%m-%dT%H:%M:%S.") + f"{int(milliseconds) % 1000:03d}Z"


def milliseconds(text: str) -> int:
    """The inverse of `iso`; any ISO 8601 with a zone is understood."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def truth_records(settings: SimulatorSettings, plan: Placement) -> list[Record]:
    """A record for each episode, in order of time."""
    return [_record(settings, plan.fleet, number, episode) for number, episode in enumerate(plan.episodes, 1)]


def _record(settings: SimulatorSettings, fleet: Fleet, number: int, episode: Disturbance) -> Record:
    def at(seconds: float) -> str:
        return iso(settings.start + 1000 * seconds)

    record: Record = {
        "id": f"{number:03d}-{episode.kind}",
        "kind": episode.kind,
        "category": episode.category,
        "from": at(episode.begin),
        "to": None if episode.end is None else at(episode.end),
        "hosts": list(episode.hosts),
        "related_hosts": list(episode.related),
        "services": list(episode.services),
        "series": _series(fleet, episode),
        "templates": [template.literals for template in _templates(episode)],
        "description": _TOUCHED[episode.kind][3],
    }
    if episode.windows:
        record["windows"] = [[at(begin), at(end)] for begin, end in episode.windows]
    return record


def _series(fleet: Fleet, episode: Disturbance) -> list[str]:
    on_vm, on_service, levels, _ = _TOUCHED[episode.kind]
    out: list[str] = []
    for host in episode.hosts:
        if host == fleet.group_of[host].physical:
            out.append(series_name(host, "", _PHYSICAL["hardware.temperature"]))
            continue
        if episode.kind == "stuck_metric":
            out.append(series_name(host, "", _VM[stuck_metric(episode.variant)]))
        out += [series_name(host, "", _VM[name]) for name in on_vm]
        carried = set(fleet.vm(host).services) | {"backup"}
        services = [service for service in episode.services if service in carried]
        out += [series_name(host, service, _metric(name)) for service in services for name in on_service]
        out += [build(Series("logs", host, service, level=level)) for service in services for level in levels]
    return out


def _metric(name: str) -> Metric:
    return _SERVICE[name]


def _templates(episode: Disturbance) -> list[Template]:
    """Templates that only this episode brings."""
    if episode.kind == "deployment":
        return [t for service in episode.services for t in released_templates(service, "after")]
    if episode.kind not in ("new_message", "nightly_job"):
        return []
    which = "backup" if episode.kind == "nightly_job" else "new_message"
    return [TEMPLATES[i] for service in episode.services for i in extra_templates(which, service, episode.variant)]


def header(settings: SimulatorSettings, version: int) -> Record:
    """What `truth.json` says of how it was made."""
    return {"generator": "kappa simulate", "version": version, "settings": asdict(settings)}


@dataclass(frozen=True)
class Match:
    """What became of one record of the truth. `seconds` from its beginning to the first detection, None for none."""

    id: str
    kind: str
    category: str
    found: bool
    announced: bool
    seconds: float | None
    hosts: list[str]


@dataclass(frozen=True)
class Table:
    """Detections against the truth: counts, the median delay of faults that were found, and every record's fate."""

    faults: int
    found: int
    missed: int
    changes: int
    changes_announced: int
    changes_found: int
    false_alarms: int
    median_seconds_to_detect: float | None
    records: list[Match] = field(default_factory=list)
    false: list[Record] = field(default_factory=list)


@dataclass(frozen=True)
class _Detection:
    """A novelty or an incident in comparable form; times are epoch milliseconds."""

    hosts: frozenset[str]
    series: frozenset[str]
    start: float
    detected: float
    kind: str
    raw: Mapping[str, Any]


def match(truth: Iterable[Record], detections: Iterable[Mapping[str, Any]]) -> Table:
    """Compare opened novelties or incidents with the truth.

    A detection has `host` or `hosts`, `start`, `detected_at` (or `window_end`), `kind`, and `series` (a name, names, or
    objects with a `series`); times are epoch milliseconds or ISO texts. A fault is found when a detection on one of its
    hosts, or with one of its series, is made from its beginning to two minutes after its end. A change is found
    likewise within twenty minutes, and announced when that detection's kind is `change` (or `new`, `silence` for hosts
    that come). A detection that starts near no record of its hosts, or hosts related to them, is a false alarm.
    """
    records = list(truth)
    made = sorted((_detection(raw) for raw in detections), key=lambda d: (d.detected, d.start))
    fates = [_fate(record, made) for record in records]
    false = [dict(d.raw) for d in made if not any(_excuses(record, d) for record in records)]
    faults = [fate for fate in fates if fate.category == "fault"]
    changes = [fate for fate in fates if fate.category == "change"]
    delays = [fate.seconds for fate in faults if fate.seconds is not None]
    found = sum(fate.found for fate in faults)
    return Table(
        faults=len(faults),
        found=found,
        missed=len(faults) - found,
        changes=len(changes),
        changes_announced=sum(fate.announced for fate in changes),
        changes_found=sum(fate.found for fate in changes),
        false_alarms=len(false),
        median_seconds_to_detect=statistics.median(delays) if delays else None,
        records=fates,
        false=false,
    )


def judge(
    truth: Iterable[Record],
    hosts: Iterable[str],
    events: Iterable[Mapping[str, Any]],
    incidents: Iterable[Mapping[str, Any]],
    delay_milliseconds: int,
    judged: Iterable[Record] | None = None,
) -> Table:
    """Hold what was found against the truth: faults and changes by novelties, false alarms by incidents.

    `events` (of episodes) and `incidents` are records of those topics, repeats and all; those of other machines than `hosts` are
    left out. `delay_milliseconds` is how long after its end a window is known. `judged` are the records that are
    counted, by default all; the others only excuse alarms.
    """
    records, fleet = list(truth), set(hosts)
    detections = [
        {**s, "detected_at": s["window_end"] + delay_milliseconds}
        for s in unique_events(events)
        if s["host"] in fleet and (s["status"] != "close" or s["kind"] == "change")
    ]
    opened = [
        {**i, "detected_at": i["window_end"] + delay_milliseconds}
        for i in unique_events(incidents)
        if i["status"] == "open" and not fleet.isdisjoint(i["hosts"])
    ]
    found, alarms = match(records if judged is None else judged, detections), match(records, opened)
    return replace(found, false_alarms=alarms.false_alarms, false=alarms.false)


def unique_events(records: Iterable[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
    """Records once each: topics may hold one twice after a restart."""
    return {(s["id"], s["window_end"], s["status"]): s for s in records}.values()


def _detection(raw: Mapping[str, Any]) -> _Detection:
    hosts = raw.get("hosts") or ([raw["host"]] if raw.get("host") else [])
    named = raw.get("series") or []
    listed = [named] if isinstance(named, str) else named
    series = frozenset(item if isinstance(item, str) else item["series"] for item in listed)
    start = _time(raw["start"])
    detected = next((raw[key] for key in ("detected_at", "window_end") if raw.get(key) is not None), start)
    return _Detection(frozenset(hosts), series, start, _time(detected), str(raw.get("kind", "")), raw)


def _time(value: str | float) -> float:
    return float(milliseconds(value)) if isinstance(value, str) else float(value)


def _fate(record: Record, made: list[_Detection]) -> Match:
    begin = milliseconds(record["from"])
    lasting = record["to"] is None
    until = begin + 1000 * ANNOUNCE_SECONDS if lasting else milliseconds(record["to"]) + 1000 * GRACE_SECONDS
    hosts, series = set(record["hosts"]), set(record["series"])
    hits = [
        d
        for d in made
        if begin <= d.detected <= until
        and d.start >= begin - 1000 * EARLY_SECONDS
        and (not hosts.isdisjoint(d.hosts) or not series.isdisjoint(d.series))
    ]
    announcing = {"change", "new"} if record["kind"] == "machines_added" else {"change"}
    seconds = (hits[0].detected - begin) / 1000 if hits else None
    announced = record["category"] == "change" and any(d.kind in announcing for d in hits)
    return Match(record["id"], record["kind"], record["category"], bool(hits), announced, seconds, record["hosts"])


def _excuses(record: Record, detection: _Detection) -> bool:
    """Whether a detection may be due to this record: its hosts or theirs, while it lasts or soon after."""
    touched = {*record["hosts"], *record.get("related_hosts", [])}
    if touched.isdisjoint(detection.hosts) and set(record["series"]).isdisjoint(detection.series):
        return False
    return any(a <= detection.start <= b for a, b in _spans(record))


def _spans(record: Record) -> list[tuple[float, float]]:
    early, settle, lasting = 1000 * EARLY_SECONDS, 1000 * SETTLE_SECONDS, 1000 * LASTING_SECONDS
    begin = milliseconds(record["from"])
    end = begin + lasting if record["to"] is None else milliseconds(record["to"]) + settle
    runs = [(milliseconds(a) - early, milliseconds(b) + settle) for a, b in record.get("windows", [])]
    return [(begin - early, end), *runs]
