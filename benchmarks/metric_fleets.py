"""Simulated fleets whose metrics are of other shapes than those of `benchmarks.fleets`: jobs, leaks, vacuums, moves, small counts and radio links."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.signal import lfilter
from scipy.special import ndtri

from benchmarks.fleet import SimulatedFleet, machine, server
from models.core.arrays import Bools, Floats


def smoothed(values: Floats, memory: float) -> Floats:
    """The exponential mean of values, of which each row keeps a share `memory`, `(n,)`."""
    return np.asarray(lfilter([1 - memory], [1, -memory], values), dtype=np.float64)


def consumers() -> SimulatedFleet:
    """Eight consumers of 24 partitions, which are divided anew at each deployment, twice on a working day; lag for minutes each time."""
    fleet = SimulatedFleet(days=5)
    load, own, lag = 1 + 0.4 * fleet.wave(8), np.full((8, fleet.windows), 3.0), np.ones(fleet.windows)
    for day in range(fleet.days):
        for hour in (11, 16):
            at = 24 * day + hour + fleet.rng.uniform(-1, 1)
            own[:, fleet.hours >= at] = fleet.rng.permutation([2, 2, 3, 3, 3, 3, 4, 4])[:, None]
            lag += np.interp(fleet.hours - at, [-0.02, 0.0, 0.05, 0.1 + fleet.rng.uniform(0, 0.1)], [0, 60, 100, 0])
    for k in range(8):
        host = f"con-{k}"
        rate = fleet.around(100 * own[k] * load, 0.08, 0.5) * np.where(lag > 50, 0.2, np.where(lag > 2, 1.6, 1.0))
        fleet.values |= {
            f"gauge/{host}/kafka/records": rate,
            f"gauge/{host}/kafka/lag": np.round(fleet.around(40 * lag * own[k] * load, 0.3, 0.5)),
            f"gauge/{host}/kafka/cpu": 2 + 0.1 * rate * np.exp(0.05 * fleet.noise()),
            f"gauge/{host}/kafka/assigned": own[k].copy(),
            f"counter/{host}/kafka/commits": np.cumsum(fleet.rng.poisson(12, fleet.windows)).astype(np.float64),
        }
    during = fleet.fault("stuck", "con-1", 66, 67)
    fleet.values["gauge/con-1/kafka/lag"] += 6000.0 * np.cumsum(during) * during
    fleet.values["gauge/con-1/kafka/records"][during] = 0
    during = fleet.fault("half as fast", "con-5", 86, 88)
    fleet.values["gauge/con-5/kafka/lag"] += 400.0 * np.cumsum(during) * during
    fleet.multiply("gauge/con-6/kafka/cpu", 104, factor=2.5)
    fleet.end("con-3", 110)
    return fleet


def one_gpu(fleet: SimulatedFleet, host: str, number: int, busy: Bools, saving: Bools) -> None:
    """Add the metrics of a GPU with a job where it is `busy`, which waits for its checkpoint where it is `saving`, `(n_windows,)`."""
    waiting, working = fleet.rng.uniform(0, 30, fleet.windows), fleet.rng.choice([97, 98, 99], fleet.windows)
    util = np.where(saving, waiting, np.where(busy, working, 0.0))
    power = np.where(util > 50, 670 + 10 * fleet.noise(1, 0.5), 75 + 2 * fleet.noise())
    clock = 1980.0 - 15 * (fleet.rng.random(fleet.windows) < 0.2)
    fleet.values |= {
        f"gauge/{host}/nv/util{{gpu={number}}}": util,
        f"gauge/{host}/nv/power{{gpu={number}}}": power,
        f"gauge/{host}/nv/temp{{gpu={number}}}": np.round(28 + 0.055 * smoothed(power, 0.7) + 0.4 * number),
        f"gauge/{host}/nv/clock{{gpu={number}}}": np.where(util > 0, clock, 345.0),
    }


def gpus() -> SimulatedFleet:
    """Five nodes of eight GPUs with jobs of hours, idle in between, a checkpoint every half hour; throttling, a slow interconnect."""
    fleet = SimulatedFleet(days=5)
    for k in range(5):
        host, busy, at = f"gpu-{k}", np.zeros(fleet.windows, dtype=bool), fleet.rng.uniform(0, 3)
        while at < 24 * fleet.days:
            length = fleet.rng.uniform(3, 16)
            busy |= fleet.between(at, at + length)
            at += length + fleet.rng.exponential(1.5)
        saving = busy & ((np.arange(fleet.windows) + 7 * k) % 30 == 0)
        step = fleet.around(1.3, 0.02, 0.3) + 2 * saving
        fleet.values[f"gauge/{host}/train/step_seconds"] = np.where(busy, step, np.nan)
        sending, resting = fleet.around(180, 0.03), fleet.around(0.01, 0.5)
        fleet.values[f"gauge/{host}/ib/gbits"] = np.where(busy & ~saving, sending, resting)
        for number in range(8):
            one_gpu(fleet, host, number, busy, saving)
    for host, at, name in (("gpu-1", 70, "throttles"), ("gpu-3", 90, "interconnect")):
        busy = ~np.isnan(fleet.values[f"gauge/{host}/train/step_seconds"])
        begin = fleet.hours[np.flatnonzero(busy & np.roll(busy, -120) & (fleet.hours > at))[0]] + 0.5
        during = fleet.fault(name, host, begin, begin + 1) & busy
        fleet.values[f"gauge/{host}/train/step_seconds"][during] *= 1.5
        if name == "throttles":
            fleet.values[f"gauge/{host}/nv/clock{{gpu=5}}"][during] = 1100
            fleet.values[f"gauge/{host}/nv/temp{{gpu=5}}"][during] = 89
        else:
            fleet.values[f"gauge/{host}/ib/gbits"][during] *= 0.5
    during = fleet.fault("off the bus", "gpu-4", 105, 107)
    for metric in ("util", "power", "temp", "clock"):
        fleet.values[f"gauge/gpu-4/nv/{metric}{{gpu=2}}"][during] = np.nan
    return fleet


def hypervisors() -> SimulatedFleet:
    """Sixteen virtual machines that are moved to other hosts now and then, four at once in one night: steal and NUMA misses change."""
    fleet = SimulatedFleet(days=6)
    for k in range(16):
        host = f"vm-{k:02d}"
        server(fleet, host, "core")
        moves = np.sort(fleet.rng.uniform(12, 140, 3).tolist() + ([74.0 + 0.03 * k] if k < 4 else []))
        at = np.searchsorted(moves, fleet.hours)
        steal, misses, slower = (
            fleet.rng.choice(of, 5)[at] for of in ((0.2, 0.5, 2.0), (5.0, 50.0, 500.0), (1, 1, 1.15))
        )
        fleet.values[f"gauge/{host}/core/cpu"] *= slower
        fleet.values[f"gauge/{host}//steal"] = fleet.around(steal, 0.3, 0.5)
        fleet.values[f"counter/{host}//numa_miss"] = np.cumsum(fleet.around(misses, 0.3, 0.5))
        fleet.values[f"gauge/{host}/core/jitter"] = fleet.around(0.8 + 0.2 * steal, 0.15, 0.3)
        for move in moves:
            fleet.values[f"gauge/{host}/core/jitter"][fleet.between(move, move + 0.03)] *= 5
    during = fleet.fault("noisy neighbour", "vm-05", 80, 81)
    fleet.values["gauge/vm-05//steal"][during] += 20
    fleet.values["gauge/vm-05/core/jitter"][during] *= 3
    fleet.multiply("gauge/vm-09/core/jitter", 100, factor=4)
    fleet.multiply("gauge/vm-12/core/rps", 118, factor=0.3)
    fleet.end("vm-14", 128)
    return fleet


def leaks() -> SimulatedFleet:
    """Ten containers whose memory leaks, until a probe starts them again after 5 to 30 hours; one leaks ten times as fast."""
    fleet = SimulatedFleet(days=6)
    for k in range(10):
        host, rate = f"pod-{k}", fleet.around((1 + 0.5 * fleet.wave(8)) * fleet.rng.uniform(1.0, 4.0), 0.3)
        if k == 2:
            rate[fleet.fault("leaks faster", host, 80, 84)] *= 15
        used, most, began = np.empty(fleet.windows), 2000.0, 0
        level, since = fleet.rng.uniform(300, 1500), np.zeros(fleet.windows, dtype=int)
        for i in range(fleet.windows):
            level += rate[i]
            if level > most:
                level, began = 280 + 20 * fleet.rng.random(), i
            used[i], since[i] = level, i - began
        server(fleet, host, "app")
        requests = np.cumsum(fleet.around(6000, 0.1))
        fleet.values[f"gauge/{host}/app/memory"] = 1e6 * np.round(used + 3 * fleet.noise())
        fleet.values[f"gauge/{host}/app/gc"] = fleet.around(0.01 + 0.1 * (used / most) ** 6, 0.2)
        fleet.values[f"counter/{host}/app/requests"] = requests - requests[np.arange(fleet.windows) - since]
        fleet.values[f"gauge/{host}/app/cpu"][(since < 3) & (fleet.hours > 1)] *= 2
    during = fleet.fault("collects all the time", "pod-5", 100, 101)
    fleet.values["gauge/pod-5/app/gc"][during] = 0.5
    fleet.multiply("gauge/pod-7/app/cpu", 116, factor=3)
    fleet.end("pod-8", 130)
    return fleet


def percentiles() -> SimulatedFleet:
    """Eight services with thousands of requests a minute by day and a few at night, of which the 99th percentile is taken."""
    fleet = SimulatedFleet(days=6)
    for k in range(8):
        host, number = f"shop-{k}", fleet.rng.poisson(np.exp(4 + 3.4 * fleet.wave(8)))
        slow, failing = np.ones(fleet.windows), np.full(fleet.windows, 0.01)
        if k == 1:
            slow[fleet.fault("p99 x2.5 by day", host, 86, 86.5)] = 2.5
        if k == 3:
            slow[fleet.fault("p99 x8 at night", host, 98, 99)] = 8
        if k == 4:
            failing[fleet.fault("errors by day", host, 108, 108.5)] = 0.08
        if k == 6:
            number = np.where(fleet.fault("half of the requests", host, 131, 132), number // 2, number)
        smallest = fleet.rng.random(fleet.windows) ** (1 / np.maximum(number, 1))
        of_p99 = np.where(number < 100, smallest, 0.99 + 0.1 * fleet.noise() / np.sqrt(np.maximum(number, 1)) / 10)
        normal = ndtri(np.clip(of_p99, 0.01, 0.99999))
        values = {
            "p99": np.round(80 * slow * np.exp(0.6 * normal), 1),
            "mean": 96 * slow * np.exp(0.6 * fleet.noise() / np.sqrt(np.maximum(number, 1))),
            "errors": fleet.rng.binomial(number, failing) / np.maximum(number, 1),
        }
        for metric, own in values.items():
            fleet.values[f"gauge/{host}/shop/{metric}"] = np.where(number > 0, own, np.nan)
        fleet.values[f"gauge/{host}/shop/requests"] = number.astype(np.float64)
    return fleet


def replicas() -> SimulatedFleet:
    """Three databases, each a primary and two replicas: lag while tables are vacuumed at night, disks that fill evenly."""
    fleet = SimulatedFleet(days=6)
    load = 1 + 0.5 * fleet.wave(8)
    for one in range(3):
        vacuum = np.zeros(fleet.windows, dtype=bool)
        for day in range(fleet.days):
            begin = 24 * day + 2 + fleet.rng.uniform(0, 0.2)
            vacuum |= fleet.between(begin, begin + fleet.rng.uniform(0.5, 1.5))
        for role in ("primary", "replica-1", "replica-2"):
            host = f"db{one}-{role}"
            server(fleet, host, "postgres", load * np.where(vacuum, 1.5, 1.0))
            grown = np.cumsum(fleet.around(3e6 * load, 0.3))
            fleet.values[f"gauge/{host}/postgres/disk"] = 4e11 + grown - 4e10 * fleet.rng.random()
            fleet.values[f"gauge/{host}/postgres/connections"] = np.round(60 * load + 3 * fleet.noise(1, 0.9))
            if role != "primary":
                lag = np.exp(np.where(vacuum, 0.8, 0.4) * fleet.noise(1, 0.5))
                fleet.values[f"gauge/{host}/postgres/lag"] = lag * np.where(vacuum, 8.0, 0.04)
            locked = np.cumsum(fleet.rng.random(fleet.windows) < 5e-4)
            fleet.values[f"counter/{host}/postgres/dead_locks"] = locked.astype(np.float64)
    during = fleet.fault("lags", "db0-replica-1", 83, 84)
    fleet.values["gauge/db0-replica-1/postgres/lag"] += 0.2 * np.cumsum(during) * during
    during = fleet.fault("no connections left", "db1-primary", 108, 108.5)
    fleet.values["gauge/db1-primary/postgres/connections"][during] = 200
    during = fleet.fault("disk fills", "db2-primary", 130, 133)
    fleet.values["gauge/db2-primary/postgres/disk"] += np.cumsum(6e7 * during)
    fleet.multiply("gauge/db2-replica-2/postgres/lag", 136, factor=30)
    return fleet


def scrubs() -> SimulatedFleet:
    """Six stores whose disks are read each weekend; one disk becomes slower over days."""
    fleet = SimulatedFleet(days=15, seconds=180)
    for k in range(6):
        host, reading = f"nas-{k}", np.zeros(fleet.windows, dtype=bool)
        machine(fleet, host)
        for week in range(3):
            begin = 24 * (7 * week + 5) + 1 + 0.5 * k
            reading |= fleet.between(begin, begin + fleet.rng.uniform(7, 11))
        for disk in range(4):
            wait = fleet.around(np.where(reading, 14.0, 6.0), 0.1, 0.4)
            if (k, disk) == (3, 1):
                wait *= np.interp(fleet.hours, [24 * 8, 24 * 12], [1, 4])
                fleet.fault("becomes slower", host, 24 * 8.4, 24 * 12)
            fleet.values[f"gauge/{host}/disk/await{{disk=sd{disk}}}"] = wait
            reads = fleet.around(np.where(reading, 4e4, 5e3), 0.1, 0.5)
            fleet.values[f"counter/{host}/disk/reads{{disk=sd{disk}}}"] = np.cumsum(reads)
        fleet.values[f"gauge/{host}/pool/used"] = 5e12 + np.cumsum(fleet.around(2e7, 0.5)) + 1e8 * fleet.noise()
    fleet.multiply("gauge/nas-1/disk/await{disk=sd2}", 24 * 9 + 10, hours=0.7)
    fleet.multiply("gauge/nas-4/disk/await{disk=sd0}", 24 * 13 + 15, hours=0.7, factor=3)
    fleet.end("nas-5", 24 * 10 + 9)
    return fleet


def sensors() -> SimulatedFleet:
    """Twelve sensors in steps of half a degree, every five minutes over a radio link that is away for hours; calibrated now and then."""
    fleet = SimulatedFleet(days=9, seconds=300)
    for k in range(12):
        host, there = f"sense-{k:02d}", fleet.rng.random(fleet.windows) > 0.03
        for at in fleet.rng.uniform(0, 216, 5):
            there &= ~fleet.between(at, at + fleet.rng.exponential(1.5))
        moved = fleet.between(fleet.rng.uniform(40, 200), 999) * fleet.rng.choice([-1.5, 1.5])
        degrees = 18 + 4 * fleet.wave(9) + 1.5 * fleet.noise(1, 0.99) + moved + 0.1 * fleet.noise()
        moist = 55 - 10 * fleet.wave(9) + 5 * fleet.noise(1, 0.98)
        battery = 3.6 - 0.0006 * fleet.hours + 0.01 * fleet.wave(9)
        if k == 2:
            stuck = fleet.fault("stuck", host, 110, 116)
            degrees[stuck] = degrees[stuck][0]
        if k == 5:
            during = fleet.fault("12 degrees more", host, 135, 136)
            degrees[during] += 12
        if k == 7:
            battery[fleet.fault("battery", host, 160, 164)] -= 0.4
        fleet.values |= {
            f"gauge/{host}/env/degrees": np.where(there, np.round(2 * degrees) / 2, np.nan),
            f"gauge/{host}/env/moist": np.where(there, np.round(moist), np.nan),
            f"gauge/{host}/env/volt": np.where(there, np.round(battery, 2), np.nan),
            f"gauge/{host}/env/signal": np.where(there, np.round(-80 + 4 * fleet.noise(1, 0.8)), np.nan),
        }
    fleet.end("sense-09", 180, 24)
    return fleet


def traders() -> SimulatedFleet:
    """Eight hosts of an exchange, busy at the opening and the close, idle at night and at weekends; a feed that stops at noon."""
    fleet = SimulatedFleet(days=12, seconds=120)
    h, working = fleet.hour_of_day, fleet.hours // 24 % 7 < 5
    open_ = working & (h >= 9) & (h < 17.5)
    shape = np.where(open_, 0.6 + 4 * np.exp(-6 * (h - 9)) + 3 * np.exp(-6 * (17.5 - h)), 0)
    for k in range(8):
        host = f"feed-{k}"
        messages = fleet.around(5e4 * shape, 0.3, 0.7)
        load = 1 + messages / 4000 * np.exp(0.1 * fleet.noise()) + 0.2 * np.abs(fleet.noise())
        latency = fleet.around(40 * (1 + 0.1 * shape), 0.15, 0.4)
        gaps = fleet.rng.random(fleet.windows) < 3e-4 * (1 + shape)
        fleet.values |= {
            f"gauge/{host}/feed/messages": np.round(messages),
            f"gauge/{host}/feed/cpu": load,
            f"gauge/{host}/feed/latency": np.where(open_, latency, np.nan),
            f"counter/{host}/feed/gaps": np.cumsum(gaps).astype(np.float64),
            f"gauge/{host}/feed/sessions": np.where(open_, 120.0 + k, 2.0),
            f"gauge/{host}//mem": fleet.around(8e9, 0.004),
        }
    during = fleet.fault("no messages at noon", "feed-1", 24 * 8 + 12, 24 * 8 + 12.5)
    fleet.values["gauge/feed-1/feed/messages"][during] = 0
    fleet.multiply("gauge/feed-3/feed/latency", 24 * 9 + 13, hours=0.5)
    during = fleet.fault("half of the sessions", "feed-5", 24 * 10 + 11, 24 * 10 + 12)
    fleet.values["gauge/feed-5/feed/sessions"][during] = 60
    fleet.multiply("gauge/feed-6/feed/cpu", 24 * 8 + 2, hours=0.7, factor=10)
    return fleet


METRIC_FLEETS: dict[str, Callable[[], SimulatedFleet]] = {
    one.__name__: one for one in (consumers, gpus, hypervisors, leaks, percentiles, replicas, scrubs, sensors, traders)
}
