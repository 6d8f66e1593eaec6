"""`kappa replay diff`: compares the results of two versions. The work is in `replay.compare.diff`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.connection import Config, connected
from app.cli.output import Json, print_json, print_line, print_table, report
from app.core.settings import load
from app.core.timestamps import iso, milliseconds
from app.versions import replay_manifest
from app.versions.replay_manifest import RESULT_KINDS
from models.core.wording import counted

Version = Annotated[str, typer.Argument(help="A version: `live`, or the name that a replay was given.")]

COUNTS = ("left", "right", "only_left", "only_right", "different")
JUDGED = ("faults", "found", "missed", "changes", "changes_announced", "false_alarms", "median_seconds_to_detect")


def diff(
    left: Version,
    right: Version,
    truth: Annotated[Path | None, typer.Option(help="Judge both by what `kappa simulate` wrote: truth.json.")] = None,
    most: Annotated[int, typer.Option(min=0, help="How many differences to show.")] = 20,
    since: Annotated[str | None, typer.Option("--from", help="First window end to compare, ISO 8601.")] = None,
    until: Annotated[str | None, typer.Option("--to", help="Last window end to compare, ISO 8601.")] = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Compare two versions over the windows that both have: scores, novelties, incidents."""
    from app.runtime.spark import own_session  # loads Spark
    from app.versions import violations
    from replay.compare import diff as comparison
    from replay.compare import ground_truth as truths
    from replay.compare import version_results

    windows = at("--from", since), at("--to", until)
    known = None if truth is None else truths.read(truth)
    settings = connected(load(config), ("kafka",))
    for version in (left, right):  # refused before Spark starts
        version_results.offsets_of(settings, version)
        own = settings.model_copy(update={"version": version})
        known_violations = violations.read(own)
        if known_violations:
            report(f"version {version} has a violation of determinism: {known_violations[0].what}")
        replayed = replay_manifest.read(own)
        if replayed is not None:
            replayed.check_complete()
    with own_session(settings, "kappa-replay-diff", report) as spark:
        found = comparison.diff(spark, settings, left, right, most, report, windows=windows, truth=known)
    if as_json:
        print_json(found)
        return
    show(found)


def at(option: str, text: str | None) -> int | None:
    """Epoch milliseconds of a time that may be left out."""
    return None if text is None else milliseconds(f"replay diff: {option}", text)


def show(found: Mapping[str, Any]) -> None:
    """For people: counts, sizes, the first differences, the truth."""
    names, span = found["versions"], found["windows"]
    title = f"{names['left']} (left) and {names['right']} (right)"
    counts = {"scores": found, "novelties": found["novelties"], "incidents": found["incidents"]}
    print_table(
        title,
        ["", *(c.replace("_", " ") for c in COUNTS)],
        [[k, *(str(counts[k][c]) for c in COUNTS)] for k in RESULT_KINDS],
    )
    print_line(
        f"{counted(span['compared'], 'window')} from {iso(span['from'])} to {iso(span['to'])}; not compared: "
        f"{counted(span['left_outside'], 'window')} that {names['left']} has beside them, {span['right_outside']} of {names['right']}"
    )
    for line in warnings(found):
        print_line(line)
    first = [row for kind in RESULT_KINDS for row in differences(found, kind)]
    if first:
        print_table("first differences", ["", "window", "series or hosts", "left", "right"], first, ["window"])
    if "truth" in found:
        columns = ["version", *(name.replace("_", " ") for name in JUDGED)]
        judged = [[names[side], *(cell(found["truth"][side][n]) for n in JUDGED)] for side in ("left", "right")]
        print_table("against the truth, in these windows", columns, judged)


def warnings(found: Mapping[str, Any]) -> list[str]:
    """By how much scores differ, and what must not be."""
    lines = []
    if found["different"]:
        score, typical = (found["by_how_much"][name] for name in ("score", "typical"))
        lines.append(
            f"scores that differ: by {cell(score['median'])} nats in the median, {cell(score['largest'])} at most "
            f"({score['unknown']} known to one side only); typical by {cell(typical['median'])}, "
            f"{cell(typical['largest'])} at most; another kind: {found['by_how_much']['kind']}"
        )
    for side, name in found["versions"].items():
        unreadable = found["truth"][side]["unreadable"] if "truth" in found else 0
        if unreadable:
            lines.append(
                f"not judged: {counted(unreadable, 'record')} of {name}, neither an episode event nor an incident as the jobs write them"
            )
        if found["conflicts"][side]:
            lines.append(
                f"CONFLICTS: {name} says {found['conflicts'][side]} things twice and differently; results of one version "
                "must not depend on when it ran: keep its topics and report this"
            )
    return lines


def differences(found: Mapping[str, Any], kind: str) -> list[list[str]]:
    """The first differences of a kind as rows."""

    listed = found["differences"] if kind == "scores" else found[f"{kind}_differences"]
    return [
        [
            kind,
            "?" if d["window_end"] is None else iso(d["window_end"]),
            where(d),
            *(short(d[side]) for side in ("left", "right")),
        ]
        for d in listed
    ]


def where(difference: Mapping[str, Any]) -> str:
    """The series, or an incident's hosts."""
    records = [difference[side] for side in ("left", "right") if isinstance(difference[side], Mapping)]
    hosts = records[0].get("hosts", []) if records else []
    return difference.get("series") or ", ".join(hosts[:3]) + (" ..." if len(hosts) > 3 else "") or "?"


def short(record: Any) -> str:
    """A record in a word or two: its score and what it is called."""
    if not isinstance(record, Mapping):
        return "-" if record is None else str(record)[:40]
    words = [cell(record.get("score")), record.get("status") or "", record.get("kind") or ""]
    return " ".join(word for word in words if word)


def cell(value: Any) -> str:
    """A number with ten digits, so that small differences show; `-` for none."""
    return "-" if value is None else f"{value:.10g}" if isinstance(value, float) else str(value)
