"""A fleet under rules and labels, and what its detector publishes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from support.fleet_story import START, WINDOW, DetectorRun, Row, words

from models.core.windows import Windows
from models.detection.controlled_parameters import ControlledParameters

QUICK = ControlledParameters(
    warm_up_minutes=5,
    grace_minutes=5,
    persistence_minutes=3,
    patience_minutes=10,
    metric_clear_minutes=1,
    metric_clear_windows=6,
)


CPU, SIZE, BYTES = "gauge/h-1/web/cpu", "gauge/h-1/db/size", "counter/h-1//bytes"


LINES, LEVEL = "template/h-1/web/info/aa", "logs/h-1/web/info"


STORY = list[dict[str, Row]]


def when(window: int) -> str:
    """The beginning of a window, by its number in a story: its end is the next one's."""
    return datetime.fromtimestamp((START + window * WINDOW) / 1000, UTC).isoformat()


def story(count: int, changed: Mapping[range, Mapping[str, float]] = {}, seed: int = 0) -> STORY:
    """Two hosts with noise; `changed` adds to series (or multiplies lines) in some windows."""
    rng = np.random.default_rng(seed)
    out: STORY = []
    total = 0.0
    for k in range(count):
        more = {name: by for span, by_name in changed.items() if k in span for name, by in by_name.items()}
        total += 1000 + rng.normal() * 10 + more.get(BYTES, 0.0)
        rows: dict[str, Row] = {
            name: round(level + rng.normal() + more.get(name, 0.0), 2)
            for name, level in ((CPU, 20.0), (SIZE, 50.0), ("gauge/h-2//cpu", 30.0))
        }
        lines = int(rng.poisson(5) * more.get(LINES, 1.0))
        rows |= {BYTES: total, "logs/h-2//info": int(rng.poisson(5))}
        rows |= {LEVEL: lines, LINES: (lines, "took <*> ms")} if lines else {}
        out.append(rows)
    return out


def with_appended(rows: Windows, more: Sequence[tuple[str | None, ...]]) -> Windows:
    """Rows and what people have appended, `(series, JSON)` or `(series, name of a rule, JSON)`, as `extract` writes them."""
    size, numbers = len(more), np.full(len(more), np.nan)
    columns = zip(*[(one[0], one[1] if len(one) > 2 else None, one[-1]) for one in more], strict=True)
    series, names, texts = (np.array(column, dtype=object) for column in columns) if more else [numbers] * 3
    added = Windows(series, np.ones(size, dtype=np.int64), numbers, numbers, numbers, numbers, numbers, names, texts)
    both = {f.name: np.concatenate([getattr(rows, f.name), getattr(added, f.name)]) for f in dataclasses.fields(rows)}
    order = np.argsort(both["series"], kind="stable")
    return Windows(**{name: values[order] for name, values in both.items()})


def of(series: str, events: DetectorRun) -> list[tuple[str, str]]:
    return [(status, kind) for name, status, kind in words(events.events) if name == series]


def turns(series: str, events: DetectorRun) -> list[tuple[str, str]]:
    """As `of`, without updates."""
    return [one for one in of(series, events) if one[0] != "update"]


def texts_of(*events: DetectorRun) -> list[str]:
    """All events to the last bit; a number that is none is equal to itself."""
    return [repr(novelty) for one in events for novelty in one.events]


def column(events: DetectorRun, series: str, name: str) -> list[Any]:
    """A column of the scores of a series, window by window."""
    found = []
    for scores in events.scores:
        at = np.flatnonzero(scores.series == series)
        found += [getattr(scores, name)[i] for i in at]
    return found
