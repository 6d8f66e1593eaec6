"""A sine that is sampled by event time and arrives late and out of order: its sums by window, as each way to sum comes to them.

One period is one window, so that the sum of each whole period is zero: a sample and the one half a period later are opposites.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from support.raw_records import WINDOWING, at, frame, point, raw

from models.core.series import parse
from pipelines.jobs import extract

PERIOD = WINDOWING.window_seconds
PERIODS, SAMPLES = 6, 40  # periods, samples in each
MEAN_DELAY, MOST_DELAY = 2.0, 14.0  # seconds; none is later than `windowing.lateness_seconds` admits
SEED = 20261125


@dataclass(frozen=True)
class Sample:
    """A value with the moment that it is of and the one at which it is appended, in seconds."""

    event: float
    append: float
    value: float


@dataclass(frozen=True)
class EarlySum:
    """What is known of a window, named by its end, at the moment at which one of its records is appended."""

    append: float
    window: int
    total: float


def samples(seed: int = SEED) -> list[Sample]:
    """The samples, in the order in which they are appended."""
    chance = random.Random(seed)
    found = []
    for number in range(PERIODS * SAMPLES):
        event = PERIOD * number / SAMPLES
        delay = min(chance.expovariate(1 / MEAN_DELAY), MOST_DELAY)
        found.append(Sample(event, round(event + delay, 3), round(math.sin(2 * math.pi * event / PERIOD), 6)))
    return sorted(found, key=lambda one: one.append)


def window_of(seconds: float) -> int:
    """The end of the window that a moment is in."""
    return PERIOD * (int(seconds // PERIOD) + 1)


def exact_sums(spark: SparkSession, orders: Mapping[str, Sequence[Sample]]) -> dict[str, dict[int, float]]:
    """The sums of the windows by event time, as `extract` comes to them, of samples by host."""
    rows = [
        raw(point(one.value, at(one.event), host), offset, at(one.append))
        for host, found in orders.items()
        for offset, one in enumerate(found)
    ]
    start = round(at(0).timestamp() * 1000)
    sums: dict[str, dict[int, float]] = {host: {} for host in orders}
    for row in extract.closed_windows(frame(spark, rows), frame(spark, []), WINDOWING).collect():
        assert row["refused"] is None
        sums[parse(row["series"]).host][(row["window_end"] - start) // 1000] = row["n"] * row["mean"]
    return sums


def sums_by_arrival(of: Sequence[Sample]) -> dict[int, float]:
    """The sums of windows of the time at which records are appended."""
    found: dict[int, float] = defaultdict(float)
    for one in of:
        found[window_of(one.append)] += one.value
    return dict(found)


def early_sums(of: Sequence[Sample]) -> list[EarlySum]:
    """The sum of what has come of a window, with each record of it."""
    known: dict[int, float] = defaultdict(float)
    found = []
    for one in of:
        window = window_of(one.event)
        known[window] += one.value
        found.append(EarlySum(one.append, window, known[window]))
    return found


def early_at_the_end(of: Sequence[Sample]) -> dict[int, float]:
    """What is known of each window at the moment at which it ends."""
    found: dict[int, float] = defaultdict(float)
    for one in early_sums(of):
        if one.append <= one.window:
            found[one.window] = one.total
    return dict(found)


def chart(exact: dict[int, float], of: Sequence[Sample]) -> dict[str, Any]:
    """The picture, in Vega-Lite: records, early sums, and the sums by window side by side."""
    records = [{"second": one.event, "value": one.value, "by": "event time"} for one in of]
    records += [{"second": one.append, "value": one.value, "by": "arrival"} for one in of]
    early = [
        {"second": one.append, "sum": one.total, "window": f"{one.window - PERIOD} to {one.window} s"}
        for one in early_sums(of)
    ]
    ways = {
        "exact, by event time": exact,
        "early, at the window's end": early_at_the_end(of),
        "by arrival": sums_by_arrival(of),
    }
    sums = [
        {"window": window, "sum": total, "way": way}
        for way, found in ways.items()
        for window, total in sorted(found.items())
    ]
    seconds = {
        "type": "quantitative",
        "scale": {"domain": [0, PERIOD * (PERIODS + 1)]},
        "axis": {"values": list(range(0, PERIOD * (PERIODS + 2), PERIOD))},
    }
    colours = {"domain": list(ways), "range": ["#0072B2", "#E69F00", "#D55E00"]}
    return {
        "vconcat": [
            {
                "title": {
                    "text": "A sine, at the time that its records are of and at the time that they arrive",
                    "anchor": "start",
                },
                "data": {"values": records},
                "mark": {"type": "point", "filled": True, "size": 18},
                "encoding": {
                    "x": {**seconds, "field": "second", "title": "seconds"},
                    "y": {"field": "value", "type": "quantitative", "title": "value"},
                    "color": {
                        "field": "by",
                        "type": "nominal",
                        "title": None,
                        "scale": {"domain": ["event time", "arrival"], "range": ["#0072B2", "#D55E00"]},
                    },
                },
                "width": 900,
                "height": 170,
            },
            {
                "title": {
                    "text": "Early: the sum of what has come of each window, with every record",
                    "anchor": "start",
                },
                "data": {"values": early},
                "mark": {"type": "line", "interpolate": "step-after"},
                "encoding": {
                    "x": {**seconds, "field": "second", "title": "seconds"},
                    "y": {"field": "sum", "type": "quantitative", "title": "sum so far"},
                    "color": {"field": "window", "type": "nominal", "title": "window", "sort": None},
                },
                "width": 900,
                "height": 190,
            },
            {
                "title": {"text": "The sum of each window", "anchor": "start"},
                "data": {"values": sums},
                "layer": [
                    {"mark": {"type": "bar"}},
                    {"mark": {"type": "point", "filled": True, "size": 70, "opacity": 1}},
                ],
                "encoding": {
                    "x": {
                        "field": "window",
                        "type": "ordinal",
                        "title": "window, by its end (seconds)",
                        "axis": {"labelAngle": 0},
                    },
                    "xOffset": {"field": "way", "sort": list(ways)},
                    "y": {"field": "sum", "type": "quantitative", "title": "sum"},
                    "color": {"field": "way", "type": "nominal", "title": None, "scale": colours},
                },
                "width": 900,
                "height": 190,
            },
        ],
        "padding": {"left": 12, "right": 12, "top": 12, "bottom": 12},
        "background": "white",
        "resolve": {"scale": {"color": "independent", "x": "independent"}},
        "config": {"legend": {"labelLimit": 300}, "view": {"stroke": None}},
    }
