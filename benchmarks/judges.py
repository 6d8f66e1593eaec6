"""The scorers of the collections, called as the programs that they are on files in a temporary folder."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.collections import NEZHA_DAY
from models.core.arrays import Floats, Ints
from models.templates.extraction import template_id, template_of
from models.templates.merging import merge_templates

PROFILES = ("standard", "reward_low_FP_rate", "reward_low_FN_rate")
WINDOWS = "combined_windows.json"
CURVE_MEASURES = ("f1", "precision", "recall", "false_per_week", "best_pa7_f1")
HOST_MEASURES = ("auc_pr", "best_f1", "vus_pr", "event_recall", "precision", "false_per_day")


def judge_nab(shared: Path, scores: Mapping[str, Floats], threshold: float) -> dict[str, float]:
    """Standard, low FP and low FN at the threshold that is fixed beforehand; `split`, and `best` of each for comparison.

    Files that there are no scores of do not count.
    """
    fixed = _nab(shared, scores, ["--threshold", repr(threshold)])
    free = _nab(shared, scores, ["--split"])
    figures = {profile: fixed[profile]["score"] for profile in PROFILES}
    figures |= {"windows_found": fixed["standard"]["windows_found"], "false_rows": fixed["standard"]["false_rows"]}
    figures |= {f"best_{profile}": free[profile]["score"] for profile in PROFILES}
    return figures | {"split": free["standard"]["split_score"]}


def _nab(shared: Path, scores: Mapping[str, Floats], options: Sequence[str]) -> dict[str, Any]:
    """The scores of NAB's scorer."""
    with tempfile.TemporaryDirectory() as folder:
        results, data = Path(folder) / "results", shared / "data" / "nab"
        for name, values in scores.items():
            _write(results / name, ("anomaly_score",), ([_text(value)] for value in values))
        _write_windows(data / "labels", Path(folder) / "labels", scores)
        about = [str(results), "--data", str(data / "data"), "--labels", str(Path(folder) / "labels")]
        found: dict[str, Any] = _run(shared / "score" / "nab_score.py", [*about, *options])["results"]
    return found


def _write_windows(source: Path, target: Path, names: Iterable[str]) -> None:
    """The windows of some files: the scorer judges exactly those that it finds."""
    known = json.loads((source / WINDOWS).read_text())
    target.mkdir()
    (target / WINDOWS).write_text(json.dumps({name: known[name] for name in names}))


def judge_hosts(shared: Path, collection: str, scores: Mapping[str, Floats], threshold: float) -> dict[str, float]:
    """Means over the hosts, without point adjustment; the last three at the threshold that is fixed beforehand."""
    with tempfile.TemporaryDirectory() as folder:
        for name, values in scores.items():
            rows = ((row, _text(value)) for row, value in enumerate(values))
            _write(Path(folder) / f"{name}.csv", ("row", "score"), rows)
        about = [folder, "--data", str(shared / "data" / collection), "--threshold", repr(threshold)]
        found = _run(shared / "score" / "multivariate_score.py", about)["mean"]
    return {measure: found[measure] for measure in HOST_MEASURES}


def judge_curves(
    shared: Path, scores: Mapping[str, Floats], threshold: float, alerts: Mapping[str, Ints] | None = None
) -> dict[str, float]:
    """Events at the alerts as given, all curves together; `best_pa7_f1` chose its own threshold on the labels.

    Without `alerts`, which are 1 in the rows in which one begins, one begins where a run of scores reaches the threshold.
    """
    with tempfile.TemporaryDirectory() as folder:
        for name, values in scores.items():
            columns, rows = ["row", "score"], [[row, _text(value)] for row, value in enumerate(values)]
            if alerts is not None:
                columns.append("novelty")
                rows = [[*row, int(begins)] for row, begins in zip(rows, alerts[name], strict=True)]
            _write(Path(folder) / f"{name}.csv", columns, rows)
        about = [folder, "--data", str(shared / "data" / "wsd"), "--threshold", repr(threshold)]
        found = _run(shared / "score" / "event_score.py", [*about, "--curves", ",".join(scores)])["all"]
    return {measure: found[measure] for measure in CURVE_MEASURES}


def judge_changes(shared: Path, found: Mapping[str, Sequence[int]]) -> dict[str, float]:
    """F1 and covering against several annotators."""
    with tempfile.TemporaryDirectory() as folder:
        predictions = Path(folder) / "predictions.json"
        predictions.write_text(json.dumps({name: list(map(int, rows)) for name, rows in found.items()}))
        about = [str(predictions), "--data", str(shared / "data" / "tcpd")]
        mean = _run(shared / "score" / "changepoint_score.py", about)["mean"]
    return {measure: mean[measure] for measure in ("f1", "covering", "precision", "recall")}


def judge_incidents(shared: Path, incidents: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """How many of the injected faults have an incident in time, and how many incidents there are at all."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "incidents.jsonl"
        path.write_text(
            "".join(json.dumps({key: one[key] for key in ("start", "end", "hosts")}) + "\n" for one in incidents)
        )
        about = [str(path), "--data", str(shared / "data" / "nezha"), "--day", NEZHA_DAY]
        found = _run(shared / "score" / "incident_score.py", about)
    figures = {name: found["types"]["all"][name] for name in ("faults", "found", "in_time", "first")}
    return figures | {name: found[name] for name in ("far_per_day", "per_stop", "incidents")}


def judge_causes(shared: Path, collection: str, rankings: Mapping[str, object]) -> dict[str, float]:
    """Shares of cases with the root cause first, or among the first; of `petshop` by what suffers, with the specificity.

    Of `sockshop` a database counts as its service, as published; measures with `m_` are of component and metric together.
    """
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.json"
        results.write_text(json.dumps(rankings))
        about = [str(results), "--data", str(shared / "data" / collection)]
        groups = _run(
            shared / "score" / "rca_score.py", [*about, *(["--strip=-db"] if collection == "sockshop" else [])]
        )["groups"]
    if collection == "sockshop":
        return {measure: groups["all"][measure] for measure in ("top1", "avg5", "m_top1", "m_avg5")}
    kinds = {kind: groups[f"low_traffic/{kind}"] for kind in ("latency", "availability")}
    return {f"{kind}_{m}": group[m] for kind, group in kinds.items() for m in ("top1", "top3", "empty", "specificity")}


def judge_templates(shared: Path) -> dict[str, float]:
    """Grouping accuracy of the templates of raw lines, once `detect` has seen them all; means over the systems."""
    began, data = time.perf_counter(), shared / "data" / "logs"
    with tempfile.TemporaryDirectory() as folder:
        for log in sorted(data.glob("*/*_2k.log")):
            with log.open(encoding="utf-8", errors="replace", newline="\n") as lines:
                texts = merge_templates([template_of(line.rstrip("\r\n")) for line in lines])
            ids = map(template_id, texts)
            _write(Path(folder) / f"{log.parent.name}.csv", ("LineId", "EventId"), enumerate(ids, 1))
        mean = _run(shared / "score" / "template_score.py", [folder, "--data", str(data)])["mean"]
    return {"ga": mean["ga"], "fga": mean["fga"], "seconds": round(time.perf_counter() - began, 1)}


def _text(value: float) -> str:
    return repr(float(value)) if np.isfinite(value) else ""  # a blank is "not known"


def _write(path: Path, header: Sequence[str], rows: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def _run(program: Path, arguments: Sequence[str]) -> dict[str, Any]:
    """What a scorer prints as JSON; its own words if it fails."""
    done = subprocess.run(
        [sys.executable, str(program), *arguments, "--json"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{program.name}: {done.stderr.strip()}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found
