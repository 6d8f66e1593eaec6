"""A joined score as a probability, by the law of joined scores in normal data at large.

In mature normal data a joined score exceeds u_1 < u_2 < ... with probabilities S(u_j): -ln S is `SURPRISALS` at `QUANTILES`. Between two
levels it is linear, beyond the last one it goes on with the last slope. The law is the median over 16 kinds of simulated
series; one that is often strange is louder than it says, and what it says itself is the business of `per_series_calibration`. Episodes go by the law
at large all the same: on labelled data, a series that raises its own bar found less.

A young series has few precedents, so the same joined score is less rare in it. Precedents are the maxima of blocks; after so many
blocks its nats count

    1 / (1 + YOUTH w exp(-(blocks / YOUNG)^2))          w = interval / 300 s, for intervals of 300 s and more 1

which is what normal noise and its like need at the level from which a metric is loud: 1.1 to 1.5 times the nats until about
20 blocks have ended, nothing from 40 on, with rows of 300 s, 1,200 s and an hour alike. Where a block has many
rows a few blocks are enough. It fails for a series with a wave of hours that it has not seen yet: on its first day that is louder
than noise.
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
LONG_SECONDS = 300.0


def surprisal(score: Floats, blocks: Floats | float = np.inf, interval: Floats | float = LONG_SECONDS) -> Floats:
    """-ln P(joined score > `score`) after so many blocks of rows so far apart (s), nats, any shape; NaN where it is not known."""
    slope = (SURPRISALS[-1] - SURPRISALS[-2]) / (QUANTILES[-1] - QUANTILES[-2])
    out: Floats = np.interp(score, QUANTILES, SURPRISALS) + slope * np.maximum(score - QUANTILES[-1], 0.0)
    youth = YOUTH * np.minimum(interval / LONG_SECONDS, 1.0)
    return out / (1 + youth * np.exp(-np.square(blocks / YOUNG)))


def joined_score(nats: Floats) -> Floats:
    """The inverse of `surprisal` in a mature series: the joined score that is as rare."""
    slope = (QUANTILES[-1] - QUANTILES[-2]) / (SURPRISALS[-1] - SURPRISALS[-2])
    out: Floats = np.interp(nats, SURPRISALS, QUANTILES) + slope * np.maximum(nats - SURPRISALS[-1], 0.0)
    return out
