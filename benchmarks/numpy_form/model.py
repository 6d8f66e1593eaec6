"""The univariate model in numpy, a stage at a time over all series: the reference model of the compiled one, and what experiments change.

It computes what `models.univariate.compiled_step` does, from the same state, which it changes alike. Elementary functions are numpy's and
those of scipy, so results differ in their last bits. Constants are looked up while it runs, and a stage can be replaced.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.numpy_form import features, predictive
from benchmarks.numpy_form.features import Hot, MeasuredFeatures
from benchmarks.numpy_form.predictive import FeaturePrediction, Interval
from models.core.arrays import Bools, Floats, Ints
from models.stats import calibration_drift, farthest, per_series_calibration, rarity, reference_distribution
from models.univariate.features import DAY
from models.univariate.model import LARGEST, Univariate, UnivariateScores
from models.univariate.univariate_state import (
    DIRECTED,
    HOT,
    N_FEATURES,
    N_ROBUST,
    N_TABLES,
    RHYTHM,
    SINGLE,
    STEP,
    WITHIN,
)

NEARLY = 0.8  # share of the greatest rarity from which a feature may be the dominant one
CALIBRATION_DAYS, CALIBRATION_ROWS = 0.4, 100.0  # half-life of the per-series calibration, and its least one in rows
BODY = 0.03  # weight of the surprises themselves, which tell rows apart that are not rare at all
NORM_FEATURES = 4.0  # so many features at c each give a joined score of c
FLIP = np.array([DIRECTED.get(m, m) for m in range(N_FEATURES)])[:, None]


@dataclass(frozen=True)
class WindowSeries:
    """The series of a window.

    Parameters
    ----------
    index
        Their rows in the state, `(n,)`.
    hot
        Their hot columns, `(n,)` or `(length, n)`, which the stages learn in place.
    now
        Ends of the windows, epoch milliseconds, `(n,)`.
    turned
        Rows in the state of those that have begun another hour.
    warming
        Which of them are warming up, `(n,)`.
    """

    index: Ints
    hot: Hot
    now: Floats
    turned: Ints
    warming: Bools


@dataclass(frozen=True)
class PredictedFeatures:
    """Surprises under both memories, and the interval that was expected of the value."""

    ever: FeaturePrediction
    robust: FeaturePrediction
    expected: Interval


@dataclass(frozen=True)
class FeatureRarities:
    """Rarities of features, nats, `(features, n)`.

    Parameters
    ----------
    ever
        Of the features under all that the series has been, in their direction.
    robust
        Of the robust features under the healthy state.
    """

    ever: Floats
    robust: Floats


@dataclass(frozen=True)
class JoinedScores:
    """One score of all features, `(n,)`.

    Parameters
    ----------
    ever
        Of the rarities in their direction.
    robust
        Of those by the robust memory.
    """

    ever: Floats
    robust: Floats


@dataclass(frozen=True)
class CalibratedScores:
    """Nats, `(n,)`: under the reference distribution (`base`) and in the series (`score`), and the `health`."""

    base: Floats
    score: Floats
    health: Floats


class NumpyUnivariate(Univariate):
    """The model of `Univariate`, computed with numpy."""

    def step(self, t_ms: Floats | int, index: Ints, n: Ints, mean: Floats, m2: Floats) -> UnivariateScores:
        """Score one window of some series, then learn it. See `Univariate.step`."""
        mean = np.clip(mean, -LARGEST, LARGEST)
        series = self._begin(t_ms, index, mean)
        bounded = np.clip(mean, *features.bounds(series.hot, self._level(series), series.warming, self._p))
        trust = predictive.trust(series.hot, mean, self._p)
        seen = self._features(series, n, bounded, m2, trust)
        predicted = self._predictive(series, seen, bounded)
        rarities = self._rarity(series, predicted)
        joined = self._joint(predicted, rarities)
        lasting = self._lasting(series, predicted, (mean, seen.least[STEP]))
        far = np.maximum(self._far(series, predicted, mean, seen.least[STEP]), lasting)
        calibrated = self._calibration(series, seen, joined, (self._of_step(predicted, rarities, index), far))
        self._store(series)
        if len(series.turned):
            lengths = self.state.hot["block_rows"][0, series.turned].copy()
            self._check_drift(self._tables.end_blocks(series.turned), series.turned, lengths)
        return _scores(series, seen, predicted, rarities, joined, calibrated)

    def _begin(self, t_ms: Floats | int, index: Ints, mean: Floats) -> WindowSeries:
        """The series of a window with copies of their hot columns; ends the hours that are over and notes first values."""
        p, now = self._p, np.array(np.broadcast_to(np.asarray(t_ms, dtype=np.float64), mean.shape))
        turned = index[self._tables.turn(index, now)]
        self._begin_hours(turned, index, mean)
        s = {name: array[:, index] for name, array in self.state.hot.items()}
        s = {name: array[0] if HOT[name][1] == 1 else array for name, array in s.items()}
        warming = (s["rows"] < p.warm_up_rows) | (
            s["rows"] * s["interval"] < 60 * self._parameter_of("warm_up_minutes", index)
        )
        return WindowSeries(index, s, now, turned, warming)

    def _features(self, series: WindowSeries, n: Ints, mean: Floats, m2: Floats, trust: Floats) -> MeasuredFeatures:
        """Features stage: what is measured of each window, `(features, n)`; `trust` are the weights with which the rows are learnt, `(n,)`."""
        s, p = series.hot, self._p
        within = m2, n.astype(np.float64)
        return features.measure(s, mean, trust, self._level(series), within, series.now, p)

    def _level(self, series: WindowSeries) -> tuple[Floats, Floats]:
        """What levels of hours are relative to, and what the week adds to the level of now, `(n,)` each."""
        return self.state.cold["first_value"][0, series.index], self._tables.of_week[series.index]

    def _predictive(self, series: WindowSeries, seen: MeasuredFeatures, mean: Floats) -> PredictedFeatures:
        """Predictive stage: surprises of the features under both memories, nats, `(features, n)`, which then learn them."""
        s, p = series.hot, self._p
        keep, keep_robust = (
            features.kept(seen.seconds, DAY * self._parameter_of(name, series.index), p.level_rows)
            for name in ("level_half_life_days", "robust_half_life_days")
        )
        ever = predictive.step_ever(s, seen, keep, series.warming, p)
        robust, expected = predictive.step_robust(s, seen, mean, keep_robust, p)
        return PredictedFeatures(ever, robust, expected)

    def _rarity(self, series: WindowSeries, predicted: PredictedFeatures) -> FeatureRarities:
        """Rarity stage: -ln of how often each series has been as surprising, nats, `(features, n)`; notes the surprises of the block."""
        s, surprise = series.hot, predicted.ever.surprise
        down = predicted.ever.deviation < 0
        ever = self._look_up_ever(surprise, down, series.index)
        robust = self._look_up_robust(predicted.robust.surprise, series.index)
        unseen = predictive.first_day(s)
        for rare in (ever, robust):
            rare[RHYTHM, unseen] = 0.0
        note(s, np.where(self._is_first(s), 0.0, surprise), down)
        s["robust_most"] = np.maximum(s["robust_most"], rarity.bins(predicted.robust.surprise))
        return FeatureRarities(ever, robust)

    def _is_first(self, s: Hot) -> Bools:
        """Which rows are some of the first of their series, which are no measure of what is usual, `(n,)`."""
        first: Bools = (s["rows"] < self._p.warm_up_rows) & (s["rows"] * s["interval"] < 60 * self._p.first_minutes)
        return first

    def _look_up_ever(self, surprise: Floats, down: Bools, index: Ints) -> Floats:
        """Rarities of surprises in their direction, `(features, n)`, nats; `down` says which are downward."""
        which = np.where(down, FLIP, np.arange(N_FEATURES)[:, None])
        weighing = rarity.Weighing(self._p.tolerance, self._p.prior_power)
        return rarity.rarity(self._tables.table, self._tables.prior, surprise, (which, index), weighing)

    def _look_up_robust(self, surprise: Floats, index: Ints) -> Floats:
        """Rarities of surprises of the robust memory, `(robust features, n)`, in either direction, nats."""
        at, weighing = (np.arange(N_ROBUST)[:, None], index), rarity.Weighing(self._p.tolerance, self._p.prior_power)
        return rarity.rarity(self._tables.robust, self._tables.robust_prior, surprise, at, weighing)

    def _joint(self, predicted: PredictedFeatures, rarities: FeatureRarities) -> JoinedScores:
        """Joint stage: one score of all features, `(n,)`, by each memory."""
        norm = self._p.norm
        body = body_of(predicted.ever.surprise, norm)
        return JoinedScores(
            ever=norm_of(rarities.ever, norm) + body,
            robust=join(rarities.robust, predicted.robust.surprise, norm),
        )

    def _of_step(self, predicted: PredictedFeatures, rarities: FeatureRarities, index: Ints) -> Floats:
        """Nats that steps count whatever precedents they have, `(n,)`: none in series that often have surprising steps."""
        share = self._p.recurring_share
        recurs = (self._tables.often[index] > share) | (rarities.ever[STEP] < -math.log(share))
        out: Floats = np.where(recurs, 0.0, self._p.step_share * predicted.ever.surprise[STEP])
        return out

    def _far(self, series: WindowSeries, predicted: PredictedFeatures, mean: Floats, least: Floats) -> Floats:
        """Nats of values beyond all that their series have been, `(n,)`; notes how far the block has been. `least` has least spreads, `(n,)`."""
        s, cold = series.hot, self.state.cold
        away = np.abs(mean - predicted.expected.typical)
        away = np.where(away > farthest.NEAREST, np.maximum(away, least), 0.0)
        s["block_farthest"] = np.maximum(s["block_farthest"], np.where(self._is_first(s), 0, farthest.grades(away)))
        return farthest.surprisal(away, cold["blocks"][0, series.index], cold["farthest"][0, series.index])

    def _lasting(self, series: WindowSeries, predicted: PredictedFeatures, value: tuple[Floats, Floats]) -> Floats:
        """Nats of levels that last, far beyond all that lasted before, `(n,)`; notes them. `value` has the values and their least spreads, `(n,)`."""
        s, cold, index, first = series.hot, self.state.cold, series.index, self._level(series)[0]
        last = self.state.hot["previous"][0, index] - first
        rows = np.stack([value[0] - first, last, s["earlier"].astype(np.float64)])
        low, high = rows.min(axis=0), rows.max(axis=0)
        down, up = cold["lasting"][:, index].astype(np.float64)
        typical, least = predicted.expected.typical - first, np.maximum((up - down) / 2, value[1])
        above, below = np.maximum(up - typical, least), np.maximum(typical - down, least)
        times = np.maximum((low - typical) / above, (typical - high) / below)
        judged = (s["rows"] * s["interval"].astype(np.float64) >= DAY) & (s["quantum"] > 0)
        known = (s["rows"] >= 2) & ~self._is_first(s)
        none = farthest.NOTHING[:, 0]
        s["block_lasting"][0] = np.minimum(s["block_lasting"][0], np.where(known & (high < down), high, none[0]))
        s["block_lasting"][1] = np.maximum(s["block_lasting"][1], np.where(known & (low > up), low, none[1]))
        s["earlier"] = last.astype(np.float32)
        return np.where(judged, farthest.lasting_surprisal(times, cold["blocks"][0, index]), 0.0)

    def _calibration(
        self, series: WindowSeries, seen: MeasuredFeatures, joined: JoinedScores, least: tuple[Floats, Floats]
    ) -> CalibratedScores:
        """Calibration stage: nats of the joined scores, `(n,)`; learns what scores are usual.

        `least` are what steps count whatever came before, and far values in any case, `(n,)` each.
        """
        s, (of_step, far) = series.hot, least
        blocks = self.state.cold["blocks"][0, series.index].astype(np.float64)
        base = reference_distribution.surprisal(joined.ever, blocks, s["interval"].astype(np.float64), of_step)
        base, health = np.maximum(base, far), joined.robust
        base[series.warming] = health[series.warming] = np.nan
        score = self._calibrate_per_series(series, base, far, seen.seconds)
        s["rows"] = s["rows"] + np.uint32(1)
        s["block_rows"] = np.minimum(s["block_rows"], 60_000) + np.uint16(1)
        return CalibratedScores(base, score, health)

    def _calibrate_per_series(self, series: WindowSeries, base: Floats, far: Floats, seconds: Floats) -> Floats:
        """Surprisal of `base` in each series, nats, `(n,)`, at least `far`; then learns it."""
        s, index = series.hot, series.index
        checked = self.state.cold["checked"]
        quantiles, tail = s["quantiles"].astype(np.float64), s["tail"].astype(np.float64)
        score = np.maximum(per_series_calibration.surprisal(base, quantiles, tail), far)
        blocks = self.state.cold["blocks"][0, index]
        rows = s["rows"] * (blocks / (blocks + 1.0)) ** 2  # scores are others before the first blocks have ended
        forgotten = 1 - features.kept(seconds, DAY * CALIBRATION_DAYS, CALIBRATION_ROWS)
        least = np.maximum(forgotten, per_series_calibration.OFF_GAIN * calibration_drift.is_off(checked[:, index]))
        s["quantiles"], s["tail"], s["excesses"] = per_series_calibration.learn(
            s["quantiles"], s["tail"], s["excesses"], base, rows, least
        )
        chance = np.where(np.isnan(score), 0.5, np.exp(-score))
        s["block_chance"] = (s["block_chance"] + chance).astype(np.float32)
        return score

    def _store(self, series: WindowSeries) -> None:
        """Write the hot columns back to the state, rounded as they are saved."""
        s = series.hot
        for name, chosen in SINGLE.items():
            s[name][chosen] = s[name][chosen].astype(np.float32)
        for name, array in self.state.hot.items():
            array[..., series.index] = s[name]


def _scores(
    series: WindowSeries,
    seen: MeasuredFeatures,
    predicted: PredictedFeatures,
    rarities: FeatureRarities,
    joined: JoinedScores,
    calibrated: CalibratedScores,
) -> UnivariateScores:
    """All stages as they are published: NaN for the spread within windows of one point, and for intervals while warming up."""
    surprise, rarity, expected = predicted.ever.surprise, rarities.ever, predicted.expected
    surprise[WITHIN, seen.unknown] = rarity[WITHIN, seen.unknown] = np.nan
    known = np.nan_to_num(rarity)
    for bound in (expected.typical, expected.lower, expected.upper):
        bound[series.warming] = np.nan
    return UnivariateScores(
        surprise=surprise,
        rarity=rarity,
        joined=joined.ever,
        base=calibrated.base,
        score=calibrated.score,
        health=calibrated.health,
        dominant_feature=(known >= NEARLY * known.max(axis=0)).argmax(axis=0).astype(np.int8),
        typical=expected.typical,
        lower=expected.lower,
        upper=expected.upper,
    )


def join(rarities: Floats, surprise: Floats, norm: float) -> Floats:
    """One score of all features, `(n,)`: a norm of the rarities, and a little of the surprises, both `(features, n)` in nats."""
    return norm_of(rarities, norm) + body_of(surprise, norm)


def body_of(surprise: Floats, norm: float) -> Floats:
    """What surprises `(features, n)` add to a joined score, `(n,)`: it orders rows that are not rare at all."""
    out: Floats = BODY * np.log1p(norm_of(surprise, norm))
    return out


def norm_of(nats: Floats, norm: float) -> Floats:
    """Norm over the features `(features, n)`, `(n,)`, scaled so that `NORM_FEATURES` features at c each give c."""
    if norm == int(norm):  # products are several times as fast as powers
        raised = nats.copy()
        for _ in range(int(norm) - 1):
            raised *= nats
    else:
        raised = nats**norm
    out: Floats = (np.sum(raised, axis=0) / NORM_FEATURES) ** (1 / norm)
    return out


def note(s: Hot, surprise: Floats, down: Bools) -> None:
    """Keep the greatest surprises `(features, n)` of the block and of the hour by direction, in place in `s`."""
    found: NDArray[np.uint8] = np.zeros((N_TABLES, surprise.shape[1]), np.uint8)
    found[:N_FEATURES] = rarity.bins(surprise)
    for feature, table in DIRECTED.items():
        found[table] = np.where(down[feature], found[feature], 0)
        found[feature] = np.where(down[feature], 0, found[feature])
    s["block_most"] = np.maximum(s["block_most"], found)
    s["hour_most"] = np.maximum(s["hour_most"], found)
