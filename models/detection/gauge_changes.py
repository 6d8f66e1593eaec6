"""The metrics of a shard that are in doubt: which of them have changed for good, and what the model learns from that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from models.core.arrays import Bools, Floats, Ints
from models.core.parameters import DetectorParameters
from models.core.series import Series
from models.detection import change_point, reasons
from models.detection.change_point import EXPLANATIONS, CandidateRows, ChangeParameters
from models.detection.control import Control
from models.detection.control_gauges import GaugeRules
from models.detection.shard_state import ShardState
from models.stats import normal_gamma
from models.univariate.effective_sample import weight_of_a_row
from models.univariate.model import Univariate
from models.univariate.parameters import UnivariateParameters
from models.univariate.predictive import DEGREES

OLD, SPREAD, LEVEL, TREND, BACK = EXPLANATIONS


@dataclass(frozen=True)
class Change:
    """What is thought of a series in doubt. `what` explains it best; `announced` says that it has changed, just now.

    It began after `start` (ms). `before` and `after` are levels, `old_spread` and `spread` what they spread by, `nats` the evidence.
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
    def told(self) -> tuple[float, float]:
        """Before and after: levels, of a change of spread what values spread by."""
        return (self.old_spread, self.spread) if self.what == SPREAD else (self.before, self.after)

    def words(self, series: Series, lower: float, upper: float, unit: str) -> str:
        """What has changed, in a sentence; the bounds are those of before."""
        if self.what == SPREAD:
            return reasons.new_spread(series, self.spread, self.start, self.old_spread, unit)
        of = {LEVEL: "new level", TREND: "moved to", BACK: "back to"}[self.what]
        return reasons.new_level(
            series, self.after, self.start, self.before, lower=lower, upper=upper, unit=unit, of=of
        )


class GaugeChanges:
    """The change candidates among the metrics of a shard."""

    def __init__(
        self,
        state: ShardState,
        parts: tuple[Univariate, GaugeRules, Control],
        p: DetectorParameters,
        settings: UnivariateParameters,
    ) -> None:
        self._state, self._p, self._settings = state, p, settings
        self._model, self._rules, self._control = parts
        self._change = ChangeParameters()
        self._reach = normal_gamma.t_quantile(DEGREES, p.interval_probability)

    def step(self, now: int, index: Ints, seen: tuple[Floats, ...], loud: Mapping[int, int]) -> dict[int, Change]:
        """What is thought of the series in doubt, by their rows in the table; learns it.

        `index` are the rows of this window. `seen` has of each the value, what is typical, the upper bound, nats of surprise, all NaN
        where they are not known, and the end of the last window with a row (ms). `loud` are rows with an open episode, and when it began.
        """
        change_candidates, (x, typical, upper, nats, before) = self._state.change_candidates, seen
        scale = (upper - typical) / self._reach
        known = np.isfinite(x) & (scale > 0) & ~self._held(index)
        is_loud, in_doubt = self._marked(list(loud))[index], self._marked(change_candidates.rows)[index]
        strays = nats >= self._p.alert_nats  # false for NaN
        if self._p.changes_below_alert:
            strays |= np.abs(x - typical) >= self._change.open_scales * scale
        change_candidates.open(index[known & ~in_doubt & (strays | is_loud)])
        at = np.flatnonzero(known & self._marked(change_candidates.rows)[index])
        if not len(at):
            return {}
        at = at[np.argsort(index[at])]
        rows, lasting = index[at], 1000 * self._p.lasting(self._p.persistence_minutes)
        settled = np.array([row in loud and now - loud[row] >= lasting for row in rows.tolist()])
        asked = self._p.alert_nats + self._rules.asked(x[at] - typical[at], typical[at], rows)
        look = CandidateRows(
            x[at], typical[at], scale[at], is_loud[at], settled, before[at], float(now),
            weight_of_a_row(self._model.state.hot, rows, self._settings), lasting, asked,
        )  # fmt: skip
        return self._weigh(rows, look)

    def _weigh(self, rows: Ints, look: CandidateRows) -> dict[int, Change]:
        change_candidates = self._state.change_candidates
        places = np.searchsorted(change_candidates.rows, rows)
        table = change_candidates.take(places)
        verdict = change_point.step(table, look, self._change)
        change_candidates.put(places, table)
        over = np.zeros(len(change_candidates), dtype=bool)
        over[places] = verdict.over
        change_candidates.drop(over)
        told = np.flatnonzero(look.loud | verdict.announced).tolist()
        return {
            int(rows[j]): Change(
                EXPLANATIONS[verdict.what[j]], bool(verdict.announced[j]), int(verdict.start[j]),
                float(table["anchor"][j]), float(verdict.after[j]), float(table["unit"][j]), float(verdict.spread[j]), float(verdict.lead[j]),
            )
            for j in told
        }  # fmt: skip

    def learn(self, row: int, found: Change, now: int, *, healthy: bool) -> None:
        """A change that was announced is what the series is now; `healthy` if people have said so."""
        if found.what == SPREAD:
            self._model.widen(row, found.spread / found.old_spread)
        else:
            self._model.adopt(row, found.after, healthy=healthy)
        self.settle(row, found.before, found.old_spread, now)

    def settle(self, row: int, level: float, spread: float, now: int) -> None:
        """Nothing is in doubt, but that the series may return to `level` with `spread`."""
        change_candidates = self._state.change_candidates
        if change_candidates.place(row) is None:
            change_candidates.open(np.array([row]))
        place = np.array([change_candidates.place(row)])
        table = change_candidates.take(place)
        change_point.settle(table, level, spread, now, self._change)
        change_candidates.put(place, table)

    def _marked(self, rows: Ints | list[int]) -> Bools:
        marked = np.zeros(len(self._state.gauges), dtype=bool)
        marked[rows] = True
        return marked

    def _held(self, index: Ints) -> Bools:
        """Rows from which nothing is to be learnt."""
        applied = self._control.of("gauges")
        held: Bools = np.zeros(len(index), dtype=bool) if applied is None else applied.dont_learn[index]
        return held
