"""The form in which a person mutes what is strange in an incident, or says that it was maintenance.

`kappa rules incident` appends the rules to the topic `rules`.
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
from models.detection.labels import MOST_COMMENT

# How long, and by how much time from now; without one as long as the incident.
SPANS = {
    "an hour": timedelta(hours=1),
    "8 hours": timedelta(hours=8),
    "a day": timedelta(days=1),
    "a week": timedelta(days=7),
}
ITS_END = "its end"
SECONDS = 60.0


def form(view: View, of: Incident) -> None:
    """Write rules when a button is pressed; their author is who has signed in."""
    if not view.who.may(RESPONDER) or view.who.name is None:
        return
    with st.form(f"rules {of.id}", border=True):
        st.markdown("From now on, in the log")
        choices = [*([ITS_END] if of.until is not None else []), *SPANS]
        span = st.selectbox("For", choices, help="From now; a maintenance is from the incident's start.")
        comment = st.text_input("Why", max_chars=MOST_COMMENT, placeholder="For people.")
        muting = st.form_submit_button("Mute what is strange here", icon=":material/notifications_off:")
        planned = st.form_submit_button("This was maintenance of its hosts", icon=":material/construction:")
    if muting and span == ITS_END:
        st.error("It has ended: choose for how long to mute it from now on.")
    elif muting or planned:
        write(view, of, "mute" if muting else "maintenance", SPANS.get(span), comment.strip())


def write(view: View, of: Incident, what: str, span: timedelta | None, comment: str) -> None:
    """Append the rules, and say what became of them."""
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
    st.success(f"Written: {names}; {ending}.{more}", icon=":material/check_circle:")
