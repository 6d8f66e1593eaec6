"""Rarity stage: how surprising the features have been, in tables that are read every window; ends hours and blocks.

The statistics are those of `models.stats.rarity`.
"""

from __future__ import annotations

import numpy as np

from models.core.arrays import Array, Floats, Ints, Singles
from models.core.compiled import compiled
from models.stats import farthest, rarity
from models.univariate import features, weekly
from models.univariate.features import DAY, HOUR, MS
from models.univariate.parameters import UnivariateParameters
from models.univariate.univariate_state import N_ROBUST, STEP, UnivariateState

MOST_WEIGHT = float(np.finfo(np.float16).max)  # that the level of an hour is stored with
LEAST_LEARNT = 0.2  # least weight of the rows of an hour whose mean is used
RECURRING_BIN = 9  # of surprises: from e^2.25 - 1 = 8.5 nats on, about what opens an episode


def hours_since_1970(ms: Floats) -> Ints:
    """Hours since 1970."""
    return np.floor(ms / (MS * HOUR)).astype(np.int64)


@compiled
def find_new_hours(times: Floats, numbers: Array, series: Ints, now: Floats, turned: Ints) -> int:
    """Find the series whose next row begins another hour: their places in `series`, `(n,)`, are written into `turned`. Answers how many there are.

    `times` and `numbers` are the hot columns `time` and `rows`, `now` is the time of the next row, epoch ms, of each or of all.
    """
    size = 0
    for j in range(len(series)):
        row, next_row = series[j], now[j] if len(now) > 1 else now[0]
        turns = np.floor(next_row / (MS * HOUR)) != np.floor(times[0, row] / (MS * HOUR))
        if turns or numbers[0, row] == 0:
            turned[size] = j
            size += 1
    return size


class RarityTables:
    """Rarity tables of all series of a state, for lookup. They follow from the state, so they are not saved."""

    def __init__(self, state: UnivariateState, parameters: UnivariateParameters) -> None:
        self._state, self._p = state, parameters
        self._layout = -1
        # offset of the level of each series at this hour of the week, in its unit
        self.of_week: Floats = np.zeros(0)

    def turn(self, index: Ints, now: Floats) -> Ints:
        """End the hours that are over, in place; returns the places in `index` of the series that begin another one."""
        state = self._state
        if self._layout != state.layout:
            self._layout = state.layout
            everything = np.arange(state.series)
            self.table, self.prior, self.often = self._read(everything, hours_since_1970(state.hot["time"][0]))
            self.robust, self.robust_prior = self._read_robust(everything)
            self.of_week = weekly.offsets(state.cold, everything, hours_since_1970(state.hot["time"][0]))
        turned = np.empty(len(index), np.int64)
        turned = turned[: find_new_hours(state.hot["time"], state.hot["rows"], index, np.atleast_1d(now), turned)]
        if len(turned):
            rows = index[turned]
            hour, before = (
                np.broadcast_to(hours_since_1970(now), len(index))[turned],
                hours_since_1970(state.hot["time"][0, rows]),
            )
            self._end_hours(rows, (before, hour))
            self.table[:, :, rows], self.prior[rows], self.often[rows] = self._read(rows, hour)
            self.of_week[rows] = weekly.offsets(state.cold, rows, hour)
            state.cold_changed = True
        return turned

    def read_again(self, rows: Ints) -> None:
        """Read the tables of these series again, after their state was replaced."""
        if self._layout == self._state.layout:  # else everything is read with the next window
            self.table[:, :, rows], self.prior[rows], self.often[rows] = self._read(
                rows, hours_since_1970(self._state.hot["time"][0, rows])
            )
            self.robust[:, :, rows], self.robust_prior[rows] = self._read_robust(rows)
            self.of_week[rows] = weekly.offsets(
                self._state.cold, rows, hours_since_1970(self._state.hot["time"][0, rows])
            )

    def end_blocks(self, rows: Ints) -> Ints:
        """End the blocks of series `rows`, which have begun another hour, in place; returns those whose block has ended."""
        p, hot, cold = self._p, self._state.hot, self._state.cold
        rows = rows[hot["block_rows"][0, rows] >= p.block_rows]
        if not len(rows):
            return rows
        lasted = hot["block_rows"][0, rows] * hot["interval"][0, rows].astype(np.float64)
        held = DAY * p.history_half_life_days / np.maximum(lasted, 1.0)
        number = cold["blocks"][0, rows].astype(np.int64)
        rarity.add_block(cold["counts"], hot["block_most"][:, rows], rows, number, held)
        robust = hot["robust_most"][:, rows]
        before = cold["robust_before"][:, rows]
        rarity.add_block(cold["robust_counts"], robust, rows, number, held, before)
        cold["robust_before"][:, rows] = rarity.greatest(before, robust)
        cold["farthest"][:, rows] = np.maximum(cold["farthest"][:, rows], hot["block_farthest"][:, rows])
        hot["block_farthest"][:, rows] = 0
        low, high = hot["block_lasting"][:, rows]
        cold["lasting"][0, rows] = np.minimum(cold["lasting"][0, rows], low)
        cold["lasting"][1, rows] = np.maximum(cold["lasting"][1, rows], high)
        hot["block_lasting"][:, rows] = farthest.NOTHING
        hot["block_most"][:, rows] = 0
        hot["robust_most"][:, rows] = 0
        hot["block_rows"][0, rows] = 0
        cold["blocks"][0, rows] += np.uint32(1)
        self.table[:, :, rows], self.prior[rows], self.often[rows] = self._read(
            rows, hours_since_1970(hot["time"][0, rows])
        )
        self.robust[:, :, rows], self.robust_prior[rows] = self._read_robust(rows)
        return rows

    def _end_hours(self, rows: Ints, hour: tuple[Ints, Ints]) -> None:
        """Learn the hours of series `rows` that are over, and begin the levels of the new ones; `hour` has both, since 1970, `(rows,)`."""
        hot, cold, (before, begun) = self._state.hot, self._state.cold, hour
        known = hot["rows"][0, rows] > 0
        old, was = rows[known], before[known] % rarity.HOURS
        if len(old):
            grain = features.grain({name: hot[name][0, old] for name in features.OF_GRAIN})
            weekly.learn(cold, old, self._residual(old, was), grain, (before[known], begun[known]))
            rarity.add_visit(cold["ring"], hot["hour_most"][:, old], old, was)
            cold["rhythm"][was, old] = features.rounded(hot["hour_mean"][0, old], grain)
            weight = np.minimum(hot["hour_weight"][0, old], MOST_WEIGHT)
            cold["rhythm_weight"][was, old] = weight.astype(np.float16)
        hot["hour_most"][:, rows] = 0
        hot["hour_mean"][0, rows], hot["hour_weight"][0, rows] = self._level(rows, begun % rarity.HOURS)

    def _level(self, rows: Ints, hour: Ints) -> tuple[Singles, Singles]:
        """Mean and weight with which an hour of the day begins, `(rows,)`, a day after its last row."""
        keep = np.float32(2 ** (-1 / self._p.rhythm_half_life_days))
        cold = self._state.cold
        return cold["rhythm"][hour, rows], cold["rhythm_weight"][hour, rows].astype(np.float32) * keep

    def _residual(self, rows: Ints, hour: Ints) -> Floats:
        """The mean of the hour that is over minus what was usual at this hour of the day, `(rows,)`; NaN where it is not known."""
        p, hot = self._p, self._state.hot
        before, weight = (column.astype(np.float64) for column in self._level(rows, hour))
        overall = hot["overall"][0, rows] - self._state.cold["first_value"][0, rows]
        usual = features.usual_at_hour(before, weight, overall, p)
        after, learnt = hot["hour_mean"][0, rows].astype(np.float64), hot["hour_weight"][0, rows] - weight
        age = hot["rows"][0, rows] * hot["interval"][0, rows].astype(np.float64)
        known = (learnt > LEAST_LEARNT) & (age >= DAY * p.trust_days)
        mean = before + (after - before) * (weight + learnt) / np.where(known, learnt, 1.0)
        return np.where(known, mean - usual, np.nan)

    def _read(self, rows: Ints, hour: Ints) -> tuple[Singles, Singles, Singles]:
        """Lookup of the memory that learns everything for series `rows` in an hour, see `rarity.lookup`; and the share of their blocks that had
        a step of `RECURRING_BIN` or more, `(rows,)`."""
        p, cold = self._p, self._state.cold
        steps, blocks = (cold["counts"][STEP, bin_, rows].astype(np.float32) for bin_ in (RECURRING_BIN, 0))
        ring = np.moveaxis(cold["ring"][hour % rarity.HOURS, :, :, rows], 0, -1)
        table, prior = rarity.lookup(cold["counts"][:, :, rows], ring, (p.prior_blocks, p.prior_hours), p.hour_share)
        return table, prior, steps / (np.float32(p.prior_blocks) + blocks)

    def _read_robust(self, rows: Ints) -> tuple[Singles, Singles]:
        """Lookup of the robust memory for series `rows`."""
        p = self._p
        none = np.full((N_ROBUST, rarity.DAYS, len(rows)), rarity.EMPTY, np.uint8)
        return rarity.lookup(self._state.cold["robust_counts"][:, :, rows], none, (p.prior_blocks, p.prior_hours), 0.0)
