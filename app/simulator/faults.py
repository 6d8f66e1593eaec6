"""What an episode does to the numbers: every kind writes into neutral factors and additions that the metrics read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from app.simulator.vocabulary import LEVELS, extra_templates

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from app.simulator.fleet import Group
    from app.simulator.schedule import Disturbance
    from models.core.arrays import Bools, Floats, Ints


CLOCK_ERROR_MS = 300_000
FOR_GOOD = float("inf")
WARN, ERROR = LEVELS.index("WARN"), LEVELS.index("ERROR")


@dataclass(frozen=True)
class ExtraLog:
    """Lines of one template beside the ordinary ones: `rate` is `(steps,)`, lines a second, on one row of the group."""

    row: int
    service: str
    template: int
    rate: Floats


@dataclass(frozen=True)
class Frozen:
    """A metric that repeats its value while `on`, `(steps,)`; `key` names it across blocks of time."""

    row: int
    metric: str
    key: tuple[str, float]
    on: Bools


@dataclass
class Effects:
    """Neutral until an episode says otherwise. V virtual machines, S services on them, T steps, 4 levels of logs.

    Additions `(V, T)`: `cpu` and `steal` in points of percent, `memory` as a share, `disk` in points, `processes`,
    `retransmits` per second. Factors `(V, T)`: `disk_io`, `network`. `alive` `(V + 1, T)`: reports at all.
    Factors `(S, T)`: `load`, `latency`, `throughput`; `errors` `(S, T)` adds to the share of failed requests;
    `logs` `(S, 4, T)`, `system_logs` `(V + 1, T)` multiply rates of lines; `release` `(S, T)` is 1 after a deployment.
    Physical host `(T,)`: `physical_cpu`, `temperature`. `clock` `(V + 1, T)`: error of the clock in milliseconds.
    """

    cpu: Floats
    steal: Floats
    memory: Floats
    disk: Floats
    processes: Floats
    retransmits: Floats
    disk_io: Floats
    network: Floats
    alive: Bools
    load: Floats
    latency: Floats
    throughput: Floats
    errors: Floats
    logs: Floats
    system_logs: Floats
    release: NDArray[np.int8]
    physical_cpu: Floats
    temperature: Floats
    clock: Ints
    restarted: Bools
    extra_logs: list[ExtraLog] = field(default_factory=list)
    frozen: list[Frozen] = field(default_factory=list)


@dataclass(frozen=True)
class Scene:
    """Where and when: the group, the episode, the middle of every step in seconds, when it is on, and how strong."""

    group: Group
    episode: Disturbance
    middle: Floats
    on: Floats
    strength: float
    interval: float

    @property
    def rows(self) -> list[int]:
        """Rows of the episode's hosts that are virtual machines of this group."""
        return [row for row, vm in enumerate(self.group.vms) if vm.name in self.episode.hosts]

    @property
    def main(self) -> list[int]:
        """Positions of the episode's services on its hosts."""
        named = enumerate(self.group.instances)
        rows = set(self.rows)
        return [i for i, (row, _, service) in named if row in rows and service in self.episode.services]

    def ramp(self, seconds: float) -> Floats:
        """From 0 to 1 within the first `seconds` of the episode, 0 outside."""
        out: Floats = self.on * np.clip((self.middle - self.episode.begin) / seconds, 0, 1)
        return out

    @property
    def progress(self) -> Floats:
        """From 0 at the beginning to 1 at the end, 0 outside."""
        end = self.episode.end if self.episode.end is not None else self.episode.begin + 1
        return self.ramp(max(end - self.episode.begin, 1.0))


def neutral(group: Group, steps: int) -> Effects:
    """Effects of nothing at all."""
    vms, services = len(group.vms), len(group.instances)

    def zeros(*shape: int) -> Floats:
        return np.zeros((*shape, steps))

    def ones(*shape: int) -> Floats:
        return np.ones((*shape, steps))

    return Effects(
        cpu=zeros(vms), steal=zeros(vms), memory=zeros(vms), disk=zeros(vms), processes=zeros(vms),
        retransmits=zeros(vms), disk_io=ones(vms), network=ones(vms), alive=np.ones((vms + 1, steps), dtype=bool),
        load=ones(services), latency=ones(services), throughput=ones(services), errors=zeros(services),
        logs=ones(services, len(LEVELS)), system_logs=ones(vms + 1), release=np.zeros((services, steps), dtype=np.int8),
        physical_cpu=zeros(), temperature=zeros(), clock=np.zeros((vms + 1, steps), dtype=np.int64),
        restarted=np.zeros((vms, steps), dtype=bool),
    )  # fmt: skip


def effects_of(group: Group, episodes: list[Disturbance], middle: Floats, interval: float, strength: float) -> Effects:
    """All that the episodes do to a group within these steps; `middle` is `(T,)`, seconds from the start."""
    effects = neutral(group, len(middle))
    for row, vm in enumerate(group.vms):
        effects.alive[row] &= middle >= vm.born
    for episode in episodes:
        end = FOR_GOOD if episode.end is None else episode.end
        on = ((middle >= episode.begin) & (middle < end)).astype(np.float64)
        scene = Scene(group, episode, middle, on, strength, interval)
        touched = not set(group.hosts).isdisjoint(episode.hosts)
        if touched and (on.any() or episode.kind == "host_silent"):
            KIND[episode.kind](effects, scene)
    return effects


def _cpu_contention(effects: Effects, scene: Scene) -> None:
    ramp = scene.strength * scene.ramp(20)
    effects.cpu[scene.rows] += 38 * ramp
    effects.processes[scene.rows] += 6 * ramp
    effects.latency[scene.main] *= 1 + 0.5 * ramp
    effects.logs[scene.main, WARN] *= 1 + 4 * ramp


def _memory_leak(effects: Effects, scene: Scene) -> None:
    leak = scene.strength * scene.progress
    effects.memory[scene.rows] += 0.38 * leak
    effects.latency[scene.main] *= 1 + 0.5 * np.clip(leak - 0.4, 0, None)
    effects.logs[scene.main, WARN] *= 1 + 4 * leak


def _disk_filling(effects: Effects, scene: Scene) -> None:
    effects.disk[scene.rows] += 30 * scene.strength * scene.progress
    effects.disk_io[scene.rows] *= 1 + 1.5 * scene.strength * scene.on


def _network_delay(effects: Effects, scene: Scene) -> None:
    ramp = scene.strength * scene.ramp(10)
    effects.latency[scene.main] *= 1 + 2.5 * ramp
    effects.throughput[scene.main] *= 1 / (1 + 0.35 * ramp)
    effects.logs[scene.main, WARN] *= 1 + 5 * ramp


def _packet_loss(effects: Effects, scene: Scene) -> None:
    ramp = scene.strength * scene.ramp(10)
    effects.retransmits[scene.rows] += 25 * ramp
    effects.network[scene.rows] *= 1 / (1 + 0.5 * ramp)
    effects.latency[scene.main] *= 1 + 1.5 * ramp
    effects.errors[scene.main] += 0.01 * ramp


def _error_burst(effects: Effects, scene: Scene) -> None:
    effects.errors[scene.main] += 0.08 * scene.strength * scene.on
    effects.logs[scene.main, ERROR] *= 1 + 60 * scene.strength * scene.on
    effects.logs[scene.main, WARN] *= 1 + 3 * scene.strength * scene.on


def _new_message(effects: Effects, scene: Scene) -> None:
    effects.errors[scene.main] += 0.005 * scene.strength * scene.on
    _extra(effects, scene, "new_message", 0.3 * scene.strength * scene.on)


def _log_silence(effects: Effects, scene: Scene) -> None:
    effects.logs[scene.main] *= 1 - scene.on


def _host_silent(effects: Effects, scene: Scene) -> None:
    effects.alive[scene.rows] &= scene.on == 0
    end = scene.episode.end
    if end is not None:
        effects.restarted[scene.rows] |= (scene.middle >= end) & (scene.middle < end + scene.interval)


def _stuck_metric(effects: Effects, scene: Scene) -> None:
    key = (scene.episode.kind, scene.episode.begin)
    metric = stuck_metric(scene.episode.variant)
    effects.frozen.extend(Frozen(row, metric, key, scene.on > 0) for row in scene.rows)


def stuck_metric(variant: float) -> str:
    """The metric that this variant of the fault freezes: one that never rests when it is well."""
    return ("system.cpu.utilization", "system.load.1m", "system.memory.used")[int(variant * 3)]


def _noisy_neighbour(effects: Effects, scene: Scene) -> None:
    ramp = scene.strength * scene.ramp(20)
    effects.steal[scene.rows] += 18 * ramp
    effects.latency[scene.main] *= 1 + 0.9 * ramp
    effects.physical_cpu += 25 * ramp
    effects.temperature += 3 * ramp


def _slow_drift(effects: Effects, scene: Scene) -> None:
    drift = scene.strength * scene.progress
    if scene.group.physical in scene.episode.hosts:
        effects.temperature += 16 * drift
    else:
        effects.latency[scene.main] *= 1 + 1.6 * drift


def _machines_added(effects: Effects, scene: Scene) -> None:
    """Nothing but their birth, which the group itself knows."""


def _deployment(effects: Effects, scene: Scene) -> None:
    effects.release[scene.main] |= scene.on.astype(np.int8)
    effects.latency[scene.main] *= 1 + 0.7 * scene.strength * scene.on
    effects.memory[scene.rows] += 0.1 * scene.strength * scene.on
    effects.cpu[scene.rows] += 9 * scene.strength * scene.on


def _traffic_moved(effects: Effects, scene: Scene) -> None:
    """The first host loses most of its load and the second gets it; a single one just gets more."""
    names = scene.episode.hosts
    moved = 0.6 * min(scene.strength, 1.6) * scene.ramp(60)
    for i, (row, _, service) in enumerate(scene.group.instances):
        if service not in scene.episode.services:
            continue
        name = scene.group.vms[row].name
        if name == names[-1]:
            effects.load[i] *= 1 + moved
        elif name == names[0]:
            effects.load[i] *= 1 - moved


def _nightly_job(effects: Effects, scene: Scene) -> None:
    middle = scene.middle
    runs = np.zeros(len(middle))
    for begin, end in scene.episode.windows:
        runs[(middle >= begin) & (middle < end)] = 1.0
    effects.cpu[scene.rows] += 18 * scene.strength * runs
    effects.disk_io[scene.rows] *= 1 + 6 * scene.strength * runs
    effects.network[scene.rows] *= 1 + 1.0 * scene.strength * runs
    effects.processes[scene.rows] += 4 * runs
    _extra(effects, scene, "backup", 1.2 * runs)


def _wrong_clock(effects: Effects, scene: Scene) -> None:
    effects.clock[scene.rows] += (CLOCK_ERROR_MS * scene.on).astype(np.int64)


def _extra(effects: Effects, scene: Scene, which: str, rate: Floats) -> None:
    for row in scene.rows:
        for service in scene.episode.services:
            templates = extra_templates(which, service, scene.episode.variant)
            for template in templates:
                effects.extra_logs.append(ExtraLog(row, service, template, rate / len(templates)))


KIND: dict[str, Callable[[Effects, Scene], None]] = {
    "cpu_contention": _cpu_contention,
    "memory_leak": _memory_leak,
    "disk_filling": _disk_filling,
    "network_delay": _network_delay,
    "packet_loss": _packet_loss,
    "error_burst": _error_burst,
    "new_message": _new_message,
    "log_silence": _log_silence,
    "host_silent": _host_silent,
    "stuck_metric": _stuck_metric,
    "noisy_neighbour": _noisy_neighbour,
    "slow_drift": _slow_drift,
    "machines_added": _machines_added,
    "deployment": _deployment,
    "traffic_moved": _traffic_moved,
    "nightly_job": _nightly_job,
    "wrong_clock": _wrong_clock,
}
