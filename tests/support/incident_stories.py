"""Episode events for the correlator, and what it publishes of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from models.core.series import parse
from models.incidents.correlator import Correlator
from models.incidents.parameters import CorrelationParameters
from models.records.records import NOTHING, EpisodeEvent, IncidentEvent, Watched

T = 1_700_000_000_000


WINDOW = 10_000


def at(window: int) -> int:
    """The end of a window, counted from the story's beginning."""
    return T + window * WINDOW


def episode_event(series: str, window: int, status: str = "open", **more: Any) -> EpisodeEvent:
    """An event; an episode is named for its series and its first window."""
    start = more.pop("start", window)
    parts = parse(series)
    return EpisodeEvent(
        id=f"{series}@{start}",
        series=series,
        kind=more.pop("kind", "anomaly"),
        status=status,
        start=at(start),
        window_end=at(window),
        score=more.pop("score", 20.0),
        evidence=more.pop("evidence", 30.0),
        reason=more.pop("reason", f"{parts.metric or parts.template_id or 'it'} is strange"),
        host=parts.host,
        service=parts.service,
        metric=parts.metric,
        level=parts.level,
        **more,
    )


def play(
    correlator: Correlator, story: Iterable[EpisodeEvent], until: int, watched: Watched = NOTHING
) -> list[IncidentEvent]:
    """Step through all windows of a story."""
    by_window: dict[int, list[EpisodeEvent]] = {}
    for event in story:
        by_window.setdefault(event.window_end, []).append(event)
    return [i for w in range(until + 1) for i in correlator.step(at(w), by_window.get(at(w), []), watched)]


def incidents_of(
    story: Iterable[EpisodeEvent], until: int = 40, watched: Watched = NOTHING, **parameters: Any
) -> list[IncidentEvent]:
    return play(Correlator(CorrelationParameters(**parameters)), story, until, watched)


def brief(incidents: Iterable[IncidentEvent]) -> list[tuple[int, str, str]]:
    """Window, status and kind."""
    return [((i.window_end - T) // WINDOW, i.status, i.kind) for i in incidents]


CPU = "gauge/vm-003/web/system.cpu.utilization"


DISK = "gauge/vm-003/web/system.disk.io"
