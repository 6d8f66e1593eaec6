"""The state of the embedded stack in the file `stack.json`, and whether its processes still run."""

import json
import os
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from app.core.atomic_files import write_json_durably
from app.core.ports import LOOPBACK

# Processes are identified by pid and start time, which both sides read from the same clock with its resolution. Since the boot that is the same
# number for both: in containers that share a home, and have the same pids, processes begin nearly at once.
_EPOCH_TOLERANCE_SECONDS, _BOOT_TOLERANCE_SECONDS = 2.0, 0.005
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_STARTED = 19  # in /proc/PID/stat, of the fields after the name: the start since the boot, in units of SC_CLK_TCK


@dataclass(frozen=True)
class ProcessId:
    """A process, distinguished by its start from a later one with the same pid.

    `started` is in seconds since `boot`, as Linux calls the start of the machine: a clock that is set makes no other process of it. Elsewhere
    `boot` is empty, and `started` in seconds since the epoch.
    """

    pid: int
    started: float
    boot: str = ""

    @classmethod
    def of(cls, pid: int) -> "ProcessId":
        """Of a process that runs now; psutil.NoSuchProcess if it does not."""
        boot = boot_now()
        return cls(pid, start_of(psutil.Process(pid), boot), boot)

    def process(self) -> psutil.Process | None:
        """The process if it is the same one and runs; a zombie has ended."""
        if self.boot not in ("", boot_now()):
            return None
        try:
            process = psutil.Process(self.pid)
            apart = abs(start_of(process, self.boot) - self.started)
            same = apart < (_EPOCH_TOLERANCE_SECONDS if not self.boot else _BOOT_TOLERANCE_SECONDS)
            return process if same and process.status() != psutil.STATUS_ZOMBIE else None
        except psutil.NoSuchProcess:
            return None

    def alive(self) -> bool:
        """Whether it runs."""
        return self.process() is not None


@dataclass(frozen=True)
class ServiceState:
    """One server. Clients connect to `port`, the server to itself at `internal_port`; both on loopback."""

    port: int
    internal_port: int
    version: str
    process: ProcessId | None = None


@dataclass(frozen=True)
class StackState:
    """The state of the stack. The file stays when the stack has ended: the next start takes the same ports.

    `reason` is why a stopped stack could not go on; empty where it was asked to stop.
    """

    phase: str  # starting | ready | stopped
    supervisor: ProcessId | None = None
    owner: ProcessId | None = None  # the process with which the stack ends; None for a detached one
    services: dict[str, ServiceState] = field(default_factory=dict)
    reason: str = ""

    def supervised(self) -> bool:
        """Whether its supervisor runs."""
        return self.supervisor is not None and self.supervisor.alive()

    def stopped(self) -> "StackState":
        """The same without its processes, and without a reason."""
        return StackState("stopped", services={name: replace(one, process=None) for name, one in self.services.items()})

    def processes(self) -> list[ProcessId]:
        """The supervisor and the servers, as written; they may have ended."""
        servers = [service.process for service in self.services.values()]
        return [process for process in [self.supervisor, *servers] if process is not None]


@dataclass(frozen=True)
class Addresses:
    """Where clients connect: `host:port` of Kafka, URL of Elasticsearch; None for one that does not run."""

    kafka: str | None
    elasticsearch: str | None


def boot_now() -> str:
    """The start of the machine, as Linux names each; empty elsewhere."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""


def start_of(process: psutil.Process, boot: str) -> float:
    """When a process began, in seconds since the boot; without one since the epoch, which moves when the clock is set."""
    if not boot:
        return process.create_time()
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError as error:
        raise psutil.NoSuchProcess(process.pid) from error
    return int(fields[_STARTED]) / os.sysconf("SC_CLK_TCK")


def state_file(home: Path) -> Path:
    """Where the state is written."""
    return home / "stack.json"


def lock_file(home: Path) -> Path:
    """The lock that the supervisor of a stack holds."""
    return home / "stack.lock"


def log_file(home: Path) -> Path:
    """The log of the supervisor."""
    return home / "logs" / "supervisor.log"


def read_state(home: Path) -> StackState | None:
    """The state as written last; None where there is none, or none that can be read.

    Of a folder that was copied it is a stopped stack: the processes are those of the folder that it is a copy of, and may run there.
    """
    try:
        raw = json.loads(state_file(home).read_text())
        here = folder_of(home)
        state = _state(raw)
        return state if raw.get("folder", here) == here else state.stopped()
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def write_state(home: Path, state: StackState) -> None:
    """Replace the file, whole or not at all."""
    write_json_durably(state_file(home), asdict(state) | {"folder": folder_of(home)})


def folder_of(home: Path) -> list[int]:
    """What tells a folder from a copy of it, and stays when it is renamed."""
    found = home.stat()
    return [found.st_dev, found.st_ino]


def addresses(home: Path) -> Addresses | None:
    """The addresses of the stack in `home`; None unless it runs and is ready."""
    state = read_state(home.resolve())
    if state is None or state.phase != "ready" or not state.supervised():
        return None
    found = {name: address(name, service) for name, service in state.services.items() if service.process}
    return Addresses(kafka=found.get("kafka"), elasticsearch=found.get("elasticsearch"))


def address(name: str, service: ServiceState) -> str:
    """Where clients of a server connect."""
    scheme = "http://" if name == "elasticsearch" else ""
    return f"{scheme}{LOOPBACK}:{service.port}"


def _state(raw: dict[str, Any]) -> StackState:
    services = {
        name: ServiceState(**{**service, "process": _process(service["process"])})
        for name, service in raw["services"].items()
    }
    return StackState(
        raw["phase"], _process(raw["supervisor"]), _process(raw["owner"]), services, raw.get("reason", "")
    )


def _process(raw: dict[str, Any] | None) -> ProcessId | None:
    return ProcessId(int(raw["pid"]), float(raw["started"]), str(raw.get("boot", ""))) if raw else None
