"""What `/metrics` gives: names, units and labels after the conventions of Prometheus."""

from __future__ import annotations

import json
import platform
import threading
from collections.abc import Mapping
from importlib import metadata
from typing import Any

import pyspark
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, disable_created_metrics
from prometheus_client.exposition import generate_latest

from app.core.distribution import DISTRIBUTION
from models.records.records import OUTCOMES, SEVERITIES, STATUSES
from pipelines.jobs import correlate, detect

disable_created_metrics()  # type: ignore[no-untyped-call]  # when a counter began is no series of its own: Prometheus sees it fall
BATCH_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
LATENCY_BUCKETS = (10, 20, 30, 45, 60, 90, 120, 180, 300, 600, 1_800, 3_600)
# What a job is now, by the key of `Health.summary` that says it.
JOB_GAUGES = {
    "lag": ("kappa_lag_records", "Records in the input topics that the job has not read"),
    "watermark_delay_seconds": ("kappa_watermark_delay_seconds", "Wall clock minus watermark"),
    "batch_seconds": ("kappa_batch_seconds", "Duration of the last batch"),
    "state_bytes": ("kappa_state_bytes", "Memory of the state store"),
    "seconds_since_progress": ("kappa_last_progress_age_seconds", "Time since the last batch ended"),
}


class Metrics:
    """The metrics of a process of jobs, in a registry of their own."""

    def __init__(self) -> None:
        own = self.registry = CollectorRegistry()
        self._lock = threading.Lock()
        versions = {
            "version": metadata.version(DISTRIBUTION),
            "python": platform.python_version(),
            "spark": pyspark.__version__,
        }
        Info("kappa_build", "The release that runs, and what it runs on", registry=own).info(versions)
        self._job_gauges = {
            key: Gauge(name, text, ["kappa_job"], registry=own) for key, (name, text) in JOB_GAUGES.items()
        }
        self._rows = Counter("kappa_rows", "Records read", ["kappa_job"], registry=own)
        self._batches = Counter("kappa_batches", "Batches ended", ["kappa_job"], registry=own)
        dropped = "Rows dropped by the watermark; anything but 0 stops the job"
        self._dropped = Counter("kappa_dropped_by_watermark", dropped, ["kappa_job"], registry=own)
        took = "Durations of batches"
        self._took = Histogram("kappa_batch_duration_seconds", took, ["kappa_job"], registry=own, buckets=BATCH_BUCKETS)
        latency = "From the end of the oldest window that a batch has published to the end of the batch"
        self._latency = Histogram(
            "kappa_latency_seconds", latency, ["kappa_job"], registry=own, buckets=LATENCY_BUCKETS
        )
        self._open = Gauge("kappa_open_incidents", "Published incidents that are open", ["severity"], registry=own)
        events = "Records about incidents that were published"
        self._events = Counter("kappa_incident_events", events, ["severity", "status"], registry=own)
        kept = "Records in quarantine that have not been appended again, as known at the last start"
        self.quarantined = Gauge("kappa_quarantined_records", kept, registry=own)
        self.refused = Counter("kappa_refused", "Records written to this topic", ["topic"], registry=own)
        self.series = Gauge("kappa_series", "Series that detect knows", registry=own)
        left_out = (
            "Series, services, hosts, labels, changes and rules that a limit has left out, counted in each window"
        )
        self.left_out = Counter("kappa_left_out", left_out, ["limit"], registry=own)
        violations = "Violations of determinism of the version, accepted ones included"
        self._violations = Gauge("kappa_determinism_violations", violations, registry=own)
        taken = "When the last periodic savepoint was taken"
        self.savepoint_taken = Gauge("kappa_savepoint_timestamp_seconds", taken, registry=own)
        failed = "Periodic savepoints that could not be taken"
        self.savepoints_failed = Counter("kappa_savepoints_failed", failed, registry=own)
        became = "Notifications that a channel has taken (delivered), refused or not taken in time (failed), or that were held back"
        self._notifications = Counter("kappa_notifications", became, ["channel", "outcome"], registry=own)
        waiting = "Notifications that have not been tried yet, or are tried again"
        self._waiting = Gauge("kappa_notifications_waiting", waiting, ["channel"], registry=own)
        restarts = "How often `kappa run` has started its jobs' process again"
        self.restarts = Counter("kappa_restarts", restarts, registry=own)

    def expect(self, job: str) -> None:
        """A job has been started: what it will count is 0 so far, so that the first one is seen as an increase."""
        if job == "correlate":
            for severity in SEVERITIES:
                for status in STATUSES:
                    self._events.labels(severity, status)

    def forget(self) -> None:
        """The jobs are not run here any more: what they were is not what they are now, and what is counted of savepoints begins anew."""
        self._open.clear()
        for gauge in (self.quarantined, self.series, self.savepoint_taken):
            gauge.set(0)
        self.savepoints_failed.reset()

    def batch(self, job: str, rows: int, dropped: int, seconds: float) -> None:
        """A batch has ended."""
        self._rows.labels(job).inc(rows)
        self._batches.labels(job).inc()
        self._dropped.labels(job).inc(dropped)
        self._took.labels(job).observe(seconds)

    def published(self, job: str, observed: Mapping[str, Any], now: float) -> None:
        """What a batch of `detect` or `correlate` has published by its observed metrics. `now`: epoch seconds."""
        window_end = (observed.get(detect.OBSERVED) or {}).get("oldest_window")
        text = (observed.get(correlate.OBSERVED) or {}).get("summary")
        if text:
            summary = json.loads(text)
            window_end = summary["oldest_window"]
            for severity in SEVERITIES:
                self._open.labels(severity).set(summary["open"].get(severity, 0))
            for severity, status in summary["events"]:
                self._events.labels(severity, status).inc()
        if window_end:
            self._latency.labels(job).observe(max(0.0, now - window_end / 1000))

    def expect_channel(self, channel: str) -> None:
        """Notifications are sent to a channel; none has been so far."""
        for outcome in OUTCOMES:
            self._notifications.labels(channel, outcome)

    def notified(self, channel: str, outcome: str) -> None:
        """What became of a notification is recorded."""
        self._notifications.labels(channel, outcome).inc()

    def waiting(self, channel: str, notifications: int) -> None:
        """How many notifications wait for a channel now."""
        self._waiting.labels(channel).set(notifications)

    def exposition(self, summary: Mapping[str, Any]) -> bytes:
        """All metrics in Prometheus' text format, with what `Health.summary` says of now."""
        with self._lock:
            self._violations.set(summary["violations"]["count"])
            for key, gauge in self._job_gauges.items():
                gauge.clear()
                for job, facts in summary["jobs"].items():
                    if facts[key] is not None:
                        gauge.labels(job).set(facts[key])
            return bytes(generate_latest(self.registry))
