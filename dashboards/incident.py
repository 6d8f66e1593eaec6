"""One incident: what happened, where, since when, why the model thinks so, and whether it was there before."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pandas as pd
import streamlit as st
from elasticsearch import Elasticsearch

from dashboards import (
    acknowledging,
    chrome,
    early_alarms,
    evidence,
    labelling,
    links,
    notified,
    ruling,
    runbook,
    sharing,
)
from dashboards.chrome import View
from dashboards.lanes import swim_lanes
from dashboards.queries import deliveries, early
from dashboards.queries.early import FirstSeen
from dashboards.queries.episodes import judged_until
from dashboards.queries.frames import Listing
from dashboards.queries.incident import Incident, episodes, incident, similar
from dashboards.queries.labels import Answers, LabelDocument, acknowledged, of_incidents
from dashboards.queries.overview import open_incidents
from dashboards.queries.search import SIDE_BY_SIDE, Span
from dashboards.queries.series import points
from dashboards.tables import score_column, show_selectable_table, show_table, text_column, time_column
from dashboards.theme import badge, severity_badge
from dashboards.words import (
    clock,
    code,
    duration,
    first_names,
    local_text,
    plain,
    plural,
    scope_text,
    series_text,
)

MAX_LANES = 12
IN_ADDRESS = 100  # ids of episodes in an address for Kibana, about 27 characters each
# A browser takes a seventh of a second for each curve, and draws all that it has got before anybody sees any of it.
BELOW_SECONDS = 0.2


@dataclass(frozen=True)
class Missing:
    """The version has no such incident. `newest` is up to when the version has been judged."""

    id: str
    newest: datetime | None
    read: datetime


@dataclass(frozen=True)
class OpenIncidents:
    """Incidents that are open. `newest` is up to when the version has been judged."""

    read: datetime
    newest: datetime | None
    open_incidents: Listing


@dataclass(frozen=True)
class Found:
    """All that the page shows of an incident. `points`: for the first contributions that have scores.

    `labels`: the latest label of it and of those that are like it, by their ids. `deliveries`: its notifications.
    """

    newest: datetime | None
    read: datetime
    incident: Incident
    episodes: Listing
    similar: Listing
    points: Mapping[str, pd.DataFrame]
    labels: Mapping[str, LabelDocument]
    deliveries: pd.DataFrame
    first_seen: FirstSeen | None = None
    acknowledged: LabelDocument | None = None

    @property
    def label(self) -> LabelDocument | None:
        """What it was, by the last label."""
        return self.labels.get(self.incident.id)

    def known(self, span: Span) -> Span:
        """What of a time something is known of: nothing lasts beyond the last window judged."""
        return Span(span.start, min(span.end, max(self.newest or span.end, self.incident.span.end)))


def page(view: View) -> None:
    """The incident that the address names; without one, a choice."""
    identity = st.query_params.get("incident", "")
    if not identity:
        choose(view)
        return
    chrome.show_refreshed(view, part, view, identity)
    found = kept(view, identity)
    if found is not None:
        labelling.show_form(view, found.incident)
        ruling.show_form(view, found.incident)


def choose(view: View) -> None:
    """Open incidents to choose from."""
    st.caption("Choose an incident here, or on the page Overview.")
    found = chrome.read_or_last(view, "open", "", lambda client: read_open(client, view.version))
    if found is not None:
        show_choice(found, view)


def show_choice(found: OpenIncidents, view: View) -> None:
    """A link to each of them. Where nothing was judged, or nothing lately, that comes first: none may be open as yet."""
    if not chrome.show_freshness(view, found.newest, found.read):
        return
    if not found.open_incidents.total:
        st.success("No incident is open. Overview lists the closed ones.", icon=":material/check_circle:")
        return
    for _, row in found.open_incidents.rows.iterrows():
        where = first_names(row["hosts"], count=row["affected"])
        view.link("incident", f"{plain(row['reason'])} ({where})", incident=row["id"])


def read_open(client: Elasticsearch, version: str) -> OpenIncidents:
    """What there is to choose from. Raises QueryError if a search fails."""
    return OpenIncidents(chrome.now(), judged_until(client, version), open_incidents(client, version))


def part(view: View, identity: str) -> None:
    """Read and show."""
    is_first = kept(view, identity) is None
    found = chrome.read_or_last(view, "incident", identity, lambda client: read(client, view.version, identity))
    if found is not None:
        show(found, view, BELOW_SECONDS if is_first else 0.0)


def show(found: Found | Missing, view: View, pause: float = 0.0) -> None:
    """All that was read; after `pause` seconds what is far below."""
    if not chrome.show_freshness(view, found.newest, found.read):
        return
    if isinstance(found, Missing):
        st.warning(
            f"Version {code(view.version)} has no incident {code(found.id)}: it is another version's, or its index has gone with "
            "age. Choose the version above, or go back to Overview.",
            icon=":material/search_off:",
        )
        return
    began = found.episodes.rows["since"].min() if len(found.episodes.rows) else None
    head(found.incident, view, found.read, began)
    early_alarms.show_first(found.first_seen, view)
    evidence.show_causes(found.incident, view)
    show_done(found, view)
    show_next(found.incident, view, found.acknowledged)
    sharing.show(view, found.incident, found.episodes.rows, {"label": found.label, "acknowledged": found.acknowledged})
    show_timeline(found, view)
    show_episodes(found, view)
    later = evidence.show_contributions(
        found.incident, found.episodes.rows, found.points, found.known(found.incident.around), view
    )
    evidence.show_templates(found.episodes.rows, view)
    show_similar(found, view)
    notified.show(found.deliveries, view)
    labelling.show(view, found.incident, found.label)
    if later:
        threading.Event().wait(pause)
    for draw in later:
        draw()


def kept(view: View, identity: str) -> Found | None:
    """What `part` has read, so that the form is about it."""
    entry = st.session_state.get("known", {}).get("incident")
    same = entry is not None and entry[0] == (view.version, view.range, identity)
    return entry[2] if same and isinstance(entry[2], Found) else None


def read(client: Elasticsearch, version: str, identity: str) -> Found | Missing:
    """All of an incident. Raises QueryError if a search fails."""
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        newest = pool.submit(judged_until, client, version)
        of = incident(client, version, identity)
        if of is None:
            return Missing(identity, newest.result(), chrome.now())
        notifications = pool.submit(deliveries.of_incident, client, version, identity)
        first = pool.submit(early.of_incident, client, identity)
        members, like = pool.submit(episodes, client, version, of), pool.submit(similar, client, version, of)
        plotted = points(client, version, of.series, of.around)
        alike = like.result()
        return Found(
            newest=newest.result(),
            read=chrome.now(),
            incident=of,
            episodes=members.result(),
            similar=alike,
            points=plotted,
            labels=of_incidents(client, [identity, *alike.rows["id"]]),
            acknowledged=acknowledged(client, [identity]).get(identity),
            deliveries=notifications.result(),
            first_seen=first.result(),
        )


def head(of: Incident, view: View, read: datetime, began: datetime | None) -> None:
    """How bad, what, where, since when; its first episode `began` then."""
    st.markdown(f"### {severity_badge(of.severity)} {plain(of.reason)}")
    state = ":green-badge[closed]" if of.until is not None else ":red-badge[open]"
    where = first_names(of.hosts, 8, of.about.get("affected")) or "–"
    st.markdown(f"**Where**: {where} · services: {first_names(of.services, 8) or '–'}")
    st.markdown(f"**Since when**: {since_when(of, view.zone, read, began)}")
    points = f"{of.points} of 100 points" if of.points is not None else "no severity"
    reach = scope_text(of.about)
    facts = [points, plural(of.novelties, "episode"), *([reach] if reach else [])]
    st.markdown(f"**How bad**: {state} {badge(of.kind)} {' · '.join(facts)}")
    with st.expander("How sure is that?"):
        st.caption(
            f"Score **{of.score:,.1f}** nats: the surprise that chance makes this anywhere in the fleet, -ln of a probability."
        )
    address = links.kibana("novelties", of.shown, links.any_of("_id", of.episodes[:IN_ADDRESS]))
    if address and of.episodes:
        st.link_button("Its episodes in Kibana", address, icon=":material/open_in_new:")


def since_when(of: Incident, zone: ZoneInfo, read: datetime, began: datetime | None) -> str:
    """From when to when; one that is open lasts until it was `read`, as on the first page.

    When an incident began never changes once it is published, but an episode that `began` earlier may join it later: it is named.
    """
    lasts = duration(max((of.until or read) - of.since, timedelta()))
    if of.until is not None:
        ends = f"until {local_text(of.until, zone)} ({lasts})"
    else:
        ends = f"not over yet ({lasts}) · latest evidence {clock(of.latest, zone)}"
    earlier = f" · with an episode since {clock(began, zone)}" if began is not None and began < of.since else ""
    return f"{local_text(of.since, zone)}, {ends}{earlier}"


def show_done(found: Found, view: View) -> None:
    """Who has it, and its label."""
    st.subheader("What was done")
    st.markdown(acknowledging.status_text(Answers(found.acknowledged, found.label), view))


def show_next(of: Incident, view: View, taken: LabelDocument | None) -> None:
    """What to do now: the runbook, and taking it in hand; `taken` says who has it."""
    st.subheader("What to do now")
    address = runbook.address(of)
    if address:
        st.link_button("Runbook", address, icon=":material/menu_book:")
    else:
        st.caption("Without `dashboard.runbooks` or `dashboard.runbook_url` there is no runbook to link to.")
    acknowledging.show_button(view, of, taken)


def show_timeline(found: Found, view: View) -> None:
    """When its episodes began and ended, a lane for each series."""
    st.subheader("Timeline")
    rows = found.episodes.rows.assign(lane=found.episodes.rows["series"].map(series_text))
    if rows.empty:
        st.caption("The episodes of this incident are not indexed any more.")
        return
    ranked = [series_text(name) for name in found.incident.series]
    others = [name for name in dict.fromkeys(rows["lane"]) if name not in ranked]
    lanes = [name for name in [*ranked, *others] if name in set(rows["lane"])][:MAX_LANES]
    shown = rows[rows["lane"].isin(lanes)]
    swim_lanes(shown, lanes, found.known(found.incident.shown), view.zone, "lane", "series, largest share first").show()


def show_episodes(found: Found, view: View) -> None:
    """The episodes that are members of the incident, and how many more there are."""
    of, rows = found.incident, found.episodes.rows
    if not rows.empty:
        config = {
            "series": text_column("series", 240),
            "kind": text_column("kind", 70),
            "since": time_column("since", view.zone),
            "until": time_column("until", view.zone, help="Empty while it is open."),
            "reason": text_column("reason", 720),
            "score": score_column(),
        }
        show_table(Listing(rows.assign(series=rows["series"].map(series_text)), len(rows)), config)
    gone = len(of.episodes) - len(rows)
    if gone and not rows.empty:
        st.caption(
            f"{plural(gone, 'more episode')} of this incident {'is' if gone == 1 else 'are'} not indexed any more."
        )
    if of.episodes_omitted:
        st.caption(
            f"{plural(of.episodes_omitted, 'more episode')} with less evidence: the incident lists the strongest."
        )


def show_similar(found: Found, view: View) -> None:
    """Earlier incidents with something in common, and their labels."""
    st.subheader("Seen before?")
    if not found.similar.total:
        st.caption("No earlier incident shares a series, a template, a host or a service with this one.")
        return
    labels = {name: one.label for name, one in found.labels.items()}
    rows = found.similar.rows
    rows = rows.assign(label=rows["id"].map(lambda name: labels.get(name, "")))
    config = {
        "reason": text_column("reason (click to open)", "large"),
        "severity": text_column("severity", 70),
        "shared": text_column("in common", "medium"),
        "label": text_column("label", 110),
        "kind": text_column("kind", 70),
        "since": time_column("since", view.zone),
        "until": time_column("until", view.zone),
        "score": score_column(),
    }
    chosen = show_selectable_table(Listing(rows, len(rows)), config, f"similar {found.incident.id}")
    if chosen is not None:
        view.open("incident", incident=chosen["id"])
