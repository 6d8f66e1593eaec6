"""How far a series is from its peers, against how far it usually is: the law of peers.

The peers of a gauge are the other hosts with the same service, metric and labels. `extract` says, in one window in seven, how many they
are (n), their median M, and their 10 % and 90 % quantiles L and U. With the window's mean x, the *offset* of a series is

    r = (x - M) / S        S = max(U - M, M - L) / 1.28        the spread of the peers on their wider side

*Three frames.* r is taken with M and S of this window, with M of this window and S of the last half hour, and with both of the last half
hour. Only the least deviation from the expected offset counts, and none if the three differ in direction. What all hosts do alike
cancels in the first two; hosts that join or leave cancel in the third.

*Expected offset.* Some hosts always are different. The offset of a host is one draw from those of all hosts, around which it moves with
variance V. The offsets seen so far have weight w (1 a minute, half after three days), mean m, and sum of squares Q about it:

    V = max((Q + 2) / (w + 2), (1.5 / n)^2)      B = max(1 - V, 0.1, m^2)      g = B w / V
    expected offset = m g / (1 + g)              variance = V + (B + 1.6 / n) / (1 + g)

So a series without a past is held against its peers alone, one with a past against its own usual offset. (1.5 / n)^2: quantiles of n
values are not known better than their distances. The surprise is that of Student's t: at first with (n - 1) / 4 degrees of freedom,
as then skewed and heavy-tailed roles keep to it, later with w + 2, 10 at most.

*Learning.* Comparisons above the alert threshold wait. They are learnt when their run ends without an episode (rare events are usual), or
when an episode is adopted, and forgotten when it ends. A deviation that lasts is learnt the less, the larger it is, so that a host
that diverges for hours does not become its own norm. When the number of peers changes by a tenth, the usual offset is forgotten
within minutes: it was one among others.

It fails where a role has two kinds of hosts in about the same number, as the median lies between them. Nothing is reported where nine in ten
peers have one value, as counts of errors do: there is no spread to measure by, and the own model of the series knows that it was so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.core.arrays import Bools, Floats
from models.core.sparse_table import SparseTable, Table
from models.stats import normal_gamma

PART = "peers"
MINUTE, HALF_HOUR, DAY = 60.0, 1800.0, 86_400.0

LEAST_PEERS = 5
SPREADS = 1.2816  # spreads of a normal distribution between its median and its 90 % quantile
PRIOR_ROWS = 2.0
LEAST_BETWEEN = 0.1  # B
SPACING = 1.5  # between the middle ones of n values, in n-ths of a spread
OF_MEDIAN = 1.6  # variance of the median of n values, in n-ths of theirs
LEAST_DEGREES, MOST_AT_FIRST, MOST_DEGREES = 1.5, 5.0, 10.0
USUAL_DAYS, RECENT_MINUTES, RELEARN_MINUTES = 3.0, 10.0, 5.0  # half-lives
ROBUST = 4.0  # variances: a lasting deviation of so many is learnt by a quarter, and none widens the variance
OTHERS = 0.1  # share of the peers that come or go, from which on the usual offset is learnt again
PRECISION = 1e-6  # of a value's size: medians and spreads are not known better
LARGEST = 1e6  # spreads; more is clipped, as squares are kept in single precision
ADOPTED_MINUTES = 10.0  # weight of an offset that was adopted


class Peers(SparseTable):
    """What is known of the metrics that have peers; 68 bytes each.

    seen         end of the window of the last comparison, epoch ms
    run, since   comparisons in a row above the alert threshold, and when the first of their windows began, epoch ms
    hosts, median, spread, windows  n, M and S of the last half hour, and how many comparisons they are worth
    mean, squares, weight           m, Q and w
    recent       mean deviation of the last minutes, spreads
    waiting_*    comparisons that wait: weight, sum, and sum of squares
    """

    KINDS = {  # noqa: RUF012 - SparseTable declares it
        **dict.fromkeys(("seen", "since", "median"), "f8"),
        **dict.fromkeys(("run", "hosts", "spread", "windows", "mean", "squares", "weight", "recent"), "f4"),
        **dict.fromkeys(("waiting_weight", "waiting_sum", "waiting_squares"), "f4"),
    }
    WHAT = "peers"


@dataclass(frozen=True)
class PeerScores:
    """What was found of comparisons; all arrays `(n,)`.

    Attributes
    ----------
    surprise
        -ln of the probability that the offset is so far from the expected one, nats.
    offset, deviation
        The offset as it is learnt, and how far it is from the expected one, in spreads.
    scaled
        Whether the peers have a spread; without one nothing is surprising, and nothing is learnt.
    """

    surprise: Floats
    offset: Floats
    deviation: Floats
    scaled: Bools


def score(s: Table, x: Floats, peers: Floats) -> PeerScores:
    """Score values by what was known before them; changes nothing.

    Parameters
    ----------
    s
        The columns of `Peers` of the series, `(n,)` each.
    x
        Their values, `(n,)`.
    peers
        Number of peers, 10 % quantile, median and 90 % quantile, `(4, n)`, of at least `LEAST_PEERS`.
    """
    n, median = peers[0], peers[2]
    fresh = s["hosts"] == 0
    now = _spread(peers)
    lately, before = np.where(fresh, now, s["spread"]), np.where(fresh, median, s["median"])
    expected, variance, degrees = _expected(s, n)
    scaled = np.minimum(now, lately) > PRECISION * (np.abs(x) + np.abs(median))
    now, lately = np.where(scaled, now, 1.0), np.where(scaled, lately, 1.0)
    frames = np.array([(x - median) / now, (x - median) / lately, (x - before) / lately]) - expected
    least, most = frames.min(axis=0), frames.max(axis=0)
    deviation = np.where(least > 0, least, np.where(most < 0, most, 0.0))
    deviation = np.where(scaled, np.clip(deviation, -LARGEST, LARGEST), 0.0)
    surprise = normal_gamma.surprisal(np.abs(deviation) / np.sqrt(variance), degrees)
    return PeerScores(np.where(scaled, surprise, 0.0), expected + deviation, deviation, scaled)


def _spread(peers: Floats) -> Floats:
    _, lower, median, upper = peers
    wider: Floats = np.maximum(upper - median, median - lower) / SPREADS
    return wider


def _expected(s: Table, n: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean, variance and degrees of freedom of the next offset, `(n,)`."""
    v = np.maximum((s["squares"] + PRIOR_ROWS) / (s["weight"] + PRIOR_ROWS), (SPACING / n) ** 2)
    between = np.maximum(np.maximum(1 - v, LEAST_BETWEEN), s["mean"] ** 2)
    g = between * s["weight"] / v
    variance = v + (between + OF_MEDIAN / n) / (1 + g)
    at_first = np.clip((n - 1) / 4, LEAST_DEGREES, MOST_AT_FIRST)
    later = np.minimum(PRIOR_ROWS + s["weight"], MOST_DEGREES)
    share = 1 / (1 + g)
    return s["mean"] * g * share, variance, share * at_first + (1 - share) * later


def learn(
    s: Table, found: PeerScores, peers: Floats, seconds: Floats, above: Bools, held: Bools, *, trusted: bool = False
) -> None:
    """Learn values that were scored, in place.

    Parameters
    ----------
    s, peers
        As for `score`; `found` is its answer.
    seconds
        Since the comparison before, `(n,)`.
    above
        Which are above the alert threshold, `(n,)`.
    held
        Which have an episode: their offsets wait.
    trusted
        Whether all offsets are usual, however large, as when a fleet is seen for the first time; none is above or held then.
    """
    n = peers[0]
    _follow(s, peers, seconds)
    kept = np.exp2(-seconds / (DAY * USUAL_DAYS))
    others = np.abs(n - s["hosts"]) > OTHERS * s["hosts"]
    kept = np.where(others, kept * np.exp2(-seconds / (MINUTE * RELEARN_MINUTES)), kept)
    s["weight"] *= kept
    s["squares"] *= kept
    gain = np.maximum(1 - np.exp2(-seconds / (MINUTE * RECENT_MINUTES)), 1 / s["windows"])
    s["recent"] += gain * (found.deviation - s["recent"])
    _, variance, _ = _expected(s, n)
    weight = np.where(found.scaled, np.minimum(seconds / MINUTE, 1.0), 0.0)
    if not trusted:
        weight /= (1 + s["recent"] ** 2 / (ROBUST * variance)) ** 2
    waits = above | held
    _add(s, np.where(waits, 0.0, weight), found.offset)
    if waits.any() or s["waiting_weight"].any():
        _wait(s, found.offset, weight, waits)


def _wait(s: Table, offset: Floats, weight: Floats, waits: Bools) -> None:
    """Let some offsets wait, and learn those that have waited of the others, in place."""
    mean, squares = _waiting(s)
    _add(s, np.where(waits, 0.0, s["waiting_weight"]), mean, squares)
    for name, value in (("weight", 1.0), ("sum", offset), ("squares", offset**2)):
        s[f"waiting_{name}"] = np.where(waits, s[f"waiting_{name}"] + weight * value, 0.0)


def _waiting(s: Table) -> tuple[Floats, Floats]:
    """Mean of the offsets that wait, and sum of their squares about it, `(n,)`; 0 where there are none."""
    mean = s["waiting_sum"] / np.where(s["waiting_weight"] > 0, s["waiting_weight"], 1.0)
    return mean, np.maximum(s["waiting_squares"] - mean * s["waiting_sum"], 0.0)


def _follow(s: Table, peers: Floats, seconds: Floats) -> None:
    """Follow the number, median and spread of the peers, in place; half an hour counts half."""
    n, _, median, _ = peers
    fresh = s["hosts"] == 0
    kept = np.where(fresh, 0.0, np.exp2(-seconds / HALF_HOUR))
    s["windows"] = s["windows"] * kept + 1.0
    s["hosts"] = np.where(fresh, n, n + (s["hosts"] - n) * kept)
    for name, value in (("median", median), ("spread", _spread(peers))):
        s[name] = np.where(fresh, value, s[name] + (value - s[name]) / s["windows"])


def _add(s: Table, weight: Floats, mean: Floats, squares: Floats | float = 0.0) -> None:
    """Add offsets of a weight, their mean and their squares about it to the usual ones, in place; of weight 0 nothing."""
    total = np.where(weight > 0, s["weight"] + weight, 1.0)
    away = mean - s["mean"]
    s["squares"] += np.where(weight > 0, squares + s["weight"] * weight / total * away**2, 0.0)
    s["mean"] += weight / total * away
    s["weight"] += weight


def adopt(s: Table) -> None:
    """Take the offsets that wait for the usual ones, in place."""
    mean, squares = _waiting(s)
    some = s["waiting_weight"] > 0
    s["mean"] = np.where(some, mean, s["mean"])
    s["squares"] = np.where(some, squares / np.where(some, s["waiting_weight"], 1.0) * ADOPTED_MINUTES, s["squares"])
    s["weight"] = np.where(some, ADOPTED_MINUTES, s["weight"])
    s["recent"] = np.zeros(len(mean))
    forget_waiting(s)


def forget_waiting(s: Table) -> None:
    """Learn nothing of the offsets that wait, and end the run above the threshold, in place."""
    for name in ("run", "since", "waiting_weight", "waiting_sum", "waiting_squares"):
        s[name] = np.zeros(len(s[name]))
