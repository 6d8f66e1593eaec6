"""Health: what Spark reports of a batch becomes metrics, and a job without progress is not healthy."""

from __future__ import annotations

import itertools
import json
import re
import socket
import subprocess
import threading
import time
import urllib.request
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from support.distribution_programs import program

from app.core.distribution import DISTRIBUTION
from app.core.errors import SettingsError
from app.core.ports import port_is_free
from app.core.report import silent
from app.core.settings import EarlySettings, HealthSettings, KafkaSettings, Settings
from app.early.metrics import LaneHealth
from app.runtime.dashboard import job_addresses
from app.runtime.health import Health, HealthServer
from app.runtime.jobs import JobSelection
from app.runtime.served_health import addresses
from app.runtime.supervise import run_until_stopped
from pipelines.consumer_lag import lag_of
from pipelines.runner import BatchListener

NOW = 1_795_305_600.0  # 2026-11-22T00:00:00Z
GAUGES = (
    "kappa_lag_records",
    "kappa_watermark_delay_seconds",
    "kappa_batch_seconds",
    "kappa_state_bytes",
    "kappa_last_progress_age_seconds",
)
COUNTERS = ("kappa_rows_total", "kappa_batches_total", "kappa_dropped_by_watermark_total")


def source(end: dict[str, dict[str, int]], latest: dict[str, dict[str, int]], as_text: bool = False) -> dict[str, Any]:
    offsets = {"endOffset": end, "latestOffset": latest}
    return {key: json.dumps(value) if as_text else value for key, value in offsets.items()}


def progress(batch: int = 7, rows: int = 120, dropped: int = 0, **more: Any) -> dict[str, Any]:
    """A batch as Spark 4.2 reports it, without what nobody reads."""
    return {
        "name": "extract",
        "batchId": batch,
        "batchDuration": 2_500,
        "numInputRows": rows,
        "eventTime": {"watermark": "2026-11-21T23:59:30.000Z", "max": "2026-11-21T23:59:45.000Z"},
        "stateOperators": [
            {"memoryUsedBytes": 1_000, "numRowsDroppedByWatermark": dropped},
            {"memoryUsedBytes": 24, "numRowsDroppedByWatermark": 0},
        ],
        "sources": [
            source({"telemetry": {"0": 100}}, {"telemetry": {"0": 130}}),
            source({"logs": {"0": 5, "1": 7}}, {"logs": {"0": 5, "1": 9}}, as_text=True),
        ],
    } | more


def exposed(health: Health) -> dict[tuple[str, ...], float]:
    """Metrics as a Prometheus server reads them: by name and the value of their label."""
    families = text_string_to_metric_families(health.exposition().decode())
    return {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}


def get(url: str) -> tuple[int, str, bytes]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read()
    except HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read()


# --- metrics


def test_every_promised_metric_is_there_after_one_batch_with_the_job_as_label() -> None:
    health = Health(60, clock=lambda: NOW)
    health.on_progress("extract", progress())
    found = exposed(health)
    assert {(name, "extract") for name in (*GAUGES, *COUNTERS)} <= set(found)
    assert found["kappa_watermark_delay_seconds", "extract"] == 30.0
    assert found["kappa_batch_seconds", "extract"] == 2.5
    assert found["kappa_lag_records", "extract"] == 32
    assert found["kappa_state_bytes", "extract"] == 1_024
    assert found["kappa_rows_total", "extract"] == 120
    assert found["kappa_batches_total", "extract"] == 1


def test_counters_add_up_and_gauges_are_the_last_batch() -> None:
    health = Health(60, clock=lambda: NOW)
    for batch, rows in enumerate((10, 20, 30)):
        health.on_progress("detect", progress(batch, rows, batchDuration=1000 * (batch + 1)))
    found = exposed(health)
    assert found["kappa_rows_total", "detect"] == 60
    assert found["kappa_batches_total", "detect"] == 3
    assert found["kappa_batch_seconds", "detect"] == 3.0
    assert health.summary()["jobs"]["detect"]["batch"] == 2


def test_jobs_are_told_apart() -> None:
    health = Health(60, clock=lambda: NOW)
    health.on_progress("extract", progress(rows=5))
    health.on_progress("detect", progress(rows=11))
    found = exposed(health)
    assert (found["kappa_rows_total", "extract"], found["kappa_rows_total", "detect"]) == (5, 11)


def test_refused_records_are_counted_by_topic() -> None:
    health = Health(60)
    health.refused("late", 3)
    health.refused("dead-letters", 4)
    health.refused("late", 2)
    found = exposed(health)
    assert (found["kappa_refused_total", "late"], found["kappa_refused_total", "dead-letters"]) == (5, 4)


def of_correlate(oldest_s: float | None, **more: Any) -> dict[str, Any]:
    """A batch of `correlate` that has published windows from the one that ended so many seconds ago."""
    window_end = None if oldest_s is None else round(1000 * (NOW - oldest_s))
    summary = {"oldest_window": window_end, "events": [], "open": {}} | more
    return progress(observedMetrics={"incidents": {"summary": json.dumps(summary)}})


def test_incidents_are_counted_by_severity_and_status_and_those_that_are_open_are_a_gauge() -> None:
    health = Health(60, clock=lambda: NOW)
    health.expect("correlate")
    found = exposed(health)
    assert found["kappa_incident_events_total", "critical", "open"] == 0, "an increase from nothing would not be seen"
    assert ("kappa_open_incidents", "critical") not in found, "not known before the first batch"
    events = [("major", "open"), ("minor", "open"), ("major", "update")]
    health.on_progress("correlate", of_correlate(40, events=events, open={"major": 1, "minor": 1}))
    health.on_progress("correlate", of_correlate(30, events=[("major", "close"), ("major", "open")], open={"minor": 1}))
    found = exposed(health)
    assert found["kappa_incident_events_total", "major", "open"] == 2
    assert found["kappa_incident_events_total", "major", "close"] == 1
    assert (found["kappa_open_incidents", "minor"], found["kappa_open_incidents", "major"]) == (1, 0)


def test_latency_is_from_the_end_of_the_oldest_window_that_a_batch_publishes() -> None:
    health = Health(60, clock=lambda: NOW)
    for seconds in (25.0, 40.0, None):  # the last one completes no window
        health.on_progress("correlate", of_correlate(seconds))
    window_end = round(1000 * (NOW - 100))
    health.on_progress("detect", progress(observedMetrics={"limits": {"series": 5.0, "oldest_window": window_end}}))
    health.on_progress("detect", progress(observedMetrics={"limits": {"series": None, "oldest_window": None}}))
    found = exposed(health)
    assert (found["kappa_latency_seconds_count", "correlate"], found["kappa_latency_seconds_sum", "correlate"]) == (
        2,
        65,
    )
    assert found["kappa_latency_seconds_bucket", "correlate", "30.0"] == 1
    assert (found["kappa_latency_seconds_count", "detect"], found["kappa_latency_seconds_sum", "detect"]) == (1, 100)


def test_durations_of_batches_are_a_histogram_and_the_release_is_a_label() -> None:
    health = Health(60, clock=lambda: NOW)
    for milliseconds in (80, 2_500, 700_000):
        health.on_progress("extract", progress(batchDuration=milliseconds))
    found = exposed(health)
    assert found["kappa_batch_duration_seconds_bucket", "extract", "0.1"] == 1
    assert found["kappa_batch_duration_seconds_bucket", "extract", "300.0"] == 2
    assert found["kappa_batch_duration_seconds_sum", "extract"] == pytest.approx(702.58)
    (build,) = [key for key in found if key[0] == "kappa_build_info"]
    assert metadata.version(DISTRIBUTION) in build


def test_promtool_has_nothing_to_say_about_names_and_units() -> None:
    health = Health(60, clock=lambda: NOW)
    for job in ("extract", "detect", "correlate", "index"):
        health.expect(job)
        health.on_progress(job, of_correlate(40))
    health.refused("late", 1)
    done = subprocess.run(
        [program("promtool").path, "check", "metrics"],
        input=health.exposition(),
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_watermark_that_stays_falls_behind_the_clock_while_a_job_finds_nothing_to_do() -> None:
    times = itertools.count(NOW, 600.0)
    health = Health(60, clock=lambda: next(times))
    health.on_progress("extract", progress())
    before = exposed(health)["kappa_watermark_delay_seconds", "extract"]
    health.on_idle("extract")
    assert exposed(health)["kappa_watermark_delay_seconds", "extract"] >= before + 600


@pytest.mark.parametrize("watermark", [None, "1970-01-01T00:00:00.000Z"])
def test_a_watermark_that_is_not_known_yet_is_none_and_has_no_delay(watermark: str | None) -> None:
    health = Health(60, clock=lambda: NOW)
    health.on_progress("extract", progress(eventTime={"watermark": watermark} if watermark else {}))
    assert ("kappa_watermark_delay_seconds", "extract") not in exposed(health)
    job = health.summary()["jobs"]["extract"]
    assert (job["watermark"], job["watermark_delay_seconds"]) == (None, None)


def test_a_report_without_anything_optional_is_taken() -> None:
    health = Health(60)
    health.on_progress("index", {"batchId": 0})
    found = exposed(health)
    assert found["kappa_lag_records", "index"] == 0
    assert found["kappa_rows_total", "index"] == 0


# --- lag


def test_lag_is_what_was_there_and_was_not_read() -> None:
    assert lag_of({"sources": [source({"t": {"0": 3}}, {"t": {"0": 10, "1": 4}})]}) == 7 + 4


@pytest.mark.parametrize("offsets", [None, "null", "12", 12, []])
def test_a_source_without_offsets_of_kafka_has_no_lag(offsets: Any) -> None:
    assert lag_of({"sources": [{"endOffset": offsets, "latestOffset": offsets}]}) == 0


@given(st.dictionaries(st.from_regex(r"[0-9]", fullmatch=True), st.tuples(st.integers(0, 99), st.integers(0, 99))))
def test_lag_is_never_negative_and_the_same_for_text_and_object(parts: dict[str, tuple[int, int]]) -> None:
    end = {"t": {part: e for part, (e, _) in parts.items()}}
    latest = {"t": {part: n for part, (_, n) in parts.items()}}
    lags = {lag_of({"sources": [source(end, latest, as_text)]}) for as_text in (False, True)}
    assert lags == {sum(max(0, n - e) for e, n in parts.values())}


# --- healthy


def test_a_job_that_was_started_and_makes_no_progress_is_not_healthy() -> None:
    health = Health(stale_seconds=-1.0)
    assert health.summary()["healthy"]  # nothing is expected
    health.expect("extract")
    assert not health.summary()["healthy"]


def test_one_stale_job_among_good_ones_makes_the_whole_unhealthy() -> None:
    health = Health(60)
    health.on_progress("detect", progress())
    health.on_progress("extract", progress())
    health._jobs["extract"].last_progress = time.monotonic() - 61
    summary = health.summary()
    assert not summary["healthy"]
    assert not summary["jobs"]["extract"]["healthy"]
    assert summary["jobs"]["detect"]["healthy"]


@pytest.mark.parametrize("sign_of_life", ["batch", "idle"])
def test_a_batch_and_being_idle_are_both_progress(sign_of_life: str) -> None:
    health = Health(60)
    health.expect("extract")
    health._jobs["extract"].last_progress = time.monotonic() - 61
    assert not health.summary()["healthy"]
    if sign_of_life == "batch":
        health.on_progress("extract", progress())
    else:
        health.on_idle("extract")
    assert health.summary()["healthy"]


def test_one_row_dropped_by_the_watermark_is_unhealthy_for_good() -> None:
    health = Health(60, clock=lambda: NOW)
    health.on_progress("extract", progress(dropped=1))
    health.on_progress("extract", progress(dropped=0))
    assert not health.summary()["healthy"]
    assert health.summary()["jobs"]["extract"]["dropped_by_watermark"] == 1
    assert exposed(health)["kappa_dropped_by_watermark_total", "extract"] == 1


def test_rows_of_a_batch_that_an_operator_has_accepted_make_no_job_unhealthy() -> None:
    health = Health(60, clock=lambda: NOW)
    listener = BatchListener(health.on_progress)
    listener.accepted["extract"] = frozenset({7})
    accepted = progress(batch=7, dropped=3)
    listener.query_progress(accepted)
    assert health.summary()["healthy"]
    assert health.summary()["jobs"]["extract"]["rows"] == 120
    assert listener.dropped == {"extract": 0}
    assert accepted == progress(batch=7, dropped=3), "what Spark reports is as it was"
    listener.query_progress(progress(batch=8, dropped=2))
    assert not health.summary()["healthy"]
    assert listener.dropped == {"extract": 2}


def test_health_says_of_which_version_the_jobs_are_while_they_run() -> None:
    health = Health(60)
    assert "version" not in health.summary()
    health.runs("v2")
    health.expect("extract")
    assert health.summary()["version"] == "v2"
    health.forget()
    assert "version" not in health.summary()


def test_jobs_that_another_process_runs_now_leave_no_gauge_behind() -> None:
    health = Health(60, clock=lambda: NOW)
    never_ran = exposed(health)
    health.runs("v1")
    for job in ("extract", "detect", "correlate", "index"):
        health.expect(job)
        health.on_progress(job, progress(observedMetrics={"limits": {"series": 5.0, "services": 2.0}}))
    health.on_progress("correlate", of_correlate(40, open={"critical": 1}))
    health.violations = lambda: {"count": 1, "accepted": 0, "last": "rows were dropped"}
    health.quarantined(3)
    for taken in (None, None, 1_795_300_000_000):
        health.savepoint(taken, "" if taken else "no disk")
    assert exposed(health)["kappa_open_incidents", "critical"] == 1
    health.forget()
    found = exposed(health)
    assert {name: value for name, value in found.items() if name in never_ran} == never_ran | {
        name: found[name] for name in never_ran if name[0].startswith("kappa_left_out")
    }
    assert not [name for name in found if name[0] in (*GAUGES, "kappa_open_incidents")]
    assert found["kappa_rows_total", "extract"] == 120, "what has been counted stays"
    summary = health.summary()
    assert (summary["healthy"], summary["jobs"], summary["quarantined"]) == (True, {}, 0)
    assert "savepoint" not in summary and summary["limits"]["series"] == 0


# --- the server


def test_the_server_answers_200_while_progress_is_recent_and_503_when_it_is_stale() -> None:
    health = Health(60, clock=lambda: NOW)
    health.on_progress("extract", progress())
    with HealthServer(health, "127.0.0.1", 0) as server:
        status, kind, body = get(server.address + "/healthz")
        assert (status, kind) == (200, "application/json")
        assert json.loads(body)["jobs"]["extract"]["lag"] == 32
        health._jobs["extract"].last_progress = time.monotonic() - 61
        status, _, body = get(server.address + "/healthz")
        assert status == 503
        assert json.loads(body)["healthy"] is False


def test_the_server_gives_metrics_as_text_and_404_for_the_rest() -> None:
    health = Health(60, clock=lambda: NOW)
    health.on_progress("extract", progress())
    with HealthServer(health, "127.0.0.1", 0) as server:
        status, kind, body = get(server.address + "/metrics")
        assert status == 200
        assert kind.startswith("text/plain; version=")
        assert 'kappa_lag_records{kappa_job="extract"} 32.0' in body.decode()
        assert get(server.address + "/")[0] == 404


def test_a_port_that_is_taken_is_one_line_that_names_it_and_its_setting(tmp_path: Path) -> None:
    with HealthServer(Health(60), "127.0.0.1", 0) as server:
        port = int(server.address.rsplit(":", 1)[1])
        with pytest.raises(SettingsError) as error:
            HealthServer(Health(60), "127.0.0.1", port)
        lane = Settings(home=tmp_path, early=EarlySettings(enabled=True, port=port))
        with pytest.raises(SettingsError, match=r"set early\.port to a free one"):
            LaneHealth(lane).server(lane, silent)
    assert re.fullmatch(rf"health: cannot listen on 127\.0\.0\.1:{port} \(.+\); set health\.port .*", str(error.value))


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
@pytest.mark.parametrize("host", ["::1", "::"])
def test_an_address_of_ipv6_is_listened_on_and_asked(host: str, tmp_path: Path) -> None:
    with HealthServer(Health(60), host, 0) as server:
        port = int(server.address.rpartition(":")[2])
        assert server.address == f"http://[{host}]:{port}"
        assert not port_is_free(port, host)
        settings = Settings(home=tmp_path, health=HealthSettings(host=host, port=port))
        (asked,) = addresses(settings)
        assert job_addresses(settings) == [asked] == [f"http://[::1]:{port}"]
        assert get(asked + "/healthz")[0] == 200
    assert port_is_free(port, host)


def test_jobs_whose_port_is_taken_are_refused_before_anything_is_started(tmp_path: Path) -> None:
    """No broker answers there: an error about Kafka would show that the port was not checked first."""
    with HealthServer(Health(60), "127.0.0.1", 0) as server:
        port = int(server.address.rsplit(":", 1)[1])
        settings = Settings(
            home=tmp_path,
            kafka=KafkaSettings(bootstrap_servers="127.0.0.1:1"),
            health=HealthSettings(port=port),
        )
        with pytest.raises(SettingsError, match="health: cannot listen"):
            run_until_stopped(settings, JobSelection(("correlate",)), threading.Event())
    assert [p.name for p in tmp_path.iterdir()] == ["versions"]


def test_a_port_that_was_taken_and_never_served_is_let_go() -> None:
    server = HealthServer(Health(60), "127.0.0.1", 0)
    port = int(server.address.rsplit(":", 1)[1])
    server.close()
    with HealthServer(Health(60), "127.0.0.1", port) as again:
        assert get(again.address + "/healthz")[0] == 200
