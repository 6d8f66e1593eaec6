"""Bounds of single records: what `detect` publishes for the lane in real time, which compares each record when it is appended.

A bound is news with a probability of at most `chance` a record and side. Each shard has its share of the early alarms that chance may make in a
day, and divides it by the records that its own series have in a day, so that the sum over the shards is right however series are spread.

What was written last is memory of a worker: it is no part of the state, and no result depends on it. After a restart all bounds are written once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from models.core.arrays import Bools, Floats, Ints
from models.core.parameters import DetectorParameters
from models.detection import gauge_columns as col
from models.detection.control import Control
from models.detection.gauge_detector import GaugeDetector
from models.detection.shard_state import DAY_MS, ShardState, ShardWindow
from models.detection.value_bounds import CUSHION, value_bounds
from models.records.records import Bound
from models.univariate.model import Univariate
from models.univariate.univariate_state import WITHIN

# Columns of what is remembered of each series: what was written, when (epoch ms; 0: never, or there is no bound), when it was looked at, the
# distances found, the points in a window, the largest distances of single points from the means of their windows, and after which time, ms, it is
# looked at again; the least and the largest value that came to nothing, of this day and of the day before, and of the run above the alert
# threshold that may still become an episode (NaN: none); whether it is a counter.
LOWER, UPPER, TYPICAL, WRITTEN, LOOKED, DOWN, UP, POINTS, FAR_DOWN, FAR_UP, PAUSE, *_ = range(18)
LEAST, LEAST_BEFORE, LEAST_OF_RUN, MOST, MOST_BEFORE, MOST_OF_RUN, COUNTER = range(11, 18)
COLUMNS = 18

LOOK_MS = 600_000  # how often a series is looked at whose bounds move
LONGEST_PAUSE_MS = 4 * LOOK_MS  # and one whose bounds do not, after twice as long each time
AGAIN_MS = (
    3_600_000  # how often a bound is written that has not moved: the topic forgets after `topics.retention_hours`
)
MOVED = 0.1  # of the distance from the middle: a bound that has moved so far is written
USED = 0.8  # of that distance: a series whose value has come so far is looked at with the next ones
EVERY_MS = 60_000  # how often series are looked at, many together: a few cost nearly as much
AT_ONCE, LEAST_AT_ONCE = 0.05, 2000  # share and number of series that are looked at in a window at most
RECORDS_HALF_LIFE = 360.0  # windows
LIKE = 1.25  # numbers of records within this factor have the same chance
POINTS_GAIN = 0.05
FAR_KEPT = 0.9999  # a window: a day or so, of windows of ten seconds
DEGREES = 8  # of single points around the mean of their window
SPREADS = 2.0  # standard deviations by which the spread within windows is taken as larger than usual


@dataclass(frozen=True)
class EarlyParameters:
    """What bounds are made for: the early alarms that chance may make in a day in the whole fleet, and in how many shards that is."""

    false_alarms_a_day: float
    shards: int


class AlarmBounds:
    """Bounds of the metric series of a shard, of which those are answered that have changed."""

    def __init__(
        self,
        state: ShardState,
        p: DetectorParameters,
        control: Control,
        gauges: GaugeDetector,
        model: Univariate,
        early: EarlyParameters,
    ) -> None:
        self._state, self._p, self._control, self._gauges, self._model = state, p, control, gauges, model
        self._share = early.false_alarms_a_day / early.shards
        self._names: list[str] | None = None
        self._known: dict[str, int] = {}
        self._s = new_columns([])
        self._records = 0.0  # in a window, recently
        self._chance = math.nan
        self._next = 0  # when series are looked at again, epoch ms
        self._day = 0

    def step(self, window: ShardWindow) -> list[Bound]:
        """The bounds that have changed with a window, which has been learnt; without a challenger."""
        now = window.end
        if self._p.challenger:
            return []
        self._follow_table()
        self._count_records(window)
        opened = self._rows_with_episode()
        closed = self._cannot_alarm(opened)
        self._note_quiet_range(window, opened)
        gone = np.flatnonzero(closed & (self._s[WRITTEN] > 0))
        self._s[WRITTEN, gone], self._s[LOOKED, gone] = 0.0, 0.0
        due = self._rows_to_update(window, closed)
        changed = self._update(due, now)
        return [*(self._no_bound(row, now) for row in gone.tolist()), *self._bounds(changed, now)]

    def _no_bound(self, row: int, now: int) -> Bound:
        """That a series has no bound."""
        return Bound(series=self._state.gauges.names[row], window_end=now)

    def _bounds(self, rows: Ints, now: int) -> Iterator[Bound]:
        """The bounds of some series as they are remembered."""
        names, chance = self._state.gauges.names, self._chance
        for row, lower, upper, typical in zip(rows.tolist(), *self._s[LOWER : TYPICAL + 1, rows].tolist(), strict=True):
            if math.isnan(lower) and math.isnan(upper):
                yield self._no_bound(row, now)
            else:
                yield Bound(series=names[row], window_end=now, lower=lower, upper=upper, typical=typical, chance=chance)

    def _follow_table(self) -> None:
        """Follow the table of metrics: new rows are empty; where rows have moved, what is remembered moves with their names."""
        names = self._state.gauges.names
        if self._names is not None and names is not self._names:
            before = [self._known.get(name, -1) for name in names]
            moved = new_columns(names)
            at = np.array(before, dtype=np.int64)
            moved[:COUNTER, at >= 0] = self._s[:COUNTER, at[at >= 0]]
            self._s = moved
        self._names, self._known = names, self._state.gauges.index
        more = len(names) - self._s.shape[1]
        if more:
            self._s = np.concatenate([self._s, new_columns(names[-more:])], axis=1)

    def _count_records(self, window: ShardWindow) -> None:
        """Count the records of a window, and note how far single points are from its means."""
        n, s = window.rows.n[: window.metrics].astype(np.float64), self._s
        total = float(n.sum())
        gain = 1 - 2 ** (-1 / RECORDS_HALF_LIFE)
        self._records = self._records + gain * (total - self._records) if self._records else total
        if self._records > 0:
            a_day = self._records * 86_400.0 / self._p.window_seconds
            chance = min(self._share / (2 * a_day), 0.5)
            if math.isnan(self._chance) or abs(math.log(chance / self._chance)) > math.log(LIKE):
                self._chance = chance
        at = window.gauges
        points = s[POINTS, at]
        other = np.flatnonzero(points != n)
        if len(other):
            before = points[other]
            s[POINTS, at[other]] = np.where(before > 0, before + POINTS_GAIN * (n[other] - before), n[other])
        several = np.flatnonzero(n > 1)
        if len(several):
            at, mean = at[several], window.rows.mean[several]
            s[FAR_DOWN, at] = np.fmax(FAR_KEPT * s[FAR_DOWN, at], mean - window.rows.min[several])
            s[FAR_UP, at] = np.fmax(FAR_KEPT * s[FAR_UP, at], window.rows.max[several] - mean)

    def _note_quiet_range(self, window: ShardWindow, opened: Ints) -> None:
        """Note the least and the largest values that came to nothing: not those of an episode, nor those that may still become one."""
        s, at = self._s, window.gauges[self._model.state.hot["rows"][0, window.gauges] > 0]
        if window.end // DAY_MS != self._day:
            self._day = window.end // DAY_MS
            s[[LEAST_BEFORE, MOST_BEFORE]], s[[LEAST, MOST]] = s[[LEAST, MOST]], np.nan
        s[LEAST_OF_RUN, opened] = s[MOST_OF_RUN, opened] = np.nan
        value, above = self._model.state.hot["previous"][0, at], self._state.gauges.matrix[col.ALERT_SECONDS, at] > 0
        if len(opened) or above.any():
            is_open = np.zeros(s.shape[1], dtype=bool)
            is_open[opened] = True
            run, ended = above & ~is_open[at], ~(above | is_open[at])
            s[LEAST_OF_RUN, at[run]] = np.fmin(s[LEAST_OF_RUN, at[run]], value[run])
            s[MOST_OF_RUN, at[run]] = np.fmax(s[MOST_OF_RUN, at[run]], value[run])
            at, value = at[ended], value[ended]
        less, more = ~(value >= s[LEAST, at]), ~(value <= s[MOST, at])
        s[LEAST, at[less]], s[MOST, at[more]] = value[less], value[more]
        over = at[~np.isnan(s[MOST_OF_RUN, at])]
        if len(over):
            s[LEAST, over] = np.fmin(s[LEAST, over], s[LEAST_OF_RUN, over])
            s[MOST, over] = np.fmax(s[MOST, over], s[MOST_OF_RUN, over])
            s[LEAST_OF_RUN, over] = s[MOST_OF_RUN, over] = np.nan

    def _rows_with_episode(self) -> Ints:
        """The rows of the series that have an open episode."""
        index = self._state.gauges.index
        return np.array([index[name] for name in self._state.episodes.open if name in index], dtype=np.int64)

    def _cannot_alarm(self, opened: Ints) -> Bools:
        """Which series cannot alarm anew, `(n,)`: those that have an open episode or are about to, are muted or planned, or have had too few rows."""
        closed: Bools = (self._state.gauges.matrix[col.ALERT_SECONDS] > 0) | (self._s[POINTS] == 0)
        closed |= self._model.state.hot["rows"][0] == 0
        closed[opened] = True
        applied = self._control.applied_to("gauges")
        if applied is not None:
            closed |= applied.muted | applied.planned
        return closed

    def _rows_to_update(self, window: ShardWindow, closed: Bools) -> Ints:
        """The rows to look at: those whose values have come near their bounds, then those that were looked at longest ago."""
        s = self._s
        if window.end < self._next:
            return np.zeros(0, dtype=np.int64)
        urgent = np.zeros(len(closed), dtype=bool)
        at = window.gauges[s[WRITTEN, window.gauges] > 0]
        off = self._model.state.hot["previous"][0, at] - s[TYPICAL, at]
        with np.errstate(invalid="ignore"):
            urgent[at] = (off > USED * (s[UPPER, at] - s[TYPICAL, at])) | (off < USED * (s[LOWER, at] - s[TYPICAL, at]))
        due = np.flatnonzero((urgent | (window.end - s[LOOKED] >= s[PAUSE])) & ~closed)
        most = max(LEAST_AT_ONCE, int(AT_ONCE * len(closed)))
        self._next = window.end + EVERY_MS if len(due) <= most else 0
        if len(due) > most:
            order = np.where(urgent[due], -1.0, s[LOOKED, due])
            due = np.sort(due[np.argpartition(order, most)[:most]])
        return due

    def _update(self, rows: Ints, now: int) -> Ints:
        """Find the bounds of some series; remembers and answers those that are to be written."""
        s = self._s
        if not len(rows):
            return rows
        nats = max(-math.log(self._chance), self._p.alert_nats)
        found = value_bounds(self._model, self._gauges.rules, self._p, rows, nats, (s[DOWN, rows], s[UP, rows]))
        s[DOWN, rows], s[UP, rows], s[LOOKED, rows] = found.down, found.up, now
        lower, upper = self._single_record_bounds(rows, found.centre, found.down, found.up)
        written = s[WRITTEN, rows] > 0
        there = ~(np.isnan(lower) & np.isnan(upper))
        moved = has_moved(s[LOWER, rows], lower, found.centre) | has_moved(s[UPPER, rows], upper, found.centre)
        s[PAUSE, rows] = np.where(moved, LOOK_MS, np.clip(2 * s[PAUSE, rows], LOOK_MS, LONGEST_PAUSE_MS))
        changed = np.where(written, moved | (now - s[WRITTEN, rows] >= AGAIN_MS), there)
        chosen = rows[changed]
        s[LOWER, chosen], s[UPPER, chosen] = lower[changed], upper[changed]
        s[TYPICAL, chosen] = found.centre[changed]
        s[WRITTEN, chosen] = np.where(there[changed], now, 0.0)
        return chosen

    def _single_record_bounds(self, rows: Ints, centre: Floats, down: Floats, up: Floats) -> tuple[Floats, Floats]:
        """Bounds of single records, of distances of means: NaN where nothing is news.

        Of several points in a window each strays from its mean as well. Several records of a counter may have all that it grows by in one of
        them, and nothing in the others.
        """
        s, hot = self._s, self._model.state.hot
        counter = s[COUNTER, rows] > 0
        points = np.maximum(np.rint(s[POINTS, rows]), 1.0)
        several = points > 1
        spread = spread_within_window(
            hot["mean"][WITHIN, rows], hot["sums"][WITHIN, rows], hot["within_weight"][0, rows]
        )
        reach = np.where(several & ~counter, spread * -float(special.stdtrit(DEGREES, self._chance)), 0.0)
        with np.errstate(invalid="ignore"):
            least, most = np.fmin(*s[[LEAST, LEAST_BEFORE]][:, rows]), np.fmax(*s[[MOST, MOST_BEFORE]][:, rows])
            down, up = np.fmax(down, CUSHION * (centre - least)), np.fmax(up, CUSHION * (most - centre))
        below = down + np.where(several & ~counter, np.maximum(reach, 2 * s[FAR_DOWN, rows]), 0.0)
        above = up + np.where(several & ~counter, np.maximum(reach, 2 * s[FAR_UP, rows]), 0.0)
        lower, upper = centre - below, centre + above
        upper = np.where(counter, np.maximum(points, 1.0) * upper, upper)
        never = (self._state.gauges.matrix[col.NEGATIVE, rows] == 0) & (lower < 0)
        lower[np.isinf(lower) | (counter & several) | never] = np.nan
        upper[np.isinf(upper)] = np.nan
        return lower, upper


def new_columns(names: Sequence[str]) -> Floats:
    """What is remembered of series that are new, `(COLUMNS, n)`."""
    found = np.zeros((COLUMNS, len(names)))
    found[LEAST:COUNTER] = np.nan
    found[COUNTER] = [name.startswith("counter/") for name in names]
    return found


def spread_within_window(mean: Floats, sums: Floats, weight: Floats) -> Floats:
    """Standard deviation of points within a window, `SPREADS` larger than usual, of the memory of its logarithm, `(n,)`."""
    deviation = np.sqrt(sums / np.maximum(weight, 1.0))
    return np.exp(np.minimum(mean + SPREADS * deviation, 300.0))


def has_moved(before: Floats, after: Floats, centre: Floats) -> Bools:
    """Which bounds have come, gone, or moved by more than `MOVED` of their distance from the middle, `(n,)`."""
    with np.errstate(invalid="ignore"):
        far = np.abs(after - before) > MOVED * np.abs(after - centre)
    found: Bools = far | (np.isnan(before) != np.isnan(after))
    return found
