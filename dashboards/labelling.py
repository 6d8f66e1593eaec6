"""The form in which a person says what an incident was, and what was said of it before."""

from __future__ import annotations

from typing import Any

import streamlit as st

from dashboards import chrome, labels
from dashboards.chrome import View
from dashboards.labels import AUTHOR_CHARACTERS, COMMENT_CHARACTERS, LABELS, LabelError, Log, Reader
from dashboards.queries.incident import Incident
from dashboards.words import plain

SECONDS = 15.0


@st.cache_resource(show_spinner=False, max_entries=4)
def reader(topic: str, servers: str, _log: Log) -> Reader:
    """The one reader of this process."""
    return Reader(_log)


@st.cache_data(show_spinner=False, ttl=SECONDS, max_entries=4)
def known_labels(topic: str, servers: str, _log: Log) -> dict[str, dict[str, Any]]:
    """The last word on each incident, by its id. Raises LabelError."""
    return labels.latest(reader(topic, servers, _log).labels())


def all_labels() -> dict[str, dict[str, Any]]:
    """As `known_labels`, of the log that these pages write to. Raises LabelError."""
    log = labels.log()
    return known_labels(log.topic, str(log.options["bootstrap_servers"]), log)


def show(view: View, of: Incident) -> None:
    """What was said of an incident, and the form to say something."""
    st.subheader("What was it?")
    try:
        said = all_labels().get(of.id)
    except LabelError as error:
        st.warning(str(error), icon=":material/cloud_off:")
        said = None
    if said is not None:
        st.info(in_words(said), icon=":material/label:")
    form(view, of)


def in_words(said: dict[str, Any]) -> str:
    """A label for people."""
    who, comment = said.get("author") or "somebody", said.get("comment")
    ending = f": {plain(comment)}" if comment else "."
    return f"**{LABELS[said['label']]}**, says {plain(who)} at {said['@timestamp']}{ending}"


def form(view: View, of: Incident) -> None:
    """Write a label when it is sent."""
    with st.form(f"label {of.id}", border=True):
        label = st.radio("It was", list(LABELS), format_func=LABELS.__getitem__, horizontal=True, index=None)
        comment = st.text_input("Comment", max_chars=COMMENT_CHARACTERS, placeholder="What did you find?")
        author = st.text_input(
            "Your name", max_chars=AUTHOR_CHARACTERS, key="author", persist_state="session", width=260
        )
        sent = st.form_submit_button("Label this incident", icon=":material/label:")
    if not sent:
        st.caption("A label goes to the log: the models take it into account, and so does every replay of it.")
        return
    if label is None:
        st.error("Choose what it was.")
        return
    try:
        log = labels.log()
        with st.spinner("Writing the label to the log …"):
            labels.write(log, labels.record(of, label, comment.strip(), author.strip(), chrome.now()))
    except LabelError as error:
        st.error(str(error), icon=":material/cloud_off:")
        return
    known_labels.clear()
    st.success(f"Labelled: {LABELS[label]}. It is in the log.", icon=":material/check_circle:")
