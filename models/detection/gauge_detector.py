"""Gauges and counters of a window: value, score and learning (`univariate`), then episodes.

An episode opens when a series has been loud for long enough, or stuck on one value. It closes when the series has been
calm for a while, and when an explanation of its values as a change has won (`gauge_changes`), which is announced and is the normal
then. With `changes_below_alert`, those that are never loud are announced as well.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from models.challengers.memory import ChallengerMemories
from models.challengers.model import ChallengedUnivariate
from models.core.arrays import Bools, Floats, Ints, Texts
from models.core.parameters import DetectorParameters
from models.core.series import parse
from models.core.windows import Windows
from models.detection import counter_rate, reasons, repeats
from models.detection import metric_rows as of
from models.detection.control import Control
from models.detection.control_gauges import GaugeRules
from models.detection.episodes import Episode
from models.detection.gauge_changes import OLD, Change, GaugeChanges
from models.detection.shard_state import ShardState
from models.detection.silence import Silence
from models.records.novelty import Novelty
from models.stats import normal_gamma
from models.univariate.model import Univariate
from models.univariate.parameters import UnivariateParameters
from models.univariate.predictive import DEGREES
from models.univariate.univariate_state import FAST, FEATURES, ROUGH

STUCK, STRANGE = "stuck", "strange"
CAUSES = (STUCK, STRANGE)
STAYS = 0.75  # a value that keeps so much of its distance is not on its way back
LARGEST = 1e150  # squares of larger values would overflow


@dataclass(frozen=True)
class GaugeScores:
    """What is said of each row, `(n,)`: see `Scores`.

    `base` is what the model says by the law of normal data at large, `stuck` what the run of repeated values says: episodes
    go by them. `doubt` is by how much that law is surer than the series' own, nats: how surprising an episode is goes by its
    own. `speaker` is the member of the model that is loudest, `stays` how far off the value is, as a share of how
    far off the last one was, `health` what a host goes by.
    """

    score: Floats
    value: Floats
    typical: Floats
    lower: Floats
    upper: Floats
    base: Floats
    doubt: Floats
    stuck: Floats
    dominant_feature: Floats
    health: Floats
    stays: Floats


class GaugeDetector:
    """Steps the metric series of a shard."""

    def __init__(self, state: ShardState, p: DetectorParameters, silence: Silence, control: Control) -> None:
        self._state, self._p, self._silence, self._control = state, p, silence, control
        settings = UnivariateParameters(warm_up_minutes=p.warm_up_minutes, interval_probability=p.interval_probability)
        self._model = model_of(p, settings, state)
        self._rules = GaugeRules(control, self._model, settings, p)
        self._changes = GaugeChanges(state, (self._model, self._rules, control), p, settings)
        self._reach = normal_gamma.t_quantile(DEGREES, p.interval_probability)

    def step(self, now: int, rows: Windows, metrics: int, index: Ints) -> tuple[GaugeScores, list[Novelty]]:
        """Score the first `metrics` rows, whose rows in the table are `index`, then learn them."""
        gauges = self._state.gauges
        self._model.state.grow(len(gauges))
        s = gauges.matrix[:, index]
        x = self._values(s, now, rows, metrics)
        self._rules.follow()
        said = self._silence.learn(s, now, gauges.owner[0, index], rows.series)
        known = np.flatnonzero(np.abs(x) < LARGEST)  # false for NaN
        answers = self._look(s, x, now, rows, index, known)
        self._rules.weigh(answers.base, answers.stuck, answers.value - answers.typical, answers.typical, index)
        loud = self._loud_rows()
        before = np.where(s[of.SEEN] > 0, s[of.SEEN], now - 1000 * self._p.window_seconds)
        seen = (answers.value, answers.typical, answers.upper, answers.base, before)
        changes = self._changes.step(now, index, seen, loud)
        lasts = self._lasts(s, answers, now)
        s[of.SEEN] = now
        of.round_off(s)
        gauges.matrix[:, index] = s
        quiet = [row for row, change in changes.items() if change.announced and self._p.changes_below_alert]
        changed = np.isin(index, quiet)
        chosen = np.flatnonzero(lasts | changed | (answers.stuck >= self._p.stuck_nats)).tolist()
        for j in sorted({*chosen, *self._open_rows(rows.series, metrics)}):
            row = _Row(rows.series[j], int(index[j]), j, answers, now, changes.get(int(index[j])))
            episode = self._state.episodes.get(row.name)
            if episode is None:
                said.append(self._open(row) if lasts[j] or not changed[j] else self._turn(row))
            elif episode.cause in CAUSES and not episode.over:
                said += self._go_on(episode, row)
            answers.score[j] = np.maximum(answers.score[j], answers.base[j])  # what the episode goes by
        return answers, said

    def _lasts(self, s: Floats, answers: GaugeScores, now: int) -> Bools:
        """Which series are loud and have been for long, or so much that two windows are enough; learns it in place.

        A harmless burst can be as loud, but falls back at once.
        """
        p, lasted, gathered = self._p, s[of.ALERT_SECONDS], s[of.ALERT_EXCESS_NATS]
        loud = answers.base >= p.alert_nats
        since = np.where(lasted > 0, (now - s[of.SEEN]) / 1000, p.window_seconds)
        lasted[:] = np.where(loud, lasted + since, 0.0)
        gathered[:] = np.where(loud, gathered + answers.base - p.alert_nats, 0.0)
        strong = (gathered >= p.confirm_nats) & (lasted >= 2 * p.window_seconds) & (answers.stays >= STAYS)
        out: Bools = loud & ((lasted >= p.confirm_seconds) | strong)
        return out

    def describe_state(self, row: int) -> dict[str, Any]:
        """What the model holds about the series at a row of the table, and what it expects of the next window."""
        self._rules.follow()
        expected = self._model.expects(row)
        if not self._state.gauges.matrix[of.NEGATIVE, row]:
            expected["lower"] = max(expected["lower"], 0.0)
        return expected | self._model.state.describe_state(row)

    def count_on(self, now: int, rows: Windows, chosen: Bools) -> None:
        """Note the totals of those rows of counters that are chosen, as if nothing else were known of them.

        Else the first rate after them would be one over all that time.
        """
        index, matrix = self._state.gauges.index, self._state.gauges.matrix
        for at in np.flatnonzero(chosen).tolist():
            name = rows.series[at]
            if name.startswith("counter/") and name in index:
                matrix[[of.TOTAL, of.SEEN], index[name]] = rows.last[at], now

    def _values(self, s: Floats, now: int, rows: Windows, metrics: int) -> Floats:
        """What is compared: means of gauges, rates of counters; NaN where there is none."""
        x = rows.mean[:metrics].astype(np.float64)
        counters = bisect_left(rows.series, "gauge/", 0, metrics)
        if counters:
            last = rows.last[:counters]
            seconds = (now - s[of.SEEN, :counters]) / 1000.0
            x[:counters] = counter_rate.rates(last, s[of.TOTAL, :counters], seconds)
            s[of.TOTAL, :counters] = last
        return x

    def _look(self, s: Floats, x: Floats, now: int, rows: Windows, index: Ints, known: Ints) -> GaugeScores:
        """Score the rows at `known`, then learn them; what is said of the others is that nothing is known."""
        values, at, part = x[known], index[known], s[:, known]
        counters = bisect_left(rows.series, "gauge/", 0, len(x))
        points = np.where(known < counters, 1, rows.n[known])  # a rate has no spread within its window
        hot = self._model.state.hot
        before = hot["previous"][0, at].copy()
        same = (values == before) & (hot["rows"][0, at] > 0)
        lesson = self._rules.lesson(at, part)
        said = self._model.step(now, at, points, values, np.nan_to_num(rows.m2[known]))
        warming = np.isnan(said.base)
        seconds = (now - part[of.SEEN]) / 1000
        stuck = repeats.step(part, values, same, warming, seconds, 3600 * self._p.habit_half_life_hours)
        stuck[warming | bool(self._p.challenger)] = 0.0
        lower = np.where(part[of.NEGATIVE] > 0, said.lower, np.maximum(said.lower, 0.0))
        part[of.NEGATIVE] = np.maximum(part[of.NEGATIVE], values < 0)
        self._rules.unlearn(lesson, part)
        s[:, known] = part
        score, dominant_feature = np.maximum(said.score, stuck), said.dominant_feature.astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            stays = (values - said.typical) / (before - said.typical)
        doubt = said.base - said.score
        found = (
            score,
            values,
            said.typical,
            lower,
            said.upper,
            said.base,
            doubt,
            stuck,
            dominant_feature,
            said.health,
            stays,
        )
        full = {field.name: np.full(len(x), np.nan) for field in fields(GaugeScores)}
        for name, column in zip(full, found, strict=True):
            full[name][known] = column
        return GaugeScores(**full)

    def _loud_rows(self) -> dict[int, int]:
        """Rows in the table of series that have an open episode about their values, and when it began (ms)."""
        index, episodes = self._state.gauges.index, self._state.episodes.open.values()
        return {index[e.series]: e.start for e in episodes if e.cause == STRANGE and not e.over}

    def _open_rows(self, series: Texts, n: int) -> list[int]:
        """Rows that have an open episode."""
        found = []
        for name, episode in self._state.episodes.open.items():
            if episode.cause in CAUSES:
                at = bisect_left(series, name, 0, n)
                if at < n and series[at] == name:
                    found.append(at)
        return found

    def _open(self, row: _Row) -> Novelty:
        stuck = row.answers.stuck[row.at] >= self._p.stuck_nats
        cause, lasted = (STUCK, of.REPEAT_SECONDS) if stuck else (STRANGE, of.ALERT_SECONDS)
        start = row.now - round(1000 * self._state.gauges.matrix[lasted, row.row])
        value, lower, upper, reason = self._words(row, cause, start)
        episode = Episode(
            row.name, cause, "anomaly", start, row.score, row.score, value, row.typical, lower, upper, row.unit, reason
        )
        episode.strayed, episode.part = row.strays, row.part(cause)
        return self._state.episodes.begin(episode, row.now)

    def _words(self, row: _Row, cause: str, start: int) -> tuple[float, float, float, str]:
        """Value, bounds and reason of an episode's peak."""
        series, value, lower, upper, unit = parse(row.name), row.value, row.lower, row.upper, row.unit
        if cause == STUCK:
            return value, lower, upper, reasons.stuck(series, value, (row.now - start) / 1000, unit)
        dominant_feature = int(row.answers.dominant_feature[row.at])
        if row.strays or dominant_feature not in (FAST, ROUGH):
            return value, lower, upper, reasons.value_off(series, value, lower, upper, unit, FEATURES[dominant_feature])
        believed = self._model.state.describe_state(row.row)
        if dominant_feature == ROUGH:
            moves, usual = believed["rough"] / believed["rough_weight"], self._model.usual_roughness(row.row)
            return value, lower, upper, reasons.rough(series, moves, usual, unit)
        mean, spread = believed["healthy"]["value"]["mean"], believed["healthy"][FEATURES[FAST]]["spread"]
        lower, upper = (mean + side * self._reach * spread for side in (-1, 1))
        value = believed["fast"]
        return value, lower, upper, reasons.mean_off(series, value, lower, upper, unit)

    def _go_on(self, episode: Episode, row: _Row) -> list[Novelty]:
        p = self._p
        episode.strayed |= row.strays
        if np.isfinite(row.score) and episode.gather(row.score, p.allowance_nats):
            episode.value, episode.lower, episode.upper, episode.reason = self._words(row, episode.cause, episode.start)
            episode.part = row.part(episode.cause)
        calm = self._calm(episode, row)
        if self._control.held("gauges", row.row):  # what is seen now is to be no normal
            return [self._state.episodes.close(episode.series, row.now)] if calm else self._update(episode, row)
        if calm and (episode.cause == STUCK or not row.strays):
            return [self._close(episode, row)]
        if calm or self._stands(episode, row):
            return [self._adopt(episode, row)]
        return self._update(episode, row)

    def _update(self, episode: Episode, row: _Row) -> list[Novelty]:
        return [episode.say("update", row.now)] if episode.worth_saying() else []

    def _calm(self, episode: Episode, row: _Row) -> bool:
        """Whether the series has been normal for long enough; counts its normal windows.

        Members with a memory are loud for a while after values that were far off: when those are back, it is over. Where
        values stay far off and nothing is loud any more, what is seen is the new normal.
        """
        p = self._p
        if episode.cause == STUCK:
            calm, wanted = not row.answers.stuck[row.at] >= p.clear_nats, float(p.clear_windows)
        else:
            back = episode.strayed and not row.strays
            calm, wanted = back or not row.answers.base[row.at] >= p.alert_nats, p.metric_clear_rows
        episode.quiet = episode.quiet + 1 if calm else 0
        return bool(episode.quiet >= wanted)

    def _close(self, episode: Episode, row: _Row) -> Novelty:
        if episode.strayed:
            self._model.settle(row.row)
        self._state.gauges.matrix[of.ALERT_SECONDS, row.row] = 0.0
        return self._state.episodes.close(episode.series, row.now)

    def _stands(self, episode: Episode, row: _Row) -> bool:
        """Whether what is seen now is the new normal."""
        if not np.isfinite(row.value):
            return False
        if episode.expected or row.now - episode.start >= 1000 * self._p.lasting(self._p.patience_minutes):
            return True
        return episode.cause == STRANGE and row.change is not None and row.change.announced

    def _adopt(self, episode: Episode, row: _Row) -> Novelty:
        """The new normal: says so, and the episode closes with the next window."""
        episode.kind, episode.adopted, episode.over = "change", True, row.now + 1
        if episode.cause == STUCK:
            repeats.forgive(self._state.gauges.matrix, row.row)
            return episode.say("update", row.now)
        self._learn(episode, row)
        return episode.say("update", row.now)

    def _turn(self, row: _Row) -> Novelty:
        """A change that was never loud: says so, and the episode closes with the next window.

        The model has taken in what it thought normal; nothing is left to teach it.
        """
        found = self._seen(row)
        episode = Episode(
            row.name, STRANGE, "change", found.start, found.nats, found.nats, found.after,
            row.typical, row.lower, row.upper, row.unit, "",
        )  # fmt: skip
        episode.adopted, episode.over = True, row.now + 1
        self._tell(episode, row, found)
        self._changes.settle(row.row, found.before, found.old_spread, row.now)
        return self._state.episodes.begin(episode, row.now)

    def _seen(self, row: _Row, start: int = 0) -> Change:
        """What best explains the latest values; a level where nothing does better, as people have said that it is a change."""
        if row.change is not None and row.change.what != OLD:
            return row.change
        after, scale = row.value if row.change is None else row.change.after, row.scale(self._reach)
        return Change("level", True, start or row.now, row.typical, after, scale, scale, row.score)

    def _learn(self, episode: Episode, row: _Row) -> None:
        """What is seen now is the normal, in words and for the model."""
        found = self._seen(row, episode.start)
        self._tell(episode, row, found)
        self._changes.learn(row.row, found, row.now, healthy=episode.expected)
        self._state.gauges.matrix[of.ALERT_SECONDS, row.row] = 0.0

    def _tell(self, episode: Episode, row: _Row, found: Change) -> None:
        """What has changed, in words and in fields."""
        episode.reason = found.words(parse(row.name), row.lower, row.upper, row.unit)
        episode.value, episode.lower, episode.upper = found.after, row.lower, row.upper
        episode.part, (episode.before, episode.after) = found.what, found.told


def model_of(p: DetectorParameters, settings: UnivariateParameters, state: ShardState) -> Univariate:
    """The model of the metrics of a shard, or its challenger."""
    if not p.challenger:
        state.challengers = None  # of a version that had one
        return Univariate(settings, state.univariate)
    state.challengers = state.challengers or ChallengerMemories()
    return ChallengedUnivariate(p, settings, state.univariate, state.challengers)


@dataclass(frozen=True)
class _Row:
    """One row of a window that an episode is about: its series, its row in the table, its place in the arrays."""

    name: str
    row: int
    at: int
    answers: GaugeScores
    now: int
    change: Change | None

    @property
    def score(self) -> float:
        """What is held against chance: the surprise in this very series, with what rules and labels take from it."""
        own = np.maximum(self.answers.base[self.at] - self.answers.doubt[self.at], 0.0)
        return float(np.maximum(own, self.answers.stuck[self.at]))

    @property
    def value(self) -> float:
        return float(self.answers.value[self.at])

    @property
    def typical(self) -> float:
        return float(self.answers.typical[self.at])

    @property
    def lower(self) -> float:
        return float(self.answers.lower[self.at])

    @property
    def upper(self) -> float:
        return float(self.answers.upper[self.at])

    @property
    def strays(self) -> bool:
        """Whether the value is outside of its interval."""
        return self.value < self.lower or self.value > self.upper

    @property
    def unit(self) -> str:
        return "/s" if self.name.startswith("counter/") else ""

    def part(self, cause: str) -> str:
        """Which part of the model speaks."""
        return (
            STUCK if cause == STUCK else reasons.PART_OF_FEATURE[FEATURES[int(self.answers.dominant_feature[self.at])]]
        )

    def scale(self, reach: float) -> float:
        """The scale of the healthy state, whose interval is so many of them to either side."""
        return (self.upper - self.typical) / reach
