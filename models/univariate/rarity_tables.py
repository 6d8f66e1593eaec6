"""Rarity stage: how surprising the features have been, in tables that are read every window; ends hours and blocks.

The statistics are those of `models.stats.rarity`.
"""

from __future__ import annotations

import numpy as np

from models.core.arrays import Array, Bools, Bytes, Floats, Ints, Singles
from models.stats import rarity
from models.univariate import features, weekly
from models.univariate.features import DAY, HOUR, MS
from models.univariate.parameters import UnivariateParameters
from models.univariate.univariate_state import DIRECTED, N_FEATURES, N_ROBUST, N_TABLES, UnivariateState

Hot = dict[str, Array]
LEAST_LEARNT = 0.2  # least weight of the rows of an hour whose mean is used


def hours(ms: Floats) -> Ints:
    """Hours since 1970."""
    return np.floor(ms / (MS * HOUR)).astype(np.int64)


class RarityTables:
    """Rarity tables of all series of a state, for lookup. They follow from the state, so they are not saved."""

    def __init__(self, state: UnivariateState, parameters: UnivariateParameters) -> None:
        self._state, self._p = state, parameters
        self._flip = np.array([DIRECTED.get(m, m) for m in range(N_FEATURES)])[:, None]
        self._weighing = rarity.Weighing(parameters.tolerance, parameters.prior_power)
        self._layout = -1
        # offset of the level of each series at this hour of the week, in its unit
        self.of_week: Floats = np.zeros(0)

    def turn(self, s: Hot, index: Ints, now: Floats) -> Ints:
        """End the hours that are over, in place; returns the places in `index` of the series that begin another one."""
        state = self._state
        if self._layout != state.layout:
            self._layout = state.layout
            everything = np.arange(state.series)
            self._table, self._prior = self._read(everything, hours(state.hot["time"][0]))
            self._robust, self._robust_prior = self._read_robust(everything)
            self.of_week = weekly.offsets(state.cold, everything, hours(state.hot["time"][0]))
        hour, before = hours(now), hours(s["time"])
        turned = np.flatnonzero((hour != before) | (s["rows"] == 0))
        if len(turned):
            self._end_hours(s, index, turned, (before, hour))
            rows = index[turned]
            self._table[:, :, rows], self._prior[rows] = self._read(rows, hour[turned])
            self.of_week[rows] = weekly.offsets(state.cold, rows, hour[turned])
            state.cold_changed = True
        return turned

    def read_again(self, rows: Ints) -> None:
        """Read the tables of these series again, after their state was replaced."""
        if self._layout == self._state.layout:  # else everything is read with the next window
            self._table[:, :, rows], self._prior[rows] = self._read(rows, hours(self._state.hot["time"][0, rows]))
            self._robust[:, :, rows], self._robust_prior[rows] = self._read_robust(rows)
            self.of_week[rows] = weekly.offsets(self._state.cold, rows, hours(self._state.hot["time"][0, rows]))

    def end_blocks(self, s: Hot, index: Ints, turned: Ints) -> Ints:
        """End the blocks of series that have begun another hour, in place; returns the places of those whose block has ended."""
        p = self._p
        lasted = s["block_rows"][turned] * s["interval"][turned].astype(np.float64)
        chosen = s["block_rows"][turned] >= p.block_rows
        ended, lasted = turned[chosen], lasted[chosen]
        if not len(ended):
            return ended
        rows, cold = index[ended], self._state.cold
        keep = np.exp2(-lasted / (DAY * self._p.history_half_life_days))
        number = cold["blocks"][0, rows].astype(np.int64)
        rarity.add_block(cold["counts"], s["block_most"][:, ended], rows, number, keep)
        robust = s["robust_most"][:, ended]
        before = cold["robust_before"][:, rows]
        rarity.add_block(cold["robust_counts"], robust, rows, number, keep, before)
        cold["robust_before"][:, rows] = rarity.greatest(before, robust)
        s["block_most"][:, ended] = 0
        s["robust_most"][:, ended] = 0
        s["block_rows"][ended] = 0
        cold["blocks"][0, rows] += np.uint32(1)
        self._table[:, :, rows], self._prior[rows] = self._read(rows, hours(s["time"][ended]))
        self._robust[:, :, rows], self._robust_prior[rows] = self._read_robust(rows)
        return ended

    def _end_hours(self, s: Hot, index: Ints, turned: Ints, hour: tuple[Ints, Ints]) -> None:
        """Learn the hours that are over, and begin the levels of the new ones; `hour` has both, since 1970, `(n,)`."""
        rows, cold, (before, begun) = index[turned], self._state.cold, hour
        old = turned[s["rows"][turned] > 0]
        if len(old):
            at, was = index[old], before[old] % rarity.HOURS
            weekly.learn(cold, at, self._residual(s, at, old, was), before[old], begun[old])
            rarity.add_visit(cold["ring"], s["hour_most"][:, old], at, was)
            cold["rhythm"][was, at] = s["hour_mean"][old]
            cold["rhythm_weight"][was, at] = s["hour_weight"][old].astype(np.float16)
        s["hour_most"][:, turned] = 0
        phase = begun[turned] % rarity.HOURS
        s["hour_mean"][turned], s["hour_weight"][turned] = self._level(rows, phase)

    def _level(self, rows: Ints, hour: Ints) -> tuple[Singles, Singles]:
        """Mean and weight with which an hour of the day begins, `(rows,)`, a day after its last row."""
        keep = np.float32(2 ** (-1 / self._p.rhythm_half_life_days))
        cold = self._state.cold
        return cold["rhythm"][hour, rows], cold["rhythm_weight"][hour, rows].astype(np.float32) * keep

    def _residual(self, s: Hot, rows: Ints, old: Ints, hour: Ints) -> Floats:
        """The mean of the hour that is over minus what was usual at this hour of the day, `(old,)`; NaN where it is not known."""
        p = self._p
        before, weight = (column.astype(np.float64) for column in self._level(rows, hour))
        overall = s["overall"][old] - self._state.cold["first_value"][0, rows]
        usual = features.usual_at_hour(before, weight, overall, p)
        after, learnt = s["hour_mean"][old].astype(np.float64), s["hour_weight"][old] - weight
        known = (learnt > LEAST_LEARNT) & (s["rows"][old] * s["interval"][old].astype(np.float64) >= DAY * p.trust_days)
        mean = before + (after - before) * (weight + learnt) / np.where(known, learnt, 1.0)
        return np.where(known, mean - usual, np.nan)

    def _read(self, rows: Ints, hour: Ints) -> tuple[Singles, Singles]:
        """Lookup of the memory that learns everything for series `rows` in an hour: see `rarity.lookup`."""
        p, cold = self._p, self._state.cold
        ring = np.moveaxis(cold["ring"][hour % rarity.HOURS, :, :, rows], 0, -1)
        return rarity.lookup(cold["counts"][:, :, rows], ring, (p.prior_blocks, p.prior_hours), p.hour_share)

    def _read_robust(self, rows: Ints) -> tuple[Singles, Singles]:
        """Lookup of the robust memory for series `rows`."""
        p = self._p
        none = np.full((N_ROBUST, rarity.DAYS, len(rows)), rarity.EMPTY, np.uint8)
        return rarity.lookup(self._state.cold["robust_counts"][:, :, rows], none, (p.prior_blocks, p.prior_hours), 0.0)

    def rarity_ever(self, surprise: Floats, down: Bools, index: Ints) -> Floats:
        """Rarities of surprises in their direction, `(features, n)`, nats; `down` says which are downward."""
        which = np.where(down, self._flip, np.arange(N_FEATURES)[:, None])
        return rarity.rarity(self._table, self._prior, surprise, (which, index), self._weighing)

    def rarity_robust(self, surprise: Floats, index: Ints) -> Floats:
        """Rarities of surprises of the robust memory, `(robust features, n)`, in either direction, nats."""
        at = np.arange(N_ROBUST)[:, None], index
        return rarity.rarity(self._robust, self._robust_prior, surprise, at, self._weighing)

    def note_robust(self, s: Hot, surprise: Floats) -> None:
        """Keep the greatest surprises of the block under the robust memory, `(robust features, n)`, in place in `s`."""
        s["robust_most"] = np.maximum(s["robust_most"], rarity.bins(surprise))

    def note(self, s: Hot, surprise: Floats, down: Bools) -> None:
        """Keep the greatest surprises `(features, n)` of the block and of the hour by direction, in place in `s`."""
        found: Bytes = np.zeros((N_TABLES, surprise.shape[1]), np.uint8)
        found[:N_FEATURES] = rarity.bins(surprise)
        for feature, table in DIRECTED.items():
            found[table] = np.where(down[feature], found[feature], 0)
            found[feature] = np.where(down[feature], 0, found[feature])
        s["block_most"] = np.maximum(s["block_most"], found)
        s["hour_most"] = np.maximum(s["hour_most"], found)
