"""How a version does on the incidents that people labelled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

WORTH_KNOWING = ("true", "expected-change")


@dataclass(frozen=True)
class Judgement:
    """Of the labelled incidents that were worth knowing, those found; of the false alarms, those raised."""

    worth_knowing: int
    found: int
    false: int
    raised: int

    @property
    def recall(self) -> float | None:
        """The share found of what was worth knowing; None where nothing was."""
        return self.found / self.worth_knowing if self.worth_knowing else None


def judged(labels: Iterable[Mapping[str, Any]], incidents: pd.DataFrame) -> Judgement:
    """Hold a version's incidents (columns of INCIDENT) against labels."""
    said = list(labels)
    good = [label for label in said if label["label"] in WORTH_KNOWING]
    bad = [label for label in said if label["label"] == "false-alarm"]
    return Judgement(
        worth_knowing=len(good),
        found=sum(has(incidents, label) for label in good),
        false=len(bad),
        raised=sum(has(incidents, label) for label in bad),
    )


def has(incidents: pd.DataFrame, label: Mapping[str, Any]) -> bool:
    """Whether one of the incidents is the labelled one, or shares a host and a time with it."""
    if (incidents["id"] == label["incident"]).any():
        return True
    start = pd.Timestamp(label["start"])
    end = pd.Timestamp(label["end"] or label["@timestamp"])
    until = incidents["until"].fillna(incidents["latest"])
    together = incidents[(incidents["since"] <= end) & (until >= start)]
    hosts = set(label["host"])
    return any(hosts & set(names) for names in together["hosts"])
