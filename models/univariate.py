"""The univariate model: windows of many series in, how rare each is out, as a probability. Score, then learn.

Members (`features`) are held against what the series has been (`predictive`), their surprises against how surprising it
has been (`rarity`), the rarities are joined by a norm, and the joined score becomes a probability (`calibration`). Two
questions have a memory each: *was it ever so in this series* learns everything, so that a repeat is less news; *is it
healthy now* hardly learns what is strange. Deciding on an alarm is elsewhere (`alarms`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models import calibration, features, predictive, rarity, student
from models.features import DAY, HOUR, MS
from models.rarity import Bins, Ints
from models.univariate_parameters import UnivariateParameters
from models.univariate_state import DIRECTED, EVER, FAST, HEALTHY, HOT, LOG_LEVEL, TABLES, WELL, WITHIN, UnivariateState
from models.windows import Floats

BODY = 0.03  # weight of the surprises themselves, which tell rows apart that are not rare at all
MEMBERS_LOUD = 4.0  # members at c each give a joined score of c
ROBUST_FROM = 20  # rows from which the healthy state gives weights
DEGREES = 8  # of the interval
LARGEST = 1e17  # values beyond are taken for it: sums of squares are kept in single precision
LARGEST_SUM = 3e38

Hot = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class UnivariateAnswers:
    """What is said of each row; `(members, n)` or `(n,)`, NaN where it is not known.

    `surprise` and `rare` are of the members: nats under the predictive, and -ln of how often there has been the like of
    it. `joined` is their norm, `base` -ln of its probability in
    normal data at large, `score` the same in this series; `well_joined` and `well` are the same of the healthy
    state. `health` is the greater of both joined scores, whatever their direction: what a host's score is made of.
    `speaker` is the member that is rarest. `typical`, `lower`, `upper` are of the healthy state, in the unit of
    the series.
    """

    surprise: Floats
    rare: Floats
    joined: Floats
    base: Floats
    score: Floats
    well_joined: Floats
    well: Floats
    health: Floats
    speaker: NDArray[np.int8]
    typical: Floats
    lower: Floats
    upper: Floats


class Univariate:
    """Steps the series of a shard, which are told by their rows in the state.

    `groups` says for each series which others its calibration is pooled with, `(series,)`; all of them if it is not given.
    """

    def __init__(
        self, parameters: UnivariateParameters, state: UnivariateState | None = None, groups: Ints | None = None
    ) -> None:
        self._p = parameters
        self.state = state if state is not None else UnivariateState()
        self._groups = groups
        self._pooled = self.state.series if self.state.pools_at >= 0 else -1
        self._tables = _Tables(self.state, parameters)

    @classmethod
    def load(
        cls, parts: Mapping[str, bytes], parameters: UnivariateParameters, groups: Ints | None = None
    ) -> Univariate:
        """The inverse of `state.dump`."""
        return cls(parameters, UnivariateState.load(parts), groups)

    def step(self, t_ms: Floats | int, index: Ints, n: Ints, mean: Floats, m2: Floats) -> UnivariateAnswers:
        """Score one window of the series at rows `index`, which rises, then learn it; all arrays `(n,)`, `mean` finite.

        `t_ms` is the window's end in epoch milliseconds, one for all or one each. New rows must have been made by
        `state.grow`.
        """
        state, p = self.state, self._p
        mean = np.clip(mean, -LARGEST, LARGEST)
        whole = len(index) == state.series
        s = {name: array if whole else array[:, index] for name, array in state.hot.items()}
        s = {name: array[0] if HOT[name][1] == 1 else array for name, array in s.items()}
        now = np.broadcast_to(np.asarray(t_ms, dtype=np.float64), mean.shape)
        self._pool(float(now.max()) if len(now) else 0.0)
        self._tables.turn(s, index, now)
        warm = (s["rows"] < p.warm_up_rows) | (s["blocks"] < p.warm_up_hours)
        fresh = s["rows"] == 0
        if fresh.any():
            state.cold["origin"][0, index[fresh]] = mean[fresh]
        seen, least, seconds = features.measure(
            s, mean, state.cold["origin"][0, index], (m2, n.astype(np.float64)), now, p
        )
        keep = features.kept(seconds, DAY * p.level_half_life_days, p.level_rows)
        keep_well = features.kept(seconds, DAY * p.well_half_life_days, p.level_rows)
        surprise, rare, joined, undirected = self._ever(s, (seen, least), keep, index)
        well_joined, bounds = self._well(s, (seen, least), mean, keep_well, index)
        score, well, base = self._calibrate(s, joined, well_joined, keep, index)
        health = np.maximum(undirected, well_joined)
        for array in (score, well, base, health, *bounds):
            array[warm] = np.nan
        s["rows"] = s["rows"] + np.uint32(1)
        s["block_rows"] = np.minimum(s["block_rows"], 60_000) + np.uint16(1)
        self._store(s, index, whole)
        speaker = np.nan_to_num(rare).argmax(axis=0).astype(np.int8)
        return UnivariateAnswers(surprise, rare, joined, base, score, well_joined, well, health, speaker, *bounds)

    def _store(self, s: Hot, index: Ints, whole: bool) -> None:
        for name, array in self.state.hot.items():
            array[..., slice(None) if whole else index] = s[name]

    def _ever(
        self, s: Hot, looks: tuple[Floats, Floats], keep: Floats, index: Ints
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Surprise and rarity by member, and joined in their direction and in either,, by the memory that learns everything."""
        p, (seen, least) = self._p, looks
        mean, sums = s["mean"], s["sums"].astype(np.float64)
        weight = np.empty_like(seen)
        weight[:] = s["weight"]
        weight[WITHIN] = s["within_weight"]
        floor = p.relative_floor * np.abs(mean)
        floor[LOG_LEVEL] = 0.0
        deviation = seen - mean
        tau, nu = predictive.distances(deviation, weight, sums, (floor, least), p.prior_rows)
        surprise = predictive.nats(tau, nu)
        surprise[weight < predictive.KNOWN - 0.5] = 0.0
        down = deviation < 0
        unknown = np.isnan(seen[WITHIN])
        w = np.ones_like(seen)
        w[WITHIN, unknown] = 0.0
        deviation[WITHIN, unknown] = 0.0
        loud = surprise.copy()
        loud[WITHIN, unknown] = 0.0
        rare, either = self._tables.rare(loud, down, index)
        self._tables.note(s, loud, down)
        after = predictive.learn(mean, sums, weight, keep, deviation, w)
        s["mean"], s["sums"] = mean, np.minimum(sums, LARGEST_SUM).astype(np.float32)
        s["weight"], s["within_weight"] = after[0].astype(np.float32), after[WITHIN].astype(np.float32)
        joined, undirected = join(rare, loud, p.norm), join(either, loud, p.norm)
        surprise[WITHIN, unknown] = rare[WITHIN, unknown] = np.nan
        return surprise, rare, joined, undirected

    def _well(
        self, s: Hot, looks: tuple[Floats, Floats], x: Floats, keep: Floats, index: Ints
    ) -> tuple[Floats, tuple[Floats, Floats, Floats]]:
        """The joined score by the memory that hardly learns what is strange, and what would have been usual."""
        p, (seen, least) = self._p, looks
        chosen = np.concatenate([seen[list(HEALTHY)], x[None, :]])
        least = least[[*HEALTHY, FAST]]
        mean, sums, weight = s["well_mean"], s["well_sums"].astype(np.float64), s["well_weight"].astype(np.float64)
        fresh = s["rows"] == 0
        mean[:, fresh] = chosen[:, fresh]
        floor = p.relative_floor * np.abs(mean)
        floor[LOG_LEVEL] = 0.0
        deviation = chosen - mean
        tau, nu = predictive.distances(deviation, weight, sums, (floor, least), p.prior_rows)
        surprise = predictive.nats(tau[:WELL], nu[:WELL])
        surprise[:, s["rows"] < predictive.KNOWN] = 0.0
        w = p.least_weight + (1 - p.least_weight) * predictive.regular(tau, nu, p.outlier_share)
        w[:, s["rows"] < ROBUST_FROM] = 1.0
        scale = np.sqrt((sums[-1] + p.prior_rows * floor[-1] ** 2) / (weight[-1] + p.prior_rows)) + least[-1]
        reach = scale * student.quantile(DEGREES, p.interval_probability)
        typical = mean[-1].copy()
        rare = self._tables.rare_well(surprise, index)
        s["well_most"] = np.maximum(s["well_most"], rarity.bins(surprise))
        after = predictive.learn(mean, sums, weight, keep, deviation, w)
        s["well_mean"], s["well_weight"] = mean, after.astype(np.float32)
        s["well_sums"] = np.minimum(sums, LARGEST_SUM).astype(np.float32)
        return join(rare, surprise, p.norm), (typical, typical - reach, typical + reach)

    def _calibrate(
        self, s: Hot, joined: Floats, well_joined: Floats, keep: Floats, index: Ints
    ) -> tuple[Floats, Floats, Floats]:
        """Both joined scores as probabilities, nats; the first one under the default law too."""
        p = self._p
        found = []
        laws = (("tail", joined, calibration.EVER_LAW), ("well_tail", well_joined, calibration.WELL_LAW))
        for k, (name, score, law) in enumerate(laws):
            base = calibration.default_nats(score, law)
            tail = s[name].astype(np.float64)
            centre = self.state.pools[k][:, self._group(index)]
            found.append(calibration.calibrated(base, calibration.conditional(tail, centre, p.pool_rows)))
            s[name] = calibration.count(tail, keep, base).astype(np.float32)
            found.append(base)
        return found[0], found[2], found[1]

    def _group(self, index: Ints) -> Ints:
        return np.zeros(len(index), np.int64) if self._groups is None else self._groups[index]

    def _pool(self, now: float) -> None:
        """Once an hour: what the series of a group have in common."""
        state, hour = self.state, int(now // (MS * HOUR))
        if hour != state.pools_at or self._pooled != state.series:
            group = self._group(np.arange(state.series))
            groups = int(group.max()) + 1 if len(group) else 1
            self._pooled = state.series
            tails = (state.hot[name].astype(np.float64) for name in ("tail", "well_tail"))
            state.pools = np.stack([calibration.pooled(tail, group, groups, self._p.default_rows) for tail in tails])
            state.pools_at = hour


def join(rare: Floats, surprise: Floats, norm: float) -> Floats:
    """Members `(members, n)` as one score `(n,)`: a norm of the rarities, and a trace of the surprises."""
    total = np.sum(rare**norm, axis=0) / MEMBERS_LOUD
    body = np.sum(surprise**norm, axis=0) / MEMBERS_LOUD
    out: Floats = total ** (1 / norm) + BODY * np.log1p(body ** (1 / norm))
    return out


class _Tables:
    """The rarity tables of a state, ready to be read; follows from the state, so it is not stored."""

    def __init__(self, state: UnivariateState, parameters: UnivariateParameters) -> None:
        self._state, self._p = state, parameters
        self._flip = np.array([DIRECTED.get(m, m) for m in range(EVER)])[:, None]
        self._weighing = rarity.Weighing(parameters.tolerance, parameters.prior_power)
        self._size = -1

    def turn(self, s: Hot, index: Ints, now: Floats) -> None:
        """End the blocks and the hours that are over."""
        p = self._p
        if self._size != self._state.series:
            self._size = self._state.series
            everything = np.arange(self._size)
            self._table, self._prior = self._read(everything, self._state.hot["hour"][0].astype(np.int64))
            self._well, self._well_prior = self._read_well(everything)
        hour = np.floor(now / (MS * HOUR)).astype(np.int64)
        started = s["rows"] > 0
        turned = np.flatnonzero((hour != s["hour"]) | ~started)
        lasted = (now - s["block_time"]) / (60 * MS)
        ended = np.flatnonzero((s["block_rows"] >= p.block_rows) & (lasted >= p.block_minutes - 0.02))
        if len(ended):
            self._end_blocks(s, index, ended, lasted)
        first = np.flatnonzero(s["block_rows"] == 0)
        s["block_time"][first] = now[first]
        if len(turned):
            self._end_hours(s, index, turned, hour)
        changed = np.union1d(turned, ended) if len(turned) and len(ended) else turned if len(turned) else ended
        if len(changed):
            rows = index[changed]
            self._table[:, :, rows], self._prior[rows] = self._read(rows, hour[changed])
            self._well[:, :, rows], self._well_prior[rows] = self._read_well(rows)

    def _end_blocks(self, s: Hot, index: Ints, ended: Ints, lasted: Floats) -> None:
        rows, cold = index[ended], self._state.cold
        keep = np.exp2(-lasted[ended] / (1440 * self._p.history_half_life_days))
        number = s["blocks"][ended].astype(np.int64)
        rarity.add_block(cold["counts"], s["block_most"][:, ended], rows, number, keep)
        rarity.add_block(cold["well_counts"], s["well_most"][:, ended], rows, number, keep)
        s["block_most"][:, ended] = 0
        s["well_most"][:, ended] = 0
        s["block_rows"][ended] = 0
        s["blocks"][ended] += np.uint32(1)

    def _end_hours(self, s: Hot, index: Ints, turned: Ints, hour: Ints) -> None:
        rows, cold = index[turned], self._state.cold
        old = turned[s["rows"][turned] > 0]
        if len(old):
            at, was = index[old], s["hour"][old] % rarity.HOURS
            rarity.add_visit(cold["ring"], s["hour_most"][:, old], at, was)
            cold["rhythm"][was, at] = s["hour_mean"][old]
            cold["rhythm_weight"][was, at] = s["hour_weight"][old].astype(np.float16)
        s["hour_most"][:, turned] = 0
        phase = hour[turned] % rarity.HOURS
        keep = np.float32(2 ** (-1 / self._p.rhythm_half_life_days))
        s["hour_mean"][turned] = cold["rhythm"][phase, rows]
        s["hour_weight"][turned] = cold["rhythm_weight"][phase, rows].astype(np.float32) * keep
        s["hour"][turned] = hour[turned].astype(np.int32)

    def _read(self, rows: Ints, hour: Ints) -> tuple[rarity.Singles, rarity.Singles]:
        p, cold = self._p, self._state.cold
        ring = np.moveaxis(cold["ring"][hour % rarity.HOURS, :, :, rows], 0, -1)
        return rarity.lookup(cold["counts"][:, :, rows], ring, (p.prior_blocks, p.prior_hours), p.hour_share)

    def _read_well(self, rows: Ints) -> tuple[rarity.Singles, rarity.Singles]:
        p = self._p
        none = np.full((WELL, rarity.DAYS, len(rows)), rarity.EMPTY, np.uint8)
        return rarity.lookup(self._state.cold["well_counts"][:, :, rows], none, (p.prior_blocks, p.prior_hours), 0.0)

    def rare(self, surprise: Floats, down: NDArray[np.bool_], index: Ints) -> tuple[Floats, Floats]:
        """How rare surprises `(members, n)` are, nats: in their direction, and in either."""
        which = np.where(down, self._flip, np.arange(EVER)[:, None])
        chosen = list(DIRECTED)
        opposite = np.where(down[chosen], np.array(chosen)[:, None], self._flip[chosen])
        return rarity.rarity(self._table, self._prior, surprise, (which, index), (chosen, opposite), self._weighing)

    def rare_well(self, surprise: Floats, index: Ints) -> Floats:
        """The same of the healthy state, in either direction."""
        at = np.arange(WELL)[:, None], index
        return rarity.rarity(self._well, self._well_prior, surprise, at, ([], index), self._weighing)[0]

    def note(self, s: Hot, surprise: Floats, down: NDArray[np.bool_]) -> None:
        """The greatest surprises of the block and of the hour."""
        found: Bins = np.zeros((TABLES, surprise.shape[1]), np.uint8)
        found[:EVER] = rarity.bins(surprise)
        for member, table in DIRECTED.items():
            found[table] = np.where(down[member], found[member], 0)
            found[member] = np.where(down[member], 0, found[member])
        s["block_most"] = np.maximum(s["block_most"], found)
        s["hour_most"] = np.maximum(s["hour_most"], found)
