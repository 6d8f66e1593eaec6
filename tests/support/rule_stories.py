"""A fleet under rules of the log, and whether two runs answer the same."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from support.control_stories import QUICK, STORY, texts_of, with_appended
from support.fleet_story import START, WINDOW, DetectorRun, windows

from models.detection.detector import ShardDetector
from models.rules.rule import Rule

Appended = dict[int, list[dict[str, Any]]]  # records by the number of the window in which they were appended
VOID = {"name": "a"}  # no rule, under the name of one


def rule(name: str = "a", **keys: Any) -> dict[str, Any]:
    return {"record": "rule", "name": name, **keys}


def run(*pinned: Rule, **parameters: Any) -> DetectorRun:
    return DetectorRun(ShardDetector(dataclasses.replace(QUICK, rules=pinned, **parameters)))


def played(rows: STORY, appended: Appended, one: DetectorRun | None = None) -> DetectorRun:
    one = one or run()
    for window in rows:
        number = (one.now - START) // WINDOW
        one.now += WINDOW
        more = [(f"rule/0/{100 * number + i:020d}", *keyed(r)) for i, r in enumerate(appended.get(number, []))]
        scores, events = one.detector.step(one.now, with_appended(windows(window), more))
        one.scores.append(scores)
        one.events += events
    return one


def keyed(record: Mapping[str, Any]) -> tuple[str, str | None]:
    """The name and the JSON of a record, as they are known where it comes from."""
    return str(record.get("name", "")), json.dumps(record) if "record" in record else None


def same(one: DetectorRun, other: DetectorRun) -> bool:
    """Whether two runs have answered the same to the last bit."""
    return texts_of(one) == texts_of(other) and all(
        np.array_equal(getattr(a, f.name).astype(str), getattr(b, f.name).astype(str))
        for a, b in zip(one.scores, other.scores, strict=True)
        for f in dataclasses.fields(a)
    )
