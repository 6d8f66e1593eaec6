"""The step of the univariate model as machine code: block by block, all five stages. `models.univariate.model` says what they are.

Series do not depend on one another, so how they are cut into blocks changes nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from models.core.arrays import Array, Floats, Ints
from models.core.compiled import compiled, inlined
from models.univariate import block as b
from models.univariate import block_calibration, block_features, block_predictive, block_rarity
from models.univariate.block import HotColumns, Scratch
from models.univariate.features import DAY
from models.univariate.settings_vector import LEVEL_ROWS
from models.univariate.univariate_state import N_FEATURES

NEARLY = 0.8  # share of the greatest rarity from which a feature may be the dominant one
SURPRISE, RARITY = 0, N_FEATURES  # rows of the answer, one a feature each; then one each:
JOINED, BASE, SCORE, HEALTH, TYPICAL, LOWER, UPPER, DOMINANT = range(2 * N_FEATURES, 2 * N_FEATURES + 8)
ANSWERS = DOMINANT + 1
OFF_BITS = np.array([14.0], np.float16).view(np.uint16)[0]


class Rows(NamedTuple):
    """A window's rows, `(n,)` each: see `Univariate.step`."""

    series: Ints
    now: Floats
    points: Floats
    mean: Floats
    squares: Floats


class Known(NamedTuple):
    """What is known of all series besides the hot columns: `blocks`, `farthest`, `lasting`, `first_value`, `checked` (its bits) of the cold part; the
    rarity tables and their priors, and how `often` steps are surprising; the `offset` of the week."""

    blocks: Array
    farthest: Array
    lasting: Array
    first_value: Floats
    checked: Array
    table: Array
    prior: Array
    often: Array
    robust: Array
    robust_prior: Array
    offset: Floats


@inlined
def spread_out(w: Scratch, to: int, numbers: Floats, lo: int, m: int) -> None:
    """Parameters in which series differ, `(n,)`, or one for all, `(1,)`."""
    for j in range(m):
        w[to, j] = numbers[lo + j] if len(numbers) > 1 else numbers[0]


@inlined
def read(
    w: Scratch, rows: Rows, known: Known, hot: HotColumns, series: Ints, lo: int, levels: tuple[Floats, Floats, Floats]
) -> None:
    """Everything that is given, into the scratch."""
    m = len(series)
    b.move_hot_columns(b.get, w, hot, series)
    spread_out(w, b.NOW, rows.now, lo, m)
    spread_out(w, b.LEVEL_DAYS, levels[0], lo, m)
    spread_out(w, b.ROBUST_DAYS, levels[1], lo, m)
    spread_out(w, b.WARM_UP_MINUTES, levels[2], lo, m)
    for j in range(m):
        row = series[j]
        w[b.X, j], w[b.POINTS, j], w[b.SQUARES, j] = rows.mean[lo + j], rows.points[lo + j], rows.squares[lo + j]
        w[b.FIRST_VALUE, j], w[b.OF_WEEK, j] = known.first_value[0, row], known.offset[row]
        w[b.LASTING, j], w[b.LASTING + 1, j] = known.lasting[0, row], known.lasting[1, row]
        w[b.BLOCKS, j], w[b.EXCESSES, j] = known.blocks[0, row], hot.excesses[0, row]
        off = (
            max(known.checked[0, row], known.checked[1, row]) >= OFF_BITS
        )  # halves above 0 are in the order of their bits
        w[b.OFF, j] = 1.0 if off else 0.0


@inlined
def answer(w: Scratch, m: int, lo: int, out: Floats) -> None:
    """What is published: NaN for the spread within windows of one point, and for intervals while warming up."""
    for j in range(m):
        w[b.SPARE, j] = 0.0
    for f in range(N_FEATURES):
        for j in range(m):
            rare = w[b.RARITIES + f, j]
            known = ~np.isnan(w[b.VALUES + f, j])
            out[SURPRISE + f, lo + j] = w[b.SURPRISES + f, j] if known else np.nan
            out[RARITY + f, lo + j] = rare if known else np.nan
            rare = rare if known else 0.0
            w[b.TAILS + f, j] = rare
            w[b.SPARE, j] = rare if rare > w[b.SPARE, j] else w[b.SPARE, j]
    for j in range(m):
        typical = w[b.TYPICAL, j] if w[b.WARMING, j] == 0 else np.nan
        out[TYPICAL, lo + j] = typical
        out[LOWER, lo + j], out[UPPER, lo + j] = typical - w[b.REACH, j], typical + w[b.REACH, j]
        out[DOMINANT, lo + j] = 0.0
    for f in range(N_FEATURES - 1, -1, -1):
        for j in range(m):
            nearly = w[b.TAILS + f, j] >= NEARLY * w[b.SPARE, j]
            out[DOMINANT, lo + j] = f if nearly else out[DOMINANT, lo + j]
    for j in range(m):
        out[JOINED, lo + j], out[BASE, lo + j] = w[b.JOINED, j], w[b.BASE, j]
        out[SCORE, lo + j], out[HEALTH, lo + j] = w[b.SCORE, j], w[b.JOINED_ROBUST, j]


@compiled
def step(
    rows: Rows, hot: HotColumns, known: Known, settings: Floats, levels: tuple[Floats, Floats, Floats], out: Floats
) -> None:
    """Score one window of some series, then learn it, in place in `hot`.

    Parameters
    ----------
    rows
        The window's rows.
    hot, known
        What is known of all series.
    settings
        See `settings_vector`.
    levels
        Half-lives of the level and of the robust memory, days, and the minutes of warming up: `(n,)` each, or `(1,)` for all.
    out
        Answers, `(ANSWERS, n)`.
    """
    w = np.empty((b.SCRATCH_ROWS, b.SERIES))
    tables = known.table, known.prior, known.often, known.robust, known.robust_prior
    for lo in range(0, len(rows.series), b.SERIES):
        series = rows.series[lo : lo + b.SERIES]
        m = len(series)
        read(w, rows, known, hot, series, lo, levels)
        block_features.begin_rows(w, m, settings)
        block_features.limit_values(w, m, settings)
        block_features.steps(w, m)
        block_features.rhythm(w, m, settings)
        block_features.sums(w, m, settings)
        block_features.values(w, m)
        for j in range(m):
            w[b.KEEP, j] = block_features.share_left(w[b.SECONDS, j], DAY * w[b.LEVEL_DAYS, j], settings[LEVEL_ROWS])
            w[b.KEEP_ROBUST, j] = block_features.share_left(
                w[b.SECONDS, j], DAY * w[b.ROBUST_DAYS, j], settings[LEVEL_ROWS]
            )
        block_predictive.step_ever(w, m, settings)
        block_predictive.step_robust(w, m, settings)
        for j in range(m):
            w[b.X, j] = rows.mean[lo + j]  # features see no more than the bound, distances do
        block_rarity.rarities(w, m, tables, series, settings, hot)
        block_rarity.far_values(w, m, known.farthest, series, settings, hot)
        block_rarity.lasting_levels(w, m, settings)
        block_rarity.join_features(w, m, settings)
        block_calibration.by_reference(w, m)
        block_calibration.by_series(w, m)
        block_calibration.learn(w, m, series, hot)
        b.move_hot_columns(b.put, w, hot, series)
        answer(w, m, lo, out)
