"""Run lengths: how surprising is the length of a run? A two-state Beta-Bernoulli chain: absent or present, repeated or changed, zero or not.

A run begins with probability p (one trial in each window outside of a run) and goes on with probability q (one trial in
each window of a run). Both are Beta:

    p ~ Beta(p0 + begun, 1 - p0 + trials - begun)        q ~ Beta(10 q0 + stayed, 10 (1 - q0) + asked - stayed)

with prior means p0 = 1/2 and q0 = 1/20 unless more is known: an unknown kind of run is short, about one window. The
predictive probability that a run begins and lasts at least k windows is a Beta-binomial,

    P(k) = E[p] * B(A + k - 1, B) / B(A, B)          A = 10 q0 + stayed, B = 10 (1 - q0) + asked - stayed

which is also the product of the sequential predictives, so a run can be summed up window by window. It fails where runs
have two typical lengths: their mixture is fitted by one geometric distribution.

Counts of absence fade with a half-life in time, of `LEAST_ROWS` rows at least: of what reports every half hour, six hours hold no more than twelve.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from models.core.arrays import Bools, Floats

LEAST_ROWS = 36.0  # that a half-life has: of rows as far apart as they usually are
BEGIN_MEAN, BEGIN_STRENGTH = 0.5, 1.0
STAY_MEAN, STAY_STRENGTH = 0.05, 10.0
COLUMNS = ("trials", "begun", "asked", "stayed")


def begin_probability(trials: Floats, begun: Floats, mean: Floats | float = BEGIN_MEAN) -> Floats:
    """Posterior mean of the probability p that a run begins, `(n,)`; `mean` is its prior mean."""
    out: Floats = (begun + BEGIN_STRENGTH * mean) / (trials + BEGIN_STRENGTH)
    return out


def stay_probability(asked: Floats, stayed: Floats, mean: Floats | float = STAY_MEAN) -> Floats:
    """Posterior mean of the probability q that a run goes on, `(n,)`; `mean` is its prior mean."""
    out: Floats = (stayed + STAY_STRENGTH * mean) / (asked + STAY_STRENGTH)
    return out


def share_outside(trials: Floats, begun: Floats, asked: Floats, stayed: Floats) -> Floats:
    """Share of all windows so far that were outside of runs, 0 to 1, `(n,)`."""
    out: Floats = 1 - (begun + stayed) / np.maximum(trials + asked, 1.0)
    return out


def run_surprise(trials: Floats, begun: Floats, asked: Floats, stayed: Floats, length: Floats) -> Floats:
    """Surprisal of a run, -ln P(it begins and lasts at least `length` >= 1 windows), nats, `(n,)`; counts as `COLUMNS`, `(n,)`."""
    alpha, total, more = stayed + STAY_STRENGTH * STAY_MEAN, asked + STAY_STRENGTH, length - 1
    stays = special.gammaln(alpha + more) - special.gammaln(alpha)
    stays -= special.gammaln(total + more) - special.gammaln(total)
    out: Floats = -np.log(begin_probability(trials, begun)) - stays
    return out


def learn_gap(columns: list[Floats], length: Floats) -> None:
    """Learn, in place in `columns`, a run of `length` >= 0 windows that has ended; `columns` are as `COLUMNS`, each `(n,)`."""
    trials, begun, asked, stayed = columns
    gap = length > 0
    trials += 1
    begun += gap
    asked += length
    stayed += np.maximum(length - 1, 0)


def score_run(
    columns: list[Floats], evidence: Floats, inside: Bools, fresh: Bools, *, prior: tuple[Floats, Floats] | None = None
) -> Floats:
    """Surprisal of the runs that are going on, with this window; nothing is learnt.

    Parameters
    ----------
    columns
        Counts of each chain as `COLUMNS`, each `(n,)`.
    evidence
        Surprisal of the run before this window, nats, 0 outside of a run, shape `(n,)`.
    inside
        Whether this window belongs to a run, shape `(n,)`.
    fresh
        Whether the series is new, shape `(n,)`: a run that begins then is how the series is, and has the surprisal `UNCOUNTED_RUN`.
    prior
        Prior means p0 and q0.

    Returns
    -------
    Nats, 0 outside of a run, shape `(n,)`.
    """
    trials, begun, asked, stayed = columns
    p0, q0 = prior or (BEGIN_MEAN, STAY_MEAN)
    first = evidence <= 0
    gain = -np.log(np.where(first, begin_probability(trials, begun, p0), stay_probability(asked, stayed, q0)))
    counted = np.where(first, ~fresh, evidence > UNCOUNTED_RUN)
    out: Floats = np.where(inside, np.where(counted, evidence + gain + UNCOUNTED_RUN, UNCOUNTED_RUN), 0.0)
    return out


def learn_run(columns: list[Floats], evidence: Floats, inside: Bools) -> None:
    """Learn a window in place in `columns`; `evidence` is that before the window, as for `score_run`."""
    trials, begun, asked, stayed = columns
    outside = evidence <= 0
    trials += outside
    begun += outside & inside
    asked += ~outside
    stayed += ~outside & inside


UNCOUNTED_RUN = 1e-9  # evidence of a run that is not counted: above 0, because 0 means that there is no run
