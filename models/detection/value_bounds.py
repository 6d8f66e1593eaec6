"""From which value on the next window of a metric series is news, found by trying values in the model itself.

With b the surprise of a value under the reference distribution, which decides about episodes, news of a chance p in one direction is

    b >= max(-ln p, q + (-ln p + ln p_q) / r)        r = min((a + A) / (a + S), 1)

where q is the score that the series exceeds with the probability p_q = 2 %, A and S are number and sum of its excesses over q
(`models.stats.per_series_calibration`), and a = `PRIOR_EXCESSES` of one nat each are those of the reference distribution: a series that is often
strange, or whose scores have a heavy tail, needs as much more. It fails where the tail is not exponential farther out than the series has been.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from models.core.arrays import Bools, Floats, Ints, Singles
from models.core.parameters import DetectorParameters
from models.detection.gauge_detector import GaugeRules
from models.stats import per_series_calibration
from models.univariate.model import LARGEST, Univariate
from models.univariate.univariate_state import VALUE

TRIALS = 14
CLOSE = 1.08  # a distance is found to this factor, outwards
NEAR, FARTHER = 1.07, 4.0  # the least and the most that a distance grows between two trials
FIRST, FARTHEST = 8.0, 2.0**16  # spreads, and so many times that: the first distances that are tried
CUSHION = 1.35  # on distances: of what is hardly beyond them most comes to nothing
PRIOR_EXCESSES = 20.0
CONSTANT = 1e-6  # spread, as a share of the mean, up to which a series does not vary


@dataclass(frozen=True)
class ValueBounds:
    """By series, `(n,)`: the value in the middle, and how far below and above it news begins; infinite where nothing is news."""

    centre: Floats
    down: Floats
    up: Floats


def value_bounds(
    model: Univariate, rules: GaugeRules, p: DetectorParameters, rows: Ints, nats: float, before: tuple[Floats, Floats]
) -> ValueBounds:
    """Where news begins for the next window of some series.

    It exceeds the alert threshold as well, with all that rules and labels demand: what does not could not become an episode. A series that
    has not varied has no news: how far it may be from its one value cannot be learnt from it.

    Parameters
    ----------
    model, rules
        Model of the metrics, and what rules and labels do to them.
    p
        The detector's parameters.
    rows
        Rows of the series in the table, each of which has had a row of statistics, `(n,)`.
    nats
        -ln of the chance of news in one direction.
    before
        Distances down and up that were found last, `(n,)` each, 0 or infinite where there are none: it is faster with them.

    Returns
    -------
    ValueBounds
        Found to a factor of `CLOSE`, outwards. The middle is the recent mean.
    """
    hot, preview = model.state.hot, model.preview(rows)
    centre = hot["fast"][0, rows].astype(np.float64)
    spread = np.sqrt(hot["robust_sums"][VALUE, rows] / np.maximum(hot["robust_weight"][VALUE, rows], 1e-9))
    wanted = needed(nats, hot["quantiles"][-1, rows], hot["tail"][:, rows])
    first = FIRST * np.maximum(spread.astype(np.float64), 1e-3 * np.abs(centre) + 1e-12)

    def are_news(chosen: Ints, values: Floats) -> Bools:
        values = np.clip(values, -LARGEST, LARGEST)
        found = preview.scores(chosen, values)
        extra = rules.extra_nats(values - found.typical, found.typical, rows[chosen])
        news: Bools = (found.base >= wanted[chosen]) & (found.base - extra >= p.alert_nats)
        return news  # false for NaN: while warming up nothing is news

    varies = np.flatnonzero(spread > CONSTANT * np.abs(centre))
    down, up = (
        CUSHION * distances(are_news, varies, centre, way, known / CUSHION, first)
        for way, known in zip((-1.0, 1.0), before, strict=True)
    )
    return ValueBounds(centre, down, up)


def needed(nats: float, quantile: Singles, tail: Singles) -> Floats:
    """Surprise under the reference distribution that news needs in each series, `(n,)`, by its last quantile and `tail`, `(2, n)`."""
    number, total = tail.astype(np.float64)
    rate = np.minimum((PRIOR_EXCESSES + number) / (PRIOR_EXCESSES + total), 1.0)
    found: Floats = np.maximum(nats, quantile + (nats - per_series_calibration.NATS[-1]) / rate)
    return found


def distances(
    are_news: Callable[[Ints, Floats], Bools],
    chosen: Ints,
    centre: Floats,
    way: float,
    before: Floats,
    first: Floats,
) -> Floats:
    """How far from the middle news of the `chosen` begins in one direction, `(n,)`; infinite for others, and where there is none at `FARTHEST`.

    Where a distance was found `before`, above 0 and finite, it is tried first, and then what is near it; elsewhere `FARTHEST` and `first`,
    above 0. Each trial is of the series whose distance is not found yet. Fails where something nearer than a value that is no news is
    news: the outer border counts.
    """
    known = (before > 0) & np.isfinite(before)
    inner, outer = np.zeros_like(first), np.full_like(first, np.inf)
    distance, growth = np.where(known, before, first), np.where(known, NEAR, 2.0)
    left, new = chosen[known[chosen]], chosen[~known[chosen]]
    if len(new):
        there = are_news(new, centre[new] + way * FARTHEST * first[new])
        left = np.union1d(left, new[there])
    for _ in range(TRIALS):
        if not len(left):
            break
        news = are_news(left, centre[left] + way * distance[left])
        outer[left[news]], inner[left[~news]] = distance[left[news]], distance[left[~news]]
        left = left[outer[left] > CLOSE * inner[left]]
        near, far = inner[left], outer[left]
        between = np.sqrt(near * np.where(np.isinf(far), 1.0, far))
        distance[left] = np.where(np.isinf(far), near * growth[left], np.where(near == 0, far / growth[left], between))
        growth[left] = np.minimum(growth[left] ** 2, FARTHER)
    return outer
