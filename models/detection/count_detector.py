"""Numbers of log lines in a window, by level and by template: scored, learnt, and reported as episodes.

Too many lines, rare ones that come more often than usual, none for too long, and lines that come at regular times and are overdue are episodes.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from models.core.arrays import Bools, Floats, Ints
from models.core.parameters import DetectorParameters
from models.core.series import parse
from models.core.windows import Windows
from models.detection import reasons
from models.detection.control import Control
from models.detection.episodes import Episode
from models.detection.limits import TEMPLATES, Limits
from models.detection.newcomers import Newcomers
from models.detection.shard_state import OF_RISE, OF_SCHEDULE, ShardState, ShardWindow
from models.records.records import EpisodeEvent
from models.rules.table import Applied, deviates, own_or_usual
from models.stats import gamma_poisson as poisson
from models.stats import rate_rise, schedule

HIGH, FREQUENT, ZERO, OVERDUE = "high", "frequent", "zero", "overdue"
CAUSES = (HIGH, FREQUENT, ZERO, OVERDUE)
ZERO_PATIENCE = 2.0  # a silence must last so many times `persistence_minutes` to be adopted
MOST_OVERDUE = 2.0  # intervals after which lines no longer come by their schedule
SILENT_MINUTE = 0.05  # probability outside the interval that a silence is compared with
INFORMATIVE_LINES, INFORMATIVE_NATS = 1.0, 3.0  # lines expected, or surprise, from which on a zero has a row of scores


@dataclass(frozen=True)
class CountScores:
    """What was found of every count series of a host that is present; all arrays `(n,)`.

    Attributes
    ----------
    rows
        Rows of the series in the table of counts.
    belief
        The predicted distribution of each count, and evidence against it.
    score, value, lower, upper
        As in `models.core.windows.Scores`, but lines in the window, not a minute.
    overdue
        How certain it is that lines are overdue that come at regular times, nats; 0 where they are not.
    rise
        How certain it is that lines come more often than usual, though no window is strange.
    above
        Whether a rate is too high, or a silence too long, to be chance, or lines are overdue; less what rules and labels demand.
    """

    rows: Ints
    belief: poisson.CountPrediction
    score: Floats
    value: Floats
    lower: Floats
    upper: Floats
    overdue: Floats
    rise: Floats
    above: Bools

    @property
    def informative_zeros(self) -> Ints:
        """Positions of series without a line whose silence is worth a row of scores."""
        informative = (self.belief.mean >= INFORMATIVE_LINES) | (self.score >= INFORMATIVE_NATS)
        return np.flatnonzero((self.value == 0) & informative & ~self.belief.warming)


class CountDetector:
    """Scores, learns and reports the count series of a shard."""

    def __init__(
        self, state: ShardState, p: DetectorParameters, control: Control, limits: Limits, newcomers: Newcomers
    ) -> None:
        self._state, self._p, self._control, self._limits, self._newcomers = state, p, control, limits, newcomers

    def score(self, window: ShardWindow, present: Bools) -> CountScores:
        """Score all count series of hosts that are present, `(n_hosts,)`, then learn them; no row counts as no line."""
        state, p = self._state, self._p
        if not len(state.counts) or not present.any():
            return NO_SCORES
        counts = np.zeros(len(state.counts))
        counts[window.counts] = window.rows.n[window.metrics :]
        applied = self._control.applied_to("counts")
        here = present[state.counts.owner[0]]
        unsure = self._limits.uncertain_rows(TEMPLATES)
        if len(unsure):
            here &= (counts > 0) | ~np.isin(state.counts.owner[0], unsure)
        chosen = np.flatnonzero(here if applied is None else here & ~applied.planned)
        x, s = counts[chosen], state.counts.matrix[:, chosen]
        memory = self._memory(applied, chosen)
        b = poisson.predict(s, x, window.end, p, memory)
        quiet, taught = (window.end - s[poisson.LAST_LINE]) / 1000, None if memory is None else memory.taught
        overdue = schedule.step(
            s[OF_SCHEDULE], x > 0, quiet, b.seconds, window.end, p.window_seconds, p.zero_nats, taught
        )
        held, lines = s[poisson.FROZEN] > 0, np.flatnonzero(x > 0 if taught is None else (x > 0) & taught)
        rise = rate_rise.step(s[OF_RISE], lines, s[poisson.ROWS] + 1, window.end, p.window_seconds, held)
        poisson.learn(s, x, window.end, b, p, memory)
        state.counts.matrix[:, chosen] = s
        lower, upper = b.bounds(p.interval_probability)
        for column in (lower, upper):
            column[b.warming] = np.nan
        above = self._find_above(b, x, chosen)
        above |= rise.is_at_least(p.count_nats, self._control.labels.demanded_nats("counts", FREQUENT, chosen))
        above &= ~b.warming
        if applied is not None:
            above &= deviates(x - b.mean, b.mean, p.windows(minutes=1), applied, chosen)
        if overdue.any():
            late = overdue - self._control.labels.demanded_nats("counts", OVERDUE, chosen) >= p.zero_nats
            above |= late if applied is None else late & applied.down[chosen]
        return CountScores(chosen, b, b.score(), x, lower, upper, overdue, rise.evidence, above)

    def _find_above(self, b: poisson.CountPrediction, x: Floats, chosen: Ints) -> Bools:
        """Which rates are too high, or silences too long, less what labels demand of them."""
        p, demand = self._p, self._control.labels.demanded_nats
        more = demand("counts", HIGH, chosen, np.abs(x - b.mean) * p.windows(minutes=1))
        found: Bools = (b.high - more >= p.count_nats) | (b.high_nats - more >= p.spike_nats)
        found |= (b.zero - demand("counts", ZERO, chosen) >= p.zero_nats) & b.longer
        return found

    def update_episodes(self, window: ShardWindow, scores: CountScores) -> list[EpisodeEvent]:
        """Open, continue and end episodes after a window."""
        concerned = np.flatnonzero(scores.above).tolist() + self._open_rows(scores.rows)
        events: list[EpisodeEvent] = []
        for j in sorted(set(concerned)):
            name = self._state.counts.names[int(scores.rows[j])]
            row = _CountRow(name, int(scores.rows[j]), j, scores, window.end, *self._texts(window.rows, name))
            episode = self._state.episodes.get(name)
            if episode is None:
                events.append(self._open(row))
            elif episode.cause in CAUSES and not episode.over:
                events += self._continue(episode, row)
        return events

    def _memory(self, applied: Applied | None, chosen: Ints) -> poisson.CountMemory | None:
        """How the chosen series are learnt by the rules that hold, and on hosts that are born; None if there are neither."""
        needed, hours = self._newcomers.needed_minutes(self._p.warm_up_minutes), self._p.count_half_life_hours
        if applied is None and needed is None:
            return None
        warm_up = np.full(len(chosen), self._p.warm_up_minutes)
        if needed is not None:
            warm_up = needed[self._state.counts.owner[0, chosen]]
        if applied is None:
            return poisson.CountMemory(np.full(len(chosen), hours), warm_up, np.ones(len(chosen), dtype=bool))
        return poisson.CountMemory(
            own_or_usual(24.0 * applied.half_life_days[chosen], hours),
            own_or_usual(applied.warm_up_minutes[chosen], warm_up),
            ~applied.dont_learn[chosen],
        )

    def describe_state(self, row: int) -> dict[str, int]:
        """The `windows_to_go` of warming up of the series at a row of the table."""
        memory = self._memory(self._control.applied_to("counts"), np.array([row]))
        minutes = self._p.warm_up_minutes if memory is None else float(memory.warm_up_minutes[0])
        rows = int(self._state.counts.matrix[poisson.ROWS, row])
        return {"windows_to_go": max(math.ceil(self._p.windows(minutes=minutes)) - rows, 0)}

    def _open_rows(self, chosen: Ints) -> list[int]:
        """Positions in `chosen` of series that have an open episode."""
        found = []
        for name, episode in self._state.episodes.open.items():
            if episode.cause in CAUSES:
                row = self._state.counts.index[name]
                at = int(np.searchsorted(chosen, row))
                if at < len(chosen) and chosen[at] == row:
                    found.append(at)
        return found

    def _texts(self, rows: Windows, name: str) -> tuple[str | None, str | None]:
        """Template and sample of a series in this window, if it has a row."""
        at = bisect_left(rows.series, name)
        if at < len(rows) and rows.series[at] == name:
            return rows.template[at], rows.sample[at]
        return self._state.texts.get(parse(name).template_id), None

    def _open(self, row: _CountRow) -> EpisodeEvent:
        state, b, j = self._state, row.scores.belief, row.at
        overdue, matrix = float(row.scores.overdue[j]), state.counts.matrix
        high = b.high[j] >= self._p.count_nats or b.high_nats[j] >= self._p.spike_nats
        rise = 0.0 if high else float(row.scores.rise[j])
        cause = ZERO if b.zero[j] >= self._p.zero_nats else OVERDUE if overdue else FREQUENT if rise else HIGH
        score = {OVERDUE: overdue, FREQUENT: rise}.get(cause, float(row.scores.score[j]))
        if cause == OVERDUE:
            start = int(matrix[OF_SCHEDULE, row.row][schedule.CAME] + 1000 * self._interval(row))
        elif cause == FREQUENT:
            start = row.now - int(1000 * self._p.window_seconds * self._rise(row)[1])
        else:
            start = int(matrix[poisson.ZERO_SINCE if cause == ZERO else poisson.HIGH_SINCE, row.row])
        value, typical, lower, upper, reason = self._words(row, cause)
        gathered = {ZERO: float(b.zero[j]), OVERDUE: overdue, HIGH: float(b.high[j]), FREQUENT: rise}[cause]
        more = cause in (HIGH, FREQUENT)
        episode = Episode(
            row.name, cause, "anomaly" if more else "silence", start, score, max(score, gathered), value,
            typical, lower, upper, "lines/min", reason, row.template, row.sample,
        )  # fmt: skip
        episode.part = "rate" if more else "silence"
        if cause == HIGH:
            episode.add_value(float(row.scores.value[j]), self._p.window_seconds)
        matrix[poisson.FROZEN, row.row] = float(cause in (HIGH, ZERO))  # the rate of the last hour is as usual
        return state.episodes.begin(episode, row.now)

    def _words(self, row: _CountRow, cause: str) -> tuple[float, float, float, float, str]:
        """Value, typical, lower, upper in lines a minute, and the reason.

        The value of a rate that is too high is its mean since it became so, and the interval is that of as long a time. That of a
        silence is of as long a time too, of a minute at least.
        """
        b, j, p = row.scores.belief, row.at, self._p
        s = self._state.counts.matrix[:, row.row]
        least, lines, since = p.windows(minutes=1), 0.0, s[poisson.LAST_LINE]
        if cause == OVERDUE:
            seconds = (row.now - float(since)) / 1000
            reason = reasons.overdue(parse(row.name), row.template, seconds, self._interval(row))
            return 0.0, float(b.mean[j]) * p.windows(minutes=1), math.nan, math.nan, reason
        if cause == FREQUENT:
            found, passed, known_lines, known = self._rise(row)
            usual, per_minute = known_lines / known, p.windows(minutes=1)
            lower, upper = poisson.interval(
                usual * passed, 1 / known_lines + 1 / (usual * passed), p.interval_probability
            )
            times, seconds = found / passed / usual, passed * p.window_seconds
            reason = reasons.more_often(parse(row.name), row.template, times, seconds)
            value, least, most = (one / passed * per_minute for one in (found, float(lower), float(upper)))
            return value, usual * per_minute, least, most, reason
        if cause == HIGH:
            since = s[poisson.HIGH_SINCE] or row.now - 1000 * p.window_seconds
            least, lines = 1.0, max(s[poisson.HIGH_LINES], row.scores.value[j])
        windows = max(round((row.now - since) / (1000 * p.window_seconds)), least)
        mean, outside = float(b.mean[j]), p.interval_probability if cause == HIGH else SILENT_MINUTE
        lower, upper = poisson.expected_lines(mean, float(b.shape[j]), windows, outside)
        per_minute = p.windows(minutes=1) / windows
        value, lower, upper = float(lines) * per_minute, float(lower) * per_minute, float(upper) * per_minute
        reason = reasons.count_off(
            parse(row.name), row.template, value, lower, upper, seconds=(row.now - float(since)) / 1000
        )
        return value, mean * p.windows(minutes=1), lower, upper, reason

    def _continue(self, episode: Episode, row: _CountRow) -> list[EpisodeEvent]:
        p, b, j = self._p, row.scores.belief, row.at
        score = float(row.scores.score[j])
        peak = np.isfinite(score) and episode.add_surprise(
            score, p.allowance_nats, float(b.seconds[j]) / p.window_seconds
        )
        if peak:
            words = self._words(row, episode.cause)
            episode.value, episode.typical, episode.lower, episode.upper, episode.reason = words
            episode.template, episode.sample = row.template or episode.template, row.sample or episode.sample
        if episode.cause == HIGH:
            episode.add_value(float(row.scores.value[j]), float(b.seconds[j]))
        if episode.cause == FREQUENT:
            normal = self._continue_rise(episode, row)
        else:
            normal = {ZERO: b.zero, OVERDUE: row.scores.overdue, HIGH: b.high_nats}[episode.cause][j] < p.clear_nats
        episode.count_normal(row.now, normal=bool(normal))
        if episode.normal_windows >= p.clear_windows:
            self._state.counts.matrix[poisson.FROZEN, row.row] = 0.0
            poisson.clear_high_evidence(self._state.counts.matrix, row.row)
            rate_rise.end_rise(self._state.counts.matrix[OF_RISE], row.row)
            return [self._state.episodes.close(episode.series, row.now)]
        held = self._control.is_kept_from_learning("counts", row.row)
        lasted = row.now - episode.start >= 1000 * self._patience(episode, row)
        if not held and (lasted or episode.expected):
            return [self._end_schedule(episode, row) if episode.cause == OVERDUE else self._adopt(episode, row)]
        return [episode.event("update", row.now)] if episode.update_due(row.now) else []

    def _rise(self, row: _CountRow) -> tuple[float, float, float, float]:
        """Windows with a line, and windows, of a rise, and those of the rate that is usual."""
        own = self._state.counts.matrix[:, row.row]
        return rate_rise.describe(own[OF_RISE], float(own[poisson.ROWS]))

    def _continue_rise(self, episode: Episode, row: _CountRow) -> bool:
        """Take in another window of lines that come too often; answers whether they have been away for longer than at their new rate."""
        found, passed, _, _ = self._rise(row)
        lines, evidence = float(row.scores.value[row.at]), float(row.scores.rise[row.at])
        episode.weight += 1.0
        episode.mean += (lines - episode.mean) / episode.weight
        if evidence > episode.evidence:
            episode.evidence = evidence
            episode.value, episode.typical, episode.lower, episode.upper, episode.reason = self._words(row, FREQUENT)
        quiet = (row.now - float(self._state.counts.matrix[poisson.LAST_LINE, row.row])) / 1000 / self._p.window_seconds
        return quiet * found / passed >= self._p.clear_nats

    def _patience(self, episode: Episode, row: _CountRow) -> float:
        """How long the episode may last before what it is about is normal, seconds."""
        usual = self._p.adoption_seconds(self._p.persistence_minutes)
        if episode.cause == OVERDUE:
            own = self._state.counts.matrix[OF_SCHEDULE, row.row]
            left_out = float(schedule.usually_left_out(own, self._p.window_seconds, self._p.zero_nats))
            return (MOST_OVERDUE + left_out) * self._interval(row)
        if episode.cause == FREQUENT:  # of windows since it was opened
            left = self._p.adoption_seconds(self._p.patience_minutes) - episode.weight * self._p.window_seconds
            return (row.now - episode.start) / 1000 + left
        return ZERO_PATIENCE * usual if episode.cause == ZERO else usual

    def _interval(self, row: _CountRow) -> float:
        """How often the lines come by their schedule, seconds."""
        return float(self._state.counts.matrix[OF_SCHEDULE, row.row][schedule.INTERVAL])

    def _end_schedule(self, episode: Episode, row: _CountRow) -> EpisodeEvent:
        """Forget a schedule by which lines come no longer; the episode becomes a change and closes with the next window."""
        episode.reason = reasons.ended(parse(row.name), episode.template, self._interval(row))
        episode.kind, episode.over = "change", row.now + 1
        self._state.counts.matrix[OF_SCHEDULE, row.row] = 0.0
        return episode.event("update", row.now)

    def _adopt(self, episode: Episode, row: _CountRow) -> EpisodeEvent:
        """Adopt the new rate as normal; the episode becomes a change and closes with the next window."""
        p, matrix = self._p, self._state.counts.matrix
        mean = episode.mean  # 0 of one that fell silent
        per_minute = 60 / p.window_seconds
        poisson.adopt(matrix, row.row, mean, p.adoption_seconds(p.persistence_minutes) / p.window_seconds)
        matrix[poisson.FROZEN, row.row] = 0.0
        if mean:
            rate_rise.adopt(matrix[OF_RISE], row.row, mean, float(matrix[poisson.ROWS, row.row]), p.window_seconds)
        episode.kind, episode.adopted, episode.over = "change", True, row.now + 1
        episode.value = mean * per_minute
        episode.before, episode.after = episode.typical, episode.value
        episode.reason = reasons.new_level(
            parse(row.name)._replace(metric=reasons.lines_of(parse(row.name), episode.template)),
            episode.value, episode.typical, lower=episode.lower, upper=episode.upper, unit="/min",
        )  # fmt: skip
        return episode.event("update", row.now)


def _nothing() -> CountScores:
    none = np.zeros(0)
    belief = poisson.CountPrediction(none > 0, none, none, none, none, none, none, none, none, none, none > 0)
    return CountScores(np.zeros(0, dtype=np.int64), belief, none, none, none, none, none, none, none > 0)


NO_SCORES = _nothing()


@dataclass(frozen=True)
class _CountRow:
    """A series with an episode: its `row` in the table, its place `at` in `scores`, its template and a sample line."""

    name: str
    row: int
    at: int
    scores: CountScores
    now: int
    template: str | None
    sample: str | None
