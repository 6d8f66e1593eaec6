"""Gauges and rates: a discounted Normal-Gamma level, its Student-t predictive, and a fast mean held against it.

With x_t the value of a window, m the level with weight k, and the spread as a sum S of weight n (the Normal-Gamma
posterior with 2 alpha = n and 2 beta = S), everything decaying by 2^(-seconds / half-life):

    e = x - m          scale^2 = (S / n) (1 + 1 / k)          x ~ m + scale * t_n
    k' = k + w         m' = m + (w / k') e                     n' = n + w         S' = S + w (k / k') e^2

These are the conjugate updates (Murphy 2007, "Conjugate Bayesian analysis of the Gaussian distribution", section 3;
West & Harrison 1997, ch. 2 and 10.8 for discounting), with a weight w that makes them robust: w is the posterior
probability that the window is regular in a mixture

    p(x) = (1 - eps) t_8(x) + eps t_4(x, ten times the scale)          eps ~ Beta, learnt for each series

so what is strange is hardly learnt. Degrees of freedom are capped at 8, the scale such that the variance stays.

The second member holds a fast mean f (half-life a minute) against the level, relative to how far it has ever strayed:
an EWMA control chart (Roberts 1959) whose spread, sum F of weight g, is learnt and not derived, so autocorrelation,
rhythm and sawteeth are in it. A window counts for (1 - l) / (1 + l) in g, l = 2^(-seconds / 3 minutes), as neighbours are
not independent. It finds
steps, ramps and drifts; one wild window cannot move f far, as its pull is bounded.

It fails where a series is two-faced (a job every six hours, seen for five): what was not seen is strange.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models import habits, student
from models.parameters import Parameters
from models.windows import Floats

Bools = NDArray[np.bool_]

COLUMNS = (
    "level",
    "weight",
    "spread_weight",
    "spread_sum",
    "fast",
    "fast_weight",
    "fast_sum",
    "outliers",
    "quantum",
    "last",
    "seen",
    "rows",
    "since",
    "value_since",
    "below_zero",
    "frozen",
    "repeat_since",
    "repeat_evidence",
    "repeat_trials",
    "repeat_begun",
    "repeat_asked",
    "repeat_stayed",
    "present_trials",
    "present_begun",
    "present_asked",
    "present_stayed",
    "host_window",
    "total",
    "total_seen",
)
LEVEL, WEIGHT, SPREAD_WEIGHT, SPREAD_SUM, FAST, FAST_WEIGHT, FAST_SUM, OUTLIERS, QUANTUM, LAST = range(10)
SEEN, ROWS, SINCE, VALUE_SINCE, BELOW_ZERO, FROZEN, REPEAT_SINCE, REPEAT_EVIDENCE = range(10, 18)
REPEAT, PRESENT = slice(18, 22), slice(22, 26)
HOST_WINDOW, TOTAL, TOTAL_SEEN = range(26, 29)

PRIOR_WEIGHT = 2.0  # windows at the floor of the spread that every series starts with
OUTLIER_STRENGTH = 500.0  # windows that the prior of eps is worth
WIDE, WIDE_DF = 10.0, 4  # what an outlier is: this many scales wide, with such a tail
FAST_OUTLIER_SHARE, FAST_WIDE = 0.01, 5.0
PULL = 16.0  # scales: a window moves the fast mean as if it were at most so far off
LEAST_SCALE = 1e-12  # scale of a series that has always been 0
FARTHEST = 1e15  # scales: tails and densities of more would underflow
SINCE_NATS = 5.0  # the fast mean's surprise from which an excursion counts as begun
VALUE_SINCE_NATS = 2.0  # the same for the values
DEPENDENCE = 3.0  # fast half-lives over which strays of the fast mean are taken to depend on each other
REPEATS_AT_MOST = 0.5  # share of repeated values up to which a series is one that varies


@dataclass(frozen=True)
class Belief:
    """What the model thinks of a window before it learns; every array is `(n,)`.

    `value_nats`, `level_nats`, `stuck_nats` are the surprises of the value, of the fast mean, and of a run of repeated
    values; `scale` is of the value, `fast_scale` of the fast mean, `fast` the fast mean with this window in it.
    """

    warming: Bools
    value_nats: Floats
    level_nats: Floats
    stuck_nats: Floats
    deviation: Floats
    scale: Floats
    core: Floats
    outlier_share: Floats
    fast: Floats
    fast_scale: Floats
    fast_gain: Floats
    repeat_evidence: Floats
    repeats: Bools
    seconds: Floats

    def score(self) -> Floats:
        """The surprise of the window: of the three looks at it the strongest, with the price of looking three times."""
        strongest = np.maximum(np.maximum(self.value_nats, self.level_nats), self.stuck_nats)
        out: Floats = np.maximum(strongest - np.log(3.0), 0.0)
        out[self.warming] = np.nan
        return out


def believe(s: Floats, x: Floats, now: int, p: Parameters) -> Belief:
    """Score values `x`, `(n,)`, against states `s`, `(columns, n)`, which stay as they are. `now` is a window end."""
    level, rows, quantum = s[LEVEL], s[ROWS], s[QUANTUM]
    seconds = (now - s[SEEN]) / 1000.0
    warming = rows < p.windows(minutes=p.warm_up_minutes)
    step = np.maximum(quantum, 0.0)
    floor = (p.relative_floor * level) ** 2 + LEAST_SCALE**2
    uncertainty = 1 + 1 / np.maximum(s[WEIGHT], 1e-9)
    deviation = x - level
    # the value
    floor_value = floor + 0.25 * step * step
    df = s[SPREAD_WEIGHT] + PRIOR_WEIGHT
    variance = np.maximum((s[SPREAD_SUM] + PRIOR_WEIGHT * floor_value) / df, floor_value)
    scale = student.capped_scale(np.sqrt(variance * uncertainty), df, p.degrees_of_freedom)
    distance = np.minimum(np.abs(deviation) / scale, FARTHEST)
    core = student.two_sided(distance, df, p.degrees_of_freedom)
    eps = (p.outlier_share * OUTLIER_STRENGTH + s[OUTLIERS]) / (OUTLIER_STRENGTH + s[SPREAD_WEIGHT] + s[OUTLIERS])
    tail = (1 - eps) * core + eps * student.even_two_sided(distance / WIDE, WIDE_DF)
    # the fast mean
    decay = np.exp2(-seconds / p.fast_half_life_seconds)
    gain = np.maximum(1 - decay, 1 / (rows + 1))
    pull = np.where(warming, np.inf, PULL * scale)
    fast = s[FAST] + gain * (level + np.clip(deviation, -pull, pull) - s[FAST])
    floor_fast = 0.25 * floor + step * step / 64
    df_fast = s[FAST_WEIGHT] + PRIOR_WEIGHT
    variance_fast = np.maximum((s[FAST_SUM] + PRIOR_WEIGHT * floor_fast) / df_fast, floor_fast)
    fast_scale = student.capped_scale(np.sqrt(variance_fast * uncertainty), df_fast, p.level_degrees_of_freedom)
    stray = np.minimum(np.abs(fast - level) / fast_scale, FARTHEST)
    tail_fast = student.two_sided(stray, df_fast, p.level_degrees_of_freedom)
    value_nats, level_nats = -np.log(np.maximum(tail, 1e-300)), -np.log(np.maximum(tail_fast, 1e-300))
    steady = quantum <= 0  # changed never, or once: how rare is a change, and does it last?
    if steady.any():
        rare = np.log(rows + 1) - np.log(0.5 + (quantum < 0))
        value_nats = np.where(steady, np.minimum(value_nats, rare), value_nats)
        lasted = np.where(s[SINCE] > 0, (now - s[SINCE]) / 1000.0 / p.window_seconds, 0.0)
        level_nats = np.where(steady, np.minimum(level_nats, rare + 0.5 * lasted), level_nats)
    # repeated values
    repeats = (x == s[LAST]) & (rows > 0)
    columns = list(s[REPEAT])
    evidence = habits.score_run(columns, s[REPEAT_EVIDENCE], repeats, warming)
    trials, begun, asked, stayed = columns
    varies = (begun + stayed) < REPEATS_AT_MOST * (trials + asked)
    stuck_nats = np.where(varies & (x != 0), evidence, 0.0)  # an idle gauge is not a stuck one
    return Belief(
        warming=warming,
        value_nats=value_nats,
        level_nats=level_nats,
        stuck_nats=stuck_nats,
        deviation=deviation,
        scale=scale,
        core=core,
        outlier_share=eps,
        fast=fast,
        fast_scale=fast_scale,
        fast_gain=gain,
        repeat_evidence=evidence,
        repeats=repeats,
        seconds=seconds,
    )


def weights(b: Belief, frozen: Floats, p: Parameters) -> Floats:
    """The posterior probability that each window is regular; 1 while warming up, 0 where learning is frozen."""
    distance = np.minimum(np.abs(b.deviation) / b.scale, FARTHEST)
    wide = b.outlier_share * student.even_density(distance / WIDE, WIDE_DF) / WIDE
    regular = (1 - b.outlier_share) * student.even_density(distance, p.degrees_of_freedom)
    out: Floats = np.where(b.warming, 1.0, regular / (regular + wide)) * (1 - frozen)
    return out


def fast_weights(b: Belief, level: Floats, p: Parameters) -> Floats:
    """The same for the fast mean, before freezing."""
    distance = np.minimum(np.abs(b.fast - level) / b.fast_scale, FARTHEST)
    wide = FAST_OUTLIER_SHARE * student.even_density(distance / FAST_WIDE, WIDE_DF) / FAST_WIDE
    regular = (1 - FAST_OUTLIER_SHARE) * student.even_density(distance, p.level_degrees_of_freedom)
    out: Floats = np.where(b.warming, 1.0, regular / (regular + wide))
    return out


def learn(s: Floats, x: Floats, now: int, b: Belief, p: Parameters) -> None:
    """Learn the windows in place."""
    frozen = s[FROZEN]
    w = weights(b, frozen, p)
    kept_stray = np.exp2(-b.seconds / (DEPENDENCE * p.fast_half_life_seconds))
    w_fast = fast_weights(b, s[LEVEL], p) * (1 - kept_stray) / (1 + kept_stray) * (1 - frozen)
    of_spread = np.exp2(-b.seconds / (3600.0 * p.spread_half_life_hours))
    s[FAST_WEIGHT] = s[FAST_WEIGHT] * of_spread + w_fast
    s[FAST_SUM] = s[FAST_SUM] * of_spread + w_fast * (b.fast - s[LEVEL]) ** 2
    s[OUTLIERS] = s[OUTLIERS] * of_spread + np.where(b.warming, 0.0, (1 - w) * (1 - frozen))
    kept = s[WEIGHT] * np.exp2(-b.seconds / (3600.0 * p.level_half_life_hours))
    weight = np.maximum(kept + w, 1e-300)
    s[SPREAD_WEIGHT] = s[SPREAD_WEIGHT] * of_spread + w
    s[SPREAD_SUM] = s[SPREAD_SUM] * of_spread + w * (kept / weight) * b.deviation**2
    s[LEVEL] += w / weight * b.deviation
    s[WEIGHT] = weight
    s[FAST] = b.fast
    learn_habits(s, x, now, b, p)
    begins = now - 1000 * p.window_seconds
    s[SINCE] = np.where(b.level_nats < SINCE_NATS, 0.0, np.where(s[SINCE] > 0, s[SINCE], begins))
    s[VALUE_SINCE] = np.where(
        b.value_nats < VALUE_SINCE_NATS, 0.0, np.where(s[VALUE_SINCE] > 0, s[VALUE_SINCE], begins)
    )
    s[BELOW_ZERO] = np.minimum(s[BELOW_ZERO], x)
    s[LAST] = x
    s[SEEN] = now
    s[ROWS] += 1


def learn_habits(s: Floats, x: Floats, now: int, b: Belief, p: Parameters) -> None:
    """Learn how values repeat, and the least step between two of them: the quantum.

    The quantum is 0 before the value has ever changed, and negative when it has changed once: a level that moves once
    is not yet a scale that has such steps.
    """
    repeat = list(s[REPEAT])
    of_habit = np.exp2(-b.seconds / (3600.0 * p.habit_half_life_hours))
    s[REPEAT] *= of_habit
    habits.learn_run(repeat, s[REPEAT_EVIDENCE], b.repeats)
    s[REPEAT_EVIDENCE] = b.repeat_evidence
    s[REPEAT_SINCE] = np.where(b.repeats, s[REPEAT_SINCE], now)
    changed = ~b.repeats & (s[ROWS] > 0)
    if changed.any():
        step = np.abs(x - s[LAST])
        known = np.abs(s[QUANTUM])
        quantum = np.where(known > 0, np.minimum(known, step), -step)
        s[QUANTUM] = np.where(changed, quantum, s[QUANTUM])


def above(bound: Floats, below_zero: Floats) -> Floats:
    """A lower bound, not below 0 where the series never was."""
    return np.where(below_zero < 0, bound, np.maximum(bound, 0.0))


def begin(s: Floats, x: Floats, chosen: Bools) -> None:
    """First values: the level and the fast mean are where the series starts. In place."""
    s[LEVEL] = np.where(chosen, x, s[LEVEL])
    s[FAST] = np.where(chosen, x, s[FAST])


def adopt(s: Floats, row: int, mean: float, variance: float, weight: float) -> None:
    """A new regime becomes the normal of one series: its level, and a spread that is held loosely."""
    before = s[LEVEL, row]
    growth = min(max(1.0, abs(mean / before)), 10.0) if before else 1.0
    old = s[SPREAD_SUM, row] / max(s[SPREAD_WEIGHT, row], 1e-9)
    old_fast = s[FAST_SUM, row] / max(s[FAST_WEIGHT, row], 1e-9)
    s[LEVEL, row] = s[FAST, row] = mean
    s[WEIGHT, row] = weight
    s[SPREAD_WEIGHT, row] = ADOPTED_WEIGHT
    s[SPREAD_SUM, row] = ADOPTED_WEIGHT * max(variance, old * growth**2)
    s[FAST_WEIGHT, row] = ADOPTED_FAST_WEIGHT
    s[FAST_SUM, row] = ADOPTED_FAST_WEIGHT * max(old_fast * growth**2, variance / 16)
    s[SINCE, row] = 0.0


ADOPTED_WEIGHT, ADOPTED_FAST_WEIGHT = 60.0, 8.0
