"""The first page: what is wrong now, what was, and how the pipeline does. `kappa dashboard` starts it.

Where Elasticsearch is and which version to show come with the variables KAPPA_DASHBOARD_*. The page reads afresh every
few seconds; where it cannot, it says so and goes on showing what it read last.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import streamlit as st
from elasticsearch import Elasticsearch

from dashboards import queries
from dashboards.charts import swim_lanes, what
from dashboards.queries import Connection, Listing, Overview, QueryError

RANGES = {
    "15m": ("15 min", timedelta(minutes=15)),
    "1h": ("1 h", timedelta(hours=1)),
    "6h": ("6 h", timedelta(hours=6)),
    "24h": ("24 h", timedelta(hours=24)),
    "7d": ("7 d", timedelta(days=7)),
}
DEFAULT_RANGE = "1h"
REFRESH = "5s"
SCORE_HELP = "Surprise in nats, -ln of the probability: 13.8 is one in a million."
TIME_FORMAT = "MM-DD HH:mm:ss"


def page() -> None:
    """The whole page."""
    version = os.environ.get("KAPPA_DASHBOARD_VERSION") or "live"
    st.set_page_config(page_title=f"Novelties · {version}", page_icon=":material/query_stats:", layout="wide")
    title, control = st.columns([3, 2], vertical_alignment="bottom")
    title.markdown(f"## Novelties · version `{version}`")
    with control:
        chosen = chosen_range()
    refreshed(version, chosen)


def chosen_range() -> str:
    """The range chosen, kept in the address of the page, so that it can be sent to others."""
    asked = st.query_params.get("range", DEFAULT_RANGE)
    if "range" not in st.session_state:
        st.session_state["range"] = asked if asked in RANGES else DEFAULT_RANGE
    chosen = st.radio(
        "Time range", list(RANGES), key="range", horizontal=True, format_func=lambda name: RANGES[name][0]
    )
    if asked != chosen:
        st.query_params["range"] = chosen
    return chosen


@st.fragment(run_every=REFRESH)
def refreshed(version: str, chosen: str) -> None:
    """Read and show; where reading fails, say why and show what was read last."""
    last: Overview | None = st.session_state.get(f"overview {chosen}")
    try:
        with loading(last):
            found = queries.overview(
                client(Connection.of(os.environ)), version, RANGES[chosen][1], datetime.now(tz=UTC)
            )
    except QueryError as error:
        tries = f"This page tries again every {REFRESH.removesuffix('s')} seconds."
        st.error(f"{error} {tries}", icon=":material/cloud_off:")
        if last is None:
            return
        st.caption(f"Below is what was known at {local_text(last.read)}.")
        found = last
    st.session_state[f"overview {chosen}"] = found
    show(found, version, RANGES[chosen][0], zone())


def loading(last: Overview | None) -> AbstractContextManager[Any]:
    """Says that the first answer is awaited; later ones replace what is there without a word."""
    return st.spinner("Reading from Elasticsearch …") if last is None else nullcontext()


@st.cache_resource(show_spinner=False, max_entries=8)
def client(connection: Connection) -> Elasticsearch:
    """One client for all sessions."""
    return connection.connect()


def zone() -> ZoneInfo:
    """The time zone of the browser; UTC where it does not tell."""
    try:
        return ZoneInfo(st.context.timezone or "UTC")
    except (KeyError, ValueError):
        return ZoneInfo("UTC")


def local_text(time: datetime, where: ZoneInfo | None = None) -> str:
    """A time as people there write it, with its zone."""
    return time.astimezone(where or zone()).strftime("%Y-%m-%d %H:%M:%S %Z")


def show(found: Overview, version: str, length: str, where: ZoneInfo) -> None:
    """All that was read. `length` is the range in words."""
    header(found, version, where)
    if found.newest is None and not found.refused.total:
        return
    figures(found, length)
    show_incidents(found, length, where)
    show_novelties(found, length, where)
    show_changes(found, length, where)
    show_refused(found, where)


def header(found: Overview, version: str, where: ZoneInfo) -> None:
    """How far the version is: nothing written, stale, or fresh."""
    if found.newest is None:
        st.info(
            f"Nothing has been found in version `{version}` yet, not even a score. The first documents come about "
            "half a minute after the jobs begin: `kappa run all`, or `kappa demo` to try it.",
            icon=":material/hourglass_empty:",
        )
        return
    behind = found.read - found.newest
    st.caption(f"Newest event {local_text(found.newest, where)}, {in_words(behind)}. Times are in {where.key}.")
    if found.stale:
        st.warning(
            f"The newest event is {in_words(behind)}: the jobs are catching up with the log, or no events come, or the "
            "jobs have stopped (`kappa status`). The ranges below end at the newest event, not now.",
            icon=":material/history:",
        )


def in_words(age: timedelta) -> str:
    """An age in the largest unit that fits."""
    seconds = age.total_seconds()
    for unit, size in (("days", 172_800), ("h", 7_200), ("min", 120)):
        if seconds >= size:
            return f"{seconds / {'days': 86_400, 'h': 3_600, 'min': 60}[unit]:.0f} {unit} old"
    return f"{seconds:.0f} s old" if seconds >= 0 else f"{-seconds:.0f} s ahead of this machine's clock"


def figures(found: Overview, length: str) -> None:
    """The page in five numbers."""
    numbers = {
        "Open incidents": (found.open_incidents.total, "However long ago they began."),
        "Closed incidents": (found.closed_incidents.total, f"Of the last {length}."),
        "Novelties": (found.hosts.novelties, f"Of the last {length}, of all hosts."),
        "Changes of state": (found.changes.total, f"Of the last {length}, of all hosts."),
        "Refused records": (found.refused.total, "Too late, or unreadable."),
    }
    for column, (name, (number, text)) in zip(st.columns(len(numbers)), numbers.items(), strict=True):
        column.metric(name, f"{number:,}", help=text, border=True)


def show_incidents(found: Overview, length: str, where: ZoneInfo) -> None:
    """Open incidents, then closed ones."""
    st.subheader("Open incidents")
    if found.open_incidents.total:
        incident_table(found.open_incidents, "latest", "latest evidence", where)
    else:
        st.success("No incident is open.", icon=":material/check_circle:")
    st.subheader("Closed incidents")
    if found.closed_incidents.total:
        incident_table(found.closed_incidents, "until", "until", where)
    else:
        st.caption(f"No incident was closed in the last {length}.")


def incident_table(listing: Listing, until: str, until_label: str, where: ZoneInfo) -> None:
    """Incidents as a table; `until` is the column that says how far they reach."""
    table(
        listing,
        ["since", until, "kind", "hosts", "reason", "score", "series"],
        {
            "since": time_column("since", where),
            until: time_column(until_label, where),
            "kind": st.column_config.TextColumn("kind", width=70),
            "hosts": st.column_config.ListColumn("hosts", width="medium"),
            "reason": st.column_config.TextColumn("reason", width="large"),
            "score": score_column(),
            "series": st.column_config.NumberColumn("series", width=60, help="Series that contribute, 20 at most."),
        },
    )


def show_novelties(found: Overview, length: str, where: ZoneInfo) -> None:
    """The swim lanes."""
    st.subheader("Novelties by host")
    if not found.novelties.total:
        st.caption(f"No novelty in the last {length}. A series is judged once it has been seen for a while.")
        return
    st.altair_chart(swim_lanes(found.novelties.rows, found.hosts.names, found.span, where), width="stretch")
    if not found.hosts.complete:
        st.caption(f"These are the {len(found.hosts.names)} hosts with the highest scores; there are more.")
    say_if_cut(found.novelties, "novelties with the highest scores")


def show_changes(found: Overview, length: str, where: ZoneInfo) -> None:
    """Changes of state: what is normal now and was not before."""
    st.subheader("Changes of state")
    if not found.changes.total:
        st.caption(f"Nothing has settled in a new state in the last {length}.")
        return
    rows = found.changes.rows
    table(
        Listing(rows.assign(what=what(rows)), found.changes.total),
        ["since", "host", "service", "what", "reason", "score"],
        {
            "since": time_column("since", where),
            "reason": st.column_config.TextColumn("reason", width="large"),
            "score": score_column(),
        },
    )


def show_refused(found: Overview, where: ZoneInfo) -> None:
    """Records that were too late or could not be read."""
    st.subheader("Pipeline: refused records")
    if not found.refused.total:
        st.caption(f"No record was too late or unreadable since {local_text(found.span.start, where)}.")
        return
    counts = found.refused.rows.groupby("dataset")["count"].sum()
    words = {"late": "too late", "dead-letters": "unreadable (dead letters)"}
    st.caption(" · ".join(f"**{counts.get(name, 0):,}** {text}" for name, text in words.items()))
    table(
        Listing(found.refused.rows, len(found.refused.rows)),
        ["dataset", "reason", "count", "latest", "stage", "whence", "sample"],
        {
            "dataset": st.column_config.TextColumn("kind"),
            "count": st.column_config.NumberColumn("records", format="localized"),
            "latest": time_column("latest", where),
            "whence": st.column_config.TextColumn("from", help="Topic, partition and offset of the sample."),
            "sample": st.column_config.TextColumn("newest sample", width="large"),
        },
    )


def table(listing: Listing, columns: list[str], config: dict[str, Any]) -> None:
    """Rows as a table; says so where not all are listed."""
    st.dataframe(listing.rows[columns], hide_index=True, column_config=config, width="stretch")
    say_if_cut(listing, "rows")


def say_if_cut(listing: Listing, things: str) -> None:
    """A sentence where there is more than is shown."""
    if listing.total > len(listing.rows):
        st.caption(f"Shown: the first {len(listing.rows):,} of {listing.total:,} {things}. Choose a shorter range.")


def time_column(label: str, where: ZoneInfo) -> Any:
    """A column of times, in this zone."""
    return st.column_config.DatetimeColumn(label, format=TIME_FORMAT, timezone=where.key, width=120)


def score_column() -> Any:
    """A column of scores."""
    return st.column_config.NumberColumn("score (nats)", format="%.1f", width=90, help=SCORE_HELP)


if __name__ == "__main__":
    page()
