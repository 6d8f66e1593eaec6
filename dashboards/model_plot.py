"""A series as its model sees it: what was seen, what was expected, and how surprising that was."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import altair as alt
import pandas as pd

from dashboards.looks import EXPECTED, SEEN, SURPRISE, colour, kinds_in, shape, time_axis
from dashboards.queries.search import Span
from dashboards.words import TIME_FORMAT

PLOT_PIXELS, SCORE_PIXELS = 300, 140  # axes and legend included
GAP_WINDOWS = 3.5  # of usual distance: further apart, points are not joined
HOW_TO_READ = (
    "Orange line: seen. Dashed blue line: typical. Blue band: what would have been normal. "
    "Marks: windows that the model calls novel; their colour and shape say how."
)


def model_plot(points: pd.DataFrame, span: Span, zone: ZoneInfo, title: str) -> alt.LayerChart:
    """Seen, typical and bounds over time, novel windows marked. `points` has the columns of POINT; `title` is of the axis."""
    rows = with_gaps(points)
    rows = rows.assign(at=rows["time"].dt.tz_convert(zone).dt.strftime(TIME_FORMAT))
    base = alt.Chart(rows).encode(x=time_axis("time", span, zone))
    y = alt.Y("value:Q", title=title, scale=alt.Scale(zero=False), axis=alt.Axis(format="~s", labelLimit=80))
    tooltip = [alt.Tooltip("at:N", title="window until"), *numbers(), alt.Tooltip("kind:N", title="kind")]
    band = base.mark_area(color=EXPECTED, opacity=0.25).encode(y=alt.Y("lower:Q", title=title), y2="upper:Q")
    typical = base.mark_line(color=EXPECTED, strokeDash=[4, 3], strokeWidth=1.5).encode(
        y=alt.Y("typical:Q", title=title)
    )
    extremes = base.mark_rule(color=SEEN, opacity=0.35).encode(y=alt.Y("least:Q", title=title), y2="most:Q")
    seen = base.mark_line(color=SEEN, strokeWidth=1.8).encode(y=y)
    touched = base.mark_point(size=60, opacity=0).encode(y=y, tooltip=tooltip)
    layers = [band, typical, extremes, seen, touched]
    kinds = kinds_in(rows["kind"].dropna())
    if kinds:
        novel = base.transform_filter(alt.FieldOneOfPredicate("kind", kinds)).mark_point(
            filled=True, size=55, opacity=1
        )
        legend = alt.Legend(orient="top", symbolOpacity=1)
        layers.append(novel.encode(y=y, color=colour(kinds, legend=legend), shape=shape(kinds), tooltip=tooltip))
    return alt.LayerChart(layer=layers).properties(height=PLOT_PIXELS)


def numbers() -> list[alt.Tooltip]:
    """What is read off a point."""
    names = {
        "value": "seen",
        "typical": "typical",
        "lower": "expected from",
        "upper": "expected to",
        "score": "score (nats)",
    }
    return [alt.Tooltip(f"{name}:Q", title=title, format=",.4~g") for name, title in names.items()]


def score_plot(points: pd.DataFrame, span: Span, zone: ZoneInfo) -> alt.LayerChart:
    """How surprising the series was, over time; the line is at one in a million."""
    base = alt.Chart(with_gaps(points)).encode(x=time_axis("time", span, zone))
    area = base.mark_area(color=SURPRISE, opacity=0.5, line={"color": SURPRISE, "strokeWidth": 1}).encode(
        y=alt.Y("score:Q", title="score (nats)", axis=alt.Axis(tickCount=4)),
        tooltip=[alt.Tooltip("score:Q", title="score (nats)", format=",.1f")],
    )
    limit = alt.Chart(pd.DataFrame({"score": [13.8]})).mark_rule(strokeDash=[2, 3], color="#888888")
    return alt.LayerChart(layer=[area, limit.encode(y="score:Q")]).properties(height=SCORE_PIXELS)


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
