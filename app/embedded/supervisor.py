"""The process that owns the embedded Kafka and Elasticsearch: starts both, starts again the one that ends or hangs, ends both.

    python -m app.embedded.supervisor JSON        (started by app.embedded.stack, never by hand)

It reports its progress on stdout, one JSON object a line: {"report": text}, then {"ready": true}, {"busy": true} or
{"error": text}. A tied stack ends with its owner: when stdin closes, or when the owner's process is gone (a forked
child of the owner may hold the pipe open). Servers end with this process, see app.embedded.jvm. A server that ends by itself, or
has not answered for two minutes, is started again on its ports and data, after growing waits; after five starts in a row in vain the
whole stack ends.
"""

import contextlib
import json
import logging
import os
import random
import select
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from threading import Thread
from typing import Any

import psutil
from py4j.protocol import Py4JError

from app.core import lasting_stderr
from app.core.errors import StackError
from app.core.file_lock import file_lock
from app.core.ports import LOOPBACK, free_port, required_port
from app.embedded.elasticsearch import (
    elasticsearch_answers,
    elasticsearch_command,
    elasticsearch_version,
    start_elasticsearch,
    stop_elasticsearch,
)
from app.embedded.jars import Jars
from app.embedded.jvm import Jvm, JvmCommand
from app.embedded.kafka import kafka_answers, kafka_command, kafka_version, start_kafka, stop_kafka
from app.embedded.stack_state import ProcessId, ServiceState, StackState, lock_file, read_state, write_state
from app.supervision.policy import RestartLimits, RestartPolicy
from app.supervision.stop_signals import stop_pipe

_LOCK_WAIT_SECONDS = 3.0
_WATCH_SECONDS = 0.5
_START_SECONDS = 180.0  # 6 s on an idle machine, 35 s on one with many times its load
_STOP_SECONDS = 20.0
_LEFTOVER_SECONDS = 5.0
_GOOD_SECONDS = 30.0  # a server that ran for so long was well
_ASK_SECONDS = 10.0  # between two questions to a server, and how long it has for an answer
_MOST_UNANSWERED = 12  # questions in a row: it hangs
_LIMITS = RestartLimits(good_seconds=0.0, most_in_vain=5)


@dataclass(frozen=True)
class Task:
    """The arguments of the supervisor. A port of 0 means any; `owner` as in StackState."""

    home: str
    jars: str
    kafka: bool
    elasticsearch: bool
    kafka_port: int
    elasticsearch_port: int
    kafka_heap_mib: int
    elasticsearch_heap_mib: int
    owner_pid: int | None = None
    owner_started: float | None = None
    owner_boot: str = ""

    def owner(self) -> ProcessId | None:
        """The process that the stack ends with, or None."""
        if self.owner_pid is None or self.owner_started is None:
            return None
        return ProcessId(self.owner_pid, self.owner_started, self.owner_boot)

    def to_json(self) -> str:
        """For the command line."""
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class Server:
    """How to run one server: `start(jvm, home, port, internal port)` returns the handle that `stop` takes.

    `answers(port, seconds)` returns whether it works.
    """

    title: str
    setting: str
    version: str
    asked_port: int
    command: JvmCommand
    start: Callable[[Jvm, Path, int, int], Any]
    stop: Callable[[Any], None]
    answers: Callable[[int, float], bool]


def main(arguments: list[str]) -> int:
    """Run until a signal asks to stop, the owner ends, or a server cannot be kept running."""
    task = Task(**json.loads(arguments[0]))
    # A Java process that ends is reported in a line; py4j would add a stack trace for each of its connections.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    home = Path(task.home)
    lasting_stderr.begin()
    with stop_pipe() as pipe, file_lock(lock_file(home), _LOCK_WAIT_SECONDS) as held:
        if not held:
            _send({"busy": True})
            return 1
        try:
            Supervisor(task, pipe).run()
        except (StackError, OSError) as error:
            _log(str(error))
            _send({"error": str(error)})
            return 1
    return 0


@dataclass
class WatchedServer:
    """A server that has been started: when it was up, or when it is to be started again, or what starts it now; how it has answered since."""

    name: str
    server: Server
    up: float = field(default_factory=time.monotonic)
    due: float | None = None
    starting: "Future[Any] | None" = None
    deadline: float = 0.0
    question: "Future[bool] | None" = None
    asked: float = 0.0
    unanswered: int = 0
    policy: RestartPolicy = field(default_factory=lambda: RestartPolicy(_LIMITS, random.random))


class _Threads(ThreadPoolExecutor):
    """Threads that nobody waits for: what hangs in one ends with its JVM."""

    def close(self) -> None:
        """Start nothing more."""
        self.shutdown(wait=False, cancel_futures=True)


class Supervisor:
    """One run of the stack: ends servers that an earlier one left, starts, watches, stops. For the main thread, see app.embedded.jvm."""

    def __init__(self, task: Task, stop_pipe: int) -> None:
        self.task = task
        self.home = Path(task.home)
        self.stop_pipe = stop_pipe
        self.jvms: dict[str, Jvm] = {}
        self.handles: dict[str, Any] = {}
        self.services: dict[str, ServiceState] = {}
        self._unwritten = ""  # why the state could not be written

    def run(self) -> None:
        """Returns when everything is stopped; StackError where it could not start, or not go on: the state keeps why."""
        earlier = read_state(self.home)
        if earlier:
            end_leftovers(earlier)
        servers = _servers(self.task, self.home)
        known, reason = earlier.services if earlier else {}, ""
        try:
            self.services = _choose_ports(servers, earlier)
            self._launch(servers)
            if self._boot(servers):
                self._write("ready")
                _send({"ready": True})
                _release_starter()
                _log(f"stopping: {self._watch(servers)}")
        except Exception as error:
            reason = str(error) or type(error).__name__
            raise
        finally:
            _stop(servers, self.jvms, self.handles)
            stopped = {name: replace(service, process=None) for name, service in (known | self.services).items()}
            write_state(self.home, StackState("stopped", services=stopped, reason=reason))

    def _launch(self, servers: dict[str, Server]) -> None:
        for name, server in servers.items():
            self._launch_one(name, server)
        self._write("starting")

    def _launch_one(self, name: str, server: Server) -> None:
        jvm = self.jvms[name] = Jvm(server.command)
        self.services[name] = replace(self.services[name], process=ProcessId.of(jvm.process.pid))

    def _write(self, phase: str) -> None:
        supervisor = ProcessId.of(os.getpid())
        write_state(self.home, StackState(phase, supervisor, self.task.owner(), self.services))

    def _boot(self, servers: dict[str, Server]) -> bool:
        """Start the servers side by side, still listening for a stop; False if that came first."""
        deadline = time.monotonic() + _START_SECONDS
        threads = ThreadPoolExecutor(max(len(servers), 1))
        futures = {name: threads.submit(self._start, name, server) for name, server in servers.items()}
        try:
            while not all(future.done() for future in futures.values()):
                if self._stop_reason():
                    return False
                for name, future in futures.items():
                    if future.done():
                        future.result()
                    elif time.monotonic() > deadline:
                        what = f"not up after {_START_SECONDS:.0f} s"
                        raise self.jvms[name].failure(what)
            self.handles.update({name: future.result() for name, future in futures.items()})
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
        return True

    def _start(self, name: str, server: Server) -> Any:
        started, service, jvm = time.monotonic(), self.services[name], self.jvms[name]
        try:
            handle = server.start(jvm, self.home, service.port, service.internal_port)
        except (Py4JError, OSError) as error:
            what = f"did not start ({_java_message(error)})"
            raise jvm.failure(what) from error
        seconds = time.monotonic() - started
        _send({"report": f"{server.title} {service.version} is up on {LOOPBACK}:{service.port} after {seconds:.1f} s"})
        return handle

    def _watch(self, servers: dict[str, Server]) -> str:
        """Start again what ends by itself, until there is a reason to stop; StackError where that is in vain."""
        watched = [WatchedServer(name, server) for name, server in servers.items()]
        # Of each server one that starts it, and one that asks it.
        with contextlib.closing(_Threads(2 * len(watched))) as threads:
            while True:
                reason = self._stop_reason()
                if reason:
                    return reason
                changed = [self._look(one, threads) for one in watched]
                if any(changed) or self._unwritten:
                    self._write_if_possible()

    def _write_if_possible(self) -> None:
        """Write the state of servers that run; on a full disk it is written when there is room again."""
        before, self._unwritten = self._unwritten, ""
        try:
            self._write("ready")
        except OSError as error:
            self._unwritten = str(error)
            if self._unwritten != before:
                _log(f"the state of the servers could not be written: {error}; trying again")

    def _look(self, one: "WatchedServer", threads: "_Threads") -> bool:
        """One look at a server; whether it was launched. JVMs are launched here, in the main thread, see app.embedded.jvm."""
        now, jvm = time.monotonic(), self.jvms[one.name]
        if one.due is not None:
            if now >= one.due:
                one.due, one.deadline = None, now + _START_SECONDS
                try:
                    self._launch_one(one.name, one.server)
                except OSError as error:
                    self._ended(one, f"{one.server.title} could not be launched: {error}")
                    return False
                one.starting = threads.submit(self._start, one.name, one.server)
                return True
        elif one.starting is not None:
            if one.starting.done():
                try:
                    self.handles[one.name] = one.starting.result()
                    one.starting, one.question, one.up, one.unanswered = None, None, now, 0
                    _log(f"{one.server.title} is up again")
                except StackError as error:
                    self._ended(one, str(error))
            elif now > one.deadline:
                self._ended(one, str(jvm.failure(f"not up after {_START_SECONDS:.0f} s")))
        elif jvm.process.poll() is not None:
            self._ended(one, str(jvm.failure(f"ended with code {jvm.process.returncode}")))
        elif self._hangs(one, threads, now):
            self._ended(one, str(jvm.failure(f"has not answered {_MOST_UNANSWERED} times in a row")))
        elif now - one.up > _GOOD_SECONDS:
            one.policy.progressed(now)
        return False

    def _hangs(self, one: "WatchedServer", threads: "_Threads", now: float) -> bool:
        """Ask a server from time to time whether it works. Questions are counted, so that time in which this process did not run is none."""
        if one.question is None:
            if now - max(one.asked, one.up) > _ASK_SECONDS:
                one.asked = now
                one.question = threads.submit(one.server.answers, self.services[one.name].port, _ASK_SECONDS)
        elif one.question.done():
            one.unanswered = 0 if one.question.result() else one.unanswered + 1
            one.question = None
        return one.unanswered >= _MOST_UNANSWERED

    def _ended(self, one: "WatchedServer", why: str) -> None:
        """A server has ended: decide when to start it again. StackError where that has been in vain too often."""
        now = time.monotonic()
        self.jvms[one.name].process.kill()
        self.jvms[one.name].end()
        self.handles.pop(one.name, None)
        wait = one.policy.ended(now)
        if wait is None:
            msg = (
                f"gave up: {one.server.title} has ended {one.policy.in_vain} times in a row soon after its start; {why}"
            )
            raise StackError(msg)
        _log(f"{why}; starting it again in {wait:.1f} s")
        one.starting, one.due = None, now + wait

    def _stop_reason(self) -> str | None:
        """Why to stop, or None after a short wait."""
        owner = self.task.owner()
        inputs = [self.stop_pipe, *([sys.stdin.fileno()] if owner else [])]
        readable, _, _ = select.select(inputs, [], [], _WATCH_SECONDS)
        if self.stop_pipe in readable:
            return "asked to"
        if readable and not os.read(readable[0], 4096):
            return "its owner closed the pipe"
        if owner and not owner.alive():
            return "its owner ended"
        return None


def _servers(task: Task, home: Path) -> dict[str, Server]:
    jars = Jars.of(Path(task.jars))
    (home / "logs").mkdir(parents=True, exist_ok=True)
    servers = {}
    if task.kafka:
        servers["kafka"] = Server(
            title="Kafka",
            setting="stack.kafka_port",
            version=kafka_version(jars),
            asked_port=task.kafka_port,
            command=kafka_command(home, jars, task.kafka_heap_mib),
            start=start_kafka,
            stop=stop_kafka,
            answers=kafka_answers,
        )
    if task.elasticsearch:
        servers["elasticsearch"] = Server(
            title="Elasticsearch",
            setting="stack.elasticsearch_port",
            version=elasticsearch_version(jars),
            asked_port=task.elasticsearch_port,
            command=elasticsearch_command(home, jars, task.elasticsearch_heap_mib),
            start=start_elasticsearch,
            stop=stop_elasticsearch,
            answers=elasticsearch_answers,
        )
    return servers


def _choose_ports(servers: dict[str, Server], earlier: StackState | None) -> dict[str, ServiceState]:
    """The ports that settings name, else those of the last run, so that addresses stay the same; else any free ones."""
    before = earlier.services if earlier else {}
    taken = {server.asked_port for server in servers.values()}
    services = {}
    for name, server in servers.items():
        known = before.get(name)
        if server.asked_port:
            port = required_port(server.asked_port, server.setting)
        else:
            port = free_port(known.port if known else None, taken)
        taken.add(port)
        internal = free_port(known.internal_port if known else None, taken)
        taken.add(internal)
        services[name] = ServiceState(port, internal, server.version)
    return services


def end_leftovers(state: StackState) -> None:
    """Wait until the servers of a killed supervisor have ended by themselves; kill them after a few seconds."""
    servers = [service.process for service in state.services.values() if service.process]
    processes = [process for process in (server.process() for server in servers) if process]
    _, alive = psutil.wait_procs(processes, timeout=_LEFTOVER_SECONDS)
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(alive, timeout=_LEFTOVER_SECONDS)


def _java_message(error: Exception) -> str:
    """The message of a Java exception, without the stack trace that py4j prints."""
    exception = getattr(error, "java_exception", None)
    with contextlib.suppress(Py4JError, OSError):
        if exception is not None:
            return str(exception.toString()).splitlines()[0][:300]
    return type(error).__name__


def _stop(servers: dict[str, Server], jvms: dict[str, Jvm], handles: dict[str, Any]) -> None:
    """Close the servers side by side within a time, then end their Java in any case."""

    def stop(name: str) -> None:
        if name in handles:
            try:
                servers[name].stop(handles[name])
            except (Py4JError, OSError) as error:
                _log(f"{name} did not stop cleanly: {_java_message(error)}")
        jvms[name].end()

    threads = [Thread(target=stop, args=(name,), daemon=True) for name in jvms]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + _STOP_SECONDS
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    for jvm in jvms.values():
        if jvm.process.poll() is None:
            jvm.process.kill()
            jvm.process.wait()


def _send(message: dict[str, Any]) -> None:
    """Send a message to the process that started this one, if it still listens."""
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(message).encode() + b"\n")


def _release_starter() -> None:
    """Close stdout, so that the process that started this one sees its end and may exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def _log(line: str) -> None:
    """Write a line to supervisor.log, which is stderr; on a full disk it is lost."""
    sys.stderr.write(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
