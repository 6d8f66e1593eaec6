"""What all pages share: which version, which range, which zone, how often to read; and messages for when that fails.

Whatever is chosen is in the address of the page, so that a view can be sent to others.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import streamlit as st
from elasticsearch import Elasticsearch

from dashboards import identity
from dashboards.identity import Identity
from dashboards.queries.deployment import serving_version
from dashboards.queries.episodes import FRESH
from dashboards.queries.search import Connection, QueryError, indexed_versions
from dashboards.words import age_text, code, local_text, plain

RANGES = {
    "15m": ("15 min", timedelta(minutes=15)),
    "1h": ("1 h", timedelta(hours=1)),
    "6h": ("6 h", timedelta(hours=6)),
    "24h": ("24 h", timedelta(hours=24)),
    "7d": ("7 d", timedelta(days=7)),
    "30d": ("30 d", timedelta(days=30)),
}
DEFAULT_RANGE = "1h"
REFRESHES = {"5s": 5, "30s": 30, "off": None}
DEFAULT_REFRESH = "5s"
VERSIONS_SECONDS = 20
NAMED = "named version"  # in the state of the session
VERSION = re.compile(r"[a-z0-9][a-z0-9_-]{0,40}")  # as in the settings; what else an address names is no version
# Streamlit leaves a hand's breadth above each page; what is wrong should be seen without scrolling.
# On a phone what is chosen takes two lines instead of the whole screen: captions are for screen readers, and how often is not chosen. What is open
# comes before the five numbers. In a window between the two, the title has a line of its own, so that no range and no way to sign in is cut off.
# The reason of an incident is cut nowhere, nor is what a number is of.
LESS_ROOM = """<style>
.stMainBlockContainer {padding-top: 4.5rem; padding-bottom: 4rem}
[data-testid="stPageLink"] p, [data-testid="stMetricLabel"] p {white-space: normal}
@media (min-width: 641px) and (max-width: 1240px) {
  .st-key-head > [data-testid="stLayoutWrapper"] > [data-testid="stHorizontalBlock"] {flex-flow: row wrap}
  .st-key-head [data-testid="stColumn"] {flex: 1 1 auto; width: auto; min-width: max-content}
  .st-key-head [data-testid="stColumn"]:nth-child(1) {flex-basis: 100%}
  .st-key-head [data-testid="stColumn"]:nth-child(2) {flex-basis: 7rem; min-width: 7rem}
}
@media (max-width: 640px) {
  .st-key-head > [data-testid="stLayoutWrapper"] > [data-testid="stHorizontalBlock"] {flex-flow: row wrap; gap: 0.5rem}
  .st-key-head [data-testid="stColumn"] {flex: 1 1 40%; min-width: 40%; width: auto}
  .st-key-head [data-testid="stColumn"]:nth-child(1), .st-key-head [data-testid="stColumn"]:nth-child(3) {flex-basis: 100%}
  .st-key-head [data-testid="stColumn"]:nth-child(3) {order: 1}
  .st-key-head [data-testid="stColumn"]:nth-child(4) {display: none}
  .st-key-head [data-testid="stWidgetLabel"] {position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%)}
  .st-key-now > [data-testid="stLayoutWrapper"]:has(> .st-key-figures) {order: 1}
}
</style>"""

T = TypeVar("T")


@dataclass(frozen=True)
class View:
    """What a page shows. `refresh`: seconds between two readings, None for only when asked.

    `who`: who looks at it. `pages`: by their names.
    """

    version: str
    versions: list[str]
    range: str
    zone: ZoneInfo
    refresh: int | None
    who: Identity = identity.NOBODY
    pages: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def words(self) -> str:
        """The range in words."""
        return RANGES[self.range][0]

    @property
    def length(self) -> timedelta:
        """How long the range is."""
        return RANGES[self.range][1]

    def address(self, **own: str) -> dict[str, str]:
        """What a link to another page carries, so that it shows the same version and range."""
        return {"version": self.version, "range": self.range, **own}

    def link(self, page: str, label: str, icon: str | None = None, **own: str) -> None:
        """A link to another page."""
        st.page_link(self.pages[page], label=label, icon=icon, query_params=self.address(**own))

    def open(self, page: str, **own: str) -> None:
        """Go to another page."""
        st.switch_page(self.pages[page], query_params=self.address(**own))


def show_head(title: str, pages: Mapping[str, Any], who: Identity) -> View:
    """The head of a page: its title, what is chosen, and who has signed in."""
    named = requested_version()
    st.html(LESS_ROOM)
    head, version, length, refresh, own = st.container(key="head").columns(
        [3, 2, 4, 2, 1.5], vertical_alignment="bottom"
    )
    head.markdown(f"## {title}")
    found = known_versions(named)
    with version:
        chosen = st.selectbox("Version", found, index=found.index(named), key="version", bind="query-params")
    with length:
        span = st.segmented_control(
            "Range, back from the last window judged",
            list(RANGES),
            default=DEFAULT_RANGE,
            required=True,
            key="range",
            bind="query-params",
        )
    with refresh:
        every = st.segmented_control(
            "Read again", list(REFRESHES), default=DEFAULT_REFRESH, required=True, key="refresh", bind="query-params"
        )
    with own:
        identity.show_identity(who)
    return View(
        version=chosen or named,
        versions=found,
        range=span or DEFAULT_RANGE,
        zone=zone(),
        refresh=REFRESHES[every or DEFAULT_REFRESH],
        who=who,
        pages=pages,
    )


def requested_version() -> str:
    """The version to show where nobody chose another one. When another one serves, a page that shows the one before goes on with it."""
    before = st.session_state.get(NAMED)
    named = serving_version() or before or os.environ.get("KAPPA_DASHBOARD_VERSION") or "live"
    if before not in (None, named) and st.session_state.get("version") == before:
        st.session_state["version"] = named
    st.session_state[NAMED] = named
    return str(named)


def known_versions(named: str) -> list[str]:
    """Versions that are indexed, the one that is named first; the one in the address among them."""
    asked = st.query_params.get("version", "")
    others = {*listed_versions(), *([asked] if VERSION.fullmatch(asked) else [])}
    return [named, *sorted(others - {named})]


@st.cache_data(show_spinner=False, ttl=VERSIONS_SECONDS)
def listed_versions() -> list[str]:
    """Versions that are indexed; none if they cannot be listed: each part of a page shows the reason."""
    try:
        return indexed_versions(client(Connection.of(os.environ)))
    except QueryError:
        return []


@st.cache_resource(show_spinner=False, max_entries=8)
def client(connection: Connection) -> Elasticsearch:
    """One client for all sessions."""
    return connection.connect()


def zone() -> ZoneInfo:
    """The time zone of the browser; UTC if it is unknown."""
    try:
        return ZoneInfo(st.context.timezone or "UTC")
    except (KeyError, ValueError):
        return ZoneInfo("UTC")


def now() -> datetime:
    """The clock of this machine."""
    return datetime.now(tz=UTC)


def show_refreshed(view: View, show: Callable[..., None], *arguments: Any) -> None:
    """Show a part of a page, and refresh that part alone at the chosen interval; all of the page when another version serves."""

    @wraps(show)
    def part(*given: Any) -> None:
        if serving_version() not in (None, st.session_state.get(NAMED)):
            st.rerun()
        show(*given)

    st.fragment(part, run_every=view.refresh)(*arguments)


def read_or_last(view: View, part: str, asked: str, read: Callable[[Elasticsearch], T]) -> T | None:
    """The result of a query; if it fails, a message is shown and the result is the last one, or None.

    `part` names the part of the page, `asked` what it was asked beside version and range.
    """
    question = (view.version, view.range, asked)
    kept: dict[str, Any] = st.session_state.setdefault("known", {})
    before = kept.get(part)
    last = before if before is not None and before[0] == question else None
    try:
        with loading_spinner(is_first=last is None):
            found = read(client(Connection.of(os.environ)))
    except QueryError as error:
        st.error(f"{plain(error)} {retry_text(view)}", icon=":material/cloud_off:")
        if last is None:
            return None
        st.caption(f"Below is what was known at {local_text(last[1], view.zone)}.")
        value: T = last[2]
        return value
    kept[part] = (question, now(), found)
    return found


def retry_text(view: View) -> str:
    """When a page asks again."""
    return f"This page tries again every {view.refresh} seconds." if view.refresh else "Reload the page to try again."


def loading_spinner(*, is_first: bool) -> AbstractContextManager[Any]:
    """Show that the first result is awaited; later ones replace the old result silently."""
    return st.spinner("Reading from Elasticsearch …") if is_first else nullcontext()


def show_freshness(view: View, newest: datetime | None, read: datetime) -> bool:
    """Show up to when a version has been judged: not at all, not lately, or until now. Returns whether there is anything to show."""
    if newest is None:
        st.info(
            f"Nothing has been found in version {code(view.version)} yet, and no window is known to be judged. The first one is about "
            "half a minute after the jobs begin: `kappa run all`, or `kappa demo` to try it.",
            icon=":material/hourglass_empty:",
        )
        return False
    behind = read - newest
    st.caption(f"Judged until {local_text(newest, view.zone)}, {age_text(behind)}. Times are in {view.zone.key}.")
    if behind > FRESH:
        st.warning(
            f"The last window that is known to be judged is {age_text(behind)}: the jobs are catching up with the log or have stopped, as after "
            "a replay, or Kafka does not answer: see Jobs on the page Pipeline. The range ends with that window, not now.",
            icon=":material/history:",
        )
    return True
