"""Early alarms on the pages: provisional ones, and by how much one came before its incident."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from dashboards.chrome import View
from dashboards.queries.early import EarlySummary, FirstSeen
from dashboards.words import clock, code, local_text, plain, plural, series_text
from models.core.wording import distinguishable


def show(found: EarlySummary, view: View) -> None:
    """Those that wait, and how good the others were; nothing where there are none."""
    if not found.waiting.total and found.share is None:
        return
    st.subheader("Early alarms, provisional")
    st.caption(summary_text(found, view))
    for _, row in found.waiting.rows.iterrows():
        st.markdown(f":orange-badge[provisional] {clock(row['time'], view.zone)} {plain(crossing_text(row))}")
    if found.waiting.total > len(found.waiting.rows):
        st.caption(f"{plural(found.waiting.total - len(found.waiting.rows), 'more early alarm')} wait.")


def summary_text(found: EarlySummary, view: View) -> str:
    """What became of the alarms of the time, in a sentence."""
    waiting = f"{plural(found.waiting.total, 'alarm')} raised in the last {view.words} and not settled yet."
    if found.share is None:
        return waiting
    settled = found.confirmed + found.withdrawn
    won = "" if found.won is None else f", a median of {found.won:.0f} s before the incident"
    return f"{waiting} Of {settled:,} raised and settled in that time {found.share:.0%} were confirmed{won}."


def show_first(first: FirstSeen | None, view: View) -> None:
    """When an incident was first seen early, and by how much before its first record."""
    if first is None:
        return
    won = f", {first.row['won']:.0f} s before this incident" if pd.notna(first.row["won"]) else ""
    other = first.row["version"]
    whose = f" in version {code(other)}" if other and other != view.version else ""
    st.markdown(
        f"**First seen early**{whose}: {local_text(first.at, view.zone)}{won}: {plain(crossing_text(first.row))}"
    )


def crossing_text(row: Mapping[str, Any] | pd.Series[Any]) -> str:
    """What a record was beyond, in words."""
    name = series_text(row["series"])
    if pd.isna(row["value"]):
        return f"{name}: a line that its service never had: {str(row['template'] or '')[:200]}"
    above = pd.notna(row["upper"])
    value, bound = distinguishable(float(row["value"]), float(row["upper"] if above else row["lower"]))
    return f"{name}: {value}, {'above' if above else 'below'} {bound}"
