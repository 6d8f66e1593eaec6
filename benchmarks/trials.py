"""Judgements of configurations on the parts of collections that experiments take, kept by what they follow from.

A result is kept in `benchmarks/results`, in the folder trials, under a hash of the models, of what measures, and of the configuration, so that it is
never that of other code.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cases import DATA, part_of
from benchmarks.configuration import Configuration, applied
from benchmarks.judgement import ResampledFigure, judge
from benchmarks.together import answers_of

PROJECT = Path(__file__).parents[1]
KEPT = PROJECT / "benchmarks" / "results" / "trials"
# What the scores of metrics and hosts and the changes of metrics follow from, by folder; not what is about log lines or words.
SCORING = {
    "models/core": ("compiled", "parameters", "windows"),
    "models/detection": (
        "change_candidates", "change_point", "detector", "episodes", "gauge_changes", "gauge_columns", "gauge_detector",
        "gauge_episodes", "host_score", "table_score",
    ),
    "models/stats": (
        "calibration_drift", "elementary", "farthest", "normal_gamma", "per_series_calibration", "rarity", "reference_distribution",
        "regression", "run_length",
    ),
    "models/univariate": ("*",),
    "benchmarks/numpy_form": ("*",),
    "benchmarks": ("cases", "collections", "configuration", "judgement", "kinds", "together"),
}  # fmt: skip
CHARACTERS = 16


def hashed_files() -> list[Path]:
    """The files that scores and judgements follow from, in order."""
    return sorted(
        path for folder, names in SCORING.items() for name in names for path in (PROJECT / folder).glob(f"{name}.py")
    )


def source_hash() -> str:
    """Of what scores metrics and hosts, and of what measures that."""
    files = hashed_files()
    text = "\n".join(f"{path.relative_to(PROJECT)} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in files)
    return hashlib.sha256(text.encode()).hexdigest()[:CHARACTERS]


def tried(collection: str, configuration: Configuration, shared: Path = DATA, kept: Path = KEPT) -> ResampledFigure:
    """The judgement of a configuration on a part of a collection: measured, or as it was measured before."""
    path = kept / f"{key_of(collection, configuration)}.json"
    if path.exists():
        return read(json.loads(path.read_text()))
    began, cases = time.process_time(), part_of(collection, shared)
    with applied(configuration) as (detector, joined):
        answers = answers_of([case.table for case in cases], detector, joined)
        found = judge(collection, cases, answers, detector, shared)
    write(path, collection, configuration, found, time.process_time() - began)
    return found


def known(collection: str, configuration: Configuration, kept: Path = KEPT) -> ResampledFigure | None:
    """The same where it was measured with this code."""
    path = kept / f"{key_of(collection, configuration)}.json"
    return read(json.loads(path.read_text())) if path.exists() else None


def key_of(collection: str, configuration: Configuration) -> str:
    """A name for a result."""
    text = json.dumps([source_hash(), collection, dict(configuration)], sort_keys=True)
    return f"{collection}-{hashlib.sha256(text.encode()).hexdigest()[:CHARACTERS]}"


def read(about: Mapping[str, Any]) -> ResampledFigure:
    """A judgement as it was written."""
    return ResampledFigure(about["figure"], np.array(about["drawn"]))


def write(path: Path, collection: str, configuration: Configuration, found: ResampledFigure, seconds: float) -> None:
    """Keep a judgement."""
    path.parent.mkdir(parents=True, exist_ok=True)
    about = {"collection": collection, "configuration": dict(configuration), "source": source_hash()}
    text = json.dumps(about | {"figure": found.figure, "drawn": found.drawn.tolist(), "seconds": round(seconds, 1)})
    path.write_text(text)
