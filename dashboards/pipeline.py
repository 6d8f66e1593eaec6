"""The page Pipeline: health of the jobs, refused records, savepoints."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pandas as pd
import streamlit as st

from dashboards import chrome, commands, identity, jobs
from dashboards.chrome import View
from dashboards.commands import CommandError
from dashboards.queries.frames import Listing
from dashboards.queries.pipeline import Refusals, refusals
from dashboards.tables import count_column, show_table, text_column, time_column
from dashboards.theme import Chart, nominal, quantity, scaled, time_axis, tooltip_time
from dashboards.words import code, duration, plain, plural

REFUSED_COLOURS = {"late": "#0072B2", "dead-letters": "#D55E00"}
REFUSED_WORDS = {"late": "too late", "dead-letters": "unreadable (dead letters)"}
SAVEPOINT_SECONDS = 30.0
SAVEPOINT = ("name", "version", "after", "age", "series", "size", "problem")
CHART_PIXELS = 220  # axes and legend included
JOBS_HELP = (
    "No process is known that runs jobs of version {version}. Start them with {command} on this machine, or set "
    "`health.port` for each process and name their addresses in `dashboard.jobs`, for example "
    '`dashboard.jobs = ["http://127.0.0.1:9464"]`, and start the dashboard anew.'
)

QUARANTINE_HELP = "{records} in quarantine: whenever a job read one, it ended, so it is left unread. `kappa quarantine list` says which and why."


def page(view: View) -> None:
    """The whole page."""
    chrome.show_refreshed(view, show_jobs, view)
    chrome.show_refreshed(view, show_refusals, view)
    show_savepoints(view)


def show_jobs(view: View) -> None:
    """Each job's newest facts."""
    st.subheader("Jobs")
    found = jobs.report_jobs(view.version, view.zone)
    if found.others:
        run = ", ".join(f"{code(version)} at {plain(address)}" for address, version in found.others.items())
        st.caption(f"Other versions are run: {run}.")
    if not found.jobs and not found.silent:
        # Where others are run this one is not that which `kappa run all` takes: it serves.
        command = "kappa run all" + (f" --version {view.version}" if found.others else "")
        st.info(JOBS_HELP.format(version=code(view.version), command=code(command)), icon=":material/info:")
        return
    for address, why in found.silent.items():
        st.error(
            f"The process at {plain(address)} does not answer ({plain(why)}): see whether it runs.",
            icon=":material/cloud_off:",
        )
    if not found.jobs:
        return
    ill = [name for name, facts in found.jobs.items() if not facts["healthy"]]
    if ill:
        st.error(
            f"Not well: {', '.join(map(plain, ill))}. No progress for too long, or rows were dropped; its log says why."
        )
    else:
        st.success(
            f"{plural(len(found.jobs), 'job')} {'makes' if len(found.jobs) == 1 else 'make'} progress.",
            icon=":material/check_circle:",
        )
    if found.quarantined:
        st.warning(QUARANTINE_HELP.format(records=plural(found.quarantined, "record")), icon=":material/bug_report:")
    for note in found.notes:
        st.warning(plain(note), icon=":material/history:")
    job_table(pd.DataFrame([job_row(name, facts) for name, facts in found.jobs.items()]))


def job_row(name: str, facts: Any) -> dict[str, Any]:
    """A job as a row."""
    delay = facts.get("watermark_delay_seconds")
    return {
        "job": name,
        "well": "yes" if facts["healthy"] else "NO",
        "lag": facts["lag"],
        "delay": None if delay is None else round(delay),
        "batch": facts["batch_seconds"],
        "rows": facts["rows"],
        "state": facts["state_bytes"] / 2**20,
        "dropped": facts["dropped_by_watermark"],
        "age": facts["seconds_since_progress"],
    }


def job_table(rows: pd.DataFrame) -> None:
    """Jobs as a table."""
    number = st.column_config.NumberColumn
    config = {
        "job": text_column("job"),
        "well": text_column("well", 60, help="Progress is recent and no row was dropped."),
        "lag": count_column("lag (records)", 110, help="Records in its topics that it has not read."),
        "delay": number("watermark delay (s)", format="%d", help="Clock minus watermark. Only extract has one."),
        "batch": number("last batch (s)", format="%.1f"),
        "rows": count_column("rows read", 110, help="Since the process began."),
        "state": number("state (MiB)", format="%.1f", help="Memory of the state store."),
        "dropped": count_column("dropped rows", 100, help="By the watermark. Anything but 0 stops the job."),
        "age": number("last progress (s ago)", format="%.0f"),
    }
    show_table(Listing(rows, len(rows)), config)


def show_refusals(view: View) -> None:
    """Records that were too late or could not be read."""
    st.subheader("Refused records")
    found = chrome.read_or_last(
        view, "refused", "", lambda client: refusals(client, view.version, view.length, chrome.now())
    )
    if found is not None:
        show(found, view)


def show(found: Refusals, view: View) -> None:
    """All that was read."""
    if not chrome.show_freshness(view, found.newest, found.read) and not found.reasons.total:
        return
    if not found.reasons.total:
        st.caption(f"No record was too late or unreadable in the last {view.words}.")
        return
    counts = found.reasons.kinds
    st.caption(" · ".join(f"**{counts.get(name, 0):,}** {text}" for name, text in REFUSED_WORDS.items()))
    refused_chart(found, view).show()
    reasons = found.reasons.rows
    config = {
        "dataset": text_column("kind"),
        "reason": text_column("reason"),
        "count": count_column("records"),
        "latest": time_column("latest", view.zone),
        "stage": text_column("stage"),
        "source_position": text_column("from", help="Topic, partition and offset of the sample."),
        "sample": text_column("newest sample", "large"),
    }
    show_table(Listing(reasons, len(reasons)), config)
    listed = int(reasons["count"].sum())
    if listed < found.reasons.total:
        st.caption(
            f"These are the most frequent reasons: those of {listed:,} of {plural(found.reasons.total, 'record')}."
        )


def refused_chart(found: Refusals, view: View) -> Chart:
    """Refused records over time."""
    names = [name for name in REFUSED_COLOURS if name in set(found.rate["dataset"])]
    colours = [REFUSED_COLOURS[name] for name in names]
    encoding = {
        "x": time_axis("time", found.span, view.zone, title=f"appended ({view.zone.key})"),
        "y": quantity("count", title="records", axis={"format": "~s", "tickMinStep": 1}),
        "color": scaled("dataset", "kind", names, colours, legend={"orient": "top"}),
        "tooltip": [
            tooltip_time("time", "from"),
            nominal("dataset", title="kind"),
            quantity("count", title="records", format=","),
        ],
    }
    return Chart(found.rate, {"height": CHART_PIXELS, "mark": {"type": "bar", "size": 8}, "encoding": encoding})


def show_savepoints(view: View) -> None:
    """Savepoints, as `kappa savepoint list` says."""
    st.subheader("Savepoints")
    try:
        with st.spinner("Asking `kappa savepoint list` …"):
            found = savepoints()
    except CommandError as error:
        st.error(plain(error), icon=":material/error:")
        return
    if not found["savepoints"]:
        st.caption("There is none yet. `kappa savepoint create NAME` takes one while jobs run.")
        return
    rows = savepoint_rows(found["savepoints"][::-1])
    config = {
        "name": text_column("name"),
        "version": text_column("version"),
        "after": time_column("state after", view.zone),
        "age": text_column("how old"),
        "series": count_column("series"),
        "size": st.column_config.NumberColumn("size (MiB)", format="%.1f"),
        "problem": text_column("problem", "medium"),
    }
    show_table(Listing(rows, len(rows)), config)


@st.cache_data(show_spinner=False, ttl=30)
def savepoints() -> dict[str, Any]:
    """What `kappa savepoint list` answers. Raises CommandError."""
    return commands.answer(["savepoint", "list"], SAVEPOINT_SECONDS, identity.NOBODY)


def savepoint_rows(manifests: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Savepoints as a frame with the columns of SAVEPOINT. After an upgrade of a state's format none of them may be readable."""
    rows = pd.DataFrame([savepoint_row(one) for one in manifests], columns=list(SAVEPOINT))
    return rows.assign(
        after=pd.to_datetime(rows["after"], utc=True),
        series=rows["series"].astype("Int64"),
        size=rows["size"].astype(float),
    )


def savepoint_row(manifest: dict[str, Any]) -> dict[str, Any]:
    """A savepoint as a row; one whose manifest cannot be read has its name and says why."""
    if "problem" in manifest:
        return dict.fromkeys(SAVEPOINT) | {"name": manifest["name"], "problem": manifest["problem"]}
    after = datetime.fromtimestamp(manifest["tick"] / 1000, tz=UTC)
    return {
        "name": manifest["name"],
        "version": manifest["version"],
        "after": after,
        "age": duration(max(chrome.now() - after, datetime.resolution)),
        "series": manifest["series"],
        "size": sum(file["bytes"] for file in manifest["files"].values()) / 2**20,
        "problem": "",
    }
