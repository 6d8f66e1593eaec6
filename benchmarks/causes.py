"""Root causes: the detector and the correlator over PetShop, Sock Shop and Nezha, their strange services ranked by `models.incidents.cause`.

Settings are the defaults. An application is one host, its components the services of it (their numbers: names may hold
anything). What is published as an incident is a detection; without one nothing is ranked. Beside it stand the largest robust
z, which is given the time, and chance.

    petshop     issues behind the normal rows, five rows each; metrics that flow with the calls (requests) are left out. Specificity:
                nothing is published of that metric in the five rows behind each cut
    sockshop    a row of a second counts as a window of ten: the models warm up for half an hour, and five minutes is all there is.
                The anomalous part is put behind the normal one, and everything after the seam is ranked
    nezha       contention of processors alone, the four minutes from the injection on: the time is given, the detection is not asked
"""

from __future__ import annotations

import copy
import csv
import json
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks.collections import BEGIN, MS
from benchmarks.judges import judge_causes
from models.core.arrays import Floats, Ints, Texts
from models.core.parameters import DetectorParameters
from models.core.series import Series, build
from models.detection.detector import ShardDetector
from models.detection.table_score import one_point_window
from models.incidents.cause import Suspect, rank_services
from models.incidents.correlator import Correlator
from models.incidents.members import Member, member_of, suspect_of
from models.incidents.parameters import CorrelationParameters
from models.records.records import EpisodeEvent

COLLECTIONS = ("petshop", "sockshop", "nezha causes")
FLAT = 0.01  # least spread of the robust z, as a share of the median
STATISTIC = {"latency": "Average", "availability": "Average"}
ISSUE_ROWS = 5
NEZHA_DAY, NEZHA_ROWS = "2023-01-30", 4
Column = tuple[str, str]  # component, metric
Ranked = list[Column]
Rankings = dict[str, dict[str, Ranked]]  # who -> case -> components with their metrics, best first


@dataclass
class Watch:
    """The chain over the rows of one application. `seen` are the events of episodes with their rows."""

    columns: list[Column]
    seconds: float
    apart: bool = False  # whether components are hosts
    row: int = 0
    published: list[int] = field(default_factory=list)
    seen: list[tuple[int, EpisodeEvent]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Name the series: an application is one host, or each component one."""
        number = {name: f"c{i:03d}" for i, name in enumerate(sorted({component for component, _ in self.columns}))}
        named = {}
        for component, metric in self.columns:
            part = number[component]
            series = Series("gauge", part, metric=metric) if self.apart else Series("gauge", "app", part, metric)
            named[build(series)] = (component, metric)
        self.of = named
        self.place = {name: i for i, name in enumerate(named)}
        self.order: Ints = np.array(sorted(range(len(self.columns)), key=list(named).__getitem__), dtype=np.int64)
        self.names: Texts = np.array(sorted(named), dtype=object)
        self.detector = ShardDetector(DetectorParameters(window_seconds=self.seconds))
        self.correlator = Correlator(CorrelationParameters())

    def step(self, at: int, values: Floats) -> None:
        """Give one row, `(columns,)`, to the chain."""
        values = values[self.order]
        there = np.flatnonzero(np.isfinite(values))
        if len(there):
            _, events = self.detector.step(at, one_point_window(self.names[there], values[there]))
            if self.correlator.step(at, events, self.detector.watched):
                self.published.append(self.row)
            self.seen += [(self.row, event) for event in events if event.series in self.of]
        self.row += 1

    def suspects(self, first: int, last: int, metrics: Iterable[str] = ()) -> list[Suspect]:
        """What is strange in rows `first` to `last`, the latter excluded, as the events until then say it."""
        members: dict[str, Member] = {}
        now = {event.id for row, event in self.seen if first <= row < last and event.kind in ("anomaly", "change")}
        for row, event in self.seen:
            if event.id in now and row < last:
                if event.id in members:
                    members[event.id].update(event)
                else:
                    members[event.id] = member_of(event)
        wanted, found = set(metrics), []
        for member in members.values():
            component, metric = self.of[member.series]
            if not wanted or metric in wanted:
                found.append(replace(suspect_of(member), service=component, what=metric))
        return found

    def has_published(self, first: int, last: int) -> bool:
        """Whether an incident was published in these rows."""
        return any(first <= row < last for row in self.published)


def listed(suspects: Sequence[Suspect], calls: Iterable[Column] = ()) -> Ranked:
    """Components by who is likely the cause, then the other metrics by their strength."""
    first = [(cause.service, cause.metric) for cause in rank_services(suspects, calls)]
    rest = sorted(suspects, key=lambda s: (-s.strength, s.service, s.what))
    return list(dict.fromkeys([*first, *((s.service, s.what) for s in rest)]))


def by_strength(suspects: Sequence[Suspect]) -> Ranked:
    """Metrics by their strength alone."""
    return [(s.service, s.what) for s in sorted(suspects, key=lambda s: (-s.strength, s.service, s.what))]


def by_onset(suspects: Sequence[Suspect]) -> Ranked:
    """Metrics by which began first, then by strength."""
    return [(s.service, s.what) for s in sorted(suspects, key=lambda s: (s.onset, -s.strength, s.service))]


def by_z(columns: Sequence[Column], before: Floats, after: Floats) -> Ranked:
    """All metrics by their largest robust z; the rows before are normal."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # metrics without a value
        median = np.nanmedian(before, axis=0)
        spread = np.fmax(1.4826 * np.nanmedian(np.abs(before - median), axis=0), FLAT * np.abs(median))
        z = np.nan_to_num(
            np.nanmax(np.abs(after - median), axis=0, initial=0.0, where=np.isfinite(after)) / spread, posinf=1e12
        )
    return [columns[i] for i in sorted(range(len(columns)), key=lambda i: (-z[i], columns[i]))]


def petshop(data: Path) -> Rankings:
    """Rankings of all issues and normal cuts."""
    folder = data / "petshop"
    targets = json.loads((folder / "targets.json").read_text())
    with (folder / "low_traffic_graph.csv").open(newline="") as lines:
        head, *rows = list(csv.reader(lines))
    calls = [
        (row[0], callee) for row in rows for callee, many in zip(head[1:], row[1:], strict=True) if float(many or 0)
    ]
    normal = _petshop_rows(folder / "low_traffic_normal.parquet")
    issues = _petshop_rows(folder / "low_traffic_issues.parquet")
    columns = sorted({column for of in (normal, issues) for values in of.values() for column in values})

    def matrix(of: Mapping[Any, Mapping[Column, float]]) -> Floats:
        return np.array([[of[key].get(column, np.nan) for column in columns] for key in sorted(of)])

    watch = Watch(columns, 300.0)
    before, times = matrix(normal), [at for _, at in sorted(normal)]
    for at, values in zip(times, before, strict=True):
        watch.step(at, values)
    found: Rankings = {name: {} for name in ("kappa", "kappa, without calls", "kappa, onset first", "largest robust z")}

    def note(case: str, kind: str, chain: Watch, first: int) -> None:
        last = first + ISSUE_ROWS
        suspects = chain.suspects(first, last, [kind]) if chain.has_published(first, last) else []
        found["kappa"][case] = listed(suspects, calls)
        found["kappa, without calls"][case] = by_strength(suspects)
        found["kappa, onset first"][case] = by_onset(suspects)

    for case, about in targets["normal"].items():
        note(case, about["type"], watch, times.index(about["start"]))
        found["largest robust z"][case] = [columns[0]]  # it always answers
    for case, about in targets["issues"].items():
        chain = copy.deepcopy(watch)
        values = matrix({key: row for key, row in issues.items() if key[0] == case.partition("/")[2]})
        for i, row in enumerate(values, 1):
            chain.step(times[-1] + i * 300 * MS, row)
        note(case, about["type"], chain, len(before))
        own = [i for i, (_, metric) in enumerate(columns) if metric == about["type"]]
        found["largest robust z"][case] = by_z([columns[i] for i in own], before[:, own], values[2:, own])
    return found


def _petshop_rows(path: Path) -> dict[tuple[str, int], dict[Column, float]]:
    """Values of a row by its issue and time."""
    rows: dict[tuple[str, int], dict[Column, float]] = {}
    for row in pq.read_table(path).to_pylist():
        if STATISTIC.get(row["metric"]) == row["statistic"]:
            rows.setdefault((row.get("issue", ""), row["time"]), {})[row["component"], row["metric"]] = row["value"]
    return rows


def sockshop(data: Path) -> Rankings:
    """Rankings of all cases: the two parts after each other."""
    found: Rankings = {name: {} for name in ("kappa", "kappa, onset first", "largest robust z")}
    for case in json.loads((data / "sockshop" / "targets.json").read_text())["issues"]:
        table = pq.read_table(data / f"{case}.parquet")
        names = [name for name in table.column_names if name not in ("time", "part")]
        columns = [(name.partition("_")[0], name.partition("_")[2]) for name in names]
        values = np.stack([table[name].to_numpy(zero_copy_only=False).astype(np.float64) for name in names], axis=1)
        seam = int((table["part"].to_numpy() == 0).sum())
        watch = Watch(columns, 10.0)
        for i, row in enumerate(values, 1):
            watch.step(BEGIN + 10 * MS * i, row)
        suspects = watch.suspects(seam, len(values)) if watch.has_published(seam, len(values)) else []
        found["kappa"][case] = listed(suspects)
        found["kappa, onset first"][case] = by_onset(suspects)
        found["largest robust z"][case] = by_z(columns, values[:seam], values[seam:])
    return found


def nezha(data: Path) -> dict[str, dict[str, float]]:
    """Of the faults of processors, the share whose pod is ranked first, and among the first three."""
    folder = data / "nezha"
    table = pq.read_table(folder / f"{NEZHA_DAY}_metrics.parquet")
    minutes = table["time"].cast("int64").to_numpy() // (60 * MS)
    pairs = list(zip(table["pod"].to_pylist(), table["metric"].to_pylist(), strict=True))
    columns = sorted(set(pairs))
    at = {column: i for i, column in enumerate(columns)}
    first = int(minutes.min())
    values = np.full((int(minutes.max()) - first + 1, len(columns)), np.nan)
    values[minutes - first, [at[pair] for pair in pairs]] = table["value"].to_numpy()
    faults = json.loads((folder / "faults.json").read_text())[NEZHA_DAY]
    faults = [fault for fault in faults if fault["type"] == "cpu_contention"]
    begun = [int(datetime.fromisoformat(fault["inject_time"]).timestamp()) // 60 - first for fault in faults]
    watch = Watch(columns, 60.0, apart=True)
    for i, row in enumerate(values[: max(begun) + NEZHA_ROWS], 1):
        watch.step((first + i) * 60 * MS, row)
    ways: dict[str, Callable[[int], Ranked]] = {
        "kappa": lambda row: listed(watch.suspects(row, row + NEZHA_ROWS)),
        "kappa, onset first": lambda row: by_onset(watch.suspects(row, row + NEZHA_ROWS)),
        "largest robust z": lambda row: by_z(columns, values[:row], values[row : row + NEZHA_ROWS]),
    }
    figures = {}
    for who, way in ways.items():
        ranked = [list(dict.fromkeys(pod for pod, _ in way(row))) for row in begun]
        hits = {k: [fault["pod"] in pods[:k] for fault, pods in zip(faults, ranked, strict=True)] for k in (1, 3)}
        figures[who] = {"top1": float(np.mean(hits[1])), "top3": float(np.mean(hits[3]))}
    pods = len({pod for pod, _ in columns})
    return figures | {"chance": {"top1": 1 / pods, "top3": 3 / pods}}


def measure(shared: Path, collection: str) -> dict[str, dict[str, float]]:
    """Figures by who ranked."""
    began, data = time.perf_counter(), shared / "data"
    if collection == "nezha causes":
        figures = nezha(data)
    else:
        rankings = petshop(data) if collection == "petshop" else sockshop(data)
        figures = {who: judge_causes(shared, collection, found) for who, found in rankings.items()}
        figures["chance"] = CHANCE[collection]
    seconds = {"seconds": round(time.perf_counter() - began, 1)}  # of all together
    return {who: row | seconds for who, row in figures.items()}


CHANCE = {  # of an even choice among 41 components; 13 services and 38 metrics
    "petshop": {
        "latency_top1": 1 / 41,
        "latency_top3": 3 / 41,
        "availability_top1": 1 / 41,
        "availability_top3": 3 / 41,
    },
    "sockshop": {"top1": 1 / 13, "avg5": 3 / 13, "m_top1": 1 / 38, "m_avg5": 3 / 38},
}
