"""A table as a bounded stream: the detector of a shard on its rows, one after the other, each a window of one point.

A table of one metric is a series, one of several is a host. What a row is told is what the chain says of such a window,
and beside it a score to raise alarms by, which says each event once:

    of a series     the surprise of the row that opens an episode; none while it lasts, as nobody is surprised by what has been
                    said; of other rows their surprise, which is below the threshold
    of a host       the joined surprise of its metrics, each held for a while (`host_score`)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from models.core.arrays import Floats, Ints, Texts
from models.core.parameters import DetectorParameters
from models.core.series import Series, build
from models.core.windows import Scores, Windows
from models.detection import host_score
from models.detection.detector import ShardDetector
from models.detection.host_score import HostParameters
from models.records.novelty import Novelty

HOST = "table"
UNKNOWN = float("nan")
UNCONFIRMED = 0.999  # share of the threshold that a row has at most that is loud and opens nothing yet
MOST_TOP, LEAST_SHARE = 5, 0.05
QUIET = ("normal", "warming", "missing")
SEEN = ("value", "typical", "lower", "upper")


@dataclass(frozen=True)
class RowAnswer:
    """What is said of a row.

    `score` is that of the chain, `anomaly_score` the one to raise alarms by, both in nats and NaN where nothing is known.
    `novelty` says whether something begins to be novel here, or turns out to be a change of state. `kind` is `normal`,
    `warming`, `missing` (no value), or that of what goes on; `since` is when that began (epoch ms, 0: nothing does).
    `value`, `typical`, `lower`, `upper` are those of the metric, of a host those of the one that contributes most. `top` names
    the metrics that contribute and `share` by how much, the most first. `said` are the statements of the window.
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
    said: tuple[Novelty, ...] = ()


class TableScorer:
    """Steps the metrics of a table. `parameters.window_seconds` is how far rows are apart."""

    def __init__(
        self,
        metrics: Sequence[str],
        parameters: DetectorParameters,
        *,
        host: bool,
        joined: HostParameters | None = None,
    ) -> None:
        names = [build(Series("gauge", HOST, metric=metric)) for metric in metrics]
        self._order = np.array(sorted(range(len(names)), key=names.__getitem__), dtype=np.int64)
        self._names = np.array([names[i] for i in self._order], dtype=object)
        self._metrics = np.array([metrics[i] for i in self._order], dtype=object)
        self._p, self._detector = parameters, ShardDetector(replace(parameters, changes_below_alert=not host))
        self._since: dict[str, int] = {}
        self._host = _Host(self._metrics, joined or HostParameters(), parameters.window_seconds) if host else None

    def step(self, at_ms: int, values: Floats) -> RowAnswer:
        """Score a row, then learn it. `values` are `(metrics,)`, NaN where there is none; `at_ms` is later than the last."""
        values = values[self._order]
        there = np.flatnonzero(np.isfinite(values))
        if not len(there):
            return RowAnswer()
        scores, said = self._detector.step(at_ms, window(self._names[there], values[there]))
        own = tuple(n for n in said if n.series.startswith("gauge/"))
        for statement in own:
            self._since[statement.series] = statement.start
        if self._host is not None:
            return self._host.answer(at_ms, scores, there, own)
        return self._of_series(scores, own)

    def _of_series(self, scores: Scores, own: tuple[Novelty, ...]) -> RowAnswer:
        kind, score = str(scores.kind[0]), float(scores.score[0])
        opens = any(n.status == "open" for n in own)
        changes = any(n.status != "close" and n.kind == "change" for n in own)
        goes_on = kind not in QUIET
        if opens or np.isnan(score):
            alarm = score
        else:
            alarm = 0.0 if goes_on else min(score, UNCONFIRMED * self._p.alert_nats)
        since = self._since.get(scores.series[0], 0) if goes_on else 0
        value, typical, lower, upper = (float(getattr(scores, name)[0]) for name in SEEN)
        return RowAnswer(alarm, opens or changes, kind, since, score, value, typical, lower, upper, said=own)


class _Host:
    """What the metrics of a host have said of late, joined. `metrics` are their names, `(metrics,)`."""

    def __init__(self, metrics: Texts, p: HostParameters, seconds: float) -> None:
        self._metrics, self._p, self._seconds = metrics, p, seconds
        self._held = np.full(len(metrics), np.nan)
        self._seen = np.full((len(SEEN), len(metrics)), np.nan)  # in the window in which each said what is held
        self._since = self._at = 0

    def answer(self, at_ms: int, scores: Scores, there: Ints, own: tuple[Novelty, ...]) -> RowAnswer:
        """Of a row in which the metrics at `there` have values."""
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
            nats, begins, kind, self._since, nats, value, typical, lower, upper, top=names, share=shares, said=own
        )

    def _hold(self, at_ms: int, scores: Scores, there: Ints) -> tuple[Floats, Floats]:
        """The joined score of what is held `(1,)`, and the share of each metric in it."""
        passed = (at_ms - self._at) / 1000 if self._at else self._seconds
        said, zero = np.full(len(self._held), np.nan), np.zeros(len(self._held), np.int64)
        said[there] = scores.health
        self._held, self._at = host_score.hold(self._held, said, np.full(len(said), passed), self._p), at_ms
        louder = ~(self._held[there] > said[there])  # others have been louder lately, and are about that
        self._seen[:, there[louder]] = [getattr(scores, name)[louder] for name in SEEN]
        return host_score.join(self._held, zero, 1, self._p)

    def _most(self, share: Floats) -> list[int]:
        """The metrics with the largest shares."""
        known = np.nan_to_num(share)
        order = np.lexsort((self._metrics.astype(str), -known))[:MOST_TOP]
        return [int(at) for at in order if known[at] >= LEAST_SHARE]


def _kind(scores: Scores, there: Ints, top: list[int]) -> str:
    """What is said of the metric that contributes most, where anything is."""
    found = scores.kind[there == top[0]].tolist() if top else []
    return "anomaly" if not found or found[0] in QUIET else str(found[0])


def window(names: Texts, values: Floats) -> Windows:
    """A window with a point of each series, `(n,)` names in order and finite values."""
    size = len(values)
    none = np.full(size, None, dtype=object)
    ones = np.ones(size, np.int64)
    return Windows(names, ones, values, np.zeros(size), values, values, values, none, none)


def rising(times: Floats) -> Floats:
    """Times in ms that rise by at least one: the clocks of some tables go back. Rows keep their order."""
    steps = np.arange(len(times))
    return np.asarray(np.maximum.accumulate(times - steps) + steps)
