"""Health and metrics of the lane's process: `/healthz` and `/metrics` as those of the jobs, with what is its own."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

from app.core.report import Report
from app.core.settings import Settings
from app.early.lane import BoundsTable
from app.runtime.health import Health, HealthServer
from app.supervision.link import Unsupervised
from models.records.records import CONFIRMED, EARLY_STATUSES, EarlyAlarm
from pipelines.jobs import early

WON_BUCKETS = (5, 10, 20, 30, 45, 60, 90, 120, 180, 300, 600)


class LaneHealth:
    """Tells the parent and `/healthz` that the lane goes on, and counts what it does."""

    def __init__(self, settings: Settings, parent: Unsupervised | None = None) -> None:
        self.health = Health(settings.health.stale_seconds, parent=parent)
        self.health.expect(early.NAME)
        own = self.health.metrics.registry
        self._bounds = Gauge("kappa_early_bounds", "Series whose records are compared", registry=own)
        seen = "Points and lines that the lane has read, heartbeats included"
        self._records = Gauge("kappa_early_read_records", seen, registry=own)
        refused = "Records of the topic bounds that are none"
        self._refused = Gauge("kappa_early_refused_bounds", refused, registry=own)
        alarms = "Records of early alarms, by what they say"
        self._alarms = Counter("kappa_early_alarms", alarms, ["status"], registry=own)
        won = "By how much confirmed early alarms came before the first record of their incident"
        self._won = Histogram("kappa_early_won_seconds", won, registry=own, buckets=WON_BUCKETS)
        for status in EARLY_STATUSES:
            self._alarms.labels(status)

    def goes_on(self) -> None:
        """Records flow, or nothing is there to flow."""
        self.health.on_idle(early.NAME)

    def take_alarm(self, alarm: EarlyAlarm) -> None:
        """A record of an alarm has been appended."""
        self._alarms.labels(alarm.status).inc()
        if alarm.status == CONFIRMED and alarm.seconds_won >= 0:
            self._won.observe(alarm.seconds_won)

    def look(self, table: BoundsTable) -> None:
        """Take in what the table counts."""
        self._bounds.set(table.series)
        self._records.set(table.seen)
        self._refused.set(table.refused)

    def server(self, settings: Settings, report: Report) -> HealthServer | None:
        """The server of both, where `early.port` says so. Raises SettingsError for a port in use."""
        if settings.early.port is None:
            return None
        own = settings.health
        found = HealthServer(self.health, own.host, settings.early.port, names=own.names, setting="early.port")
        report(found.announcement)
        return found
