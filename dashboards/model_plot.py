"""A series over time: observed values, expected values, and scores."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pandas as pd

from dashboards.queries.search import Span
from dashboards.theme import (
    AXIS_PIXELS,
    EXPECTED,
    OBSERVED,
    SURPRISE,
    Chart,
    Spec,
    colour,
    kinds_in,
    nominal,
    quantity,
    shape,
    time_axis,
    tooltip_time,
)
from dashboards.words import TIME_FORMAT, number

PLOT_PIXELS, SCORE_PIXELS = 300, 140  # axes and legend included
LIMIT_NATS = 13.8  # one in a million
GAP_WINDOWS = 3.5  # of usual distance: further apart, points are not joined
HOW_TO_READ = (
    "Orange line: seen. Dashed blue line: typical. Blue band: what would have been normal. "
    "Marks: windows in which a novelty was open; their colour and shape say of which kind."
)


def model_plot(points: pd.DataFrame, span: Span, zone: ZoneInfo, title: str) -> Chart:
    """Observed, typical and bounds over time, novel windows marked. `points` has the columns of POINT; `title` is of the axis."""
    rows = with_gaps(points.assign(description=described(points, zone)))
    y = quantity(
        "value", title=title, scale={"zero": False}, axis={"format": "~s", "labelLimit": 80, "minExtent": AXIS_PIXELS}
    )
    tooltip = nominal("description")
    layers = [
        layer({"type": "area", "color": EXPECTED, "opacity": 0.25}, "lower", title, y2={"field": "upper"}),
        layer({"type": "line", "color": EXPECTED, "strokeDash": [4, 3], "strokeWidth": 1.5}, "typical", title),
        *extremes(rows, title),
        {"mark": {"type": "line", "color": OBSERVED, "strokeWidth": 1.8}, "encoding": {"y": y}},
        {"mark": {"type": "point", "size": 60, "opacity": 0}, "encoding": {"y": y, "tooltip": tooltip}},
    ]
    kinds = kinds_in(rows["kind"].dropna())
    if kinds:
        styles = {"color": colour(kinds, legend={"orient": "top", "symbolOpacity": 1}), "shape": shape(kinds)}
        novel = {"type": "point", "filled": True, "size": 55, "opacity": 1}
        chosen = [{"filter": {"field": "kind", "oneOf": kinds}}]
        layers.append({"transform": chosen, "mark": novel, "encoding": {"y": y, **styles, "tooltip": tooltip}})
    x = time_axis("time", span, zone)
    return Chart(rows, {"height": PLOT_PIXELS, "encoding": {"x": x}, "layer": layers})


def extremes(rows: pd.DataFrame, title: str) -> list[Spec]:
    """The range of each point, if points represent several windows."""
    rule = {"type": "rule", "color": OBSERVED, "opacity": 0.35}
    several = (rows["least"] < rows["most"]).any()
    return [layer(rule, "least", title, y2={"field": "most"})] if several else []


def layer(mark: Spec, field: str, title: str, **encoding: Spec) -> Spec:
    """A layer of one number over time, or of all between two."""
    return {"mark": mark, "encoding": {"y": quantity(field, title=title), **encoding}}


def described(points: pd.DataFrame, zone: ZoneInfo) -> list[str]:
    """Each point in a sentence, for its tooltip.

    Vega makes the tooltips of all points when it draws them, and interprets an expression for each field of each.
    """
    until = points["time"].dt.tz_convert(zone).dt.strftime(TIME_FORMAT)
    columns = (points[name].tolist() for name in ("value", "typical", "lower", "upper", "score", "kind"))
    return [
        f"until {at}: seen {number(value)}, expected {number(lower)} to {number(upper)}, typically {number(typical)}"
        f" · score {number(score)} nats · {kind}"
        for at, value, typical, lower, upper, score, kind in zip(until, *columns, strict=True)
    ]


def score_plot(points: pd.DataFrame, span: Span, zone: ZoneInfo) -> Chart:
    """How surprising the series was, over time; the line is at one in a million."""
    line = {"color": SURPRISE, "strokeWidth": 1}
    area = {
        "mark": {"type": "area", "color": SURPRISE, "opacity": 0.5, "line": line},
        "encoding": {
            "x": time_axis("time", span, zone),
            "y": quantity("score", title="score (nats)", axis={"tickCount": 4, "minExtent": AXIS_PIXELS}),
            "tooltip": [tooltip_time("time", "window until"), quantity("score", title="score (nats)", format=",.1f")],
        },
    }
    limit = {
        "mark": {"type": "rule", "strokeDash": [2, 3], "color": "#888888"},
        "encoding": {"y": {"datum": LIMIT_NATS, "type": "quantitative"}},
    }
    return Chart(with_gaps(points), {"height": SCORE_PIXELS, "layer": [area, limit]})


def with_gaps(points: pd.DataFrame) -> pd.DataFrame:
    """Points with an empty one wherever windows are missing, so that no line is drawn across."""
    if len(points) < 3:
        return points
    steps = points["time"].diff()
    usual = steps.median()
    after = points.index[steps > GAP_WINDOWS * usual]
    if after.empty:
        return points
    holes = pd.DataFrame({"time": points.loc[after, "time"] - usual / 2})
    return pd.concat([points, holes.reindex(columns=points.columns)], ignore_index=True).sort_values("time")
