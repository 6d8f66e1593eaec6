"""Episodes of gauges and counters: opened, continued, closed, or adopted as a change of state.

Whether an episode may open (`confirm_seconds`, or `confirm_nats` in two or more windows) is decided by
`compiled_metrics.count_runs_above`; stuck values open at `stuck_nats`. An episode closes when the series has been below the alert
threshold for a while. It becomes a change where one explanation of the values as a change has won (`gauge_changes`): the
change is reported, and what is seen is normal from then on. With `changes_below_alert`, changes that never exceed the
threshold are reported as well.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from models.core.arrays import Floats, Texts
from models.core.parameters import DetectorParameters
from models.core.series import parse
from models.detection import gauge_columns as col
from models.detection import reasons
from models.detection.control import Control
from models.detection.episodes import Episode
from models.detection.gauge_changes import OLD, Change, GaugeChanges
from models.detection.gauge_detector import GaugeScores
from models.detection.shard_state import ShardState, ShardWindow
from models.records.records import EpisodeEvent
from models.stats import normal_gamma, run_length
from models.univariate.model import Univariate
from models.univariate.parameters import UnivariateParameters
from models.univariate.predictive import DEGREES
from models.univariate.univariate_state import FAST, FEATURES, ROUGH

STUCK, STRANGE = "stuck", "strange"
CAUSES = (STUCK, STRANGE)


class GaugeEpisodes:
    """The episodes of the metric series of a shard."""

    def __init__(
        self,
        state: ShardState,
        p: DetectorParameters,
        control: Control,
        model: Univariate,
        changes: GaugeChanges,
        settings: UnivariateParameters,
    ) -> None:
        self._state, self._p, self._control = state, p, control
        self._memories = {FAST: 60 * settings.fast_half_life_minutes, ROUGH: 60 * settings.rough_half_life_minutes}
        self._model, self._changes = model, changes
        self._reach = normal_gamma.t_quantile(DEGREES, p.interval_probability)

    def episode_starts(self) -> dict[int, int]:
        """When the open episodes about values began, epoch ms, by the rows of their series in the table."""
        index, episodes = self._state.gauges.index, self._state.episodes.open.values()
        return {index[e.series]: e.start for e in episodes if e.cause == STRANGE and not e.over}

    def step(self, window: ShardWindow, scores: GaugeScores, changes: Mapping[int, Change]) -> list[EpisodeEvent]:
        """Open, continue and end episodes after a window.

        Parameters
        ----------
        window
            The window; its metric rows are those of `scores`.
        scores
            What was found of each row. Of each row that opens, continues or ends an episode, `scores.score` becomes at least
            `scores.base` (changed in place).
        changes
            What explains the values of candidates, by their rows in the table.
        """
        if scores.quiet and not changes and not self._state.episodes.open:
            return []
        below = [row for row, change in changes.items() if change.announced and self._p.changes_below_alert]
        changed = np.isin(window.gauges, below) if below else np.zeros(len(window.gauges), dtype=bool)
        chosen = np.flatnonzero(scores.persistent | changed | (scores.stuck >= self._p.stuck_nats)).tolist()
        events: list[EpisodeEvent] = []
        for place in sorted({*chosen, *self._open_rows(window.rows.series, window.metrics)}):
            table_row = int(window.gauges[place])
            row = _GaugeRow(window.rows.series[place], table_row, place, scores, window.end, changes.get(table_row))
            episode = self._state.episodes.get(row.name)
            if episode is None:
                # A change below the alert threshold counts before a stuck value of the same window.
                opens_anomaly = scores.persistent[place] or not changed[place]
                events.append(self._open(row) if opens_anomaly else self._open_change(row))
            elif episode.cause in CAUSES and not episode.over:
                events += self._continue(episode, row)
            scores.score[place] = np.maximum(scores.score[place], scores.base[place])
        return events

    def _open_rows(self, series: Texts, n: int) -> list[int]:
        """Places of rows whose series have an open episode; `series` are the names, of which the first `n` are metrics."""
        found = []
        for name, episode in self._state.episodes.open.items():
            if episode.cause in CAUSES:
                place = bisect_left(series, name, 0, n)
                if place < n and series[place] == name:
                    found.append(place)
        return found

    def _open(self, row: _GaugeRow) -> EpisodeEvent:
        stuck = row.scores.stuck[row.place] >= self._p.stuck_nats
        cause, lasted = (STUCK, col.REPEAT_SECONDS) if stuck else (STRANGE, col.ALERT_SECONDS)
        start = row.now - round(1000 * self._state.gauges.matrix[lasted, row.table_row])
        value, lower, upper, reason = self._describe_peak(row, cause, start)
        score = row.score if stuck else max(row.score, float(self._state.gauges.matrix[col.ALERT_SCORE, row.table_row]))
        episode = Episode(
            row.name, cause, "anomaly", start, score, score, value, row.typical, lower, upper, row.unit, reason
        )
        episode.strayed, episode.part = row.strays, row.part(cause)
        if not stuck:
            s = self._state.gauges.matrix[:, row.table_row]
            episode.began_with = s[col.ALERT_EXPECTED].tolist()
            episode.farthest = float(s[col.ALERT_FARTHEST])
            episode.second = (
                float(s[col.ALERT_SECOND]) or None
            )  # all windows of the run are beyond the border or nearly so
        episode.delay = self._delay(row, cause)
        return self._state.episodes.begin(episode, row.now)

    def _delay(self, row: _GaugeRow, cause: str) -> float:
        """By how much the series may be late in showing something, seconds: the time between its rows, or the half-life of a slow feature."""
        before = float(row.scores.last_seen[row.place])
        found = max(self._p.window_seconds, (row.now - before) / 1000 if before else 0.0)
        if cause == STUCK or row.strays:
            return found
        return max(found, self._memories.get(int(row.scores.dominant_feature[row.place]), 0.0))

    def _describe_peak(self, row: _GaugeRow, cause: str, start: int) -> tuple[float, float, float, str]:
        """Value, lower and upper bound, and reason of the episode's peak."""
        series, value, lower, upper, unit = parse(row.name), row.value, row.lower, row.upper, row.unit
        if cause == STUCK:
            return value, lower, upper, reasons.stuck(series, value, (row.now - start) / 1000, unit)
        dominant_feature = int(row.scores.dominant_feature[row.place])
        if row.strays or dominant_feature not in (FAST, ROUGH):
            return value, lower, upper, reasons.value_off(series, value, lower, upper, unit, FEATURES[dominant_feature])
        described = self._model.state.describe_state(row.table_row)
        if dominant_feature == ROUGH:
            moves, usual = described["rough"] / described["rough_weight"], self._model.usual_roughness(row.table_row)
            return value, lower, upper, reasons.rough(series, moves, usual, unit)
        mean, spread = described["healthy"]["value"]["mean"], described["healthy"][FEATURES[FAST]]["spread"]
        lower, upper = (mean + side * self._reach * spread for side in (-1, 1))
        value = described["fast"]
        return value, lower, upper, reasons.mean_off(series, value, lower, upper, unit)

    def _continue(self, episode: Episode, row: _GaugeRow) -> list[EpisodeEvent]:
        p = self._p
        episode.strayed |= row.strays
        episode.add_distance(row.value)
        if np.isfinite(row.score) and episode.add_surprise(row.score, p.allowance_nats, row.seconds / p.window_seconds):
            episode.value, episode.lower, episode.upper, episode.reason = self._describe_peak(
                row, episode.cause, episode.start
            )
            episode.part = row.part(episode.cause)
        cleared = self._has_cleared(episode, row)
        held = self._control.is_kept_from_learning(
            "gauges", row.table_row
        )  # a rule keeps these values from becoming normal
        if cleared and (held or episode.cause == STUCK or not row.strays or not row.counts):
            return [self._close(episode, row)]
        if not held and (cleared or self._is_new_normal(episode, row)):
            return [self._adopt(episode, row)]
        return self._update(episode, row)

    def _update(self, episode: Episode, row: _GaugeRow) -> list[EpisodeEvent]:
        return [episode.event("update", row.now)] if episode.update_due(row.now) else []

    def _has_cleared(self, episode: Episode, row: _GaugeRow) -> bool:
        """Whether the series has been normal for long enough to end the episode; counts its normal windows.

        Features with a memory stay above the threshold for a while after values that were far off, so values that have
        returned into their interval count as normal.
        """
        p = self._p
        if episode.cause == STUCK:
            normal, wanted = not row.scores.stuck[row.place] >= p.clear_nats, float(p.clear_windows)
        else:
            returned = episode.strayed and not row.strays
            normal, wanted = (
                returned or not row.scores.base[row.place] >= row.scores.alert_nats[row.place],
                p.metric_clear_rows(row.scores.apart[row.place]),
            )
        episode.count_normal(row.now, normal=bool(normal))
        return bool(episode.normal_windows >= wanted)

    def _close(self, episode: Episode, row: _GaugeRow) -> EpisodeEvent:
        """End an episode, and with it the run of windows above the threshold: another one needs a run of its own.

        The recent means go back to the healthy state, which is not learning: they would stay where a rule has stopped them.
        """
        if episode.strayed:
            self._model.reset_recent(row.table_row)
        self._state.gauges.matrix[col.ALERT_SECONDS, row.table_row] = 0.0
        return self._state.episodes.close(episode.series, row.now)

    def _is_new_normal(self, episode: Episode, row: _GaugeRow) -> bool:
        """Whether the values seen now are to be adopted: expected by a label, lasting, or explained by a change."""
        if not np.isfinite(row.value):
            return False
        if episode.expected or row.now - episode.start >= 1000 * self._p.adoption_seconds(self._p.patience_minutes):
            return True
        return episode.cause == STRANGE and row.change is not None and row.change.announced

    def _adopt(self, episode: Episode, row: _GaugeRow) -> EpisodeEvent:
        """Adopt the values seen now as normal; the episode becomes a change and closes with the next window."""
        episode.kind, episode.adopted, episode.over = "change", True, row.now + 1
        if episode.cause == STUCK:
            forget_repeats(self._state.gauges.matrix, row.table_row)
            return episode.event("update", row.now)
        self._learn(episode, row)
        return episode.event("update", row.now)

    def _open_change(self, row: _GaugeRow) -> EpisodeEvent:
        """Report a change that stayed below the alert threshold; it closes with the next window.

        The model has learnt these values already, so `Univariate.adopt_level` is not called.
        """
        found = self._best_change(row)
        episode = Episode(
            row.name, STRANGE, "change", found.start, found.nats, found.nats, found.after,
            row.typical, row.lower, row.upper, row.unit, "",
        )  # fmt: skip
        episode.adopted, episode.over = True, row.now + 1
        self._describe_change(episode, row, found)
        self._changes.drop_explanations(row.table_row)
        return self._state.episodes.begin(episode, row.now)

    def _best_change(self, row: _GaugeRow, start: int = 0) -> Change:
        """The change that explains the latest values best; a new level at the current value where none does."""
        if row.change is not None and row.change.what != OLD:
            return row.change
        after, scale = row.value if row.change is None else row.change.after, row.scale(self._reach)
        return Change("level", True, start or row.now, row.typical, after, scale, scale, row.score)

    def _learn(self, episode: Episode, row: _GaugeRow) -> None:
        """Teach the model the change, and describe it in the episode."""
        found = self._best_change(row, episode.start)
        self._describe_change(episode, row, found)
        self._changes.learn(row.table_row, found, healthy=episode.expected)
        self._state.gauges.matrix[col.ALERT_SECONDS, row.table_row] = 0.0

    def _describe_change(self, episode: Episode, row: _GaugeRow, found: Change) -> None:
        """Set the episode's reason, values and part to those of a change."""
        episode.reason = found.words(parse(row.name), row.lower, row.upper, row.unit)
        episode.value, episode.lower, episode.upper = found.after, row.lower, row.upper
        episode.part, (episode.before, episode.after) = found.what, found.levels


def forget_repeats(s: Floats, row: int) -> None:
    """Let the series at `row` of the table's columns `s` repeat one value: how long its runs were before no longer counts."""
    s[col.REPEAT, row] = s[col.LONGEST_REPEAT_SECONDS, row] = 0.0
    s[col.REPEAT_EVIDENCE, row] = run_length.UNCOUNTED_RUN


@dataclass(frozen=True)
class _GaugeRow:
    """One row of a window with an episode: the series' name, its row in the table, and its place in `scores`."""

    name: str
    table_row: int
    place: int
    scores: GaugeScores
    now: int
    change: Change | None

    @property
    def score(self) -> float:
        """Surprise of the row for the episode, nats: that under the series' own calibration, less what rules and labels ask."""
        calibrated = np.maximum(self.scores.base[self.place] - self.scores.calibration_gap[self.place], 0.0)
        return float(np.maximum(calibrated, self.scores.stuck[self.place]))

    @property
    def value(self) -> float:
        return float(self.scores.value[self.place])

    @property
    def typical(self) -> float:
        return float(self.scores.typical[self.place])

    @property
    def lower(self) -> float:
        return float(self.scores.lower[self.place])

    @property
    def upper(self) -> float:
        return float(self.scores.upper[self.place])

    @property
    def strays(self) -> bool:
        """Whether the value lies outside its interval."""
        return self.value < self.lower or self.value > self.upper

    @property
    def counts(self) -> bool:
        """Whether no rule says that a deviation such as the value's is none."""
        return bool(np.isfinite(self.scores.extra_nats[self.place]))

    @property
    def seconds(self) -> float:
        """Since the row before this one."""
        return (self.now - float(self.scores.last_seen[self.place])) / 1000

    @property
    def unit(self) -> str:
        return "/s" if self.name.startswith("counter/") else ""

    def part(self, cause: str) -> str:
        """The part of the model that found it, as `EpisodeEvent.part` names it."""
        feature = FEATURES[int(self.scores.dominant_feature[self.place])]
        return STUCK if cause == STUCK else reasons.PART_OF_FEATURE[feature]

    def scale(self, reach: float) -> float:
        """Scale of the healthy state's distribution; its interval reaches `reach` scales to either side."""
        return (self.upper - self.typical) / reach
