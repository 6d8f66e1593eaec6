"""The form in which a person labels an incident, and its latest label.

The only thing that these pages write: `kappa label` appends a record to the topic `labels`, which `index` reads.
"""

from __future__ import annotations

import streamlit as st

from dashboards import commands
from dashboards.chrome import View
from dashboards.commands import CommandError
from dashboards.identity import RESPONDER, role_text
from dashboards.queries.incident import Incident
from dashboards.queries.labels import LabelDocument
from dashboards.words import clock, code, plain
from models.core.wording import counted
from models.records.records import EXPECTED, FALSE_ALARM, MOST_COMMENT, TRUE

SAYS = {
    TRUE: "True: this was worth knowing",
    FALSE_ALARM: "False alarm: nothing was wrong or new",
    EXPECTED: "Expected change: this is the new normal",
}
BRIEFLY = {TRUE: "worth knowing", FALSE_ALARM: "false alarm", EXPECTED: "expected change"}
SECONDS = 60.0


def show(view: View, of: Incident, label: LabelDocument | None) -> None:
    """The latest label of an incident."""
    st.subheader("What was it?")
    if label is None:
        st.caption(f"Nobody has labelled incident {code(of.id)} yet.")
    else:
        st.info(label_text(label, view), icon=":material/label:")


def label_text(label: LabelDocument, view: View) -> str:
    """A label for people."""
    who = plain(label.author) or "somebody"
    return f"**{SAYS.get(label.label) or plain(label.label)}**, says {who}, {clock(label.given_at, view.zone)}{comment_text(label)}"


def comment_text(label: LabelDocument) -> str:
    """The end of a sentence about a label: its comment, if there is one."""
    return f": {plain(label.comment)}" if label.comment else "."


def show_form(view: View, of: Incident) -> None:
    """Write a label when it is sent; its author is who has signed in."""
    if not view.who.may(RESPONDER) or view.who.name is None:
        st.caption(role_text(RESPONDER, "Labelling it"))
        return
    with st.form(f"label {of.id}", border=True):
        label = st.radio("It was", list(SAYS), format_func=SAYS.__getitem__, horizontal=True, index=None)
        comment = st.text_input("Comment", max_chars=MOST_COMMENT, placeholder="What did you find?")
        sent = st.form_submit_button("Label this incident", icon=":material/label:")
    if not sent:
        st.caption("A label goes to the log: the models take it into account, and so does every replay of it.")
    elif label is None:
        st.error("Choose what it was.")
    else:
        write_label(view, of, label, comment.strip(), view.who.name)


def write_label(view: View, of: Incident, label: str, comment: str, author: str) -> None:
    """Append a label to the log, and say what became of it."""
    texts = [f"--comment={comment}", f"--author={author}", f"--version={view.version}"]
    try:
        with st.spinner("Writing the label to the log …"):
            written = commands.answer(["label", of.id, label, *texts], SECONDS, view.who)
    except CommandError as error:
        st.error(f"The label was not written: {plain(error)}", icon=":material/cloud_off:")
        return
    st.success(
        f"Labelled: {SAYS[label]}. It is in the log, and stands above when `index` has read it.",
        icon=":material/check_circle:",
    )
    if left_out := written.get("left_out"):
        st.warning(
            f"The label does not reach the series of {counted(left_out, 'episode')} of the incident: name these with `kappa label --series`.",
            icon=":material/rule:",
        )
