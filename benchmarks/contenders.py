"""Other models in the place of the univariate one, and the detector on the same series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.together import TableAnswers, TimedTable, answers_of
from models.core.parameters import DetectorParameters
from models.detection.host_score import HostParameters


@dataclass(frozen=True)
class Contender:
    """The detector with its default settings, rows being windows as long as they are apart: as `kappa score` has it.

    Thresholds are those of the settings, so they are fixed beforehand. One that takes too long for all univariate series is
    given those with the fewest rows, `most_rows` in all.
    """

    name: str
    parameters: DetectorParameters = field(default_factory=DetectorParameters)
    joined: HostParameters = field(default_factory=HostParameters)
    most_rows: int | None = None

    def given(self, tables: Sequence[TimedTable]) -> list[TimedTable]:
        """The tables that it is measured on."""
        if self.most_rows is None:
            return list(tables)
        fewest = sorted(tables, key=lambda one: (len(one.values), one.name))
        rows = np.cumsum([len(one.values) for one in fewest])
        return [one for one, so_far in zip(fewest, rows, strict=True) if so_far <= self.most_rows]

    def answers(self, tables: Sequence[TimedTable]) -> dict[str, TableAnswers]:
        """Its answers to tables, by name."""
        found = answers_of(tables, self.parameters, self.joined)
        return {table.name: one for table, one in zip(tables, found, strict=True)}


# A forest takes some 6 ms a row: it is given a part of the series, and the detector the same part beside it.
SOME_ROWS = 72_000
CHALLENGERS = (
    Contender("challenger HalfSpaceTrees", DetectorParameters(challenger="river.anomaly.HalfSpaceTrees")),
    Contender("kappa, on few rows", most_rows=SOME_ROWS),
    Contender(
        "challenger IsolationForest, on few rows",
        DetectorParameters(challenger="sklearn.ensemble.IsolationForest"),
        most_rows=SOME_ROWS,
    ),
)
