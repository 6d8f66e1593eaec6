"""An incident for others: its address, a summary in plain text, and files for a review afterwards."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import pandas as pd
import streamlit as st

from dashboards.chrome import View
from dashboards.queries.incident import Incident
from dashboards.queries.labels import LabelDocument
from dashboards.words import join_names, local_text, one_line, plain

MOST_NAMES = 8
MOST_EPISODES = 1_000


def show(view: View, of: Incident, episodes: pd.DataFrame, labels: Mapping[str, LabelDocument | None]) -> None:
    """What can be sent to others. `labels`: the latest label, and who has acknowledged it."""
    with st.expander("Share"):
        st.caption("Its address, and a summary in plain text: each has a button to copy it.")
        st.code(address(view, of), language=None, wrap_lines=True)
        st.code(summary(of, address(view, of), view.zone), language=None, wrap_lines=True)
        st.download_button(
            "As Markdown",
            markdown(of, episodes, labels, view.zone),
            f"incident-{of.id}.md",
            "text/markdown",
            key=f"md {of.id}",
        )
        st.download_button(
            "As JSON",
            incident_json(of, episodes, labels),
            f"incident-{of.id}.json",
            "application/json",
            key=f"json {of.id}",
        )


def address(view: View, of: Incident) -> str:
    """The address of the incident's page, as the browser reaches it."""
    base = (st.context.url or "").split("?", 1)[0].rstrip("/")
    return f"{base}?{urlencode(view.address(incident=of.id))}"


def facts(of: Incident, zone: ZoneInfo) -> dict[str, str]:
    """What, where, since when, how bad, probably why: in words, each in one line."""
    until = local_text(of.until, zone) if of.until is not None else "not over yet"
    why = [one_line(f"{row['service'] or row['host']}: {row['why']}") for _, row in of.causes[:1].iterrows()]
    return {
        "What": f"{of.kind}: {one_line(of.reason)}",
        "Where": names_text(of.hosts, of.about.get("affected"))
        + (f"; services {names_text(of.services)}" if of.services else ""),
        "Since": f"{local_text(of.since, zone)}, until {until}"
        if of.until is not None
        else f"{local_text(of.since, zone)}, {until}",
        "How bad": f"{of.severity or 'unknown'}{f', {of.points} of 100' if of.points is not None else ''}",
        **({"Probably why": why[0]} if why else {}),
    }


def names_text(names: tuple[str, ...], count: int | None = None) -> str:
    """The first names, and how many more there are of `count` in all."""
    return join_names(names, MOST_NAMES, count, one_line) or "-"


def summary(of: Incident, link: str, zone: ZoneInfo) -> str:
    """Some lines of plain text."""
    return "\n".join([*(f"{name}: {text}" for name, text in facts(of, zone).items()), f"Page: {link}"])


def markdown(of: Incident, episodes: pd.DataFrame, labels: Mapping[str, LabelDocument | None], zone: ZoneInfo) -> str:
    """The incident as a document: facts, causes, labels, and its episodes in order of time."""
    lines = [
        f"# Incident {plain(of.id)}",
        "",
        *(f"- **{name}**: {plain(text)}" for name, text in facts(of, zone).items()),
    ]
    if len(of.causes):
        lines += ["", "## Probably why", ""]
        lines += [f"1. {plain(row['service'] or row['host'])}: {plain(row['why'])}" for _, row in of.causes.iterrows()]
    given = [label for label in labels.values() if label is not None]
    if given:
        lines += ["", "## Labels", ""]
        lines += [
            f"- {local_text(one.given_at, zone)}, {plain(one.author)}: {plain(one.label)}{f', {plain(one.comment)}' if one.comment else ''}"
            for one in given
        ]
    lines += ["", "## Episodes", ""]
    lines += [
        f"- {local_text(row['since'].to_pydatetime(), zone)}, {plain(row['kind'])}: {plain(row['reason'])}"
        for _, row in episodes[:MOST_EPISODES].iterrows()
    ]
    return "\n".join(lines) + "\n"


def incident_json(of: Incident, episodes: pd.DataFrame, labels: Mapping[str, LabelDocument | None]) -> str:
    """The incident as one object; times are ISO 8601 in UTC. `hosts` are the first ones of those that are `affected`."""
    own: dict[str, Any] = {
        name: getattr(of, name)
        for name in (
            "id",
            "version",
            "since",
            "until",
            "kind",
            "reason",
            "severity",
            "points",
            "score",
            "hosts",
            "services",
        )
    }
    own |= {
        "affected": of.about.get("affected"),
        "causes": rows_as_objects(of.causes),
        "series": rows_as_objects(of.contributions),
        "episodes": rows_as_objects(episodes[:MOST_EPISODES]),
    }
    own["labels"] = {name: vars(label) for name, label in labels.items() if label is not None}
    return json.dumps(own, indent=2, default=json_value, ensure_ascii=False, allow_nan=False)


def rows_as_objects(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as objects, without what is not known."""
    return [
        {str(name): value for name, value in row.items() if isinstance(value, list) or not pd.isna(value)}
        for row in rows.to_dict("records")
    ]


def json_value(value: Any) -> Any:
    """What JSON has no form for: a time, or a number of numpy."""
    if isinstance(value, datetime):
        return value.isoformat()
    return value.item()
