"""What is found in the first half hour of a host, beside the same hosts with a past: faults, and false alarms.

    python -m benchmarks.born --seeds 211 212 [--history HOURS] [--set warm_up_minutes=10] [--services N] [--alone] [--cache DIR] [--verbose]

A simulated fleet lives twice, once without faults and once with a fault of each kind on another virtual machine, all of them some minutes
after a moment. Both are judged as they are, *mature*, and without anything from before that moment, *born*. False alarms are those of
the fleet without faults in the half hour after the moment. The peers of a host with a fault are those of the fleet without, so each fault
comes to a fleet that is well. With `--history 0` there is no past, and only hosts that are born are judged.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from app.simulator import Planned, SimulatorSettings
from app.simulator.settings import DEFAULT_START, FAULTS
from benchmarks.offline import cached, windows_of, with_peers
from models.core.parameters import DetectorParameters
from models.core.series import parse
from models.detection.detector import ShardDetector
from models.records.records import PEERS

HOSTS, IN_A_GROUP, GROUPS = 40, 4, 8
SHORT, LONG = 600.0, 1_200.0  # seconds that faults last
SLOW = ("memory_leak", "disk_filling", "slow_drift", "host_silent", "log_silence")
HALF_HOUR_MS, LATE_MS, EARLY_MS, HOUR_MS = 1_800_000, 120_000, 30_000, 3_600_000
LIVES = ("mature", "born")


def settings_of(seed: int, services: int, history: float, age: float) -> SimulatorSettings:
    """A fleet in which each kind of fault comes to a machine of its own, `age` minutes after so many hours of `history`."""
    machines = [f"vm-{i + 1:03d}" for i in range(IN_A_GROUP * GROUPS)]
    rng = np.random.default_rng(seed)
    first = IN_A_GROUP * int(rng.integers(GROUPS))
    group = machines[first : first + IN_A_GROUP]  # a noisy neighbour comes to all machines of a physical host
    others = [str(name) for name in rng.permutation([name for name in machines if name not in group])]
    planned = []
    for kind in FAULTS:
        host = group[0] if kind == "noisy_neighbour" else others.pop()
        planned.append(Planned(kind, 3600 * history + 60 * age, LONG if kind in SLOW else SHORT, host))
    return SimulatorSettings(
        hosts=HOSTS,
        hours=history + 0.55,
        seed=seed,
        start=DEFAULT_START + 3 * HOUR_MS * (seed % 8),
        schedule=tuple(planned),
        services=services,
    )


def alarms(rows: pd.DataFrame, p: DetectorParameters, first: int) -> list[Any]:
    """What is reported of rows with peers, other than the appearance of hosts, services and metrics; the shards are there from `first` on."""
    events: list[Any] = []
    detectors: dict[int, ShardDetector] = {}
    for end, shards in windows_of(rows, shards=1, peers=False):
        for shard, windows in shards.items():
            if shard not in detectors:
                detectors[shard] = ShardDetector(p)
                if first < end:
                    detectors[shard].step(first, windows.without(np.ones(len(windows), dtype=bool)))
            events += detectors[shard].step(end, windows)[1]
    return [event for event in events if event.part not in ("new host", "new service", "new metric")]


def compared(settings: SimulatorSettings, folder: Path | None) -> dict[str, pd.DataFrame]:
    """The rows of virtual machines, with peers: `well`, of all, and `ill`, of those with a fault."""
    well = with_peers(cached(dataclasses.replace(settings, schedule=()), folder)[1].reset_index(drop=True))
    ill = cached(settings, folder)[1]
    hosts = {planned.host for planned in settings.schedule or ()}
    ill = ill[host_of(ill).isin(hosts)].merge(well[["series", "window_end", *PEERS]], "left", ["series", "window_end"])
    return {"well": well[host_of(well).str.startswith("vm-")], "ill": ill}


STARTING = {  # how far from the usual values of a host are when it begins: what is added, and a factor
    "system.cpu.utilization": (40.0, 1.0),
    "system.load.1m": (0.0, 2.5),
    "system.memory.used": (0.0, 0.5),
    "service.latency.p95": (0.0, 2.5),
    "service.request.rate": (0.0, 0.1),
}


def settling(rows: pd.DataFrame, moment: int) -> pd.DataFrame:
    """The rows with the start of each host at the moment: some gauges come to their usual values with a time constant of 1 to 7 minutes."""
    hosts = host_of(rows)
    pace = {
        h: np.random.default_rng(zlib.crc32(h.encode()) + moment // HOUR_MS).uniform(60, 420) for h in hosts.unique()
    }
    left = np.exp(-(rows["window_end"] - moment) / 1000 / hosts.map(pace)).to_numpy()
    metric = rows["series"].str.split("/").str[3].str.split("{").str[0]
    at_first = [metric.map({name: pair[i] for name, pair in STARTING.items()}).fillna(float(i)) for i in range(2)]
    factor = 1 + (at_first[1].to_numpy() - 1) * left
    moved = {name: rows[name] * factor + at_first[0].to_numpy() * left for name in ("mean", "min", "max", "last")}
    gauge = rows["series"].str.startswith("gauge/")
    return rows.assign(**{name: column.where(gauge, rows[name]) for name, column in moved.items()})


IDLE = 0.03  # share of the work that a host does before it serves
AT_WORK = {"system.cpu.utilization": 0.8, "system.load.1m": 0.8, "system.memory.used": 0.2, "service.request.rate": 1.0}


def serving_late(rows: pd.DataFrame, moment: int, minutes: tuple[float, float]) -> pd.DataFrame:
    """The rows of hosts that serve only after some of `minutes`: until then there is hardly a request, a line or a byte."""
    hosts, parts = host_of(rows), rows["series"].str.split("/")
    begins = {
        h: np.random.default_rng(zlib.crc32(h.encode()) + moment // HOUR_MS).uniform(*minutes) for h in hosts.unique()
    }
    idle = ((rows["window_end"] - moment) / 60_000 < hosts.map(begins)).to_numpy()
    rng = np.random.default_rng(moment // HOUR_MS)
    share = parts.str[3].str.split("{").str[0].map(AT_WORK).fillna(0.0).to_numpy()
    factor = np.where(idle & rows["series"].str.startswith("gauge/"), 1 - share * (1 - IDLE), 1.0)
    moved = {name: rows[name] * factor for name in ("mean", "min", "max", "last")}
    counter = rows["series"].str.startswith("counter/")
    step = rows["last"].where(counter).groupby(rows["series"]).diff().fillna(0.0) * np.where(idle, IDLE, 1.0)
    moved["last"] = moved["last"].where(~counter, step.groupby(rows["series"]).cumsum())
    line = rows["series"].str.startswith(("logs/", "template/"))
    n = np.where(idle & line, rng.binomial(rows["n"].to_numpy(np.int64), IDLE), rows["n"])
    return rows.assign(**moved, n=n)[n > 0]


def host_of(rows: pd.DataFrame) -> pd.Series[str]:
    """The host of each row."""
    found: pd.Series[str] = rows["series"].str.split("/", n=2).str[1]
    return found


def seconds_of(planned: Planned, events: list[Any], begin: int, moment: int) -> float | None:
    """From the beginning of a fault to the first event about it, in time and in the half hour after the moment."""
    until = min(begin + round(1000 * planned.duration) + LATE_MS, moment + HALF_HOUR_MS)
    made = [
        event.window_end
        for event in events
        if event.host == planned.host and begin <= event.window_end <= until and event.start >= begin - EARLY_MS
    ]
    return (min(made) - begin) / 1000 if made else None


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[201])
    parser.add_argument("--history", type=float, default=2.5, help="hours")
    parser.add_argument("--services", type=int, default=3, help="the fewer, the more hosts have the same role")
    parser.add_argument("--set", nargs="*", default=[], help="parameters of the detector, NAME=NUMBER")
    parser.add_argument("--alone", action="store_true", help="no host is compared with its peers")
    parser.add_argument(
        "--settling", action="store_true", help="hosts that are born come to their usual values in minutes"
    )
    parser.add_argument(
        "--late", type=float, nargs=2, help="hosts that are born serve after so many minutes, from and to"
    )
    parser.add_argument("--age", type=float, default=10.0, help="minutes of a host at its fault")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--verbose", action="store_true")
    chosen = parser.parse_args()
    changed: dict[str, Any] = {name: float(number) for name, _, number in (text.partition("=") for text in chosen.set)}
    p = DetectorParameters(**changed)
    lives = LIVES if chosen.history else LIVES[1:]
    found = {kind: Counter[str]() for kind in FAULTS}
    false = {life: Counter[str]() for life in lives}
    hosts, began = 0, time.process_time()
    for seed in chosen.seeds:
        settings = settings_of(seed, chosen.services, chosen.history, chosen.age)
        moment = settings.start + round(HOUR_MS * chosen.history)
        rows = compared(settings, chosen.cache)
        if chosen.alone:
            rows = {name: frame.assign(**dict.fromkeys(PEERS, np.nan)) for name, frame in rows.items()}
        hosts += host_of(rows["well"]).nunique()
        for life in lives:
            since = 0 if life == "mature" else moment
            if life == "born" and chosen.settling:
                rows = {name: settling(frame, moment) for name, frame in rows.items()}
            if life == "born" and chosen.late:
                rows = {name: serving_late(frame, moment, tuple(chosen.late)) for name, frame in rows.items()}
            got = {
                name: alarms(frame[frame["window_end"] > since], p, moment - HOUR_MS) for name, frame in rows.items()
            }
            for planned in settings.schedule or ():
                after = seconds_of(planned, got["ill"], settings.start + round(1000 * planned.start), moment)
                found[planned.kind][life] += after is not None
                if chosen.verbose:
                    print(f"  {seed} {life} {planned.kind} on {planned.host}: {after} s")
            for event in got["well"]:
                age = event.window_end - moment
                if event.status == "open" and 0 < age <= HALF_HOUR_MS:
                    false[life][f"{parse(event.series).kind} {event.part}"] += 1
                    if chosen.verbose:
                        print(
                            f"  {seed} {life} false, at {age / 60_000:.1f} min: {event.series} {event.score:.1f} {event.reason}"
                        )
    for kind, counts in found.items():
        print(f"{kind:16}", *(f"{life} {counts[life]:2}" for life in lives), f"of {len(chosen.seeds)}")
    total = sum(found.values(), Counter[str]())
    print(f"{'all':16}", *(f"{life} {total[life]}" for life in lives), f"of {len(FAULTS) * len(chosen.seeds)}")
    for life, counts in false.items():
        print(f"false alarms, {life}: {counts.total()} in {hosts} half hours:", json.dumps(counts))
    print(f"{time.process_time() - began:.0f} s of a processor")


if __name__ == "__main__":
    main()
