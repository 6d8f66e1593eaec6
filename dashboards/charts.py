"""Charts of the pages: frames in, Altair charts out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import altair as alt
import pandas as pd

from dashboards.queries import LASTING, Span

# Okabe and Ito's palette: told apart with any colour vision, and visible on white and on black. Shapes say it again.
LOOKS = {
    "anomaly": ("#D55E00", "circle"),
    "silence": ("#CC79A7", "square"),
    "new": ("#009E73", "triangle-up"),
    "change": ("#0072B2", "diamond"),
}
LANE_PIXELS = 30
AXES_PIXELS = 110
COLUMNS = ("host", "kind", "from", "to", "began", "ended", "service", "what", "score", "reason")
TIME_FORMAT = "%Y-%m-%d %H:%M:%S %Z"


def swim_lanes(novelties: pd.DataFrame, hosts: Sequence[str], span: Span, zone: ZoneInfo) -> alt.LayerChart:
    """Novelties over time: a lane for each host in the order given, within it a line for each kind.

    `novelties` has the columns of queries.NOVELTY. A bar lasts as long as the novelty, a mark stands where it began.
    """
    rows = lanes(novelties, span, zone)
    kinds = [kind for kind in LOOKS if kind in set(rows["kind"])]
    colours, shapes = [LOOKS[k][0] for k in kinds], [LOOKS[k][1] for k in kinds]
    start, end = millis(span.start), millis(span.end)
    x = alt.X(
        "from:T",
        title=f"event time ({zone.key})",
        scale=alt.Scale(domain=[start, end], nice=False),
        axis=alt.Axis(format=label_format(span), labelOverlap=True, tickCount=8),
    )
    lanes_axis = alt.Axis(labelLimit=220, grid=True, tickBand="extent")
    base = alt.Chart(rows).encode(
        y=alt.Y(
            "host:N", title="host, highest score first", sort=list(hosts), scale=alt.Scale(padding=0), axis=lanes_axis
        ),
        yOffset=alt.YOffset("kind:N", scale=alt.Scale(domain=kinds, padding=0.9)),
        color=alt.Color(
            "kind:N",
            title="kind",
            scale=alt.Scale(domain=kinds, range=colours),
            legend=alt.Legend(orient="top", symbolOpacity=1),
        ),
        tooltip=[
            alt.Tooltip("host:N"),
            alt.Tooltip("kind:N"),
            alt.Tooltip("service:N"),
            alt.Tooltip("what:N"),
            alt.Tooltip("began:N", title="since"),
            alt.Tooltip("ended:N", title="until"),
            alt.Tooltip("score:Q", title="score (nats)", format=",.1f"),
            alt.Tooltip("reason:N"),
        ],
    )
    bars = base.mark_rule(strokeWidth=6, opacity=0.75).encode(x=x, x2="to:T")
    shape = alt.Shape("kind:N", title="kind", scale=alt.Scale(domain=kinds, range=shapes))
    # What began before the span has no mark: its bar comes in from the left.
    marks = base.transform_filter(f"datum.from > {start}").mark_point(filled=True, size=60, opacity=1)
    return alt.LayerChart(layer=[bars, marks.encode(x=x, shape=shape)]).properties(
        height=LANE_PIXELS * len(hosts) + AXES_PIXELS
    )


def lanes(novelties: pd.DataFrame, span: Span, zone: ZoneInfo) -> pd.DataFrame:
    """What the chart draws: `from` and `to` within the span, and words for the tooltip. Columns of COLUMNS."""
    start, end = pd.Timestamp(span.start), pd.Timestamp(span.end)
    going_on = novelties["kind"].isin(LASTING) & (novelties["status"] != "close")
    until = novelties["until"].fillna(novelties["latest"])
    words = until.dt.tz_convert(zone).dt.strftime(TIME_FORMAT)
    since, to = novelties["since"], until.mask(going_on, end)
    drawn = novelties.assign(
        **{"from": since.mask(since < start, start), "to": to.mask(to < start, start).mask(to > end, end)},
        began=since.dt.tz_convert(zone).dt.strftime(TIME_FORMAT),
        ended=words.mask(going_on, "not over yet"),
        what=what(novelties),
        service=novelties["service"].fillna(""),
    )
    return drawn[list(COLUMNS)]


def what(novelties: pd.DataFrame) -> pd.Series[str]:
    """What a novelty is about: a metric, a template, lines of a level; else a whole service or host."""
    lines = novelties["level"].dropna() + " lines"
    whole = "whole " + novelties["series"].str.partition("/")[0]
    found: pd.Series[str] = novelties["metric"].fillna(novelties["template"]).fillna(lines).fillna(whole).astype(str)
    return found


def label_format(span: Span) -> str:
    """How the axis writes times: with the day where there are several."""
    return "%H:%M" if span.end - span.start <= timedelta(days=1) else "%a %d, %H:%M"


def millis(time: datetime) -> int:
    """Epoch milliseconds."""
    return int(time.timestamp() * 1000)
