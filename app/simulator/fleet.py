"""The machines: physical hosts that carry virtual machines that carry services, each with a scale of its own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from app.simulator.rhythm import generator

if TYPE_CHECKING:
    from collections.abc import Sequence

VMS_PER_PHYSICAL = 4


@dataclass(frozen=True)
class Service:
    """What all instances of a service have in common. Hours are UTC, latency is milliseconds at the 95th percentile."""

    name: str
    peak_hour: float
    daily_depth: float
    weekly_depth: float
    latency_ms: float
    requests_per_second: float


SERVICES = (
    Service("web", 19.0, 0.35, 0.15, 45.0, 90.0),
    Service("api", 15.0, 0.30, 0.30, 60.0, 70.0),
    Service("db", 14.0, 0.22, 0.25, 9.0, 150.0),
    Service("cache", 18.0, 0.30, 0.15, 1.8, 400.0),
    Service("queue", 13.0, 0.25, 0.30, 14.0, 60.0),
    Service("auth", 8.0, 0.40, 0.45, 28.0, 25.0),
    Service("batch", 3.0, 0.30, 0.05, 320.0, 8.0),
    Service("search", 20.0, 0.33, 0.10, 95.0, 35.0),
)
SERVICE_BY_NAME = {service.name: service for service in SERVICES}


@dataclass(frozen=True)
class Vm:
    """A virtual machine; `index` counts them through the fleet, `group` is that of its physical host.

    `born` is in seconds from the start: 0, or the time at which the machine is added.
    """

    name: str
    index: int
    group: int
    services: tuple[str, ...]
    born: float = 0.0


@dataclass(frozen=True)
class Group:
    """A physical host with its virtual machines: what one process can simulate without the others."""

    index: int
    physical: str
    vms: tuple[Vm, ...]

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """Virtual machines in order, then the physical host."""
        return (*(vm.name for vm in self.vms), self.physical)

    @cached_property
    def instances(self) -> tuple[tuple[int, int, str], ...]:
        """Row of the virtual machine, slot and name of every service in the group."""
        return tuple((row, slot, name) for row, vm in enumerate(self.vms) for slot, name in enumerate(vm.services))


@dataclass(frozen=True)
class Fleet:
    """All groups. Hosts are named `ph-01`, `vm-001`, ..."""

    groups: tuple[Group, ...]

    @cached_property
    def vms(self) -> tuple[Vm, ...]:
        """All virtual machines in order of index."""
        return tuple(sorted((vm for group in self.groups for vm in group.vms), key=lambda vm: vm.index))

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """All hosts, group by group."""
        return tuple(host for group in self.groups for host in group.hosts)

    @cached_property
    def group_of(self) -> dict[str, Group]:
        """The group of each host."""
        return {host: group for group in self.groups for host in group.hosts}

    def vm(self, name: str) -> Vm:
        """The virtual machine of that name; KeyError when there is none."""
        return {vm.name: vm for vm in self.vms}[name]


def build_fleet(hosts: int, seed: int, added: Sequence[float] = (), services: int = len(SERVICES)) -> Fleet:
    """A fleet of `hosts` machines with the first `services` of SERVICES, and one more virtual machine for each birth time in `added`."""
    physical = max(1, round(hosts / (VMS_PER_PHYSICAL + 1)))
    virtual = hosts - physical
    first = [_vm(index, index * physical // virtual, seed, services) for index in range(virtual)]
    later = [_vm(virtual + i, i % physical, seed, services, born) for i, born in enumerate(added)]
    groups = [
        Group(index, f"ph-{index + 1:02d}", tuple(vm for vm in (*first, *later) if vm.group == index))
        for index in range(physical)
    ]
    return Fleet(tuple(groups))


def _vm(index: int, group: int, seed: int, services: int, born: float = 0.0) -> Vm:
    rng = generator(seed, "services", index)
    main = index % services
    names = [SERVICES[main].name]
    if rng.random() < 0.4 and services > 1:
        names.append(SERVICES[(main + int(rng.integers(1, services))) % services].name)
    return Vm(f"vm-{index + 1:03d}", index, group, tuple(names), born)


@dataclass(frozen=True)
class Profile:
    """The scale of one virtual machine: what its metrics are at a relative load of 1."""

    cpus: int
    cpu_idle: float
    cpu_gain: float
    noise: float
    memory_bytes: float
    memory_base: float
    memory_saw: float
    memory_period: float
    disk_base: float
    disk_saw: float
    disk_period: float
    disk_growth_per_hour: float
    disk_bytes_per_second: float
    bytes_in: float
    bytes_out: float
    processes: float
    phase: tuple[float, float]
    scrape: float
    counters: tuple[int, int, int, int]
    log_rate: float


def profile(seed: int, vm_index: int) -> Profile:
    """The scale of the virtual machine with that index; the same whatever else is in the fleet."""
    rng = generator(seed, "profile", vm_index)
    gibibyte = 2.0**30
    counters = rng.integers(10**8, 10**11, 3)
    return Profile(
        cpus=int(rng.choice([2, 4, 8, 16])),
        cpu_idle=rng.uniform(3, 8),
        cpu_gain=rng.uniform(16, 42),
        noise=float(rng.lognormal(0, 0.25)),
        memory_bytes=float(rng.choice([4, 8, 16, 32, 64])) * gibibyte,
        memory_base=rng.uniform(0.35, 0.55),
        memory_saw=rng.uniform(0.015, 0.035),
        memory_period=rng.uniform(2400, 7200),
        disk_base=rng.uniform(30, 65),
        disk_saw=rng.uniform(0.3, 0.8),
        disk_period=rng.uniform(1800, 5400),
        disk_growth_per_hour=rng.uniform(0.005, 0.03),
        disk_bytes_per_second=float(rng.lognormal(13.8, 0.8)),
        bytes_in=float(rng.lognormal(7.5, 0.5)),
        bytes_out=float(rng.lognormal(9.0, 0.6)),
        processes=rng.uniform(110, 320),
        phase=(rng.random(), rng.random()),
        scrape=rng.random(),
        counters=(int(counters[0]), int(counters[1]), int(counters[2]), int(rng.integers(10, 5000))),
        log_rate=float(rng.lognormal(-0.05, 0.3)),
    )


@dataclass(frozen=True)
class InstanceProfile:
    """The scale of one service on one virtual machine."""

    requests_per_second: float
    latency_ms: float
    error_share: float
    cpu_share: float


def instance_profile(seed: int, vm: Vm, slot: int) -> InstanceProfile:
    """The scale of the service in `slot` of a virtual machine; the first service does most of the work."""
    rng = generator(seed, "instance", vm.index, slot)
    service = SERVICE_BY_NAME[vm.services[slot]]
    share = 1.0 if len(vm.services) == 1 else (0.65, 0.35)[slot]
    return InstanceProfile(
        requests_per_second=service.requests_per_second * share * float(rng.lognormal(0, 0.4)),
        latency_ms=service.latency_ms * float(rng.lognormal(0, 0.25)),
        error_share=float(rng.lognormal(-8.2, 0.6)),
        cpu_share=share,
    )
