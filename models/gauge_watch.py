"""Gauges and counters of a window: value, score, episodes, in that order, then learning."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from models import counter_rate, reasons, student
from models import normal_gamma as gauge
from models.episodes import Episode
from models.novelty import Novelty
from models.parameters import Parameters
from models.regime import Candidate, log_t_density
from models.series import parse
from models.shard_state import ShardState
from models.silence import Silence
from models.store import Ints
from models.windows import Floats, Windows

STUCK, LEVEL, SPIKE = "stuck", "level", "spike"
LARGEST = 1e150  # squares of larger values would overflow
CAUSES = (STUCK, LEVEL, SPIKE)


@dataclass(frozen=True)
class Answers:
    """What is said of each row, `(n,)`: see `Scores`."""

    score: Floats
    value: Floats
    typical: Floats
    lower: Floats
    upper: Floats


class GaugeWatch:
    """Steps the metric series of a shard."""

    def __init__(self, state: ShardState, p: Parameters, silence: Silence) -> None:
        self._state, self._p, self._silence = state, p, silence

    def step(self, now: int, rows: Windows, metrics: int, index: Ints) -> tuple[Answers, list[Novelty]]:
        """Score the first `metrics` rows, whose rows in the table are `index`, then learn them."""
        state = self._state
        s = state.gauges.matrix[:, index]
        x = self._values(s, now, rows, metrics)
        said = self._silence.learn(s, now, state.gauges.owner[0, index], rows.series)
        known = np.abs(x) < LARGEST  # false for NaN
        if known.all():
            answers, more = self._known(s, x, now, rows, index)
        else:
            answers, more = self._some_known(s, x, now, rows, index, known=known)
        return answers, said + more

    def _values(self, s: Floats, now: int, rows: Windows, metrics: int) -> Floats:
        """What is compared: means of gauges, rates of counters; NaN where there is none."""
        x = rows.mean[:metrics].astype(np.float64)
        counters = bisect_left(rows.series, "gauge/", 0, metrics)
        if counters:
            last = rows.last[:counters]
            seconds = (now - s[gauge.TOTAL_SEEN, :counters]) / 1000.0
            x[:counters] = counter_rate.rates(last, s[gauge.TOTAL, :counters], seconds)
            s[gauge.TOTAL, :counters] = last
            s[gauge.TOTAL_SEEN, :counters] = now
        return x

    def _some_known(
        self, s: Floats, x: Floats, now: int, rows: Windows, index: Ints, *, known: gauge.Bools
    ) -> tuple[Answers, list[Novelty]]:
        """As `_known`, where some rows have no value."""
        others = np.flatnonzero(~known)
        chosen = np.flatnonzero(known)
        s[gauge.SEEN, others] = now
        self._state.gauges.matrix[:, index[others]] = s[:, others]
        part = Windows(**{name: column[: len(x)][chosen] for name, column in vars(rows).items()})
        answers, said = self._known(s[:, chosen], x[chosen], now, part, index[chosen])
        full = {name: np.full(len(x), np.nan) for name in vars(answers)}
        for name, column in vars(answers).items():
            full[name][chosen] = column
        return Answers(**full), said

    def _known(self, s: Floats, x: Floats, now: int, rows: Windows, index: Ints) -> tuple[Answers, list[Novelty]]:
        p, state = self._p, self._state
        first = s[gauge.ROWS] == 0
        if first.any():
            gauge.begin(s, x, first)
        b = gauge.believe(s, x, now, p)
        level = s[gauge.LEVEL].copy()
        gauge.learn(s, x, now, b, p)
        state.gauges.matrix[:, index] = s
        reach = b.scale * student.quantile(p.degrees_of_freedom, p.interval_probability)
        lower, upper = gauge.above(level - reach, s[gauge.BELOW_ZERO]), level + reach
        for column in (lower, upper):
            column[b.warming] = np.nan
        answers = Answers(b.score(), x, level, lower, upper)
        loud = (b.value_nats >= p.spike_nats) | (b.level_nats >= p.level_nats) | (b.stuck_nats >= p.stuck_nats)
        loud &= ~b.warming
        chosen = np.flatnonzero(loud).tolist()
        chosen += self._open_rows(rows.series, len(x))
        if not chosen:
            return answers, []
        said: list[Novelty] = []
        for j in sorted(set(chosen)):
            row = _Row(rows.series[j], int(index[j]), j, b, answers, now)
            episode = state.episodes.get(row.name)
            if episode is None:
                said.append(self._open(row))
            elif episode.cause in CAUSES and not episode.over:
                said += self._go_on(episode, row)
        return answers, said

    def _open_rows(self, series: np.ndarray, n: int) -> list[int]:
        """Rows that have an open episode."""
        found = []
        for name, episode in self._state.episodes.open.items():
            if episode.cause in CAUSES:
                at = bisect_left(series, name, 0, n)
                if at < n and series[at] == name:
                    found.append(at)
        return found

    def _open(self, row: _Row) -> Novelty:
        state, p, b, j = self._state, self._p, row.belief, row.at
        matrix = state.gauges.matrix
        nats = {STUCK: b.stuck_nats[j], LEVEL: b.level_nats[j], SPIKE: b.value_nats[j]}
        over = {STUCK: nats[STUCK] / p.stuck_nats, LEVEL: nats[LEVEL] / p.level_nats, SPIKE: nats[SPIKE] / p.spike_nats}
        cause = next(c for c in CAUSES if over[c] >= 1)
        before = row.now - int(1000 * p.window_seconds)
        start = {
            STUCK: int(matrix[gauge.REPEAT_SINCE, row.row]),
            LEVEL: int(max(matrix[gauge.SINCE, row.row], matrix[gauge.VALUE_SINCE, row.row])) or before,
            SPIKE: before,
        }[cause]
        value, lower, upper, reason = self._words(row, cause, start)
        score = float(row.answers.score[j])
        episode = Episode(
            row.name, cause, "anomaly", start, score, score, value, row.typical, lower, upper, row.unit, reason
        )
        if cause != STUCK:
            episode.candidate = Candidate(before, float(b.scale[j]) ** 2)
            episode.candidate.step(row.value, before, p.window_seconds, 0.0)
        matrix[gauge.FROZEN, row.row] = 1.0
        return state.episodes.begin(episode, row.now)

    def _words(self, row: _Row, cause: str, start: int) -> tuple[float, float, float, str]:
        """Value, bounds and reason of an episode's peak."""
        series, b, j = parse(row.name), row.belief, row.at
        lower, upper = float(row.answers.lower[j]), float(row.answers.upper[j])
        if cause == STUCK:
            return row.value, lower, upper, reasons.stuck(series, row.value, (row.now - start) / 1000, row.unit)
        if cause == SPIKE or not lower <= row.value <= upper:
            return row.value, lower, upper, reasons.value_off(series, row.value, lower, upper, row.unit)
        reach = float(b.fast_scale[j]) * student.quantile(
            self._p.level_degrees_of_freedom, self._p.interval_probability
        )
        lowest = self._state.gauges.matrix[gauge.BELOW_ZERO, row.row]
        lower = float(gauge.above(np.array(row.typical - reach), lowest))
        upper, value = row.typical + reach, float(b.fast[j])
        return value, lower, upper, reasons.mean_off(series, value, lower, upper, row.unit)

    def _go_on(self, episode: Episode, row: _Row) -> list[Novelty]:
        p, b, j = self._p, row.belief, row.at
        score = float(row.answers.score[j])
        if np.isfinite(score) and episode.gather(score, p.allowance_nats):
            episode.value, episode.lower, episode.upper, episode.reason = self._words(row, episode.cause, episode.start)
        if episode.candidate is not None:
            scale = float(b.scale[j])
            old = log_t_density(float(b.deviation[j]) / scale, p.degrees_of_freedom) - float(np.log(scale))
            episode.candidate.step(row.value, row.now - int(1000 * p.window_seconds), float(b.seconds[j]), old)
        if self._quiet(episode, row):
            return [self._close(episode, row)]
        if self._stands(episode, row):
            return [self._adopt(episode, row)]
        return [episode.say("update", row.now)] if episode.worth_saying() else []

    def _quiet(self, episode: Episode, row: _Row) -> bool:
        """Whether the series has been normal for long enough; counts its normal windows."""
        p, b, j = self._p, row.belief, row.at
        matrix = self._state.gauges.matrix
        calm = b.value_nats[j] < p.quiet_nats and b.stuck_nats[j] < p.quiet_nats
        strayed = b.fast[j] - row.typical
        if calm and abs(b.deviation[j]) < abs(strayed) / 2:
            matrix[gauge.FAST, row.row] = row.value  # values are back: do not wait for the mean to forget
            strayed = b.deviation[j]
        calm = calm and (episode.cause == SPIKE or b.level_nats[j] < p.quiet_nats)
        episode.quiet = episode.quiet + 1 if calm else 0
        return episode.quiet >= p.quiet_windows

    def _close(self, episode: Episode, row: _Row) -> Novelty:
        self._state.gauges.matrix[gauge.FROZEN, row.row] = 0.0
        return self._state.episodes.close(episode.series, row.now)

    def _stands(self, episode: Episode, row: _Row) -> bool:
        """Whether what is seen now is the new normal."""
        p = self._p
        if row.now - episode.start >= 60_000 * p.patience_minutes:
            return True
        return episode.candidate is not None and episode.candidate.stands(
            row.now, row.typical, 60 * p.persistence_minutes
        )

    def _adopt(self, episode: Episode, row: _Row) -> Novelty:
        """The new normal: says so, and the episode closes with the next window."""
        state, candidate = self._state, episode.candidate
        matrix = state.gauges.matrix
        episode.kind, episode.adopted, episode.over = "change", True, row.now + 1
        matrix[gauge.FROZEN, row.row] = 0.0
        if candidate is None:
            matrix[gauge.REPEAT_EVIDENCE, row.row] = 1e-9
            matrix[gauge.REPEAT, row.row] = 0.0
            return episode.say("update", row.now)
        lower, upper = float(row.answers.lower[row.at]), float(row.answers.upper[row.at])
        episode.reason = reasons.new_level(
            parse(row.name), candidate.mean, candidate.since, row.typical, lower=lower, upper=upper, unit=row.unit
        )
        episode.value, episode.lower, episode.upper = candidate.mean, lower, upper
        own = candidate.sum / candidate.weight
        gauge.adopt(matrix, row.row, candidate.mean, own, candidate.weight)
        return episode.say("update", row.now)


@dataclass(frozen=True)
class _Row:
    """One row of a window that an episode is about: its series, its row in the table, its place in the arrays."""

    name: str
    row: int
    at: int
    belief: gauge.Belief
    answers: Answers
    now: int

    @property
    def value(self) -> float:
        return float(self.answers.value[self.at])

    @property
    def typical(self) -> float:
        return float(self.answers.typical[self.at])

    @property
    def unit(self) -> str:
        return "/s" if self.name.startswith("counter/") else ""
