"""Two versions over the same events: what only one of them found, how each does on labelled incidents, and which one serves."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pandas as pd
import streamlit as st

from dashboards import chrome, commands
from dashboards.chrome import View
from dashboards.commands import CommandError
from dashboards.identity import OPERATOR, Identity, role_text
from dashboards.judging import Judgement, judge_version
from dashboards.queries.frames import Listing
from dashboards.queries.labels import LabelDocument
from dashboards.queries.search import Span
from dashboards.queries.versions import Comparison, compare, labelled
from dashboards.tables import score_column, show_selectable_table, text_column, time_column
from dashboards.theme import LEFT, RIGHT, Chart, nominal, quantity, scaled, time_axis, tooltip_time
from dashboards.words import code, local_text, novelty_subject, plain

SHOWN = 200
PIXELS = 200  # of a chart, axes and legend included
DRY_RUN_SECONDS = 120.0
WORK_SECONDS = 2
ROLLBACK = ["replay", "rollback"]
PLAN = "plan of the dialog"  # in the state of the session: what is shown and waits for a confirmation


def page(view: View) -> None:
    """The whole page."""
    others = [name for name in view.versions if name != view.version]
    if not others:
        st.info(
            f"There is one version, {code(view.version)}. `kappa replay --version NAME --from-time 2h` runs the past again under "
            "another name; it is here as soon as it is indexed.",
            icon=":material/compare_arrows:",
        )
    else:
        other = st.selectbox("Compare with", others, key="with", bind="query-params", width=300)
        chrome.show_refreshed(view, part, view, other)
    show_serving(view)


def part(view: View, other: str) -> None:
    """Read and show the differences."""
    found = chrome.read_or_last(
        view, "versions", other, lambda client: compare(client, view.version, other, view.length, chrome.now())
    )
    if found is not None:
        show(found, view)
        show_labels(view, other, found.span)


def show(found: Comparison, view: View) -> None:
    """All that was read."""
    if not all(found.newest):
        empty = found.left if found.newest[0] is None else found.right
        st.info(f"Nothing has been found in version {code(empty)} yet: there is nothing to compare.")
        return
    head(found, view)
    show_counts(found, view)
    show_only(found, view)


def head(found: Comparison, view: View) -> None:
    """The differences in numbers."""
    ends = local_text(found.span.end, view.zone)
    st.caption(f"The last {view.words} that both have reached, until {ends}. Times are in {view.zone.key}.")
    numbers = {
        "In both": (found.both, "Novelties with the same series and beginning."),
        "Of another kind": (found.kinds_differ, "Of those in both."),
        f"Only {plain(found.left)}": (len(found.only_left), "Novelties that the other version does not have."),
        f"Only {plain(found.right)}": (len(found.only_right), "Novelties that the other version does not have."),
    }
    for column, (name, (value, text)) in zip(st.columns(len(numbers)), numbers.items(), strict=True):
        column.metric(name, f"{value:,}", help=text, border=True)
    if found.compared_after is not None:
        after = local_text(found.compared_after, view.zone)
        st.caption(f"There are too many novelties to compare them all: compared are those that began after {after}.")


def show_counts(found: Comparison, view: View) -> None:
    """Novelties over time, a panel for each kind, marks for each version."""
    st.subheader("Novelties over time")
    if found.counts.empty:
        st.caption("Neither version found a novelty here.")
        return
    names = [found.left, found.right]
    totals = found.counts.groupby("version")["count"].sum()
    st.caption(" · ".join(f"{code(name)}: **{int(totals.get(name, 0)):,}** novelties" for name in names))
    x = time_axis("time", found.span, view.zone)
    encoding = {
        "x": x,
        "color": scaled("version", "version", names, [LEFT, RIGHT], legend={"orient": "top"}),
        "shape": scaled("version", "version", names, ["circle", "square"]),
        "tooltip": [
            tooltip_time("time", "from"),
            nominal("version", title="version"),
            nominal("kind", title="kind"),
            quantity("count", title="novelties"),
        ],
    }
    mark = {"type": "point", "filled": False, "size": 70, "strokeWidth": 2, "opacity": 1}
    for kind in sorted(set(found.counts["kind"])):
        y = quantity("count", title=f"novelties: {kind}", axis={"tickMinStep": 1})
        spec = {"height": PIXELS, "mark": mark, "encoding": {**encoding, "y": y}}
        Chart(found.counts[found.counts["kind"] == kind], spec).show(f"count {kind}")


def show_only(found: Comparison, view: View) -> None:
    """What only one of them found."""
    for name, rows in ((found.left, found.only_left), (found.right, found.only_right)):
        st.subheader(f"Only version {plain(name)}")
        if rows.empty:
            st.caption("Nothing.")
            continue
        config = {
            "since": time_column("since", view.zone),
            "kind": text_column("kind", 70),
            "host": text_column("host", 100),
            "what": text_column("what", 200),
            "reason": text_column("reason (click to see its series)", 750),
            "score": score_column(),
        }
        shown = rows[:SHOWN].assign(what=novelty_subject(rows[:SHOWN]))
        chosen = show_selectable_table(Listing(shown, len(rows)), config, f"only {name}", "novelties")
        if chosen is not None:
            view.open("series", series=str(chosen["series"]))


def show_labels(view: View, other: str, span: Span) -> None:
    """How each version does on the incidents of the span that people labelled."""
    st.subheader("By people's labels")
    names = (view.version, other)
    found = chrome.read_or_last(view, "labels", other, lambda client: labelled(client, names, span))
    if found is None:
        return
    if found.after is not None:
        after = local_text(found.after, view.zone)
        st.caption(
            f"There are too many incidents to look at them all: labels are those of incidents that began after {after}."
        )
    if found.cut:
        st.caption("There are too many labels to count them all: counted are those that were given last.")
    if not found.labels:
        since = f"of the last {view.words}" if found.after is None else "of this time"
        st.caption(f"No incident {since} has a label: give them on the page Incident.")
        return
    rows = [label_row(name, found.labels.values(), found.incidents[name]) for name in names]
    st.dataframe(pd.DataFrame(rows), hide_index=True, width="stretch")
    st.caption(
        f"Of the {len(found.labels):,} incidents of this time with a label. A version has one of them when an incident of it shares "
        "a host and a time with it. Where the truth is in a file, `kappa replay diff A B --truth FILE` counts by it."
    )


def label_row(version: str, labels: Collection[LabelDocument], incidents: pd.DataFrame) -> dict[str, Any]:
    """A version's row."""
    result: Judgement = judge_version(labels, incidents)
    return {
        "version": version,
        "true ones found": f"{result.found} of {result.worth_knowing}",
        "recall": "–" if result.recall is None else f"{result.recall:.0%}",
        "false alarms raised": f"{result.raised} of {result.false}",
    }


# --- who serves


def show_serving(view: View) -> None:
    """Promote a version, or roll back: each with a dry run and a confirmation."""
    st.subheader("Who serves")
    st.caption(
        "Runs `kappa replay promote` and `kappa replay rollback` on this machine. A promotion first lets the version catch "
        "up, which can take minutes; what it says is shown here, and nothing has changed until it has caught up."
    )
    if not view.who.may(OPERATOR):
        st.caption(role_text(OPERATOR))
        show_work()
        return
    promote, back = st.columns(2)
    busy = commands.command_runner().is_busy
    if promote.button(f"Promote {plain(view.version)} …", icon=":material/upgrade:", disabled=busy):
        open_dialog(f"Let version {view.version} serve", ["replay", "promote", view.version], view.who)
    if back.button("Roll back …", icon=":material/undo:", disabled=busy):
        open_dialog("Let the version before serve again", ROLLBACK, view.who)
    show_work()


def open_dialog(title: str, arguments: list[str], who: Identity) -> None:
    """Open the dialog, for which the plan is made anew."""
    st.session_state.pop(PLAN, None)
    show_dialog(title, arguments, who)


@st.dialog("Are you sure?", width="medium")
def show_dialog(title: str, arguments: list[str], who: Identity) -> None:
    """Show what would be done, and do that after a confirmation.

    The click runs this once more, and by then another version may serve: the plan is that of the run before, which was shown.
    """
    head = st.empty()
    head.markdown(command_title(title, arguments))
    try:
        if PLAN not in st.session_state:
            with st.spinner("Looking what would be done …"):
                st.session_state[PLAN] = commands.answer([*arguments, "--dry-run"], DRY_RUN_SECONDS, who)
    except CommandError as error:
        st.error(plain(error), icon=":material/block:")
        return
    plan: dict[str, Any] = st.session_state[PLAN]
    command = planned_command(arguments, plan)
    head.markdown(command_title(title, command))
    st.markdown(plan_text(plan))
    if plan["already"]:
        return
    if st.button("Yes, do it", type="primary", icon=":material/check:"):
        try:
            commands.command_runner().begin([*command, f"--by={who.name}"], who)
        except CommandError as error:
            st.error(plain(error), icon=":material/block:")
            return
        st.rerun()


def command_title(title: str, arguments: list[str]) -> str:
    """The title of the dialog with the command that it runs."""
    return f"**{plain(title)}**: {code('kappa ' + ' '.join(arguments))}"


def planned_command(arguments: list[str], plan: dict[str, Any]) -> list[str]:
    """The command that does what the plan says. A rollback names its version, which would otherwise depend on the version that serves by then."""
    return [*arguments, f"--to={plan['version']}"] if arguments == ROLLBACK else arguments


def plan_text(plan: dict[str, Any]) -> str:
    """The plan of a promotion as text."""
    version, other = plan["version"], plan["previous"]
    if plan["already"]:
        return f"Version {code(version)} serves already."
    runs = "its jobs run" if plan["previous_running"] else "nobody runs its jobs"
    return (
        f"Version {code(version)} would take over from {code(other)} ({runs}). It has results after {plain(plan['covers_from_time'])} "
        f"and is {indexed_text(plan, 'reached')}; {code(other)} is {indexed_text(plan, 'previous_reached')}."
    )


def indexed_text(plan: dict[str, Any], which: str) -> str:
    """Up to which time a version is indexed. `which` is `reached` or `previous_reached`."""
    return "not indexed yet" if plan[which] is None else f"indexed up to {plain(plan[f'{which}_time'])}"


@st.fragment(run_every=WORK_SECONDS)
def show_work() -> None:
    """Output of the command that was started last."""
    work = commands.command_runner().command
    if work is None:
        return
    ended = work.code
    if ended is None:
        st.info(f"{code(work.name)} is running.", icon=":material/hourglass_top:")
    elif ended == 0:
        st.success(f"{code(work.name)} is done.", icon=":material/check_circle:")
    else:
        st.error(
            f"{code(work.name)} ended with code {ended}: {plain(commands.last_line(work.output))}",
            icon=":material/error:",
        )
    st.code(work.output or "(no output yet)", language=None)
