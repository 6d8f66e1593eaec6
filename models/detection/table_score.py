"""A table as a bounded stream: its rows go one by one through the detector of a shard, each as a window of one point.

A table of one metric is a series, one of several metrics is a host. Each row gets the scores that the streaming jobs would
give such a window, and an anomaly score that raises one alarm for each event:

    of a series     the surprise of the row that opens an episode; 0 while the episode lasts; the surprise of other rows,
                    which is below the alert threshold
    of a host       the joined surprise of its metrics, each held for a while (`host_score`)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from models.core.arrays import Floats, Ints, Texts
from models.core.parameters import DetectorParameters
from models.core.series import Series, build
from models.core.windows import Scores, Windows
from models.detection import host_score
from models.detection.detector import ShardDetector
from models.detection.host_score import HostParameters
from models.records.records import EpisodeEvent
from models.rules.rule import LARGEST

HOST = "table"
UNKNOWN = float("nan")
UNCONFIRMED = 0.999  # most of the alert threshold that a row has which exceeds it and opens no episode
MOST_TOP, LEAST_SHARE = 5, 0.05  # metrics that are named, and the smallest share of one
WITHOUT_EPISODE = ("normal", "warming", "missing")
SEEN = ("value", "typical", "lower", "upper")


@dataclass(frozen=True)
class RowAnswer:
    """The result for one row.

    Attributes
    ----------
    anomaly_score, score
        The score to raise alarms by, and that of the streaming jobs, nats; NaN where nothing is known.
    novelty
        Whether an episode opens with the row, or turns out to be a change of state.
    kind
        `normal`, `warming`, `missing` (no value), or the kind of the open episode.
    since
        When that episode began, epoch ms; 0 without one.
    value, typical, lower, upper
        Those of the metric; of a host, those of the metric that contributes most.
    top, share
        The metrics that contribute to a host's score, most first, and the share of each.
    events
        The episode events of the row.
    """

    anomaly_score: float = UNKNOWN
    novelty: bool = False
    kind: str = "missing"
    since: int = 0
    score: float = UNKNOWN
    value: float = UNKNOWN
    typical: float = UNKNOWN
    lower: float = UNKNOWN
    upper: float = UNKNOWN
    top: tuple[str, ...] = ()
    share: tuple[float, ...] = ()
    events: tuple[EpisodeEvent, ...] = ()


class TableScorer:
    """Steps the metrics of a table.

    Parameters
    ----------
    metrics
        Names of the metrics; one of them for a series.
    parameters
        Of the detector; `window_seconds` is the usual distance of rows.
    host
        Whether the metrics are joined to a host's score.
    joined
        How they are joined.
    table
        Its host in the names of its series.
    detector
        The one of a shard of many tables; `step` is not called then, but `answer` with what that detector answers.
    """

    def __init__(
        self,
        metrics: Sequence[str],
        parameters: DetectorParameters,
        *,
        host: bool,
        joined: HostParameters | None = None,
        table: str = HOST,
        detector: ShardDetector | None = None,
    ) -> None:
        names = [build(Series("gauge", table, metric=metric)) for metric in metrics]
        self._order = np.array(sorted(range(len(names)), key=names.__getitem__), dtype=np.int64)
        self._names = np.array([names[i] for i in self._order], dtype=object)
        self._everything = np.arange(len(names))
        self._metrics = np.array([metrics[i] for i in self._order], dtype=object)
        self._p, self._detector = parameters, detector or make_detector(parameters, host=host)
        self._since: dict[str, int] = {}
        self._recurring: set[str] = set()  # episodes that have come back as regularly as ever
        self._host = _HeldScores(self._metrics, joined or HostParameters(), parameters.window_seconds) if host else None

    def step(self, at_ms: int, values: Floats) -> RowAnswer:
        """Score a row, then learn it.

        Parameters
        ----------
        at_ms
            Time of the row, epoch ms, later than that of the last row.
        values
            `(metrics,)`, NaN where missing.
        """
        names, values, there = self.row(values)
        if not len(there):
            return RowAnswer()
        scores, events = self._detector.step(at_ms, one_point_window(names, values))
        return self.answer(at_ms, scores, there, tuple(n for n in events if n.series.startswith("gauge/")))

    def row(self, values: Floats) -> tuple[Texts, Floats, Ints]:
        """The series of a row `(metrics,)` that have values, in order: their names, values, and places."""
        values = values[self._order]
        known = np.abs(values) <= LARGEST  # false for NaN
        if known.all():
            return self._names, values, self._everything
        there = np.flatnonzero(known)
        return self._names[there], values[there], there

    def answer(self, at_ms: int, scores: Scores, there: Ints, own: tuple[EpisodeEvent, ...]) -> RowAnswer:
        """The result for a row whose series at `there` have these scores; `own` are the events of the table's metrics."""
        for event in own:
            self._since[event.series] = event.start
        if self._host is not None:
            return self._host.answer(at_ms, scores, there, own)
        return self._of_series(scores, own)

    def _of_series(self, scores: Scores, own: tuple[EpisodeEvent, ...]) -> RowAnswer:
        kind, score = str(scores.kind[0]), float(scores.score[0])
        # What comes back as regularly as ever is nothing new until it is longer or stronger than before.
        opens = any(
            (n.status == "open" or n.id in self._recurring) and not n.recurs and n.status != "close" for n in own
        )
        for event in own:
            (self._recurring.add if event.recurs and event.status != "close" else self._recurring.discard)(event.id)
        changes = any(n.status != "close" and n.kind == "change" for n in own)
        goes_on = kind not in WITHOUT_EPISODE
        if opens or np.isnan(score):
            alarm = score
        else:
            alarm = 0.0 if goes_on else min(score, UNCONFIRMED * self._p.alert_nats)
        since = self._since.get(scores.series[0], 0) if goes_on else 0
        value, typical, lower, upper = (float(getattr(scores, name)[0]) for name in SEEN)
        return RowAnswer(alarm, opens or changes, kind, since, score, value, typical, lower, upper, events=own)


class _HeldScores:
    """The held scores of the metrics of a host, joined. `metrics` are their names, `(metrics,)`."""

    def __init__(self, metrics: Texts, p: HostParameters, seconds: float) -> None:
        self._metrics, self._p, self._seconds = metrics, p, seconds
        self._held = np.full(len(metrics), np.nan)
        self._seen = np.full((len(SEEN), len(metrics)), np.nan)  # in the row in which each had the score that is held
        self._since = self._at = 0

    def answer(self, at_ms: int, scores: Scores, there: Ints, own: tuple[EpisodeEvent, ...]) -> RowAnswer:
        """The result for a row in which the metrics at `there` have values."""
        held, share = self._hold(at_ms, scores, there)
        nats = float(host_score.surprisal(held, np.array([int(np.isfinite(share).sum())]), self._p)[0])
        strange = nats >= self._p.alarm_nats
        begins = strange and not self._since
        if not strange:
            self._since = 0
        elif begins:
            self._since = at_ms - int(1000 * self._seconds)
        top = self._most(share)
        kind = "warming" if np.isnan(nats) else _kind(scores, there, top) if strange else "normal"
        value, typical, lower, upper = self._seen[:, top[0]].tolist() if top else [UNKNOWN] * len(SEEN)
        names, shares = tuple(self._metrics[top].tolist()), tuple(share[top].tolist())
        return RowAnswer(
            nats, begins, kind, self._since, nats, value, typical, lower, upper, top=names, share=shares, events=own
        )

    def _hold(self, at_ms: int, scores: Scores, there: Ints) -> tuple[Floats, Floats]:
        """The joined score of the held ones, `(1,)`, and the share of each metric."""
        passed = (at_ms - self._at) / 1000 if self._at else self._seconds
        scored, zero = np.full(len(self._held), np.nan), np.zeros(len(self._held), np.int64)
        scored[there] = scores.health
        self._held, self._at = host_score.hold_scores(self._held, scored, np.full(len(scored), passed), self._p), at_ms
        new = ~(self._held[there] > scored[there])  # the others hold an earlier, greater score
        self._seen[:, there[new]] = [getattr(scores, name)[new] for name in SEEN]
        return host_score.join_scores(self._held, zero, 1, self._p)

    def _most(self, share: Floats) -> list[int]:
        """The metrics with the largest shares."""
        known = np.nan_to_num(share)
        order = np.lexsort((self._metrics.astype(str), -known))[:MOST_TOP]
        return [int(at) for at in order if known[at] >= LEAST_SHARE]


def _kind(scores: Scores, there: Ints, top: list[int]) -> str:
    """The kind of the metric that contributes most; `anomaly` where it has no episode."""
    found = scores.kind[there == top[0]].tolist() if top else []
    return "anomaly" if not found or found[0] in WITHOUT_EPISODE else str(found[0])


def make_detector(parameters: DetectorParameters, *, host: bool) -> ShardDetector:
    """The detector of tables; changes below the alert threshold are reported of single metrics only."""
    return ShardDetector(replace(parameters, changes_below_alert=not host))


def one_point_window(names: Texts, values: Floats) -> Windows:
    """A window with one point of each series: `names` in order and finite `values`, `(n,)`."""
    ones, zeros, none, peers = _the_same_in_every_window(len(values))
    return Windows(names, ones, values, zeros, values, values, values, none, none, peers)


@lru_cache(maxsize=16)
def _the_same_in_every_window(size: int) -> tuple[Ints, Floats, Texts, Floats]:
    """One point each, no spread, no text and no peers, of so many series; not to be changed."""
    found = np.ones(size, np.int64), np.zeros(size), np.full(size, None, dtype=object), np.full((size, 4), np.nan)
    for column in found:
        column.flags.writeable = False
    return found


def make_increasing(times: Floats) -> Floats:
    """Times in ms that rise by at least 1, for tables whose times repeat or go back; `(n,)`, in the order of the rows."""
    steps = np.arange(len(times))
    return np.asarray(np.maximum.accumulate(times - steps) + steps)
