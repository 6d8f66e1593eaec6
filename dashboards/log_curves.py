"""Curves of series whose scores are not indexed, read from the log when they are looked at; and what that costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboards.chrome import View
from dashboards.identity import RESPONDER
from dashboards.queries.deployment import Unanswered
from dashboards.queries.score_log import SECONDS, Curves, curves
from dashboards.queries.search import Span
from dashboards.words import plain

MOST_SECONDS = 60.0
SPARE = 1.5  # of the time that reading all has been reckoned to take
NONE = (
    "There is no curve to show: no series here has a score of that time in the log. It is kept there for "
    "`topics.retention_hours`; a host or service as a whole has none."
)
INDEXED = "With `index.scores = true` they are in Elasticsearch from then on."


def has_curve(series: str) -> bool:
    """Whether such a series is scored in each window; a whole host or service is not."""
    return series.startswith(("gauge/", "counter/", "logs/", "template/"))


def read_curves(
    view: View, series: Sequence[str], span: Span, focus: datetime, key: str, place: DeltaGenerator
) -> Mapping[str, pd.DataFrame]:
    """A frame for each series that has scores in the span, columns of POINT; `place` gets a word where some are missing."""
    wanted = [name for name in series if has_curve(name)]
    if not wanted:
        return {}
    asked: float = st.session_state.get(key, SECONDS)
    with place:
        try:
            with st.spinner("Reading scores from the log …"):
                found = curves(view.version, wanted, span, focus, asked)
        except Unanswered as error:
            st.info(f"There is no curve to show: {plain(error)} {INDEXED}", icon=":material/info:")
            return {}
        if not found.complete:
            show_cost(found, view, key)
        elif not found.points:
            st.info(NONE, icon=":material/info:")
    return found.points


def show_cost(found: Curves, view: View, key: str) -> None:
    """Show how much of the scores was read, and how long all would take, with a button that reads all if that is not too long."""
    st.caption(
        f"Scores are not indexed: {found.share:.0%} of those of that time were read from the log; all of them take about "
        f"{found.seconds:,.0f} s. {INDEXED}"
    )
    wanted = SPARE * found.seconds
    if wanted <= MOST_SECONDS and view.who.may(RESPONDER):
        st.button(
            "Read all of them", key=f"{key} all", icon=":material/hourglass:", on_click=set_reading_seconds(key, wanted)
        )


def set_reading_seconds(key: str, seconds: float) -> Callable[[], None]:
    """A callback that lets the next run of the page read for so many seconds."""

    def ask() -> None:
        st.session_state[key] = seconds

    return ask
