"""A day of a microservice application, its metrics and lines, through the models: the incidents that come of it, without Kafka or Spark."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.collections import Line, Point, application
from benchmarks.offline import TEXTS, VALUES, WINDOW_MS, count_rows, metric_rows, replayed
from models.core.parameters import DetectorParameters
from models.core.series import Series, build, parse
from models.templates.extraction import template_id, template_of

REPLICA = re.compile(r"-[0-9a-f]{8,10}-[a-z0-9]{5}$")  # what Kubernetes adds to a deployment's name
LEVEL = re.compile(r"[\d:.]+ +([A-Z]+) ")
MOST_SAMPLE = 500  # characters


def rows_of(points: Iterable[Point], lines: Iterable[Line]) -> pd.DataFrame:
    """One row for each series and window, as `benchmarks.offline` has them. A pod is a host, its deployment the service."""
    metrics = [
        (build(Series("gauge", one.pod, service_of(one.pod), one.metric)), window_of(one.at), one.value, one.at)
        for one in points
    ]
    counts: list[tuple[str, int, str | None, str | None]] = []
    for line in lines:
        found, template, end = LEVEL.match(line.message), template_of(line.message), window_of(line.at)
        level = found[1].lower() if found else ""
        names = {"host": line.pod, "service": service_of(line.pod), "level": level}
        counts.append((build(Series("logs", **names)), end, None, None))
        full = Series("template", **names, template_id=template_id(template))
        counts.append((build(full), end, template, line.message[:MOST_SAMPLE]))
    values, texts = pd.DataFrame(metrics, columns=VALUES), pd.DataFrame(counts, columns=TEXTS)
    return pd.concat([metric_rows(values), count_rows(texts)], ignore_index=True)


def service_of(pod: str) -> str:
    """The deployment of a pod."""
    return REPLICA.sub("", pod)


def window_of(at: int) -> int:
    """The end of the window of a moment, both epoch ms."""
    return (at // WINDOW_MS + 1) * WINDOW_MS


def incidents_of(data: Path) -> list[dict[str, Any]]:
    """All incidents of the day, each as it was last published, its hosts ranked by what they contribute."""
    last: dict[str, dict[str, Any]] = {}
    for record in replayed(rows_of(*application(data)), DetectorParameters())[1]:
        last[record["id"]] = record
    return [record | {"hosts": ranked_hosts(record)} for record in last.values()]


def ranked_hosts(record: dict[str, Any]) -> list[str]:
    """The hosts of an incident, those of the strongest series first."""
    strongest = [parse(one["series"]).host for one in record["series"]]
    return list(dict.fromkeys([*filter(None, strongest), *record["hosts"]]))
