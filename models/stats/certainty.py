"""How sure is it that an episode is no chance? A probability from its evidence.

A surprise of s nats is a p-value of e^-s. However well some alternative explains it, the odds of chance fall at most by

    B = e s e^-s                    s > 1: the least Bayes factor over alternatives that make small p-values likelier

(Sellke, Bayarri and Berger, 2001). With prior odds of one strange window in ten thousand, a day of windows of ten seconds,

    certainty = 1 / (1 + B (1 - PRIOR) / PRIOR)

is the most that the evidence can make it: 11 nats are 0.2, 14 are 0.76, 17 are 0.98, 20 are 0.999. It fails where the
surprise is no probability, because the model is off: then it is far too sure.
"""

from __future__ import annotations

import math

PRIOR = 1e-4  # share of windows in which something is strange


def certainty(nats: float) -> float:
    """The probability that `nats` of evidence are no chance; NaN where the evidence is not known."""
    if math.isnan(nats):
        return math.nan
    factor = math.e * nats * math.exp(-nats) if nats > 1 else 1.0
    return 1 / (1 + factor * (1 - PRIOR) / PRIOR)
