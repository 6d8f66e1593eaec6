"""The log of the golden run: a simulated fleet, agents of other forms, malformed records, labels and rules."""

from __future__ import annotations

import json
import math
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast

import numpy as np
from support.malformed import KINDS

from app.simulator import Planned, Simulation, SimulatorSettings
from app.simulator.settings import DEFAULT_START
from app.simulator.simulation import Batch, Block

HOURS = 1.0
SHIFT = 2_000  # second at which the agents' levels shift
TIMES_MALFORMED = 2

# Kind, second at which it begins, how long, host.
EPISODES = (
    ("memory_leak", 900, 900, "vm-003"),
    ("cpu_contention", 960, 240, "vm-001"),
    ("disk_filling", 1000, 700, "vm-005"),
    ("network_delay", 1200, 300, "vm-002"),
    ("stuck_metric", 1300, 300, "vm-006"),
    ("error_burst", 1500, 240, "vm-004"),
    ("slow_drift", 1600, 1100, "vm-007"),
    ("new_message", 1800, 240, "vm-010"),
    ("log_silence", 1900, 240, "vm-001"),
    ("host_silent", 2100, 240, "vm-005"),
    ("machines_added", 2200, 60, ""),
    ("noisy_neighbour", 2500, 240, "vm-009"),
    ("cpu_contention", 2600, 200, "vm-006"),
    ("deployment", 2900, 60, ""),
    ("packet_loss", 3100, 200, "vm-009"),
    ("wrong_clock", 3300, 120, "vm-006"),
)

# What is set beside where the servers are. Times are those of the simulation's first day, a Monday.
SETTINGS = """
[windowing]
shards = 4
[detection]
warm_up_minutes = 10
grace_minutes = 10
[[control.rules]]
name = "muted at its fault"
host = "vm-001"
metric = "re:system\\\\.(cpu|load).*"
mute = true
since = 2026-01-05T00:13:00Z
until = 2026-01-05T00:24:00Z
[[control.rules]]
name = "muted from the middle of a fault, by the calendar"
service = "cache"
kind = "logs"
mute = true
days = ["mon"]
hours = "01:27-01:37"
zone = "Europe/Berlin"
[[control.rules]]
name = "planned"
host = "vm-002"
planned = true
since = 2026-01-05T01:19:00+01:00
until = 2026-01-05T01:27:00+01:00
[[control.rules]]
name = "planned, some metrics"
host = "ph-0[12]"
metric = "system.network.*"
planned = true
since = 2026-01-05T00:45:00Z
until = 2026-01-05T00:50:00Z
[[control.rules]]
name = "not learnt"
host = "vm-003"
dont_learn = true
since = 2026-01-05T00:15:00Z
until = 2026-01-05T00:31:00Z
[[control.rules]]
name = "new hardware"
host = "vm-008"
reset = 2026-01-05T00:40:00Z
[[control.rules]]
metric = "service.request.rate"
direction = "up"
[[control.rules]]
kind = "logs"
level = "debug"
least_deviation = 3.0
[[control.rules]]
metric = "system.disk.used.percent{mount=*}"
host = "ph-*"
least_relative_deviation = 0.5
[[control.rules]]
metric = "system.load.1m"
alarm_chance = 0.001
[[control.rules]]
metric = "hardware.*"
half_life_days = 5.0
[[control.rules]]
service = "db"
warm_up_minutes = 13.0
"""


class Event(NamedTuple):
    """A record that no machine of the simulator sends: when it is appended (epoch ms), where, and what."""

    arrival: int
    topic: str
    key: bytes
    value: bytes | None


class GoldenFleet(Simulation):
    """The simulated fleet, and what is sent beside it."""

    def __init__(self) -> None:
        """Always the same."""
        schedule = tuple(Planned(*episode) for episode in EPISODES)
        super().__init__(
            SimulatorSettings(hosts=13, hours=HOURS, seed=11, logs_per_second=0.7, late_share=0.002, schedule=schedule),
            1,
        )
        self.labels = [*labels_of(self.truth)]
        self.more: dict[str, list[Event]] = defaultdict(list)
        for event in sorted([*agents(), *malformed(), *self.labels], key=lambda event: event.arrival):
            self.more[event.topic].append(event)

    def blocks(self, begin: int | None = None) -> Iterator[Block]:
        """The simulator's blocks with the other records among theirs, in order of arrival."""
        for block in super().blocks(begin):
            yield Block(block.begin, block.end, {t: self._with_more(t, block) for t in (*block.topics, "labels")})

    def _with_more(self, topic: str, block: Block) -> Batch:
        own = block.topics.get(topic, Batch(np.zeros(0, dtype=np.int64), [], []))
        more = [event for event in self.more[topic] if block.begin <= event.arrival < block.end]
        arrival = np.concatenate([own.arrival, np.array([event.arrival for event in more], dtype=np.int64)])
        keys = own.keys + [event.key for event in more]
        values = own.values + cast("list[bytes]", [event.value for event in more])  # one of them has none
        order = np.argsort(arrival, kind="stable")
        places = order.tolist()
        return Batch(arrival[order], [keys[i] for i in places], [values[i] for i in places])


def moment(second: float) -> int:
    """Epoch milliseconds of a second of the simulation."""
    return DEFAULT_START + int(1000 * second)


def iso(millis: int) -> str:
    """ISO 8601 of epoch milliseconds."""
    return datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def text(document: Any) -> bytes:
    """JSON as agents write it."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def malformed() -> Iterator[Event]:
    """Every kind that is less than a megabyte, some times, at moments after ten minutes."""
    source = random.Random(20260105)
    for i, kind in enumerate(kind for kind in KINDS * TIMES_MALFORMED if "megabyte" not in kind.name):
        arrival = moment(source.uniform(600, 3600 * HOURS))
        yield Event(arrival, kind.topic, kind.name.encode(), kind.make(arrival, i))


def labels_of(truth: Iterable[dict[str, Any]]) -> Iterator[Event]:
    """What people say of episodes while they last and after them; the last ones are no labels."""
    series = {(record["kind"], host): record["series"] for record in truth for host in record["hosts"]}
    beat = "gauge/agent-beat/system/system.load.1"
    labels_given = [
        (1_780, "false-alarm", series["error_burst", "vm-004"]),
        (1_750, "false-alarm", series["disk_filling", "vm-005"]),
        (1_760, "false-alarm", [*series["disk_filling", "vm-005"], *series["memory_leak", "vm-003"]]),
        (1_770, "true", series["disk_filling", "vm-005"][:1]),
        (2_200, "expected-change", ["host/vm-005", "host/vm-010"]),
        (SHIFT + 100, "expected-change", [beat]),
        (2_300, "expected-change", series["slow_drift", "vm-007"]),
        (2_310, "nonsense", [beat]),
        (2_320, "true", ["no name of a series"]),
        (2_330, "true", []),
    ]
    for second, label, names in labels_given:
        record = {
            "label": label,
            "series": names,
            "incident": f"i-{second}",
            "comment": "ein Wort, größer",
            "author": "a",
        }
        yield Event(moment(second), "labels", b"", text(record))
    yield Event(moment(2_340), "labels", b"", b"a false alarm")


def is_label(event: Event) -> bool:
    """Whether a record of `labels_of` is a label."""
    return event.arrival < moment(2_310)


def agents() -> Iterator[Event]:
    """Hosts whose agents write other forms than the simulator, every ten seconds."""
    source = random.Random(7)
    totals = dict.fromkeys(("otlp", "telegraf", "prometheus"), 10**9)
    for second in range(3, int(3600 * HOURS), 10):
        at = moment(second + source.random())
        wave = math.sin(second / 700)
        level = round(20 + wave + source.gauss(0, 0.5) + (15 if second >= SHIFT else 0), 3)
        for name in totals:
            totals[name] += source.randrange(900, 1100) * (4 if SHIFT <= second < SHIFT + 600 else 1)
        more = {name: str(total) for name, total in totals.items()}
        for topic, host, value in (*points(at, level, more), *lines(at, source)):
            yield Event(at + source.randrange(900), topic, host.encode(), value)


def points(at: int, level: float, totals: dict[str, str]) -> Iterator[tuple[str, str, bytes]]:
    """Telemetry: nested canonical, Metricbeat, Telegraf, OpenTelemetry, Prometheus."""
    time = {"@timestamp": iso(at)}
    metric = {"metric": {"name": "queue.depth", "value": level}, "labels": {"zone": "a"}}
    yield (
        "telemetry",
        "agent-nested",
        text(time | {"host": {"name": "agent-nested"}, "service": {"name": "shop"}} | metric),
    )
    beat = {"event": {"dataset": "system.load"}, "metricset": {"name": "load"}, "service": {"type": "system"}}
    own = {"host": {"name": "agent-beat"}, "system": {"load": {"1": level, "cores": 4}}, "ecs": {"version": "8.0.0"}}
    yield "telemetry", "agent-beat", text(time | beat | own)
    tags = {"host": "agent-telegraf", "interface": "eth0"}
    net = {"name": "net", "tags": tags, "fields": {"bytes_recv": int(totals["telegraf"])}, "timestamp": at // 1000}
    cpu = {
        "name": "cpu",
        "tags": tags | {"cpu": "cpu0"},
        "fields": {"idle": level, "on": True},
        "timestamp": at // 1000,
    }
    yield "telemetry", "agent-telegraf", text({"metrics": [net, cpu]})
    gauge = {"name": "queue", "gauge": {"dataPoints": [{"timeUnixNano": nanos(at), "asDouble": level}]}}
    point = {"timeUnixNano": nanos(at), "asInt": totals["otlp"], "attributes": [attribute("code", "200")]}
    total = {"name": "requests", "sum": {"aggregationTemporality": 2, "isMonotonic": True, "dataPoints": [point]}}
    metrics = [{"resource": RESOURCE, "scopeMetrics": [{"metrics": [gauge, total]}]}]
    yield "telemetry", "agent-otlp", text({"resourceMetrics": metrics})
    tags = {"instance": "agent-prometheus:9100", "job": "node", "code": "200"}
    sample = {"timestamp": iso(at), "value": totals["prometheus"], "name": "http_requests_total", "labels": tags}
    yield "telemetry", "agent-prometheus", text(sample)


def lines(at: int, source: random.Random) -> Iterator[tuple[str, str, bytes]]:
    """Logs: syslog of two kinds, Filebeat, OpenTelemetry."""
    when = datetime.fromtimestamp(at / 1000, UTC)
    number = source.randrange(10**6)
    yield "logs", "agent-syslog", f"<34>1 {iso(at)} agent-syslog su 77 ID47 - 'su root' failed {number} times".encode()
    bsd = f"<13>{when:%b} {when.day:2} {when:%H:%M:%S} agent-syslog cron[{number}]: (root) CMD run-parts /etc/cron.d"
    yield "logs", "agent-syslog", bsd.encode()
    file = {"log": {"file": {"path": "/var/log/nginx/access.log"}}, "event": {"dataset": "nginx.access"}}
    own = {"host": {"name": "agent-beat"}, "message": f"GET /item/{number} 200 größer", "agent": {"type": "filebeat"}}
    yield "logs", "agent-beat", text({"@timestamp": iso(at)} | file | own)
    body = {"severityNumber": 17, "severityText": "ERROR", "body": {"stringValue": f"boom after {number} ms"}}
    records = [{"logRecords": [{"timeUnixNano": nanos(at)} | body]}]
    yield "logs", "agent-otlp", text({"resourceLogs": [{"resource": RESOURCE, "scopeLogs": records}]})


def nanos(millis: int) -> str:
    """Epoch nanoseconds, as OpenTelemetry writes them."""
    return str(millis * 1_000_000)


def attribute(key: str, value: str) -> dict[str, Any]:
    """An attribute as OpenTelemetry writes it."""
    return {"key": key, "value": {"stringValue": value}}


RESOURCE = {"attributes": [attribute("host.name", "agent-otlp"), attribute("service.name", "shop")]}
