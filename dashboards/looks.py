"""How charts look: colours, shapes, and axes of time in the reader's zone."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import altair as alt
import pandas as pd

from dashboards.queries.search import Span

# Okabe and Ito's palette: told apart with any colour vision, and visible on white and on black. Shapes say it again.
LOOKS = {
    "anomaly": ("#D55E00", "circle"),
    "silence": ("#CC79A7", "square"),
    "new": ("#009E73", "triangle-up"),
    "change": ("#0072B2", "diamond"),
}
SEEN, EXPECTED, SURPRISE = "#E69F00", "#56B4E9", "#D55E00"
LEFT, RIGHT = "#E69F00", "#56B4E9"
# Streamlit's own names for colours near those of LOOKS, for words.
WORD_COLOURS = {"anomaly": "orange", "silence": "violet", "new": "green", "change": "blue"}


def badge(kind: str) -> str:
    """A kind of novelty as a coloured word."""
    return f":{WORD_COLOURS.get(kind, 'gray')}-badge[{kind}]"


def kinds_in(found: Iterable[str]) -> list[str]:
    """The kinds that there are, in the order of LOOKS."""
    there = set(found)
    return [kind for kind in LOOKS if kind in there]


def colour(kinds: list[str], **more: Any) -> alt.Color:
    """A kind as its colour."""
    return alt.Color("kind:N", title="kind", scale=alt.Scale(domain=kinds, range=[LOOKS[k][0] for k in kinds]), **more)


def shape(kinds: list[str], **more: Any) -> alt.Shape:
    """A kind as its shape."""
    return alt.Shape("kind:N", title="kind", scale=alt.Scale(domain=kinds, range=[LOOKS[k][1] for k in kinds]), **more)


def time_axis(field: str, span: Span, zone: ZoneInfo, title: str | None = "") -> alt.X:
    """Event time over the whole span; an empty title becomes the zone's."""
    return alt.X(
        f"{field}:T",
        title=f"event time ({zone.key})" if title == "" else title,
        # Dates, not milliseconds: of those Vega makes no scale, and every point stands at the left edge.
        scale=alt.Scale(domain=[date(span.start), date(span.end)], nice=False),
        axis=alt.Axis(format=label_format(span), labelOverlap=True, tickCount=8),
    )


def label_format(span: Span) -> str:
    """How the axis writes times: with the day where there are several."""
    return "%H:%M" if span.length <= timedelta(days=1) else "%a %d, %H:%M"


def date(time: datetime) -> pd.Timestamp:
    """A time as Altair writes dates: in UTC."""
    return pd.Timestamp(time).tz_convert("UTC")


def millis(time: datetime) -> int:
    """Epoch milliseconds."""
    return int(time.timestamp() * 1000)
