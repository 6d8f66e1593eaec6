"""How charts look: colours, shapes, and axes of time in the reader's zone.

Charts are written in Vega-Lite's own words, as dicts. Altair, which writes the same, takes a tenth of a second of a processor for
each to build, check and write out, and a page has several.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import streamlit as st

from dashboards.queries.search import Span
from dashboards.words import make_visible, map_texts, plain
from models.records.records import CRITICAL, INFO, MAJOR, MINOR

Spec = dict[str, Any]

# Okabe and Ito's palette, distinguishable with any colour vision and visible on white and on black. Shapes repeat it.
KIND_STYLES = {
    "anomaly": ("#D55E00", "circle"),
    "silence": ("#CC79A7", "square"),
    "new": ("#009E73", "triangle-up"),
    "change": ("#0072B2", "diamond"),
}
# A canvas, not an accessible element for each mark: that takes a third longer, and a screen reader would read hundreds of
# windows. The text beside a chart has its contents.
QUICK: Spec = {"config": {"aria": False}, "usermeta": {"embedOptions": {"renderer": "canvas"}}}
# Lines and small marks. The palette's orange and sky blue are darkened until they have a contrast of 3 to 1 on white, too.
OBSERVED, EXPECTED, SURPRISE = "#C27C00", "#2E8FCB", "#D55E00"
LEFT, RIGHT = OBSERVED, EXPECTED
AXIS_PIXELS = 46  # of numbers beside a chart: charts of the same time below each other have it at the same place
# Streamlit's own names for colours near those of KIND_STYLES, for words.
SEVERITY_COLOURS = {CRITICAL: "red", MAJOR: "orange", MINOR: "yellow", INFO: "gray"}
WORD_COLOURS = {"anomaly": "orange", "silence": "violet", "new": "green", "change": "blue"}


@dataclass(frozen=True)
class Chart:
    """What is drawn, and how: a specification of Vega-Lite without its data."""

    rows: pd.DataFrame
    spec: Spec

    def show(self, key: str | None = None) -> None:
        """Put it on the page, as wide as there is room."""
        st.vega_lite_chart(
            map_texts(self.rows, make_visible), {**QUICK, **make_visible(self.spec)}, width="stretch", key=key
        )


def badge(kind: str) -> str:
    """A kind of novelty as a coloured word."""
    return f":{WORD_COLOURS.get(kind, 'gray')}-badge[{plain(kind)}]"


def severity_badge(word: object) -> str:
    """A severity as a coloured word; nothing for one that is not known, of documents of before there were any."""
    return f":{SEVERITY_COLOURS[str(word)]}-badge[{word}]" if str(word) in SEVERITY_COLOURS else ""


def kinds_in(found: Iterable[str]) -> list[str]:
    """The kinds that there are, in the order of KIND_STYLES."""
    there = set(found)
    return [kind for kind in KIND_STYLES if kind in there]


def quantity(field: str, **more: Any) -> Spec:
    """A number."""
    return {"field": field, "type": "quantitative", **more}


def nominal(field: str, **more: Any) -> Spec:
    """A name."""
    return {"field": field, "type": "nominal", **more}


def scaled(field: str, title: str, names: list[str], styles: list[str], **more: Any) -> Spec:
    """A name as a colour or a shape: the styles of the names, in their order."""
    return nominal(field, title=title, scale={"domain": names, "range": styles}, **more)


def colour(kinds: list[str], **more: Any) -> Spec:
    """A kind as its colour."""
    return scaled("kind", "kind", kinds, [KIND_STYLES[kind][0] for kind in kinds], **more)


def shape(kinds: list[str]) -> Spec:
    """A kind as its shape."""
    return scaled("kind", "kind", kinds, [KIND_STYLES[kind][1] for kind in kinds])


def time_axis(field: str, span: Span, zone: ZoneInfo, title: str | None = "") -> Spec:
    """Event time over the whole span; an empty title becomes the zone's."""
    return {
        "field": field,
        "type": "temporal",
        "title": f"event time ({zone.key})" if title == "" else title,
        # Dates, not milliseconds: of those Vega makes no scale, and every point stands at the left edge.
        "scale": {"domain": [date(span.start), date(span.end)], "nice": False},
        "axis": {"format": label_format(span), "labelOverlap": True, "tickCount": 8},
    }


def tooltip_time(field: str, title: str) -> Spec:
    """A time in a tooltip, to the second, in the zone of the axis and with its distance from UTC."""
    return {"field": field, "type": "temporal", "title": title, "format": "%Y-%m-%d %H:%M:%S %Z"}


def label_format(span: Span) -> str:
    """How the axis writes times: with the day where there are several."""
    return "%H:%M" if span.length <= timedelta(days=1) else "%a %d, %H:%M"


def date(time: datetime) -> str:
    """A time as Vega-Lite reads it: in UTC."""
    return time.astimezone(UTC).isoformat()


def millis(time: datetime) -> int:
    """Epoch milliseconds."""
    return int(time.timestamp() * 1000)
