"""The dashboard for Grafana, from one value: the pipeline from Prometheus, incidents from Elasticsearch.

    python -m dashboards.grafana      (writes deploy/grafana/kappa.json)

In the form of Grafana 10.1, which newer ones take.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parents[1] / "deploy" / "grafana" / "kappa.json"
PROMETHEUS, ELASTICSEARCH = "prometheus", "elasticsearch"
WIDTH = 24
# Distinguished without red and green.
COLOURS = {"critical": "#D55E00", "major": "#E69F00", "minor": "#56B4E9", "info": "#999999"}
SELECTED = 'instance=~"$instance"'


@dataclass(frozen=True)
class GrafanaPanel:
    """A panel.

    `kind`      Grafana's name of the plugin; `row` is a heading.
    `queries`   PromQL by legend; for Elasticsearch one Lucene query by the name of what it makes, `histogram` or `documents`.
    `unit`      Grafana's name of it.
    """

    title: str
    kind: str = "timeseries"
    queries: tuple[tuple[str, str], ...] = ()
    unit: str = "short"
    source: str = PROMETHEUS
    width: int = 8
    height: int = 7
    about: str = ""
    fields: tuple[str, ...] = ()


def rate(name: str, by: str = "kappa_job") -> str:
    """PromQL: how many a second."""
    return f"sum by ({by}) (rate({name}{{{SELECTED}}}[$__rate_interval]))"


def gauge(name: str) -> str:
    """PromQL: a number of each job."""
    return f"max by (kappa_job) ({name}{{{SELECTED}}})"


def quantile(q: float, name: str) -> str:
    """PromQL: a quantile of a histogram."""
    return f"histogram_quantile({q:g}, sum by (kappa_job, le) (rate({name}_bucket{{{SELECTED}}}[$__rate_interval])))"


JOB = "{{kappa_job}}"
INCIDENT_FIELDS = ("@timestamp", "novelty.severity", "novelty.status", "host.name", "service.name", "message")
PANELS = (
    GrafanaPanel("What is found", "row"),
    GrafanaPanel(
        "Open incidents",
        "stat",
        (("{{severity}}", f"sum by (severity) (kappa_open_incidents{{{SELECTED}}})"),),
        about="Published and not closed, by severity.",
    ),
    GrafanaPanel("Incidents that began", queries=(("histogram", "*"),), source=ELASTICSEARCH, width=16),
    GrafanaPanel(
        "Latest incidents",
        "table",
        (("documents", "*"),),
        source=ELASTICSEARCH,
        width=WIDTH,
        height=10,
        fields=INCIDENT_FIELDS,
    ),
    GrafanaPanel("Pipeline", "row"),
    GrafanaPanel("Records not read", queries=((JOB, gauge("kappa_lag_records")),)),
    GrafanaPanel(
        "Window end to results",
        queries=tuple((f"{JOB} p{q * 100:g}", quantile(q, "kappa_latency_seconds")) for q in (0.5, 0.99)),
        unit="s",
        about="Of correlate: the delay of an alarm. Lateness is part of it.",
    ),
    GrafanaPanel("Batches, p99", queries=((JOB, quantile(0.99, "kappa_batch_duration_seconds")),), unit="s"),
    GrafanaPanel("Records read", queries=((JOB, rate("kappa_rows_total")),), unit="cps"),
    GrafanaPanel("Since the last batch", queries=((JOB, gauge("kappa_last_progress_age_seconds")),), unit="s"),
    GrafanaPanel("Watermark behind", queries=((JOB, gauge("kappa_watermark_delay_seconds")),), unit="s"),
    GrafanaPanel("Refused records", queries=(("{{topic}}", rate("kappa_refused_total", "topic")),), unit="cps"),
    GrafanaPanel(
        "Notifications",
        queries=(("{{channel}} {{outcome}}", rate("kappa_notifications_total", "channel, outcome")),),
        unit="cps",
    ),
    GrafanaPanel("State", queries=((JOB, gauge("kappa_state_bytes")),), unit="bytes"),
    GrafanaPanel(
        "Early alarms",
        queries=(("{{status}}", f"sum by (status) (increase(kappa_early_alarms_total{{{SELECTED}}}[1h]))"),),
        about="An hour, of the lane in real time: raised, confirmed by an incident, withdrawn. Needs early.port.",
    ),
    GrafanaPanel(
        "Won by early alarms",
        queries=(
            (
                "median",
                f"histogram_quantile(0.5, sum by (le) (increase(kappa_early_won_seconds_bucket{{{SELECTED}}}[6h])))",
            ),
        ),
        unit="s",
        about="By how much confirmed early alarms came before the first record of their incident. Needs early.port.",
    ),
    GrafanaPanel(
        "To look at",
        "stat",
        (
            ("series", f"max(kappa_series{{{SELECTED}}})"),
            ("left out an hour", f"sum(increase(kappa_left_out_total{{{SELECTED}}}[1h]))"),
            ("in quarantine", f"max(kappa_quarantined_records{{{SELECTED}}})"),
            ("restarts a day", f"sum(increase(kappa_restarts_total{{{SELECTED}}}[1d]))"),
            ("violations", f"max(kappa_determinism_violations{{{SELECTED}}})"),
        ),
    ),
)


def dashboard(panels: tuple[GrafanaPanel, ...] = PANELS) -> dict[str, Any]:
    """The dashboard as Grafana imports it. Which data sources are asked is chosen on it."""
    sources = [
        {"name": kind, "type": "datasource", "query": kind, "label": kind.capitalize(), "current": {}}
        for kind in (PROMETHEUS, ELASTICSEARCH)
    ]
    instance = {
        "name": "instance",
        "type": "query",
        "label": "Process",
        "datasource": source_of(PROMETHEUS),
        "query": "label_values(kappa_build_info, instance)",
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "refresh": 2,
        "current": {"text": ["All"], "value": ["$__all"], "selected": True},
    }
    return {
        "uid": "kappa-overview",
        "title": "kappa: what is new",
        "description": "Incidents from Elasticsearch, the pipeline from Prometheus.",
        "tags": ["kappa"],
        "schemaVersion": 36,
        "editable": True,
        "refresh": "1m",
        "time": {"from": "now-24h", "to": "now"},
        "templating": {"list": [*sources, instance]},
        "panels": list(placed(panels)),
    }


def placed(panels: tuple[GrafanaPanel, ...]) -> Iterator[dict[str, Any]]:
    """Panels with their places, from left to right; a heading, and what finds no room, begins a line."""
    x, y, height = 0, 0, 0
    for number, panel in enumerate(panels, 1):
        width = WIDTH if panel.kind == "row" else panel.width
        if x + width > WIDTH:
            x, y, height = 0, y + height, 0
        own = 1 if panel.kind == "row" else panel.height
        place = {"x": x, "y": y, "w": width, "h": own}
        x, height = x + width, max(height, own)
        yield {"id": number, "title": panel.title, "type": panel.kind, "gridPos": place} | content(panel)


def content(panel: GrafanaPanel) -> dict[str, Any]:
    """What a panel asks for, and how it shows the answer."""
    if panel.kind == "row":
        return {"collapsed": False, "panels": []}
    colours = [
        {
            "matcher": {"id": "byName", "options": word},
            "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": colour}}],
        }
        for word, colour in COLOURS.items()
    ]
    bars = {"drawStyle": "bars", "fillOpacity": 80, "stacking": {"mode": "normal", "group": "A"}}
    custom = bars if panel.source == ELASTICSEARCH and panel.kind == "timeseries" else {}
    target = elasticsearch_target if panel.source == ELASTICSEARCH else prometheus_target
    columns = {name: index for index, name in enumerate(panel.fields)}
    only = {"id": "filterFieldsByName", "options": {"include": {"names": list(panel.fields)}}}
    order = {"id": "organize", "options": {"indexByName": columns, "excludeByName": {}, "renameByName": {}}}
    return {
        "description": panel.about,
        "datasource": source_of(panel.source),
        "targets": [target(chr(ord("A") + i), *query, panel) for i, query in enumerate(panel.queries)],
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "min": 0, "custom": custom},
            "overrides": colours if "severit" in json.dumps(panel.queries) or custom else [],
        },
        "transformations": [only, order] if panel.fields else [],
    }


def source_of(kind: str) -> dict[str, str]:
    """The data source that is chosen on the dashboard."""
    return {"type": kind, "uid": f"${{{kind}}}"}


def prometheus_target(name: str, legend: str, expression: str, panel: GrafanaPanel) -> dict[str, Any]:
    """A query of Prometheus; a panel of numbers asks for now alone."""
    now = panel.kind == "stat"
    return {"refId": name, "expr": expression, "legendFormat": legend, "instant": now, "range": not now}


def elasticsearch_target(name: str, what: str, query: str, panel: GrafanaPanel) -> dict[str, Any]:
    """A query of Elasticsearch: documents, newest first, or how many began when, by severity."""
    asked = {"refId": name, "query": query, "timeField": "@timestamp"}
    if what == "documents":
        return asked | {"metrics": [{"id": "1", "type": "raw_data", "settings": {"size": "100"}}], "bucketAggs": []}
    by = {"size": "5", "order": "desc", "orderBy": "_term", "min_doc_count": "1"}
    return asked | {
        "metrics": [{"id": "1", "type": "count"}],
        "bucketAggs": [
            {"id": "2", "type": "terms", "field": "novelty.severity", "settings": by},
            {"id": "3", "type": "date_histogram", "field": "@timestamp", "settings": {"interval": "auto"}},
        ],
    }


def text() -> str:
    """The file's content."""
    return json.dumps(dashboard(), indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())
