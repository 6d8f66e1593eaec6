"""Gauges and counters of a window: their values, scores and learning. Episodes are those of `gauge_episodes`.

Counters become rates per second. Values are scored by the univariate model, or a challenger in its place. A run of equal
values is scored by the lengths of earlier runs. Rules and labels may raise the threshold or forbid learning.

Whether an episode may open (`confirm_seconds`, or `confirm_nats` in two or more windows) is decided by `GaugeDetector._persistent`;
stuck values open at `stuck_nats`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from models.challengers.memory import ChallengerMemories
from models.challengers.model import ChallengedUnivariate
from models.core.arrays import Array, Bools, Floats, Ints
from models.core.parameters import LONGEST_SECONDS, DetectorParameters
from models.core.windows import Windows
from models.detection import gauge_columns as col
from models.detection.control import Control
from models.detection.shard_state import ShardState, ShardWindow
from models.rules.table import Applied, deviates
from models.stats import run_length
from models.stats.interval_distance import in_widths, two_farthest
from models.univariate.model import Univariate
from models.univariate.parameters import UnivariateParameters

STAYS = 0.75  # a value that keeps this share of its distance from the typical one is not on its way back
LARGEST = 1e150  # squares of larger values would overflow
MOST_REPEATED = 0.5  # share of repeated values up to which a series counts as one that varies
LONGER = 2.0  # a run of equal values has a surprise once it is so many times as long as any before
RUN_COLUMNS = [col.REPEAT_SECONDS, col.REPEAT_EVIDENCE, *range(col.REPEAT.start, col.REPEAT.stop)]
COLUMNS_TO_RESTORE = [col.NEGATIVE, *RUN_COLUMNS, col.LONGEST_REPEAT_SECONDS]


@dataclass(frozen=True)
class GaugeScores:
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
    persistent
        Whether the series has been above the alert threshold for long enough to open an episode.
    not_learnt
        Whether a rule keeps the model from learning the row.
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
    persistent: Bools
    not_learnt: Bools


class GaugeDetector:
    """Scores and learns the metric series of a shard."""

    def __init__(
        self,
        state: ShardState,
        p: DetectorParameters,
        control: Control,
        model: Univariate,
        settings: UnivariateParameters,
    ) -> None:
        self._state, self._p, self._model = state, p, model
        self.rules = GaugeRules(control, model, settings, p)

    def score(self, window: ShardWindow) -> GaugeScores:
        """Score the metric rows of a window by what was known before it, then learn them."""
        gauges, index, now = self._state.gauges, window.gauges, window.end
        self._model.state.grow(len(gauges))
        self.rules.follow()
        s = gauges.matrix[:, index]
        last_seen = s[col.SEEN].copy()
        values = self._values(s, window)
        found = self._judge(s, values, window)
        extra_nats = self.rules.extra_nats(found["value"] - found["typical"], found["typical"], index)
        self.rules.subtract(found["base"], found["stuck"], extra_nats, index)
        begins = s[col.ALERT_SECONDS] == 0
        persistent = self._persistent(s, found["base"], found.pop("distance_kept"), now)
        note_distances(s, begins, found)
        s[col.SEEN] = now
        col.round_off(s)
        gauges.matrix[:, index] = s
        return GaugeScores(
            **found,
            extra_nats=extra_nats,
            last_seen=last_seen,
            persistent=persistent,
            not_learnt=self.rules.not_learnt(index),
        )

    def _values(self, s: Floats, window: ShardWindow) -> Floats:
        """The values to be scored, `(n,)`: means of gauges, rates of counters, NaN where there is none; notes totals in `s`."""
        x = window.rows.mean[: window.metrics].astype(np.float64)
        counters = bisect_left(window.rows.series, "gauge/", 0, window.metrics)
        if counters:
            last = window.rows.last[:counters]
            seconds = (window.end - s[col.SEEN, :counters]) / 1000.0
            x[:counters] = rates(last, s[col.TOTAL, :counters], seconds)
            s[col.TOTAL, :counters] = last
        return x

    def _judge(self, s: Floats, x: Floats, window: ShardWindow) -> dict[str, Floats]:
        """Scores of the values by name, `(n,)` each, NaN for values that are missing or too large; learns the others."""
        now = window.end
        known = np.flatnonzero(np.abs(x) < LARGEST)  # false for NaN
        values, at, part = x[known], window.gauges[known], s[:, known]
        counters = bisect_left(window.rows.series, "gauge/", 0, len(x))
        points = np.where(known < counters, 1, window.rows.n[known])  # a rate has no spread within its window
        hot = self._model.state.hot
        before = hot["previous"][0, at].copy()
        same = (values == before) & (hot["rows"][0, at] > 0)
        copied = self.rules.copied(at, part)
        answers = self._model.step(now, at, points, values, np.nan_to_num(window.rows.m2[known]))
        warming = np.isnan(answers.base)
        seconds = (now - part[col.SEEN]) / 1000
        half_lives = 3600 * self._p.habit_half_life_hours, 3600 * self._p.context_half_life_hours
        stuck = score_repeats(part, values, same, warming, seconds, half_lives)
        stuck[warming | bool(self._p.challenger)] = 0.0
        lower = np.where(part[col.NEGATIVE] > 0, answers.lower, np.maximum(answers.lower, 0.0))
        part[col.NEGATIVE] = np.maximum(part[col.NEGATIVE], values < 0)
        self.rules.put_back(copied, part)
        s[:, known] = part
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            distance_kept = (values - answers.typical) / (before - answers.typical)
        found = {
            "score": np.maximum(answers.score, stuck),
            "value": values,
            "typical": answers.typical,
            "lower": lower,
            "upper": answers.upper,
            "base": answers.base,
            "calibration_gap": answers.base - answers.score,
            "stuck": stuck,
            "dominant_feature": answers.dominant_feature.astype(np.float64),
            "health": answers.health,
            "distance_kept": distance_kept,
        }
        if len(known) == len(x):
            return found
        full = {name: np.full(len(x), np.nan) for name in found}
        for name, column in found.items():
            full[name][known] = column
        return full

    def _persistent(self, s: Floats, base: Floats, distance_kept: Floats, now: int) -> Bools:
        """Which series have been above the alert threshold for `confirm_seconds`, or in two windows by `confirm_nats`.

        Counts the runs in `s`. A burst without meaning can exceed the threshold by as much, but falls back at once:
        `distance_kept` is the distance from the typical value as a share of that of the value before.
        """
        p, alert_seconds, excess = self._p, s[col.ALERT_SECONDS], s[col.ALERT_EXCESS_NATS]
        above = base >= p.alert_nats
        elapsed_seconds = np.where(alert_seconds > 0, (now - s[col.SEEN]) / 1000, p.window_seconds)
        alert_seconds[:] = np.where(above, alert_seconds + elapsed_seconds, 0.0)
        excess[:] = np.where(above, excess + base - p.alert_nats, 0.0)
        strong = (excess >= p.confirm_nats) & (alert_seconds >= 2 * p.window_seconds) & (distance_kept >= STAYS)
        out: Bools = above & ((alert_seconds >= p.confirm_seconds) | strong)
        return out

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
        self.rules.follow()
        expected = self._model.expects(row)
        if not self._state.gauges.matrix[col.NEGATIVE, row]:
            expected["lower"] = max(expected["lower"], 0.0)
        return expected | self._model.state.describe_state(row)


def note_distances(s: Floats, begins: Bools, found: Mapping[str, Floats]) -> None:
    """Note in `s` how far the values of runs above the alert threshold are, from what was expected when these began.

    `begins` says whose run begins in this window if it is above the threshold, `(n,)`; `found` has the window's values and intervals.
    """
    at = np.flatnonzero(s[col.ALERT_SECONDS] > 0)
    if not len(at):
        return
    fresh = at[begins[at]]
    s[col.ALERT_EXPECTED, fresh] = [found[name][fresh] for name in ("typical", "lower", "upper")]
    s[col.ALERT_FARTHEST, fresh] = s[col.ALERT_SECOND, fresh] = 0.0
    distance = in_widths(found["value"][at], *s[col.ALERT_EXPECTED, at])
    s[col.ALERT_FARTHEST, at], s[col.ALERT_SECOND, at] = two_farthest(
        s[col.ALERT_FARTHEST, at], s[col.ALERT_SECOND, at], distance
    )


def rates(last: Floats, previous: Floats, seconds: Floats) -> Floats:
    """Rates per second of cumulative counters, `(n,)`.

    NaN where the counter was reset (`last` is less than `previous`) or `previous` is not known (NaN): how long it has
    counted is not known then. A counter that is reset in every window has no rate at all.

    Parameters
    ----------
    last, previous
        Totals of this row and of the one before.
    seconds
        Time between them, above 0.
    """
    grown = last - previous
    out: Floats = np.where(grown >= 0, grown, np.nan) / seconds
    return out


def score_repeats(
    s: Floats, x: Floats, repeated: Bools, warming: Bools, seconds: Floats, half_lives: tuple[float, float]
) -> Floats:
    """Surprise of each series' run of exactly equal values, nats, `(n,)`; learns the runs in `s`.

    Runs of 0 have no surprise, as an idle gauge is not a stuck one, nor have those of a series that repeats values half of
    the time, nor those less than `LONGER` times as long as the longest run before: a geometric distribution takes the runs of small
    counts, or of a quiet night, for a wonder each time.

    Parameters
    ----------
    s
        Columns of the table of metrics, `(columns, n)`, changed in place.
    x, repeated
        Values, and whether each equals the one before.
    warming
        Whether the series is warming up.
    seconds
        Time since the row before, `(n,)`.
    half_lives
        Of the run lengths, and of the longest run, seconds.
    """
    columns = list(s[col.REPEAT])
    evidence = run_length.score_run(columns, s[col.REPEAT_EVIDENCE], repeated, warming)
    trials, begun, asked, stayed = columns
    varies = (begun + stayed) < MOST_REPEATED * (trials + asked)
    ended, longest = s[col.REPEAT_SECONDS], s[col.LONGEST_REPEAT_SECONDS]
    lasted = np.where(repeated, ended + seconds, 0.0)
    surprise: Floats = np.where(varies & (x != 0) & (lasted > LONGER * longest), evidence, 0.0)
    of_runs, of_longest = (np.exp2(-seconds / half_life) for half_life in half_lives)
    s[col.LONGEST_REPEAT_SECONDS] = np.maximum(longest * of_longest, np.where(repeated, 0.0, ended))
    s[col.REPEAT] *= of_runs
    run_length.learn_run(list(s[col.REPEAT]), s[col.REPEAT_EVIDENCE], repeated)
    s[col.REPEAT_EVIDENCE] = evidence
    s[col.REPEAT_SECONDS] = lasted
    return surprise


@dataclass(frozen=True)
class CopiedRows:
    """What was known of rows that are not to be learnt: `chosen` are their places in the window, `rows` those in the table.

    `model` is the univariate state, `columns` are the columns `COLUMNS_TO_RESTORE` of the table.
    """

    chosen: Ints
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

    def follow(self) -> None:
        """Give the model the parameters of each series by the rules that hold now."""
        applied = self._control.of("gauges")
        if applied is not self._followed:
            self._followed = applied
            self._model.overrides = {} if applied is None else overrides_of(applied, self._settings)

    def not_learnt(self, rows: Ints) -> Bools:
        """Which of `rows` in the table are not to be learnt, `(n,)`."""
        held: Bools = np.zeros(len(rows), dtype=bool) if self._followed is None else self._followed.dont_learn[rows]
        return held

    def copied(self, rows: Ints, columns: Floats) -> CopiedRows | None:
        """A copy of what is known of those of `rows` that are not to be learnt; None if all are."""
        if self._followed is None or not (held := self._followed.dont_learn[rows]).any():
            return None
        chosen = np.flatnonzero(held)
        return CopiedRows(
            chosen, rows[chosen], self._model.copied(rows[chosen]), columns[np.ix_(COLUMNS_TO_RESTORE, chosen)]
        )

    def put_back(self, copied: CopiedRows | None, columns: Floats) -> None:
        """Undo what was learnt since the copy; `columns` in place."""
        if copied is not None:
            self._model.put_back(copied.rows, copied.model)
            columns[np.ix_(COLUMNS_TO_RESTORE, copied.chosen)] = copied.columns

    def extra_nats(self, deviation: Floats, typical: Floats, rows: Ints) -> Floats:
        """Nats beyond the alert threshold that labels and rules demand of each deviation, `(n,)`.

        Infinite where a rule says that the deviation does not count: too small, or in a direction without interest.
        """
        extra_nats = np.zeros(len(rows))
        if self._control.labels.any:
            demand, size = self._control.labels.demand, np.abs(deviation)
            down, up = (demand("gauges", f"strange {side}", rows, size) for side in ("down", "up"))
            extra_nats = np.where(deviation < 0, down, up)
        applied = self._followed
        if applied is None:
            return extra_nats
        return extra_nats + rule_nats(applied, self._p, deviation, typical, rows)

    def subtract(self, base: Floats, stuck: Floats, extra_nats: Floats, rows: Ints) -> None:
        """Take from `base` and `stuck`, in place, `extra_nats` and what labels demand; where the first is infinite, `base` becomes 0."""
        if self._control.labels.any:
            stuck -= self._control.labels.demand("gauges", "stuck", rows)
        counted = np.isfinite(extra_nats)
        base[~counted & ~np.isnan(base)] = 0.0
        base -= np.where(counted, extra_nats, 0.0)


def rule_nats(applied: Applied, p: DetectorParameters, deviation: Floats, typical: Floats, rows: Ints) -> Floats:
    """Nats beyond the alert threshold that rules demand of each deviation, `(n,)`; infinite where it does not count."""
    seconds = min(p.window_seconds, LONGEST_SECONDS)
    demanded = np.nan_to_num(-np.log(applied.alarm_chance[rows] * seconds / 3600.0) - p.alert_nats)
    return np.where(deviates(deviation, typical, 1.0, applied, rows), demanded, np.inf)


def overrides_of(applied: Applied, settings: UnivariateParameters) -> dict[str, Floats]:
    """Parameters of each series by name, `(series,)`: those of rules where there are any, else those of all.

    The memory of the healthy state is changed in proportion to that of the level.
    """
    days, minutes = applied.half_life_days, applied.warm_up_minutes
    found: dict[str, Floats] = {}
    if not np.isnan(minutes).all():
        found["warm_up_minutes"] = np.where(np.isnan(minutes), settings.warm_up_minutes, minutes)
    if not np.isnan(days).all():
        level, robust = settings.level_half_life_days, settings.robust_half_life_days
        found["level_half_life_days"] = np.where(np.isnan(days), level, days)
        found["robust_half_life_days"] = np.where(np.isnan(days), robust, days * robust / level)
    return found


def model_of(p: DetectorParameters, settings: UnivariateParameters, state: ShardState) -> Univariate:
    """The model of the metrics of a shard: the univariate model, or the challenger that the parameters name."""
    if not p.challenger:
        state.challengers = None  # of a version that had one
        return Univariate(settings, state.univariate)
    state.challengers = state.challengers or ChallengerMemories()
    return ChallengedUnivariate(p, settings, state.univariate, state.challengers)
