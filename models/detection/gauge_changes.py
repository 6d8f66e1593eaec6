"""Changes of state in the metrics of a shard: which candidates have changed for good, and what the model learns from that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from models.core.arrays import Bools, Floats, Ints
from models.core.parameters import DetectorParameters
from models.core.series import Series
from models.detection import change_point, reasons
from models.detection.change_point import EXPLANATIONS, CandidateRows, ChangeParameters
from models.detection.compiled_changes import FARTHEST
from models.detection.gauge_detector import GaugeScores
from models.detection.shard_state import ShardState, ShardWindow
from models.stats import normal_gamma
from models.univariate import features
from models.univariate.effective_sample import row_weight, share_between_hours
from models.univariate.model import Univariate
from models.univariate.parameters import UnivariateParameters
from models.univariate.predictive import DEGREES

OLD, SPREAD, LEVEL, TREND = EXPLANATIONS


@dataclass(frozen=True)
class Change:
    """The leading explanation of a change candidate.

    Attributes
    ----------
    what
        One of `EXPLANATIONS`.
    announced
        Whether the explanation has won with this window: the series has changed.
    start
        End of the last window before the change, epoch ms.
    before, after
        Levels, in the unit of the series.
    old_spread, spread
        Spreads around them, in that unit.
    nats
        Evidence for the change.
    """

    what: str
    announced: bool
    start: int
    before: float
    after: float
    old_spread: float
    spread: float
    nats: float

    @property
    def levels(self) -> tuple[float, float]:
        """Before and after: levels, or spreads where the spread has changed."""
        return (self.old_spread, self.spread) if self.what == SPREAD else (self.before, self.after)

    def words(self, series: Series, lower: float, upper: float, unit: str) -> str:
        """A sentence about the change; `lower` and `upper` are the interval before it."""
        if self.what == SPREAD:
            return reasons.new_spread(series, self.spread, self.old_spread, unit)
        of = "moved to" if self.what == TREND else "new level"
        return reasons.new_level(series, self.after, self.before, lower=lower, upper=upper, unit=unit, of=of)


class GaugeChanges:
    """The change candidates among the metrics of a shard: opened, weighed, and learnt once a change is adopted."""

    def __init__(
        self, state: ShardState, p: DetectorParameters, model: Univariate, settings: UnivariateParameters
    ) -> None:
        self._state, self._p, self._model, self._settings = state, p, model, settings
        self._change = ChangeParameters()
        self._reach = normal_gamma.t_quantile(DEGREES, p.interval_probability)

    def step(self, window: ShardWindow, scores: GaugeScores, began: Mapping[int, int]) -> dict[int, Change]:
        """Weigh a window of each candidate, and learn it.

        Parameters
        ----------
        window
            The window; its metric rows are those of `scores`.
        scores
            What the model found of each row.
        began
            When open episodes about values began, epoch ms, by the rows of their series in the table.

        Returns
        -------
        dict of int to Change
            The leading explanation of candidates that have an open episode or have just changed, by row in the table.
        """
        candidates, index, now = self._state.change_candidates, window.gauges, window.end
        if scores.quiet and not began and not len(candidates):
            return {}
        x, typical = scores.value, scores.typical
        scale = np.maximum((scores.upper - typical) / self._reach, np.abs(x - typical) / FARTHEST)
        known = np.isfinite(x) & (scale > 0) & ~scores.not_learnt
        has_episode, is_candidate = self._marked(list(began))[index], self._marked(candidates.rows)[index]
        candidates.add(index[~is_candidate & (scores.strays | (known & has_episode))])
        at = np.flatnonzero(known & self._marked(candidates.rows)[index])
        if not len(at):
            return {}
        at = at[np.argsort(index[at])]
        rows, lasting = index[at], 1000 * self._p.adoption_seconds(self._p.persistence_minutes)
        settled = np.array([row in began and now - began[row] >= lasting for row in rows.tolist()])
        before = np.where(scores.last_seen[at] > 0, scores.last_seen[at], now - 1000 * self._p.window_seconds)
        places = np.searchsorted(candidates.rows, rows)
        worth, common = self._worth(rows, candidates.columns["level_rows"][places] == 0)
        fast, fast_weight = (self._model.state.hot[name][0, rows] for name in ("fast", "fast_weight"))
        candidate_rows = CandidateRows(
            x[at], typical[at], scale[at], has_episode[at], settled, before, float(now), worth, common, lasting,
            scores.alert_nats[at] + scores.extra_nats[at], features.fast_before(fast, fast_weight, x[at]),
        )  # fmt: skip
        return self._weigh(rows, places, candidate_rows)

    def _worth(self, rows: Ints, asked: Bools) -> tuple[Floats, Floats]:
        """What rows of series are worth, and what they have in common, `(n,)`; 1 and 0 where not `asked`, as candidates keep what they began with."""
        worth, common, model = np.ones(len(rows)), np.zeros(len(rows)), self._model.state
        if asked.any():
            worth[asked] = row_weight(model.hot, rows[asked], self._settings)
            common[asked] = share_between_hours(model.hot, model.cold, rows[asked])
        return worth, common

    def _weigh(self, rows: Ints, places: Ints, found: CandidateRows) -> dict[int, Change]:
        candidates = self._state.change_candidates
        verdict = change_point.step(candidates, places, found, self._change)
        anchor, unit = (candidates.columns[name][places] for name in ("anchor", "unit"))
        if verdict.over.any():
            over = np.zeros(len(candidates), dtype=bool)
            over[places] = verdict.over
            candidates.remove(over)
        reported = np.flatnonzero(found.has_episode | verdict.announced).tolist()
        return {
            int(rows[j]): Change(
                EXPLANATIONS[verdict.what[j]], bool(verdict.announced[j]), int(verdict.start[j]),
                float(anchor[j]), float(verdict.after[j]), float(unit[j]), float(verdict.spread[j]), float(verdict.lead[j]),
            )
            for j in reported
        }  # fmt: skip

    def learn(self, row: int, found: Change, *, healthy: bool) -> None:
        """Teach the model a change of the series at `row`; `healthy` where a label says that the change is expected."""
        if found.what == SPREAD:
            self._model.adopt_spread(row, found.spread / found.old_spread)
        else:
            self._model.adopt_level(row, found.after, healthy=healthy)
        self.drop_explanations(row)

    def drop_explanations(self, row: int) -> None:
        """Drop all explanations of the series at `row`."""
        self._state.change_candidates.forget(np.array([row]))

    def _marked(self, rows: Ints | list[int]) -> Bools:
        marked = np.zeros(len(self._state.gauges), dtype=bool)
        marked[rows] = True
        return marked
