"""A detector's scores in nats: how rare has a score like this been in this series lately?

Up to the greatest `SHARE` of past scores by counting; beyond, by a generalised Pareto tail of the excesses over u, the k-th
greatest of n past scores,

    -ln P(score > y) = -ln(k / (n + 1)) + ln(1 + x (y - u) / b) / x,        x -> 0:  (y - u) / b

with shape x and scale b by moments: x = (1 - m^2 / v) / 2, b = m (1 - x). A prior worth `PRIOR` excesses says that
they are exponential with the slope between u and the median. Many detectors have bounded scores: x is below 0 then. It fails
where many past scores were at the bound: then nothing can be rarer.
"""

from __future__ import annotations

import numpy as np

from models.core.arrays import Floats

SHARE, LEAST, PRIOR = 0.05, 5, 5.0
SHAPES = (-0.5, 0.2)
LEAST_LEFT = 1e-9  # of a tail that ends, beyond its end
LEAST_SCORES = 20
MOST_NATS = 200.0


def nats(score: float, past: Floats) -> float:
    """-ln of how often a score like this is expected, nats; `past` are earlier scores `(n,)`. NaN while there are few."""
    n = len(past)
    if n < LEAST_SCORES or not np.isfinite(score):
        return float("nan")
    k = max(LEAST, int(SHARE * n))
    ordered = np.partition(past, [n // 2, n - k])
    middle, bound = float(ordered[n // 2]), float(ordered[n - k])
    if score <= bound:
        return float(-np.log((np.count_nonzero(past >= score) + 0.5) / (n + 1)))
    slope = (bound - middle) / np.log(0.5 * n / k)
    over = ordered[n - k :] - bound
    mean = (float(np.sum(over)) + PRIOR * slope) / (k + PRIOR)
    square = (float(np.sum(over**2)) + PRIOR * 2 * slope**2) / (k + PRIOR)  # of an exponential 2 m^2
    mean = max(mean, 1e-9 * max(abs(bound), 1e-9))
    shape = float(np.clip(0.5 * (1 - mean**2 / max(square - mean**2, 1e-9 * mean**2)), *SHAPES))
    beyond = (score - bound) / (mean * (1 - shape))
    rare = beyond if abs(shape) < 1e-6 else np.log(max(1 + shape * beyond, LEAST_LEFT)) / shape
    return float(min(-np.log((k + 0.5) / (n + 1)) + rare, MOST_NATS))
