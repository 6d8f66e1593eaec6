"""One series: observed and expected values, novelties, and the state of its model."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pandas as pd
import streamlit as st
from elasticsearch import Elasticsearch

from dashboards import chrome, commands, links, log_curves
from dashboards.chrome import View
from dashboards.commands import NO_OPTIONS, CommandError
from dashboards.identity import RESPONDER, role_text
from dashboards.model_plot import HOW_TO_READ, model_plot, score_plot
from dashboards.queries.episodes import LASTING, judged_until, span_of
from dashboards.queries.frames import Listing
from dashboards.queries.search import Span
from dashboards.queries.series import has_scores, matching, novelties_of, points
from dashboards.tables import count_column, score_column, show_selectable_table, show_table, text_column, time_column
from dashboards.words import (
    axis_title,
    code,
    expectation_text,
    explanation_text,
    local_text,
    number,
    plain,
    series_text,
)

STATE_SECONDS = 120.0
NO_POINTS = (
    "No window of this series was scored in the last {words}: it was not there then, it is warming up, or its name is "
    "another one. Choose a longer range."
)


@dataclass(frozen=True)
class SeriesPageData:
    """All that the page shows of a series. `points` is None where nothing was scored."""

    read: datetime
    newest: datetime | None
    span: Span
    points: pd.DataFrame | None
    has_scores: bool
    novelties: Listing


def page(view: View) -> None:
    """A search, and the series that the address names."""
    series = st.query_params.get("series", "")
    asked = st.text_input(
        "Find a series",
        key="find",
        bind="query-params",
        max_chars=200,
        placeholder="words of its name: host, service, metric; for example vm-002 latency",
        icon=":material/search:",
    )
    if asked or not series:
        show_matches(view, asked or "")
    if series:
        show_series(view, series)


def show_matches(view: View, asked: str) -> None:
    """Series that match; a click shows one."""

    def read(client: Elasticsearch) -> Listing:
        span = span_of(judged_until(client, view.version), chrome.now(), view.length)
        return matching(client, view.version, asked, span)

    found = chrome.read_or_last(view, "matches", asked, read)
    if found is not None:
        show_found(found, view, asked)


def show_found(found: Listing, view: View, asked: str) -> None:
    """A table of them, or that there is none."""
    if not found.total:
        none = "No series with novelties or scores has these words in its name" if asked else "No series was novel"
        st.caption(
            f"{none} in the last {view.words}. "
            "Choose a longer range; a series that was never novel is found only where scores are indexed (`index.scores`)."
        )
        return
    st.caption(
        f"{'Series with these words' if asked else 'Novel series'} of the last {view.words}, the most surprising first; "
        "click one."
    )
    rows = found.rows.assign(name=found.rows["series"].map(series_text))
    config = {
        "name": text_column("series (click to see)", "large"),
        "score": score_column("top score (nats)"),
        "latest": time_column("latest", view.zone),
        "documents": count_column("documents", help="Windows scored, and novelties."),
        "series": text_column("full name", "medium"),
    }
    chosen = show_selectable_table(
        Listing(rows, found.total), config, f"matches {view.version} {asked}", "series", hidden=()
    )
    if chosen is not None:
        view.open("series", series=str(chosen["series"]))


def show_series(view: View, series: str) -> None:
    """One series."""
    st.markdown(f"### {plain(series_text(series))}")
    st.caption(code(series))
    chrome.show_refreshed(view, part, view, series)
    show_state(view, series)


def part(view: View, series: str) -> None:
    """Read and show its curve and its novelties."""
    found = chrome.read_or_last(view, "series", series, lambda client: read_series(client, view, series))
    if found is not None:
        show(found, view, series)


def show(found: SeriesPageData, view: View, series: str) -> None:
    """All that was read."""
    if chrome.show_freshness(view, found.newest, found.read):
        show_curve(found, view, series)
        show_novelties(found.novelties, view)


def read_series(client: Elasticsearch, view: View, series: str) -> SeriesPageData:
    """All of a series. Raises QueryError if a search fails."""
    now = chrome.now()
    newest = judged_until(client, view.version)
    span = span_of(newest, now, view.length)
    curve = points(client, view.version, [series], span).get(series)
    return SeriesPageData(
        read=now,
        newest=newest,
        span=span,
        points=curve,
        has_scores=curve is not None or has_scores(client, view.version),
        novelties=novelties_of(client, view.version, series, span),
    )


def show_curve(found: SeriesPageData, view: View, series: str) -> None:
    """The model plot, or why there is none. Where scores are not indexed, it is read from the log."""
    points = found.points
    if points is None and not found.has_scores:
        note, key = st.container(), f"seconds {series}"
        points = log_curves.read_curves(view, [series], found.span, found.span.end, key, note).get(series)
    elif points is None:
        st.info(NO_POINTS.format(words=view.words), icon=":material/info:")
    if points is not None:
        st.caption(HOW_TO_READ)
        model_plot(points, found.span, view.zone, axis_title(series)).show("curve")
        st.caption("How surprising each window was; the dotted line is at one in a million.")
        score_plot(points, found.span, view.zone).show("scores")
    address = links.kibana("scores", found.span, links.any_of("novelty.series", [series]))
    if address:
        st.link_button("Scores in Kibana", address, icon=":material/open_in_new:")


def show_novelties(novelties: Listing, view: View) -> None:
    """Novelties of the series."""
    st.subheader("Novelties")
    if not novelties.total:
        st.caption(f"Nothing in the last {view.words}.")
        return
    rows = novelties.rows
    how = [", ".join(filter(None, (expectation_text(row), explanation_text(row)))) for _, row in rows.iterrows()]
    over = rows["status"].eq("close") | ~rows["kind"].isin(LASTING)
    until = rows["until"].fillna(rows["latest"]).where(over)
    config = {
        "since": time_column("since", view.zone),
        "until": time_column("until", view.zone, help="Empty while it is open."),
        "kind": text_column("kind", 70),
        "reason": text_column("reason", 420),
        **({"how": text_column("how it knows", 430)} if any(how) else {}),
        "score": score_column(),
    }
    show_table(Listing(rows.assign(until=until, how=how), novelties.total), config, "novelties", hidden=())


def show_state(view: View, series: str) -> None:
    """The state of the model, when it is asked for."""
    st.subheader("State of its model")
    st.caption(
        "Runs `kappa state` on this machine: it asks the process that runs `detect`, which takes about two seconds; where "
        "none runs here, it starts Spark to read the state, which takes longer."
    )
    if not view.who.may(RESPONDER):
        st.caption(role_text(RESPONDER))
        return
    if st.button("Ask the model", icon=":material/psychology:"):
        try:
            with st.spinner("Asking …"):
                answer = commands.answer(
                    ["state", "--version", view.version, NO_OPTIONS, series], STATE_SECONDS, view.who
                )
        except CommandError as error:
            st.error(plain(error), icon=":material/error:")
            return
        show_answer(answer, view)


def show_answer(answer: dict[str, Any], view: View) -> None:
    """The answer of `kappa state`."""
    unit = answer.get("unit") or ""
    facts = {
        "Typical": number(answer["typical"], unit),
        "Usual deviation": number(answer["spread"], unit),
        "Normal from": number(answer["lower"], unit),
        "Normal to": number(answer["upper"], unit),
        "Windows learnt": f"{answer['windows']:,}" if answer.get("windows") is not None else "–",
    }
    for column, (name, value) in zip(st.columns(len(facts)), facts.items(), strict=True):
        column.metric(name, value, border=True)
    episode = answer["episode"]
    sentences = [
        f"As of {local_text(datetime.fromtimestamp(answer['as_of_ms'] / 1000, tz=UTC), view.zone)}, the last window learnt.",
        f"Warming up: {answer['windows_to_go']} windows to go." if answer["warming"] else "",
        "It does not learn while its episode is open." if answer.get("frozen") else "",
        f"Open episode: {plain(episode['reason'])}" if episode else "No episode is open.",
    ]
    st.markdown(" ".join(text for text in sentences if text))
    with st.expander("All numbers that the model holds"):
        st.json(answer["numbers"], expanded=False)
