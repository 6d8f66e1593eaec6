"""When an event arrives: soon, a little later, or much too late."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from app.simulator.settings import SimulatorSettings
    from models.core.arrays import Ints

SOON_AT_MOST_MS = 5_000.0
SLOW_AT_MOST_MS = 8_000.0
LATE_LEAST_MS, LATE_MOST_MS = 20_000.0, 300_000.0
LATENESS_MS = 15_000  # later than this after its event time counts as late


def delays(rng: np.random.Generator, settings: SimulatorSettings, shape: tuple[int, ...]) -> Ints:
    """Milliseconds between event and arrival.

    Exponential with the mean of the settings; a `slow_share` uniform up to 8 s; a `late_share` uniform, 20 to 300 s.
    """
    out = np.minimum(rng.exponential(1000 * settings.delay_seconds, shape), SOON_AT_MOST_MS)
    fate = rng.random(shape)
    slow = fate < settings.slow_share + settings.late_share
    out[slow] = rng.uniform(0, SLOW_AT_MOST_MS, int(slow.sum()))
    late = fate < settings.late_share
    out[late] = rng.uniform(LATE_LEAST_MS, LATE_MOST_MS, int(late.sum()))
    return out.astype(np.int64) + 1
