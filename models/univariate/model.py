"""The univariate model: windows of many series in, how rare each is out, as a probability. Score, then learn.

A step goes through five stages, each of which takes what the one before has made:

    features      what is measured of a window                                                      `features`
    predictive    how surprising each feature is in this series, under two memories                 `predictive`
    rarity        how often the series has been as surprising                                       `rarity_tables`
    joint         one score of all features: a norm of their rarities
    calibration   the probability of the score: in normal data of all kinds (`reference_distribution`), then in
                  the series itself (`per_series_calibration`), with a check of the result (`calibration_drift`)

The two memories answer two questions. *Was it ever so in this series?* learns everything, so that a repeat is less surprising; *is it
healthy now?* hardly learns outliers (robust). Alarms are decided in `models.detection`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.core.arrays import Array, Bools, Floats, Ints
from models.stats import calibration_drift, per_series_calibration, reference_distribution
from models.univariate import features, predictive
from models.univariate.features import DAY, Hot, MeasuredFeatures
from models.univariate.parameters import UnivariateParameters
from models.univariate.predictive import FeaturePrediction, Interval
from models.univariate.rarity_tables import RarityTables
from models.univariate.univariate_state import (
    FAST,
    HOT,
    LOG_LEVEL,
    RHYTHM,
    ROBUST_FEATURES,
    ROUGH,
    SINGLE,
    STEP,
    VALUE,
    WITHIN,
    UnivariateState,
)

NEARLY = 0.8  # share of the greatest rarity from which a feature may be the dominant one
CALIBRATION_DAYS, CALIBRATION_ROWS = 0.4, 100.0  # half-life of the per-series calibration, and its least one in rows
BODY = 0.03  # weight of the surprises themselves, which tell rows apart that are not rare at all
NORM_FEATURES = 4.0  # so many features at c each give a joined score of c
LARGEST = 1e17  # values beyond are clipped: sums of squares are kept in single precision
ADOPTED_ROWS = 60.0  # rows that are kept of a memory when a new level is adopted
MOST_GROWTH = 10.0  # how much wider a memory may become then


@dataclass(frozen=True)
class UnivariateScores:
    """Scores of the series of a window. Shapes are `(features, n)` or `(n,)`; NaN where a number is not known.

    Parameters
    ----------
    surprise
        Surprise of each feature under the memory that learns everything, nats, `(features, n)`.
    rarity
        -ln of how often the series has been as surprising in this feature and direction, nats, `(features, n)`.
    joined
        Norm of the rarities by the memory that learns everything, `(n,)`.
    base
        Surprisal of `joined` under the reference distribution, nats, `(n,)`. NaN while warming up, as are the following.
    score
        Surprisal of `base` in this series, nats, `(n,)`.
    health
        Norm of the rarities by the robust memory, `(n,)`: what the score of a host is made of.
    dominant_feature
        The first feature that is nearly as rare as the rarest, as an index of `FEATURES`, `(n,)`.
    typical, lower, upper
        Typical value and interval by the robust memory, in the unit of the series, `(n,)`.
    """

    surprise: Floats
    rarity: Floats
    joined: Floats
    base: Floats
    score: Floats
    health: Floats
    dominant_feature: NDArray[np.int8]
    typical: Floats
    lower: Floats
    upper: Floats


@dataclass(frozen=True)
class WindowSeries:
    """The series of a window.

    Parameters
    ----------
    index
        Their rows in the state, `(n,)`.
    hot
        Their hot columns, `(n,)` or `(length, n)`, which the stages learn in place.
    whole
        Whether they are all series of the state, in order.
    now
        Ends of the windows, epoch milliseconds, `(n,)`.
    turned
        Places in `index` of those that have begun another hour.
    warming
        Which of them are warming up, `(n,)`.
    """

    index: Ints
    hot: Hot
    whole: bool
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


class Univariate:
    """Scores and learns the series of a shard. A series is a row of the state; none depends on another.

    Parameters
    ----------
    parameters
        Half-lives, priors and shares, the same for all series.
    state
        What is known of the series; by default nothing.

    Attributes
    ----------
    state
        `state.grow` makes room for new series, `state.dump` saves all of them.
    overrides
        Parameters in which series differ, `(series,)`, by name: `level_half_life_days`, `robust_half_life_days`, `warm_up_minutes`.
    """

    def __init__(self, parameters: UnivariateParameters, state: UnivariateState | None = None) -> None:
        self._p = parameters
        self.state = state if state is not None else UnivariateState()
        self._tables = RarityTables(self.state, parameters)
        self.overrides: Mapping[str, Floats] = {}

    @classmethod
    def load(cls, parts: Mapping[str, bytes], parameters: UnivariateParameters) -> Univariate:
        """A model with the state that `state.dump` has saved. Raises ValueError where it has another format."""
        return cls(parameters, UnivariateState.load(parts))

    def step(self, t_ms: Floats | int, index: Ints, n: Ints, mean: Floats, m2: Floats) -> UnivariateScores:
        """Score one window of some series, then learn it.

        Parameters
        ----------
        t_ms
            End of the window, epoch milliseconds: one for all, or `(n,)`.
        index
            Rows of the series in the state, without repeats, `(n,)`. New ones must have been made by `state.grow`.
        n
            Numbers of points in the windows, `(n,)`.
        mean
            Means of the points, finite, `(n,)`.
        m2
            Sums of their squared deviations from the mean, `(n,)`.

        Returns
        -------
        Scores of each series, by what was known before the window.
        """
        mean = np.clip(mean, -LARGEST, LARGEST)
        series = self._begin(t_ms, index, mean)
        seen = self._features(series, n, mean, m2)
        predicted = self._predictive(series, seen, mean)
        rarities = self._rarity(series, predicted)
        joined = self._joint(predicted, rarities)
        calibrated = self._calibration(series, seen, joined)
        self._store(series)
        return _scores(series, seen, predicted, rarities, joined, calibrated)

    def _begin(self, t_ms: Floats | int, index: Ints, mean: Floats) -> WindowSeries:
        """The series of a window with their hot columns; ends the hours that are over and notes first values."""
        state, p = self.state, self._p
        whole = len(index) == state.series and bool((index == np.arange(len(index))).all())
        s = {name: array if whole else array[:, index] for name, array in state.hot.items()}
        s = {name: array[0] if HOT[name][1] == 1 else array for name, array in s.items()}
        now = np.broadcast_to(np.asarray(t_ms, dtype=np.float64), mean.shape)
        turned = self._tables.turn(s, index, now)
        warming = (s["rows"] < p.warm_up_rows) | (s["rows"] * s["interval"] < 60 * self._of("warm_up_minutes", index))
        fresh = s["rows"] == 0
        if fresh.any():
            state.cold["first_value"][0, index[fresh]] = mean[fresh]
            state.cold_changed = True
        return WindowSeries(index, s, whole, now, turned, warming)

    def _features(self, series: WindowSeries, n: Ints, mean: Floats, m2: Floats) -> MeasuredFeatures:
        """Features stage: what is measured of each window, `(features, n)`, and the weights with which the rows are learnt."""
        s, p = series.hot, self._p
        level = self.state.cold["first_value"][0, series.index], self._tables.of_week[series.index]
        within = m2, n.astype(np.float64)
        return features.measure(s, mean, predictive.trust(s, mean, p), level, within, series.now, p)

    def _predictive(self, series: WindowSeries, seen: MeasuredFeatures, mean: Floats) -> PredictedFeatures:
        """Predictive stage: surprises of the features under both memories, nats, `(features, n)`, which then learn them."""
        s, p = series.hot, self._p
        keep, keep_robust = (
            features.kept(seen.seconds, DAY * self._of(name, series.index), p.level_rows)
            for name in ("level_half_life_days", "robust_half_life_days")
        )
        ever = predictive.step_ever(s, seen, keep, p)
        robust, expected = predictive.step_robust(s, seen, mean, keep_robust, p)
        return PredictedFeatures(ever, robust, expected)

    def _rarity(self, series: WindowSeries, predicted: PredictedFeatures) -> FeatureRarities:
        """Rarity stage: -ln of how often each series has been as surprising, nats, `(features, n)`; notes the surprises of the block."""
        s, p, surprise = series.hot, self._p, predicted.ever.surprise
        down = predicted.ever.deviation < 0
        ever = self._tables.rarity_ever(surprise, down, series.index)
        robust = self._tables.rarity_robust(predicted.robust.surprise, series.index)
        unseen = predictive.first_day(s)
        for rare in (ever, robust):
            rare[RHYTHM, unseen] = 0.0
        # A block of first rows alone would count as one without surprises.
        first = (s["rows"] < p.warm_up_rows) & (s["rows"] * s["interval"] < 60 * p.first_minutes)
        self._tables.note(s, np.where(first, 0.0, surprise), down)
        self._tables.note_robust(s, predicted.robust.surprise)
        return FeatureRarities(ever, robust)

    def _joint(self, predicted: PredictedFeatures, rarities: FeatureRarities) -> JoinedScores:
        """Joint stage: one score of all features, `(n,)`, by each memory."""
        norm = self._p.norm
        body = body_of(predicted.ever.surprise, norm)
        return JoinedScores(
            ever=norm_of(rarities.ever, norm) + body,
            robust=join(rarities.robust, predicted.robust.surprise, norm),
        )

    def _calibration(self, series: WindowSeries, seen: MeasuredFeatures, joined: JoinedScores) -> CalibratedScores:
        """Calibration stage: nats of the joined scores, `(n,)`; learns what scores are usual, and ends blocks that are over."""
        s, turned = series.hot, series.turned
        blocks = self.state.cold["blocks"][0, series.index].astype(np.float64)
        base = reference_distribution.surprisal(joined.ever, blocks, s["interval"].astype(np.float64))
        health = joined.robust
        base[series.warming] = health[series.warming] = np.nan
        score = self._calibrate_per_series(series, base, seen.seconds)
        s["rows"] = s["rows"] + np.uint32(1)
        s["block_rows"] = np.minimum(s["block_rows"], 60_000) + np.uint16(1)
        lengths = s["block_rows"].copy()
        ended = self._tables.end_blocks(s, series.index, turned)
        self._check_drift(series, ended, lengths)
        return CalibratedScores(base, score, health)

    def _calibrate_per_series(self, series: WindowSeries, base: Floats, seconds: Floats) -> Floats:
        """Surprisal of `base` in each series, nats, `(n,)`; then learns it."""
        s, index = series.hot, series.index
        checked, fresh = self.state.cold["checked"], np.flatnonzero(s["rows"] == 0)
        if len(fresh):
            s["quantiles"][:, fresh], s["tail"][:, fresh] = per_series_calibration.begin(len(fresh))
            s["excesses"][fresh] = s["block_chance"][fresh] = 0
            checked[:, index[fresh]] = calibration_drift.begin(len(fresh))
        s["excesses"][series.turned] //= 2
        quantiles, tail = s["quantiles"].astype(np.float64), s["tail"].astype(np.float64)
        score = per_series_calibration.surprisal(base, quantiles, tail)
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

    def _check_drift(self, series: WindowSeries, ended: Ints, lengths: NDArray[np.uint16]) -> None:
        """Compare the mean probability of the blocks that have ended, with so many rows, to one half."""
        if not len(ended):
            return
        s, cold, rows = series.hot, self.state.cold, series.index[ended]
        mean = s["block_chance"][ended].astype(np.float64) / lengths[ended]
        before = cold["blocks"][0, rows] - 1.0
        cold["checked"][:, rows] = calibration_drift.check(cold["checked"][:, rows], mean, before)
        s["block_chance"][ended] = 0

    def _store(self, series: WindowSeries) -> None:
        """Write the hot columns back to the state, rounded as they are saved."""
        s = series.hot
        for name, chosen in SINGLE.items():
            s[name][chosen] = s[name][chosen].astype(np.float32)
        for name, array in self.state.hot.items():
            array[..., slice(None) if series.whole else series.index] = s[name]

    def _of(self, name: str, index: Ints) -> Floats | float:
        """A parameter of some series: one for all, or `(n,)`."""
        found: Floats | float = self.overrides[name][index] if name in self.overrides else getattr(self._p, name)
        return found

    def copied(self, rows: Ints) -> dict[str, Array]:
        """Copies of the state of series `rows`, for `put_back`."""
        return self.state.copied(rows)

    def put_back(self, rows: Ints, copied: Mapping[str, Array]) -> None:
        """Restore series as they were when they were `copied`."""
        self.state.put_back(rows, copied)
        self._tables.read_again(rows)

    def expects(self, row: int) -> dict[str, Any]:
        """What is expected of the next value: `typical`, `spread`, `lower`, `upper` in its unit; and the `windows_to_go` of warming up."""
        p, hot = self._p, self.state.hot
        mean, sums, weight = (float(hot[name][VALUE, row]) for name in ("robust_mean", "robust_sums", "robust_weight"))
        least = features.least_spread({name: hot[name][0, row] for name in features.OF_SPREAD})
        scale = float(predictive.spread_of(np.array(mean), np.array(sums), np.array(weight), least, p))
        reach = scale * predictive.reach_of(p)
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
        """Mean absolute step of a series by the robust memory, in its unit."""
        hot = self.state.hot
        least = features.least_rough({name: hot[name][0, row] for name in features.OF_ROUGHNESS})
        return float(np.expm1(max(hot["robust_mean"][ROUGH, row], 0.0)) * least)

    def settle(self, row: int) -> None:
        """Reset the recent means of a series to those of its robust memory."""
        hot = self.state.hot
        hot["fast"][0, row] = hot["robust_mean"][VALUE, row]
        hot["rough"][0, row] = self.usual_roughness(row) * hot["rough_weight"][0, row]

    def adopt(self, row: int, level: float, *, healthy: bool = True) -> None:
        """Make `level` the new normal of a series, for a change that was recognised.

        The typical value moves there. Its spread grows with the level (at most `MOST_GROWTH` times), and its weight falls to
        `ADOPTED_ROWS`. If people have called the level `healthy`, the other robust features move as well; else they learn it over
        some days, as they learn anything unusual, and meanwhile its host is not healthy.

        The memory that learns everything moves as well. A young series, and one that moves by an order of magnitude, loses most of its
        weight there too. An older one keeps its spread, but for the widening of counts (variance with the level): else a few rows after an
        event would outweigh weeks before it. The levels of other hours move only where the series is not young, because a young one may be
        at the level of this hour alone.

        Parameters
        ----------
        row
            Row of the series in the state.
        level
            The new level, in the unit of the series.
        healthy
            Whether the level is known to be healthy.
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
        """Set the log level and the fast mean of a memory to `level`."""
        hot = self.state.hot
        size = hot["long_size"][0, row] / hot["long_weight"][0, row]
        hot[mean][LOG_LEVEL, row] = features.log_level(np.array(level), features.offset(size))
        hot[mean][FAST, row] = level

    def _is_young(self, row: int) -> bool:
        """Whether the series has not been seen for `trust_days` yet."""
        hot = self.state.hot
        return float(hot["rows"][0, row]) * float(hot["interval"][0, row]) < DAY * self._p.trust_days

    def widen(self, row: int, factor: float) -> None:
        """Multiply the spread of a series by `factor`, for a change of spread that was recognised.

        The memory that learns everything is widened only if the series is young.
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


def _loosen(weights: Array, sums: Array, row: int) -> None:
    """Reduce the weight of a memory to `ADOPTED_ROWS`, in place."""
    loose = ADOPTED_ROWS / np.maximum(weights[:, row], ADOPTED_ROWS)
    weights[:, row] *= loose
    sums[:, row] *= loose


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
