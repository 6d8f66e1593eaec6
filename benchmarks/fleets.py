"""Simulated fleets of kinds that `app.simulator` does not have, each with faults at known times, and always the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.fleet import TWENTY_MINUTES, SimulatedFleet, machine, server
from benchmarks.log_fleets import LOG_FLEETS
from benchmarks.metric_fleets import METRIC_FLEETS
from models.core.arrays import Array

RARE_LINES = (  # of a kernel, harmless; every third one counts as an error
    "CPU3: Core temperature above threshold, cpu clock throttled (total events = 12)",
    "usb 1-1: new high-speed USB device number 5 using xhci_hcd",
    "eth0: Link is Up - 1Gbps/Full - flow control rx/tx",
    "perf: interrupt took too long (2501 > 2500), lowering kernel.perf_event_max_sample_rate to 79750",
    "TCP: request_sock_TCP: Possible SYN flooding on port 8080. Sending cookies.",
    "device veth12ab entered promiscuous mode",
    "nf_conntrack: default automatic helper assignment has been turned off",
    "clocksource: timekeeping watchdog on CPU1: Marking clocksource tsc as unstable",
    "Adding 2097148k swap on /swapfile. Priority:-2",
    "sched: RT throttling activated",
    "mce: CPU2: Machine check events logged",
    "FS-Cache: Loaded",
)
PORTS, BUSY_PORTS = 200, 50  # of a network switch


def office() -> SimulatedFleet:
    """Twenty machines that are off at night and at weekends, and four that are not."""
    fleet = SimulatedFleet(days=13)
    for k in range(20):
        on = np.zeros(fleet.windows, dtype=bool)
        for day in (day for day in range(fleet.days) if day % 7 < 5):
            begin = 24 * day + 7.5 + fleet.rng.uniform(-0.5, 0.8)
            on |= fleet.between(begin, 24 * day + 18 + fleet.rng.uniform(-1, 1.5))
        machine(fleet, f"pc-{k:02d}", on)
    for k in range(4):
        machine(fleet, f"srv-{k}")
    fleet.multiply("gauge/pc-03//cpu", 24 * 9 + 11)
    fleet.end("pc-05", 24 * 9 + 14, 16)
    fleet.multiply("gauge/srv-1//cpu", 24 * 10 + 3)
    fleet.end("srv-2", 24 * 10 + 22, 3)
    return fleet


def batch() -> SimulatedFleet:
    """Six machines with a job from two to four at night, whose metrics and lines come only then."""
    fleet = SimulatedFleet(days=9)
    for k in range(6):
        host, on = f"batch-{k}", np.zeros(fleet.windows, dtype=bool)
        machine(fleet, host)
        for day in (day for day in range(fleet.days) if (day, k) != (7, 2)):
            begin = 24 * day + 2 + fleet.rng.uniform(0, 0.05)
            on |= fleet.between(begin, 24 * day + 4 + fleet.rng.uniform(-0.1, 0.1))
        for metric in ("rows", "lag", "queue"):
            fleet.values[f"gauge/{host}/job/{metric}"] = np.where(on, fleet.around(100, 0.2, 0.5), np.nan)
        fleet.values[f"counter/{host}/job/done"] = np.where(on, np.cumsum(fleet.around(100, 0.2)), np.nan)
        fleet.values[f"gauge/{host}//cpu"][on] *= 5
        fleet.lines(host, "job", "info", "chunk <*> done", np.where(on, fleet.rng.poisson(20, fleet.windows), 0))
    fleet.multiply("gauge/batch-1/job/rows", 24 * 6 + 3)
    fleet.multiply("gauge/batch-3//cpu", 24 * 6 + 12)
    fleet.end("batch-4", 24 * 6 + 15)
    fleet.fault("job does not run", "batch-2", 24 * 7 + 2, 24 * 7 + 4)
    return fleet


def slow(minutes: int) -> SimulatedFleet:
    """Twelve machines that report once in so many minutes, in windows of 10 s."""
    fleet = SimulatedFleet(days=3, seconds=10, every=60 * minutes)
    for k in range(12):
        first = fleet.rng.integers(0, 6 * minutes)
        machine(fleet, f"dev-{k:02d}", (np.arange(fleet.windows) + first) % (6 * minutes) == 0)
    fleet.multiply("gauge/dev-03//cpu", 50, max(20, 2 * minutes + 5) / 60)
    fleet.end("dev-05", 60, 6)
    return fleet


def network() -> SimulatedFleet:
    """Three switches of 200 ports, a quarter of them busy; now and then a packet at idle ones."""
    fleet = SimulatedFleet(days=4)
    for host in ("sw-0", "sw-1", "sw-2"):
        machine(fleet, host)
        for port in range(PORTS):
            busy = port < BUSY_PORTS
            for way in ("in", "out"):
                rate = fleet.around(1e6 * (1 + 0.5 * fleet.wave(9)), 0.3, 0.6) if busy else np.zeros(fleet.windows)
                fleet.values[f"counter/{host}/if/{way}{{port={port}}}"] = 1000.0 * port + np.cumsum(rate)
            errors = np.cumsum(fleet.rng.random(fleet.windows) < (1e-4 if busy else 0))
            fleet.values[f"counter/{host}/if/err{{port={port}}}"] = errors.astype(np.float64)

    def more(host: str, port: int, increase: Array) -> None:
        fleet.values[f"counter/{host}/if/in{{port={port}}}"] += np.cumsum(increase)

    more("sw-0", 120, 5e5 * fleet.fault("idle port moves", "sw-0", 50, 51))
    more("sw-1", 150, fleet.fault("idle port begins", "sw-1", 60, 96) * fleet.around(5e5, 0.3))
    for port in range(100, 110):
        more("sw-2", port, 64.0 * (fleet.rng.random(fleet.windows) < 0.002))
    during = fleet.fault("port x4", "sw-1", 80, 80 + TWENTY_MINUTES)
    more("sw-1", 3, 3 * during * np.diff(fleet.values["counter/sw-1/if/in{port=3}"], prepend=0.0))
    fleet.end("sw-2", 90)
    return fleet


def counters() -> SimulatedFleet:
    """Eight machines with counters that start again daily or at 2^32, percentages at their limit, steps and saws."""
    fleet = SimulatedFleet(days=5)
    day = (fleet.hours // 24).astype(int)
    for k in range(8):
        host = f"c-{k}"
        machine(fleet, host)
        rate = fleet.around(1e5 * (1 + 0.3 * fleet.wave(0)), 0.2, 0.6)
        if k == 2:
            rate[fleet.fault("rate x4", host, 100, 100 + TWENTY_MINUTES)] *= 4
        since_ever = np.cumsum(rate)
        fleet.values |= {
            f"counter/{host}/app/daily": since_ever - since_ever[np.searchsorted(day, day)],
            f"counter/{host}/app/bytes32": np.cumsum(2000 * rate) % 2**32,
            f"gauge/{host}/app/pct": np.clip(90 + 12 * fleet.wave(8) + 3 * fleet.noise(1, 0.8), 0, 100),
            f"gauge/{host}/app/idle": np.clip(-5 + 10 * fleet.wave(8) + 2 * fleet.noise(1, 0.8), 0, 100),
            f"gauge/{host}/app/temp": np.round(40 + 3 * fleet.wave(15) + 0.4 * fleet.noise(1, 0.9)),
            f"gauge/{host}/app/full": np.full(fleet.windows, 100.0),
            f"gauge/{host}/app/saw": 5 + ((fleet.hours + k) % 5.5) ** 1.2 + 0.1 * fleet.noise(),
            f"gauge/{host}/app/saw2": 5 + ((fleet.hours + k) % 0.75) * 10 + 0.1 * fleet.noise(),
        }
    fleet.values["gauge/c-1/app/full"][fleet.fault("100 becomes 62", "c-1", 90, 90 + TWENTY_MINUTES)] = 62
    fleet.values["gauge/c-3/app/temp"][fleet.fault("12 degrees more", "c-3", 96, 96 + TWENTY_MINUTES)] += 12
    fleet.end("c-4", 110)
    return fleet


def blue_green() -> SimulatedFleet:
    """Ten machines, of which those of one colour have all requests: blue ones, green ones for a day, blue ones."""
    fleet = SimulatedFleet(days=4)
    hosts = [f"{colour}-{k}" for colour in ("blue", "green") for k in range(5)]
    for host in hosts:
        server(fleet, host, "web")
    other = fleet.between(50, 74)
    for host in hosts:
        idle = other if host.startswith("blue") else ~other
        fleet.values[f"gauge/{host}/web/cpu"][idle] = fleet.around(0.5, 0.1)[idle]
        fleet.values[f"gauge/{host}/web/rps"][idle] = 0.0
    fleet.multiply("gauge/green-1/web/cpu", 60)
    fleet.end("green-3", 66)
    return fleet


def fail_over() -> SimulatedFleet:
    """Three pairs, of which one machine has all requests; they change over every one to two and a half days."""
    fleet = SimulatedFleet(days=8, seconds=120)
    for pair in range(3):
        times = 24 + fleet.rng.uniform(20, 60, 5).cumsum()
        first_idle = (fleet.hours[:, None] >= times).sum(axis=1) % 2 == 1
        for host, idle in ((f"db{pair}-0", first_idle), (f"db{pair}-1", ~first_idle)):
            server(fleet, host, "db")
            fleet.values[f"gauge/{host}/db/cpu"][idle] *= 0.1
            fleet.values[f"gauge/{host}/db/rps"][idle] = 0.0
    fleet.multiply("gauge/db1-0//mem", 150)
    fleet.end("db2-1", 170)
    return fleet


def hourly() -> SimulatedFleet:
    """Eight machines with lines of requests, of a job and of a backup each hour, and errors at three each night."""
    fleet = SimulatedFleet(days=4)
    minute = np.arange(fleet.windows) % 60
    for k in range(8):
        host = f"w-{k}"
        server(fleet, host, "web")
        requests = fleet.rng.poisson(30 * (1 + 0.4 * fleet.wave(8)))
        if k == 3:
            requests[fleet.fault("lines x4", host, 60, 60 + TWENTY_MINUTES)] *= 4
        backups = np.where(minute == 15, 1, 0)
        if k == 2:
            backups[fleet.fault("backups end", host, 70, 96)] = 0
        fleet.lines(host, "web", "info", "request <*> done", requests)
        rotated = np.where(minute == 7, fleet.rng.poisson(40, fleet.windows), 0)
        fleet.lines(host, "web", "info", "cron rotate <*>", rotated)
        fleet.lines(host, "cron", "info", "backup of <*> ok", backups)
        warned = np.where((fleet.hour_of_day >= 3) & (fleet.hour_of_day < 3.05), 20, 0)
        fleet.lines(host, "cron", "error", "vacuum warn <*>", warned)
    fleet.end("w-5", 80)
    return fleet


def renamed() -> SimulatedFleet:
    """Twelve machines of which one metric gets another name, one machine after the other."""
    fleet = SimulatedFleet(days=3)
    for k in range(12):
        host, before = f"r-{k:02d}", fleet.hours < 40 + 0.01 * k
        server(fleet, host, "app")
        for metric, there in (("queue_len", before), ("queue_length", ~before)):
            fleet.values[f"gauge/{host}/app/{metric}"] = np.where(there, fleet.around(5, 0.2, 0.8), np.nan)
    fleet.multiply("gauge/r-03/app/cpu", 46)
    fleet.multiply("gauge/r-04/app/queue_length", 56)
    fleet.end("r-05", 60)
    return fleet


def clocks() -> SimulatedFleet:
    """Ten machines that work from eight to six local time, which is an hour ahead from the fourth day on."""
    fleet = SimulatedFleet(days=6, seconds=120)
    local = (fleet.hour_of_day + (fleet.hours >= 72)) % 24
    for k in range(10):
        server(fleet, f"d-{k}", "shop", np.where((local > 8) & (local < 18), 10.0, 1.0))
    fleet.multiply("gauge/d-3/shop/cpu", 100)
    fleet.end("d-5", 110)
    return fleet


def weekly() -> SimulatedFleet:
    """Eight machines with less to do at weekends; on one, more work on the first day of a month."""
    fleet = SimulatedFleet(days=17, seconds=300)
    weekend = fleet.hours // 24 % 7 >= 5
    for k in range(8):
        server(fleet, f"k-{k}", "shop", (1 + 0.5 * fleet.wave(8)) * np.where(weekend, 0.3, 1.0))
    fleet.multiply("gauge/k-2/shop/cpu", 24 * 14 + 1, hours=3, factor=5)
    fleet.multiply("gauge/k-3/shop/cpu", 24 * 12 + 13)
    fleet.end("k-5", 24 * 11 + 10)
    return fleet


def disks() -> SimulatedFleet:
    """Five hosts of 30 disks each, of which each is slow for one row now and then; faults of one disk, and of all of a host."""
    fleet = SimulatedFleet(days=5)
    for k in range(5):
        for disk in range(30):
            slow = np.where(fleet.rng.random(fleet.windows) < 3e-4, 6.0, 1.0)
            fleet.values[f"gauge/store-{k}/disk/await{{device=sd{disk}}}"] = slow * fleet.around(4, 0.15, 0.5)
    fleet.multiply("gauge/store-1/disk/await{device=sd3}", 80, factor=6)
    fleet.multiply("gauge/store-3/disk/await{device=sd9}", 100, factor=3)
    during = fleet.fault("all disks x6", "store-4", 110, 110.1)
    for disk in range(30):
        fleet.values[f"gauge/store-4/disk/await{{device=sd{disk}}}"][during] *= 6
    return fleet


def containers() -> SimulatedFleet:
    """Four nodes of 40 containers, which restart now and then; on one, a container restarts every five minutes for an hour."""
    fleet = SimulatedFleet(days=5)
    for k in range(4):
        machine(fleet, f"node-{k}")
        for one in range(40):
            restarts = np.cumsum(fleet.rng.random(fleet.windows) < 1e-4)
            fleet.values[f"counter/node-{k}/kube/restarts{{container=c{one}}}"] = restarts.astype(np.float64)
    during = np.flatnonzero(fleet.fault("crash loop", "node-1", 80, 81))
    more = np.zeros(fleet.windows)
    more[during[::5]] = 1.0
    fleet.values["counter/node-1/kube/restarts{container=c7}"] += np.cumsum(more)
    fleet.multiply("gauge/node-2//cpu", 100)
    return fleet


def queues() -> SimulatedFleet:
    """Three brokers of 60 queues, which are long for some rows now and then; one that nobody reads, one that grows tenfold."""
    fleet = SimulatedFleet(days=5)
    for k in range(3):
        machine(fleet, f"broker-{k}")
        for queue in range(60):
            length = fleet.around(20, 0.4, 0.3)
            for at in np.flatnonzero(fleet.rng.random(fleet.windows) < 2e-4):
                length[at : at + fleet.rng.integers(1, 4)] += 400
            fleet.values[f"gauge/broker-{k}/mq/length{{queue=q{queue}}}"] = length
    during = fleet.fault("nobody reads", "broker-0", 85, 86)
    fleet.values["gauge/broker-0/mq/length{queue=q11}"] += 30.0 * np.cumsum(during) * during
    fleet.multiply("gauge/broker-2/mq/length{queue=q40}", 105, factor=10)
    return fleet


def once() -> SimulatedFleet:
    """Ten machines whose kernels write harmless lines now and then; three of them say once that something has failed."""
    fleet = SimulatedFleet(days=5)
    for k in range(10):
        machine(fleet, f"vm-{k}")
        blocked = fleet.rng.poisson(0.4, fleet.windows)
        fleet.lines(f"vm-{k}", "kernel", "info", "[UFW BLOCK] IN=eth0 OUT= SRC=10.0.0.7 DST=10.0.0.1 LEN=60", blocked)
        for number, text in enumerate(RARE_LINES, 1):
            seldom = fleet.rng.poisson(1e-3 / number, fleet.windows)
            fleet.lines(f"vm-{k}", "kernel", "info" if number % 3 else "error", text, seldom)
    for host, begin, text in (
        ("vm-2", 60.0, "Buffer I/O error on dev sda1, logical block 1234, lost async page write"),
        ("vm-5", 95.0, "Out of memory: Killed process 4711 (java) total-vm:8123456kB"),
        ("vm-7", 110.0, "EXT4-fs (sdb1): Remounting filesystem read-only"),
    ):
        fleet.fault(text.split(":", 1)[0], host, begin, begin + 0.5)
        fleet.lines(host, "kernel", "error", text, fleet.between(begin, begin + fleet.seconds / 3600).astype(int))
    return fleet


def bursts() -> SimulatedFleet:
    """Six machines with known errors in bursts, an hour each; on one a message for an hour that is new, on one a rare error 25 times as often."""
    fleet = SimulatedFleet(days=5)
    for k in range(6):
        host, bad = f"api-{k}", np.zeros(fleet.windows, dtype=bool)
        server(fleet, host, "api")
        fleet.lines(host, "api", "info", "request 4711 done", fleet.rng.poisson(8 * (1 + 0.4 * fleet.wave(8))))
        for begin in fleet.rng.uniform(3, 24 * fleet.days, 6):
            bad |= fleet.between(begin, begin + 1)
        fleet.lines(
            host, "api", "error", "upstream 12 timed out", np.where(bad, fleet.rng.poisson(0.7, fleet.windows), 0)
        )
        declined = np.full(fleet.windows, 0.08)
        if k == 4:
            declined[fleet.fault("errors x25", host, 100, 101)] *= 25
        fleet.lines(host, "api", "error", "payment 815 declined", fleet.rng.poisson(declined))
    new = fleet.fault("new message", "api-1", 70, 71) * fleet.rng.poisson(0.7, fleet.windows)
    fleet.lines("api-1", "api", "error", "cannot parse amount of order 9", new)
    return fleet


def shops() -> SimulatedFleet:
    """Four shops of five tills with hours of their own and a closed day in the week, and three servers."""
    fleet = SimulatedFleet(days=16, seconds=120)
    for shop in range(4):
        opens, closes, closed = 7.5 + shop, 16.5 + 1.5 * shop, 6 if shop % 2 else 2
        for till in range(5):
            on = np.zeros(fleet.windows, dtype=bool)
            for day in (day for day in range(fleet.days) if day % 7 != closed):
                begin = 24 * day + opens - fleet.rng.uniform(0.1, 0.4)
                on |= fleet.between(begin, 24 * day + closes + fleet.rng.uniform(0.1, 0.6))
            machine(fleet, f"till-{shop}{till}", on)
    for k in range(3):
        machine(fleet, f"db-{k}")
    fleet.end("till-12", 24 * 10 + 12, 5)
    fleet.end("till-33", 24 * 4 + 15, 4)
    fleet.multiply("gauge/till-01//cpu", 24 * 10 + 10)
    fleet.end("db-1", 24 * 11 + 23, 3)
    fleet.multiply("gauge/db-2//cpu", 24 * 12 + 4)
    return fleet


def class_rooms() -> SimulatedFleet:
    """Two rooms of ten machines, used for three or four hours on working days, in the morning or the afternoon by turns, and two servers."""
    fleet = SimulatedFleet(days=16, seconds=120)
    for room in range(2):
        on = np.zeros((10, fleet.windows), dtype=bool)
        for day in (day for day in range(fleet.days) if day % 7 < 5):
            begin, hours = (9.0, 3.0) if (day % 7 + room) % 2 else (13.0, 4.0)
            for k in range(10):
                first = 24 * day + begin + fleet.rng.uniform(-0.3, 0.1)
                on[k] |= fleet.between(first, 24 * day + begin + hours + fleet.rng.uniform(-0.1, 0.4))
        for k in range(10):
            machine(fleet, f"room{room}-{k}", on[k])
    for k in range(2):
        machine(fleet, f"files-{k}")
    fleet.end("room0-4", 24 * 9 + 14, 2)
    fleet.end("room1-7", 24 * 9 + 9.5, 2)
    fleet.multiply("gauge/room1-2//cpu", 24 * 11 + 10)
    fleet.end("files-1", 24 * 10 + 20, 3)
    return fleet


def lab() -> SimulatedFleet:
    """Twelve machines that are on for six hours in the mean and off for ten, at any time, and three that are always on."""
    fleet = SimulatedFleet(days=13, seconds=120)
    for k in range(12):
        on, at = np.zeros(fleet.windows, dtype=bool), fleet.rng.uniform(0, 10)
        while at < 24 * fleet.days:
            until = at + fleet.rng.exponential(6)
            on |= fleet.between(at, until)
            at = until + fleet.rng.exponential(10)
        machine(fleet, f"lab-{k:02d}", on)
    for k in range(3):
        machine(fleet, f"build-{k}")
    fleet.end("build-0", 24 * 8 + 13, 3)
    fleet.end("build-1", 24 * 9 + 2, 3)
    fleet.multiply("gauge/build-2//cpu", 24 * 10 + 11)
    return fleet


def sundays() -> SimulatedFleet:
    """Twelve servers that start anew each Sunday from four on, one after the other; one does not come back."""
    fleet = SimulatedFleet(days=15, seconds=120)
    for k in range(12):
        on = np.ones(fleet.windows, dtype=bool)
        for day in range(6, fleet.days, 7):
            begin = 24 * day + 4 + 0.15 * k
            on &= ~fleet.between(begin, begin + fleet.rng.uniform(0.1, 0.2))
        machine(fleet, f"app-{k:02d}", on)
    fleet.end("app-03", 24 * 9 + 4.5, 2)
    fleet.end("app-07", 24 * 13 + 4 + 0.15 * 7, 5)
    fleet.multiply("gauge/app-05//cpu", 24 * 11 + 12)
    return fleet


FLEETS: dict[str, Callable[[], SimulatedFleet]] = {
    "office": office,
    "batch": batch,
    "slow-5": partial(slow, 5),
    "slow-15": partial(slow, 15),
    "network": network,
    "counters": counters,
    "disks": disks,
    "containers": containers,
    "queues": queues,
    "blue-green": blue_green,
    "fail-over": fail_over,
    "hourly": hourly,
    "once": once,
    "bursts": bursts,
    "renamed": renamed,
    "clocks": clocks,
    "weekly": weekly,
    **METRIC_FLEETS,
    **LOG_FLEETS,
    "shops": shops,
    "class-rooms": class_rooms,
    "lab": lab,
    "sundays": sundays,
}
