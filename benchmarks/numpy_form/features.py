"""Features stage in numpy, a stage at a time over all series: what `models.univariate.block_features` computes block by block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.core.arrays import Array, Bools, Floats
from models.univariate.features import (
    DAY,
    FIRST_GAPS,
    GAP,
    INTERVAL_ROWS,
    LEAST,
    LEAST_KNOWN,
    LONG_STEP,
    LONGER,
    MOST_WIDER,
    MS,
    OF_LOGARITHMS,
    least_rough,
    log_level,
    offset,
    tiny,
    usual_at_hour,
)
from models.univariate.parameters import UnivariateParameters
from models.univariate.univariate_state import FAST, LOCAL, LOG_LEVEL, N_FEATURES, RHYTHM, ROUGH, STEP, WITHIN

Hot = dict[str, Array]


def kept(seconds: Floats, half_life: Floats | float, rows: float) -> Floats:
    """Share of a memory that is left after `seconds`, `(n,)`: half of it after `half_life` seconds, or after `rows` rows if those take longer."""
    out: Floats = np.exp2(-np.minimum(seconds / half_life, 1 / rows))
    return out


@dataclass(frozen=True)
class MeasuredFeatures:
    """The features of a window. Arrays are `(features, n)` or `(n,)`.

    Parameters
    ----------
    values, least
        The features in the order of `FEATURES`, NaN where one is unknown, and their least spreads, `(features, n)`.
    unknown
        Where the spread within the window is unknown, because it has one point, `(n,)`.
    trust
        Weights with which the rows are learnt, `(n,)`.
    seconds
        Seconds since the last row, 0 for a new series, `(n,)`.
    """

    values: Floats
    least: Floats
    unknown: Bools
    trust: Floats
    seconds: Floats


def bounds(s: Hot, level: tuple[Floats, Floats], warming: Bools, p: UnivariateParameters) -> tuple[Floats, Floats]:
    """The least and the largest value that features see, in the unit of the series, `(n,)` each; `level` as in `measure`."""
    first, of_week = level
    weight, quantum = s["weight"].astype(np.float64), s["quantum"].astype(np.float64)
    usual = (
        first + usual_at_hour(s["hour_mean"], s["hour_weight"].astype(np.float64), s["overall"] - first, p) + of_week
    )
    scale = np.maximum(np.sqrt(s["sums"][RHYTHM] / (weight + p.prior_rows)), quantum)
    off = MOST_WIDER * np.sqrt(weight + LEAST_KNOWN) * scale
    off = np.where(warming | (quantum <= 0), np.inf, off)
    return usual - off, usual + off


def measure(
    s: Hot,
    x: Floats,
    trust: Floats,
    level: tuple[Floats, Floats],
    within: tuple[Floats, Floats],
    now: Floats,
    p: UnivariateParameters,
) -> MeasuredFeatures:
    """The features of a window; learns the means and sums that they are made of, in place in `s`.

    Parameters
    ----------
    s
        Hot columns of these series, `(n,)` or `(length, n)`.
    x
        Means of the windows, `(n,)`.
    trust
        Weights of the rows in the level of an hour, `(n,)`.
    level
        What levels of hours are relative to, and what the week adds to the level of now, both `(n,)` in the unit of `x`.
    within
        Sums of squared deviations in the windows and their numbers of points, both `(n,)`.
    now
        Ends of the windows, epoch milliseconds, `(n,)`.
    p
        Half-lives and floors.
    """
    new = s["rows"] == 0
    seconds = np.where(new, 0.0, np.maximum(now - s["time"], 0.0) / MS)
    step = np.where(new, 0.0, x - s["previous"])
    pauses = (s["rows"] <= FIRST_GAPS) & (LONGER * seconds < s["interval"])
    usual = np.where((s["rows"] == 1) | pauses, seconds, s["interval"])
    gap = seconds > GAP * usual
    np.divide(step, seconds / np.maximum(usual, LEAST), out=step, where=gap)
    gain = np.maximum(1 - 2 ** (-1 / INTERVAL_ROWS), 1 / np.maximum(s["rows"], 1.0))
    s["interval"] = np.where(new, 0.0, usual + gain * (np.minimum(seconds, LONGER * usual) - usual)).astype(np.float32)
    quantum = _quantum(s, np.where(new, 0.0, x - s["previous"]))
    size = np.abs(step)
    before = np.where(new, x, s["fast"])
    rough_before = np.where(new, 0.0, s["rough"] / np.maximum(s["rough_weight"], LEAST))
    residual = _rhythm(s, x, trust, level, seconds, p)
    keep = kept(seconds, 60 * p.fast_half_life_minutes, p.fast_rows)
    _add_row(s, "fast_weight", keep)
    s["fast"] = before + (x - before) / s["fast_weight"]
    keep = kept(seconds, 60 * p.rough_half_life_minutes, p.rough_rows)
    _add(s, "rough", keep, size)
    _add_row(s, "rough_weight", keep)
    keep = kept(seconds, DAY * p.scale_half_life_days, p.scale_rows)
    _add(s, "long_step", keep, size)
    _add(s, "long_size", keep, np.abs(x))
    _add_row(s, "long_weight", keep)
    long_step, long_size = s["long_step"] / s["long_weight"], s["long_size"] / s["long_weight"]
    least_difference = tiny(long_size).astype(np.float64)  # its square is 0 in single precision
    scale = (1 - p.steady_share) * rough_before + p.steady_share * long_step + least_difference
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.where(
            within[1] > 1,
            np.log(within[0] / within[1] + (LONG_STEP * long_step) ** 2 + least_difference**2) / 2,
            np.nan,
        )
    values = np.empty((N_FEATURES, len(x)))
    values[LOG_LEVEL] = log_level(x, offset(long_size))
    values[STEP] = step
    values[FAST] = s["fast"]
    floor = least_rough(s)
    values[ROUGH] = np.log1p(s["rough"] / s["rough_weight"] / floor)
    values[RHYTHM] = residual
    values[LOCAL] = np.arcsinh((x - before) / scale)
    values[WITHIN] = spread
    s["previous"], s["time"] = x, now + np.zeros_like(x)
    least = _least(quantum, least_difference, np.abs(x) + offset(long_size), (long_step, floor), scale)
    return MeasuredFeatures(values, least, np.isnan(spread), trust, seconds)


def _quantum(s: Hot, step: Floats) -> Floats:
    """Least step between two values, `(n,)`, learnt in place; 0 until the value has moved twice."""
    moves, known = np.abs(step), np.abs(s["quantum"])
    least = np.where(known > 0, np.minimum(known, moves), -moves)
    s["quantum"] = np.where(moves > 0, least, s["quantum"]).astype(np.float32)
    return np.maximum(s["quantum"], 0.0).astype(np.float64)


def _least(quantum: Floats, least: Floats, level: Floats, rough: tuple[Floats, Floats], scale: Floats) -> Floats:
    """Least spread of each feature, `(features, n)`: values are not known better than to half a quantum, means to an eighth.

    Roughness is a logarithm: `rough` has its long-run mean and what it is held against, and where a series hardly ever moves
    it is not known better than from there to an eighth of a quantum.
    """
    value, mean = quantum / 2, quantum / 8
    out = np.empty((N_FEATURES, len(quantum)))
    out[LOG_LEVEL] = OF_LOGARITHMS + value / (level + value)
    out[STEP] = out[RHYTHM] = least + value
    out[FAST] = least + mean
    long_step, floor = rough
    out[ROUGH] = OF_LOGARITHMS + np.maximum(np.log1p(out[FAST] / floor) - np.log1p(long_step / floor), 0.0)
    out[LOCAL] = OF_LOGARITHMS + out[STEP] / (scale + out[STEP])
    out[WITHIN] = OF_LOGARITHMS
    return out


def _rhythm(
    s: Hot, x: Floats, trust: Floats, level: tuple[Floats, Floats], seconds: Floats, p: UnivariateParameters
) -> Floats:
    """The value minus what is usual at this hour of the day and of the week, `(n,)`; then learns the level of the hour."""
    first_value, of_week = level
    weight = s["hour_weight"].astype(np.float64)
    moved = x - first_value
    usual = usual_at_hour(s["hour_mean"], weight, s["overall"] - first_value, p)
    residual = np.where(s["overall_weight"] == 0, 0.0, moved - usual - of_week)
    keep = kept(seconds, 0.6 * DAY * p.level_half_life_days, 0.6 * p.level_rows)
    total = s["overall_weight"] * keep + trust
    s["overall"] = s["overall"] + trust * (x - s["overall"]) / total
    s["overall_weight"] = total.astype(np.float32)
    weight += trust
    s["hour_mean"] = (s["hour_mean"] + trust * (moved - s["hour_mean"]) / weight).astype(np.float32)
    s["hour_weight"] = weight.astype(np.float32)
    return residual


def _add(s: Hot, name: str, keep: Floats, value: Floats) -> None:
    """Add a value to a decayed sum, in place."""
    s[name] = (s[name] * keep + value).astype(s[name].dtype)


def _add_row(s: Hot, name: str, keep: Floats) -> None:
    """Count a row in the weight of decayed sums, in place."""
    s[name] = (s[name] * keep + 1).astype(s[name].dtype)
