"""The detector of a shard: windows in, scores and novelties out. One object holds all series of many hosts.

In each window, for each series: score, then learn. What is said of a series depends on what its host has sent and on
nothing else, so splitting a shard by hosts changes nothing. A detector that is dumped and loaded goes on bit for bit.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from models.core.arrays import Bools, Ints, Texts
from models.core.parameters import DetectorParameters
from models.core.series import unquote
from models.core.windows import Scores, Windows
from models.detection.appearance import Appearance
from models.detection.control import MUTED, Control, with_planned
from models.detection.count_detector import CountDetector, CountScores
from models.detection.gauge_detector import GaugeDetector, GaugeScores
from models.detection.mixture_detector import MixtureDetector
from models.detection.shard_state import ShardState
from models.detection.silence import Silence
from models.records.novelty import Novelty
from models.records.watched import Watched

HOUR_MS = 3_600_000
UNNAMED: tuple[list[str] | None, Ints, Ints] = (None, np.zeros(0, np.int64), np.zeros(0, np.int64))


class ShardDetector:
    """Steps all series of a shard, window by window.

    `step` must be called for every window in which anything was recorded, in order; hosts and series without a row are
    known to be silent then. Windows that are left out altogether are a gap: forgetting goes on, silence does not.
    """

    def __init__(self, parameters: DetectorParameters, state: ShardState | None = None) -> None:
        self._p = parameters
        self._state = state if state is not None else ShardState()
        self._control = Control(self._state, parameters)
        self._appearance = Appearance(self._state, parameters)
        self._silence = Silence(self._state, parameters, self._control)
        self._gauges = GaugeDetector(self._state, parameters, self._silence, self._control)
        self._counts = CountDetector(self._state, parameters, self._control)
        self._mix = MixtureDetector(self._state, parameters, self._control)
        self._named = UNNAMED  # the last window's names, and their rows
        self._services: Counter[str] = Counter()  # hosts by service, of so many contexts
        self._contexts_counted = -1

    def step(self, window_end: int, rows: Windows) -> tuple[Scores, list[Novelty]]:
        """Answer one row for each of `rows` but labels, then one for each series whose missing lines say something.

        `window_end` is in epoch milliseconds. Novelties are sorted by series. Raises ValueError if the window does not
        come after the last one.
        """
        before = self._state.last
        said = self._advance(window_end)
        said += self._control.turn(window_end, before)
        rows = self._control.labels.take(window_end, rows)
        planned = self._control.planned_rows(rows)
        if planned is None:
            scores, more = self._watch(window_end, rows, ())
        else:
            self._gauges.count_on(window_end, rows, planned)
            hosts = {name.split("/", 2)[1] for name in rows.series[planned].tolist()}
            scores, more = self._watch(window_end, rows.without(planned), hosts)
            scores = with_planned(scores, rows, planned)
        said = self._control.speak(window_end, [*said, *more])
        self._control.labels.note(said)
        return scores, sorted(said, key=lambda n: n.series)

    def _watch(self, window_end: int, rows: Windows, others: Iterable[str]) -> tuple[Scores, list[Novelty]]:
        """Score the rows, then learn them; `others` are hosts, quoted, that sent something that is not looked at."""
        metrics = bisect_left(rows.series, "h")
        said = self._close_due(window_end)
        gauge_rows, count_rows, more = self._resolve(window_end, rows, metrics)
        said += more
        present = self._present(gauge_rows, count_rows, others)
        said += self._silence.hosts(window_end, present)
        values, more = self._gauges.step(window_end, rows, metrics, gauge_rows)
        said += more
        said += self._silence.metrics(window_end, present)
        lines, more = self._counts.step(window_end, rows, metrics, count_rows, present)
        said += more
        said += self._mix.step(window_end, lines)
        said += self._contexts(window_end, rows, metrics, gauge_rows, count_rows)
        return self._scores(rows, values, lines, count_rows), said

    def _advance(self, window_end: int) -> list[Novelty]:
        """Go on to a window; once an hour, forget what has gone."""
        state = self._state
        if window_end <= state.last:
            msg = f"window {window_end} comes after {state.last}; wanted windows in order"
            raise ValueError(msg)
        full_hour = state.last // HOUR_MS != window_end // HOUR_MS and state.steps
        said: list[Novelty] = []
        if full_hour:
            said = state.forget(window_end, self._p)
            self._control.labels.forget(window_end)
            self._named = UNNAMED  # rows may have moved
            self._contexts_counted = -1
        state.first = state.first or window_end
        state.last = window_end
        state.steps += 1
        return said

    def _resolve(self, now: int, rows: Windows, metrics: int) -> tuple[Ints, Ints, list[Novelty]]:
        """Rows in the tables of metrics and of counts; unknown series get theirs."""
        state = self._state
        names = rows.series.tolist()
        if names == self._named[0]:  # as nearly always, and much cheaper than looking each of them up
            return *self._named[1:], []
        gauges, counts, left = state.gauges.index, state.counts.index, len(names) - metrics
        said: list[Novelty] = []
        if not (gauges.keys() >= set(names[:metrics]) and counts.keys() >= set(names[metrics:])):
            missing = [i for i in range(metrics) if names[i] not in gauges]
            missing += [i for i in range(metrics, len(names)) if names[i] not in counts]
            said = self._appearance.register(missing, now, rows)
        gauge_rows = np.fromiter(map(gauges.__getitem__, names[:metrics]), dtype=np.int64, count=metrics)
        count_rows = np.fromiter(map(counts.__getitem__, names[metrics:]), dtype=np.int64, count=left)
        self._named = names, gauge_rows, count_rows
        return gauge_rows, count_rows, said

    def _close_due(self, now: int) -> list[Novelty]:
        return [self._state.episodes.close(name, now) for name in self._state.episodes.due(now)]

    def _present(self, gauge_rows: Ints, count_rows: Ints, others: Iterable[str]) -> Bools:
        """Which hosts sent anything, `(n_hosts,)`; one that is planned as a whole counts as if it had not."""
        present = np.zeros(len(self._state.hosts), dtype=bool)
        present[self._state.gauges.owner[0, gauge_rows]] = True
        present[self._state.counts.owner[0, count_rows]] = True
        present[[self._state.hosts.index[name] for name in others if name in self._state.hosts.index]] = True
        present[self._control.planned("hosts")] = False
        return present

    def _contexts(self, now: int, rows: Windows, metrics: int, gauge_rows: Ints, count_rows: Ints) -> list[Novelty]:
        """Weigh new templates; learn how much came from each service."""
        of_gauges = self._state.gauges.owner[1, gauge_rows]
        of_counts = self._state.counts.owner[1, count_rows]
        said = self._appearance.try_templates(now, rows, self._control.planned_now) if self._state.trials else []
        self._appearance.age(now, np.concatenate([of_gauges, of_counts]))
        self._appearance.count(of_gauges, np.ones(len(of_gauges)), "rows")
        if not len(of_counts):
            return said
        first = bisect_left(rows.series, "template/") - metrics
        self._appearance.count(of_counts[first:], rows.n[metrics + first :].astype(np.float64), "lines")
        return said

    def _scores(self, rows: Windows, values: GaugeScores, lines: CountScores, count_rows: Ints) -> Scores:
        """Answers in the order of the rows, then informative zeros."""
        zeros = lines.informative_zeros
        if not len(lines.rows):
            return self._only_metrics(rows, values)
        at = np.concatenate([np.searchsorted(lines.rows, count_rows), zeros])
        absent = np.array([self._state.counts.names[row] for row in lines.rows[zeros].tolist()], dtype=object)
        series = np.concatenate([rows.series, absent]) if len(zeros) else rows.series
        texts = np.array([self._state.text_of(name) for name in absent.tolist()], dtype=object)
        score = np.concatenate([values.score, lines.score[at]])
        kind = np.full(len(series), "normal", dtype=object)
        kind[np.isnan(score)] = "warming"
        self._mark(series, len(rows), kind)
        return Scores(
            series=series,
            score=score,
            value=np.concatenate([values.value, lines.value[at]]),
            typical=np.concatenate([values.typical, lines.belief.mean[at]]),
            lower=np.concatenate([values.lower, lines.lower[at]]),
            upper=np.concatenate([values.upper, lines.upper[at]]),
            kind=kind,
            template=np.concatenate([rows.template, texts]) if len(zeros) else rows.template,
            health=np.concatenate([values.health, lines.score[at]]),
        )

    def _only_metrics(self, rows: Windows, values: GaugeScores) -> Scores:
        kind = np.full(len(rows), "normal", dtype=object)
        kind[np.isnan(values.score)] = "warming"
        self._mark(rows.series, len(rows), kind)
        v = values
        return Scores(rows.series, v.score, v.value, v.typical, v.lower, v.upper, kind, rows.template, v.health)

    def _mark(self, series: Texts, sorted_rows: int, kind: Any) -> None:
        """Rows of series with an open episode are of its kind; those of a template on trial are `new`."""
        kinds = dict.fromkeys(self._state.trials, "new")
        kinds |= {name: episode.kind for name, episode in self._state.episodes.open.items()}
        kinds |= {name: MUTED for name in kinds if self._control.muted(name)}
        for name, word in kinds.items():
            at = bisect_left(series, name, 0, sorted_rows)
            if at < sorted_rows and series[at] == name:
                kind[at] = word
        for at in range(sorted_rows, len(series)):
            kind[at] = kinds.get(series[at], kind[at])

    @property
    def watched(self) -> Watched:
        """What the shard watches after its last window."""
        state = self._state
        if len(state.contexts) != self._contexts_counted:
            self._services = Counter(unquote(name.split("/", 1)[1]) for name in state.contexts.names)
            self._contexts_counted = len(state.contexts)
        series = len(state.gauges) + len(state.counts)
        return Watched(series, len(state.hosts), self._p.window_seconds, self._services)

    def dump(self, only_changed: bool = False) -> dict[str, bytes]:
        """The state as Arrow IPC parts by name; with `only_changed`, without parts equal to those of the last dump."""
        return self._state.dump(only_changed)

    @classmethod
    def load(cls, parts: Mapping[str, bytes], parameters: DetectorParameters) -> ShardDetector:
        """The inverse of `dump`. Raises ValueError for another format or a part that is missing."""
        return cls(parameters, ShardState.load(parts))

    def describe_state(self, series: str) -> dict[str, Any]:
        """What the model holds about a series now, by name. Raises KeyError for a series that it does not know."""
        self._control.hold(self._state.last)
        found = self._state.describe_state(series)
        row = self._state.gauges.index.get(series)
        return found if row is None else found | self._gauges.describe_state(row)
