"""Scores of chosen series as metrics for Prometheus: one reading of the newest windows in the topic `scores`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.exposition import generate_latest

from app.core.settings import Settings
from app.kafka.score_log import Question, ScoreLog
from app.versions.pinned_configuration import as_begun
from models.core.series import LEVELS, parse
from pipelines.errors import InputError

MOST_SERIES = 1_000  # each has six metrics: more belong into a search, not into labels
LOOK_BACK_MS = 15 * 60_000
SECONDS = 10.0  # of reading
LABELS = ("series", "kind", "host", "service", "name")
# Metrics by the field of a point; times are in ms there.
METRICS = {
    "score": ("kappa_series_score_nats", "Surprise of the newest window, -ln of its probability"),
    "value": ("kappa_series_value", "What was observed in the newest window"),
    "typical": ("kappa_series_typical", "What was expected"),
    "lower": ("kappa_series_lower", "Lower bound of what was expected"),
    "upper": ("kappa_series_upper", "Upper bound of what was expected"),
    "time": ("kappa_series_window_end_timestamp_seconds", "End of the newest window"),
}


def newest(settings: Settings, series: Sequence[str], now_ms: int) -> dict[str, Mapping[str, Any]]:
    """The newest window of each of these series that has one in the last 15 minutes, as `app.kafka.score_log` has it."""
    # A point a second: no window is shorter, so none is mixed with another one.
    asked = Question(tuple(series), now_ms - LOOK_BACK_MS, now_ms, now_ms, points=LOOK_BACK_MS // 1000, seconds=SECONDS)
    log = ScoreLog(settings, as_begun(settings).windowing.shards)
    try:
        found = log.answer(asked).series
    finally:
        log.close()
    return {name: points[-1] for name, points in found.items()}


def named(series: Sequence[str]) -> Sequence[str]:
    """The names of series, each once. Raises InputError for what is none, a level that there is not, and more than MOST_SERIES."""
    names = tuple(dict.fromkeys(series))
    if len(names) > MOST_SERIES:
        msg = f"export: got {len(names)} series; wanted at most {MOST_SERIES}"
        raise InputError(msg)
    for name in names:
        try:
            level = parse(name).level
        except ValueError as error:
            msg = f"export: {error}"
            raise InputError(msg) from error
        if level and level not in LEVELS:
            msg = f"export: {name!r} has the level {level!r}; wanted {', '.join(LEVELS[:-1])} or {LEVELS[-1]}"
            raise InputError(msg)
    return names


def without(series: Sequence[str], points: Mapping[str, Any]) -> str:
    """A sentence about the series that have no window; empty where all have one."""
    missing = [name for name in series if name not in points]
    minutes = LOOK_BACK_MS // 60_000
    some = f"{missing[0]}{f' and {len(missing) - 1} more' if missing[1:] else ''}" if missing else ""
    return (
        f"no window in the last {minutes} minutes, or not read in {SECONDS:g} s: {some}; check the name" if some else ""
    )


def exposition(points: Mapping[str, Mapping[str, Any]]) -> str:
    """Points in Prometheus' text format. A number that is not known has no line."""
    registry = CollectorRegistry()
    gauges = {key: Gauge(name, about, LABELS, registry=registry) for key, (name, about) in METRICS.items()}
    for name, point in points.items():
        of = parse(name)
        labels = (name, of.kind, of.host, of.service, of.metric or of.template_id or of.level)
        for key, gauge in gauges.items():
            if point.get(key) is not None:
                gauge.labels(*labels).set(point[key] / 1000 if key == "time" else point[key])
    return generate_latest(registry).decode()
