"""The univariate model: windows of many series in, how rare each is out, as a probability. Score, then learn.

A step goes through five stages, each of which takes what the one before has made:

    features      what is measured of a window                                                      `features`
    predictive    how surprising each feature is in this series, under two memories                 `predictive`
    rarity        how often the series has been as surprising                                       `rarity_tables`
    joint         one score of all features: a norm of their rarities
    calibration   the probability of the score: in normal data of all kinds (`reference_distribution`), or what a step
                  counts whatever came before; then in the series itself (`per_series_calibration`), with a check
                  of the result (`calibration_drift`). A value, or a level that lasts, far beyond all before counts as much in any case
                  (`farthest`)

The two memories answer two questions. *Was it ever so in this series?* learns everything, so that a repeat is less surprising; *is it
healthy now?* hardly learns outliers (robust). Alarms are decided in `models.detection`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.core.arrays import Array, Floats, Ints
from models.stats import calibration_drift, farthest, per_series_calibration
from models.univariate import compiled_step, features, predictive, settings_vector
from models.univariate.block import HotColumns
from models.univariate.compiled_step import Known, Rows
from models.univariate.features import DAY
from models.univariate.parameters import UnivariateParameters
from models.univariate.preview import Preview
from models.univariate.rarity_tables import RarityTables
from models.univariate.univariate_state import (
    FAST,
    LOG_LEVEL,
    RHYTHM,
    ROBUST_FEATURES,
    ROUGH,
    STEP,
    VALUE,
    WITHIN,
    UnivariateState,
)

LARGEST = 1e17  # values beyond are clipped: sums of squares are kept in single precision
ADOPTED_ROWS = 60.0  # rows that are kept of a memory when a new level is adopted
MOST_GROWTH = 10.0  # how much wider a memory may become then
OVERRIDABLE = ("level_half_life_days", "robust_half_life_days", "warm_up_minutes")


class UnivariateScores(NamedTuple):
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
        self._settings = settings_vector.settings_vector(parameters)
        self._own = {name: np.array([float(getattr(parameters, name))]) for name in OVERRIDABLE}
        self.overrides: Mapping[str, Floats] = {}
        self._read: tuple[int, tuple[HotColumns, Known]] | None = None

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
        now, mean = np.atleast_1d(np.asarray(t_ms, dtype=np.float64)), np.maximum(np.minimum(mean, LARGEST), -LARGEST)
        index, points = np.ascontiguousarray(index), np.ascontiguousarray(n, dtype=np.float64)
        turned = index[self._tables.turn(index, now)]
        self._begin_hours(turned, index, mean)
        out = np.empty((compiled_step.ANSWERS, len(index)))
        rows = Rows(index, np.ascontiguousarray(now), points, np.ascontiguousarray(mean), np.ascontiguousarray(m2))
        level, robust, warm_up = (self._parameter_of(name, index) for name in OVERRIDABLE)
        compiled_step.step(rows, *self._columns(), self._settings, (level, robust, warm_up), out)
        if len(turned):
            lengths = self.state.hot["block_rows"][0, turned].copy()
            self._check_drift(self._tables.end_blocks(turned), turned, lengths)
        return _scores(out)

    def _begin_hours(self, turned: Ints, index: Ints, mean: Floats) -> None:
        """What begins with the first row of a series, and with each of its hours; `turned` are the series that begin another hour."""
        hot, cold = self.state.hot, self.state.cold
        if not len(turned):
            return
        new = np.flatnonzero(hot["rows"][0, index] == 0)
        if len(new):
            rows = index[new]
            cold["first_value"][0, rows] = mean[new]
            hot["quantiles"][:, rows], hot["tail"][:, rows] = per_series_calibration.begin(len(new))
            hot["block_lasting"][:, rows] = cold["lasting"][:, rows] = farthest.NOTHING
            hot["excesses"][0, rows] = hot["block_chance"][0, rows] = 0
            cold["checked"][:, rows] = calibration_drift.begin(len(new))
            self.state.cold_changed = True
        hot["excesses"][0, turned] //= 2

    def _columns(self) -> tuple[HotColumns, Known]:
        """What the compiled step reads: the same arrays until series come or go."""
        if self._read is None or self._read[0] != self.state.layout:
            self._read = self.state.layout, (HotColumns(**self.state.hot), self._known())
        return self._read[1]

    def _known(self) -> Known:
        """What the compiled step reads besides the hot columns."""
        cold, tables = self.state.cold, self._tables
        checked = cold["checked"].view(np.uint16)
        of_rarity = tables.table, tables.prior, tables.often, tables.robust, tables.robust_prior
        counted = cold["blocks"], cold["farthest"], cold["lasting"], cold["first_value"]
        return Known(*counted, checked, *of_rarity, tables.of_week)

    def preview(self, rows: Ints) -> Preview:
        """What series `rows`, of which each has had a row, would score in their next window."""
        known = Known(*(np.take(column, rows, axis=-1) for column in self._known()))
        hot = {name: np.take(column, rows, axis=-1) for name, column in self.state.hot.items()}
        level, robust, warm_up = (self._parameter_of(name, rows) for name in OVERRIDABLE)
        return Preview(hot, known, self._settings, (level, robust, warm_up))

    def _check_drift(self, ended: Ints, turned: Ints, lengths: NDArray[np.uint16]) -> None:
        """Compare the mean probability of the blocks of `ended` to one half; `lengths` are the rows of the blocks of `turned`."""
        if not len(ended):
            return
        hot, cold = self.state.hot, self.state.cold
        mean = hot["block_chance"][0, ended].astype(np.float64) / lengths[np.isin(turned, ended)]
        before = cold["blocks"][0, ended] - 1.0
        cold["checked"][:, ended] = calibration_drift.check(cold["checked"][:, ended], mean, before)
        hot["block_chance"][0, ended] = 0

    def _parameter_of(self, name: str, index: Ints) -> Floats:
        """A parameter of some series: one for all, `(1,)`, or `(n,)`."""
        return self.overrides[name][index] if name in self.overrides else self._own[name]

    def copied(self, rows: Ints) -> dict[str, Array]:
        """Copies of the state of series `rows`, for `put_back`."""
        return self.state.copied(rows)

    def put_back(self, rows: Ints, copied: Mapping[str, Array]) -> None:
        """Restore series as they were when they were `copied`."""
        self.state.put_back(rows, copied)
        self._tables.read_again(rows)

    def expected_next(self, row: int) -> dict[str, Any]:
        """What is expected of the next value: `typical`, `spread`, `lower`, `upper` in its unit; and the `windows_to_go` of warming up."""
        p, hot = self._p, self.state.hot
        mean, sums, weight = (float(hot[name][VALUE, row]) for name in ("robust_mean", "robust_sums", "robust_weight"))
        least = features.least_spread({name: hot[name][0, row] for name in features.OF_SPREAD})
        scale = float(predictive.spread_of(np.array(mean), np.array(sums), np.array(weight), least, p))
        reach = scale * predictive.reach_of(p)
        rows, interval = int(hot["rows"][0, row]), float(hot["interval"][0, row])
        minutes = float(np.ravel(self._parameter_of("warm_up_minutes", np.array([row])))[0])
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

    def reset_recent(self, row: int) -> None:
        """Reset the recent means of a series to those of its robust memory."""
        hot = self.state.hot
        hot["fast"][0, row] = self._resting(row, float(hot["robust_mean"][VALUE, row]))
        hot["rough"][0, row] = self.usual_roughness(row) * hot["rough_weight"][0, row]

    def adopt_level(self, row: int, level: float, *, healthy: bool = True) -> None:
        """Make `level` the new normal of a series, for a change that was recognised.

        The typical value moves there, and the unit of the log level with it. Its spread grows with the level (at most `MOST_GROWTH` times), and its
        weight falls to `ADOPTED_ROWS`. If people have called the level `healthy`, the other robust features move as well; else they learn it over
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
        before, level = hot["robust_mean"][VALUE, row], self._resting(row, level)
        unit = self._unit(row)
        self._resize(row, abs(level) - abs(before), abs(level))
        growth = float(np.clip(abs(level / before), 1.0, MOST_GROWTH)) if before else 1.0
        hot["robust_mean"][VALUE, row] = level
        hot["robust_sums"][VALUE, row] *= growth**2
        moved = slice(VALUE, None)
        if healthy:
            moved = slice(None)
            self._set_level(row, level, "robust_mean")
            hot["robust_sums"][[STEP, FAST, RHYTHM], row] *= growth**2
        else:  # the healthy level, in the new unit, which does not follow for days: learnt anew as fast as the value
            was, now = (features.log_level(before, least) for least in (unit, self._unit(row)))
            hot["robust_mean"][LOG_LEVEL, row] += now - was
            one = slice(LOG_LEVEL, LOG_LEVEL + 1)
            _reduce_weight(hot["robust_weight"][one], hot["robust_sums"][one], row)
        _reduce_weight(hot["robust_weight"][moved], hot["robust_sums"][moved], row)
        self.reset_recent(row)
        self._set_level(row, level, "mean")
        hot["fast"][0, row] = level
        hot["overall"][0, row] += level - before
        hours = hot["hour_mean"] if self._is_young(row) else cold["first_value"]
        hours[0, row] += level - before
        loosely = self._is_young(row) or growth >= MOST_GROWTH
        hot["sums"][[STEP, FAST, RHYTHM], row] *= growth**2 if loosely else growth
        if loosely:
            _reduce_weight(hot["weight"], hot["sums"][:WITHIN], row)
        self.state.cold_changed = True

    def _resting(self, row: int, level: float) -> float:
        """The last value of a series where it is no farther than the least spread from `level`, else `level`."""
        hot = self.state.hot
        last = float(hot["previous"][0, row])
        least = features.least_spread({name: hot[name][0, row] for name in features.OF_SPREAD})
        return last if abs(last - level) <= least else level

    def _resize(self, row: int, more: float, least: float) -> None:
        """Move the long-run size of a series by `more`, to at least `least`: else the unit of its log level would follow for days."""
        hot = self.state.hot
        weight = hot["long_weight"][0, row]
        hot["long_size"][0, row] = max(hot["long_size"][0, row] / weight + more, least) * weight

    def _unit(self, row: int) -> Floats:
        """Unit of the log level of a series, in that of its values."""
        hot = self.state.hot
        return features.offset(hot["long_size"][0, row] / hot["long_weight"][0, row])

    def _set_level(self, row: int, level: float, mean: str) -> None:
        """Set the log level and the fast mean of a memory to `level`."""
        hot = self.state.hot
        hot[mean][LOG_LEVEL, row] = features.log_level(np.array(level), self._unit(row))
        hot[mean][FAST, row] = level

    def _is_young(self, row: int) -> bool:
        """Whether the series has not been seen for `trust_days` yet."""
        hot = self.state.hot
        return float(hot["rows"][0, row]) * float(hot["interval"][0, row]) < DAY * self._p.trust_days

    def adopt_spread(self, row: int, factor: float) -> None:
        """Multiply the spread of a series by `factor`, for a change of spread that was recognised.

        The memory that learns everything is widened only if the series is young; its roughness is that of now in any case.
        """
        hot = self.state.hot
        growth = float(np.clip(factor, 1 / MOST_GROWTH, MOST_GROWTH)) ** 2
        hot["robust_sums"][[ROBUST_FEATURES.index(m) for m in (LOG_LEVEL, STEP, FAST, RHYTHM)], row] *= growth
        hot["robust_sums"][VALUE, row] *= growth
        least = features.least_rough({name: hot[name][0, row] for name in features.OF_ROUGHNESS})
        rough = np.float32(np.log1p(hot["rough"][0, row] / hot["rough_weight"][0, row] / least))
        hot["robust_mean"][ROBUST_FEATURES.index(ROUGH), row] = rough
        hot["mean"][ROUGH, row] = rough
        if self._is_young(row):
            hot["sums"][[LOG_LEVEL, STEP, FAST, RHYTHM], row] *= growth


def _scores(out: Floats) -> UnivariateScores:
    """The answers of the compiled step."""
    return UnivariateScores(
        surprise=out[compiled_step.SURPRISE : compiled_step.RARITY],
        rarity=out[compiled_step.RARITY : compiled_step.JOINED],
        joined=out[compiled_step.JOINED],
        base=out[compiled_step.BASE],
        score=out[compiled_step.SCORE],
        health=out[compiled_step.HEALTH],
        dominant_feature=out[compiled_step.DOMINANT].astype(np.int8),
        typical=out[compiled_step.TYPICAL],
        lower=out[compiled_step.LOWER],
        upper=out[compiled_step.UPPER],
    )


def _reduce_weight(weights: Array, sums: Array, row: int) -> None:
    """Reduce the weight of a memory to `ADOPTED_ROWS`, in place."""
    loose = ADOPTED_ROWS / np.maximum(weights[:, row], ADOPTED_ROWS)
    weights[:, row] *= loose
    sums[:, row] *= loose
