"""Checks of what a version has on its disk: checkpoints against the log, savepoints, unfinished work."""

from __future__ import annotations

from datetime import datetime

from app.core.errors import SettingsError
from app.core.settings import Settings
from app.core.timestamps import wall_clock
from app.doctor.finding import Finding, danger, ok, warning
from app.doctor.patience import impatient
from app.kafka import checkpoint_damage
from app.notify.service import is_running
from app.runtime.served_health import own_jobs, why_unhealthy
from app.versions import serving, violations
from pipelines.errors import InputError, ServiceUnavailable
from replay import recovery
from replay.savepoints import savepoint_folder

HOUR_MS = 3_600_000
FORGOTTEN_HOURS = 24  # without periodic savepoints


def serves(settings: Settings) -> list[Finding]:
    """Which version serves."""
    try:
        return [ok("version", f"{serving.read(settings.home).version} serves")]
    except InputError as error:
        return [danger("version", str(error), "serving intervals", "`kappa recover --version V`")]


def checkpoints(settings: Settings) -> list[Finding]:
    """Whether the version can go on: its checkpoints, and the log that they were read from."""
    advice = "`kappa recover --dry-run` says what would be done"
    try:
        problems = list(recovery.plan(impatient(settings)).problems)
        if not problems:
            return [ok("checkpoints", "whole; the log is the one that was read")]
    except (ServiceUnavailable, SettingsError):  # of a file of certificates, which is found by the check of Kafka
        jobs = recovery.existing_checkpoints(settings)
        problems = [found.found for path in jobs.values() if (found := checkpoint_damage.find_damage(path))]
        problems += [f"{file} cannot be read" for file in recovery.unreadable_files(settings)]
        if not problems:
            return [ok("checkpoints", "whole; not compared with the log, as Kafka cannot be asked")]
    return [danger("checkpoints", problem, "whole, and the same log", advice) for problem in problems]


def violation(settings: Settings) -> list[Finding]:
    """Whether the version was stopped because its results could no longer be the same."""
    found = violations.not_accepted(settings)
    if found:
        advice = "what the line says; or `kappa run --accept-violation`, which records it"
        return [danger("determinism", f"{one.job}: {one.what}", "no violation", advice) for one in found]
    return [ok("determinism", "no violation that nobody has accepted")]


def jobs(settings: Settings) -> list[Finding]:
    """Whether the version's jobs that run on this machine are healthy."""
    found = own_jobs(settings)
    unhealthy = {name: job for name, job in found.items() if not job.get("healthy")}
    if not unhealthy:
        return [ok("jobs", f"healthy: {', '.join(found)}" if found else "none runs on this machine")]
    logs = f"look into {settings.home / 'logs'}: spark.log, stacks.log; `/healthz` has the figures"
    return [
        danger("jobs", f"{name}: {why_unhealthy(job)}", "recent progress, no rows dropped", logs)
        for name, job in unhealthy.items()
    ]


def savepoints(settings: Settings) -> list[Finding]:
    """How old the newest savepoint of the version is."""
    if not recovery.existing_checkpoints(settings):
        return [ok("savepoints", "the version has not begun")]
    now = wall_clock()
    taken = [
        int(datetime.fromisoformat(one["created_at"]).timestamp() * 1000)
        for one in savepoint_folder.list_manifests(settings.home)
        if one.get("version") == settings.version and "created_at" in one
    ]
    # one of a time to come was taken while the clock was ahead: nobody knows when
    return [savepoint_finding(settings, max((at for at in taken if at <= now), default=None), now)]


def savepoint_finding(settings: Settings, taken_ms: int | None, now_ms: int) -> Finding:
    """What the age of the newest savepoint means."""
    every = settings.savepoints.every_ms
    wanted = f"one in {settings.savepoints.every}" if every is not None else f"one in {FORGOTTEN_HOURS} h"
    advice = (
        "let `kappa run detect` run with savepoints.every, or `kappa savepoint create NAME`: a recovery begins there"
    )
    if taken_ms is None:
        return warning("savepoints", "none", wanted, advice)
    hours = (now_ms - taken_ms) / HOUR_MS
    if hours * HOUR_MS > 2 * (every or FORGOTTEN_HOURS * HOUR_MS):
        return warning("savepoints", f"the newest is {hours:.0f} h old", wanted, advice)
    return ok("savepoints", f"the newest is {hours:.1f} h old")


def notifications(settings: Settings) -> list[Finding]:
    """Whether somebody sends notifications, where there are channels."""
    if not settings.notify.channels:
        return [ok("notifications", "there are no channels: nobody is notified")]
    if is_running(settings.home):
        return [ok("notifications", f"are sent to {', '.join(settings.notify.channels)}")]
    text = f"no process with home {settings.home} sends them"
    advice = "`kappa run all` sends them itself; beside a process for each job start `kappa run notify`"
    return [danger("notifications", text, "one", advice)]


CHECKS = (violation, checkpoints, jobs, serves, savepoints, notifications)
