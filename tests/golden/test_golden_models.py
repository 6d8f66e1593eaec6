"""A golden run of the models alone: today's scores, novelties, incidents and states, in a few seconds.

A small seeded fleet goes through a detector for each of two shards and a correlator, with rules and labels, without Kafka or a
JVM; digests are held against `digests.json` in this folder.

    python -m pytest tests/golden                          # compare
    KAPPA_GOLDEN_UPDATE=1 python -m pytest tests/golden    # keep what it comes to now
    KAPPA_GOLDEN_OUT=DIR ...                               # write the sorted records, to diff those of two runs

`scores` have seven significant digits, as those of the topic, and so have the numbers of states; everything else has all of its
bits. They are the same without numpy's vector units (NPY_DISABLE_CPU_FEATURES), with another kernel of OpenBLAS
(OPENBLAS_CORETYPE) and with the C library's functions for older processors (GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-FMA); with the
last, states differ in their last bits. On a processor with AVX-512 they are the same because `app` switches off numpy's functions
for it: with them 183 of 38,693 scores differed in the seventh digit.
"""

from __future__ import annotations

import dataclasses
import json
import math
import zlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
from golden import digests
from golden.digests import Record

from app.simulator import Planned, Simulation, SimulatorSettings, simulate
from app.simulator.settings import DEFAULT_START
from models.core.arrays import Array
from models.core.series import Series, build, parse, quote
from models.core.store import read_numbers, read_part
from models.core.windows import Scores, Windows
from models.detection.controlled_parameters import ControlledParameters
from models.detection.detector import ShardDetector
from models.incidents.correlator import Correlator
from models.incidents.parameters import CorrelationParameters
from models.records.records import EpisodeEvent, total
from models.records.schema import plain
from models.rules.rule import Rule
from models.templates.extraction import template_id, template_of

SHARDS = 2
AWAY = ("vm-003", "vm-004", "vm-005", "vm-006")  # at once, for less than three minutes
WINDOW_MS = 10_000
LATENESS_MS, SKEW_MS = 15_000, 60_000
EPISODES = (
    ("memory_leak", 900, 700, "vm-003"),
    ("cpu_contention", 960, 240, "vm-001"),
    ("network_delay", 1200, 200, "vm-002"),
    ("error_burst", 1300, 240, "vm-004"),
    ("slow_drift", 1400, 900, "vm-005"),
    ("log_silence", 1600, 400, "vm-001"),
    ("new_message", 1800, 300, "vm-002"),
    ("host_silent", 2000, 240, "vm-004"),
    ("machines_added", 2200, 60, ""),
    ("stuck_metric", 2300, 300, "vm-003"),
    ("deployment", 2500, 60, ""),
)


def moment(second: int) -> str:
    """A second of the simulation, as rules want it."""
    return f"2026-01-05T00:{second // 60:02}:{second % 60:02}Z"


PARAMETERS = ControlledParameters(
    warm_up_minutes=10,
    grace_minutes=10,
    persistence_minutes=5,
    rules=(
        Rule(
            "muted", host="vm-001", metric="re:system\\.(cpu|load).*", mute=True, since=moment(900), until=moment(1500)
        ),
        Rule("muted by hours", service="cache", kind="logs", mute=True, hours="01:23-01:30", zone="Europe/Berlin"),
        Rule("planned", host="vm-002", planned=True, since=moment(1150), until=moment(1450)),
        Rule("not learnt", host="vm-003", dont_learn=True, since=moment(880), until=moment(1200)),
        Rule("anew", host="ph-01", reset=moment(2100)),
        Rule(metric="service.request.rate", direction="up"),
        Rule(kind="logs", level="debug", least_deviation=3.0),
        Rule(metric="system.load.1m", alarm_chance=0.001, half_life_days=5.0),
    ),
)
# Second, what, and series: as `kappa label` writes them.
LABELS = (
    (1560, "false-alarm", ["logs/vm-004/cache/error", "gauge/vm-004/cache/service.error.rate"]),
    (1570, "true", ["logs/vm-004/cache/error"]),
    (1650, "false-alarm", ["gauge/vm-003//system.memory.used"]),
    (2000, "expected-change", ["gauge/vm-005/queue/service.latency.p95"]),
    (2100, "expected-change", ["host/vm-004"]),
)


@dataclasses.dataclass
class Row:
    """One series in one window."""

    values: list[float] = dataclasses.field(default_factory=list)
    n: int = 0
    template: str | None = None
    sample: str | None = None


def events(simulation: Simulation) -> Iterator[tuple[str, dict[str, Any], int]]:
    """Topic, event and event time of what is neither late nor from the future; some hosts fall silent together."""
    for block in simulation.blocks():
        for topic, batch in block.topics.items():
            for arrival, raw in zip(batch.arrival.tolist(), batch.values, strict=True):
                event = json.loads(raw)
                at = int(np.datetime64(event["@timestamp"].rstrip("Z"), "ms").astype(np.int64))
                away = event["host.name"] in AWAY and 2_600_000 <= at - DEFAULT_START < 2_760_000
                if at - SKEW_MS <= arrival <= at + LATENESS_MS and not away:
                    yield topic, event, at


def rows_of(simulation: Simulation) -> dict[int, dict[str, Row]]:
    """Rows by window and series, of events in order of event time, and of labels."""
    windows: dict[int, dict[str, Row]] = defaultdict(lambda: defaultdict(Row))
    templates: dict[str, str] = {}
    for topic, event, at in sorted(events(simulation), key=lambda found: found[2]):
        window = windows[(at // WINDOW_MS + 1) * WINDOW_MS]
        host, service = event["host.name"], event.get("service.name", "")
        if topic == "telemetry":
            labels = ",".join(f"{key}={quote(value)}" for key, value in sorted(event.get("labels", {}).items()))
            kind = "counter" if event.get("metric.type") == "counter" else "gauge"
            series = Series(kind, host, service, event["metric.name"] + (f"{{{labels}}}" if labels else ""))
            window[build(series)].values.append(float(event["metric.value"]))
            continue
        level, message = event["log.level"], event["message"]
        if message not in templates:
            templates[message] = template_of(message)
        template = templates[message]
        window[build(Series("logs", host, service, level=level))].n += 1
        row = window[build(Series("template", host, service, level=level, template_id=template_id(template)))]
        row.n, row.template = row.n + 1, template
        row.sample = message if row.sample is None else min(row.sample, message)
    for offset, (second, label, series_names) in enumerate(LABELS):
        at = DEFAULT_START + 1000 * second
        for host in sorted({parse(name).host for name in series_names}):
            own = {"label": label, "series": [name for name in series_names if parse(name).host == host]}
            name = f"label/{quote(host)}/{offset:020}"
            windows[(at // WINDOW_MS + 1) * WINDOW_MS][name] = Row(n=1, sample=json.dumps(own))
    return windows


def shard_of(series: str) -> int:
    """The shard of a host."""
    return zlib.crc32(series.split("/", 2)[1].encode()) % SHARDS


def windows_from(rows: dict[str, Row], shard: int) -> Windows:
    """A shard's rows of a window."""
    chosen = [(name, rows[name]) for name in sorted(rows) if shard_of(name) == shard]
    numbers: dict[str, list[float]] = {name: [] for name in ("mean", "m2", "min", "max", "last")}
    for name, row in chosen:
        found = [math.nan] * 5
        if row.values:
            gauge, size = name.startswith("gauge/"), len(row.values)
            mean = math.fsum(row.values) / size if gauge else 0.0
            m2 = math.fsum((value - mean) ** 2 for value in row.values) if gauge else 0.0
            found = [mean, m2, min(row.values), max(row.values), row.values[-1]]
        for column, value in zip(numbers.values(), found, strict=True):
            column.append(value)
    return Windows(
        series=np.array([name for name, _ in chosen], dtype=object),
        n=np.array([row.n or len(row.values) for _, row in chosen], dtype=np.int64),
        template=np.array([row.template for _, row in chosen], dtype=object),
        sample=np.array([row.sample for _, row in chosen], dtype=object),
        **{name: np.array(column, dtype=np.float64) for name, column in numbers.items()},
    )


def shortened(value: float) -> float | None:
    """Seven significant digits, of whole ones all of theirs; None for what is no number."""
    if not math.isfinite(value):
        return None
    return value if value.is_integer() else float(f"{value:.7g}")


def record(fields: dict[str, Any], *beside: Any) -> Record:
    """A record whose value is JSON, to the last bit of each number."""
    return Record(beside, json.dumps(fields, ensure_ascii=False).encode())


def score_records(end: int, scores: Scores) -> Iterator[Record]:
    """Scores as records."""
    columns = {field.name: getattr(scores, field.name).tolist() for field in dataclasses.fields(scores)}
    for values in zip(*columns.values(), strict=True):
        row = dict(zip(columns, values, strict=True))
        yield record({k: shortened(v) if isinstance(v, float) else v for k, v in row.items()}, end)


def content(part: bytes) -> dict[str, Any]:
    """What a part of a state says: its columns' types, its metadata, and its numbers, shortened."""
    arrays, about = read_part(part)
    if "sizes" in about:
        numbers = read_numbers(arrays, about)
        types = {name: str(column.dtype) for name, column in numbers.items()}
        return {"metadata": about, "types": types, "rows": {name: flat(numbers[name].T) for name in types}}
    types = {name: str(column.type) for name, column in arrays.items()}
    return {"metadata": about, "types": types, "rows": {name: column.to_pylist() for name, column in arrays.items()}}


def flat(column: Array) -> list[Any]:
    """All numbers of a column, series by series."""
    return [shortened(value) if isinstance(value, float) else value for value in column.ravel().tolist()]


def results() -> dict[str, list[Record]]:
    """Everything that the models say of the fleet, and what they know at the end."""
    schedule = tuple(Planned(*episode) for episode in EPISODES)
    simulation = simulate(
        SimulatorSettings(hosts=7, hours=0.8, seed=5, logs_per_second=0.5, late_share=0.002, schedule=schedule), 1
    )
    detectors, correlator = [ShardDetector(PARAMETERS) for _ in range(SHARDS)], Correlator(CorrelationParameters())
    found: dict[str, list[Record]] = {kind: [] for kind in ("scores", "novelties", "incidents", "states")}
    for end, rows in sorted(rows_of(simulation).items()):
        events: list[EpisodeEvent] = []
        for shard, detector in enumerate(detectors):
            scores, novelties = detector.step(end, windows_from(rows, shard))
            found["scores"] += score_records(end, scores)
            events += novelties
        found["novelties"] += [record(plain(event)) for event in events]
        watched = total(detector.watched for detector in detectors)
        incidents = correlator.step(end, events, watched)
        found["incidents"] += [record(plain(incident)) for incident in incidents]
    for shard, detector in enumerate(detectors):
        parts = detector.dump(only_changed=False)
        found["states"] += [record(content(part), shard, name, len(part)) for name, part in sorted(parts.items())]
    found["states"].append(Record(("correlator",), correlator.dump()))
    return found


def values_of(found: dict[str, list[Record]], kind: str, field: str) -> set[Any]:
    """What the records of a kind say in a field."""
    return {json.loads(record.value)[field] for record in found[kind]}


def test_today_s_results_of_the_models() -> None:
    found = results()
    assert values_of(found, "scores", "kind") == {
        *("normal", "warming", "anomaly", "change", "new", "silence", "muted", "planned")
    }
    assert values_of(found, "novelties", "kind") == {"anomaly", "change", "new", "silence"}
    assert values_of(found, "novelties", "status") == {"open", "update", "close"}
    assert values_of(found, "incidents", "status") == {"open", "update", "close"}
    assert values_of(found, "incidents", "scope") >= {"host", "fleet"}
    digests.check("models", found)
