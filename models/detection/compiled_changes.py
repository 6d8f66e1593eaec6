"""The weighing of change candidates as machine code: `change_point` says what is computed, and why.

A candidate is a row of `ChangeCandidates`. Its numbers are read in double precision, and are written back in the types of their columns.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from models.core.arrays import Array, Bools, Floats, Ints
from models.core.compiled import called, compiled
from models.stats.elementary import exp, log, log1p

OLD, SPREAD, LEVEL, TREND = range(4)
WIDE, DEGREES = 10.0, 8.0
HEAD = 2.0
MOST_AGAINST = 3.0  # nats against an explanation that still holds
OTHER_SPREAD = 1.5  # times as large as the old spread, or as small, is a new one
FARTHEST = 1e12  # spreads: squares of larger values would overflow single precision
SHAPE = 1.0  # of the prior of a spread: it is worth two rows
SINGLE = 3e38
LEAST = 1e-300
LN2, HALF_LOG_PI = math.log(2), math.log(math.pi) / 2
# Places of the columns in a candidate; those of a new level and of a new spread stand alike but for the mean.
ANCHOR, UNIT, WORTH, COMMON, LEVEL_START, ROWS_OF_LEVEL, MEAN, LEVEL_SUM, LEVEL_NATS, LEVEL_AGAINST = range(10)
SPREAD_START, ROWS_OF_SPREAD, SPREAD_SUM, SPREAD_NATS, SPREAD_AGAINST = range(10, 15)
P0, P1, P2, Q0, Q1, TREND_SHAPE, TREND_SUM, LEVEL_RISE, LEVEL_FROM = range(15, 24)
# Rows of the parameters, of what is given of each candidate, and of the verdict: see `ChangeParameters`, `CandidateRows` and `Verdict`.
OPEN_SCALES, CLIP_NATS, AGAINST_NATS, OUTLIER_SHARE, LEVEL_ROWS, TREND_ROWS, KEPT, LEAST_ROWS, AT_ONCE = range(9)
X, PLACE, SCALE, BEFORE, WORTH_NOW, COMMON_NOW, NEEDED_NATS, FAST_BEFORE = range(8)
WHAT, ANNOUNCED, START, AFTER, SPREAD_NOW, LEAD, OVER = range(7)
STIRLING = (1 / 8, 1 / 192, 1 / 640, 17 / 14336, 31 / 18432, 691 / 180224)
SHIFTED = 10  # steps from x to where the series of `gamma_ratio` is exact


class Candidates(NamedTuple):
    """The columns of `ChangeCandidates`, `(candidates,)` each."""

    anchor: Array
    unit: Array
    worth: Array
    common: Array
    level_start: Array
    level_rows: Array
    level_mean: Array
    level_sum: Array
    level_rise: Array
    level_from: Array
    level_nats: Array
    level_against: Array
    spread_start: Array
    spread_rows: Array
    spread_sum: Array
    spread_nats: Array
    spread_against: Array
    trend_p0: Array
    trend_p1: Array
    trend_p2: Array
    trend_q0: Array
    trend_q1: Array
    trend_shape: Array
    trend_sum: Array


Candidate = Floats  # its numbers by `ANCHOR` to `LEVEL_FROM`, `(24,)`


@called
def read(table: Candidates, at: int, c: Candidate) -> None:
    """Read a candidate."""
    c[ANCHOR], c[UNIT], c[WORTH], c[COMMON] = table.anchor[at], table.unit[at], table.worth[at], table.common[at]
    c[LEVEL_START], c[SPREAD_START] = table.level_start[at], table.spread_start[at]
    c[ROWS_OF_LEVEL], c[MEAN], c[LEVEL_SUM] = table.level_rows[at], table.level_mean[at], table.level_sum[at]
    c[LEVEL_NATS], c[LEVEL_AGAINST] = table.level_nats[at], table.level_against[at]
    c[ROWS_OF_SPREAD], c[SPREAD_SUM] = table.spread_rows[at], table.spread_sum[at]
    c[SPREAD_NATS], c[SPREAD_AGAINST] = table.spread_nats[at], table.spread_against[at]
    c[P0], c[P1], c[P2] = table.trend_p0[at], table.trend_p1[at], table.trend_p2[at]
    c[Q0], c[Q1] = table.trend_q0[at], table.trend_q1[at]
    c[TREND_SHAPE], c[TREND_SUM] = table.trend_shape[at], table.trend_sum[at]
    c[LEVEL_RISE], c[LEVEL_FROM] = table.level_rise[at], table.level_from[at]


@called
def write(table: Candidates, at: int, c: Candidate) -> None:
    """Write a candidate back: the inverse of `read`."""
    table.anchor[at], table.unit[at], table.worth[at], table.common[at] = c[ANCHOR], c[UNIT], c[WORTH], c[COMMON]
    table.level_start[at], table.spread_start[at] = c[LEVEL_START], c[SPREAD_START]
    table.level_rows[at], table.level_mean[at], table.level_sum[at] = c[ROWS_OF_LEVEL], c[MEAN], c[LEVEL_SUM]
    table.level_nats[at], table.level_against[at] = c[LEVEL_NATS], c[LEVEL_AGAINST]
    table.spread_rows[at], table.spread_sum[at] = c[ROWS_OF_SPREAD], c[SPREAD_SUM]
    table.spread_nats[at], table.spread_against[at] = c[SPREAD_NATS], c[SPREAD_AGAINST]
    table.trend_p0[at], table.trend_p1[at], table.trend_p2[at] = c[P0], c[P1], c[P2]
    table.trend_q0[at], table.trend_q1[at] = c[Q0], c[Q1]
    table.trend_shape[at], table.trend_sum[at] = c[TREND_SHAPE], c[TREND_SUM]
    table.level_rise[at], table.level_from[at] = c[LEVEL_RISE], c[LEVEL_FROM]


@called
def gamma_ratio(x: float) -> float:
    """ln Gamma(x + 1/2) - ln Gamma(x) for x >= 1/2: Stirling's series at x + `SHIFTED`, and the recursion of the gamma function down from there."""
    product = 1.0
    for k in range(SHIFTED):
        product *= (x + k) / (x + k + 0.5)
    z = x + SHIFTED
    inverse, rest = 1.0 / (z * z), STIRLING[-1]
    for k in range(len(STIRLING) - 2, -1, -1):
        rest = STIRLING[k] - inverse * rest
    return log(product) + 0.5 * log(z) - rest / z


@called
def log_density(y: float, place: float, scale: float, degrees: float) -> float:
    """As `regression.log_density`, of a value and its location."""
    z = (y - place) / scale
    constant = gamma_ratio(degrees / 2) - 0.5 * log(degrees) - HALF_LOG_PI
    return constant - log(scale) - (degrees + 1) / 2 * log1p(z * z / degrees)


@called
def log_sum(a: float, b: float) -> float:
    """ln(e^a + e^b); either may be -infinity."""
    most, least = max(a, b), min(a, b)
    return most if np.isinf(least) else most + log1p(exp(least - most))


@called
def clipped(number: float, most: float) -> float:
    """A number, at most so far from 0."""
    return min(max(number, -most), most)


@called
def spread_of(c: Candidate) -> float:
    """Spread of the rows around the old level, in units of `unit`."""
    out: float = np.sqrt((SHAPE + c[SPREAD_SUM] / 2) / (SHAPE + c[ROWS_OF_SPREAD] / 2))
    return out


@called
def density_of_level(c: Candidate, y: float, prior: float) -> float:
    """Log density of a value under the new level: Normal-Gamma, its prior, worth `prior` rows, around the anchor."""
    rows, mean = c[ROWS_OF_LEVEL], c[MEAN]
    weight, shape = rows + prior, SHAPE + rows / 2
    rate = SHAPE + c[LEVEL_SUM] / 2 + prior * rows / weight * mean * mean / 2
    return log_density(y, rows * mean / weight, np.sqrt(rate * (weight + 1) / (shape * weight)), 2 * shape)


@called
def predict_on_trend(c: Candidate) -> tuple[float, float]:
    """Where the trend expects the next value, as `regression.predict`, and P2 / det, which its uncertainty follows from."""
    det = max(c[P0] * c[P2] - c[P1] * c[P1], LEAST)
    return (c[P2] * c[Q0] - c[P1] * c[Q1]) / det, c[P2] / det


@called
def distance_from_anchor(
    c: Candidate, x: float, place: float, scale: float, of_rows: tuple[float, float], fresh: bool, p: Floats
) -> float:
    """The value as a distance from the level in units of the spread, both as they were when the series became a candidate.

    They, and what rows are worth (`of_rows`), are fixed meanwhile, because the model of a young series would learn the change. `fresh`
    is one that begins.
    """
    if fresh:
        c[ANCHOR], c[UNIT] = place, scale
        c[WORTH], c[COMMON] = of_rows
        c[ROWS_OF_SPREAD] = c[SPREAD_SUM] = c[SPREAD_NATS] = c[SPREAD_AGAINST] = 0.0
        c[P1] = c[Q0] = c[Q1] = 0.0
        c[P0], c[P2], c[TREND_SHAPE], c[TREND_SUM] = p[LEVEL_ROWS], p[TREND_ROWS], SHAPE, 2 * SHAPE
    c[P2] += c[P0] - 2 * c[P1]
    c[P1] -= c[P0]
    c[Q1] -= c[Q0]
    return clipped((x - c[ANCHOR]) / c[UNIT], FARTHEST)


@called
def add_evidence(c: Candidate, nats: int, gain: float, against: float, p: Floats) -> bool:
    """Add the evidence for and against an explanation that has begun, at places `nats` and after it; whether it goes on."""
    if c[nats] > 0:
        c[nats] += clipped(gain, p[CLIP_NATS])
        c[nats + 1] = max(c[nats + 1] + clipped(against, p[CLIP_NATS]), 0.0)
        if c[nats] > 0 and c[nats + 1] < p[AGAINST_NATS]:
            return True
    c[nats] = c[nats + 1] = 0.0
    return False


@called
def compare(c: Candidate, y: float, p: Floats) -> None:
    """Compare the explanations by the log densities of a value, and end those that are no longer likely."""
    none = -np.inf
    old = log(1.0 - p[OUTLIER_SHARE]) + log_density(y, 0.0, 1.0, DEGREES)
    old = log_sum(old, log(p[OUTLIER_SHARE]) + log_density(y, 0.0, WIDE, DEGREES))
    rows = c[ROWS_OF_SPREAD]
    spread = log_density(y, 0.0, spread_of(c), 2 * SHAPE + rows) if rows > 0 else none
    level = density_of_level(c, y, p[LEVEL_ROWS]) if c[ROWS_OF_LEVEL] > 0 else none
    towards, reach = predict_on_trend(c)
    across = np.sqrt(c[TREND_SUM] / (2 * c[TREND_SHAPE]) * (1 + reach) + LEAST)
    trend = log_density(y, towards, across, 2 * c[TREND_SHAPE])
    others = log_sum(log_sum(old, spread) - (LN2 if rows > 0 else 0.0), trend) - LN2
    if not add_evidence(c, LEVEL_NATS, level - max(old, spread), others - level, p):
        c[ROWS_OF_LEVEL] = c[LEVEL_SUM] = c[MEAN] = c[LEVEL_RISE] = 0.0
    goes_on = add_evidence(c, SPREAD_NATS, spread - old, log_sum(old, trend) - LN2 - spread, p)
    if not (goes_on or c[ROWS_OF_LEVEL] > 0):  # a level has to be better than a spread, always
        c[ROWS_OF_SPREAD] = c[SPREAD_SUM] = 0.0


@called
def begin(c: Candidate, start: int, rows: int, nats: int, strays: bool, before: float) -> bool:
    """Begin an explanation at a row that strays, which it need not explain, and count the rows of one that has begun; whether it begins."""
    begins = strays and c[nats] == 0
    if begins:
        c[start], c[nats] = before, HEAD
    c[rows] = c[rows] + 1 if begins or c[rows] > 0 else 0.0
    return bool(begins)


@called
def learn(c: Candidate, y: float, kept: float) -> None:
    """Learn the row, which has been counted, in all explanations."""
    if c[ROWS_OF_LEVEL] > 0:
        delta = y - c[MEAN]
        c[MEAN] += delta / c[ROWS_OF_LEVEL]
        c[LEVEL_RISE] = clipped(c[LEVEL_RISE] + c[ROWS_OF_LEVEL] / 2 * (y - c[MEAN]), SINGLE)
        c[LEVEL_SUM] = min(c[LEVEL_SUM] + delta * (y - c[MEAN]), SINGLE)
    if c[ROWS_OF_SPREAD] > 0:
        c[SPREAD_SUM] = min(c[SPREAD_SUM] + y * y, SINGLE)
    towards, reach = predict_on_trend(c)
    error = y - towards
    for k in range(P0, TREND_SUM + 1):
        c[k] *= kept
    c[P0] += 1
    c[Q0] += y
    c[TREND_SUM] += error * error / (1 + reach)
    c[TREND_SHAPE] += 0.5


@called
def holds(c: Candidate, start: int, rows: int, nats: int, times: tuple[float, float], least_rows: float) -> bool:
    """Whether an explanation has lasted and still holds."""
    return bool(c[rows] >= least_rows and times[0] - c[start] >= times[1] and c[nats + 1] <= MOST_AGAINST)


@called
def independent_observations(c: Candidate, rows: int) -> float:
    """Independent observations that each row of an explanation is worth, whose number of rows has the place `rows`."""
    out: float = min(c[WORTH], 1.0 / (1.0 + max(c[rows] - 1.0, 0.0) * c[COMMON]))
    return out


@called
def is_sudden(c: Candidate, share: float) -> bool:
    """Whether the series made this share of its way to the new level in one go: from the fast mean before to where a line through the rows begins.

    The standard error of that beginning, 2 / sqrt(rows) spreads of the rows, is taken off.
    """
    n = max(c[ROWS_OF_LEVEL], 1.0)
    slope = 12.0 * c[LEVEL_RISE] / max(n * (n * n - 1.0), 1.0)
    begins = c[MEAN] - slope * n / 2
    made = begins - c[LEVEL_FROM] if c[MEAN] > 0 else c[LEVEL_FROM] - begins
    error = 2.0 * np.sqrt(c[LEVEL_SUM]) / n
    return bool(made - error >= share * abs(c[MEAN]))


@called
def decide(
    c: Candidate, needed: float, settled: bool, times: tuple[float, float], p: Floats
) -> tuple[int, bool, float]:
    """Which explanation leads, whether it has won, and its evidence."""
    level = independent_observations(c, ROWS_OF_LEVEL) * (c[LEVEL_NATS] - HEAD)
    spread = independent_observations(c, ROWS_OF_SPREAD) * (c[SPREAD_NATS] - HEAD)
    away, ratio = abs(c[MEAN]) >= p[OPEN_SCALES], spread_of(c)  # what a series returns to is not new
    arrived = settled and away and is_sudden(c, p[AT_ONCE] / 2)  # a series that is still on its way has no new level
    evident = arrived or (level >= needed and is_sudden(c, p[AT_ONCE]))
    level_wins = evident and holds(c, LEVEL_START, ROWS_OF_LEVEL, LEVEL_NATS, times, p[LEAST_ROWS])
    spread_wins = holds(c, SPREAD_START, ROWS_OF_SPREAD, SPREAD_NATS, times, p[LEAST_ROWS])
    spread_wins = spread_wins and settled and max(ratio, 1.0 / ratio) >= OTHER_SPREAD
    spread_wins = spread_wins and spread > 0 and level <= 0  # the level's lead is over the spread, too
    what = SPREAD if level <= 0 and spread > 0 else LEVEL
    what = TREND if c[LEVEL_AGAINST] > MOST_AGAINST else what
    what = OLD if c[ROWS_OF_LEVEL] == 0 and c[ROWS_OF_SPREAD] == 0 else what
    what = LEVEL if level_wins else (SPREAD if spread_wins else what)
    return what, level_wins or spread_wins, spread if what == SPREAD else level


@compiled
def weigh(
    table: Candidates,
    places: Ints,
    given: Floats,
    has_episode: Bools,
    settled: Bools,
    times: tuple[float, float],
    p: Floats,
    verdict: Floats,
) -> None:
    """Weigh a row of each of some candidates, then learn it.

    Parameters
    ----------
    table, places
        The candidates, changed in place, and the places of those that have a row, `(n,)`.
    given
        What is given of each, by `X` to `FAST_BEFORE`, `(8, n)`.
    has_episode, settled
        See `CandidateRows`, `(n,)`.
    times
        The end of the window, epoch ms, and how long a change must have lasted, ms.
    p
        Parameters by `OPEN_SCALES` to `LEAST_ROWS`; `KEPT` is what is left of a trend after a row.
    verdict
        Gets the verdicts, by `WHAT` to `OVER`, `(7, n)`.
    """
    c = np.empty(LEVEL_FROM + 1)
    for j in range(len(places)):
        read(table, places[j], c)
        x, place, scale, before = given[X, j], given[PLACE, j], given[SCALE, j], given[BEFORE, j]
        fresh = c[ROWS_OF_LEVEL] == 0 and (c[ROWS_OF_SPREAD] == 0 or not has_episode[j])
        y = distance_from_anchor(c, x, place, scale, (given[WORTH_NOW, j], given[COMMON_NOW, j]), fresh, p)
        compare(c, y, p)
        strays = abs(x - place) >= p[OPEN_SCALES] * scale or has_episode[j]
        if begin(c, LEVEL_START, ROWS_OF_LEVEL, LEVEL_NATS, strays, before):
            c[LEVEL_FROM] = clipped((given[FAST_BEFORE, j] - c[ANCHOR]) / c[UNIT], FARTHEST)
        begin(c, SPREAD_START, ROWS_OF_SPREAD, SPREAD_NATS, strays, before)
        learn(c, y, p[KEPT])
        what, wins, lead = decide(c, given[NEEDED_NATS, j], settled[j], times, p)
        after = c[MEAN] if what == LEVEL else (0.0 if what == SPREAD else predict_on_trend(c)[0])
        verdict[WHAT, j], verdict[ANNOUNCED, j], verdict[LEAD, j] = what, wins, lead
        verdict[START, j] = c[SPREAD_START] if what == SPREAD else c[LEVEL_START]
        verdict[AFTER, j], verdict[SPREAD_NOW, j] = c[ANCHOR] + c[UNIT] * after, spread_of(c) * c[UNIT]
        verdict[OVER, j] = c[ROWS_OF_LEVEL] == 0 and not has_episode[j]
        write(table, places[j], c)
