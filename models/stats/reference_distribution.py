"""The reference distribution: how often a joined score is exceeded in mature normal data. The first step of calibration.

A joined score exceeds u_1 < u_2 < ... with the probabilities S(u_j): -ln S is `SURPRISALS` at `QUANTILES`. Between two quantiles it is
linear, beyond the last one it goes on with the last slope. The quantiles are medians over 16 kinds of simulated normal series. A series
that is often strange has higher scores than that; `per_series_calibration` corrects it. Episodes are decided by the reference distribution
all the same: on labelled data, series whose own threshold rose with their anomalies found fewer of them.

A young series has had few blocks to compare with, so the same joined score is less rare in it. After so many blocks nats are
divided by

    1 + YOUTH w exp(-(blocks / YOUNG)^2)          w = interval / 60 s, for intervals of a minute and more 1

which keeps the false alarm rate of normal noise at the alert threshold: a factor of 1.1 to 1.5 until about 20 blocks have ended, none from
40 on, with rows of 300 s, 1,200 s and an hour alike. For noise fewer blocks are enough where a block has many rows; rows of a minute are
discounted alike because curves of services move by hours that they have not shown yet (decision 38). It fails for a series with such
a wave: on its first day that scores higher than noise.
"""

from __future__ import annotations

import numpy as np

from models.core.arrays import Floats

# joined scores of simulated normal series of 16 kinds, rows 5 min and 10 s apart, and -ln P(> score): medians over kinds
SURPRISALS = (0.0, 0.03, 0.105, 0.223, 0.357, 0.51, 0.69, 1.2, 1.61, 2.3, 3.0, 3.91, 4.61, 5.81, 6.91, 8.11, 9.21, 10.4)
QUANTILES = (
    0.0,
    0.022,
    0.028,
    0.037,
    0.049,
    0.072,
    0.14,
    0.32,
    0.43,
    0.64,
    0.88,
    1.22,
    1.47,
    1.9,
    2.35,
    2.8,
    3.25,
    3.8,
)
YOUTH = 0.35
YOUNG = 25.0  # blocks
LONG_SECONDS = 60.0


def surprisal(
    score: Floats,
    blocks: Floats | float = np.inf,
    interval: Floats | float = LONG_SECONDS,
    at_least: Floats | float = 0.0,
) -> Floats:
    """Surprisal of joined scores, -ln P(joined score > `score`) in normal data.

    Parameters
    ----------
    score
        Joined scores, any shape; NaN where unknown.
    blocks
        Blocks of the series that have ended, same shape, or a scalar; infinite for a mature series.
    interval
        Seconds between its rows, same shape, or a scalar.
    at_least
        Nats that a mature series has at least, for another reason than its joined score, same shape, or a scalar.

    Returns
    -------
    Nats, 0 and more; NaN where `score` is.
    """
    slope = (SURPRISALS[-1] - SURPRISALS[-2]) / (QUANTILES[-1] - QUANTILES[-2])
    out: Floats = np.interp(score, QUANTILES, SURPRISALS) + slope * np.maximum(score - QUANTILES[-1], 0.0)
    out = np.maximum(out, at_least)
    youth = YOUTH * np.minimum(interval / LONG_SECONDS, 1.0)
    return out / (1 + youth * np.exp(-np.square(blocks / YOUNG)))


def joined_score(nats: Floats) -> Floats:
    """Joined scores with these surprisals, nats, in a mature series: the inverse of `surprisal`."""
    slope = (QUANTILES[-1] - QUANTILES[-2]) / (SURPRISALS[-1] - SURPRISALS[-2])
    out: Floats = np.interp(nats, SURPRISALS, QUANTILES) + slope * np.maximum(nats - SURPRISALS[-1], 0.0)
    return out
