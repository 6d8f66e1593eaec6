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

from models.core.arrays import Floats, Ints, Singles
from models.core.parameters import DetectorParameters
from models.detection.gauge_detector import GaugeRules
from models.stats import per_series_calibration
from models.univariate.model import LARGEST, Univariate
from models.univariate.univariate_state import VALUE

TRIALS = 14
CLOSE = 1.08  # a distance is found to this factor, outwards
ENOUGH = 1.05  # or what is news with so much of the surprise that it needs, at the most: far out surprise hardly depends on the distance
NEAR, FARTHER = 1.07, 4.0  # the least and the most that a distance changes between two trials
BEYOND = 1.03  # a trial is so much beyond where news is thought to begin
SLOPE, SLOPES = 1.0, (0.02, 4.0)  # of the logarithm of surprise over that of the distance: at first, and the limits
HALVED = 6  # after so many trials what is left between two distances is halved
LEAST_SHARE = 1e-3
FIRST, FARTHEST = 8.0, 2.0**8  # spreads, and so many times that: the first distances that are tried
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
    wanted = needed_surprise(nats, hot["quantiles"][-1, rows], hot["tail"][:, rows])
    first = FIRST * np.maximum(spread.astype(np.float64), 1e-3 * np.abs(centre) + 1e-12)

    def excess(chosen: Ints, values: Floats) -> Floats:
        values = np.clip(values, -LARGEST, LARGEST)
        found = preview.scores(chosen, values)
        extra = rules.extra_nats(values - found.typical, found.typical, rows[chosen])
        return found.base / np.maximum(wanted[chosen], p.alert_nats + extra)  # NaN while warming up: nothing is news

    varies = np.flatnonzero(spread > CONSTANT * np.abs(centre))
    down, up = (
        CUSHION * find_distances(excess, varies, centre, way, known / CUSHION, first)
        for way, known in zip((-1.0, 1.0), before, strict=True)
    )
    return ValueBounds(centre, down, up)


def needed_surprise(nats: float, quantile: Singles, tail: Singles) -> Floats:
    """Surprise under the reference distribution that news needs in each series, `(n,)`, by its last quantile and `tail`, `(2, n)`."""
    number, total = tail.astype(np.float64)
    rate = np.minimum((PRIOR_EXCESSES + number) / (PRIOR_EXCESSES + total), 1.0)
    found: Floats = np.maximum(nats, quantile + (nats - per_series_calibration.NATS[-1]) / rate)
    return found


def find_distances(
    excess: Callable[[Ints, Floats], Floats],
    chosen: Ints,
    centre: Floats,
    way: float,
    before: Floats,
    first: Floats,
) -> Floats:
    """How far from the middle news of the `chosen` begins in one direction, `(n,)`; infinite for others, and where there is none at `FARTHEST`.

    `excess` answers the surprise of values of some series as a share of what news needs, so 1 and more is news; NaN is none. Where a
    distance was found `before`, above 0 and finite, it is tried first; elsewhere `FARTHEST`, then `first`, above 0. The next trial is where
    the last ones say that news begins, a little beyond on the side that is not known yet. Each trial is of the series whose distance is
    not found yet. Fails where something nearer than a value that is no news is news: the outer border counts.
    """
    known = (before > 0) & np.isfinite(before)
    inner, outer = np.zeros_like(first), np.full_like(first, np.inf)
    distance, last = np.where(known, before, first), np.full_like(first, np.nan)
    share, slope = np.full_like(first, np.nan), np.full_like(first, SLOPE)

    def have_some(some: Ints) -> Ints:
        return some[excess(some, centre[some] + way * FARTHEST * first[some]) >= 1] if len(some) else some

    left = np.union1d(chosen[known[chosen]], have_some(chosen[~known[chosen]]))
    for trial in range(TRIALS):
        if trial == 1:
            beyond = known[left] & np.isinf(outer[left])
            left = np.union1d(left[~beyond], have_some(left[beyond]))
        if not len(left):
            break
        at = distance[left]
        found = np.nan_to_num(np.maximum(excess(left, centre[left] + way * at), LEAST_SHARE), nan=LEAST_SHARE)
        news = found >= 1
        outer[left[news]], inner[left[~news]] = at[news], at[~news]
        with np.errstate(invalid="ignore", divide="ignore"):
            steep = np.log(found / share[left]) / np.log(at / last[left])
        slope[left] = np.where(np.isfinite(steep), np.clip(steep, *SLOPES), slope[left])
        last[left], share[left] = at, found
        open_ = (outer[left] > CLOSE * inner[left]) & ~(news & (found <= ENOUGH))
        left, at, found, news = left[open_], at[open_], found[open_], news[open_]
        near, far = inner[left], outer[left]
        begins = at * found ** (-1 / slope[left])
        wanted = np.where(news, np.minimum(begins / BEYOND, at / NEAR), np.maximum(begins * BEYOND, at * NEAR))
        wanted = np.clip(wanted, at / FARTHER, at * FARTHER)
        between = np.sqrt(near * np.where(np.isinf(far), 1.0, far))
        outside = (wanted <= near) | (wanted >= far) | (trial >= HALVED)
        distance[left] = np.where(outside & (near > 0) & np.isfinite(far), between, wanted)
    return outer
