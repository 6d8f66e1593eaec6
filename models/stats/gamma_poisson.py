"""Counts of lines: a discounted Gamma-Poisson rate, over-dispersed; windows without lines count as zero.

With A the sum of counts and B the number of windows, both decaying with the half-life (Gamma posterior a = 1/2 + A,
b = 1 + B), the predictive of a Poisson count is negative binomial with mean mu = a / b and shape a. Real counts spread
more than that: with the moment estimate phi of 1/shape, from E[(x - mu)^2 - mu] = phi mu^2, the two add up as relative
variances do,

    x ~ NB(mean mu, shape r)        1 / r = phi + 1 / a        P(X >= x) = I_{mu / (mu + r)}(x, r)

(Gelman et al., Bayesian Data Analysis, section 2.6; the tail is DLMF 8.17.5). As for gauges, a mixture makes it robust:
with probability eps a window is a harmless burst, geometric with mean 10 mu + 10, and what is a burst is hardly learnt.
Evidence that the rate is too high is Page's sum max(0, S + s - allowance) over the windows' surprises s; that it is too
low is the surprisal of a run of zeros, given the lengths of such runs in this series (`run_length`). That takes lines that come in
bursts for lines that come evenly: a pause after many short ones is improbable, however long those between bursts are. So a run is a
silence only if it is longer than any before. The longest one halves each `habit_half_life_hours`; at first it is the time before the
first line, a day at most.

Fading forgets towards the prior, half a line a window, so it goes with learning: a window that is not learnt fades nothing, and a gap,
as when the host was off, leaves `LEAST_WINDOWS` of what was known. The mean is where it was then, and less certain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from models.core.arrays import Bools, Floats
from models.core.parameters import DetectorParameters
from models.stats import run_length

COLUMNS = (
    "sum",
    "windows",
    "excess",
    "square",
    "high",
    "high_since",
    "high_lines",
    "seen",
    "rows",
    "last_line",
    "frozen",
    "zero_since",
    "zero_evidence",
    "zero_trials",
    "zero_begun",
    "zero_asked",
    "zero_stayed",
    "zero_run",
    "zero_longest",
)
SUM, WINDOWS, EXCESS, SQUARE, HIGH, HIGH_SINCE, HIGH_LINES, SEEN, ROWS, LAST_LINE, FROZEN, ZERO_SINCE, ZERO_EVIDENCE = (
    range(13)
)
ZERO = slice(13, 17)
ZERO_RUN, ZERO_LONGEST = 17, 18

PRIOR_SUM, PRIOR_WINDOWS = 0.5, 1.0
PRIOR_PHI, PRIOR_PHI_WINDOWS = 0.2, 20.0
LEAST_PHI, MOST_PHI = 0.01, 20.0
MOST_NONE = 700.0  # nats: as surprising is no line at most, as a float holds no smaller probability of which there is a logarithm
SINCE_NATS = 5.0  # evidence of a run of zeros from which the silence counts as begun
MOST_MEMORIES = 10.0  # e-foldings of the dispersion's memory after which nothing counts
NOT_LEARNT_NATS = 8.0  # zeros of a run with so much evidence are no longer learnt
LEAST_WINDOWS = 60.0  # of a memory stay, however long a gap is: as of a rate that has just been adopted


@dataclass(frozen=True)
class CountPrediction:
    """Predictive distribution of a window's counts, and how surprising they are; every array is `(n,)`.

    Parameters
    ----------
    warming
        Whether the series is warming up.
    mean, phi, shape
        Mean and shape of the negative binomial, in lines a window, and the over-dispersion (1 / shape, in part).
    high_nats, low_nats
        Surprisal of the count as too high, and as too low.
    high
        Page's sum for a rate that is too high, nats, with this window.
    zero
        Surprisal of the run of zeros, nats, with this window; 0 outside of one.
    regular
        Probability that the count is no harmless burst.
    seconds
        Seconds since the last window that was learnt.
    longer
        Whether the run of zeros is longer, with this window, than any that was usual before.
    """

    warming: Bools
    mean: Floats
    phi: Floats
    shape: Floats
    high_nats: Floats
    low_nats: Floats
    high: Floats
    zero: Floats
    regular: Floats
    seconds: Floats
    longer: Bools

    def score(self) -> Floats:
        """Surprisal of the window, the greatest of a count too high, too low, and a run of zeros, nats, `(n,)`; NaN while warming up."""
        out: Floats = np.maximum(self.high_nats, np.maximum(self.low_nats, self.zero)) - np.log(2.0)
        out = np.maximum(out, 0.0)
        out[self.warming] = np.nan
        return out

    def bounds(self, outside: float) -> tuple[Floats, Floats]:
        """Central interval of the predictive in lines, with the probability `outside` outside: that of a gamma of the same variance."""
        low, high = interval(self.mean, 1 / self.shape + 1 / np.maximum(self.mean, 1e-9), outside)
        return low, high


@dataclass(frozen=True)
class CountMemory:
    """How each series learns, where rules set it apart; arrays are `(n,)`.

    Parameters
    ----------
    half_life_hours
        Memory of the rate.
    warm_up_minutes
        Time before the first score.
    taught
        Whether the window is learnt.
    """

    half_life_hours: Floats
    warm_up_minutes: Floats
    taught: Bools


def predict(
    s: Floats, x: Floats, now: int, p: DetectorParameters, memory: CountMemory | None = None
) -> CountPrediction:
    """Score one window of counts; nothing is learnt.

    Parameters
    ----------
    s
        States of the series as `COLUMNS`, shape `(columns, n)`.
    x
        Lines in the window, shape `(n,)`.
    now
        End of the window, epoch milliseconds.
    p
        Half-lives and thresholds.
    memory
        What differs from `p` by series; None where nothing does.
    """
    seconds = (now - s[SEEN]) / 1000.0
    minutes = p.warm_up_minutes if memory is None else memory.warm_up_minutes
    warming = s[ROWS] < 60.0 * minutes / p.window_seconds
    left = _share_left(seconds, _rate_hours(p, memory), s[WINDOWS], p)
    a, b = s[SUM] * left + PRIOR_SUM, s[WINDOWS] * left + PRIOR_WINDOWS
    mean = a / b
    prior = PRIOR_PHI_WINDOWS * mean * mean
    phi = np.clip((s[EXCESS] + PRIOR_PHI * prior) / (s[SQUARE] + prior), LEAST_PHI, MOST_PHI)
    shape = 1 / (phi + 1 / a)
    zero = x == 0
    above = x > mean
    low = np.where(zero, shape * np.log1p(mean / shape), 0.0)
    high, regular = np.zeros_like(x), np.ones_like(x)
    rows = np.flatnonzero(above)
    if len(rows):
        high[rows], regular[rows] = upper_tail_surprisal(x[rows], mean[rows], shape[rows], p.outlier_share)
    rows = np.flatnonzero(~zero & ~above)
    if len(rows):
        low[rows] = lower_tail_surprisal(x[rows], mean[rows], shape[rows])
    page = np.maximum(s[HIGH] + high - p.allowance_nats, 0.0)
    columns = list(s[ZERO])
    none = np.exp(-np.minimum(shape * np.log1p(mean / shape), MOST_NONE))
    evidence = run_length.score_run(columns, s[ZERO_EVIDENCE], zero, warming, prior=(none, none))
    longer = s[ZERO_RUN] + 1 > s[ZERO_LONGEST]
    return CountPrediction(warming, mean, phi, shape, high, low, page, evidence, regular, seconds, longer)


def _rate_hours(p: DetectorParameters, memory: CountMemory | None) -> Floats | float:
    """Half-life of the rate's memory."""
    return p.count_half_life_hours if memory is None else memory.half_life_hours


def _share_left(seconds: Floats, hours: Floats | float, known: Floats, p: DetectorParameters) -> Floats:
    """Share of a memory that is left `seconds` after the last window, `(n,)`.

    It halves each `hours`. A gap leaves `LEAST_WINDOWS` of the `known` windows at least. Where no more are known it takes no more than one
    of `hours / LEAST_WINDOWS` does, so a log with more gaps than windows remembers as many. One window takes what it always does.
    """
    left: Floats = np.exp2(-seconds / (3600.0 * hours))
    gap = np.maximum(p.window_seconds, 3600.0 * hours / LEAST_WINDOWS)
    least = np.minimum(np.exp2(-gap / (3600.0 * hours)), LEAST_WINDOWS / np.maximum(known, 1.0))
    return np.maximum(left, least)


def upper_tail_surprisal(x: Floats, mean: Floats, shape: Floats, burst: float) -> tuple[Floats, Floats]:
    """-ln P(X >= x) under the mixture, nats, and the share of the regular part in it, 0 to 1, each `(n,)`.

    `x`, at least 1, and `mean` are lines of a window, `shape` is that of the negative binomial, each `(n,)`; `burst` is the probability of
    the other part of the mixture.
    """
    core = special.betainc(x, shape, mean / (mean + shape))
    wide = 10 * mean + 10
    tail = np.exp(-x * np.log1p(1 / wide))
    total = (1 - burst) * core + burst * tail
    return -np.log(np.maximum(total, 1e-300)), (1 - burst) * core / np.maximum(total, 1e-300)


def lower_tail_surprisal(x: Floats, mean: Floats, shape: Floats) -> Floats:
    """-ln P(X <= x) of the negative binomial, nats, `(n,)`; arguments as for `upper_tail_surprisal`."""
    out: Floats = -np.log(np.maximum(special.betainc(shape, x + 1, shape / (mean + shape)), 1e-300))
    return out


def learn(
    s: Floats, x: Floats, now: int, b: CountPrediction, p: DetectorParameters, memory: CountMemory | None = None
) -> None:
    """Learn a window in place in `s`; arguments as for `predict`, with its prediction.

    Series that are not taught update their evidence alone. What is not learnt, as in an episode, fades nothing.
    """
    taught = np.ones(len(x), dtype=bool) if memory is None else memory.taught
    w = np.where(b.warming, 1.0, b.regular * (b.zero < NOT_LEARNT_NATS)) * (1 - s[FROZEN]) * taught
    learnt = w > 0
    rate = np.where(learnt, _share_left(b.seconds, _rate_hours(p, memory), s[WINDOWS], p), 1.0)
    spread = np.where(learnt, _share_left(b.seconds, p.spread_half_life_hours, s[SQUARE] / b.mean**2, p), 1.0)
    s[SUM] = s[SUM] * rate + w * x
    s[WINDOWS] = s[WINDOWS] * rate + w
    s[EXCESS] = s[EXCESS] * spread + w * ((x - b.mean) ** 2 - b.mean)
    s[SQUARE] = s[SQUARE] * spread + w * b.mean**2
    before, zero = s[ZERO].copy(), list(s[ZERO])
    trials, _, asked, _ = before
    s[ZERO] *= _share_left(b.seconds, p.habit_half_life_hours, trials + asked, p)
    run_length.learn_run(zero, s[ZERO_EVIDENCE], x == 0)
    s[ZERO] = np.where(taught, s[ZERO], before)
    s[ZERO_EVIDENCE] = b.zero
    run = s[ZERO_RUN]
    faded = s[ZERO_LONGEST] * np.exp2(-(run + 1) / p.windows(hours=p.habit_half_life_hours))
    usual = np.maximum(faded, run * (s[FROZEN] == 0))  # a silence that was reported is not
    s[ZERO_LONGEST] = np.where((x > 0) & taught, usual, s[ZERO_LONGEST])
    s[ZERO_RUN] = np.where(x > 0, 0.0, run + 1)
    begins = now - 1000 * p.window_seconds
    s[ZERO_SINCE] = np.where(b.zero < SINCE_NATS, 0.0, np.where(s[ZERO_SINCE] > 0, s[ZERO_SINCE], begins))
    page = np.where(b.warming, 0.0, b.high)
    begun = np.where(s[HIGH_SINCE] > 0, s[HIGH_SINCE], begins)
    s[HIGH_SINCE] = np.where(page > 0, begun, 0.0)
    s[HIGH_LINES] = np.where(page > 0, s[HIGH_LINES] + x, 0.0)
    s[HIGH] = page
    s[LAST_LINE] = np.where(x > 0, now, s[LAST_LINE])
    s[SEEN] = now
    s[ROWS] += taught


def clear_high_evidence(s: Floats, row: int) -> None:
    """Clear the evidence of one series for a rate that is too high."""
    s[[HIGH, HIGH_SINCE, HIGH_LINES], row] = 0.0


def expected_lines(mean: float, shape: float, windows: float, outside: float) -> tuple[float, float]:
    """Central interval of the lines in so many windows, taken as independent, with the probability `outside` outside."""
    return interval(mean * windows, 1 / (shape * windows) + 1 / max(mean * windows, 1e-9), outside)


def interval(mean: Floats | float, relative: Floats | float, outside: float) -> tuple[Any, Any]:
    """Central interval of a gamma with a mean and a relative variance, rounded outwards to lines (Wilson and Hilferty 1931)."""
    z = float(-special.ndtri(outside / 2))
    middle, width = 1 - relative / 9, z * np.sqrt(relative) / 3
    return np.floor(mean * np.maximum(middle - width, 0.0) ** 3), np.ceil(mean * np.maximum(middle + width, 0.0) ** 3)


def combine_states(s: Floats, p: DetectorParameters, leading: int | None = None) -> Floats:
    """State of the sum of series that were one all along, `(columns,)`.

    Rates add up, and are known for as long as the longest of them. Their variation adds up as if they varied together, which is the
    most. Runs of zeros are those of the series that has been known for longest, and go on only where all do.

    Parameters
    ----------
    s
        States of the series as `COLUMNS`, shape `(columns, n)`.
    p
        Half-lives.
    leading
        The series that the evidence for a rate that is too high is of, and whether it is frozen; that of the greatest rate without it.
    """
    out, seconds = np.zeros(len(COLUMNS)), (s[SEEN].max() - s[SEEN]) / 1000.0
    rate, spread = (
        np.exp2(-seconds / (3600.0 * hours)) for hours in (p.count_half_life_hours, p.spread_half_life_hours)
    )
    out[SUM], out[WINDOWS] = (s[SUM] * rate).sum(), (s[WINDOWS] * rate).max()
    out[EXCESS], out[SQUARE] = np.sqrt(np.maximum(s[[EXCESS, SQUARE]] * spread, 0.0)).sum(axis=1) ** 2
    greatest = int(np.argmax(s[SUM] * rate)) if leading is None else leading
    out[[HIGH, HIGH_SINCE, HIGH_LINES]] = s[[HIGH, HIGH_SINCE, HIGH_LINES], greatest]
    out[FROZEN] = 0.0 if leading is None else s[FROZEN, leading]
    for column in (SEEN, ROWS, LAST_LINE):
        out[column] = s[column].max()
    out[ZERO] = s[ZERO, int(np.lexsort((s[SUM], s[ROWS]))[-1])]
    out[ZERO_EVIDENCE] = s[ZERO_EVIDENCE].min()
    out[[ZERO_RUN, ZERO_LONGEST]] = s[[ZERO_RUN, ZERO_LONGEST]].min(axis=1)
    out[ZERO_SINCE] = s[ZERO_SINCE].max() if out[ZERO_EVIDENCE] >= SINCE_NATS else 0.0
    return out


def state_without_lines(s: Floats, p: DetectorParameters) -> dict[str, float]:
    """State of a series that no line has come of for as long as another series of the same log has been observed, by column.

    Parameters
    ----------
    s
        State of the other series as `COLUMNS`, `(columns,)`.
    p
        Half-lives.
    """
    zeros, rate, spread = (
        p.windows(hours=hours) / np.log(2.0)
        for hours in (p.habit_half_life_hours, p.count_half_life_hours, p.spread_half_life_hours)
    )
    age = np.arange(min(s[ROWS], MOST_MEMORIES * spread), 0.0, -1.0)  # of each zero, windows, the oldest first
    mean = PRIOR_SUM / (PRIOR_WINDOWS - rate * np.expm1(-(age[:1] - age) / rate))
    weight = np.exp(-(age - 1.0) / spread)
    run = -zeros * float(np.expm1(-s[ROWS] / zeros))  # one run of zeros
    return {
        "rows": float(s[ROWS]),
        "seen": float(s[SEEN]),
        "windows": float(s[WINDOWS]),
        "excess": float(np.sum(weight * (mean**2 - mean))),  # not `@`: its last bits depend on the processor
        "square": float(np.sum(weight * mean**2)),
        "zero_evidence": run_length.UNCOUNTED_RUN,
        "zero_asked": run,
        "zero_stayed": run,
    }


def adopt(s: Floats, row: int, mean: float, windows: float) -> None:
    """Make a rate of `mean` lines a window, known from `windows` windows, the normal one of a series."""
    s[SUM, row], s[WINDOWS, row] = mean * windows, windows
    clear_high_evidence(s, row)
    if s[ZERO_EVIDENCE, row] > 0:
        s[ZERO_EVIDENCE, row] = run_length.UNCOUNTED_RUN
