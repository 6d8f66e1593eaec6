"""Simulated fleets of log lines in windows of 10 s, most of which hold no line of a template: rare errors, crash loops, gaps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.fleet import SimulatedFleet, server
from models.core.arrays import Bools, Floats, Ints

Change = tuple[float, Bools]  # how many times as many lines, and in which windows, `(n_windows,)`


def poisson_lines(fleet: SimulatedFleet, an_hour: float | Floats) -> Ints:
    """Lines that come independently, so many an hour in the mean, `(n_windows,)`."""
    return np.asarray(fleet.rng.poisson(an_hour * np.full(fleet.windows, fleet.seconds / 3600)))


def often(an_hour: float, *changes: Change) -> Floats:
    """A rate by the hour, and how many times that in some windows, `(n_windows,)`."""
    out = np.full(changes[0][1].shape, float(an_hour))
    for times, during in changes:
        out[during] *= times
    return out


def in_bursts(fleet: SimulatedFleet, bursts_a_day: float, minutes: float, a_minute: float) -> Ints:
    """Lines in bursts at any time, of so many minutes in the mean, `(n_windows,)`."""
    during = np.zeros(fleet.windows, dtype=bool)
    for begin in fleet.rng.uniform(0, 24 * fleet.days, fleet.rng.poisson(bursts_a_day * fleet.days)):
        during |= fleet.between(begin, begin + fleet.rng.exponential(minutes / 60))
    return poisson_lines(fleet, 60 * a_minute * during)


def in_clumps(fleet: SimulatedFleet, an_hour: float | Floats, lines: float) -> Ints:
    """Lines of which several follow each other within a minute, `lines` in the mean, `(n_windows,)`."""
    number = np.zeros(fleet.windows, dtype=np.int64)
    for at in np.flatnonzero(poisson_lines(fleet, an_hour)).tolist():
        spread = fleet.rng.integers(0, max(60 // fleet.seconds, 1), fleet.rng.geometric(1 / lines))
        np.add.at(number, np.minimum(at + spread, fleet.windows - 1), 1)
    return number


def rare_errors() -> SimulatedFleet:
    """Six payment services and three loaders with rare errors, of which some become 5, 25 or 100 times as frequent.

    Beside them are requests and errors that follow the hour of the day, a batch each night, a job each hour, bursts and clumps.
    """
    fleet = SimulatedFleet(days=4, seconds=10)
    day, none = 1 + 0.8 * fleet.wave(8), (1.0, np.zeros(fleet.windows, dtype=bool))
    every = 5.0, fleet.fault("retries x5 everywhere", "pay-0", 60, 62)
    service = 25.0, fleet.fault("issuer x25 everywhere", "pay-0", 84, 86)
    own: dict[tuple[str, str], Change] = {
        ("pay-1", "issuer"): (25, fleet.fault("issuer x25", "pay-1", 50, 52)),
        ("pay-2", "deadlock"): (100, fleet.fault("deadlocks x100", "pay-2", 53, 54)),
        ("pay-3", "expired"): (5, fleet.fault("expired x5", "pay-3", 65, 67)),
        ("pay-4", "retry"): (100, fleet.fault("retries x100", "pay-4", 70, 70.5)),
        ("load-1", "quota"): (25, fleet.fault("quota x25", "load-1", 75, 77)),
        ("load-2", "quota"): (5, fleet.fault("quota x5", "load-2", 40, 46)),
        ("pay-5", "issuer"): (5, fleet.fault("issuer x5", "pay-5", 90, 96)),
    }
    night, minute = (
        np.where((fleet.hour_of_day >= 2) & (fleet.hour_of_day < 3.5), 1.0, 0.0),
        np.arange(fleet.windows) % 360,
    )
    for host in [f"pay-{k}" for k in range(6)] + [f"load-{k}" for k in range(3)]:
        issuer, deadlock, expired, retry, quota = (
            own.get((host, what), none) for what in ("issuer", "deadlock", "expired", "retry", "quota")
        )
        of_service = "payments" if host.startswith("pay") else "loader"
        server(fleet, host, of_service)
        lines: tuple[tuple[str, str, Ints], ...]
        if of_service == "payments":
            lines = (
                ("info", "payment 4711 captured in 132 ms", poisson_lines(fleet, 900 * day)),
                ("info", "payment 4711 refunded", poisson_lines(fleet, 12 * day)),
                ("warn", "acquirer 3 did not answer, attempt 2", poisson_lines(fleet, often(1, every, retry))),
                ("error", "order 4711 declined by issuer: code 91", poisson_lines(fleet, often(1, issuer, service))),
                (
                    "error",
                    "deadlock detected while waiting for ShareLock on transaction 815",
                    poisson_lines(fleet, often(0.3, deadlock)),
                ),
                ("error", "session 815 expired during checkout", poisson_lines(fleet, day * often(6, expired))),
                ("error", "connection to 10.0.0.7:5432 refused", in_bursts(fleet, 1.5, 15, 1.0)),
                ("error", "cannot render receipt 12: font missing", in_clumps(fleet, 0.2, 6.0)),
            )
        else:
            behind = (minute >= 60) & (minute < 90)
            lines = (
                ("info", "chunk 17 loaded, 5000 rows", poisson_lines(fleet, 600 * night)),
                ("error", "row 4711 skipped: bad date", poisson_lines(fleet, 15 * night)),
                ("info", "index refreshed in 12 s", np.where(minute == 42, 1, 0)),
                (
                    "warn",
                    "partition 7 is behind, loaded again",
                    np.where(behind, fleet.rng.poisson(0.5, fleet.windows), 0),
                ),
                ("error", "stage 12 is over its quota", poisson_lines(fleet, often(1, quota))),
            )
        for level, text, number in lines:
            fleet.lines(host, of_service, level, text, number)
    return fleet


START_LINES = (  # of a container, and the seconds after its start
    ("info", "Starting OrdersApplication v3.1.4 using Java 21 with PID 7", 1),
    ("info", "Tomcat initialized with port 8080 (http)", 4),
    ("info", "HikariPool-1 - Starting...", 6),
    ("warn", "HHH000511: The 12.0.0 version for dialect is no longer supported", 8),
)


def start_container(fleet: SimulatedFleet, hours: Floats, seconds: float) -> list[Ints]:
    """Lines that a container writes when it starts, for each of `START_LINES`, `(n_windows,)` each."""
    found = []
    for _, _, after in START_LINES:
        at = ((3600 * hours + after * seconds) // fleet.seconds).astype(int)
        found.append(np.bincount(at[at < fleet.windows], minlength=fleet.windows))
    return found


def crash_loops() -> SimulatedFleet:
    """Eight nodes with orders and mail: two containers in a crash loop, and rare lines of nginx, Postfix and a disk that become frequent.

    Containers are deployed once a day, on all nodes. Spam comes in bursts, lines of nginx follow the hour of the day.
    """
    fleet = SimulatedFleet(days=5, seconds=10)
    fleet.rng = np.random.default_rng(2)
    day = np.maximum(1 + 1.2 * fleet.wave(9), 0.1)
    loops = {
        "node-2": fleet.fault("crash loop", "node-2", 71, 73),
        "node-5": fleet.fault("crash loop, every five minutes", "node-5", 100, 103),
    }
    timeouts = {
        "node-1": (8, fleet.fault("upstream x8", "node-1", 86, 88)),
        "node-7": (60, fleet.fault("upstream x60", "node-7", 57, 58)),
    }
    lost = {"node-3": (20, fleet.fault("lost connections x20", "node-3", 64, 66))}
    sectors = {
        "node-4": (40, fleet.fault("medium errors x40", "node-4", 92, 94)),
        "node-6": (10, fleet.fault("medium errors x10", "node-6", 110, 116)),
    }
    greylisted = fleet.fault("greylisted x20 everywhere", "node-0", 78, 80)
    deployments = 24 * np.arange(fleet.days) + fleet.rng.uniform(9, 17, fleet.days)
    for k in range(8):
        host = f"node-{k}"
        server(fleet, host, "orders", day)
        starts, backed_off = deployments + 0.01 * k, np.zeros(fleet.windows, dtype=np.int64)
        if host in loops:
            begin, end = fleet.hours[loops[host]][[0, -1]]
            pauses = np.minimum(10.0 * 2 ** np.arange(40), 300.0) + 25.0 if k == 2 else np.full(40, 325.0)
            crashes = begin + np.cumsum(pauses) / 3600
            crashes = crashes[crashes < end]
            starts = np.append(starts, crashes)
            backed_off = np.bincount((3600 * crashes / fleet.seconds).astype(int), minlength=fleet.windows)
        for (level, text, _), number in zip(START_LINES, start_container(fleet, starts, 1.0), strict=True):
            fleet.lines(host, "orders", level, text, number)
        fleet.lines(host, "orders", "info", "order 4711 placed by customer 12", poisson_lines(fleet, 400 * day))
        restarts = in_clumps(fleet, 0.02, 2.0) + backed_off
        fleet.lines(host, "kubelet", "error", "Back-off restarting failed container orders in pod orders-7f", restarts)
        fleet.lines(
            host, "kubelet", "info", "Image garbage collection succeeded after 5 attempts", poisson_lines(fleet, 4.0)
        )
        none = 1.0, np.zeros(fleet.windows, dtype=bool)
        timed_out, lost_one, sector = (often(1, changes.get(host, none)) for changes in (timeouts, lost, sectors))
        for service, level, text, an_hour in (
            (
                "nginx",
                "error",
                "upstream timed out (110: Connection timed out) while reading response header",
                2.5 * day * timed_out,
            ),
            ("postfix", "warn", "lost connection with mx1.example.org[192.0.2.7] while sending RCPT TO", lost_one),
            ("kernel", "error", "blk_update_request: critical medium error, dev sdb, sector 123456", 0.1 * sector),
        ):
            fleet.lines(host, service, level, text, poisson_lines(fleet, an_hour))
        fleet.lines(
            host, "postfix", "info", "4711AB: client=mail.example.org[192.0.2.9]", poisson_lines(fleet, 200 * day)
        )
        grey = poisson_lines(fleet, often(0.7, (20.0, greylisted)))
        fleet.lines(
            host,
            "postfix",
            "info",
            "host mx2.example.net refused to talk to me: 450 4.2.0 Greylisted, try again later",
            grey,
        )
        spam = in_bursts(fleet, 2.0, 25, 1.5)
        fleet.lines(host, "postfix", "warn", "NOQUEUE: reject: RCPT from unknown[203.0.113.7]: 554 5.7.1", spam)
        fleet.lines(
            host,
            "nginx",
            "error",
            "client 192.0.2.8 intended to send too large body: 12345678 bytes",
            in_clumps(fleet, 0.5 * day, 4.0),
        )
    return fleet


def gaps() -> SimulatedFleet:
    """Twenty hosts whose logs have gaps of other kinds: jobs each quarter of an hour, requests, people at any time, a line now and then.

    Ten times a log ends, five times within a day on one host.
    """
    fleet = SimulatedFleet(days=5, seconds=10)
    fleet.rng = np.random.default_rng(7)
    ended: dict[str, Bools] = {}
    for host, begin, hours in (
        *(("web-2", 60 + 3 * k, 0.3) for k in range(4)), ("web-2", 72, 0.5), ("web-1", 75, 0.5),
        ("cron-1", 70, 6), ("user-1", 82, 8), ("quiet-1", 90, 6), ("cron-3", 100, 3),
    ):  # fmt: skip
        ended[host] = ended.get(host, False) | fleet.fault("log ends", host, begin, begin + hours)
    for k in range(5):
        at_work = np.zeros(fleet.windows, dtype=bool)
        for begin in fleet.rng.uniform(0, 24 * fleet.days, 60):
            at_work |= fleet.between(begin, begin + fleet.rng.exponential(0.4))
        a_job = (60 * fleet.hours + 3 * k) % 15 < 2
        rates: dict[str, float | Floats] = {
            "cron": np.where(a_job, 1201.5, 1.5),
            "web": 900 * (1 + 0.5 * fleet.wave(8)),
            "user": 1 + 720.0 * at_work,
            "quiet": 4.0,
        }
        for service, an_hour in rates.items():
            host = f"{service}-{k}"
            server(fleet, host, service)
            number = np.where(ended.get(host, False), 0, poisson_lines(fleet, an_hour))
            fleet.lines(host, service, "info", f"{service} did 17 things in 3 ms", number)
    return fleet


LOG_FLEETS: dict[str, Callable[[], SimulatedFleet]] = {
    "rare-errors": rare_errors,
    "crash-loops": crash_loops,
    "gaps": gaps,
}
