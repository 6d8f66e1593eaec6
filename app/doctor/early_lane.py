"""Checks of the lane of early alarms, where it is switched on."""

from __future__ import annotations

from contextlib import closing

from app.core.settings import Settings
from app.core.timestamps import wall_clock
from app.doctor.finding import Finding, ok, warning
from app.doctor.patience import impatient
from app.early.early_log import EarlyLog
from app.early.lane import of_version
from app.early.service import is_running
from app.early.settlement import Settlement, patience_ms
from models.core.wording import counted
from pipelines.errors import InputError, ServiceUnavailable
from pipelines.jobs import early

CHECK = "early alarms"
MOST_POLLS = 50
OVERDUE_MS = 60_000


def early_alarms(settings: Settings) -> list[Finding]:
    """Whether the lane can run, does, and settles what it has raised, and whether the jobs follow. A topic that is missing is Kafka's check."""
    if not settings.early.enabled:
        return [ok(CHECK, "off")]
    if not early.has_real_time_mode():
        advice = "install the pinned PySpark, or set early.enabled to false"
        return [warning(CHECK, f"Spark {early.spark_version()} has no real-time mode", "one that has it", advice)]
    try:
        settlement = settlement_of(settings)
    except (InputError, ServiceUnavailable) as error:
        return [warning(CHECK, str(error), "topics that can be read", "`kappa topics create`; see whether Kafka runs")]
    return lane_findings(settings, settlement, wall_clock(), runs=is_running(settings.home))


def settlement_of(settings: Settings) -> Settlement:
    """What the log says of alarms and of what settles them. Raises InputError where a topic is missing, ServiceUnavailable without Kafka."""
    found = Settlement(patience_ms(settings.detection, settings.windowing.window_seconds))
    with closing(EarlyLog(impatient(settings), found)) as log:
        for _ in range(MOST_POLLS):
            log.poll()
            if log.is_current:
                break
    return found


def lane_findings(settings: Settings, settlement: Settlement, now_ms: int, *, runs: bool) -> list[Finding]:
    """What the lane, its alarms and how far the jobs have judged mean."""
    waiting = f"alarms that wait: {len(settlement.waiting)}"
    if not runs:
        text = f"no process with home {settings.home} runs the lane; {waiting}"
        return [warning(CHECK, text, "one", "`kappa run all` starts it, or `kappa run early` on another machine")]
    behind, most = now_ms - settlement.judged, of_version(settings).most_behind_ms
    found = []
    if behind > most:
        text = "no window was judged lately" if not settlement.judged else f"the jobs are {behind / 1000:,.0f} s behind"
        advice = "nothing is raised until detect follows: see the lag of each job"
        found.append(warning(CHECK, text, f"{most / 1000:.0f} s at most", advice))
    limit = settlement.judged - patience_ms(settings.detection, settings.windowing.window_seconds) - OVERDUE_MS
    overdue = sum(one.alarm.window_end < limit for one in settlement.waiting.values())
    if overdue:
        advice = "the lane does not follow: see its log, and /healthz where early.port is set"
        found.append(warning(CHECK, f"not settled in time: {counted(overdue, 'alarm')}", "none", advice))
    return found or [ok(CHECK, f"the lane runs; {waiting}")]
