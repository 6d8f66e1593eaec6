"""What each fault does to the processes, and what puts an end to it.

A kill is over at once: whoever was killed is started again, by its own supervisor where it has one. A fault that lasts is
ended by this module after its time. In neither case anything is done to help the jobs.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from elasticsearch import ApiError, TransportError

from app.core.settings import PROJECT, Settings
from app.search.connection import elasticsearch_connection
from benchmarks.chaos.disks import empty, fill, fill_again
from benchmarks.chaos.http_faults import CUT, FaultyProxy
from benchmarks.chaos.processes import LiveJobs, ended_with, kill_tree
from benchmarks.chaos.promotions import promote_and_roll_back
from benchmarks.chaos.schedule import LOSSES, REFUSALS, PlannedFault
from benchmarks.chaos.servers import KillableServer

LEAST_FULL_SECONDS = 20.0
APPEAR_SECONDS = 60  # a Python worker appears some batches after the start
READ_ONLY = "index.blocks.read_only_allow_delete"


@dataclass
class FaultTarget:
    """What faults are done to.

    `direct` are settings that reach Elasticsearch past the proxy; `wait` waits while the jobs run; `lost` does a fault that ends in a
    refusal; `disks` are the small file systems that can be filled.
    """

    kafka: KillableServer
    elasticsearch: KillableServer
    proxy: FaultyProxy
    jobs: LiveJobs
    direct: Settings
    file: Path
    wait: Callable[[float], None]
    lost: Callable[[str], str] = lambda kind: ""
    disks: Mapping[str, Path] = field(default_factory=dict)


def inject(fault: PlannedFault, target: FaultTarget) -> str:
    """Do it, and end it. Answers what was hit, for the log; empty where there was nothing to hit."""
    what, _, how = fault.kind.partition(" ")
    if fault.kind in REFUSALS or fault.kind in LOSSES:
        return target.lost(fault.kind)
    if how.startswith("full "):
        return _full_disk(how.removeprefix("full "), fault, target)
    if what == "kill":
        return _kill(how, fault, target)
    return _hang(how, fault, target) if what == "hang" else _trouble(how, fault, target)


def _trouble(how: str, fault: PlannedFault, target: FaultTarget) -> str:
    """What a server does that is neither killed nor hangs."""
    if fault.kind == "restart broker":
        target.kafka.stop()
        target.kafka.start()
        return "cleanly"
    if how == "away":
        server = target.kafka if fault.kind.startswith("broker") else target.elasticsearch
        server.stop()
        target.wait(fault.lasts)
        server.start()
        return f"for {fault.lasts:.0f} s"
    if how == "read-only":
        return _read_only(fault, target)
    target.proxy.fault = CUT if how.startswith("cuts") else int(how.rsplit(maxsplit=1)[-1])
    target.wait(fault.lasts)
    target.proxy.fault = None
    return f"for {fault.lasts:.0f} s"


def _kill(whom: str, fault: PlannedFault, target: FaultTarget) -> str:
    servers = {"broker": target.kafka, "elasticsearch": target.elasticsearch}
    if whom == "savepoint":
        return _kill_savepoint(fault, target)
    if whom in ("promotion", "rollback"):
        return promote_and_roll_back(fault, target.file, target.direct, target.wait)
    if whom == "one worker":
        return _kill_one_worker(fault, target)
    hit: list[str] = []
    down: list[KillableServer] = []
    roles = {"everything": ["broker", "elasticsearch", "jvm", "run"]}.get(whom, whom.split(" and "))
    for role in roles:
        if role in servers:
            if servers[role].signal(signal.SIGKILL):
                hit.append(role)
                down.append(servers[role])
        else:
            _await(role, target)
            hit += [f"{role} {pid}" for pid in target.jobs.signal(role, signal.SIGKILL)]
    for server in down:
        server.recover()
    return ", ".join(hit)


def _kill_one_worker(fault: PlannedFault, target: FaultTarget) -> str:
    """Kill one of the processes below Spark's JVM: a worker, or the one that forks them, whichever the schedule's number falls on."""
    found = sorted(_await("worker", target), key=lambda process: process.pid)
    if not found:
        return ""
    chosen = found[int(fault.lasts * 10) % len(found)]
    try:
        chosen.send_signal(signal.SIGKILL)
    except psutil.NoSuchProcess:
        return ""
    return f"worker {chosen.pid}"


def _await(role: str, target: FaultTarget) -> list[psutil.Process]:
    """Wait, for a while, until there is a process of a role; those there are."""
    for _ in range(APPEAR_SECONDS):
        found = target.jobs.processes()[role]
        if found:
            return found
        target.wait(1.0)
    return []


def _kill_savepoint(fault: PlannedFault, target: FaultTarget) -> str:
    """Kill `kappa savepoint create` somewhere in its work: it takes about as long as a fault lasts."""
    command = [sys.executable, "-m", "app.cli", "savepoint", "create", f"chaos-{fault.number}", "--config"]
    quiet = subprocess.DEVNULL
    with ended_with(subprocess.Popen([*command, str(target.file)], stdout=quiet, stderr=quiet, cwd=PROJECT)) as process:
        target.wait(5.0 + fault.lasts)
        done = kill_tree(process)
    return "while it wrote" if done is None else f"it had ended with {done}"


def _hang(whom: str, fault: PlannedFault, target: FaultTarget) -> str:
    servers = {"broker": target.kafka, "elasticsearch": target.elasticsearch}
    if whom in servers:
        found = servers[whom].process()
        hit = [found] if found else []
    else:
        hit = _await(whom, target)
    for process in hit:
        with suppress(psutil.NoSuchProcess):
            process.suspend()
    target.wait(fault.lasts)
    for process in hit:
        with suppress(psutil.NoSuchProcess):  # whoever supervises it has ended it meanwhile
            process.resume()
    if whom in servers:
        servers[whom].recover()
    return f"for {fault.lasts:.0f} s" if hit else ""


def _full_disk(whose: str, fault: PlannedFault, target: FaultTarget) -> str:
    """Leave nothing free where one of them writes, for a while."""
    disk = target.disks.get(whose)
    if disk is None:
        return ""
    lasts = max(LEAST_FULL_SECONDS, fault.lasts)
    taken = fill(disk)
    for _ in range(int(lasts)):
        target.wait(1.0)
        fill_again(disk)  # what was deleted meanwhile, old segments and changelogs
    empty(disk)
    if whose != "checkpoint":
        (target.kafka if whose == "broker" else target.elasticsearch).recover()
    return f"for {lasts:.0f} s, with {taken / 2**20:.0f} MiB"


def _read_only(fault: PlannedFault, target: FaultTarget) -> str:
    """What Elasticsearch does to its indices when the disk is nearly full."""
    client = elasticsearch_connection(target.direct).connect()
    indices = f"*-{target.direct.version}-*"
    try:
        client.indices.put_settings(index=indices, settings={READ_ONLY: True}, expand_wildcards="all")
        target.wait(fault.lasts)
        client.indices.put_settings(index=indices, settings={READ_ONLY: None}, expand_wildcards="all")
    except (ApiError, TransportError) as error:
        return f"not done: {type(error).__name__}"
    finally:
        client.close()
    return f"for {fault.lasts:.0f} s"
