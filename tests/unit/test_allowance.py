"""What a process may use of the machine, as its control groups have it: in a container a small part of what the machine has."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from app.core import allowance
from app.core.settings import Settings
from app.runtime.spark import parallelism

GIB = 1 << 30
# Files below /sys/fs/cgroup by name, and what /proc/self/cgroup says: of version 2 in a container, and as a service; of version 1, also where a
# container sees its own group as the outermost one.
CONTAINER = ({"cpu.max": "250000 100000\n", "memory.max": f"{3 * GIB}\n"}, "0::/\n")
SERVICE = (
    {
        "system.slice/cpu.max": "300000 100000",
        "system.slice/memory.max": "max",
        "system.slice/kappa@all.service/cpu.max": "max 100000",
        "system.slice/kappa@all.service/memory.max": f"{3 * GIB}",
    },
    "0::/system.slice/kappa@all.service\n",
)
OLD = (
    {
        "cpu/docker/a/cpu.cfs_quota_us": "300000",
        "cpu/docker/a/cpu.cfs_period_us": "100000",
        "memory/docker/a/memory.limit_in_bytes": f"{3 * GIB}",
        "memory/memory.limit_in_bytes": "9223372036854771712",
    },
    "4:memory:/docker/a\n3:cpu,cpuacct:/docker/a\n0::/\n",
)
OUTERMOST = (
    {
        "cpu/cpu.cfs_quota_us": "300000",
        "cpu/cpu.cfs_period_us": "100000",
        "memory/memory.limit_in_bytes": f"{3 * GIB}",
    },
    "4:memory:/docker/a\n3:cpu,cpuacct:/docker/a\n",
)
NO_LIMIT = ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000", "memory.max": "max"}, "1:cpu:/\n0::/\n")
NO_GROUPS: tuple[dict[str, str], str] = ({}, "")


@pytest.fixture
def groups(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, own = request.param
    for name, text in files.items():
        file = tmp_path / "groups" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (tmp_path / "own").write_text(own)
    monkeypatch.setattr(allowance, "GROUPS", tmp_path / "groups")
    monkeypatch.setattr(allowance, "OWN_GROUPS", tmp_path / "own")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)), raising=False)


@pytest.mark.usefixtures("groups")
@pytest.mark.parametrize("groups", [CONTAINER, SERVICE, OLD, OUTERMOST], indirect=True)
def test_a_limit_of_a_container_or_service_counts_and_not_what_its_machine_has() -> None:
    assert allowance.cores() == 3
    assert allowance.memory_bytes() == min(3 * GIB, psutil.virtual_memory().total)
    assert parallelism(Settings()) == {"spark.default.parallelism": "3"}


@pytest.mark.usefixtures("groups")
@pytest.mark.parametrize("groups", [NO_LIMIT, NO_GROUPS], indirect=True)
def test_without_a_limit_it_is_what_the_machine_has() -> None:
    assert allowance.cores() == 64
    assert allowance.memory_bytes() == psutil.virtual_memory().total


def test_this_process_has_something() -> None:
    assert 1 <= allowance.cores() <= (os.cpu_count() or 1)
    assert 0 < allowance.memory_bytes() <= psutil.virtual_memory().total
