"""Who was notified of an incident."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboards.chrome import View
from dashboards.queries.frames import Listing
from dashboards.tables import show_table, text_column, time_column
from models.core.printable import printable

WORDS = {"open": "new", "update": "worse", "close": "over"}


def show(deliveries: pd.DataFrame, view: View) -> None:
    """A table of notifications, where there are any; with their versions where one is of another than is looked at."""
    if deliveries.empty:
        return
    st.subheader("Who was notified")
    shown = deliveries.assign(
        status=deliveries["status"].map(WORDS).fillna(deliveries["status"]),
        **{name: deliveries[name].fillna("").map(answer_text) for name in ("channel", "version", "why", "answer")},
    )
    versions = {"version": text_column("version")} if any(shown["version"] != view.version) else {}
    columns = {
        "at": time_column("when", view.zone),
        "channel": text_column("channel"),
        **versions,
        "status": text_column("what"),
        "severity": text_column("severity"),
        "outcome": text_column("outcome"),
        "why": text_column("by"),
        "answer": text_column("answer", width="large"),
    }
    show_table(Listing(shown, len(shown)), columns, "notifications")


def answer_text(text: object) -> str:
    """A text of a channel, on one line."""
    return printable(str(text))
