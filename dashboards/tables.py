"""Tables and their columns, the same on every page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import streamlit as st

from dashboards.queries.frames import Listing
from dashboards.words import JOINER, map_texts, one_line
from models.core.formulas import as_text

SCORE_HELP = "Surprise in nats, -ln of the probability: 13.8 is one in a million."
HIDDEN = ("score",)  # nats are for who asks
MISSING = ""
TIME_FORMAT = "MM-DD HH:mm:ss"


def show_table(
    listing: Listing, config: Mapping[str, Any], things: str = "rows", *, hidden: Sequence[str] = HIDDEN
) -> None:
    """Rows as a table with the columns of `config`, in its order; with a note if not all are listed.

    Columns that are `hidden` are shown by whoever asks the table's toolbar for them.
    """
    st.dataframe(
        visible_cells(listing.rows[list(config)]),
        column_order=[name for name in config if name not in hidden],
        hide_index=True,
        column_config=dict(config),
        width="stretch",
        placeholder=MISSING,
    )
    show_if_cut(listing, things)


def show_selectable_table(
    listing: Listing,
    config: Mapping[str, Any],
    key: str,
    things: str = "rows",
    *,
    hidden: Sequence[str] = HIDDEN,
    of_range: bool = True,
) -> Any:
    """As `show_table`; returns the row whose cell was clicked, None before that. `of_range` as for `show_if_cut`.

    A click is the position of a row in what the browser shows: in the rows that were drawn last, not in those that are read by the time of it.
    """
    drawn, clicked_in = f"drawn {key}", f"clicked {key}"

    def clicked() -> None:
        st.session_state[clicked_in] = st.session_state[drawn]

    event = st.dataframe(
        visible_cells(listing.rows[list(config)]),
        column_order=[name for name in config if name not in hidden],
        hide_index=True,
        column_config=dict(config),
        width="stretch",
        placeholder=MISSING,
        key=key,
        on_select=clicked,
        selection_mode="single-cell",
    )
    show_if_cut(listing, things, of_range=of_range)
    st.session_state[drawn] = listing.rows
    # What is selected stays so: only a click that is new leads anywhere.
    rows = st.session_state.pop(clicked_in, None)
    chosen = event.selection.cells
    return rows.iloc[chosen[0][0]] if rows is not None and chosen and chosen[0][0] < len(rows) else None


def visible_cells(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows as a table shows them, and as its toolbar writes them as CSV."""
    return map_texts(rows, visible_cell)


def visible_cell(value: Any) -> Any:
    """A text, or each of a list, in one line, whose characters are all seen but one before what a spreadsheet would take for a formula."""
    if isinstance(value, list):
        return [visible_cell(one) for one in value]
    return as_text(one_line(value), JOINER) if isinstance(value, str) else value


def show_if_cut(listing: Listing, things: str, *, of_range: bool = True) -> None:
    """A sentence where there is more than is shown. `of_range`: in a shorter range there would be less."""
    if listing.total > len(listing.rows):
        advice = " Choose a shorter range." if of_range else ""
        st.caption(f"Shown: the first {len(listing.rows):,} of {listing.total:,} {things}.{advice}")


def time_column(label: str, zone: ZoneInfo, help: str | None = None) -> Any:
    """A column of times, in this zone."""
    return st.column_config.DatetimeColumn(label, format=TIME_FORMAT, timezone=zone.key, width=120, help=help)


def score_column(label: str = "score (nats)") -> Any:
    """A column of scores."""
    return st.column_config.NumberColumn(label, format="%.1f", width=110, help=SCORE_HELP)


def text_column(label: str, width: Any = None, help: str | None = None) -> Any:
    """A column of text."""
    return st.column_config.TextColumn(label, width=width, help=help)


def count_column(label: str, width: Any = 80, help: str | None = None) -> Any:
    """A column of whole numbers."""
    return st.column_config.NumberColumn(label, format="localized", width=width, help=help)
