"""How long do runs last? A two-state Beta-Bernoulli chain: absent or present, repeated or changed, zero or not.

A run begins with probability p (one trial in each window outside of a run) and goes on with probability q (one trial in
each window of a run). Both are Beta:

    p ~ Beta(1/2 + begun, 1/2 + trials - begun)        q ~ Beta(1/2 + stayed, 9 1/2 + asked - stayed)

The prior of q says that an unknown kind of run is short, about one window. The predictive probability that a run begins
and lasts at least k windows is a Beta-binomial,

    P(k) = E[p] * B(1/2 + stayed + k - 1, 9 1/2 + asked - stayed) / B(1/2 + stayed, 9 1/2 + asked - stayed)

which is also the product of the sequential predictives, so a run can be summed up window by window. It fails where runs
have two typical lengths: the mixture looks like one geometric law.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import special

from models.windows import Floats

Bools = NDArray[np.bool_]

BEGIN_PRIOR = 0.5
STAY_PRIOR = 0.5
STOP_PRIOR = 9.5
COLUMNS = ("trials", "begun", "asked", "stayed")


def begin_probability(trials: Floats, begun: Floats) -> Floats:
    """E[p], `(n,)`."""
    out: Floats = (begun + BEGIN_PRIOR) / (trials + 2 * BEGIN_PRIOR)
    return out


def stay_probability(asked: Floats, stayed: Floats) -> Floats:
    """E[q], `(n,)`."""
    out: Floats = (stayed + STAY_PRIOR) / (asked + STAY_PRIOR + STOP_PRIOR)
    return out


def run_surprise(trials: Floats, begun: Floats, asked: Floats, stayed: Floats, length: Floats) -> Floats:
    """-ln P(a run begins and lasts at least `length` >= 1 windows), nats, `(n,)`."""
    alpha, beta = stayed + STAY_PRIOR, asked - stayed + STOP_PRIOR
    more = length - 1
    stays = special.gammaln(alpha + more) - special.gammaln(alpha)
    stays -= special.gammaln(alpha + beta + more) - special.gammaln(alpha + beta)
    out: Floats = -np.log(begin_probability(trials, begun)) - stays
    return out


def one_run_surprise(trials: float, begun: float, asked: float, stayed: float, length: float) -> float:
    """`run_surprise` of a single chain."""
    alpha, beta, more = stayed + STAY_PRIOR, asked - stayed + STOP_PRIOR, length - 1
    stays = math.lgamma(alpha + more) - math.lgamma(alpha)
    stays -= math.lgamma(alpha + beta + more) - math.lgamma(alpha + beta)
    return -math.log((begun + BEGIN_PRIOR) / (trials + 2 * BEGIN_PRIOR)) - stays


def learn_gap(columns: list[Floats], length: Floats) -> None:
    """Learn, in place, that after a gap of `length` >= 0 windows the other state came back; columns as `COLUMNS`."""
    trials, begun, asked, stayed = columns
    gap = length > 0
    trials += 1
    begun += gap
    asked += length
    stayed += np.maximum(length - 1, 0)


def score_run(columns: list[Floats], evidence: Floats, inside: Bools, fresh: Bools) -> Floats:
    """What every chain's run has gathered after this window, nats, `(n,)`; 0 outside of a run.

    `evidence` is what it had gathered before, `inside` says whether this window belongs to a run. A run that begins
    while `fresh` gathers nothing but a trace of itself: it is how the series is.
    """
    trials, begun, asked, stayed = columns
    first = evidence <= 0
    gain = -np.log(np.where(first, begin_probability(trials, begun), stay_probability(asked, stayed)))
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
