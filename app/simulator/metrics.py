"""Numbers of one group of machines, block of time by block of time: load drives everything else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from app.simulator.fleet import SERVICE_BY_NAME, SERVICES, instance_profile, profile
from app.simulator.rhythm import autoregressive, generator, memory_of, rhythm, saw, smoothed

if TYPE_CHECKING:
    from app.simulator.faults import Effects
    from app.simulator.fleet import Group
    from app.simulator.rhythm import TimeBlock
    from app.simulator.settings import SimulatorSettings
    from models.core.arrays import Bools, Floats, Ints


@dataclass(frozen=True)
class Metric:
    """How a metric is written: `decimals` -1 means a whole number. `counter` is cumulative."""

    name: str
    decimals: int
    counter: bool = False
    label: tuple[str, str] | None = None


VM_METRICS = (
    Metric("system.cpu.utilization", 2),
    Metric("system.cpu.steal", 2),
    Metric("system.load.1m", 2),
    Metric("system.memory.used", -1),
    Metric("system.disk.used.percent", 2, label=("mount", "/data")),
    Metric("system.disk.io.bytes", -1, counter=True, label=("device", "sda")),
    Metric("system.network.receive.bytes", -1, counter=True, label=("device", "eth0")),
    Metric("system.network.transmit.bytes", -1, counter=True, label=("device", "eth0")),
    Metric("system.network.retransmits", -1, counter=True),
    Metric("system.processes.count", -1),
)
SERVICE_METRICS = (
    Metric("service.request.rate", 1),
    Metric("service.latency.p95", 2),
    Metric("service.error.rate", 1),
)
PHYSICAL_METRICS = (
    Metric("system.cpu.utilization", 2),
    Metric("system.load.1m", 2),
    Metric("system.memory.used", -1),
    Metric("system.disk.io.bytes", -1, counter=True, label=("device", "nvme0n1")),
    Metric("system.network.receive.bytes", -1, counter=True, label=("device", "bond0")),
    Metric("system.network.transmit.bytes", -1, counter=True, label=("device", "bond0")),
    Metric("system.processes.count", -1),
    Metric("hardware.temperature", 1),
    Metric("hardware.power", 1),
)
COUNTERS = ("system.disk.io.bytes", "system.network.receive.bytes", "system.network.transmit.bytes")
RETRANSMITS = "system.network.retransmits"
VM_NOISE = {
    "cpu": 25.0,
    "memory": 120.0,
    "io": 40.0,
    "receive": 30.0,
    "transmit": 30.0,
    "processes": 200.0,
    "steal": 30.0,
}
INSTANCE_NOISE = {"slow": 1500.0, "fast": 40.0, "latency": 40.0}
PHYSICAL_NOISE = {"cpu": 30.0, "temperature": 90.0, "power": 20.0, "memory": 300.0, "io": 60.0, "processes": 200.0}


@dataclass(frozen=True)
class Numbers:
    """What a block of time measured. `vm` and `physical` by metric name, `(V, T)` and `(T,)`; `service` `(S, T)`.

    `load` `(S, T)` is the relative load that also drives the logs.
    """

    vm: dict[str, Floats]
    service: dict[str, Floats]
    physical: dict[str, Floats]
    load: Floats


@dataclass
class State:
    """What a group remembers from block to block: ends of noise paths, counters, frozen values."""

    noise: Floats
    service_noise: Floats
    load_1m: Floats
    physical_load: Floats
    heat: Floats
    vm_counters: dict[str, Ints]
    physical_counters: dict[str, int]
    frozen: dict[tuple[Any, ...], float] = field(default_factory=dict)


class Machines:
    """Generates a group's numbers in order of time; blocks must be asked for one after the other."""

    def __init__(self, settings: SimulatorSettings, group: Group) -> None:
        """Draw the scales of the group's machines from the seed."""
        self.settings, self.group = settings, group
        seed = settings.seed
        profiles = [profile(seed, vm.index) for vm in group.vms]
        instances = [instance_profile(seed, group.vms[row], slot) for row, slot, _ in group.instances]
        self.scale = {name: _column(profiles, name) for name in _numeric(profiles[0])} if profiles else {}
        self.phase = np.array([p.phase for p in profiles]).reshape(-1, 2)
        self.rate = _column(instances, "requests_per_second")
        self.latency = _column(instances, "latency_ms")
        self.error_share = _column(instances, "error_share")
        self.cpu_share = _column(instances, "cpu_share")
        self.owner = np.array([row for row, _, _ in group.instances], dtype=np.int64)
        self._layout = self._noise_layout()
        self._memory = np.array([m for _, count, m in self._layout for _ in range(count)])
        self.physical_memory = float(self.scale["memory_bytes"].sum()) * 1.1
        self.state = self._first_state(profiles)

    def _noise_layout(self) -> list[tuple[str, int, float]]:
        interval = self.settings.interval_seconds
        sizes = (("vm", VM_NOISE, len(self.group.vms)), ("service", INSTANCE_NOISE, len(self.owner)))
        rows = [
            (f"{kind}.{n}", size, memory_of(tau, interval)) for kind, table, size in sizes for n, tau in table.items()
        ]
        return rows + [(f"physical.{n}", 1, memory_of(tau, interval)) for n, tau in PHYSICAL_NOISE.items()]

    def _first_state(self, profiles: list[Any]) -> State:
        rng = generator(self.settings.seed, "first", self.group.index)
        counters = np.array([p.counters for p in profiles], dtype=np.int64).reshape(-1, 4)
        return State(
            noise=rng.standard_normal(len(self._memory)),
            service_noise=generator(self.settings.seed, "first services").standard_normal(len(SERVICES)),
            load_1m=0.25 * self.scale["cpus"],
            physical_load=np.array([0.25 * self.scale["cpus"].sum()]),
            heat=np.array([48.0]),
            vm_counters={name: counters[:, i].copy() for i, name in enumerate((*COUNTERS, RETRANSMITS))},
            physical_counters={name: int(rng.integers(10**10, 10**12)) for name in COUNTERS},
        )

    def advance(self, span: TimeBlock, effects: Effects) -> Numbers:
        """Numbers of one block of time; the blocks before it must have been asked for."""
        steps = len(span.middle)
        rng = generator(self.settings.seed, "metrics", self.group.index, span.number)
        noise = self._noise(rng, steps)
        epoch = self.settings.start / 1000 + span.middle
        load = self._load(span.number, epoch, noise) * effects.load
        running = effects.alive[:-1]
        work = running[self.owner] if len(self.owner) else np.ones((0, steps), dtype=bool)
        busy = self._of_machines(load * work * self.cpu_share[:, None])
        burst = self._bursts(rng, steps)
        vm = self._vm_gauges(rng, epoch, noise, busy, burst=burst, e=effects)
        service = self._service_gauges(rng, vm, load, noise, effects)
        increments = self._increments(rng, noise, busy, service, burst=burst, e=effects)
        vm |= self._count(increments, effects)
        physical = self._physical(noise, vm, increments, running, effects)
        self._freeze(vm, effects)
        return Numbers(vm, service, physical, load)

    def _noise(self, rng: np.random.Generator, steps: int) -> dict[str, Floats]:
        paths = autoregressive(rng.standard_normal((len(self._memory), steps)), self._memory, self.state.noise)
        self.state.noise = paths[:, -1].copy()
        out, at = {}, 0
        for name, count, _ in self._layout:
            out[name] = paths[at : at + count]
            at += count
        return out

    def _load(self, block: int, epoch: Floats, noise: dict[str, Floats]) -> Floats:
        """Relative load of each instance: its service's rhythm, noise shared by the service, noise of its own."""
        rng = generator(self.settings.seed, "services", block, 0)
        memory = np.full(len(SERVICES), memory_of(1200.0, self.settings.interval_seconds))
        shared = autoregressive(rng.standard_normal((len(SERVICES), len(epoch))), memory, self.state.service_noise)
        self.state.service_noise = shared[:, -1].copy()
        index = {service.name: i for i, service in enumerate(SERVICES)}
        rows = []
        for _, _, name in self.group.instances:
            s = SERVICE_BY_NAME[name]
            rows.append(rhythm(epoch, s.peak_hour, s.daily_depth, s.weekly_depth) * np.exp(0.03 * shared[index[name]]))
        if not rows:
            return np.zeros((0, len(epoch)))
        out: Floats = np.array(rows) * np.exp(0.03 * noise["service.slow"] + 0.03 * noise["service.fast"])
        return out

    def _of_machines(self, values: Floats) -> Floats:
        """Sums of the values of each machine's instances, `(I, T)` -> `(V, T)`: of a product of matrices last bits depend on the processor."""
        sums = np.zeros((len(self.group.vms), values.shape[1]))
        np.add.at(sums, self.owner, values)
        return sums

    def _bursts(self, rng: np.random.Generator, steps: int) -> Floats:
        """Harmless short work, a scrape or two long, about once in three hours of a machine; points of percent."""
        shape = (len(self.group.vms), steps)
        starts = rng.random(shape) < 0.33 * self.settings.interval_seconds / 3600
        size = starts * rng.lognormal(1.7, 0.5, shape)
        size[:, 1:] += 0.5 * size[:, :-1]
        return size

    def _vm_gauges(
        self,
        rng: np.random.Generator,
        epoch: Floats,
        noise: dict[str, Floats],
        busy: Floats,
        *,
        burst: Floats,
        e: Effects,
    ) -> dict[str, Floats]:
        scale = {name: values[:, None] for name, values in self.scale.items()}
        white = rng.standard_normal((3, *busy.shape))
        steal = np.maximum(0, 0.5 + 0.35 * noise["vm.steal"] + 0.1 * white[0]) + e.steal * np.exp(
            0.1 * noise["vm.steal"]
        )
        raw = scale["cpu_idle"] + scale["cpu_gain"] * busy + burst + e.cpu
        raw += scale["noise"] * (1.1 * noise["vm.cpu"] + 0.6 * white[1])
        cpu = _saturated(np.maximum(raw, 0.3))
        waiting = scale["cpus"] * cpu / 100 * (1 + 2 * steal / 100) * (1 + np.maximum(0, cpu - 70) / 60)
        load_1m = smoothed(waiting, memory_of(60.0, self.settings.interval_seconds), self.state.load_1m)
        self.state.load_1m = load_1m[:, -1].copy()
        used = scale["memory_base"] + 0.05 * (busy - 1) + 0.0025 * noise["vm.memory"] + 0.0006 * white[2] + e.memory
        used += scale["memory_saw"] * saw(epoch, scale["memory_period"], self.phase[:, :1])
        disk = scale["disk_base"] + scale["disk_saw"] * saw(epoch, scale["disk_period"], self.phase[:, 1:])
        disk = disk + scale["disk_growth_per_hour"] * (epoch - self.settings.start / 1000) / 3600 + e.disk
        disk += 0.02 * rng.standard_normal(disk.shape)
        processes = scale["processes"] + 6 * (busy - 1) + 1.5 * noise["vm.processes"] + e.processes
        return {
            "system.cpu.utilization": cpu,
            "system.cpu.steal": steal,
            "system.load.1m": np.maximum(0, load_1m * (1 + 0.02 * rng.standard_normal(load_1m.shape))),
            "system.memory.used": np.floor(np.clip(used, 0.02, 0.985) * scale["memory_bytes"] / 4096) * 4096,
            "system.disk.used.percent": np.clip(disk, 0, 100),
            "system.processes.count": np.rint(np.maximum(processes, 1)),
        }

    def _service_gauges(
        self, rng: np.random.Generator, vm: dict[str, Floats], load: Floats, noise: dict[str, Floats], e: Effects
    ) -> dict[str, Floats]:
        interval = self.settings.interval_seconds
        requests = rng.poisson(self.rate[:, None] * load * e.throughput * interval)
        pressure = np.minimum((vm["system.cpu.utilization"] + vm["system.cpu.steal"])[self.owner] / 100, 1.0)
        tail = rng.standard_t(5, load.shape)
        latency = self.latency[:, None] * (1 + 0.9 * pressure / (1.15 - pressure)) * e.latency
        latency *= np.exp(0.05 * noise["service.latency"] + 0.045 * tail)
        failed = rng.poisson(requests * np.minimum(self.error_share[:, None] + e.errors, 1.0))
        return {
            "service.request.rate": requests / interval,
            "service.latency.p95": latency,
            "service.error.rate": np.minimum(failed, requests) / interval,
        }

    def _increments(
        self, rng: np.random.Generator, noise: dict[str, Floats], busy: Floats,
        service: dict[str, Floats], *, burst: Floats, e: Effects,
    ) -> dict[str, Ints]:  # fmt: skip
        """What each counter grows by in each step, `(V, T)`."""
        interval = self.settings.interval_seconds
        scale = {name: values[:, None] for name, values in self.scale.items()}
        requests = self._of_machines(service["service.request.rate"])
        disk = scale["disk_bytes_per_second"] * (0.4 + 0.6 * busy) * np.exp(0.15 * noise["vm.io"]) * e.disk_io
        disk *= 1 + burst / 10
        receive = (2e4 + requests * scale["bytes_in"]) * np.exp(0.08 * noise["vm.receive"]) * e.network
        transmit = (2e4 + requests * scale["bytes_out"]) * np.exp(0.08 * noise["vm.transmit"]) * e.network
        resent = rng.poisson((0.1 + e.retransmits) * interval * np.ones_like(busy))
        rates = zip(COUNTERS, (disk, receive, transmit), strict=True)
        out = {name: np.rint(rate * interval).astype(np.int64) for name, rate in rates}
        out[RETRANSMITS] = resent.astype(np.int64)
        return {name: np.where(e.alive[:-1], grown, 0) for name, grown in out.items()}

    def _count(self, increments: dict[str, Ints], e: Effects) -> dict[str, Floats]:
        """Cumulative values; after a restart a counter begins again at zero."""
        out = {}
        for name, grown in increments.items():
            total = self.state.vm_counters[name][:, None] + np.cumsum(grown, axis=1)
            for row, step in np.argwhere(e.restarted):
                total[row, step:] -= total[row, step] - grown[row, step]
            self.state.vm_counters[name] = total[:, -1].copy()
            out[name] = total.astype(np.float64)
        return out

    def _physical(
        self, noise: dict[str, Floats], vm: dict[str, Floats], increments: dict[str, Ints],
        running: Bools, e: Effects,
    ) -> dict[str, Floats]:  # fmt: skip
        """The physical host: the sum of what runs on it, and its own noise."""
        interval, cpus = self.settings.interval_seconds, self.scale["cpus"]
        used = (cpus[:, None] * vm["system.cpu.utilization"] * running).sum(axis=0)
        cores = max(4.0, 0.8 * float(cpus.sum()))
        cpu = _saturated(np.maximum(used / cores + 3.0 + 0.5 * noise["physical.cpu"][0] + e.physical_cpu, 0.3))
        load = smoothed((cores * cpu / 100)[None], memory_of(60.0, interval), self.state.physical_load)
        self.state.physical_load = load[:, -1].copy()
        heat = smoothed(34 + 0.36 * cpu[None], memory_of(120.0, interval), self.state.heat)
        self.state.heat = heat[:, -1].copy()
        memory = (vm["system.memory.used"] * running).sum(axis=0) + self.physical_memory * 0.03
        memory += 2e7 * noise["physical.memory"][0]
        out = {
            "system.cpu.utilization": cpu,
            "system.load.1m": load[0],
            "system.memory.used": np.floor(memory / 4096) * 4096,
            "system.processes.count": np.rint(410 + 4 * running.sum(axis=0) + 2 * noise["physical.processes"][0]),
            "hardware.temperature": np.rint((heat[0] + 0.4 * noise["physical.temperature"][0] + e.temperature) * 2) / 2,
            "hardware.power": 110 + 2.4 * cpu + 1.5 * noise["physical.power"][0],
        }
        for name in COUNTERS:
            own = np.rint(2e5 * interval * np.exp(0.2 * noise["physical.io"][0])).astype(np.int64)
            total = self.state.physical_counters[name] + np.cumsum(increments[name].sum(axis=0) + own)
            self.state.physical_counters[name] = int(total[-1])
            out[name] = total.astype(np.float64)
        return out

    def _freeze(self, vm: dict[str, Floats], effects: Effects) -> None:
        for frozen in effects.frozen:
            steps = np.flatnonzero(frozen.on)
            values = vm[frozen.metric][frozen.row]
            held = self.state.frozen.setdefault((frozen.row, frozen.metric, *frozen.key), float(values[steps[0]]))
            values[steps] = held


def _saturated(percent: Floats) -> Floats:
    """Smoothly bounded by 100: nearly the identity up to 70."""
    out: Floats = percent / (1 + (percent / 100) ** 8) ** 0.125
    return out


def _numeric(first: Any) -> list[str]:
    return [name for name, value in vars(first).items() if isinstance(value, int | float)]


def _column(profiles: list[Any], name: str) -> Floats:
    return np.array([getattr(p, name) for p in profiles], dtype=np.float64)
