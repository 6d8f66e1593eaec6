"""Stuck values: is a run of exactly repeated values longer than the series' habit? See `habits` for the chain.

An idle gauge is not a stuck one: runs of 0 say nothing, nor do those of a series that repeats values half of the time.
"""

from __future__ import annotations

import numpy as np

from models.core.arrays import Bools, Floats
from models.detection.metric_rows import REPEAT, REPEAT_EVIDENCE, REPEAT_SECONDS
from models.stats import run_length

AT_MOST = 0.5  # share of repeated values up to which a series is one that varies


def step(s: Floats, x: Floats, repeats: Bools, warming: Bools, seconds: Floats, half_life: float) -> Floats:
    """The surprise of each run, nats, `(n,)`; learns it in place. `half_life` of habits is in seconds.

    `s` is `(columns, n)`; `repeats` says which values `x` are exactly those of the row before, `seconds` ago.
    """
    columns = list(s[REPEAT])
    evidence = run_length.score_run(columns, s[REPEAT_EVIDENCE], repeats, warming)
    trials, begun, asked, stayed = columns
    varies = (begun + stayed) < AT_MOST * (trials + asked)
    surprise: Floats = np.where(varies & (x != 0), evidence, 0.0)
    s[REPEAT] *= np.exp2(-seconds / half_life)
    run_length.learn_run(list(s[REPEAT]), s[REPEAT_EVIDENCE], repeats)
    s[REPEAT_EVIDENCE] = evidence
    s[REPEAT_SECONDS] = np.where(repeats, s[REPEAT_SECONDS] + seconds, 0.0)
    return surprise


def forgive(s: Floats, row: int) -> None:
    """A series that repeats one value for good: what it was before is no habit any more."""
    s[REPEAT, row] = 0.0
    s[REPEAT_EVIDENCE, row] = run_length.NOTHING
