"""The embedded stack: a real Kafka and a real Elasticsearch on this machine, from Python alone.

    up(Stack(home))                        leaves it running, until down(home)
    with running_stack(Stack(home)) as a:  it ends with the block, and with this process, even a killed one

Data live below `home` and are never deleted here. Everything listens on loopback only.
"""

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from app.core import private_files
from app.core.errors import StackError
from app.core.file_lock import file_lock
from app.core.ports import LOOPBACK
from app.core.report import Report, silent
from app.embedded.elasticsearch import cluster_health
from app.embedded.jars import PROJECT, ensure_jars
from app.embedded.jvm import logged_reason
from app.embedded.stack_state import (
    Addresses,
    ProcessId,
    ServiceState,
    StackState,
    address,
    addresses,
    lock_file,
    log_file,
    read_state,
    state_file,
    write_state,
)
from app.embedded.supervisor import Task, end_leftovers
from app.supervision.parent import PYTHON
from app.supervision.processes import python_path

_BUSY_SECONDS = 90.0
_DOWN_SECONDS = 40.0
_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Stack:
    """Which servers to run, and how.

    Parameters
    ----------
    home
        The folder of data, logs and state.
    kafka_port, elasticsearch_port
        Ports on loopback; 0 for that of the last run if it is free, else any.
    kafka, elasticsearch
        Whether to run each of them.
    kafka_heap_mib, elasticsearch_heap_mib
        Java heaps, in MiB.
    jars
        The folder of jars, by default `home/jars`.
    ivy_settings
        An Ivy settings file that names a mirror.
    """

    home: Path
    kafka_port: int = 0
    elasticsearch_port: int = 0
    kafka: bool = True
    elasticsearch: bool = True
    kafka_heap_mib: int = 512
    elasticsearch_heap_mib: int = 512
    jars: Path | None = None
    ivy_settings: Path | None = None


@dataclass(frozen=True)
class ServiceStatus:
    """One server. `healthy`: it answered now. `data_bytes`: its data on disk."""

    address: str
    version: str
    pid: int | None
    running: bool
    healthy: bool
    data_bytes: int


@dataclass(frozen=True)
class StackStatus:
    """`phase` is starting, ready or stopped; `owner_pid` the process that the stack ends with, if there is one.

    `reason` is why it stopped without being asked to, and where the log is; None until it does, and after the next start or `down`.
    """

    home: Path
    phase: str
    running: bool
    healthy: bool
    supervisor_pid: int | None
    owner_pid: int | None
    kafka: ServiceStatus | None
    elasticsearch: ServiceStatus | None
    reason: str | None = None


def up(stack: Stack, detach: bool = True, report: Report = silent) -> Addresses:
    """Start the stack, or find it running. Detached, it runs until `down`; else until this process is interrupted.

    StackError where a jar, a port or a server is not as it should be, in one line.
    """
    if not detach:
        with running_stack(stack, report) as found:
            report("running; interrupt to stop")
            _wait_while_running(stack.home.resolve())
        return found
    running = _find_running(stack, report)
    if running:
        return running
    supervisor = _launch(stack, None, report)
    try:
        return _await_ready(supervisor, stack, report)
    except BaseException:
        _end(supervisor)
        raise
    finally:
        _close(supervisor)


@contextmanager
def running_stack(stack: Stack, report: Report = silent) -> Iterator[Addresses]:
    """A stack that runs inside the block. It also stops, cleanly, when this process is killed.

    A detached stack that already runs in `home` is used, and left running. StackError if it is tied to another process.
    """
    running = _find_running(stack, report)
    if running:
        yield running
        return
    supervisor = _launch(stack, ProcessId.of(os.getpid()), report)
    try:
        yield _await_ready(supervisor, stack, report)
    finally:
        _close(supervisor)
        _end(supervisor)


def down(home: Path, report: Report = silent) -> bool:
    """Stop whatever stack runs in `home`, cleanly; False if none did. Data stay. StackError if it cannot be ended."""
    state = read_state(home.resolve())
    if state is None:
        return False
    supervisor = state.supervisor.process() if state.supervisor else None
    if supervisor:
        report("stopping the embedded stack")
        supervisor.terminate()
        _, alive = psutil.wait_procs([supervisor], timeout=_DOWN_SECONDS)
        for process in alive:
            process.kill()
    end_leftovers(state)
    left = [process.pid for process in state.processes() if process.alive()]
    if left:
        msg = f"the stack in {home} did not end: processes {left} still run"
        raise StackError(msg)
    try:
        _forget_reason(home.resolve())
    except OSError as error:  # a full disk: what had to be stopped is
        report(
            f"{state_file(home)} cannot be written, so `kappa status` goes on saying why the stack had stopped: {error}"
        )
    return supervisor is not None


def _forget_reason(home: Path) -> None:
    """A stack that was asked to stop has no other reason. Where another process starts one meanwhile, the state is its own."""
    with file_lock(lock_file(home), 0.0) as held:
        state = read_state(home) if held else None
        if state and state.stopped() != state:
            write_state(home, state.stopped())


def status(home: Path) -> StackStatus:
    """The servers that run in `home`, and whether they answer. Without a stack its phase is `stopped`."""
    home = home.resolve()
    state = read_state(home) or StackState("stopped")
    running = state.supervised()
    services = {name: _service_status(home, name, service, running) for name, service in state.services.items()}
    alive = [service for service in services.values() if service.running]
    return StackStatus(
        home=home,
        phase=state.phase if running else "stopped",
        running=running,
        healthy=running and bool(alive) and all(service.healthy for service in alive),
        supervisor_pid=state.supervisor.pid if running and state.supervisor else None,
        owner_pid=state.owner.pid if running and state.owner else None,
        kafka=services.get("kafka"),
        elasticsearch=services.get("elasticsearch"),
        reason=None if running else _reason(home, state),
    )


def _reason(home: Path, state: StackState) -> str | None:
    """Why a stack that does not run has stopped without being asked to, in a sentence; None where it was asked to."""
    reason = state.reason
    if state.phase != "stopped":
        reason = "its supervisor ended before it could stop anything: it was killed, or the machine went down"
    return f"{reason}; the supervisor's log is {log_file(home)}" if reason else None


def _service_status(home: Path, name: str, service: ServiceState, supervised: bool) -> ServiceStatus:
    running = supervised and service.process is not None and service.process.alive()
    answers = {"kafka": _kafka_answers, "elasticsearch": _elasticsearch_answers}[name]
    return ServiceStatus(
        address=address(name, service),
        version=service.version,
        pid=service.process.pid if running and service.process else None,
        running=running,
        healthy=running and answers(service.port),
        data_bytes=_size(home / name),
    )


def _kafka_answers(port: int) -> bool:
    try:
        waits = {"request_timeout_ms": 3000, "bootstrap_timeout_ms": 3000}
        client = KafkaAdminClient(bootstrap_servers=f"{LOOPBACK}:{port}", **waits)
        try:
            return bool(client.describe_cluster()["brokers"])
        finally:
            client.close()
    except (KafkaError, OSError):
        return False


def _elasticsearch_answers(port: int) -> bool:
    try:
        return cluster_health(port, 1) in ("yellow", "green")
    except StackError:
        return False


def _size(folder: Path) -> int:
    """Bytes on disk of all files, without the holes of sparse ones. Files that are removed meanwhile do not count."""
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += path.lstat().st_blocks * 512
    return total


def _find_running(stack: Stack, report: Report) -> Addresses | None:
    """The addresses of a detached stack that already runs in this home. StackError where it is another than wanted."""
    home = stack.home.resolve()
    found, state = addresses(home), read_state(home)
    if found is None or state is None:
        return None
    if state.owner:
        msg = f"the stack in {home} belongs to process {state.owner.pid} and ends with it: use another home, or wait"
        raise StackError(msg)
    for name, wanted, port in (
        ("kafka", stack.kafka, stack.kafka_port),
        ("elasticsearch", stack.elasticsearch, stack.elasticsearch_port),
    ):
        service = state.services.get(name)
        if wanted and (service is None or service.process is None or port not in (0, service.port)):
            where = f"on port {service.port}" if service and service.process else "not"
            msg = f"the stack in {home} already runs, {name} {where}; stop it before it can run as now asked for"
            raise StackError(msg)
    report(f"already running: {found.kafka or '-'}, {found.elasticsearch or '-'}")
    return found


def _launch(stack: Stack, owner: ProcessId | None, report: Report) -> "subprocess.Popen[bytes]":
    home = stack.home.resolve()
    logs = home / "logs"
    private_files.tighten(home)
    logs.mkdir(parents=True, exist_ok=True)
    jars = ensure_jars(stack.jars or home / "jars", report, ivy_settings=stack.ivy_settings)
    task = Task(
        home=str(home),
        jars=str(jars.folder),
        kafka=stack.kafka,
        elasticsearch=stack.elasticsearch,
        kafka_port=stack.kafka_port,
        elasticsearch_port=stack.elasticsearch_port,
        kafka_heap_mib=stack.kafka_heap_mib,
        elasticsearch_heap_mib=stack.elasticsearch_heap_mib,
        owner_pid=owner.pid if owner else None,
        owner_started=owner.started if owner else None,
        owner_boot=owner.boot if owner else "",
    )
    with log_file(home).open("ab") as log:
        return subprocess.Popen(
            [*PYTHON, "app.embedded.supervisor", task.to_json()],
            env=os.environ | {"PYTHONPATH": python_path()},
            stdin=subprocess.PIPE if owner else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            # A session of its own: Ctrl-C in the terminal reaches the owner alone, which then closes the pipe.
            start_new_session=True,
            cwd=PROJECT,
        )


def _await_ready(supervisor: "subprocess.Popen[bytes]", stack: Stack, report: Report) -> Addresses:
    home = stack.home.resolve()
    for line in supervisor.stdout or ():
        message = json.loads(line)
        if "report" in message:
            report(message["report"])
        if "error" in message:
            raise StackError(message["error"])
        if "busy" in message:
            return _await_other(stack, report)
        if "ready" in message:
            found = addresses(home)
            if found:
                return found
    msg = f"the stack in {home} ended while it started: {logged_reason(log_file(home))}"
    raise StackError(msg)


def _await_other(stack: Stack, report: Report) -> Addresses:
    """Wait while another process starts, or stops, a stack in this home."""
    report("another process is starting the stack in the same home; waiting for it")
    deadline = time.monotonic() + _BUSY_SECONDS
    while time.monotonic() < deadline:
        found = _find_running(stack, report)
        if found:
            return found
        time.sleep(_POLL_SECONDS)
    msg = f"the stack in {stack.home} is held by another process, and not ready after {_BUSY_SECONDS:.0f} s; try again"
    raise StackError(msg)


def _wait_while_running(home: Path) -> None:
    with contextlib.suppress(KeyboardInterrupt):
        while addresses(home):
            time.sleep(1.0)


def _close(supervisor: "subprocess.Popen[bytes]") -> None:
    """Close the pipes to the supervisor: a tied stack then stops."""
    for pipe in (supervisor.stdin, supervisor.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def _end(supervisor: "subprocess.Popen[bytes]") -> None:
    """Ask it to stop and wait; a killed supervisor takes its servers with it."""
    with contextlib.suppress(ProcessLookupError):
        supervisor.terminate()
    try:
        supervisor.wait(_DOWN_SECONDS)
    except subprocess.TimeoutExpired:
        supervisor.kill()
        supervisor.wait()
