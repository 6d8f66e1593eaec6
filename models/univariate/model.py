"""The univariate model: windows of many series in, how rare each is out, as a probability. Score, then learn.

Members (`features`) are held against what the series has been (`predictive`), their surprises against how surprising it
has been (`rarity`), the rarities are joined by a norm, and the joined score becomes a probability, in normal data at large
(`calibration`) and in the series itself (`per_series_calibration`), which is checked (`calibration_drift`). Two
questions have a memory each: *was it ever so in this series* learns everything, so that a repeat is less news; *is it
healthy now* hardly learns what is strange. Deciding on an alarm is elsewhere (`alarms`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.core.arrays import Array, Floats, Ints
from models.stats import (
    calibration_drift,
    normal_gamma,
    per_series_calibration,
    rarity,
    reference_distribution,
)
from models.univariate import effective_sample, features
from models.univariate.features import DAY
from models.univariate.parameters import UnivariateParameters
from models.univariate.rarity_tables import RarityTables
from models.univariate.univariate_state import (
    FAST,
    HOT,
    LOG_LEVEL,
    N_FEATURES,
    N_ROBUST,
    RHYTHM,
    ROBUST_FEATURES,
    ROUGH,
    SINGLE,
    STEP,
    VALUE,
    WITHIN,
    UnivariateState,
)

NEARLY = 0.8
CALIBRATION_DAYS, CALIBRATION_ROWS = 0.4, 100.0  # half-life of the law of a series' own answers, and the least one
ONE_YESTERDAY = 2**0.5  # a residual against a single day is so much wider: that day was as far off
BODY = 0.03  # weight of the surprises themselves, which tell rows apart that are not rare at all
NORM_FEATURES = 4.0  # members at c each give a joined score of c
ROBUST_FROM = 20  # rows from which the healthy state gives weights
DEGREES = 8  # of the interval
LARGEST = 1e17  # values beyond are taken for it: sums of squares are kept in single precision
LARGEST_SUM = 3e38
ADOPTED_ROWS, MOST_GROWTH = (
    60.0,
    10.0,
)  # what is kept of a memory when a new level is adopted, and how much wider it may be

Hot = dict[str, Array]


@dataclass(frozen=True)
class UnivariateAnswers:
    """What is said of each row; `(members, n)` or `(n,)`, NaN where it is not known.

    `surprise` and `rare` are of the members: nats under the predictive, and -ln of how often there has been the like of
    it. `joined` is their norm, `base` -ln of its probability in normal data at large, `score` in this series; `robust_joined` is the norm by the
    healthy state. `health` is the greater of both joined scores, whatever their direction: what a host's score is made of.
    `speaker` is the first member that is nearly as rare as the rarest. `typical`, `lower`, `upper` are of the healthy state, in the unit of
    the series.
    """

    surprise: Floats
    rare: Floats
    joined: Floats
    base: Floats
    score: Floats
    robust_joined: Floats
    health: Floats
    dominant_feature: NDArray[np.int8]
    typical: Floats
    lower: Floats
    upper: Floats


class Univariate:
    """Steps the series of a shard, which are told by their rows in the state. No series is seen by another one."""

    def __init__(self, parameters: UnivariateParameters, state: UnivariateState | None = None) -> None:
        self._p = parameters
        self.state = state if state is not None else UnivariateState()
        self._tables = RarityTables(self.state, parameters)
        self.overrides: Mapping[str, Floats] = {}  # parameters that each series has of its own, `(series,)`, by name

    def _of(self, name: str, index: Ints) -> Floats | float:
        """A parameter of some series."""
        found: Floats | float = self.overrides[name][index] if name in self.overrides else getattr(self._p, name)
        return found

    def copied(self, rows: Ints) -> dict[str, Array]:
        """What is known of series, for `put_back`."""
        return self.state.copied(rows)

    def put_back(self, rows: Ints, copied: Mapping[str, Array]) -> None:
        """Forget what series have learnt since `copied`."""
        self.state.put_back(rows, copied)
        self._tables.read_again(rows)

    @classmethod
    def load(cls, parts: Mapping[str, bytes], parameters: UnivariateParameters) -> Univariate:
        """The inverse of `state.dump`."""
        return cls(parameters, UnivariateState.load(parts))

    def step(self, t_ms: Floats | int, index: Ints, n: Ints, mean: Floats, m2: Floats) -> UnivariateAnswers:
        """Score one window of the series at rows `index`, then learn it; all arrays `(n,)`, `mean` finite.

        `t_ms` is the window's end in epoch milliseconds, one for all or one each. New rows must have been made by
        `state.grow`.
        """
        state, p = self.state, self._p
        mean = np.clip(mean, -LARGEST, LARGEST)
        whole = len(index) == state.series and bool((index == np.arange(len(index))).all())
        s = {name: array if whole else array[:, index] for name, array in state.hot.items()}
        s = {name: array[0] if HOT[name][1] == 1 else array for name, array in s.items()}
        now = np.broadcast_to(np.asarray(t_ms, dtype=np.float64), mean.shape)
        turned = self._tables.turn(s, index, now)
        warm = (s["rows"] < p.warm_up_rows) | (s["rows"] * s["interval"] < 60 * self._of("warm_up_minutes", index))
        fresh = s["rows"] == 0
        if fresh.any():
            state.cold["first_value"][0, index[fresh]] = mean[fresh]
            state.cold_changed = True
        trust = self._trust(s, mean)
        within = m2, n.astype(np.float64)
        usual = state.cold["first_value"][0, index], self._tables.of_week[index]
        seen, least, seconds = features.measure(s, mean, trust, usual, within, now, p)
        keep = features.kept(seconds, DAY * self._of("level_half_life_days", index), p.level_rows)
        keep_robust = features.kept(seconds, DAY * self._of("robust_half_life_days", index), p.level_rows)
        surprise, rare, joined, undirected = self._ever(s, (seen, least), trust, keep, index)
        robust_joined, bounds = self._robust(s, (seen, least), mean, keep_robust, index)
        blocks = state.cold["blocks"][0, index].astype(np.float64)
        base = reference_distribution.surprisal(joined, blocks, s["interval"].astype(np.float64))
        loud = (base[turned] >= p.block_alert_nats) & (self._youth(s)[turned] > 0)
        health = np.maximum(undirected, robust_joined)
        for array in (base, health, *bounds):
            array[warm] = np.nan
        score = self._calibrate(s, base, seconds, turned, index)
        s["rows"] = s["rows"] + np.uint32(1)
        s["block_rows"] = np.minimum(s["block_rows"], 60_000) + np.uint16(1)
        lengths = s["block_rows"].copy()
        self._check(s, index, self._tables.end_blocks(s, index, turned, loud), lengths)
        self._store(s, index, whole)
        loudest = np.nan_to_num(rare)
        dominant_feature = (loudest >= NEARLY * loudest.max(axis=0)).argmax(axis=0).astype(np.int8)
        return UnivariateAnswers(surprise, rare, joined, base, score, robust_joined, health, dominant_feature, *bounds)

    def _calibrate(self, s: Hot, base: Floats, seconds: Floats, turned: Ints, index: Ints) -> Floats:
        """-ln of the probability of each answer in its series; learns what answers are usual."""
        checked, fresh = self.state.cold["checked"], np.flatnonzero(s["rows"] == 0)
        if len(fresh):
            s["quantiles"][:, fresh], s["tail"][:, fresh] = per_series_calibration.begin(len(fresh))
            s["excesses"][fresh] = s["block_chance"][fresh] = 0
            checked[:, index[fresh]] = calibration_drift.begin(len(fresh))
        s["excesses"][turned] //= 2
        score = per_series_calibration.surprisal(base, s["quantiles"].astype(np.float64), s["tail"].astype(np.float64))
        blocks = self.state.cold["blocks"][0, index]
        rows = s["rows"] * (blocks / (blocks + 1.0)) ** 2  # answers are others before the first blocks have ended
        forgotten = 1 - features.kept(seconds, DAY * CALIBRATION_DAYS, CALIBRATION_ROWS)
        least = np.maximum(forgotten, per_series_calibration.OFF_GAIN * calibration_drift.is_off(checked[:, index]))
        s["quantiles"], s["tail"], s["excesses"] = per_series_calibration.learn(
            s["quantiles"], s["tail"], s["excesses"], base, rows, least
        )
        chance = np.where(np.isnan(score), 0.5, np.exp(-score))
        s["block_chance"] = (s["block_chance"] + chance).astype(np.float32)
        return score

    def _check(self, s: Hot, index: Ints, ended: Ints, lengths: NDArray[np.uint16]) -> None:
        """Hold the mean probability of blocks that have ended, of so many rows, against one half."""
        if not len(ended):
            return
        cold, rows = self.state.cold, index[ended]
        mean = s["block_chance"][ended].astype(np.float64) / lengths[ended]
        cold["checked"][:, rows] = calibration_drift.check(
            cold["checked"][:, rows], mean, cold["blocks"][0, rows] - 1.0
        )
        s["block_chance"][ended] = 0

    def _store(self, s: Hot, index: Ints, whole: bool) -> None:
        for name, members in SINGLE.items():
            s[name][members] = s[name][members].astype(np.float32)
        for name, array in self.state.hot.items():
            array[..., slice(None) if whole else index] = s[name]

    def _ever(
        self, s: Hot, looks: tuple[Floats, Floats], trust: Floats, keep: Floats, index: Ints
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Surprise and rarity by member, and joined in their direction and in either, by the memory that learns everything."""
        p, (seen, least) = self._p, looks
        mean, sums = s["mean"], s["sums"].astype(np.float64)
        weight = np.empty_like(seen)
        weight[:] = s["weight"]
        weight[WITHIN] = s["within_weight"]
        deviation = seen - mean
        floor, worth, per_observation = self._beforehand(s, mean)
        tau, nu = normal_gamma.distances(
            deviation, weight / per_observation, sums / per_observation, (floor, least), worth
        )
        tau[RHYTHM] /= second_day(s)
        surprise = normal_gamma.surprisal(tau, nu)
        surprise[weight < normal_gamma.KNOWN - 0.5] = 0.0
        down = deviation < 0
        unknown = np.isnan(seen[WITHIN])
        w = np.tile(trust, (N_FEATURES, 1))
        w[WITHIN, unknown] = 0.0
        deviation[WITHIN, unknown] = 0.0
        loud = surprise.copy()
        loud[WITHIN, unknown] = 0.0
        rare, either = self._tables.rare(loud, down, index)
        # A block of nothing but these would say that a series is never surprising.
        first = (s["rows"] < p.warm_up_rows) & (s["rows"] * s["interval"] < 60 * p.first_minutes)
        self._tables.note(s, np.where(first, 0.0, loud), down)
        after = normal_gamma.learn(mean, sums, weight, keep, deviation, w)
        s["mean"], s["sums"] = mean, np.minimum(sums, LARGEST_SUM).astype(np.float32)
        s["weight"], s["within_weight"] = after[0].astype(np.float32), after[WITHIN].astype(np.float32)
        more = trace(loud, p.norm)
        joined, undirected = size(rare, p.norm) + more, size(either, p.norm) + more
        surprise[WITHIN, unknown] = rare[WITHIN, unknown] = np.nan
        return surprise, rare, joined, undirected

    def _youth(self, s: Hot) -> Floats:
        """1 for a new series, 0 for one that is `trust_days` old."""
        out: Floats = 1 - s["rows"] * s["interval"].astype(np.float64) / (DAY * self._p.trust_days)
        return np.maximum(out, 0.0)

    def _beforehand(self, s: Hot, mean: Floats) -> tuple[Floats, Floats, Floats]:
        """Of each member: the prior spread, rows (or looks) that it is worth, rows of an independent look, all `(members, n)`.

        What is particular to smoothed members fades as the first days are seen, in which a series shows its slow waves.
        """
        p = self._p
        floor, worth, per_observation = (
            p.relative_floor * np.abs(mean),
            np.full_like(mean, p.prior_rows),
            np.ones_like(mean),
        )
        floor[LOG_LEVEL] = 0.0
        youth = self._youth(s)
        young = np.flatnonzero(youth > 0)
        if not len(young):
            return floor, worth, per_observation
        interval, left = s["interval"][young].astype(np.float64), youth[young]
        variance = s["robust_sums"][VALUE, young].astype(np.float64) / np.maximum(
            s["robust_weight"][VALUE, young], normal_gamma.TINY
        )
        step = s["long_step"][young].astype(np.float64) / np.maximum(s["long_weight"][young], normal_gamma.TINY)
        rough = effective_sample.gain(interval, 60 * p.rough_half_life_minutes, p.rough_rows)
        fast = effective_sample.gain(interval, 60 * p.fast_half_life_minutes, p.fast_rows)
        for member, gain in ((FAST, fast), (RHYTHM, rough)):
            floor[member, young] = np.maximum(floor[member, young], left * effective_sample.width(variance, step, gain))
            worth[member, young] += left * (p.mean_prior_observations - p.prior_rows)
        for member, gain in ((FAST, fast), (RHYTHM, rough), (ROUGH, rough)):
            per_observation[member, young] = effective_sample.rows_per_observation(gain) ** left
        return floor, worth, per_observation

    def _trust(self, s: Hot, x: Floats) -> Floats:
        """What rows count in the memory that learns everything: all alike, but of a young series only what is regular."""
        p, rows = self._p, s["rows"]
        share = np.clip(rows * s["interval"] / (DAY * p.trust_days), p.least_weight, 1.0)
        share[rows < ROBUST_FROM] = 1.0
        young = np.flatnonzero(share < 1)
        if len(young):
            mean, sums, weight = (s[name][VALUE, young] for name in ("robust_mean", "robust_sums", "robust_weight"))
            floor = p.relative_floor * np.abs(mean)
            least = features.least_spread({name: s[name][young] for name in features.OF_SPREAD})
            tau, nu = normal_gamma.distances(x[young] - mean, weight, sums, (floor, least), p.prior_rows)
            share[young] += (1 - share[young]) * normal_gamma.regular(tau, nu, p.outlier_share)
        return share

    def _robust(
        self, s: Hot, looks: tuple[Floats, Floats], x: Floats, keep: Floats, index: Ints
    ) -> tuple[Floats, tuple[Floats, Floats, Floats]]:
        """The joined score by the memory that hardly learns what is strange, and what would have been usual."""
        p, (seen, least) = self._p, looks
        chosen = np.concatenate([seen[list(ROBUST_FEATURES)], x[None, :]])
        least = least[[*ROBUST_FEATURES, STEP]]
        mean, sums, weight = (
            s["robust_mean"],
            s["robust_sums"].astype(np.float64),
            s["robust_weight"].astype(np.float64),
        )
        fresh = s["rows"] == 0
        mean[:, fresh] = chosen[:, fresh]
        floor = p.relative_floor * np.abs(mean)
        floor[LOG_LEVEL] = 0.0
        deviation = chosen - mean
        tau, nu = normal_gamma.distances(deviation, weight, sums, (floor, least), p.prior_rows)
        surprise = normal_gamma.surprisal(tau[:N_ROBUST], nu[:N_ROBUST])
        surprise[:, s["rows"] < normal_gamma.KNOWN] = 0.0
        w = p.least_weight + (1 - p.least_weight) * normal_gamma.regular(tau, nu, p.outlier_share)
        w[:, s["rows"] < ROBUST_FROM] = 1.0
        typical, scale = mean[-1].copy(), spread(mean[-1], sums[-1], weight[-1], least[-1], p)
        reach = scale * normal_gamma.t_quantile(DEGREES, p.interval_probability)
        rare = self._tables.rare_robust(surprise, index)
        s["robust_most"] = np.maximum(s["robust_most"], rarity.bins(surprise))
        after = normal_gamma.learn(mean, sums, weight, keep, deviation, w)
        s["robust_mean"], s["robust_weight"] = mean, after.astype(np.float32)
        s["robust_sums"] = np.minimum(sums, LARGEST_SUM).astype(np.float32)
        return join(rare, surprise, p.norm), (typical, typical - reach, typical + reach)

    def expects(self, row: int) -> dict[str, Any]:
        """What the next value of a series is expected to be, and how many windows are left of warming up."""
        p, hot = self._p, self.state.hot
        mean, sums, weight = (float(hot[name][VALUE, row]) for name in ("robust_mean", "robust_sums", "robust_weight"))
        least = features.least_spread({name: hot[name][0, row] for name in features.OF_SPREAD})
        scale = float(spread(np.array(mean), np.array(sums), np.array(weight), least, p))
        reach = scale * normal_gamma.t_quantile(DEGREES, p.interval_probability)
        rows, interval = int(hot["rows"][0, row]), float(hot["interval"][0, row])
        minutes = float(np.ravel(self._of("warm_up_minutes", np.array([row])))[0])
        wanted = max(p.warm_up_rows, math.ceil(60 * minutes / interval) if interval else 0)
        return {
            "typical": mean,
            "spread": scale,
            "lower": mean - reach,
            "upper": mean + reach,
            "windows_to_go": max(wanted - rows, 0),
        }

    def usual_roughness(self, row: int) -> float:
        """The mean absolute step of a series while it is healthy."""
        hot = self.state.hot
        least = features.least_rough({name: hot[name][0, row] for name in features.OF_ROUGHNESS})
        return float(np.expm1(max(hot["robust_mean"][ROUGH, row], 0.0)) * least)

    def settle(self, row: int) -> None:
        """What a series was lately is forgotten: its recent means are those of its healthy state again."""
        hot = self.state.hot
        hot["fast"][0, row] = hot["robust_mean"][VALUE, row]
        hot["rough"][0, row] = self.usual_roughness(row) * hot["rough_weight"][0, row]
        hot["residual"][0, row] = hot["robust_mean"][RHYTHM, row] * hot["rough_weight"][0, row]

    def adopt(self, row: int, level: float, *, healthy: bool = True) -> None:
        """A series stands at `level` for good: the value that is usual moves there, as wide as the level is higher, held loosely.

        If the level is known to be `healthy`, so do the members of the healthy state. That a fault has lasted does not say so: they
        learn it as they learn all that is strange, over some days, and meanwhile its host is not healthy.

        What it has ever been moves as well. A young series holds it loosely, too, and keeps what it was at other hours, as it
        has not shown yet whether the level is that of the hour. One that has been seen for longer moves at all hours and holds
        on to how it spreads, but for the widening of counts (variance with the level), while the level is of the same order
        of magnitude: else a few rows after an event would outweigh weeks before it.
        """
        hot, cold = self.state.hot, self.state.cold
        before = hot["robust_mean"][VALUE, row]
        growth = float(np.clip(abs(level / before), 1.0, MOST_GROWTH)) if before else 1.0
        hot["robust_mean"][VALUE, row] = level
        hot["robust_sums"][VALUE, row] *= growth**2
        moved = slice(VALUE, None)
        if healthy:
            moved = slice(None)
            self._stand(row, level, "robust_mean")
            hot["robust_sums"][[STEP, FAST, RHYTHM], row] *= growth**2
        _loosen(hot["robust_weight"][moved], hot["robust_sums"][moved], row)
        self.settle(row)
        self._stand(row, level, "mean")
        hot["fast"][0, row] = level
        hot["overall"][0, row] += level - before
        hours = hot["hour_mean"] if self._is_young(row) else cold["first_value"]
        hours[0, row] += level - before
        loosely = self._is_young(row) or growth >= MOST_GROWTH
        hot["sums"][[STEP, FAST, RHYTHM], row] *= growth**2 if loosely else growth
        if loosely:
            _loosen(hot["weight"], hot["sums"][:WITHIN], row)
        self.state.cold_changed = True

    def _stand(self, row: int, level: float, mean: str) -> None:
        """Put the level and the fast mean of a memory at `level`."""
        hot = self.state.hot
        size = hot["long_size"][0, row] / hot["long_weight"][0, row]
        hot[mean][LOG_LEVEL, row] = features.log_level(np.array(level), features.offset(size))
        hot[mean][FAST, row] = level

    def _is_young(self, row: int) -> bool:
        """Whether the series has not been seen for `trust_days` yet."""
        hot = self.state.hot
        return float(hot["rows"][0, row]) * float(hot["interval"][0, row]) < DAY * self._p.trust_days

    def widen(self, row: int, factor: float) -> None:
        """A series spreads by so many times what it did for good: at its level, in its steps, in its means.

        What it has ever been is no wider for that, unless the series is young.
        """
        hot = self.state.hot
        growth = float(np.clip(factor, 1 / MOST_GROWTH, MOST_GROWTH)) ** 2
        hot["robust_sums"][[ROBUST_FEATURES.index(m) for m in (LOG_LEVEL, STEP, FAST, RHYTHM)], row] *= growth
        hot["robust_sums"][VALUE, row] *= growth
        least = features.least_rough({name: hot[name][0, row] for name in features.OF_ROUGHNESS})
        rough = np.float32(np.log1p(hot["rough"][0, row] / hot["rough_weight"][0, row] / least))
        hot["robust_mean"][ROBUST_FEATURES.index(ROUGH), row] = rough
        if self._is_young(row):
            hot["sums"][[LOG_LEVEL, STEP, FAST, RHYTHM], row] *= growth
            hot["mean"][ROUGH, row] = rough


def _loosen(weights: Array, sums: Array, row: int) -> None:
    """Hold what a series has been as if it were known from `ADOPTED_ROWS`."""
    loose = ADOPTED_ROWS / np.maximum(weights[:, row], ADOPTED_ROWS)
    weights[:, row] *= loose
    sums[:, row] *= loose


def spread(mean: Floats, sums: Floats, weight: Floats, least: Floats, p: UnivariateParameters) -> Floats:
    """The scale of the healthy state's value."""
    found = np.sqrt((sums + p.prior_rows * (p.relative_floor * mean) ** 2) / (weight + p.prior_rows))
    return np.maximum(found, least)


def second_day(s: Hot) -> Floats:
    """How much wider the rhythm residual is than it has been, `(n,)`.

    On its second day a series is held against one single yesterday, on its first against all that it had been.
    """
    days = s["rows"] * s["interval"].astype(np.float64) / DAY
    return np.where(days < 1, 1.0, 1 + (ONE_YESTERDAY - 1) * np.maximum(2 - days, 0.0))


def join(rare: Floats, surprise: Floats, norm: float) -> Floats:
    """Members `(members, n)` as one score `(n,)`: a norm of the rarities, and a trace of the surprises."""
    return size(rare, norm) + trace(surprise, norm)


def trace(surprise: Floats, norm: float) -> Floats:
    """What surprises `(members, n)` say beside their rarity, `(n,)`."""
    out: Floats = BODY * np.log1p(size(surprise, norm))
    return out


def size(nats: Floats, norm: float) -> Floats:
    """The norm of what the members `(members, n)` say, `(n,)`."""
    if norm == int(norm):  # products are several times as fast as powers
        raised = nats.copy()
        for _ in range(int(norm) - 1):
            raised *= nats
    else:
        raised = nats**norm
    out: Floats = (np.sum(raised, axis=0) / NORM_FEATURES) ** (1 / norm)
    return out
