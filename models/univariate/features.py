"""Features of a window: what the members of the univariate model look at. Scoring and learning are elsewhere.

With x the window's mean, dt the seconds since the last row, and EW_h a mean with half-life h (never less than so many rows):

    log level   sign(x) ln(|x| + EW|x| / 50)              step        x - x'; after a gap, over the rows that are missing
    fast mean   EW_20min x                                roughness   ln(EW_1h |step| + EW_days |step| / 1000)
    rhythm      EW_1h of x minus the mean of the hour of the day, and what the week adds (`week`)
    local       asinh((x - fast mean before) / recent roughness)
    spread within   ln of the standard deviation in the window, NaN where it holds one point

Recent roughness is that of the rows before. `local` finds a small move in a calm hour; a logarithm keeps bursts from
filling its memory. All are invariant to the unit of x, but for the log level's offset and the floors.
"""

from __future__ import annotations

import numpy as np

from models.core.arrays import Array, Floats
from models.univariate.parameters import UnivariateParameters

MS, HOUR, DAY = 1000.0, 3600.0, 86400.0
LEAST = 1e-30
ARITHMETIC = 1e-9  # of a series' usual size: smaller differences are those of arithmetic
OF_LOGARITHMS = 1e-5
GAP = 1.5  # times the usual interval: more is a gap
INTERVAL_ROWS = 50.0
LONG_STEP = 1e-3  # of the mean long-run step: the least roughness
OF_SPREAD = ("long_size", "long_weight", "quantum")
OF_ROUGHNESS = ("long_step", "long_size", "long_weight")
Hot = dict[str, Array]


def kept(seconds: Floats, half_life: Floats | float, rows: float) -> Floats:
    """What is left of a memory after `seconds`: half of it after `half_life`, or `rows` rows if those take longer."""
    out: Floats = np.exp2(-np.minimum(seconds / half_life, 1 / rows))
    return out


def tiny(long_size: Floats) -> Floats:
    """Differences of values of this size that are those of arithmetic."""
    return ARITHMETIC * long_size + LEAST


def least_spread(s: Hot) -> Floats:
    """The least spread of values, of hot columns `(n,)`."""
    return tiny(s["long_size"] / s["long_weight"]) + np.maximum(s["quantum"], 0.0) / 2


def offset(long_size: Floats) -> Floats:
    """What a logarithm of values of this size is floored by."""
    return np.maximum(0.02 * long_size, LEAST)


def log_level(x: Floats, least: Floats) -> Floats:
    """The first member."""
    out: Floats = np.sign(x) * np.log1p(np.abs(x) / least)
    return out


def least_rough(s: Hot) -> Floats:
    """What recent roughness is held against before its logarithm is taken, of hot columns `(n,)`."""
    long_step, long_size = s["long_step"] / s["long_weight"], s["long_size"] / s["long_weight"]
    return LONG_STEP * long_step + tiny(long_size)


def measure(
    s: Hot,
    x: Floats,
    w: Floats,
    about: tuple[Floats, Floats],
    within: tuple[Floats, Floats],
    now: Floats,
    p: UnivariateParameters,
) -> tuple[Floats, Floats, Floats]:
    """Features and their least spreads `(members, n)`, seconds since the last row `(n,)`; learns the sums behind in place.

    `s` holds the hot columns of these series, `(n,)` or `(length, n)`; `w` is what rows count in the level of an hour;
    `about` has what the levels of hours are relative to, and what they differ by in this hour of the week; `within` has the sums of
    squares and the numbers of points of the windows; `now` is in milliseconds.
    """
    new = s["rows"] == 0
    seconds = np.where(new, 0.0, np.maximum(now - s["time"], 0.0) / MS)
    step = np.where(new, 0.0, x - s["previous"])
    usual = np.where(s["rows"] == 1, seconds, s["interval"])
    gap = seconds > GAP * usual
    np.divide(step, seconds / np.maximum(usual, LEAST), out=step, where=gap)
    gain = np.maximum(1 - 2 ** (-1 / INTERVAL_ROWS), 1 / np.maximum(s["rows"], 1.0))
    s["interval"] = np.where(new, 0.0, usual + gain * (np.minimum(seconds, 3 * usual) - usual)).astype(np.float32)
    quantum = _quantum(s, np.where(new, 0.0, x - s["previous"]))
    size = np.abs(step)
    before = np.where(new, x, s["fast"])
    rough_before = np.where(new, 0.0, s["rough"] / np.maximum(s["rough_weight"], LEAST))
    residual = _rhythm(s, x, w, about, seconds, p)
    keep = kept(seconds, 60 * p.fast_half_life_minutes, p.fast_rows)
    _weigh(s, "fast_weight", keep)
    s["fast"] = before + (x - before) / s["fast_weight"]
    keep = kept(seconds, 60 * p.rough_half_life_minutes, p.rough_rows)
    _sum(s, "rough", keep, size)
    _sum(s, "residual", keep, residual)
    _weigh(s, "rough_weight", keep)
    keep = kept(seconds, DAY * p.scale_half_life_days, p.scale_rows)
    _sum(s, "long_step", keep, size)
    _sum(s, "long_size", keep, np.abs(x))
    _weigh(s, "long_weight", keep)
    long_step, long_size = s["long_step"] / s["long_weight"], s["long_size"] / s["long_weight"]
    least_difference = tiny(long_size).astype(np.float64)  # its square is 0 in single precision
    scale = (1 - p.steady_share) * rough_before + p.steady_share * long_step + least_difference
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.where(
            within[1] > 1,
            np.log(within[0] / within[1] + (LONG_STEP * long_step) ** 2 + least_difference**2) / 2,
            np.nan,
        )
    features = np.empty((7, len(x)))
    features[0] = log_level(x, offset(long_size))
    features[1] = step
    features[2] = s["fast"]
    floor = least_rough(s)
    features[3] = np.log1p(s["rough"] / s["rough_weight"] / floor)
    features[4] = s["residual"] / s["rough_weight"]
    features[5] = np.arcsinh((x - before) / scale)
    features[6] = spread
    s["previous"], s["time"] = x, now + np.zeros_like(x)
    return (
        features,
        _least(quantum, least_difference, np.abs(x) + offset(long_size), (long_step, floor), scale),
        seconds,
    )


def _quantum(s: Hot, step: Floats) -> Floats:
    """The least step between two values, learnt in place. One that has moved once only is not yet known to have steps."""
    moves, known = np.abs(step), np.abs(s["quantum"])
    least = np.where(known > 0, np.minimum(known, moves), -moves)
    s["quantum"] = np.where(moves > 0, least, s["quantum"]).astype(np.float32)
    return np.maximum(s["quantum"], 0.0).astype(np.float64)


def _least(quantum: Floats, least: Floats, level: Floats, rough: tuple[Floats, Floats], scale: Floats) -> Floats:
    """The least spread of each member: values are not known better than to half a quantum, means to an eighth.

    Roughness is a logarithm: `rough` has its long-run mean and what it is held against, and where a series hardly ever moves
    it is not known better than from there to an eighth of a quantum.
    """
    value, mean = quantum / 2, quantum / 8
    out = np.empty((7, len(quantum)))
    out[0] = OF_LOGARITHMS + value / (level + value)
    out[1] = least + value
    out[2] = out[4] = least + mean
    long_step, floor = rough
    out[3] = OF_LOGARITHMS + np.maximum(np.log1p(mean / floor) - np.log1p(long_step / floor), 0.0)
    out[5] = OF_LOGARITHMS + value / (scale + value)
    out[6] = OF_LOGARITHMS
    return out


def usual_at_hour(mean: Floats, weight: Floats, overall: Floats, p: UnivariateParameters) -> Floats:
    """What is usual at an hour of the day whose level has this mean and weight, `(n,)`; all levels relative to one origin."""
    out: Floats = (weight * mean + p.rhythm_prior * overall) / (weight + p.rhythm_prior)
    return out


def _rhythm(
    s: Hot, x: Floats, w: Floats, about: tuple[Floats, Floats], seconds: Floats, p: UnivariateParameters
) -> Floats:
    """The value minus what is usual at this hour of the day and of the week, before it is learnt."""
    origin, of_week = about
    weight = s["hour_weight"].astype(np.float64)
    moved = x - origin
    usual = usual_at_hour(s["hour_mean"], weight, s["overall"] - origin, p)
    residual = np.where(s["overall_weight"] == 0, 0.0, moved - usual - of_week)
    keep = kept(seconds, 0.6 * DAY * p.level_half_life_days, 0.6 * p.level_rows)
    total = s["overall_weight"] * keep + w
    s["overall"] = s["overall"] + w * (x - s["overall"]) / total
    s["overall_weight"] = total.astype(np.float32)
    weight += w
    s["hour_mean"] = (s["hour_mean"] + w * (moved - s["hour_mean"]) / weight).astype(np.float32)
    s["hour_weight"] = weight.astype(np.float32)
    return residual


def _sum(s: Hot, name: str, keep: Floats, value: Floats) -> None:
    s[name] = (s[name] * keep + value).astype(s[name].dtype)


def _weigh(s: Hot, name: str, keep: Floats) -> None:
    s[name] = (s[name] * keep + 1).astype(s[name].dtype)
