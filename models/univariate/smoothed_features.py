"""Smoothed members: how many independent looks they have had, and how wide they are taken to be before they have had any.

A mean that learns each value with a gain of a sees about R = (2 - a) / a rows, and the next mean is nearly the same look: k
rows are k / R looks. Two hours of a twenty-minute mean are two looks at what it may be, however many rows they have.
Beforehand its width follows from that of the values: noise of variance v whose neighbours are correlated by r, smoothed, varies by

    v / R (1 + r (1 - a)) / (1 - r (1 - a))          r = 1 - E[step^2] / (2 v)

(first-order autoregressive noise), which is worth a number of looks. So a mean of values that keep near each other may
wander as far as they have, one of values that jump to and fro may not. All this is for the first days of a series:
later it has shown how far its means wander. It fails for a wave that is much longer than the
series is old and much higher than its noise.
"""

from __future__ import annotations

import numpy as np

from models.core.arrays import Floats

STEP_OF_MEAN = float(np.sqrt(np.pi / 2))  # root of the mean square of normal steps, in mean absolute steps
LEAST = 1e-300


def gain(interval: Floats, half_life: float, rows: float) -> Floats:
    """What a row `interval` seconds after the last one counts in a mean with a `half_life` of seconds, or of `rows` if longer."""
    out: Floats = -np.expm1(-np.log(2) * np.minimum(interval / half_life, 1 / rows))
    return np.maximum(out, 1e-12)


def rows_a_look(gains: Floats) -> Floats:
    """Rows that one independent look takes."""
    return (2 - gains) / gains


def width(variance: Floats, mean_step: Floats, gains: Floats) -> Floats:
    """The standard deviation of a mean of values of this variance and mean absolute step."""
    square = (STEP_OF_MEAN * mean_step) ** 2
    kept = (1 - square / np.maximum(np.maximum(2 * variance, square), LEAST)) * (1 - gains)
    out: Floats = np.sqrt(variance / rows_a_look(gains) * (1 + kept) / (1 - kept))
    return out
