"""Gauges and counters of a window: their values, scores and learning. Episodes are those of `gauge_episodes`.

Counters become rates per second. Values are scored by the univariate model, or a challenger in its place. A run of equal
values is scored by the lengths of earlier runs. Rules and labels may raise the threshold or forbid learning.

Whether an episode may open (`confirm_seconds`, or `confirm_nats` in two or more windows) is decided by `compiled_metrics.count_runs_above`;
stuck values open at `stuck_nats`.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from models.challengers.memory import ChallengerMemories
from models.challengers.model import ChallengedUnivariate
from models.core.arrays import Array, Bools, Floats, Ints
from models.core.parameters import LONGEST_SECONDS, DetectorParameters
from models.core.windows import Windows
from models.detection import compiled_metrics as step
from models.detection import gauge_columns as col
from models.detection.change_point import ChangeParameters
from models.detection.control import Control
from models.detection.host_columns import WINDOWS
from models.detection.labels import DOWN, ROUGHNESS, UP, pattern_name
from models.detection.newcomers import Newcomers
from models.detection.shard_state import ShardState, ShardWindow
from models.rules.table import Applied, deviates, own_or_usual
from models.stats import normal_gamma
from models.univariate.model import Univariate
from models.univariate.parameters import UnivariateParameters
from models.univariate.predictive import DEGREES
from models.univariate.univariate_state import ROUGH

RUN_COLUMNS = [col.REPEAT_SECONDS, col.REPEAT_EVIDENCE, *range(col.REPEAT.start, col.REPEAT.stop)]
LONGER = 2.0  # a run of equal values has a surprise once it is so many times as long as any before
ROWS = {
    "score": step.SCORE,
    "value": step.VALUE,
    "typical": step.TYPICAL,
    "lower": step.LOWER,
    "upper": step.UPPER,
    "base": step.BASE,
    "calibration_gap": step.GAP,
    "stuck": step.STUCK,
    "dominant_feature": step.DOMINANT,
    "health": step.HEALTH,
    "last_seen": step.LAST_SEEN,
    "apart": step.APART,
    "alert_nats": step.ALERT,
}  # attributes of `GaugeScores` that are found by compiled code
COLUMNS_TO_RESTORE = [col.NEGATIVE, *RUN_COLUMNS, col.LONGEST_REPEAT_SECONDS]


class GaugeScores(NamedTuple):
    """What was found of each metric row of a window; all arrays `(n,)`, NaN where nothing is known.

    Attributes
    ----------
    score, value, typical, lower, upper, health
        As in `models.core.windows.Scores`.
    base
        Surprise under the reference distribution, nats, less what rules and labels demand. Episodes open and end by it.
    calibration_gap
        How much more that surprise is than under the series' own calibration, nats.
    stuck
        Surprise of the run of exactly equal values, nats, less what labels demand.
    dominant_feature
        Index in `FEATURES` of the feature that is nearly as rare as the rarest.
    extra_nats
        What rules and labels demand beyond the alert threshold, nats; infinite where no deviation counts.
    last_seen
        End of the last window with a row before this one, epoch ms; 0 if there was none.
    apart
        Windows from one row of the series to the next, typically, at least one.
    alert_nats
        The alert threshold of the series, by how far its rows are apart, nats.
    persistent
        Whether the series has been above the alert threshold for long enough to open an episode.
    strays
        Whether the value is so far off that the series may be changing.
    not_learnt
        Whether a rule keeps the model from learning the row.
    quiet
        Whether no row strays, is persistent or stuck.
    """

    score: Floats
    value: Floats
    typical: Floats
    lower: Floats
    upper: Floats
    base: Floats
    calibration_gap: Floats
    stuck: Floats
    dominant_feature: Floats
    health: Floats
    extra_nats: Floats
    last_seen: Floats
    apart: Floats
    alert_nats: Floats
    persistent: Bools
    strays: Bools
    not_learnt: Bools
    quiet: bool


def _nothing() -> GaugeScores:
    none = np.zeros(0)
    return GaugeScores(
        **dict.fromkeys(ROWS, none),
        extra_nats=none,
        persistent=none > 0,
        strays=none > 0,
        not_learnt=none > 0,
        quiet=True,
    )


NO_METRICS = _nothing()


class GaugeDetector:
    """Scores and learns the metric series of a shard."""

    def __init__(
        self,
        state: ShardState,
        p: DetectorParameters,
        control: Control,
        model: Univariate,
        settings: UnivariateParameters,
        newcomers: Newcomers,
    ) -> None:
        self._state, self._p, self._model, self._newcomers = state, p, model, newcomers
        self.rules = GaugeRules(control, model, settings, p)
        self._thresholds = _thresholds(p)

    def score(self, window: ShardWindow) -> GaugeScores:
        """Learn that the metrics of a window are present, score them by what was known before it, then learn them."""
        state, index, now, n = self._state, window.gauges, float(window.end), window.metrics
        self._model.state.grow(len(state.gauges))
        self.rules.apply_overrides(self._warm_up())
        if not n:
            return NO_METRICS
        numbers, owners = state.gauges.storage
        given, found = _window_columns(window), np.empty((step.FOUND, n))
        known, hot = np.arange(n), self._model.state.hot
        counters = bisect_left(window.rows.series, "gauge/", 0, n)
        windows, previous = state.hosts.storage[0][WINDOWS], (hot["previous"], hot["rows"], hot["interval"])
        half_life = 3_600_000.0 * self._p.habit_half_life_hours
        size = step.find_values(
            numbers, windows, owners, previous, index, counters, given, now, half_life, found, known
        )
        self._judge(window, given, known[:size], found)
        extra_nats = np.zeros(n)
        if self.rules.may_demand:
            extra_nats = self.rules.extra_nats(
                found[step.VALUE] - found[step.TYPICAL], found[step.TYPICAL], index, rough=_is_rough(found)
            )
            self.rules.subtract(found[step.BASE], found[step.STUCK], extra_nats, index)
        not_learnt = self.rules.not_learnt(index)
        found[step.APART] = self.windows_apart(index)
        persistent, strays = np.empty(n, dtype=bool), np.empty(n, dtype=bool)
        quiet = step.count_runs_above(numbers, index, found, not_learnt, now, self._thresholds, persistent, strays)
        return GaugeScores(
            **{name: found[at] for name, at in ROWS.items()},
            extra_nats=extra_nats,
            persistent=persistent,
            strays=strays,
            not_learnt=not_learnt,
            quiet=quiet,
        )

    def _judge(self, window: ShardWindow, given: Floats, known: Ints, found: Floats) -> None:
        """Score and learn the values at the places `known`, which are neither missing nor too large; into `found`."""
        index, numbers = window.gauges, self._state.gauges.storage[0]
        if len(known) < len(index):
            index, given = index[known], given[:, known]
        copied = self.rules.copy_not_learnt(index, numbers)
        a = self._model.step(window.end, index, given[step.POINTS], given[step.MEAN], given[step.SQUARES])
        dominant = a.dominant_feature.astype(np.float64)
        answers = a.score, a.base, a.health, dominant, a.typical, a.lower, a.upper
        half_lives = 3600 * self._p.habit_half_life_hours, 3600 * self._p.context_half_life_hours
        longer = math.inf if self._p.challenger else LONGER  # runs are left to the challenger
        step.join_repeats(numbers, window.gauges, known, answers, float(window.end), half_lives, longer, found)
        self.rules.restore(copied, numbers)

    def note_totals(self, now: int, rows: Windows, chosen: Bools) -> None:
        """Remember the totals of the chosen counters, `(n_rows,)`, without scoring or learning their rows.

        Else the first rate after a planned event would be that of the whole event.
        """
        index, matrix = self._state.gauges.index, self._state.gauges.matrix
        for at in np.flatnonzero(chosen).tolist():
            name = rows.series[at]
            if name.startswith("counter/") and name in index:
                matrix[[col.TOTAL, col.SEEN], index[name]] = rows.last[at], now

    def describe_state(self, row: int) -> dict[str, Any]:
        """What the model holds of the series at a row of the table, and what it expects of the next window, by name."""
        self.rules.apply_overrides(self._warm_up())
        expected = self._model.expected_next(row)
        if not self._state.gauges.matrix[col.NEGATIVE, row]:
            expected["lower"] = max(expected["lower"], 0.0)
        return expected | self._model.state.describe_state(row)

    def windows_apart(self, rows: Ints | slice) -> Floats:
        """How many windows the rows of some series of the table are apart, typically, at least one, `(n,)`."""
        return np.maximum(np.rint(self._model.state.hot["interval"][0, rows] / self._p.window_seconds), 1.0)

    def _warm_up(self) -> Floats | None:
        """Minutes for which each series warms up if no rule says otherwise, `(series,)`; None where all do for the same time."""
        needed = self._newcomers.needed_minutes(self._p.warm_up_minutes)
        return None if needed is None else needed[self._state.gauges.owner[0]]


def _is_rough(found: Floats) -> Bools:
    """Which rows are strange for their roughness and no value outside its interval, `(n,)`, of what was found of them, `(FOUND, n)`."""
    within = (found[step.LOWER] <= found[step.VALUE]) & (found[step.VALUE] <= found[step.UPPER])
    out: Bools = within & (found[step.DOMINANT] == ROUGH)
    return out


def _thresholds(p: DetectorParameters) -> Floats:
    """The parameters of `compiled_metrics.count_runs_above`."""
    found = np.empty(7)
    found[[step.ALERT_NATS, step.WINDOW_SECONDS, step.STUCK_NATS]] = p.alert_nats, p.window_seconds, p.stuck_nats
    found[[step.CONFIRM_NATS, step.CONFIRM_SECONDS]] = p.confirm_nats, p.confirm_seconds
    found[step.REACH] = normal_gamma.t_quantile(DEGREES, p.interval_probability)
    found[step.OPEN_SCALES] = ChangeParameters().open_scales if p.changes_below_alert else np.inf
    return found


def _window_columns(window: ShardWindow) -> Floats:
    """What came of the metrics of a window, as `compiled_metrics.find_values` takes it, `(GIVEN, n)`."""
    rows, n = window.rows, window.metrics
    given = np.empty((step.GIVEN, n))
    given[step.POINTS], given[step.MEAN], given[step.SQUARES], given[step.LAST] = (
        column[:n] for column in (rows.n, rows.mean, rows.m2, rows.last)
    )
    return given


@dataclass(frozen=True)
class CopiedRows:
    """What was known of `rows` of the table that are not to be learnt.

    `model` is the univariate state, `columns` are the columns `COLUMNS_TO_RESTORE` of the table.
    """

    rows: Ints
    model: Mapping[str, Array]
    columns: Floats


class GaugeRules:
    """What rules and labels do to metrics: how each is learnt, which rows are not, and how much of a score counts."""

    def __init__(
        self, control: Control, model: Univariate, settings: UnivariateParameters, p: DetectorParameters
    ) -> None:
        self._control, self._model, self._settings, self._p = control, model, settings, p
        self._followed: Applied | None = None
        self._overrides: dict[str, Floats] = {}

    def apply_overrides(self, warm_up: Floats | None) -> None:
        """Give the model the parameters of each series by the rules that hold now; `warm_up` are minutes, `(series,)`, where no rule holds."""
        applied = self._control.applied_to("gauges")
        if applied is not self._followed:
            self._followed = applied
            self._overrides = {} if applied is None else find_overrides(applied, self._settings)
        self._model.overrides = self._overrides
        if warm_up is not None:
            minutes = warm_up if applied is None else own_or_usual(applied.warm_up_minutes, warm_up)
            self._model.overrides = self._overrides | {"warm_up_minutes": minutes}

    @property
    def may_demand(self) -> bool:
        """Whether a label or a rule that holds may demand more of a deviation."""
        return self._followed is not None or self._control.labels.has_demands

    def not_learnt(self, rows: Ints) -> Bools:
        """Which of `rows` in the table are not to be learnt, `(n,)`."""
        held: Bools = np.zeros(len(rows), dtype=bool) if self._followed is None else self._followed.dont_learn[rows]
        return held

    def copy_not_learnt(self, rows: Ints, columns: Floats) -> CopiedRows | None:
        """A copy of what is known of those of `rows` that are not to be learnt; None if all are. `columns` are those of the table."""
        if self._followed is None or not (held := self._followed.dont_learn[rows]).any():
            return None
        chosen = rows[held]
        return CopiedRows(chosen, self._model.copied(chosen), columns[np.ix_(COLUMNS_TO_RESTORE, chosen)])

    def restore(self, copied: CopiedRows | None, columns: Floats) -> None:
        """Undo what was learnt since the copy; `columns` in place."""
        if copied is not None:
            self._model.put_back(copied.rows, copied.model)
            columns[np.ix_(COLUMNS_TO_RESTORE, copied.rows)] = copied.columns

    def extra_nats(self, deviation: Floats, typical: Floats, rows: Ints, rough: Bools | None = None) -> Floats:
        """Nats beyond the alert threshold that labels and rules demand of each deviation, `(n,)`.

        Infinite where a rule says that the deviation does not count: too small, or in a direction without interest. `rough` are the rows that
        are strange for their roughness alone, `(n,)`; None if none is.
        """
        extra_nats = np.zeros(len(rows))
        if self._control.labels.has_demands:
            demand, size = self._control.labels.demanded_nats, np.abs(deviation)
            down, up = (demand("gauges", pattern_name("strange", way), rows, size) for way in (DOWN, UP))
            extra_nats = np.where(deviation < 0, down, up)
            if rough is not None:
                extra_nats = np.where(rough, demand("gauges", pattern_name("strange", ROUGHNESS), rows), extra_nats)
        applied = self._followed
        if applied is None:
            return extra_nats
        return extra_nats + rule_nats(applied, self._p, deviation, typical, rows)

    def subtract(self, base: Floats, stuck: Floats, extra_nats: Floats, rows: Ints) -> None:
        """Take from `base` and `stuck`, in place, `extra_nats` and what labels demand; where the first is infinite, `base` becomes 0."""
        if self._control.labels.has_demands:
            stuck -= self._control.labels.demanded_nats("gauges", "stuck", rows)
        counted = np.isfinite(extra_nats)
        base[~counted & ~np.isnan(base)] = 0.0
        base -= np.where(counted, extra_nats, 0.0)


def rule_nats(applied: Applied, p: DetectorParameters, deviation: Floats, typical: Floats, rows: Ints) -> Floats:
    """Nats beyond the alert threshold that rules demand of each deviation, `(n,)`; infinite where it does not count."""
    seconds = min(p.window_seconds, LONGEST_SECONDS)
    demanded = np.nan_to_num(-np.log(applied.alarm_chance[rows] * seconds / 3600.0) - p.alert_nats)
    return np.where(deviates(deviation, typical, 1.0, applied, rows), demanded, np.inf)


def find_overrides(applied: Applied, settings: UnivariateParameters) -> dict[str, Floats]:
    """Parameters of each series by name, `(series,)`: those of rules where there are any, else those of all.

    The memory of the healthy state is changed in proportion to that of the level.
    """
    days, minutes = applied.half_life_days, applied.warm_up_minutes
    found: dict[str, Floats] = {}
    if not np.isnan(minutes).all():
        found["warm_up_minutes"] = own_or_usual(minutes, settings.warm_up_minutes)
    if not np.isnan(days).all():
        level, robust = settings.level_half_life_days, settings.robust_half_life_days
        found["level_half_life_days"] = own_or_usual(days, level)
        found["robust_half_life_days"] = own_or_usual(days * robust / level, robust)
    return found


def make_model(p: DetectorParameters, settings: UnivariateParameters, state: ShardState) -> Univariate:
    """The model of the metrics of a shard: the univariate model, or the challenger that the parameters name."""
    if not p.challenger:
        state.challengers = None  # of a version that had one
        return Univariate(settings, state.univariate)
    state.challengers = state.challengers or ChallengerMemories()
    return ChallengedUnivariate(p, settings, state.univariate, state.challengers)
