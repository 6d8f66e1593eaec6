"""Why something is an incident: its series with observed and expected values, and its log messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboards import log_curves
from dashboards.chrome import View
from dashboards.model_plot import HOW_TO_READ, model_plot
from dashboards.queries.frames import Listing
from dashboards.queries.incident import Incident
from dashboards.queries.search import Span
from dashboards.tables import score_column, show_table, text_column, time_column
from dashboards.theme import badge
from dashboards.words import axis_title, clock, expectation_text, explanation_text, percent, plain, plural, series_text

PLOTTED = 4  # contributions with curves
CAUSES = 3  # that are seen at once
DID = {"new": "appeared", "silence": "vanished", "change": "has a new rate"}


def show_contributions(
    of: Incident, episodes: pd.DataFrame, curves: Mapping[str, pd.DataFrame], span: Span, view: View
) -> list[Callable[[], None]]:
    """Series by their share of the evidence; the first ones with observed and expected values, others where these are asked for.

    `episodes` has the columns of NOVELTY, `curves`, drawn over `span`, those of POINT for the series whose scores are indexed. The first of
    these curves is drawn at once. Answered is what draws the others in their places, those from the log last: they are below what one sees first.
    """
    st.subheader(f"Why: {plural(len(of.series), 'series')}, the largest share of the evidence first")
    st.caption(HOW_TO_READ)
    note, places = st.container(), show_each(of, episodes, view)
    draws = [partial(curve, n, curves[n], span, view, place) for n, place in places.items() if n in curves]
    for draw in draws[:1]:
        draw()
    others = {name: place for name, place in places.items() if name not in curves}
    return [*draws[1:], partial(draw_from_log, of, others, span, view, note)]


def show_each(of: Incident, episodes: pd.DataFrame, view: View) -> dict[str, DeltaGenerator]:
    """Each series in words; answers where curves are to stand, by the names of the series that have one."""
    places = {}
    for _, row in of.contributions[:PLOTTED].iterrows():
        contribution(row, episode_of(row, episodes), view)
        places[row["series"]] = st.container()
    rest = of.contributions[PLOTTED:]
    if len(rest):
        with st.expander(f"{plural(len(rest), 'more series')} that contribute{'s' if len(rest) == 1 else ''}"):
            with_curves = st.toggle("With curves", key=f"curves {of.id}")
            for _, row in rest.iterrows():
                contribution(row, episode_of(row, episodes), view)
                if with_curves:
                    places[row["series"]] = st.container()
    return places


def draw_from_log(
    of: Incident, places: Mapping[str, DeltaGenerator], span: Span, view: View, note: DeltaGenerator
) -> None:
    """Curves of the series whose scores are not indexed, in their places."""
    if places:
        for name, points in log_curves.read_curves(
            view, of.series, of.around, of.since, f"seconds {of.id}", note
        ).items():
            if name in places:
                curve(name, points, span, view, places[name])


def show_causes(of: Incident, view: View) -> None:
    """Who is likely the cause: the first ones, then the others."""
    if of.causes.empty:
        return
    st.subheader("Probably why")
    for place, (_, row) in enumerate(of.causes[:CAUSES].iterrows(), 1):
        cause(place, row, view)
    rest = of.causes[CAUSES:]
    if len(rest):
        with st.expander(f"{plural(len(rest), 'less likely cause')}"):
            for place, (_, row) in enumerate(rest.iterrows(), CAUSES + 1):
                cause(place, row, view)


def cause(place: int, row: Any, view: View) -> None:
    """A cause: its sentence, since when, and a link to its series."""
    words, link = st.columns([5, 2], vertical_alignment="center")
    announced = ":violet-badge[change] " if row["kind"] == "change" else ""
    name = plain(row["service"] or row["host"]) or "–"
    since = "" if pd.isna(row["onset"]) else f" · since {clock(row['onset'], view.zone)}"
    words.markdown(f"{place}. {announced}**{name}**: {plain(row['why'])}{since}")
    if row["series"]:
        with link:
            view.link("series", plain(series_text(row["series"])), icon=":material/show_chart:", series=row["series"])


def curve(series: str, points: pd.DataFrame, span: Span, view: View, place: DeltaGenerator) -> None:
    """Observed and expected values of a series."""
    with place:
        model_plot(points, span, view.zone, axis_title(series)).show(f"plot {series}")


def episode_of(row: Any, episodes: pd.DataFrame) -> Any:
    """The episode of a series that its contribution speaks of, else its strongest one; None where it has none that is known."""
    own = [episode for _, episode in episodes[episodes["series"] == row["series"]].iterrows()]
    reason = row["reason"] or ""  # may have the host in front

    def rank(episode: Any) -> tuple[bool, float]:
        known = isinstance(episode["reason"], str) and reason.endswith(episode["reason"])
        return known, 0.0 if pd.isna(episode["score"]) else episode["score"]

    return max(own, key=rank, default=None)


def contribution(row: Any, novelty: Any, view: View) -> None:
    """A series: its share, and its reason in words."""
    series = row["series"]
    name, share = st.columns([5, 2], vertical_alignment="center")
    with name:
        view.link("series", plain(series_text(series)), icon=":material/show_chart:", series=series)
    share.markdown(f"{badge(row['kind'])} **{percent(row['share'])}** of the evidence")
    words = [row["reason"] or ""]
    if novelty is not None:
        words += [expectation_text(novelty), explanation_text(novelty)]
    st.markdown(plain(sentences(words)))


def sentences(words: list[str]) -> str:
    """The reasons of a series' novelties, each once, as one text. The first begins with a name, whose case is kept."""
    first, *others = dict.fromkeys(text for text in words if text) or [""]
    return ". ".join([first, *(text[:1].upper() + text[1:] for text in others)])


def did(row: Any) -> str:
    """What a message did, of the columns of NOVELTY."""
    change = row["value"] - row["typical"]  # NaN where either is not known
    how = "more" if change > 0 else "less" if change < 0 else "more or less"
    return DID.get(row["kind"], f"came {how} often than usual")


def show_templates(rows: pd.DataFrame, view: View) -> None:
    """Messages that appeared, vanished, or came more or less often, with a sample of each. Columns of NOVELTY."""
    messages = rows[rows["template"].notna()]
    st.subheader("Log messages")
    if messages.empty:
        st.caption("No message appeared, vanished, or changed how often it comes.")
        return
    shown = messages.assign(did=[did(row) for _, row in messages.iterrows()])
    config = {
        "did": text_column("what it did", 190),
        "since": time_column("since", view.zone),
        "host": text_column("host", 100),
        "service": text_column("service", 100),
        "level": text_column("level", 70),
        "template": text_column("template", "large"),
        "sample": text_column("a sample", "large"),
        "score": score_column(),
    }
    show_table(Listing(shown, len(shown)), config)
