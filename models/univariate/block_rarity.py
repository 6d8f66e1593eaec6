"""Rarity and joint stages, compiled: how often a series has been as surprising, and one score of all features of a block.

See `rarity_tables` and `models.stats.rarity` for the statistics.
"""

from __future__ import annotations

import numpy as np

from models.core.arrays import Array, Floats, Ints
from models.core.compiled import inlined
from models.stats.elementary import exp, log, log1p, power
from models.stats.farthest import FARTHER, LASTING_POWER, LOG_NEAREST, NEAREST, POWER, WIDTH
from models.stats.farthest import LAST as LAST_GRADE
from models.stats.rarity import BINS, PER_UNIT
from models.univariate import block as b
from models.univariate.block import HotColumns, Scratch
from models.univariate.features import DAY
from models.univariate.settings_vector import (
    FIRST_SECONDS,
    LOG_TOLERANCE,
    NORM,
    PRIOR_POWER,
    RECURRING_SHARE,
    STEP_SHARE,
    WARM_UP_ROWS,
)
from models.univariate.univariate_state import DIRECTED, FAST, LOG_LEVEL, N_FEATURES, N_ROBUST, RHYTHM, STEP

NORM_FEATURES = 4.0  # so many features at c each give a joined score of c
BODY = 0.03  # weight of the surprises themselves, which tell rows apart that are not rare at all
LAST = float(BINS - 1)
DOWN_LEVEL, DOWN_FAST, DOWN_RHYTHM = DIRECTED[LOG_LEVEL], DIRECTED[FAST], DIRECTED[RHYTHM]


@inlined
def downward_table(feature: int) -> int:
    """The table of downward surprises of a feature, or the one that it has for both directions."""
    if feature == LOG_LEVEL:
        return DOWN_LEVEL
    if feature == FAST:
        return DOWN_FAST
    return DOWN_RHYTHM if feature == RHYTHM else feature


@inlined
def look_up(
    w: Scratch, m: int, f: int, to: int, table: Array, prior: Array, series: Ints, q: Floats, directed: bool
) -> None:
    """-ln of the averaged tails of the surprises whose ln(1 + s) is in `WIDES`, of one feature."""
    tolerance, exponent = q[LOG_TOLERANCE], q[PRIOR_POWER]
    other = downward_table(f) if directed else f
    for j in range(m):
        y = PER_UNIT * (w[b.WIDES + f, j] - tolerance)
        w[b.SPARE, j] = y if y > 0.0 else 0.0
    for j in range(m):
        y, row = w[b.SPARE, j], series[j]
        bin_ = np.int64(y) if y < LAST else np.int64(BINS - 1)
        part = 0.0 if y > LAST else y - bin_
        which = other if w[b.DEVIATIONS + f, j] < 0 else f
        w[b.TAILS, j] = (1.0 - part) * table[which, bin_, row] + part * table[which, bin_ + 1, row]
        w[b.TAILS + 1, j] = prior[row]
    for j in range(m):
        tail = w[b.TAILS, j] + w[b.TAILS + 1, j] * exp(-exponent * w[b.WIDES + f, j])
        w[to + f, j] = -log(tail if tail < 1.0 else 1.0)


@inlined
def step_nats(w: Scratch, m: int, often: Array, series: Ints, q: Floats) -> None:
    """Nats that a step counts whatever came before: a share of its surprise, unless as large ones recur, or surprising ones do all day."""
    share, recurring = q[STEP_SHARE], q[RECURRING_SHARE]
    nats = -log(recurring)
    for j in range(m):
        recurs = (often[series[j]] > recurring) | (w[b.RARITIES + STEP, j] < nats)
        w[b.OF_STEP, j] = 0.0 if recurs else share * w[b.SURPRISES + STEP, j]


@inlined
def unseen_rhythm(w: Scratch, m: int, to: int) -> None:
    """No rarity of the rhythm on the first day, which has nothing to be compared with."""
    for j in range(m):
        first = w[b.ROWS, j] * w[b.INTERVAL, j] < DAY
        w[to + RHYTHM, j] = 0.0 if first else w[to + RHYTHM, j]


@inlined
def is_first(rows: float, interval: float, q: Floats) -> bool:
    """Whether a row is one of the first of its series, which tell nothing of what is usual: a block of them alone would count as an ordinary one."""
    first: bool = (rows < q[WARM_UP_ROWS]) & (rows * interval < q[FIRST_SECONDS])
    return first


@inlined
def rarities(
    w: Scratch, m: int, tables: tuple[Array, Array, Array, Array, Array], series: Ints, q: Floats, hot: HotColumns
) -> None:
    """Rarities by both memories; notes the greatest surprises of the block and the hour in the state."""
    table, prior, often, robust, robust_prior = tables
    for f in range(N_FEATURES):
        for j in range(m):
            w[b.WIDES + f, j] = log1p(w[b.SURPRISES + f, j])
        look_up(w, m, f, b.RARITIES, table, prior, series, q, True)
    unseen_rhythm(w, m, b.RARITIES)
    step_nats(w, m, often, series, q)
    for j in range(m):
        w[b.SPARE, j] = 0.0 if is_first(w[b.ROWS, j], w[b.INTERVAL, j], q) else 1.0
    for f in range(N_FEATURES):
        other = downward_table(f)
        for j in range(m):
            y, row = PER_UNIT * (w[b.WIDES + f, j] * w[b.SPARE, j]), series[j]
            bin_ = np.uint8(y if y < LAST else LAST)
            which = other if w[b.DEVIATIONS + f, j] < 0 else f
            hot.block_most[which, row] = max(hot.block_most[which, row], bin_)
            hot.hour_most[which, row] = max(hot.hour_most[which, row], bin_)
    for f in range(N_ROBUST):
        for j in range(m):
            w[b.WIDES + f, j] = log1p(w[b.ROBUST_SURPRISES + f, j])
        look_up(w, m, f, b.ROBUST_RARITIES, robust, robust_prior, series, q, False)
        for j in range(m):
            y, row = PER_UNIT * w[b.WIDES + f, j], series[j]
            hot.robust_most[f, row] = max(hot.robust_most[f, row], np.uint8(y if y < LAST else LAST))
    unseen_rhythm(w, m, b.ROBUST_RARITIES)


@inlined
def far_values(w: Scratch, m: int, farthest: Array, series: Ints, q: Floats, hot: HotColumns) -> None:
    """Nats of values beyond all that their series have been: see `models.stats.farthest`; notes the greatest distance of the block in the state.

    Distances within the least spread of a series are all alike: they are those of rounding.
    """
    for j in range(m):
        row = series[j]
        away, least = abs(w[b.X, j] - w[b.TYPICAL, j]), w[b.LEASTS + STEP, j]
        away = 0.0 if away <= NEAREST else (away if away > least else least)
        place = (log(away if away > NEAREST else NEAREST) - LOG_NEAREST) / WIDTH
        before = np.float64(farthest[0, row])
        nats = log(w[b.BLOCKS, j] + 1.0) + POWER * WIDTH * (place - before)
        w[b.FAR, j] = nats if (before > 0.0) & (place > before) else 0.0
        none = is_first(w[b.ROWS, j], w[b.INTERVAL, j], q) | (away == 0.0)
        grade = 0.0 if none else place + 1.0
        grade_now = np.uint8(grade if grade < LAST_GRADE else LAST_GRADE)
        hot.block_farthest[0, row] = max(hot.block_farthest[0, row], grade_now)


@inlined
def lasting_levels(w: Scratch, m: int, q: Floats) -> None:
    """Nats of levels that last, far beyond all that lasted before: see `models.stats.farthest`; notes those of the block."""
    for j in range(m):
        first = w[b.FIRST_VALUE, j]
        now, last, earlier = w[b.X, j] - first, w[b.LAST_VALUE, j] - first, w[b.EARLIER, j]
        low, high = (last, earlier) if last < earlier else (earlier, last)
        low, high = now if now < low else low, now if now > high else high
        down, up, typical = w[b.LASTING, j], w[b.LASTING + 1, j], w[b.TYPICAL, j] - first
        width, least = (up - down) / 2, w[b.LEASTS + STEP, j]
        least = width if width > least else least
        above, below = up - typical, typical - down
        farther = (low - typical) / (above if above > least else least)
        lower = (typical - high) / (below if below > least else least)
        times = farther if farther > lower else lower
        judged = (times > FARTHER) & (w[b.ROWS, j] * w[b.INTERVAL, j] >= DAY) & (w[b.QUANTUM, j] > 0)
        w[b.SPARE, j] = times if judged else 0.0
        # Only what is beyond the blocks before is noted, so that most series have nothing to store.
        known = (w[b.ROWS, j] >= 2) & (not is_first(w[b.ROWS, j], w[b.INTERVAL, j], q))
        lowest, highest = w[b.BLOCK_LASTING, j], w[b.BLOCK_LASTING + 1, j]
        w[b.BLOCK_LASTING, j] = high if known & (high < down) & (high < lowest) else lowest
        w[b.BLOCK_LASTING + 1, j] = low if known & (low > up) & (low > highest) else highest
        w[b.EARLIER, j] = last
    for j in range(m):
        times = w[b.SPARE, j]
        if times > 0.0:
            nats = log(w[b.BLOCKS, j] + 1.0) + LASTING_POWER * log(times / FARTHER)
            w[b.FAR, j] = nats if nats > w[b.FAR, j] else w[b.FAR, j]


@inlined
def feature_norm(w: Scratch, m: int, first: int, features: int, norm: float) -> None:
    """Norm over features, in the row `SPARE`: see `NORM_FEATURES`."""
    whole = np.int64(norm)
    for j in range(m):
        w[b.SPARE, j] = 0.0
    for f in range(first, first + features):
        if norm == whole:
            for j in range(m):
                w[b.TAILS, j] = w[f, j]
            for _ in range(whole - 1):
                for j in range(m):
                    w[b.TAILS, j] *= w[f, j]
        else:
            for j in range(m):
                w[b.TAILS, j] = power(w[f, j], norm)
        for j in range(m):
            w[b.SPARE, j] += w[b.TAILS, j]
    for j in range(m):
        w[b.SPARE, j] = power(w[b.SPARE, j] / NORM_FEATURES, 1.0 / norm)


@inlined
def join_features(w: Scratch, m: int, q: Floats) -> None:
    """One score of all features by each memory."""
    norm = q[NORM]
    for to, rare, surprise, features in (
        (b.JOINED, b.RARITIES, b.SURPRISES, N_FEATURES),
        (b.JOINED_ROBUST, b.ROBUST_RARITIES, b.ROBUST_SURPRISES, N_ROBUST),
    ):
        feature_norm(w, m, rare, features, norm)
        for j in range(m):
            w[to, j] = w[b.SPARE, j]
        feature_norm(w, m, surprise, features, norm)
        for j in range(m):
            w[to, j] += BODY * log1p(w[b.SPARE, j])
