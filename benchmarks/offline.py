"""The detector on a simulated fleet without Kafka or Spark: which faults and changes it finds, and how many false alarms it raises.

    python -m benchmarks.offline --seeds 1 2 3 [--start-hours 0 6 12] [--schedule demo|seed|clean|drift] [--services N] [--alone]

Events are admitted as the pipeline does (late ones are dropped), templates are made by masking, windows are aggregated
with pandas, and each shard's windows go through a `ShardDetector` and all novelties through a `Correlator`. Faults and
changes are judged by novelties, false alarms by incidents, as the demonstration does.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import pickle
import re
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from app.cli.demonstration import HISTORY_HOURS, HOSTS, INTERVAL, LIVE_FAULTS, PAST_EPISODES
from app.simulator import Planned, Simulation, SimulatorSettings, Table, match, simulate
from app.simulator.settings import DEFAULT_START
from models.core.arrays import Floats
from models.core.parameters import DetectorParameters
from models.core.series import Series, build, parse
from models.core.windows import Windows
from models.detection.detector import ShardDetector
from models.incidents.correlator import Correlator
from models.incidents.parameters import CorrelationParameters
from models.records.records import PEERS, total
from pipelines.errors import InputError
from pipelines.peers import LEAST_HOSTS, QUANTILES, is_compared

WINDOW_MS = 10_000
LATENESS_MS, SKEW_MS = 15_000, 60_000
SHARDS = 8
VALUES, TEXTS = ["series", "window_end", "value", "at"], ["series", "window_end", "template", "sample"]
MASKS = [
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "<uuid>"),
    (re.compile(r"\b\d{4}-\d{2}-\d{2}\b"), "<date>"),
    (re.compile(r"https?://\S+"), "<url>"),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b"), "<ip>"),
    (re.compile(r'"[^"]*"'), "<quoted>"),
    (re.compile(r"(?<![\w<])/[\w./-]+"), "<path>"),
    (re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{7,}\b"), "<num>"),
    (re.compile(r"\b[0-9A-F]+/[0-9A-F]{8}\b"), "<num>"),
    (
        re.compile(
            r"\b(?:root|alice|bob|carol|deploy|www-data|postgres|jenkins|mallory|dave|svc_etl|erin|orders|users|billing"
            r"|events|stock|audit|mail|prices|carts|media|reviews|geo|GET|POST|PUT|DELETE)\b"
        ),
        "<word>",
    ),
    (re.compile(r"\d+"), "<num>"),
]


def mask(message: str) -> str:
    """A crude template of a message."""
    for pattern, token in MASKS:
        message = pattern.sub(token, message)
    return message


def demo_schedule(history_hours: float) -> tuple[Planned, ...]:
    """The episodes of `kappa demo`."""
    past = int(history_hours * 3600)
    schedule = [
        Planned(kind, round(share * past / INTERVAL) * INTERVAL, max(60, s)) for kind, share, s in PAST_EPISODES
    ]
    return tuple(schedule + [Planned(kind, past + 75 + after, seconds) for kind, after, seconds in LIVE_FAULTS])


def settings_of(seed: int, start_hours: float, schedule: str, hours: float, services: int = 8) -> SimulatorSettings:
    """A fleet of the demonstration's size; in the schedule `drift` one host drifts away from a third of the time on."""
    start = DEFAULT_START + int(start_hours * 3_600_000)
    if schedule == "demo":
        total = HISTORY_HOURS + 8 / 60
        return SimulatorSettings(
            hosts=HOSTS, hours=total, seed=seed, start=start, schedule=demo_schedule(HISTORY_HOURS)
        )
    planned = None
    if schedule == "drift":
        planned = (Planned("slow_drift", 1200 * hours, 2000 * hours, "vm-005"),)
    scenario = "clean" if schedule == "clean" else "standard"
    return SimulatorSettings(
        hosts=HOSTS, hours=hours, seed=seed, start=start, scenario=scenario, schedule=planned, services=services
    )


def admitted(simulation: Simulation) -> Iterator[tuple[str, dict[str, Any], int]]:
    """Topic, event and event time of what is neither late nor from the future."""
    for topic, event, at, _ in appended(simulation):
        yield topic, event, at


def appended(simulation: Simulation) -> Iterator[tuple[str, dict[str, Any], int, int]]:
    """The same, and when it was appended."""
    for block in simulation.blocks():
        for topic, batch in block.topics.items():
            for arrival, raw in zip(batch.arrival.tolist(), batch.values, strict=True):
                event = json.loads(raw)
                at = int(np.datetime64(event["@timestamp"].rstrip("Z"), "ms").astype(np.int64))
                if at - SKEW_MS <= arrival <= at + LATENESS_MS:
                    yield topic, event, at, arrival


def series_of(event: dict[str, Any]) -> str:
    """The series of a metric event."""
    labels = ",".join(f"{k}={v}" for k, v in sorted(event.get("labels", {}).items()))
    metric = event["metric.name"] + (f"{{{labels}}}" if labels else "")
    kind = "counter" if event.get("metric.type") == "counter" else "gauge"
    return build(Series(kind, event["host.name"], event.get("service.name", ""), metric))


def line_of(event: dict[str, Any]) -> tuple[str, str]:
    """The series and the template of a log event."""
    template = mask(event["message"])
    name = f"{zlib.crc32(template.encode()):08x}"
    host, service = event["host.name"], event.get("service.name", "")
    return build(Series("template", host, service, level=event["log.level"], template_id=name)), template


def rows_of(simulation: Simulation) -> pd.DataFrame:
    """One row for each series and window: the columns of `Windows`, `window_end` and `shard`."""
    metrics: list[tuple[str, int, float, int]] = []
    lines: list[tuple[str, int, str | None, str | None]] = []
    for topic, event, at in admitted(simulation):
        end = (at // WINDOW_MS + 1) * WINDOW_MS
        host, service = event["host.name"], event.get("service.name", "")
        if topic == "telemetry":
            metrics.append((series_of(event), end, float(event["metric.value"]), at))
        else:
            name, template = line_of(event)
            lines.append((build(Series("logs", host, service, level=event["log.level"])), end, None, None))
            lines.append((name, end, template, event["message"]))
    values = pd.DataFrame(metrics, columns=VALUES)
    texts = pd.DataFrame(lines, columns=TEXTS)
    return pd.concat([metric_rows(values), count_rows(texts)], ignore_index=True)


def metric_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Statistics of metric events, with the columns `VALUES`."""
    frame = frame.sort_values("at", kind="stable")
    grouped = frame.groupby(["series", "window_end"], sort=False)["value"]
    out = grouped.agg(n="count", mean="mean", min="min", max="max", last="last", var="var").reset_index()
    out["m2"] = (out["var"].fillna(0) * (out["n"] - 1)).clip(lower=0)
    return out.drop(columns="var").assign(template=None, sample=None)


def count_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Counts of log lines, with the columns `TEXTS`."""
    out = frame.groupby(["series", "window_end"], sort=False).agg(
        n=("series", "size"), template=("template", "first"), sample=("sample", "first")
    )
    return out.reset_index().assign(mean=np.nan, m2=np.nan, min=np.nan, max=np.nan, last=np.nan)


def cached(settings: SimulatorSettings, folder: Path | None) -> tuple[list[dict[str, Any]], pd.DataFrame]:
    """Truth and rows of a simulation, kept in `folder`."""
    key = hashlib.sha256(repr(settings).encode()).hexdigest()[:16]
    path = folder / f"{key}.pickle" if folder else None
    if path is not None and path.exists():
        kept: tuple[list[dict[str, Any]], pd.DataFrame] = pickle.loads(path.read_bytes())  # written below
        return kept
    simulation = simulate(settings)
    made = simulation.truth, rows_of(simulation)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pickle.dumps(made))
    return made


def with_peers(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with what the other hosts of each role have at the same moment, as `pipelines.peers` adds it."""
    compared = [end for end in rows["window_end"].unique().tolist() if is_compared(end, WINDOW_MS // 1000)]
    gauges = rows[rows["series"].str.startswith("gauge/") & rows["window_end"].isin(compared)]
    roles = {name: name.split("/", 2)[2] for name in gauges["series"].unique()}
    found = np.full((4, len(rows)), np.nan)
    gauges = gauges[~gauges["series"].map(roles).str.startswith("/")]
    for _, places in gauges.groupby([gauges["window_end"], gauges["series"].map(roles)], sort=False).indices.items():
        if len(places) >= LEAST_HOSTS:
            own = gauges.index[places].to_numpy()
            found[:, own] = quantiles_of_others(gauges["mean"].to_numpy()[places])
    return rows.assign(**dict(zip(PEERS, found, strict=True)))


def quantiles_of_others(values: Floats) -> Floats:
    """Number of the others, and their quantiles, for each of the values, `(4, n)`."""
    ordered, n = np.sort(values), len(values) - 1
    found = [np.full(len(values), float(n))]
    for share in QUANTILES.values():
        place = share * (n - 1) if share == 0.5 else max(min(share * (n - 1), n - 2.0), 1.0)
        at = int(place)
        low, high, beyond = (ordered[min(at + step, n)] for step in range(3))
        first, second = np.where(low < values, low, high), np.where(high < values, high, beyond)
        found.append(np.minimum(first + (second - first) * (place - at), second))
    return np.array(found)


def windows_of(
    rows: pd.DataFrame, *, alone: bool = False, shards: int = SHARDS, peers: bool = True
) -> Iterator[tuple[int, dict[int, Windows]]]:
    """Every window from the first to the last, those without a row too: its rows by shard.

    If `alone`, without peers; without `peers` the rows are as they are, with the columns `PEERS`.
    """
    if alone:
        rows = rows.assign(**dict.fromkeys(PEERS, np.nan))
    elif peers:
        rows = with_peers(rows.reset_index(drop=True))
    hosts = {name: zlib.crc32(parse(name).host.encode()) % shards for name in rows["series"].unique()}
    rows = rows.assign(shard=rows["series"].map(hosts)).sort_values(["window_end", "shard", "series"])
    empty = rows.iloc[:0]
    found = {int(str(end)): window for end, window in rows.groupby("window_end", sort=True)}
    for end in range(min(found), max(found) + WINDOW_MS, WINDOW_MS):
        parts = dict(iter(found.get(end, empty).groupby("shard", sort=False)))
        yield end, {shard: windows_from(parts.get(shard, empty)) for shard in range(shards)}


def windows_from(frame: pd.DataFrame) -> Windows:
    """A frame's rows as the detector reads them."""
    numbers = {name: frame[name].to_numpy(np.float64) for name in ("mean", "m2", "min", "max", "last")}
    texts = {name: frame[name].to_numpy(object) for name in ("series", "template", "sample")}
    peers = frame[list(PEERS)].to_numpy(np.float64)
    return Windows(n=frame["n"].to_numpy(np.int64), peers=peers, **numbers, **texts)


@dataclasses.dataclass
class Run:
    """The results of a simulation: the table, all episode events and incidents, and the seconds that the detector took."""

    table: Table
    novelties: list[Any]
    incidents: list[dict[str, Any]]
    seconds: float
    series: int


def replayed(
    rows: pd.DataFrame,
    parameters: DetectorParameters,
    joined: CorrelationParameters | None = None,
    *,
    alone: bool = False,
) -> tuple[list[Any], list[dict[str, Any]], float]:
    """Episode events and incidents of all windows, and the seconds that the detector took."""
    detectors = {shard: ShardDetector(parameters) for shard in range(SHARDS)}
    correlator = Correlator(joined or CorrelationParameters())
    novelties: list[Any] = []
    incidents: list[dict[str, Any]] = []
    spent = 0.0
    for end, shards in windows_of(rows, alone=alone):
        events: list[Any] = []
        for shard, windows in shards.items():
            began = time.perf_counter()
            events += detectors[shard].step(end, windows)[1]
            spent += time.perf_counter() - began
        novelties += events
        watched = total(detector.watched for detector in detectors.values())
        incidents += [i.to_record("live") for i in correlator.step(end, events, watched)]
    return novelties, incidents, spent


def run(
    settings: SimulatorSettings, parameters: DetectorParameters, folder: Path | None, *, alone: bool = False
) -> Run:
    """Detect and judge one simulation."""
    truth, rows = cached(settings, folder)
    novelties, incidents, spent = replayed(rows, parameters, alone=alone)
    delay = LATENESS_MS + SKEW_MS
    heard = [
        {**dataclasses.asdict(n), "host": parse(n.series).host, "detected_at": n.window_end + delay}
        for n in novelties
        if n.status != "close" or n.kind == "change"
    ]
    opened = [{**i, "detected_at": i["window_end"] + delay} for i in incidents if i["status"] == "open"]
    table, alarms = match(truth, heard), match(truth, opened)
    table = dataclasses.replace(table, false_alarms=alarms.false_alarms, false=alarms.false)
    return Run(table, novelties, incidents, spent, rows["series"].nunique())


def show(label: str, result: Run, *, verbose: bool) -> None:
    """One line, and with `verbose` the fate of each record and every false alarm."""
    table = result.table
    missed = [r.kind for r in table.records if r.category == "fault" and not r.found]
    silent = [r.kind for r in table.records if r.category == "change" and not r.announced]
    median = table.median_seconds_to_detect
    print(
        f"{label}: faults {table.found}/{table.faults}, changes {table.changes_announced}/{table.changes}, "
        f"false {table.false_alarms}, median {median if median is None else round(median)} s, "
        f"episode events {len(result.novelties)}, incidents {sum(i['status'] == 'open' for i in result.incidents)}, "
        f"{result.series} series, {result.seconds:.1f} s; missed {missed} {silent}",
        flush=True,
    )
    for alarm in table.false:
        print(f"    false: {alarm['kind']} {alarm['hosts']} {alarm['start']}: {alarm['reason']}")
    if verbose:
        for record in table.records:
            word = record.announced if record.category == "change" else record.found
            print(f"    {record.kind:16} {'yes' if word else 'NO ':4}{record.seconds or 0:6.0f} s {record.hosts}")
        print("   ", Counter((n.status, n.kind) for n in result.novelties))


def tell(path: Path, result: Run) -> None:
    """Write every novelty as a line of JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(dataclasses.asdict(novelty)) + "\n" for novelty in result.novelties))


def main() -> None:
    """Print a table and, at the end, the sums as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--start-hours", type=float, nargs="+", default=[0.0])
    parser.add_argument("--schedule", choices=("demo", "seed", "clean", "drift"), default="demo")
    parser.add_argument("--services", type=int, default=8, help="the fewer, the more hosts have the same role")
    parser.add_argument("--alone", action="store_true", help="no host is compared with its peers")
    parser.add_argument("--hours", type=float, default=6.0)
    parser.add_argument("--strength", type=float, default=1.0, help="factor of every fault's size")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--events", type=Path, help="folder for episode events and incidents, as JSON lines")
    arguments = parser.parse_args()
    sums: Counter[str] = Counter()
    for start in arguments.start_hours:
        for seed in arguments.seeds:
            settings = settings_of(seed, start, arguments.schedule, arguments.hours, arguments.services)
            settings = dataclasses.replace(settings, fault_strength=arguments.strength)
            try:
                result = run(settings, DetectorParameters(), arguments.cache, alone=arguments.alone)
            except InputError as error:
                print(f"seed {seed}: {error}")
                continue
            show(f"seed {seed} from {start:g} h", result, verbose=arguments.verbose)
            if arguments.events:
                tell(arguments.events / f"{seed}-{start:g}-{arguments.schedule}.jsonl", result)
            table = result.table
            sums.update(runs=1, faults=table.faults, found=table.found, changes=table.changes)
            sums.update(changes_announced=table.changes_announced, false_alarms=table.false_alarms)
    json.dump(sums, sys.stdout)
    print()


if __name__ == "__main__":
    main()
