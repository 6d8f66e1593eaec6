"""Early alarms on simulated fleets without Kafka or Spark: how many faults have one, how long before the incident, how many are withdrawn.

    python -m benchmarks.early --seeds 81 82 83 84 85 86 [--clean] [--hours 6] [--cache DIR]

Each record is compared, when it is appended, with the bounds of the windows that are known by then: those of a window are known `KNOWN_MS` after
its end. An incident is known `PUBLISHED_MS` after the end of its window. A series that has raised an alarm raises no other one for `QUIET_MS`, as in
the lane itself. With `--clean` there is no fault, and every alarm is false.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import pickle
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from app.simulator import SimulatorSettings, simulate
from app.simulator.ground_truth import milliseconds
from benchmarks.offline import (
    LATENESS_MS,
    TEXTS,
    VALUES,
    WINDOW_MS,
    appended,
    count_rows,
    line_of,
    metric_rows,
    series_of,
    settings_of,
    windows_of,
)
from models.core.parameters import DetectorParameters
from models.core.series import Series, parse
from models.detection.alarm_bounds import EarlyParameters
from models.detection.detector import ShardDetector
from models.detection.shard_state import context_of
from models.incidents.correlator import Correlator
from models.incidents.parameters import CorrelationParameters
from models.records.records import Bound, total
from models.templates.tokens import PLACE

KNOWN_MS = LATENESS_MS + 2_000
PUBLISHED_MS = LATENESS_MS + 5_000
QUIET_MS = 240_000
SHARDS = 1  # it is quicker, and the promise is that of the fleet however its hosts are spread
MOST_RATE_MS = 10 * WINDOW_MS
DAY_MS = 86_400_000
ABRUPT = {
    "processor": ("cpu_contention", "noisy_neighbour"),
    "network": ("network_delay", "packet_loss"),
    "errors": ("error_burst",),
    "silence": ("host_silent", "log_silence"),
}


@dataclasses.dataclass(frozen=True)
class Alarm:
    """An early alarm: the value that was beyond the bounds, its window, and when it was appended; times in epoch ms."""

    series: str
    value: float
    window_end: int
    appended: int


@dataclasses.dataclass(frozen=True)
class EarlyRun:
    """What one fleet gave: bounds as written, incidents, alarms, how many days and records of metrics there were."""

    truth: list[dict[str, Any]]
    bounds: dict[str, list[Bound]]
    incidents: list[dict[str, Any]]
    alarms: list[Alarm]
    days: float
    records: int


@dataclasses.dataclass(frozen=True)
class Records:
    """What is admitted, in the order of append times: `series`, `at` and `appended` of each; the `value` of metrics, the `template` of lines."""

    metrics: pd.DataFrame
    lines: pd.DataFrame


def simulated(settings: SimulatorSettings, folder: Path | None) -> tuple[list[dict[str, Any]], pd.DataFrame, Records]:
    """Truth, rows of windows and records of a fleet, of one pass over its events; kept in `folder`."""
    key = hashlib.sha256(repr(settings).encode()).hexdigest()[:16]
    path = folder / f"{key}.early.pickle" if folder else None
    if path is not None and path.exists():
        truth, rows, *kept = pickle.loads(path.read_bytes())  # written below
        return truth, rows, Records(*kept)
    simulation = simulate(settings)
    metrics, lines = [], []
    for topic, event, at, arrival in appended(simulation):
        if topic == "telemetry":
            metrics.append((series_of(event), float(event["metric.value"]), at, arrival))
        else:
            lines.append((*line_of(event), event["message"], at, arrival))
    values = pd.DataFrame(metrics, columns=["series", "value", "at", "appended"])
    texts = pd.DataFrame(lines, columns=["series", "template", "sample", "at", "appended"])
    rows = rows_of(values, texts)
    found = Records(*(one.sort_values("appended", kind="stable") for one in (values, texts.drop(columns="sample"))))
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pickle.dumps((simulation.truth, rows, found.metrics, found.lines)))
    return simulation.truth, rows, found


def rows_of(values: pd.DataFrame, texts: pd.DataFrame) -> pd.DataFrame:
    """One row for each series and window, as `benchmarks.offline.rows_of` has it."""
    values, texts = (one.assign(window_end=(one["at"] // WINDOW_MS + 1) * WINDOW_MS) for one in (values, texts))
    parts = texts["series"].str.split("/", expand=True)
    levels = "logs/" + parts[1] + "/" + parts[2] + "/" + parts[3]
    counts = pd.concat([texts.assign(series=levels, template=None, sample=None), texts], ignore_index=True)
    return pd.concat([metric_rows(values[VALUES]), count_rows(counts[TEXTS])], ignore_index=True)


def bounds_and_incidents(
    rows: pd.DataFrame, false_alarms_a_day: float
) -> tuple[dict[str, list[Bound]], list[dict[str, Any]]]:
    """The bounds of each series as they were written, and the incidents."""
    early = EarlyParameters(false_alarms_a_day, SHARDS)
    detectors = {shard: ShardDetector(DetectorParameters(), shard=shard, early=early) for shard in range(SHARDS)}
    correlator = Correlator(CorrelationParameters())
    bounds: dict[str, list[Bound]] = {}
    incidents: list[dict[str, Any]] = []
    for end, shards in windows_of(rows, shards=SHARDS):
        events: list[Any] = []
        for shard, windows in shards.items():
            events += detectors[shard].step(end, windows)[1]
            for bound in detectors[shard].bounds:
                bounds.setdefault(bound.series, []).append(bound)
        watched = total(detector.watched for detector in detectors.values())
        incidents += [incident.to_record("live") for incident in correlator.step(end, events, watched)]
    return bounds, incidents


def compared(series: str, records: pd.DataFrame) -> pd.DataFrame:
    """The values of a series that are compared: those of a gauge, the rates between two records of a counter."""
    if not series.startswith("counter/"):
        return records
    at, value = records["at"].to_numpy(), records["value"].to_numpy()
    passed, grown = np.diff(at), np.diff(value)
    known = (passed > 0) & (passed <= MOST_RATE_MS) & (grown >= 0)
    return records.iloc[1:].assign(value=1000.0 * grown / np.maximum(passed, 1))[known]


def alarms_of(series: str, records: pd.DataFrame, written: Sequence[Bound]) -> list[Alarm]:
    """The alarms of one series."""
    found = compared(series, records)
    known = np.array([bound.window_end + KNOWN_MS for bound in written])
    at = np.searchsorted(known, found["appended"].to_numpy(), side="right") - 1
    value = found["value"].to_numpy()
    lower, upper = (
        np.where(at >= 0, np.array([getattr(b, name) for b in written])[at], np.nan) for name in ("lower", "upper")
    )
    alarms, quiet = [], 0
    for j in np.flatnonzero((value < lower) | (value > upper)).tolist():
        row = found.iloc[j]
        window_end = (int(row["at"]) // WINDOW_MS + 1) * WINDOW_MS
        if window_end > quiet:
            alarms.append(Alarm(series, float(value[j]), window_end, int(row["appended"])))
            quiet = window_end + QUIET_MS
    return alarms


def alarms_of_lines(lines: pd.DataFrame, bounds: Mapping[str, Sequence[Bound]]) -> list[Alarm]:
    """The alarms of log lines, by the bounds of their services."""
    alarms = []
    for name, own in lines.groupby("series", sort=True):
        kind = parse(str(name))
        written = bounds.get(f"template/{context_of(str(name))}", ())
        known = np.array([bound.window_end + KNOWN_MS for bound in written])
        at = np.searchsorted(known, own["appended"].to_numpy(), side="right") - 1
        news = np.array([is_new(bound, kind, str(own["template"].iloc[0])) for bound in written] + [False])
        quiet = 0
        for j in np.flatnonzero(news[at]).tolist():  # -1, where none is known yet, is the last
            row = own.iloc[j]
            window_end = (int(row["at"]) // WINDOW_MS + 1) * WINDOW_MS
            if window_end > quiet:
                alarms.append(Alarm(str(name), np.nan, window_end, int(row["appended"])))
                quiet = window_end + QUIET_MS
    return alarms


def is_new(bound: Bound, line: Series, template: str) -> bool:
    """Whether a line is news to the bound of its service; as `pipelines/jvm/KnownLines.java` has it."""
    if bound.known is None:
        return False
    if line.level not in (bound.levels or ()):
        return True
    like = (re.escape(one).replace(re.escape(PLACE), r"\S+") for one in bound.patterns or ())
    return line.template_id not in bound.known and not any(re.fullmatch(one, template) for one in like)


def run(settings: SimulatorSettings, false_alarms_a_day: float, folder: Path | None) -> EarlyRun:
    """Bounds, incidents and early alarms of one fleet."""
    truth, rows, records = simulated(settings, folder)
    bounds, incidents = bounds_and_incidents(rows, false_alarms_a_day)
    of_series = {str(name): own for name, own in records.metrics.groupby("series", sort=True)}
    alarms = [
        alarm for name, own in of_series.items() if name in bounds for alarm in alarms_of(name, own, bounds[name])
    ]
    alarms += alarms_of_lines(records.lines, bounds)
    began = min(min(bound.window_end for bound in own) for own in bounds.values())
    days = (int(rows["window_end"].max()) - began) / DAY_MS
    return EarlyRun(truth, bounds, incidents, sorted(alarms, key=lambda a: a.appended), days, len(records.metrics))


def confirming(
    series: str, window_end: int, incidents: Iterable[Mapping[str, Any]], patience_ms: int = QUIET_MS
) -> bool:
    """Whether an incident with the host of an alarm's series was published of its window or one soon after, or was open then."""
    host, open_now = parse(series).host, dict[str, bool]()
    for incident in incidents:
        if incident["window_end"] > window_end + patience_ms:
            break
        if host in incident["hosts"]:
            if incident["window_end"] >= window_end:
                return True
            open_now[incident["id"]] = incident["status"] != "close"
    return any(open_now.values())


@dataclasses.dataclass
class Figures:
    """What is counted over fleets: faults and those with an early alarm by group, the seconds won, alarms and those that are confirmed."""

    faults: Counter[str] = dataclasses.field(default_factory=Counter)
    found_early: Counter[str] = dataclasses.field(default_factory=Counter)
    won: list[float] = dataclasses.field(default_factory=list)
    alarms: int = 0
    confirmed: int = 0
    days: float = 0.0

    def take(self, one: EarlyRun) -> None:
        """Add a fleet."""
        self.days += one.days
        self.alarms += len(one.alarms)
        self.confirmed += sum(confirming(alarm.series, alarm.window_end, one.incidents) for alarm in one.alarms)
        for record in one.truth:
            group = next((name for name, kinds in ABRUPT.items() if record["kind"] in kinds), None)
            if group is not None:
                self._fault(group, record, one)

    def _fault(self, group: str, record: Mapping[str, Any], one: EarlyRun) -> None:
        begin = milliseconds(record["from"])
        until = begin + 3_600_000 if record["to"] is None else milliseconds(record["to"])
        hosts = {*record["hosts"], *record["related_hosts"]}
        early = [a.appended for a in one.alarms if parse(a.series).host in hosts and begin <= a.appended <= until]
        published = [
            i["window_end"] + PUBLISHED_MS
            for i in one.incidents
            if i["status"] == "open" and hosts & set(i["hosts"]) and begin <= i["window_end"] <= until + QUIET_MS
        ]
        self.faults[group] += 1
        self.found_early[group] += bool(early)
        if early and published:
            self.won.append((min(published) - min(early)) / 1000)


def show(title: str, found: Figures, promised: float) -> None:
    """Print the figures."""
    for group, faults in found.faults.items():
        print(f"{title}: {group}: {found.found_early[group]} of {faults} faults with an early alarm")
    if found.won:
        won = np.percentile(found.won, [10, 50, 90])
        print(f"{title}: seconds before the incident: median {won[1]:.0f}, tenths {won[0]:.0f} and {won[2]:.0f}")
    if found.faults:
        print(f"{title}: {found.confirmed} of {found.alarms} early alarms confirmed")
        return
    expected = promised * found.days
    least, most = stats.poisson.interval(0.95, expected)
    print(
        f"{title}: {found.alarms} false alarms in {found.days:.2f} days ({found.confirmed} with an incident); promised {expected:.1f}, "
        f"95 % of Poisson {least:.0f} to {most:.0f}"
    )


def main() -> None:
    """Print a table, and with `--verbose` every alarm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[81, 82, 83, 84, 85, 86])
    parser.add_argument("--clean", action="store_true", help="no faults: every alarm is false")
    parser.add_argument("--hours", type=float, default=6.0)
    parser.add_argument("--promise", type=float, default=1.0, help="false alarms a day in the fleet")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--verbose", action="store_true")
    own = parser.parse_args()
    found = Figures()
    for seed in own.seeds:
        settings = settings_of(seed, 0.0, "clean" if own.clean else "seed", own.hours)
        one = run(settings, own.promise, own.cache)
        found.take(one)
        written = sum(map(len, one.bounds.values()))
        print(
            f"seed {seed}: {len(one.alarms)} alarms, {written} bounds written of {len(one.bounds)} series", flush=True
        )
        if own.verbose:
            for alarm in one.alarms:
                print(
                    "   ",
                    json.dumps(dataclasses.asdict(alarm)),
                    confirming(alarm.series, alarm.window_end, one.incidents),
                )
    show("in all", found, own.promise)


if __name__ == "__main__":
    main()
