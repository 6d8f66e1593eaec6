"""Checks of this machine and of the settings: disk, memory, files, secrets, addresses. They need no server."""

from __future__ import annotations

import os
import re
import resource
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from app.core import allowance
from app.core.exposure import unencrypted
from app.core.java_size import bytes_of
from app.core.ports import is_loopback
from app.core.settings import DEFAULT_FILE, Settings, dotted_names
from app.doctor.finding import Finding, danger, ok, warning
from app.embedded.java import java_version, spark_java_home

GIB = 2**30
LEAST_JAVA = 17
LEAST_FILES, FEW_FILES = 1024, 4096
OF_CHANNELS = {"url", "headers", "template"}  # in which people put keys


def disk(settings: Settings) -> list[Finding]:
    """Free space below `home`."""
    folder = next(path for path in (settings.home, *settings.home.resolve().parents) if path.exists())
    usage = shutil.disk_usage(folder)
    share = usage.free / usage.total
    found = f"{usage.free / GIB:.1f} GiB of {usage.total / GIB:.0f} GiB free ({100 * share:.0f} %)"
    return [disk_finding(str(folder), usage.free, share, found)]


def disk_finding(folder: str, free: int, share: float, found: str) -> Finding:
    """What a share of free space means."""
    check = f"disk of {folder}"
    advice = "make room, or set home to a larger disk; checkpoints cannot be written to a full one"
    if free < GIB or share < 0.05:
        return danger(check, found, "5 % and 1 GiB", advice)
    if share < 0.15:
        return warning(check, found, "15 %", advice)
    return ok(check, found)


def rights(settings: Settings) -> list[Finding]:
    """Whether `home` can be written, and who else can read it."""
    home = settings.home
    if not home.exists():
        return [warning("home", f"{home} is not there", "a folder", "it is made at the first start; check home")]
    if not os.access(home, os.W_OK | os.X_OK):
        return [
            danger("home", f"{home} cannot be written", "a folder of this user", "change its owner or its permissions")
        ]
    mode = home.stat().st_mode & 0o777
    if mode & 0o007:
        return [
            warning(
                "home", f"{home} is open to every user ({mode:o})", "700", f"chmod 700 {home}: state holds log lines"
            )
        ]
    return [ok("home", f"{home} ({mode:o})")]


def java(settings: Settings) -> list[Finding]:
    """The Java that runs Spark."""
    home = spark_java_home(settings.home)
    version = java_version(home / "bin" / "java")
    if version is None or version < LEAST_JAVA:
        return [danger("Java", f"{version or 'none'} in {home}", f"{LEAST_JAVA} or newer", "set JAVA_HOME")]
    return [ok("Java", f"{version} in {home}")]


def memory(settings: Settings) -> list[Finding]:
    """The heap of Spark's JVM against the memory that this process may use, and its number of cores: those of a container, not of its machine."""
    total, heap = allowance.memory_bytes(), bytes_of(settings.spark.driver_memory)
    return [memory_finding(heap, total), cores_finding(allowance.cores())]


def memory_finding(heap: int, total: int) -> Finding:
    """What a heap means on a machine with so much memory."""
    found = f"spark.driver_memory {heap / GIB:.1f} GiB of {total / GIB:.1f} GiB"
    advice = "lower spark.driver_memory, or use a larger machine; Python workers need as much again"
    if heap > 0.9 * total:
        return danger("memory", found, "90 % of the machine's at most", advice)
    if heap > 0.5 * total:
        return warning("memory", found, "half of the machine's at most", advice)
    return ok("memory", found)


def cores_finding(cores: int) -> Finding:
    """What a number of cores means."""
    if cores < 2:
        return warning("cores", str(cores), "2 or more", "give it another core: jobs wait for one another")
    return ok("cores", str(cores))


def open_files(settings: Settings) -> list[Finding]:
    """How many files a process may have open."""
    return [files_finding(resource.getrlimit(resource.RLIMIT_NOFILE)[0])]


def files_finding(most: int) -> Finding:
    """What a limit of open files means; a negative one is none."""
    advice = "raise it: ulimit -n, or LimitNOFILE of the service; each state has tens of files"
    if 0 <= most < LEAST_FILES:
        return danger("open files", str(most), f"{FEW_FILES} or more", advice)
    if 0 <= most < FEW_FILES:
        return warning("open files", str(most), f"{FEW_FILES} or more", advice)
    return ok("open files", "no limit" if most < 0 else str(most))


def secret_files(settings: Settings, file: Path | None = None) -> list[Finding]:
    """Files that hold secrets, and who can read them. `file` is the one that the settings were read from."""
    found = []
    kept = file or DEFAULT_FILE
    if kept.is_file() and holds_secret(tomllib.loads(kept.read_text())):
        found.append(kept)
    for group in (settings.kafka, settings.elasticsearch):
        for name, value in group:
            if isinstance(value, Path) and "key" in name and value.exists():
                found.append(value)
    return [secret_finding(path) for path in found] or [ok("files of secrets", "none")]


def holds_secret(settings: Mapping[str, Any]) -> bool:
    """Whether settings as TOML has them hold a secret: a password, a key, or what is secret of a channel."""
    named = any(re.search(r"(?i)password|api_key|secret", name) for name, _ in dotted_names(settings))
    return named or any(map(secrets_of, settings.get("notify", {}).get("channels", {}).values()))


def secrets_of(channel: Mapping[str, Any]) -> set[str]:
    """The keys of a channel that hold a secret. The address of an Alertmanager is one only where it has a user in it."""
    is_known = channel.get("kind") == "alertmanager" and "@" not in channel.get("url", "")
    return channel.keys() & (OF_CHANNELS - {"url"} if is_known else OF_CHANNELS)


def secret_finding(path: Path) -> Finding:
    """Who can read a file that holds a secret."""
    mode = path.stat().st_mode & 0o777
    if mode & 0o077:
        return danger("files of secrets", f"{path} can be read by others ({mode:o})", "600", f"chmod 600 {path}")
    return ok("files of secrets", f"{path} ({mode:o})")


def plain_text(settings: Settings) -> list[Finding]:
    """Connections without encryption to other machines, and what listens for them."""
    found = []
    for what in unencrypted(settings):
        make = danger if what.startswith(("kafka.", "elasticsearch.")) else warning
        found.append(make("encryption", what, "SSL, SASL_SSL or https", "set what it names; see docs/security.md"))
    if settings.health.port is not None and not is_loopback(settings.health.host):
        text = f"/metrics and /state listen on {settings.health.host}:{settings.health.port} without a password"
        found.append(warning("addresses", text, "127.0.0.1, or a network of its own", "set health.host"))
    return found or [ok("encryption", "every connection is encrypted or stays on this machine")]


CHECKS = (disk, rights, java, memory, open_files, plain_text)


def listed(names: Sequence[str], most: int = 3) -> str:
    """Names for people: the first ones, and how many more."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
