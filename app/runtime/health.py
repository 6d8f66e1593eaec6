"""Metrics and health of running jobs: `/metrics` for Prometheus, and `/healthz`.

Healthy means that progress is recent, not that the process lives: `/healthz` answers 503 when a job has not ended a
batch, nor been found idle, for `stale_seconds`.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

import structlog
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from app.core.errors import SettingsError
from app.core.ports import location
from app.core.timestamps import iso_or
from app.runtime.bounded_server import BoundedHandler, BoundedServer
from app.runtime.metrics import Metrics
from app.supervision.link import Unsupervised
from models.detection.limits import KINDS
from pipelines.consumer_lag import QueryProgress, lag_of
from pipelines.errors import KappaError
from pipelines.jobs import detect

log = structlog.get_logger()

NO_WATERMARK = "1970-01-01T00:00:00"  # what Spark says while a query has none


@dataclass
class JobHealth:
    """The newest figures of a job."""

    batch_id: int = -1
    batch_seconds: float = 0.0
    rows: int = 0
    lag: int = 0
    watermark: str | None = None
    state_bytes: int = 0
    dropped: int = 0
    waiting_since: float | None = None  # for Elasticsearch, epoch seconds
    last_progress: float = field(default_factory=time.monotonic)


def no_violations() -> dict[str, Any]:
    """What `Health.violations` answers before it is known which version the jobs are of."""
    return {"count": 0, "accepted": 0, "last": None}


class Health:
    """Collects the progress of jobs; thread-safe."""

    def __init__(
        self, stale_seconds: float, clock: Callable[[], float] = time.time, parent: Unsupervised | None = None
    ) -> None:
        self._stale, self._clock, self._lock = stale_seconds, clock, threading.Lock()
        self.parent = parent or Unsupervised()
        self.violations: Callable[[], dict[str, Any]] = no_violations
        self._jobs: dict[str, JobHealth] = {}
        self._version = ""
        self.metrics = Metrics()
        self._in_quarantine = 0
        self.series, self.left_out = 0, dict.fromkeys(KINDS, 0)
        self._savepoint: dict[str, str] | None = None
        self._without_heartbeats: dict[str, str] | None = None
        self.metrics.restarts.inc(self.parent.history.restarts)

    def runs(self, version: str) -> None:
        """Take in of which version the jobs are."""
        self._version = version

    def expect(self, job: str) -> None:
        """Count a job as started, so that one without any progress becomes unhealthy."""
        with self._lock:
            self._jobs.setdefault(job, JobHealth())
        self.metrics.expect(job)
        self.parent.expect(job)

    def forget(self) -> None:
        """Forget all jobs and what is known of their version: those of another one will take their place, or another process runs them."""
        with self._lock:
            self._jobs.clear()
        self._version, self._in_quarantine, self._savepoint, self.series = "", 0, None, 0
        self.violations = no_violations
        self.metrics.forget()
        self.parent.forget()

    def savepoint(self, taken_ms: int | None, problem: str = "") -> None:
        """When the last periodic savepoint was taken (epoch ms; None: none yet), and what was wrong with one since then."""
        self._savepoint = {"taken": iso_or(taken_ms, "never"), "problem": problem}
        if taken_ms is not None:
            self.metrics.savepoint_taken.set(taken_ms / 1000)
        if problem:
            self.metrics.savepoints_failed.inc()

    def heartbeats(self, problem: str) -> None:
        """Why no heartbeats are written; empty once they are again. A job that makes no progress meanwhile waits for Kafka, too."""
        since = iso_or(round(self._clock() * 1000), "")
        self._without_heartbeats = {"not_written_since": since, "problem": problem} if problem else None
        self.parent.hindered(f"heartbeats are not written: {problem}" if problem else "")

    def refused(self, topic: str, records: int) -> None:
        """Count records that went to `late` or `dead-letters`."""
        self.metrics.refused.labels(topic).inc(records)

    def quarantined(self, records: int) -> None:
        """Take in how many records are in quarantine. They do no harm: it is for people to look at them."""
        self._in_quarantine = records
        self.metrics.quarantined.set(records)

    def on_progress(self, name: str, progress: QueryProgress) -> None:
        """Take in the progress of a batch, as Spark reports it."""
        operators = progress.get("stateOperators", [])
        rows = progress.get("numInputRows", 0)
        dropped = sum(op.get("numRowsDroppedByWatermark", 0) for op in operators)
        watermark = progress.get("eventTime", {}).get("watermark", NO_WATERMARK)
        with self._lock:
            job = self._jobs.setdefault(name, JobHealth())
            job.batch_id = progress.get("batchId", -1)
            job.batch_seconds = progress.get("batchDuration", 0) / 1000
            job.rows += rows
            job.lag = lag_of(progress)
            job.watermark = None if watermark.startswith(NO_WATERMARK) else watermark
            job.state_bytes = sum(op.get("memoryUsedBytes", 0) for op in operators)
            job.dropped += dropped
            job.last_progress, job.waiting_since = time.monotonic(), None
        self.parent.progress(name, done=True)
        observed = progress.get("observedMetrics") or {}
        self.metrics.batch(name, rows, dropped, progress.get("batchDuration", 0) / 1000)
        self.metrics.published(name, observed, self._clock())
        self._on_limits(observed.get(detect.OBSERVED) or {})

    def _on_limits(self, observed: Mapping[str, Any]) -> None:
        """Take in what `detect` knows and has left out in a batch; a number that the batch does not say is missing."""
        with self._lock:
            self.series = round(observed.get("series") or self.series)
            for limit in KINDS:
                number = observed.get(limit) or 0
                self.left_out[limit] += number
                self.metrics.left_out.labels(limit).inc(number)
            self.metrics.series.set(self.series)

    def _delay(self, watermark: str | None) -> float | None:
        """How far a watermark is behind the clock now: without records, and so without batches, it stays where it is."""
        if watermark is None:
            return None
        return self._clock() - datetime.fromisoformat(watermark).astimezone(UTC).timestamp()

    def on_idle(self, name: str) -> None:
        """A job found no data: that is progress too."""
        with self._lock:
            job = self._jobs.setdefault(name, JobHealth())
            job.last_progress, job.waiting_since = time.monotonic(), None
        self.parent.progress(name, done=True)

    def on_wait(self, name: str) -> None:
        """A job waits for Elasticsearch. It is not stuck, but as long as that lasts it has no progress."""
        with self._lock:
            job = self._jobs.setdefault(name, JobHealth())
            job.waiting_since = job.waiting_since or self._clock()
        self.parent.progress(name, waits=True)

    def on_work(self, name: str) -> None:
        """Within a batch, tasks of a job go on."""
        self.parent.progress(name)

    def summary(self) -> dict[str, Any]:
        """The newest figures of all jobs, and whether each is healthy.

        `version` is whose jobs they are; it is absent while there are none, and of the notifier, which belongs to no version.
        """
        now = time.monotonic()
        with self._lock:
            jobs = {
                name: {
                    "healthy": now - job.last_progress <= self._stale and job.dropped == 0,
                    "seconds_since_progress": round(now - job.last_progress, 1),
                    "batch": job.batch_id,
                    "batch_seconds": job.batch_seconds,
                    "rows": job.rows,
                    "lag": job.lag,
                    "watermark": job.watermark,
                    "watermark_delay_seconds": self._delay(job.watermark),
                    "state_bytes": job.state_bytes,
                    "dropped_by_watermark": job.dropped,
                }
                | ({} if job.waiting_since is None else {"waiting": waiting(job.waiting_since)})
                for name, job in self._jobs.items()
            }
        return {
            "healthy": all(job["healthy"] for job in jobs.values()),
            "jobs": jobs,
            "limits": {"series": self.series, "left_out": dict(self.left_out)},
            "restarts": asdict(self.parent.history),
            "quarantined": self._in_quarantine,
            "violations": self.violations(),
            **({"version": self._version} if self._version else {}),
            **({} if self._savepoint is None else {"savepoint": self._savepoint}),
            **({} if self._without_heartbeats is None else {"heartbeats": self._without_heartbeats}),
        }

    def exposition(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return self.metrics.exposition(self.summary())


def waiting(since: float) -> str:
    """For what a job waits, in words. `since` is in epoch seconds."""
    return f"for Elasticsearch since {datetime.fromtimestamp(since, UTC).isoformat(timespec='seconds')}"


MOST_ASKING = 2  # states at a time
Ask = Callable[[str], dict[str, Any]]


class HealthServer:
    """Serves `/metrics` and `/healthz` from a thread of its own; with `ask`, `/state?series=...` as well.

    `ask` returns the model's state of a series, or raises a KappaError.
    """

    def __init__(
        self,
        health: Health,
        host: str,
        port: int,
        ask: Ask | None = None,
        names: Iterable[str] = (),
        setting: str = "health.port",
    ) -> None:
        """`names`: under which it answers, besides its address. `setting`: of the port, for people."""
        try:
            self._server = BoundedServer((host, port), _handler(health, ask), names)
        except OSError as error:
            msg = (
                f"health: cannot listen on {location(host, port)} ({error.strerror}); set {setting} to a free one, and health.host to "
                "an address of this machine"
            )
            raise SettingsError(msg) from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="health", daemon=True)

    @property
    def address(self) -> str:
        """Where it listens."""
        host, port = self._server.server_address[:2]
        return f"http://{location(str(host), port)}"

    def close(self) -> None:
        """Close the port, whether it has begun to answer or not."""
        self._server.server_close()

    @property
    def announcement(self) -> str:
        """Where to look, in words."""
        return f"metrics and health at {self.address}/metrics and {self.address}/healthz"

    def __enter__(self) -> HealthServer:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self.close()
        self._thread.join()


def answer_state(ask: Ask, query: str) -> tuple[int, bytes]:
    """Status and JSON of `/state`: 200, 400 without a series, 404 for an unknown one, 500 where it cannot be read."""
    series = parse_qs(query).get("series", [""])[0]
    if not series:
        return 400, json.dumps({"error": "wanted /state?series=NAME"}).encode()
    try:
        return 200, json.dumps(ask(series)).encode()
    except KappaError as error:
        return 404, json.dumps({"error": str(error)}).encode()
    except Exception as error:  # whatever it is, the client gets an answer
        log.warning("the state of a series cannot be read", series=series, error=str(error)[:500])
        return 500, json.dumps({"error": f"the state cannot be read now ({type(error).__name__}); ask again"}).encode()


def _handler(health: Health, ask: Ask | None) -> type[BoundedHandler]:
    asking = threading.BoundedSemaphore(MOST_ASKING)

    class Handler(BoundedHandler):
        def answer(self, path: str, query: str) -> tuple[int, str, bytes]:
            if path == "/state" and ask is not None:
                if not asking.acquire(blocking=False):
                    return 503, "application/json", b'{"error": "others are asking for states: ask again"}'
                try:
                    status, body = answer_state(ask, query)
                finally:
                    asking.release()
                return status, "application/json", body
            if path == "/metrics":
                return 200, CONTENT_TYPE_LATEST, health.exposition()
            if path == "/healthz":
                summary = health.summary()
                return 200 if summary["healthy"] else 503, "application/json", json.dumps(summary, indent=2).encode()
            return 404, "text/plain", b"there is /metrics, /healthz and, of detect, /state?series=\n"

    return Handler
