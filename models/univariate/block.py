"""A block of series in scratch memory: what the compiled step reads of their state, works with, and writes back.

A row of the scratch is one number of each of up to `SERIES` series. All stages loop over the series of a row innermost, without a branch, so that
they are computed several at once; a block is small enough for the processor's cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from models.core.arrays import Array, Floats, Ints
from models.core.compiled import called, inlined
from models.univariate.univariate_state import HOT

SERIES = 128

# Rows of the scratch: first the hot columns, in the order of HOT, those of `UNTOUCHED` left out.
# They are bytes: stages change them in the state.
UNTOUCHED = ("excesses", "block_farthest", "block_most", "hour_most", "robust_most")
_FIRST: dict[str, int] = {}
_rows = 0
for _name, (_, _size) in HOT.items():
    if _name not in UNTOUCHED:
        _FIRST[_name] = _rows
        _rows += _size
TIME, PREVIOUS, FAST_MEAN, OVERALL = (_FIRST[name] for name in ("time", "previous", "fast", "overall"))
MEAN, ROBUST_MEAN, SUMS, ROBUST_SUMS = (_FIRST[name] for name in ("mean", "robust_mean", "sums", "robust_sums"))
WEIGHT, WITHIN_WEIGHT, ROBUST_WEIGHT = (_FIRST[name] for name in ("weight", "within_weight", "robust_weight"))
FAST_WEIGHT, ROUGH_SUM, ROUGH_WEIGHT = (_FIRST[name] for name in ("fast_weight", "rough", "rough_weight"))
LONG_STEP, LONG_SIZE, LONG_WEIGHT = (_FIRST[name] for name in ("long_step", "long_size", "long_weight"))
OVERALL_WEIGHT, QUANTUM, HOUR_MEAN = (_FIRST[name] for name in ("overall_weight", "quantum", "hour_mean"))
HOUR_WEIGHT, INTERVAL, QUANTILES = (_FIRST[name] for name in ("hour_weight", "interval", "quantiles"))
TAIL, BLOCK_CHANCE, ROWS, BLOCK_ROWS = (_FIRST[name] for name in ("tail", "block_chance", "rows", "block_rows"))
EARLIER, BLOCK_LASTING = _FIRST["earlier"], _FIRST["block_lasting"]
# Then what is given, and what stages hand on. Names that end in `S` have a row for each feature.
X, NOW, POINTS, SQUARES, FIRST_VALUE, OF_WEEK, BLOCKS, OFF = range(_rows, _rows + 8)
LEVEL_DAYS, ROBUST_DAYS, WARM_UP_MINUTES, EXCESSES = range(_rows + 8, _rows + 12)
_rows += 12
WARMING, TRUST, SECONDS, KEEP, KEEP_ROBUST, WIDER = range(_rows, _rows + 6)
RESIDUAL, LONG_STEP_NOW, LONG_SIZE_NOW, SCALE, SPARE = range(_rows + 6, _rows + 11)
TYPICAL, REACH, JOINED, JOINED_ROBUST, BASE, SCORE = range(_rows + 11, _rows + 17)
_rows += 17
VALUES, LEASTS, DEVIATIONS, SURPRISES = range(_rows, _rows + 28, 7)
RARITIES, ROBUST_RARITIES, ROBUST_SURPRISES, WIDES, TAILS = range(_rows + 28, _rows + 63, 7)
OF_STEP, FAR, LAST_VALUE, LASTING = range(_rows + 63, _rows + 67)
SCRATCH_ROWS = _rows + 68

Scratch = Floats  # (SCRATCH_ROWS, SERIES)
Move = Callable[[Scratch, int, Array, Ints, int, bool], None]


class HotColumns(NamedTuple):
    """The hot columns of a state, `(length, series)` each: see `univariate_state.HOT`."""

    time: Array
    previous: Array
    fast: Array
    overall: Array
    mean: Array
    robust_mean: Array
    sums: Array
    robust_sums: Array
    weight: Array
    within_weight: Array
    robust_weight: Array
    fast_weight: Array
    rough: Array
    rough_weight: Array
    long_step: Array
    long_size: Array
    long_weight: Array
    overall_weight: Array
    quantum: Array
    hour_mean: Array
    hour_weight: Array
    interval: Array
    quantiles: Array
    tail: Array
    excesses: Array
    block_chance: Array
    rows: Array
    block_rows: Array
    block_farthest: Array
    earlier: Array
    block_lasting: Array
    block_most: Array
    hour_most: Array
    robust_most: Array


@called
def get(w: Scratch, at: int, column: Array, series: Ints, m: int, together: bool) -> None:
    """Read a column `(length, series)` of `m` series into rows of the scratch from `at` on."""
    for k in range(column.shape[0]):
        if together:
            first = series[0]
            for j in range(m):
                w[at + k, j] = column[k, first + j]
        else:
            for j in range(m):
                w[at + k, j] = column[k, series[j]]


@called
def put(w: Scratch, at: int, column: Array, series: Ints, m: int, together: bool) -> None:
    """Write rows of the scratch from `at` on to a column of `m` series: the inverse of `get`."""
    for k in range(column.shape[0]):
        if together:
            first = series[0]
            for j in range(m):
                column[k, first + j] = w[at + k, j]
        else:
            for j in range(m):
                column[k, series[j]] = w[at + k, j]


@called
def are_adjacent(series: Ints) -> bool:
    """Whether series stand side by side in the state, in order."""
    out = True
    for j in range(len(series)):
        out &= series[j] == series[0] + j
    return out


@inlined
def move_hot_columns(move: Move, w: Scratch, hot: HotColumns, series: Ints) -> None:
    """`get` or `put` the hot columns of the series of a block."""
    m, together = len(series), are_adjacent(series)
    move(w, TIME, hot.time, series, m, together)
    move(w, PREVIOUS, hot.previous, series, m, together)
    move(w, FAST_MEAN, hot.fast, series, m, together)
    move(w, OVERALL, hot.overall, series, m, together)
    move(w, MEAN, hot.mean, series, m, together)
    move(w, ROBUST_MEAN, hot.robust_mean, series, m, together)
    move(w, SUMS, hot.sums, series, m, together)
    move(w, ROBUST_SUMS, hot.robust_sums, series, m, together)
    move(w, WEIGHT, hot.weight, series, m, together)
    move(w, WITHIN_WEIGHT, hot.within_weight, series, m, together)
    move(w, ROBUST_WEIGHT, hot.robust_weight, series, m, together)
    move(w, FAST_WEIGHT, hot.fast_weight, series, m, together)
    move(w, ROUGH_SUM, hot.rough, series, m, together)
    move(w, ROUGH_WEIGHT, hot.rough_weight, series, m, together)
    move(w, LONG_STEP, hot.long_step, series, m, together)
    move(w, LONG_SIZE, hot.long_size, series, m, together)
    move(w, LONG_WEIGHT, hot.long_weight, series, m, together)
    move(w, OVERALL_WEIGHT, hot.overall_weight, series, m, together)
    move(w, QUANTUM, hot.quantum, series, m, together)
    move(w, HOUR_MEAN, hot.hour_mean, series, m, together)
    move(w, HOUR_WEIGHT, hot.hour_weight, series, m, together)
    move(w, INTERVAL, hot.interval, series, m, together)
    move(w, QUANTILES, hot.quantiles, series, m, together)
    move(w, TAIL, hot.tail, series, m, together)
    move(w, BLOCK_CHANCE, hot.block_chance, series, m, together)
    move(w, ROWS, hot.rows, series, m, together)
    move(w, BLOCK_ROWS, hot.block_rows, series, m, together)
    move(w, EARLIER, hot.earlier, series, m, together)
    move(w, BLOCK_LASTING, hot.block_lasting, series, m, together)
