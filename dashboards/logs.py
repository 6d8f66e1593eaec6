"""Log messages by template: novel ones, new ones first, and how frequent each is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import streamlit as st
from elasticsearch import Elasticsearch

from dashboards import chrome
from dashboards.chrome import View
from dashboards.queries.episodes import judged_until, span_of
from dashboards.queries.frames import Listing
from dashboards.queries.logs import RATE_BUCKETS, NovelTemplates, novel_templates, rates, texts
from dashboards.queries.search import Span
from dashboards.queries.series import has_scores
from dashboards.tables import count_column, score_column, show_selectable_table, text_column, time_column
from dashboards.words import code, duration, log_location, plural

# What rates are sorted by: in words, and by which number.
BY = {"lines": ("most lines", "lines"), "surprise": ("most surprising", "score")}
NO_SCORES = (
    "How often each message comes is not known here: no scores of version {version} are indexed yet. With "
    "`index.scores = true` the job `index` writes them from then on."
)
NO_TEXT = "(text not known: its scores are of an older `detect`)"


@dataclass(frozen=True)
class LogsPageData:
    """All that the page shows."""

    read: datetime
    newest: datetime | None
    span: Span
    novel: NovelTemplates
    rates: Listing
    has_scores: bool


def page(view: View) -> None:
    """The whole page."""
    by = st.segmented_control("Rates by", list(BY), default="lines", required=True, key="by", bind="query-params")
    chrome.show_refreshed(view, part, view, by or "lines")


def part(view: View, by: str) -> None:
    """Read and show."""
    found = chrome.read_or_last(view, "logs", by, lambda client: read(client, view, by))
    if found is not None:
        show(found, view, by)


def show(found: LogsPageData, view: View, by: str) -> None:
    """All that was read."""
    if chrome.show_freshness(view, found.newest, found.read):
        show_novel(found, view)
        show_rates(found, view, by)


def read(client: Elasticsearch, view: View, by: str) -> LogsPageData:
    """All of the page. Raises QueryError if a search fails."""
    now = chrome.now()
    newest = judged_until(client, view.version)
    span = span_of(newest, now, view.length)
    listing = rates(client, view.version, span, BY[by][1])
    text_of = texts(client, view.version, list(listing.rows["series"][listing.rows["text"].isna()]))
    listing.rows["text"] = listing.rows["text"].fillna(listing.rows["series"].map(text_of)).fillna(NO_TEXT)
    return LogsPageData(
        read=now,
        newest=newest,
        span=span,
        novel=novel_templates(client, view.version, span),
        rates=listing,
        has_scores=bool(listing.total) or has_scores(client, view.version),
    )


def show_novel(found: LogsPageData, view: View) -> None:
    """Novel templates."""
    st.subheader("Novel messages, new ones first")
    if not found.novel.total:
        st.caption(f"No message was new, fell silent, or changed how often it comes in the last {view.words}.")
        return
    st.caption(f"{plural(found.novel.new, 'new message')}, {found.novel.total:,} in all. Click one for its series.")
    config = {
        "kind": text_column("kind", 70),
        "since": time_column("since", view.zone),
        "template": text_column("message (click to see its series)", 240),
        "hosts": count_column("hosts", 60),
        "service": text_column("service", 80),
        "level": text_column("level", 60),
        "score": score_column(),
        "reason": text_column("reason", 540),
        "sample": text_column("a sample", "large"),
    }
    chosen = show_selectable_table(found.novel, config, f"novel {view.version}", "messages")
    if chosen is not None:
        view.open("series", series=str(chosen["series"]))


def show_rates(found: LogsPageData, view: View, by: str) -> None:
    """Templates by how often they come."""
    st.subheader(f"Messages by rate: {BY[by][0]}")
    if not found.has_scores:
        st.info(NO_SCORES.format(version=code(view.version)), icon=":material/info:")
        return
    if not found.rates.total:
        st.caption(f"No line was counted in the last {view.words}.")
        return
    rows = found.rates.rows
    rows = rows.assign(where=rows["series"].map(log_location))
    each = duration(view.length / RATE_BUCKETS)
    config = {
        "text": text_column("message (click to see its series)", "large"),
        "where": text_column("where", 170),
        "share": st.column_config.NumberColumn(
            "of all lines", format="percent", width=80, help=f"In the last {view.words}."
        ),
        "most": count_column("most lines/min", 100, help="In the window with the most lines."),
        "rate": st.column_config.LineChartColumn(
            "over time", width="medium", y_min=0, help=f"The most lines/min, a point for {each}."
        ),
        "score": score_column("top score (nats)"),
        "latest": time_column("latest", view.zone),
    }
    chosen = show_selectable_table(
        Listing(rows, found.rates.total), config, f"rates {view.version} {by}", "messages", hidden=()
    )
    if chosen is not None:
        view.open("series", series=str(chosen["series"]))
