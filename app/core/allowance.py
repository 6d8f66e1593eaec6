"""How many cores and how much memory this process may use: what a container or a service manager leaves it of the machine.

Linux limits by control groups. Of version 2 all are folders below one; of version 1 there is a tree for each kind of limit. A limit of a group
holds for those within it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

import psutil

GROUPS = Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")


def cores() -> int:
    """How many cores, at least one: those on which it may run, and no more than its share of time comes to."""
    known = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([known, *map(math.ceil, shares(OWN_GROUPS, GROUPS))]))


def memory_bytes() -> int:
    """How much memory: that of the machine, and no more than it is limited to."""
    return min([psutil.virtual_memory().total, *memory_limits(OWN_GROUPS, GROUPS)])


def shares(own: Path, groups: Path) -> Iterator[float]:
    """Limits of the time on processors, in cores, of the groups of a process."""
    for folder in folders("cpu", own, groups):
        quota, period = (*words(folder / "cpu.max"), "", "")[:2]
        if not quota:
            quota, period = ("".join(words(folder / f"cpu.cfs_{name}_us")) for name in ("quota", "period"))
        if quota.isdigit() and period.isdigit() and int(period):  # neither `max` nor -1
            yield int(quota) / int(period)


def memory_limits(own: Path, groups: Path) -> Iterator[int]:
    """Limits of memory in bytes, of the groups of a process."""
    for folder in folders("memory", own, groups):
        for name in ("memory.max", "memory.limit_in_bytes"):
            yield from (int(word) for word in words(folder / name) if word.isdigit())


def folders(kind: str, own: Path, groups: Path) -> Iterator[Path]:
    """The folders that limit a process's use of a kind, `cpu` or `memory`: those of its groups, and of the groups around them.

    A container may see the folder of its group as the outermost one, whatever the group is called outside.
    """
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, kinds, path = line.split(":", 2)
        if kinds and kind not in kinds.split(","):
            continue
        top = groups / kind if kinds else groups
        group = top / path.lstrip("/")
        yield from (folder for folder in (group, *group.parents) if folder.is_relative_to(top))


def words(file: Path) -> list[str]:
    """What a file says; nothing where there is none."""
    try:
        return file.read_text().split()
    except OSError:
        return []
