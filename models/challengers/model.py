"""A challenger in place of the univariate model: it scores metrics, one detector for each series.

What is expected, and the reasons that are published, stay the model's, and so do episodes, counts of log lines, silence and what is new:
detectors of single series have no notion of them. So two versions that differ in the challenger alone differ in that
judgement alone. Runs of one exact value are left to the challenger as well.

It is slow, being an object of Python for each series: see docs/challengers.md.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from models.challengers.adapters import resolve
from models.challengers.memory import ADOPTED_ROWS, ChallengerMemories, ChallengerMemory
from models.core.arrays import Array, Floats, Ints
from models.core.parameters import DetectorParameters
from models.stats import reference_distribution
from models.univariate.model import LARGEST, Univariate, UnivariateScores
from models.univariate.parameters import UnivariateParameters
from models.univariate.univariate_state import UnivariateState


class ChallengedUnivariate(Univariate):
    """The univariate model with the scores of a challenger.

    Raises
    ------
    ValueError
        For a class that cannot challenge, or options that it does not have.
    """

    def __init__(
        self,
        parameters: DetectorParameters,
        settings: UnivariateParameters,
        state: UnivariateState,
        memories: ChallengerMemories,
    ) -> None:
        super().__init__(settings, state)
        self._kind = resolve(parameters.challenger, parameters.challenger_options)
        self._rows = parameters.challenger_rows
        self._retrain_ms = 3_600_000 * parameters.challenger_retrain_hours
        self._memories = memories
        self._aside: dict[int, ChallengerMemory] = {}
        memories.belong_to(self._kind, parameters.challenger_options)

    def step(self, t_ms: Floats | int, index: Ints, n: Ints, mean: Floats, m2: Floats) -> UnivariateScores:
        """Score one window of some series, then learn it; `base`, `score` and `health` are the challenger's. See `Univariate.step`."""
        answers = super().step(t_ms, index, n, mean, m2)
        self._memories.grow(self.state.series)
        times = np.broadcast_to(np.asarray(t_ms, dtype=np.int64), mean.shape).tolist()
        found = np.array(
            [
                self._memories.series[row].step(self._kind, now, value, self._rows, self._retrain_ms)
                for row, now, value in zip(
                    index.tolist(), times, np.clip(mean, -LARGEST, LARGEST).tolist(), strict=True
                )
            ],
            dtype=np.float64,
        )
        found[np.isnan(answers.base)] = np.nan  # both warm up
        return answers._replace(base=found, score=found, health=reference_distribution.joined_score(found))

    def copied(self, rows: Ints) -> dict[str, Array]:
        """Copies of the state of series `rows`, for `put_back`; the challenger's are kept here until the next call."""
        self._memories.grow(self.state.series)
        self._aside = {row: self._memories.series[row].copied() for row in rows.tolist()}
        return super().copied(rows)

    def put_back(self, rows: Ints, copied: Mapping[str, Array]) -> None:
        """Restore series as they were when they were `copied`."""
        super().put_back(rows, copied)
        for row in rows.tolist():
            self._memories.series[row] = self._aside[row]

    def adopt_level(self, row: int, level: float, *, healthy: bool = True) -> None:
        """Make `level` the new normal of a series: its last `ADOPTED_ROWS` rows become its history."""
        super().adopt_level(row, level, healthy=healthy)
        memory = self._memories.series[row]
        if memory.begun:
            memory.renew(memory.began, ADOPTED_ROWS)
