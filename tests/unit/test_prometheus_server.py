"""A real Prometheus scrapes `/metrics`, evaluates our rules, and has what they record and which alerts fire."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from app.core.ports import LOOPBACK, free_port
from app.core.settings import PROJECT
from app.runtime.health import Health, HealthServer

PROMETHEUS = shutil.which("prometheus")
RULES = PROJECT / "deploy" / "prometheus" / "kappa.rules.yml"
EXAMPLE = PROJECT / "deploy" / "prometheus" / "prometheus.yml"
SECONDS = 60.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PROMETHEUS is None, reason="there is no Prometheus here: apt-get install prometheus"),
]


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[str]:
    """A Prometheus with the configuration of the example, but for the target and how often it looks."""
    port = free_port(None)
    text = EXAMPLE.read_text().replace("127.0.0.1:9464", target).replace("interval: 15s", "interval: 1s")
    (folder / "prometheus.yml").write_text(text)
    shutil.copy(RULES, folder)
    options = ("config.file=prometheus.yml", "storage.tsdb.path=data", f"web.listen-address={LOOPBACK}:{port}")
    command = [str(PROMETHEUS), *(f"--{one}" for one in options)]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        yield f"http://{LOOPBACK}:{port}"
    finally:
        process.terminate()
        process.wait(20)


def asked(url: str, path: str) -> Any:
    """What its API answers; None as long as it does not."""
    try:
        with urlopen(f"{url}/api/v1/{path}", timeout=5) as answer:
            return json.loads(answer.read())["data"]
    except OSError:
        return None


def until(what: Callable[[], Any], why: str) -> Any:
    """What a function finds, as soon as it finds something."""
    end = time.monotonic() + SECONDS
    while not (found := what()):
        assert time.monotonic() < end, why
        threading.Event().wait(0.2)
    return found


def test_prometheus_scrapes_evaluates_every_rule_and_fires_what_is_wrong(tmp_path: Path) -> None:
    health = Health(stale_seconds=60.0)
    for job in ("extract", "detect", "correlate", "index"):
        health.expect(job)
    health.quarantined(3)
    health.metrics.expect_channel("chat")
    with HealthServer(health, LOOPBACK, 0) as server, prometheus(tmp_path, server.address.split("//")[1]) as url:

        def value(expression: str) -> Any:
            found = asked(url, f"query?query={quote(expression)}")
            return [float(one["value"][1]) for one in found["result"]] if found else []

        until(lambda: value("kappa_quarantined_records") == [3.0], "the scrape")
        health.on_progress("detect", {"batchId": 1, "numInputRows": 5, "batchDuration": 700})
        health.metrics.notified("chat", "failed")
        until(lambda: value("kappa_job:kappa_batch_duration_seconds:p99_15m"), "the recorded series")
        (target,) = asked(url, "targets")["activeTargets"]
        assert (target["health"], target["lastError"]) == ("up", "")
        fires = ["KappaNotificationsFail", "KappaQuarantine"]

        def firing() -> list[str]:
            alerts = (asked(url, "alerts") or {"alerts": []})["alerts"]
            return sorted(one["labels"]["alertname"] for one in alerts if one["state"] == "firing")

        until(lambda: firing() == fires, f"{fires} to fire")
        rules = [rule for group in asked(url, "rules")["groups"] for rule in group["rules"]]
        assert len(rules) > 15 and [rule["lastError"] for rule in rules if rule.get("lastError")] == []
        assert {rule["health"] for rule in rules} == {"ok"}
