"""A simulated microservice application: pods that report metrics once a minute, lines, faults at known times, through the models.

Twelve services, three pods of each, call one another as in a tree. Everything is hours old. Faults differ from those of
`benchmarks.application`, and so do their times. Prints, for each seed, how many faults have an incident, of incidents how many belong to
no fault, and with `--verbose` the fate of each. `--clean` leaves out the faults, `--false-alarms-per-day` is the budget of false
alarms. `--naive` judges a rule instead: 3 sigma of a rolling day, above 6, in two rows of a metric or of the lines of a level in a row,
and what comes within two minutes on any host as one incident.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.application import window_of
from benchmarks.naive import repeated
from benchmarks.offline import LATENESS_MS, SKEW_MS, TEXTS, VALUES, count_rows, metric_rows, replayed
from models.core.parameters import DetectorParameters
from models.core.series import Series, build, parse
from models.incidents.parameters import CorrelationParameters
from models.templates.extraction import template_id

SERVICES = ("front", "order", "cart", "user", "stock", "price", "route", "mail", "pay", "search", "ship", "auth")
CALLS = {0: (1, 2, 3, 9), 1: (4, 5, 8), 2: (4, 5), 3: (11,), 8: (11, 7), 9: (5, 6), 6: (10,)}
PODS = 3
START = 1_750_000_000_000 // 60_000 * 60_000
MINUTE = 60_000
HOURS = 7
PAUSE = 25  # minutes from one fault to the next
FIRST = 70  # minutes until the first
TEMPLATES = ("request <*> done in <*> ms", "got <*> rows from <*>", "cache miss for <*>")
ERRORS = ("request <*> failed: timeout of <*>", "no instance available of <*>")
KINDS = (
    "processor",
    "delay",
    "exceptions",
    "killed",
    "leak",
    "errors for long",
    "no logs",
    "processor",
    "delay",
    "exceptions",
    "leak",
)
MINUTES = {"processor": 5, "delay": 5, "exceptions": 5, "killed": 3, "leak": 15, "errors for long": 45, "no logs": 105}
BEHIND_MINUTES = 10  # what begins so long after a fault has ended is still due to it
EARLY_MS = 60_000


@dataclass(frozen=True)
class Fault:
    """What went wrong, in which service and pod, from when to when (epoch ms)."""

    kind: str
    service: int
    pod: int
    begin: int
    end: int


def faults_of(seed: int) -> list[Fault]:
    """The faults of a simulation; two of metrics lie within the time in which no log comes."""
    random = np.random.default_rng([seed, 1])
    found, at = [], FIRST
    order = [KINDS[i] for i in random.permutation(6)] + list(KINDS[6:])
    for kind in order:
        begin = START + round((at + random.uniform(-5, 5)) * MINUTE)
        found.append(
            Fault(kind, int(random.integers(1, 12)), int(random.integers(PODS)), begin, begin + MINUTES[kind] * MINUTE)
        )
        at += PAUSE if kind != "errors for long" else PAUSE + 45
    return found


def pod_name(service: int, pod: int) -> str:
    """The host that a pod is."""
    return f"{SERVICES[service]}-{pod}"


@dataclass(frozen=True)
class Pod:
    """One pod of a service: its mean latency in seconds, memory in MB, processor in percent, and requests a second."""

    service: int
    number: int
    latency: float
    memory: float
    processor: float
    rate: float

    @property
    def host(self) -> str:
        """The host that it is."""
        return pod_name(self.service, self.number)

    @property
    def name(self) -> str:
        """The service that it belongs to."""
        return SERVICES[self.service]

    def now(self, faults: list[Fault], at: int) -> dict[str, Fault]:
        """What is wrong with the pod itself at a moment, by kind."""
        return {
            f.kind: f for f in faults if (f.service, f.pod) == (self.service, self.number) and f.begin <= at < f.end
        }


def callers_of(service: int) -> list[int]:
    """The services that call a service."""
    return [caller for caller, called in CALLS.items() if service in called]


def rows_of(seed: int, faults: list[Fault]) -> pd.DataFrame:
    """One row for each series and window, as `benchmarks.offline` has them."""
    random = np.random.default_rng([seed, 2])
    values: list[tuple[str, int, float, int]] = []
    lines: list[tuple[str, int, str | None, str | None]] = []
    for service in range(len(SERVICES)):
        latency, memory = float(random.lognormal(-3, 0.7)), float(random.lognormal(5.5, 0.5))
        processor, rate = float(random.uniform(2, 10)), float(random.uniform(0.5, 20))
        for number in range(PODS):
            pod = Pod(service, number, latency, memory, processor, rate)
            values += values_of(random, pod, faults)
            lines += lines_of(random, pod, faults)
    metrics, counts = pd.DataFrame(values, columns=VALUES), pd.DataFrame(lines, columns=TEXTS)
    return pd.concat([metric_rows(metrics), count_rows(counts)], ignore_index=True)


def values_of(random: np.random.Generator, pod: Pod, faults: list[Fault]) -> list[tuple[str, int, float, int]]:
    """The metrics of a pod, by the minute."""
    slow_calls = [f for f in faults if f.kind == "delay" and pod.service in callers_of(f.service)]
    offset, level, memory, found = int(random.integers(MINUTE)), 0.0, pod.memory, []
    for minute in range(HOURS * 60):
        at = START + minute * MINUTE + offset
        now = pod.now(faults, at)
        if "killed" in now:
            continue
        level = 0.9 * level + random.normal(0, 0.05)
        load = float(np.exp(level + random.normal(0, 0.1)))
        memory += random.normal(0, 0.003) * pod.memory + 0.02 * (pod.memory - memory)
        leaked = 1.5 * (at - now["leak"].begin) / (15 * MINUTE) if "leak" in now else 0.0
        cpu = pod.processor * load * float(random.lognormal(0, 0.15))
        latency = pod.latency * load * float(random.lognormal(0, 0.25))
        if "processor" in now:
            cpu, latency = float(random.uniform(92, 100)), latency * 3
        waited = 0.3 * sum(f.begin <= at < f.end for f in slow_calls)
        client = 0.6 * pod.latency * float(random.lognormal(0, 0.3)) + waited
        latency += waited + (0.3 if "delay" in now else 0.0)
        tail = float(random.pareto(2.5))
        received = 20_000 * load * float(random.lognormal(0, 0.1)) * (60 if random.uniform() < 1 / 300 else 1)
        measured = {
            "cpu.percent": cpu,
            "cpu.millicores": 5 * cpu,
            "memory.mb": memory * (1 + leaked),
            "server.latency.p90": latency,
            "server.latency.p99": latency * (1.5 + tail),
            "client.latency.p90": client,
            "client.latency.p99": client * (1.5 + float(random.pareto(1.8))),
            "network.receive": received,
            "network.transmit": 1.3 * 20_000 * load * float(random.lognormal(0, 0.1)),
            "requests": 60 * pod.rate * load * float(random.lognormal(0, 0.05)),
        }
        for metric, value in measured.items():
            found.append((build(Series("gauge", pod.host, pod.name, metric)), window_of(at), value, at))
    return found


def lines_of(
    random: np.random.Generator, pod: Pod, faults: list[Fault]
) -> list[tuple[str, int, str | None, str | None]]:
    """The log lines of a pod, each counted in its level and its template."""
    found: list[tuple[str, int, str | None, str | None]] = []

    def write(begin: int, end: int, a_minute: float, level: str, text: str) -> None:
        template = f"{text} in {pod.name}"
        names = {"host": pod.host, "service": pod.name, "level": level}
        one = build(Series("template", **names, template_id=template_id(template)))
        number = int(random.poisson(max(a_minute * (end - begin) / MINUTE, 0)))
        for at in np.sort(random.uniform(begin, end, number)).tolist():
            if "killed" in pod.now(faults, at) or any(f.kind == "no logs" and f.begin <= at < f.end for f in faults):
                continue
            found.append((build(Series("logs", **names)), window_of(int(at)), None, None))
            found.append((one, window_of(int(at)), template, template))

    end = START + HOURS * 60 * MINUTE
    for k, template in enumerate(TEMPLATES):
        write(START, end, pod.rate / (1 + k), "info", template)
    failed, gone = ERRORS
    write(START, end, 0.1, "error", failed)
    for begin in np.sort(random.uniform(START, end, random.poisson(HOURS / 2))).tolist():
        write(int(begin), int(begin) + 4_000, 75.0, "error", gone)  # a burst of five lines or so
    for fault in faults:
        if fault.kind == "exceptions" and (fault.service, fault.pod) == (pod.service, pod.number):
            write(fault.begin, fault.end, 30.0, "error", failed)
    for fault in faults:
        called = pod.service in callers_of(fault.service)
        if fault.kind == "errors for long" and fault.service == pod.service:
            write(fault.begin, fault.end, 20.0, "error", failed)
        if fault.kind == "killed" and called:
            write(fault.begin, fault.begin + MINUTE, 15.0, "error", gone)
        if fault.kind == "delay" and called:
            write(fault.begin, fault.end, 3.0, "error", failed)
    return found


def judge(
    faults: list[Fault], incidents: list[dict[str, Any]]
) -> tuple[list[tuple[Fault, list[dict[str, Any]]]], list[dict[str, Any]]]:
    """For each fault the incidents that begin in it, in its service or one that calls it, and those that begin in none."""
    last: dict[str, dict[str, Any]] = {}
    for record in incidents:
        published = last.get(record["id"], record).get("published", record["window_end"])
        last[record["id"]] = record | {"published": published}
    left, found = dict(last), []
    for fault in sorted(faults, key=lambda f: -f.begin):
        callers = {SERVICES[c] for c, of in CALLS.items() if fault.service in of} | {SERVICES[fault.service]}
        near = [
            r
            for r in left.values()
            if fault.begin - EARLY_MS <= r["start"] <= fault.end + BEHIND_MINUTES * MINUTE
            and (fault.kind == "no logs" or {h.rpartition("-")[0] for h in r["hosts"]} & callers)
        ]
        for record in near:
            del left[record["id"]]
        found.append((fault, sorted(near, key=lambda r: r["published"])))
    return found[::-1], list(left.values())


def naive_incidents(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """What the rule of `--naive` finds, with the fields of incidents that `judge` looks at."""
    minutes = START + MINUTE * np.arange(HOURS * 60 + 1)
    alerts: list[tuple[int, str]] = []
    for name, own in rows.groupby("series"):
        series = parse(str(name))
        if series.kind == "gauge":
            values, ends = own["mean"].to_numpy(float), own["window_end"].to_numpy()
        elif series.kind == "logs":
            values, ends = np.histogram(own["window_end"], minutes, weights=own["n"])[0], minutes[1:]
        else:
            continue
        alerts += [(int(at), series.host) for at in ends[repeated(values, 24 * 60)]]
    return joined_alerts(alerts, 2 * MINUTE)


def joined_alerts(alerts: Iterable[tuple[int, str]], apart: int) -> list[dict[str, Any]]:
    """Alerts, each a time and a host, as incidents, of which one ends where no alert comes for longer than `apart`; all ms."""
    found: list[dict[str, Any]] = []
    for at, host in sorted(alerts):
        if not found or at - found[-1]["window_end"] > apart:
            found.append(
                {
                    "id": str(at),
                    "start": at,
                    "published": at,
                    "hosts": [],
                    "kind": "alert",
                    "severity": "",
                    "reason": "",
                }
            )
        found[-1] |= {"window_end": at, "hosts": sorted({*found[-1]["hosts"], host})}
    return found


def main() -> None:
    """Print a line for each seed, and the sums."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[301, 302])
    parser.add_argument("--clean", action="store_true")
    parser.add_argument("--naive", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--false-alarms-per-day", type=float, default=CorrelationParameters.false_alarms_per_day)
    wanted = parser.parse_args()
    sums: Counter[str] = Counter()
    for seed in wanted.seeds:
        faults = [] if wanted.clean else faults_of(seed)
        rows = rows_of(seed, faults)
        budget = CorrelationParameters(false_alarms_per_day=wanted.false_alarms_per_day)
        found = naive_incidents(rows) if wanted.naive else replayed(rows, DetectorParameters(), budget)[1]
        judged, left = judge(faults, found)
        delay = LATENESS_MS + SKEW_MS
        for fault, near in judged:
            published = min((r["published"] + delay for r in near if r["start"] <= fault.end), default=None)
            in_time = published is not None and published <= fault.end + 2 * MINUTE
            sums.update(faults=1, found=published is not None, in_time=in_time, incidents_of_faults=len(near))
            sums.update({f"{fault.kind}: in time": in_time, f"{fault.kind}: faults": 1})
            if wanted.verbose:
                when = "-" if published is None else f"{(published - fault.begin) / 1000:.0f} s"
                print(
                    f"{seed} {(fault.begin - START) // MINUTE:4d} min {fault.kind:16}{pod_name(fault.service, fault.pod):10}{when:>8}"
                )
                for record in near:
                    print(f"          {record['severity']:9}{record['kind']:8} {record['reason'][:150]}")
        sums.update(of_none=len(left))
        for record in left if wanted.verbose else ():
            print(
                f"{seed} of none: {(record['start'] - START) // MINUTE} min {record['kind']} {record['reason'][:150]}"
            )
    print(json.dumps(sums))


if __name__ == "__main__":
    main()
