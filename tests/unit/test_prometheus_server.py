"""A real Prometheus scrapes `/metrics`, evaluates our rules, has what they record, and tells a real Alertmanager what fires."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from support.prometheus_servers import (
    alertmanager,
    alerts,
    asked,
    prometheus,
    until,
)

from app.core.ports import LOOPBACK
from app.runtime.health import Health, HealthServer

pytestmark = pytest.mark.slow


def test_prometheus_scrapes_evaluates_every_rule_and_tells_an_alertmanager_what_is_wrong(tmp_path: Path) -> None:
    health = Health(stale_seconds=60.0)
    for job in ("extract", "detect", "correlate", "index"):
        health.expect(job)
    health.quarantined(3)
    health.metrics.expect_channel("chat")
    with (
        HealthServer(health, LOOPBACK, 0) as server,
        alertmanager(tmp_path) as receiving,
        prometheus(tmp_path, server.address.split("//")[1], receiving) as url,
    ):

        def value(expression: str) -> Any:
            found = asked(url, f"query?query={quote(expression)}")
            return [float(one["value"][1]) for one in found["result"]] if found else []

        until(lambda: value("kappa_quarantined_records") == [3.0], lambda: "the scrape")
        health.on_progress("detect", {"batchId": 1, "numInputRows": 5, "batchDuration": 700})
        health.metrics.notified("chat", "failed")
        until(lambda: value("kappa_job:kappa_batch_duration_seconds:p99_15m"), lambda: "the recorded series")
        (target,) = asked(url, "targets")["activeTargets"]
        assert (target["health"], target["lastError"]) == ("up", "")
        fires = ["KappaNotificationsFail", "KappaQuarantine"]

        def firing() -> list[str]:
            alerts = (asked(url, "alerts") or {"alerts": []})["alerts"]
            return sorted(one["labels"]["alertname"] for one in alerts if one["state"] == "firing")

        until(lambda: firing() == fires, lambda: f"{fires} to fire, not {firing()}")
        until(
            lambda: len(alerts(receiving)) == len(fires),
            lambda: f"{fires} in the Alertmanager, not {alerts(receiving)}",
        )
        assert sorted(one["labels"]["alertname"] for one in alerts(receiving)) == fires
        assert all(one["annotations"]["summary"] and one["annotations"]["description"] for one in alerts(receiving))
        rules = [rule for group in asked(url, "rules")["groups"] for rule in group["rules"]]
        assert len(rules) > 15 and [rule["lastError"] for rule in rules if rule.get("lastError")] == []
        assert {rule["health"] for rule in rules} == {"ok"}
