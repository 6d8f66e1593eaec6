"""The form in which a person mutes what is strange in an incident, or says that it was maintenance.

`kappa rules incident` appends the rules to the topic `rules`, and to `labels` that who has signed in has the incident in hand.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import streamlit as st

from dashboards import commands
from dashboards.chrome import View
from dashboards.commands import CommandError
from dashboards.identity import RESPONDER
from dashboards.queries.incident import Incident
from dashboards.words import plain
from models.core.wording import counted
from models.records.records import MOST_COMMENT

# Until when, and how long that is; without one until the incident's end.
SPANS = {
    "an hour from now": timedelta(hours=1),
    "8 hours from now": timedelta(hours=8),
    "a day from now": timedelta(days=1),
    "a week from now": timedelta(days=7),
}
ITS_END = "its end"
SECONDS = 60.0


def show_form(view: View, of: Incident) -> None:
    """Write rules when a button is pressed; their author is who has signed in. Two clicks: what, and for how long."""
    if not view.who.may(RESPONDER) or view.who.name is None:
        return
    left, right = st.columns(2)
    with left.popover("Mute this until …", icon=":material/notifications_off:", width="stretch"):
        mute = chosen_span(f"mute {of.id}", "Until then what is strange here is not reported.", list(SPANS))
    with right.popover("This was maintenance", icon=":material/construction:", width="stretch"):
        ends = [ITS_END] if of.until is not None else []
        work = chosen_span(
            f"maintenance {of.id}", "Its hosts were planned, from its start until then.", [*ends, *SPANS]
        )
    for what, choice in (("mute", mute), ("maintenance", work)):
        if choice is not None:
            span, comment = choice
            write_rules(view, of, what, SPANS.get(span), comment)


def chosen_span(key: str, caption: str, spans: list[str]) -> tuple[str, str] | None:
    """Which of the times was pressed, and the comment; None where none was pressed."""
    with st.form(key, border=False, enter_to_submit=False):
        st.markdown(caption)
        pressed = [span for span in spans if st.form_submit_button(span, width="stretch")]
        comment = st.text_input("Why", max_chars=MOST_COMMENT, placeholder="For people.")
    return (pressed[0], comment.strip()) if pressed else None


def write_rules(view: View, of: Incident, what: str, span: timedelta | None, comment: str) -> None:
    """Append the rules and the answer, and say what became of them."""
    until = [] if span is None else [f"--until={(datetime.now(UTC) + span).isoformat(timespec='seconds')}"]
    texts = [f"--comment={comment}", f"--author={view.who.name}", f"--version={view.version}"]
    try:
        with st.spinner("Writing the rules to the log …"):
            made = commands.answer(["rules", "incident", of.id, what, *until, *texts], SECONDS, view.who)
    except CommandError as error:
        st.error(f"No rule was written: {plain(error)}", icon=":material/cloud_off:")
        return
    names = ", ".join(plain(one["rule"]) for one in made["rules"])
    ending = f"`kappa rules remove` takes {'it' if len(made['rules']) == 1 else 'them'} back"
    more = "" if what == "mute" else " What was learnt meanwhile stays, until a replay with `--rules-as-known-now`."
    st.success(f"Written: {names}; {ending}. You have the incident.{more}", icon=":material/check_circle:")
    if left_out := made.get("left_out"):
        st.warning(
            f"Left out: {counted(left_out, 'rule')} about names that are too long for a pattern.",
            icon=":material/rule:",
        )
