"""The page Overview: open and closed incidents, novelties, changes of state."""

from __future__ import annotations

import streamlit as st

from dashboards import chrome, early_alarms
from dashboards.chrome import View
from dashboards.lanes import swim_lanes
from dashboards.open_incidents import by_severity, show_lines
from dashboards.queries.frames import Listing
from dashboards.queries.overview import LANES, Overview, overview
from dashboards.tables import score_column, show_if_cut, show_selectable_table, show_table, text_column, time_column
from dashboards.words import novelty_subject, plural

DEFAULT_LANES = "host"
SPELLED_OUT = 30  # open incidents as lines to click on, those of a storm behind one; more of them as a table


def page(view: View) -> None:
    """The whole page."""
    by = st.segmented_control(
        "Lanes by", list(LANES), default=DEFAULT_LANES, required=True, key="lanes", bind="query-params"
    )
    chrome.show_refreshed(view, part, view, by or DEFAULT_LANES)


def part(view: View, by: str) -> None:
    """Read and show."""
    midnight = chrome.now().astimezone(view.zone).replace(hour=0, minute=0, second=0, microsecond=0)
    found = chrome.read_or_last(
        view,
        "overview",
        by,
        lambda client: overview(client, view.version, view.length, chrome.now(), by, midnight),
    )
    if found is not None:
        show(found, view)


def show(found: Overview, view: View) -> None:
    """All that was read."""
    if not chrome.show_freshness(view, found.newest, found.read) and not found.refused:
        return
    with st.container(key="now"):  # on a phone the numbers come last of these
        with st.container(key="figures"):
            figures(found, view)
        early_alarms.show(found.early, view)
        show_open(found, view)
    show_novelties(found, view)
    show_changes(found, view)
    show_closed(found, view)


def figures(found: Overview, view: View) -> None:
    """The page in five numbers."""
    numbers = {
        "Open incidents": (found.open_incidents.total, "However long ago they began."),
        "Closed incidents": (found.closed_incidents.total, f"Of the last {view.words}."),
        "Novelties": (found.lanes.novelties, f"Of the last {view.words}, of all hosts."),
        "Changes of state": (found.changes.total, f"{changes_since(found, view)}, of all hosts."),
        "Refused records": (found.refused, f"Of the last {view.words}, too late or unreadable: see Pipeline."),
    }
    for column, (name, (value, text)) in zip(st.columns(len(numbers)), numbers.items(), strict=True):
        column.metric(name, f"{value:,}", help=text, border=True)


def show_open(found: Overview, view: View) -> None:
    """Open incidents, the first ones spelled out."""
    st.subheader("Open incidents")
    listing = found.open_incidents
    if not listing.total:
        st.success("No incident is open.", icon=":material/check_circle:")
        return
    st.markdown(by_severity(listing, found.answers))
    show_lines(listing, SPELLED_OUT, found.answers, view, found.read)
    if listing.total > SPELLED_OUT:
        rest = Listing(listing.rows[SPELLED_OUT:], listing.total - SPELLED_OUT)
        with st.expander(f"{plural(rest.total, 'more open incident')}, less severe"):
            incident_table(rest, "latest", "latest evidence", view, "open", of_range=False)


def show_closed(found: Overview, view: View) -> None:
    """Closed incidents; a click opens one."""
    st.subheader("Closed incidents")
    if not found.closed_incidents.total:
        st.caption(f"No incident was closed in the last {view.words}.")
        return
    incident_table(found.closed_incidents, "until", "until", view, "closed")


def incident_table(
    listing: Listing, until: str, until_label: str, view: View, key: str, *, of_range: bool = True
) -> None:
    """Incidents as a table; `until` is the column that says how far they reach. `of_range`: those of the range alone."""
    rows = listing.rows.assign(series=listing.rows["series"].map(len))
    config = {
        "severity": text_column("severity", 70),
        "reason": text_column("reason (click to open)", "large"),
        "kind": text_column("kind", 70),
        "hosts": st.column_config.ListColumn("hosts", width="medium"),
        "since": time_column("since", view.zone),
        until: time_column(until_label, view.zone),
        "score": score_column(),
        "series": st.column_config.NumberColumn("series", width=60, help="Series that contribute, 20 at most."),
    }
    shown, place = Listing(rows, listing.total), f"{key} incidents {view.version}"
    chosen = show_selectable_table(shown, config, place, "incidents", of_range=of_range)
    if chosen is not None:
        view.open("incident", incident=chosen["id"])


def show_novelties(found: Overview, view: View) -> None:
    """The swim lanes."""
    lanes = found.lanes
    st.subheader(f"Novelties by {lanes.by}")
    if not lanes.novelties:
        st.caption(f"No novelty in the last {view.words}. A series is judged once it has been seen for a while.")
        return
    if not lanes.names:
        st.caption(f"None of the {lanes.novelties:,} novelties names a {lanes.by}.")
        return
    lane = lanes.by
    swim_lanes(found.novelties.rows, lanes.names, found.span, view.zone, lane).show()
    if not lanes.complete:
        st.caption(f"These are the {len(lanes.names)} {lane}s with the most surprising novelties; there are more.")
    show_if_cut(found.novelties, "novelties, the most surprising ones")


def changes_since(found: Overview, view: View) -> str:
    """From when on changes of state are listed, in words."""
    return "Since midnight" if found.changes_from < found.span.start else f"Of the last {view.words}"


def show_changes(found: Overview, view: View) -> None:
    """Changes of state: what is normal now and was not before."""
    st.subheader(f"Changes of state, {changes_since(found, view).lower()}")
    if not found.changes.total:
        st.caption("Nothing has settled in a new state.")
        return
    rows = found.changes.rows
    config = {
        "since": time_column("since", view.zone),
        "host": text_column("host", 110),
        "service": text_column("service", 110),
        "what": text_column("what", 200),
        "reason": text_column("reason", 700),
        "score": score_column(),
    }
    show_table(Listing(rows.assign(what=novelty_subject(rows)), found.changes.total), config, "changes")
