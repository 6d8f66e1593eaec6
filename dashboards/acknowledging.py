"""Acknowledging an incident: who has it in hand, and the button that writes the label `acknowledged`."""

from __future__ import annotations

import streamlit as st

from dashboards import commands, labelling
from dashboards.chrome import View
from dashboards.commands import CommandError
from dashboards.identity import RESPONDER, role_text
from dashboards.queries.incident import Incident
from dashboards.queries.labels import Answers, LabelDocument
from dashboards.words import clock, plain
from models.records.records import ACKNOWLEDGED

SECONDS = 60.0


def status_text(given: Answers, view: View) -> str:
    """Who has acknowledged an incident, since when and with which comment, and its latest label. A labelled incident needs no acknowledgement."""
    words = []
    if given.taken is not None:
        who, ending = plain(given.taken.author) or "Somebody", labelling.comment_text(given.taken)
        words += [f"**{who}** has it, since {clock(given.taken.given_at, view.zone)}{ending}"]
    if given.judged is not None:
        words += [labelling.label_text(given.judged, view)]
    return " ".join(words) or "Nobody has acknowledged it."


def short_status_text(given: Answers) -> str:
    """As `status_text`, in a few words."""
    words = []
    if given.taken is not None:
        words += [f"{plain(given.taken.author) or 'somebody'} has it"]
    if given.judged is not None:
        words += [
            f"{plain(given.judged.author) or 'somebody'}: {labelling.BRIEFLY.get(given.judged.label) or plain(given.judged.label)}"
        ]
    return " · ".join(words) or "nobody has it"


def show_button(view: View, of: Incident, label: LabelDocument | None) -> None:
    """Show the button that acknowledges an open incident, unless this user has acknowledged it; without the role, a hint how to get it."""
    key = session_key(of, view.who.name)
    if label is not None and label.author == view.who.name:
        st.session_state.pop(key, None)
        return
    if of.until is not None:
        return
    if not view.who.may(RESPONDER) or view.who.name is None:
        st.caption(role_text(RESPONDER, "Acknowledging it"))
        return
    if key not in st.session_state and st.button(
        "Acknowledge: I have it", key=f"acknowledge {of.id}", icon=":material/front_hand:"
    ):
        acknowledge(view, of, view.who.name)
    if key in st.session_state:
        st.success(
            "You have it: that is in the log, and on the dashboard when `index` has read it.",
            icon=":material/check_circle:",
        )


def session_key(of: Incident, author: str | None) -> str:
    """The key of the session's state that says that the label was written, until it is on the page: a part that is refreshed would forget it."""
    return f"acknowledged {of.id} {author}"


def acknowledge(view: View, of: Incident, author: str) -> None:
    """Append the label to the log, and remember that it is there; say why where it is not."""
    try:
        with st.spinner("Writing to the log …"):
            commands.answer(
                ["label", of.id, ACKNOWLEDGED, f"--author={author}", f"--version={view.version}"], SECONDS, view.who
            )
            st.session_state[session_key(of, author)] = (
                True  # at once: the end of the spinner may be where this run is stopped for the next one
            )
    except CommandError as error:
        st.error(f"It was not acknowledged: {plain(error)}", icon=":material/cloud_off:")
