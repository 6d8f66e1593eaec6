"""Swim lanes: novelties over time, a lane for each host, service or series."""

from __future__ import annotations

from collections.abc import Sequence
from zoneinfo import ZoneInfo

import pandas as pd

from dashboards.queries.episodes import LASTING
from dashboards.queries.search import Span
from dashboards.theme import Chart, colour, kinds_in, millis, nominal, shape, time_axis
from dashboards.words import TIME_FORMAT, novelty_subject

LANE_PIXELS = 30
LEAST_LANES = 4  # the axis' title needs so many
AXES_PIXELS = 150
LABEL_PIXELS = 260  # of a lane's name; a third of the window on a phone
AXIS_PIXELS = LABEL_PIXELS + 40  # without it the title is drawn over names of more than 200 pixels
COLUMNS = ("lane", "host", "kind", "from", "to", "began", "ended", "service", "what", "score", "reason")
TOOLTIP = {
    "host": "host",
    "kind": "kind",
    "service": "service",
    "what": "what",
    "began": "since",
    "ended": "until",
    "reason": "reason",
}


def swim_lanes(
    novelties: pd.DataFrame, names: Sequence[str], span: Span, zone: ZoneInfo, lane: str = "host", title: str = ""
) -> Chart:
    """Novelties over time: a lane for each name in the order given, within it a line for each kind.

    `novelties` has the columns of NOVELTY, `lane` is the one whose values are names of lanes. A bar lasts as long as the
    novelty, a mark stands where it began.
    """
    rows = drawn(novelties.assign(lane=novelties[lane]), span, zone)
    kinds = kinds_in(rows["kind"])
    lanes = nominal(
        "lane",
        title=title or f"{lane}, the most surprising first",
        sort=list(names),
        scale={"padding": 0},
        axis={
            "labelLimit": {"expr": f"clamp(windowSize()[0] / 3, 90, {LABEL_PIXELS})"},
            "maxExtent": AXIS_PIXELS,
            "titlePadding": 24,
            "grid": True,
            "tickBand": "extent",
        },
    )
    x = time_axis("from", span, zone)
    bars = {"mark": {"type": "rule", "strokeWidth": 6, "opacity": 0.75}, "encoding": {"x": x, "x2": {"field": "to"}}}
    marks = {
        # What began before the span has no mark: its bar comes in from the left.
        "transform": [{"filter": f"datum.from > {millis(span.start)}"}],
        "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
        "encoding": {"x": x, "shape": shape(kinds)},
    }
    encoding = {
        "y": lanes,
        "yOffset": nominal("kind", scale={"domain": kinds, "padding": 0.9}),
        "color": colour(kinds, legend={"orient": "top", "symbolOpacity": 1}),
        "tooltip": [nominal(name, title=text) for name, text in TOOLTIP.items()],
    }
    height = LANE_PIXELS * max(len(names), LEAST_LANES) + AXES_PIXELS
    return Chart(rows, {"height": height, "encoding": encoding, "layer": [bars, marks]})


def drawn(novelties: pd.DataFrame, span: Span, zone: ZoneInfo) -> pd.DataFrame:
    """What the chart draws: `from` and `to` within the span, and words for the tooltip. Columns of COLUMNS.

    `novelties` has a column `lane`.
    """
    # To the millisecond, as the chart reads times: else what began before the span would seem to begin just after its start.
    start, end = (pd.Timestamp(millis(time), unit="ms", tz="UTC") for time in (span.start, span.end))
    going_on = novelties["kind"].isin(LASTING) & (novelties["status"] != "close")
    until = novelties["until"].fillna(novelties["latest"])
    words = until.dt.tz_convert(zone).dt.strftime(TIME_FORMAT)
    since, to = novelties["since"], until.mask(going_on, end)
    rows = novelties.assign(
        **{"from": since.mask(since < start, start), "to": to.mask(to < start, start).mask(to > end, end)},
        began=since.dt.tz_convert(zone).dt.strftime(TIME_FORMAT),
        ended=words.mask(going_on, "not over yet"),
        what=novelty_subject(novelties),
        service=novelties["service"].fillna(""),
    )
    return rows[list(COLUMNS)]
