"""Who has an incident in hand: the label `acknowledged`, and the button that gives it."""

from __future__ import annotations

import streamlit as st

from dashboards import commands, labelling
from dashboards.chrome import View
from dashboards.commands import CommandError
from dashboards.identity import RESPONDER, wanted
from dashboards.queries.incident import Incident
from dashboards.queries.labels import Answers, LabelDocument
from dashboards.words import clock, plain
from models.records.records import ACKNOWLEDGED

SECONDS = 60.0


def in_words(given: Answers, view: View) -> str:
    """Who has it, since when, what they wrote, and what it was. What somebody has judged is no more waiting for somebody to take it in hand."""
    words = []
    if given.taken is not None:
        who, ending = plain(given.taken.author) or "Somebody", labelling.ending(given.taken)
        words += [f"**{who}** has it, since {clock(given.taken.given_at, view.zone)}{ending}"]
    if given.judged is not None:
        words += [labelling.in_words(given.judged, view)]
    return " ".join(words) or "Nobody has acknowledged it."


def briefly(given: Answers) -> str:
    """The same in a few words."""
    words = []
    if given.taken is not None:
        words += [f"{plain(given.taken.author) or 'somebody'} has it"]
    if given.judged is not None:
        words += [
            f"{plain(given.judged.author) or 'somebody'}: {labelling.BRIEFLY.get(given.judged.label) or plain(given.judged.label)}"
        ]
    return " · ".join(words) or "nobody has it"


def button(view: View, of: Incident, label: LabelDocument | None) -> None:
    """Take an incident in hand while it is open, for who does not have it already; or what it takes to be allowed to."""
    key = written(of, view.who.name)
    if label is not None and label.author == view.who.name:
        st.session_state.pop(key, None)
        return
    if of.until is not None:
        return
    if not view.who.may(RESPONDER) or view.who.name is None:
        st.caption(wanted(RESPONDER, "Acknowledging it"))
        return
    if key not in st.session_state and st.button(
        "Acknowledge: I have it", key=f"acknowledge {of.id}", icon=":material/front_hand:"
    ):
        write(view, of, view.who.name)
    if key in st.session_state:
        st.success(
            "You have it: that is in the log, and on the dashboard when `index` has read it.",
            icon=":material/check_circle:",
        )


def written(of: Incident, author: str | None) -> str:
    """Where the session remembers that the label was written, until it is on the page: a part that is read again would forget it."""
    return f"acknowledged {of.id} {author}"


def write(view: View, of: Incident, author: str) -> None:
    """Append the label to the log, and remember that it is there; say why where it is not."""
    try:
        with st.spinner("Writing to the log …"):
            commands.answer(
                ["label", of.id, ACKNOWLEDGED, f"--author={author}", f"--version={view.version}"], SECONDS, view.who
            )
            st.session_state[written(of, author)] = (
                True  # at once: the end of the spinner may be where this run is stopped for the next one
            )
    except CommandError as error:
        st.error(f"It was not acknowledged: {plain(error)}", icon=":material/cloud_off:")
