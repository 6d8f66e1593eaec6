"""How long do runs last? A two-state Beta-Bernoulli chain: absent or present, repeated or changed, zero or not.

A run begins with probability p (one trial in each window outside of a run) and goes on with probability q (one trial in
each window of a run). Both are Beta:

    p ~ Beta(p0 + begun, 1 - p0 + trials - begun)        q ~ Beta(10 q0 + stayed, 10 (1 - q0) + asked - stayed)

with prior means p0 = 1/2 and q0 = 1/20 unless more is known: an unknown kind of run is short, about one window. The
predictive probability that a run begins and lasts at least k windows is a Beta-binomial,

    P(k) = E[p] * B(A + k - 1, B) / B(A, B)          A = 10 q0 + stayed, B = 10 (1 - q0) + asked - stayed

which is also the product of the sequential predictives, so a run can be summed up window by window. It fails where runs
have two typical lengths: the mixture looks like one geometric law.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from models.core.arrays import Bools, Floats

BEGIN_MEAN, BEGIN_STRENGTH = 0.5, 1.0
STAY_MEAN, STAY_STRENGTH = 0.05, 10.0
COLUMNS = ("trials", "begun", "asked", "stayed")


def begin_probability(trials: Floats, begun: Floats, mean: Floats | float = BEGIN_MEAN) -> Floats:
    """E[p] with prior mean `mean`, `(n,)`."""
    out: Floats = (begun + BEGIN_STRENGTH * mean) / (trials + BEGIN_STRENGTH)
    return out


def stay_probability(asked: Floats, stayed: Floats, mean: Floats | float = STAY_MEAN) -> Floats:
    """E[q] with prior mean `mean`, `(n,)`."""
    out: Floats = (stayed + STAY_STRENGTH * mean) / (asked + STAY_STRENGTH)
    return out


def share_outside(trials: Floats, begun: Floats, asked: Floats, stayed: Floats) -> Floats:
    """Share of all windows so far that were not in a run, `(n,)`."""
    out: Floats = 1 - (begun + stayed) / np.maximum(trials + asked, 1.0)
    return out


def run_surprise(trials: Floats, begun: Floats, asked: Floats, stayed: Floats, length: Floats) -> Floats:
    """-ln P(a run begins and lasts at least `length` >= 1 windows), nats, `(n,)`."""
    alpha, total, more = stayed + STAY_STRENGTH * STAY_MEAN, asked + STAY_STRENGTH, length - 1
    stays = special.gammaln(alpha + more) - special.gammaln(alpha)
    stays -= special.gammaln(total + more) - special.gammaln(total)
    out: Floats = -np.log(begin_probability(trials, begun)) - stays
    return out


def learn_gap(columns: list[Floats], length: Floats) -> None:
    """Learn, in place, that after a gap of `length` >= 0 windows the other state came back; columns as `COLUMNS`."""
    trials, begun, asked, stayed = columns
    gap = length > 0
    trials += 1
    begun += gap
    asked += length
    stayed += np.maximum(length - 1, 0)


def score_run(
    columns: list[Floats], evidence: Floats, inside: Bools, fresh: Bools, *, prior: tuple[Floats, Floats] | None = None
) -> Floats:
    """What every chain's run has gathered after this window, nats, `(n,)`; 0 outside of a run.

    `evidence` is what it had gathered before, `inside` says whether this window belongs to a run. A run that begins
    while `fresh` gathers nothing but a trace of itself: it is how the series is. `prior` has the means p0 and q0.
    """
    trials, begun, asked, stayed = columns
    p0, q0 = prior or (BEGIN_MEAN, STAY_MEAN)
    first = evidence <= 0
    gain = -np.log(np.where(first, begin_probability(trials, begun, p0), stay_probability(asked, stayed, q0)))
    counted = np.where(first, ~fresh, evidence > NOTHING)
    out: Floats = np.where(inside, np.where(counted, evidence + gain + NOTHING, NOTHING), 0.0)
    return out


def learn_run(columns: list[Floats], evidence: Floats, inside: Bools) -> None:
    """Learn in place from a window; arguments as for `score_run`, before it."""
    trials, begun, asked, stayed = columns
    outside = evidence <= 0
    trials += outside
    begun += outside & inside
    asked += ~outside
    stayed += ~outside & inside


NOTHING = 1e-9  # evidence of a run that is not counted: more than 0, which means no run
