"""A passing outlier, or a change of state? Competing explanations of the latest windows, compared by evidence.

The series has had a regime A (`regression`: a level and a trend). The rows since some start may be explained by

    old        A goes on                                             level    a new level, as it was otherwise
    outlier    A goes on, and these are wide of it (ten scales)      trend    a new level and a new trend
    spread     A's level with a spread of its own                    back     the regime before A again

each with a log evidence against `old`, gathered row by row from a start of its own as in Page's test with learnt
alternatives:

    L_i += (1 - r) / (1 + r) clip(ln p_i(x) - ln p_A(x), -c, c)

r is the first autocorrelation of A's residuals: neighbours that depend on each other are less evidence. Where L_i <= 0 its
start moves to the next row. A change is announced when its best explanation leads both
`old` and `outlier` by `threshold_nats` after at least `least_rows` rows: once, with where it began; that explanation's
regime is A then. Until then the state is provisional: `undecided`. It fails on changes slower than A's memory.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from models import regression as reg
from models.store import part, read_part
from models.windows import Floats

EXPLANATIONS = ("old", "outlier", "spread", "level", "trend", "back")
OLD, OUTLIER, SPREAD, LEVEL, TREND, BACK = range(len(EXPLANATIONS))
CHANGES = (SPREAD, LEVEL, TREND, BACK)
WIDE = 10.0
AUTO_KEPT = 0.98  # memory of the autocorrelation: about 35 rows
AUTO_ROWS, AUTO_PRIOR, AUTO_MOST = 10.0, 3.0, 0.97  # residuals are taken to depend on each other until seen otherwise
AUTO_CLIP = 3.0
LEAST_VARIANCE = 1e-18  # as a share of the level's square
TIGHT = 1e9  # rows that a trend of zero is worth: a level
USUAL_ROWS = 50.0
BACK_ROWS = 10.0  # rows that the regime before is worth when it comes back


@dataclass(frozen=True)
class ChangeParameters:
    """What it takes to believe in a change.

    `threshold_nats`   lead of a change over the old regime and over an outlier. Raising it: fewer changes, later.
    `clip_nats`        the most that one row can say.
    `level_rows`       rows that the prior of a new level is worth: the smaller, the wider it is, and the stronger the
                       evidence that a new level must bring.
    `trend_rows`       the same of a trend, which is zero beforehand.
    `least_rows`       rows that a new regime must have.
    `begin_rows`       rows from which the first regime is believed.
    `half_life_days`   memory of a regime.
    """

    threshold_nats: float = 8.0
    clip_nats: float = 5.0
    level_rows: float = 0.01
    trend_rows: float = 1000.0
    least_rows: int = 5
    begin_rows: int = 10
    half_life_days: float = 7.0

    def __post_init__(self) -> None:
        """Raise ValueError for a number that is not above 0."""
        for field in fields(self):
            if not getattr(self, field.name) > 0:
                msg = f"{field.name} is {getattr(self, field.name)}; wanted a number above 0"
                raise ValueError(msg)


@dataclass(frozen=True)
class Verdict:
    """What is thought of each series after a row, `(n,)`.

    `announced`: a change, just now; it began at `start` (ms), `what` of `EXPLANATIONS` it is, levels `before` and `after`.
    `undecided`: rows do not fit, and the evidence has not decided. `lead` is that of the best change, nats.
    """

    announced: NDArray[np.bool_]
    undecided: NDArray[np.bool_]
    what: NDArray[np.int8]
    start: Floats
    before: Floats
    after: Floats
    lead: Floats


class ChangeState:
    """Regimes and evidence of a number of series: `regimes` (3, columns, n) of A and the two candidates, and the rest."""

    def __init__(self, series: int) -> None:
        self.regimes = np.zeros((3, len(reg.COLUMNS), series))  # A, candidates of LEVEL and TREND
        self.evidence = np.zeros((len(EXPLANATIONS), series))
        self.spread = np.zeros((2, series))  # shape and sum of the spread since the start
        self.back = np.full((3, series), np.nan)  # location, scale, degrees of freedom of the regime before A
        self.auto = np.zeros((3, series))  # sums of squares and of products of residuals, the last one
        self.start = np.zeros((len(EXPLANATIONS), series))  # ms: the last row before each explanation's start
        self.rows = np.zeros((len(EXPLANATIONS), series))  # rows since then
        self.clock = np.zeros((2, series))  # ms: the last row; seconds between rows, usually
        self.first = np.zeros((2, series))  # mean and sum of squares of the first rows

    def dump(self) -> bytes:
        """All arrays as one Arrow part, a row a series."""
        columns = {}
        for name, array in vars(self).items():
            flat = np.ascontiguousarray(np.moveaxis(array, -1, 0)).reshape(array.shape[-1], -1)
            columns[name] = pa.FixedSizeListArray.from_arrays(pa.array(flat.ravel()), flat.shape[1])
        return part(columns, {"columns": list(columns)})

    @classmethod
    def load(cls, data: bytes) -> ChangeState:
        """The inverse of `dump`."""
        arrays, _ = read_part(data)
        state = cls(len(next(iter(arrays.values()))))
        for name, array in vars(state).items():
            flat = arrays[name].flatten().to_numpy(zero_copy_only=False)
            shape = (array.shape[-1], *array.shape[:-1])
            setattr(state, name, np.ascontiguousarray(np.moveaxis(flat.reshape(shape), 0, -1)))
        return state


def step(state: ChangeState, now: Floats, x: Floats, p: ChangeParameters) -> Verdict:
    """Weigh a row of every series, `now` in ms and finite `x`, both `(n,)`, then learn it in place."""
    s = state
    before, kept = _tick(s, now, x, p)
    old = s.regimes[0]
    place, scale, df = reg.predict(old, np.zeros_like(x))
    z = (x - place) / scale
    ready = old[reg.ROWS] >= p.begin_rows
    _open(s, ready & (s.rows == 0), before, place, p)
    rho = np.clip((s.auto[1] + AUTO_PRIOR) / (s.auto[0] + AUTO_ROWS), 0.0, AUTO_MOST)
    gains = np.clip(_gains(s, x, (place, scale, df, z)), -p.clip_nats, p.clip_nats)
    s.evidence += np.where(ready, (1 - rho) / (1 + rho) * gains, 0.0)
    going = ready & (s.evidence > 0)
    going[OLD] = False
    s.evidence *= going
    s.rows = np.where(going, s.rows + 1, 0.0)
    _learn(s, x, going, x - place)
    _residual(s, z)
    reg.learn(old, np.zeros_like(x), x, kept)
    return _decide(s, p, place)


def _tick(s: ChangeState, now: Floats, x: Floats, p: ChangeParameters) -> tuple[Floats, Floats]:
    """The time of the last row, and what is kept of a regime since; regimes age. Their clock stands at 0 for this row."""
    old = s.regimes[0]
    new = old[reg.SHAPE] == 0
    before = np.where(new, now, s.clock[0])
    seconds, usual = np.maximum(now - before, 0.0) / 1000, s.clock[1]
    gain = 1 / np.minimum(old[reg.ROWS] + 1, USUAL_ROWS)
    s.clock[1] = np.where(usual > 0, usual + gain * (np.minimum(seconds, 3 * usual) - usual), seconds)
    s.clock[0] = now
    if new.any():
        floor = LEAST_VARIANCE * (x * x + 1)
        old[:, new] = reg.begin(np.zeros_like(x), x, floor, (p.level_rows, 1.0, p.trend_rows))[:, new]
    s.regimes[:, reg.SINCE] -= np.minimum(seconds / np.maximum(s.clock[1], 1e-9), 1e6)
    _first_spread(s, x, p)
    return before, np.exp2(-seconds / (86400 * p.half_life_days))


def _first_spread(s: ChangeState, x: Floats, p: ChangeParameters) -> None:
    """The variance of the first rows is what a spread is taken to be beforehand."""
    rows = s.regimes[0, reg.ROWS]
    delta = np.where(rows < p.begin_rows, x - s.first[0], 0.0)
    s.first[0] += delta / (rows + 1)
    s.first[1] += delta * (x - s.first[0])
    last = rows == p.begin_rows - 1
    s.regimes[0, reg.SUM] += np.where(last, 2 * s.first[1] / (rows + 1), 0.0)


def _open(s: ChangeState, opening: NDArray[np.bool_], before: Floats, place: Floats, p: ChangeParameters) -> None:
    """Explanations that begin with this row: where A would be, with A's spread. `opening` is `(explanations, n)`."""
    old = s.regimes[0]
    variance = old[reg.SUM] / (2 * old[reg.SHAPE]) + LEAST_VARIANCE * (place * place + 1)
    for k, name, trend in ((1, LEVEL, TIGHT), (2, TREND, p.trend_rows)):
        fresh = reg.begin(np.zeros_like(place), place, variance, (p.level_rows, 1.0, trend))
        s.regimes[k] = np.where(opening[name], fresh, s.regimes[k])
    s.spread = np.where(opening[SPREAD], np.stack([np.ones_like(place), 2 * variance]), s.spread)
    s.start = np.where(opening, before, s.start)


def _gains(s: ChangeState, x: Floats, old: tuple[Floats, Floats, Floats, Floats]) -> Floats:
    """ln p_i(x) - ln p_A(x) for every explanation, `(explanations, n)`; 0 where one cannot be had."""
    place, scale, df, z = old
    base = reg.log_density(z, scale, df)
    gains = np.zeros_like(s.evidence)
    gains[OUTLIER] = reg.log_density(z / WIDE, scale * WIDE, df) - base
    with np.errstate(divide="ignore", invalid="ignore"):
        own = np.sqrt(s.spread[1] / (2 * s.spread[0]))
        gains[SPREAD] = reg.log_density((x - place) / own, own, 2 * s.spread[0]) - base
        for k, name in ((1, LEVEL), (2, TREND)):
            where, wide, free = reg.predict(s.regimes[k], np.zeros_like(x))
            gains[name] = reg.log_density((x - where) / wide, wide, free) - base
        gains[BACK] = reg.log_density((x - s.back[0]) / s.back[1], s.back[1], s.back[2]) - base
    return np.nan_to_num(gains)


def _learn(s: ChangeState, x: Floats, going: NDArray[np.bool_], error: Floats) -> None:
    """Candidates take in a row that they explain."""
    for k, name in ((1, LEVEL), (2, TREND)):
        rows = np.flatnonzero(going[name])
        if len(rows):
            chosen = s.regimes[k][:, rows]
            reg.learn(chosen, np.zeros(len(rows)), x[rows])
            s.regimes[k][:, rows] = chosen
    s.spread += going[SPREAD] * np.stack([np.full_like(error, 0.5), error * error])


def _residual(s: ChangeState, z: Floats) -> None:
    """The autocorrelation of A's residuals."""
    bounded = np.clip(z, -AUTO_CLIP, AUTO_CLIP)
    s.auto[0] = s.auto[0] * AUTO_KEPT + bounded * bounded
    s.auto[1] = s.auto[1] * AUTO_KEPT + bounded * s.auto[2]
    s.auto[2] = bounded


def _decide(s: ChangeState, p: ChangeParameters, place: Floats) -> Verdict:
    """Announce what leads by enough, and make it the regime."""
    names = np.array(CHANGES)
    what = names[np.where(s.rows[names] >= p.least_rows, s.evidence[names], -1.0).argmax(axis=0)]
    each = np.arange(len(place))
    lead = s.evidence[what, each] - s.evidence[OUTLIER]
    announced = (s.rows[what, each] >= p.least_rows) & (lead > p.threshold_nats)
    undecided = (s.rows[names].max(axis=0) > 0) & ~announced
    after = place.copy()
    start = s.start[what, each]
    rows = np.flatnonzero(announced)
    if len(rows):
        after[rows] = _adopt(s, rows, what[rows], place[rows], p)
    return Verdict(announced, undecided, what.astype(np.int8), start, place, after, lead)


def _adopt(
    s: ChangeState, rows: NDArray[np.int64], what: NDArray[np.int64], place: Floats, p: ChangeParameters
) -> Floats:
    """The explanation becomes the regime; answers its level."""
    old = s.regimes[0][:, rows]
    _, scale, df = reg.predict(old, np.zeros(len(rows)))
    new = np.where(what == TREND, s.regimes[2][:, rows], s.regimes[1][:, rows])
    new[reg.P2] -= np.where(what == TREND, 0.0, TIGHT - p.trend_rows)  # a level may have a trend from now on
    same = old.copy()
    same[reg.SHAPE], same[reg.SUM] = s.spread[0, rows], s.spread[1, rows]
    back = reg.begin(
        np.zeros(len(rows)), s.back[0, rows], s.back[1, rows] ** 2, (BACK_ROWS, BACK_ROWS / 2, p.trend_rows)
    )
    new = np.where(what == SPREAD, same, np.where(what == BACK, back, new))
    s.back[:, rows] = np.stack([place, scale, df])
    s.regimes[0][:, rows] = new
    s.evidence[:, rows] = s.rows[:, rows] = 0.0
    s.auto[2, rows] = 0.0
    return reg.predict(new, np.zeros(len(rows)))[0]
