"""Lines of logs and templates in a window: zeros filled in, score, episodes, learning."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from models import gamma_poisson as poisson
from models import reasons
from models.episodes import Episode
from models.novelty import Novelty
from models.parameters import Parameters
from models.regime import Candidate
from models.series import parse
from models.shard_state import ShardState
from models.store import Ints
from models.windows import Floats, Windows

HIGH, ZERO = "high", "zero"
CAUSES = (HIGH, ZERO)
ZERO_PATIENCE = 2.0  # times the persistence
INFORMATIVE_LINES, INFORMATIVE_NATS = 1.0, 3.0  # zeros that are worth a row of their own


@dataclass(frozen=True)
class CountAnswers:
    """What is said of every count series of a host that is present, `(n,)`; `rows` are their rows in the table."""

    rows: Ints
    belief: poisson.Belief
    score: Floats
    value: Floats
    lower: Floats
    upper: Floats

    @property
    def informative_zeros(self) -> Ints:
        """Positions of series without a line about which that says something."""
        said = (self.belief.mean >= INFORMATIVE_LINES) | (self.score >= INFORMATIVE_NATS)
        return np.flatnonzero((self.value == 0) & said & ~self.belief.warming)


class CountWatch:
    """Steps the count series of a shard."""

    def __init__(self, state: ShardState, p: Parameters) -> None:
        self._state, self._p = state, p

    def step(
        self, now: int, rows: Windows, metrics: int, index: Ints, present: poisson.Bools
    ) -> tuple[CountAnswers, list[Novelty]]:
        """Score all count series of hosts that are present, then learn them.

        Rows from `metrics` on are the lines there were; `index` are their rows in the table.
        """
        state, p = self._state, self._p
        counts = np.zeros(len(state.counts))
        counts[index] = rows.n[metrics:]
        chosen = np.flatnonzero(present[state.counts.owner[0]])
        x, s = counts[chosen], state.counts.matrix[:, chosen]
        b = poisson.believe(s, x, now, p)
        poisson.learn(s, x, now, b, p)
        state.counts.matrix[:, chosen] = s
        lower, upper = b.bounds(p.interval_probability)
        for column in (lower, upper):
            column[b.warming] = np.nan
        answers = CountAnswers(chosen, b, b.score(), x, lower, upper)
        loud = (b.high >= p.count_nats) | (b.high_nats >= p.spike_nats) | (b.zero >= p.zero_nats)
        loud &= ~b.warming
        concerned = np.flatnonzero(loud).tolist() + self._open_rows(chosen)
        said: list[Novelty] = []
        for j in sorted(set(concerned)):
            name = state.counts.names[int(chosen[j])]
            row = _Row(name, int(chosen[j]), j, answers, now, *self._texts(rows, name))
            episode = state.episodes.get(name)
            if episode is None:
                said.append(self._open(row))
            elif episode.cause in CAUSES and not episode.over:
                said += self._go_on(episode, row)
        return answers, said

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
        return None, None

    def _open(self, row: _Row) -> Novelty:
        state, b, j = self._state, row.answers.belief, row.at
        cause = ZERO if b.zero[j] >= self._p.zero_nats else HIGH
        matrix = state.counts.matrix
        start = int(matrix[poisson.ZERO_SINCE if cause == ZERO else poisson.HIGH_SINCE, row.row])
        score = float(row.answers.score[j])
        value, typical, lower, upper, reason = self._words(row, cause)
        gathered = float(b.zero[j] if cause == ZERO else b.high[j])
        episode = Episode(
            row.name, cause, "silence" if cause == ZERO else "anomaly", start, score, max(score, gathered), value,
            typical, lower, upper, "lines/min", reason, row.template, row.sample,
        )  # fmt: skip
        if cause == HIGH:
            episode.candidate = Candidate(row.now, max(float(b.mean[j]), 0.01))
            episode.candidate.learn(float(row.answers.value[j]), self._p.window_seconds)
        matrix[poisson.FROZEN, row.row] = 1.0
        return state.episodes.begin(episode, row.now)

    def _words(self, row: _Row, cause: str) -> tuple[float, float, float, float, str]:
        """Value, typical, lower, upper in lines a minute, and the reason."""
        b, j = row.answers.belief, row.at
        per_minute = 60 / self._p.window_seconds
        lower, upper = row.answers.lower[j] * per_minute, row.answers.upper[j] * per_minute
        if cause == ZERO:
            lower, upper = self._minute(row)
        quiet_since = float(self._state.counts.matrix[poisson.LAST_LINE, row.row])
        value, typical = float(row.answers.value[j]) * per_minute, float(b.mean[j]) * per_minute
        reason = reasons.count_off(
            parse(row.name), row.template, value, float(lower), float(upper), seconds=(row.now - quiet_since) / 1000
        )
        return value, typical, float(lower), float(upper), reason

    def _minute(self, row: _Row) -> tuple[float, float]:
        """What is expected of a whole minute: windows of one minute vary less than a window does."""
        b, j, windows = row.answers.belief, row.at, 60 / self._p.window_seconds
        one = slice(j, j + 1)
        mean, shape = b.mean[one] * windows, b.shape[one] * windows
        nothing = np.zeros(1)
        minute = poisson.Belief(
            nothing > 0, mean, b.phi[one], shape, nothing, nothing, nothing, nothing, nothing, nothing
        )
        lower, upper = minute.bounds(0.05)
        return float(lower[0]), float(upper[0])

    def _go_on(self, episode: Episode, row: _Row) -> list[Novelty]:
        p, b, j = self._p, row.answers.belief, row.at
        score = float(row.answers.score[j])
        peak = np.isfinite(score) and episode.gather(score, p.allowance_nats)
        if peak:
            words = self._words(row, episode.cause)
            episode.value, episode.typical, episode.lower, episode.upper, episode.reason = words
            episode.template, episode.sample = row.template or episode.template, row.sample or episode.sample
        if episode.candidate is not None:
            episode.candidate.learn(float(row.answers.value[j]), float(b.seconds[j]))
        calm = b.zero[j] < p.quiet_nats if episode.cause == ZERO else b.high_nats[j] < p.quiet_nats
        episode.quiet = episode.quiet + 1 if calm else 0
        if episode.quiet >= p.quiet_windows:
            self._state.counts.matrix[[poisson.FROZEN, poisson.HIGH, poisson.HIGH_SINCE], row.row] = 0.0
            return [self._state.episodes.close(episode.series, row.now)]
        factor = ZERO_PATIENCE if episode.cause == ZERO else 1.0
        if row.now - episode.start >= 60_000 * factor * p.persistence_minutes:
            return [self._adopt(episode, row)]
        return [episode.say("update", row.now)] if episode.worth_saying() else []

    def _adopt(self, episode: Episode, row: _Row) -> Novelty:
        """The new rate is the normal: says so, and the episode closes with the next window."""
        p, matrix = self._p, self._state.counts.matrix
        mean = episode.candidate.mean if episode.candidate is not None else 0.0
        per_minute = 60 / p.window_seconds
        poisson.adopt(matrix, row.row, mean, p.windows(minutes=p.persistence_minutes))
        matrix[poisson.FROZEN, row.row] = 0.0
        episode.kind, episode.adopted, episode.over = "change", True, row.now + 1
        episode.value = mean * per_minute
        episode.reason = reasons.new_level(
            parse(row.name)._replace(metric=reasons.lines_of(parse(row.name), episode.template)),
            episode.value, episode.start, episode.typical, lower=episode.lower, upper=episode.upper, unit="/min",
        )  # fmt: skip
        return episode.say("update", row.now)


@dataclass(frozen=True)
class _Row:
    """One series that an episode is about: its row in the table, its place in the answers, its texts."""

    name: str
    row: int
    at: int
    answers: CountAnswers
    now: int
    template: str | None
    sample: str | None
