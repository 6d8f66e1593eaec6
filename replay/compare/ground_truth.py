"""Compares the findings of a version with the ground truth that `kappa simulate` wrote."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from app.simulator.ground_truth import judge, milliseconds
from pipelines.errors import InputError

WindowBounds = tuple[int, int]

FIELDS = {"id": str, "kind": str, "category": str, "from": str, "to": str | None, "hosts": list, "series": list}

# What is judged of a record of `novelties` or `incidents`.
FINDING = {"id": str, "status": str, "kind": str, "start": int, "window_end": int}


@dataclass(frozen=True)
class Truth:
    """The machines that were simulated, and a record for each episode (see docs/simulator.md)."""

    hosts: frozenset[str]
    records: tuple[Mapping[str, Any], ...]

    def within(self, windows: WindowBounds) -> list[dict[str, Any]]:
        """The records of episodes that begin within windows: those that a version could find."""
        return [dict(r) for r in self.records if windows[0] <= milliseconds(r["from"]) <= windows[1]]


def read(file: Path) -> Truth:
    """Read `truth.json`. Raises InputError, one line, for a file that is something else."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(_not_truth(file, error.strerror or type(error).__name__)) from error
    except ValueError as error:
        raise InputError(_not_truth(file, f"not JSON: {error}")) from error
    hosts, records = (found.get("hosts"), found.get("records")) if isinstance(found, dict) else (None, None)
    if not _is_names(hosts) or not isinstance(records, list):
        raise InputError(_not_truth(file, "lacks the lists `hosts` and `records`"))
    for number, record in enumerate(records):
        problem = _problem(record)
        if problem:
            raise InputError(_not_truth(file, f"record {number}: {problem}"))
    return Truth(frozenset(hosts), tuple(records))


def _not_truth(file: Path, what: str) -> str:
    return f"truth {file}: {what}; wanted truth.json as `kappa simulate` writes it; check --truth"


def _is_names(value: Any) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _problem(record: Any) -> str:
    """What a record lacks, or nothing."""
    if not isinstance(record, dict):
        return f"{record!r:.40} is no object"
    for name, kind in FIELDS.items():
        if name not in record or not isinstance(record[name], kind):
            return f"{name} is {record.get(name)!r:.40}" if name in record else f"no {name}"
    names = [record["hosts"], record["series"], record.get("related_hosts", [])]
    if not all(_is_names(value) for value in names):
        return "hosts, related_hosts or series holds something else than names"
    runs = record.get("windows", [])
    if not isinstance(runs, list) or not all(_is_names(run) and len(run) == 2 for run in runs):
        return f"windows is {runs!r:.40}"
    times = [record["from"], *([record["to"]] if record["to"] else []), *(at for run in runs for at in run)]
    for text in times:
        try:
            milliseconds(text)
        except ValueError:
            return f"{text!r:.40} is not a time"
    return ""


def finding(text: str) -> Mapping[str, Any] | None:
    """A record of `novelties` or `incidents` as it is judged; None for text that is no JSON, or lacks what is judged."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not all(isinstance(found.get(name), kind) for name, kind in FINDING.items()):
        return None
    series = found.get("series")
    listed = [series] if isinstance(series, str) else series
    if not isinstance(listed, list):
        return None
    names = [one.get("series") if isinstance(one, dict) else one for one in listed]
    hosts = found["hosts"] if "hosts" in found else [found.get("host")]
    return found if _is_names(names) and _is_names(hosts) else None


def compare_with_truth(
    truth: Truth,
    events: Iterable[Mapping[str, Any]],
    incidents: Iterable[Mapping[str, Any]],
    delay_milliseconds: int,
    windows: WindowBounds,
) -> dict[str, Any]:
    """Faults found and missed, changes announced and false alarms of a version, of the episodes that begin within `windows`.

    `events` and `incidents` are its records in these windows; `delay_milliseconds` is how long after its end a window
    is known: lateness and disorder of the version's windowing.
    """
    within = truth.within(windows)
    table = judge([dict(r) for r in truth.records], truth.hosts, events, incidents, delay_milliseconds, within)
    return {
        "faults": table.faults,
        "found": table.found,
        "missed": table.missed,
        "changes": table.changes,
        "changes_announced": table.changes_announced,
        "false_alarms": table.false_alarms,
        "median_seconds_to_detect": table.median_seconds_to_detect,
    }
