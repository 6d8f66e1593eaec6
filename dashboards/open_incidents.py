"""Open incidents as lines to read: the worst first, who has each, a storm in one line."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pandas as pd
import streamlit as st

from dashboards.acknowledging import short_status_text
from dashboards.chrome import View
from dashboards.queries.frames import Listing
from dashboards.queries.labels import Answers
from dashboards.storms import storms
from dashboards.theme import badge, severity_badge
from dashboards.words import clock, duration, first_names, plain, plural
from models.records.records import SEVERITIES

Answered = Mapping[str, Answers]


def by_severity(listing: Listing, answers: Answered) -> str:
    """How many are open of each severity, how many somebody has, and how many others are labelled."""
    counts = listing.rows["severity"].value_counts()
    words = [f"{severity_badge(word)} **{counts[word]}**" for word in reversed(SEVERITIES) if word in counts]
    given = [answers[name] for name in listing.rows["id"] if name in answers]
    taken = sum(one.taken is not None for one in given)
    parts = [f"{taken} acknowledged", *([f"{len(given) - taken} labelled"] if len(given) > taken else [])]
    part = f" Of the {len(listing.rows)} worst:" if listing.total > len(listing.rows) else ""
    return f"{part} {' · '.join([*words, ', '.join([*parts, f'{len(listing.rows) - len(given)} not'])])}".strip()


def show_lines(listing: Listing, most: int, answers: Answered, view: View, read: datetime) -> None:
    """The first `most` incidents as lines; those of a storm behind one, which counts all of it. Columns of INCIDENT, the worst first."""
    first, uncounted = set(listing.rows["id"][:most]), " or more" if listing.total > len(listing.rows) else ""
    for group in storms(listing.rows):
        lines = group[group["id"].isin(first)]
        if lines.empty:
            return
        if len(group) == 1:
            line(group.iloc[0], answers, view, read)
            continue
        began, ended = group["since"].min(), group["since"].max()
        within = duration(max(ended - began, timedelta(minutes=1)))
        worst = severity_badge(group.iloc[0]["severity"])
        title = f"{worst} **{len(group)} incidents{uncounted}** began within {within} from {clock(began, view.zone)}"
        where = plural(hosts(group), "host")
        with st.expander(f"{title}: {where}; the worst: {plain(str(group.iloc[0]['reason']))}"):
            for _, row in lines.iterrows():
                line(row, answers, view, read)
            if len(group) > len(lines):
                st.caption(f"{len(group) - len(lines)} more of them are in the table below.")


def hosts(rows: pd.DataFrame) -> int:
    """How many hosts they are on: those that they name, and no fewer than one of them says."""
    named, most = len({host for names in rows["hosts"] for host in names}), rows["affected"].max()
    return named if pd.isna(most) else max(named, int(most))


def line(row: Any, answers: Answered, view: View, read: datetime) -> None:
    """An incident as a line: its severity, its reason, which leads to its page, where, since when, and what people answered."""
    severity, reason, where, since = st.columns([1, 6, 3, 3], vertical_alignment="center")
    severity.markdown(severity_badge(row["severity"]) or "–")
    with reason:
        view.link("incident", plain(str(row["reason"])), incident=row["id"])
    where.markdown(f"{badge(row['kind'])} {first_names(row['hosts'], count=row['affected']) or '–'}")
    began: pd.Timestamp = row["since"]
    who = short_status_text(answers.get(row["id"], Answers()))
    since.markdown(f"since {clock(began, view.zone)}, {duration(max(read - began, timedelta()))} · {who}")
