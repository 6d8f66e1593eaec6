"""Compares the incidents of a version with those that people have labelled."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from dashboards.queries.labels import LabelDocument
from models.records.records import EXPECTED, FALSE_ALARM, TRUE

WORTH_KNOWING = (TRUE, EXPECTED)


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


def judge_version(labels: Iterable[LabelDocument], incidents: pd.DataFrame) -> Judgement:
    """Count which labelled incidents a version has. `incidents` has the columns of INCIDENT."""
    known = list(labels)
    good = [one for one in known if one.label in WORTH_KNOWING]
    bad = [one for one in known if one.label == FALSE_ALARM]
    return Judgement(
        worth_knowing=len(good),
        found=sum(has_match(incidents, one) for one in good),
        false=len(bad),
        raised=sum(has_match(incidents, one) for one in bad),
    )


def has_match(incidents: pd.DataFrame, label: LabelDocument) -> bool:
    """Whether one of the incidents is the labelled one, or shares a host and a time with it."""
    if (incidents["id"] == label.incident).any():
        return True
    if label.start is None:
        return False
    until = incidents["until"].fillna(incidents["latest"])
    together = incidents[(incidents["since"] <= (label.end or label.given_at)) & (until >= label.start)]
    hosts = set(label.hosts)
    return any(hosts & set(names) for names in together["hosts"])
