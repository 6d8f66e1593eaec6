"""The detector for use from Python: a stream of values in memory, without Kafka or Spark."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from models.core.arrays import Floats
from models.core.parameters import DetectorParameters
from models.detection.table_score import RowAnswer, TableScorer

Time = datetime | float
Value = float | Mapping[str, float | None] | None


@dataclass(frozen=True)
class Detection:
    """What the detector reports of one row.

    Parameters
    ----------
    score : float
        Surprise of the row in nats, -ln of a probability, to raise alarms by. Of a single series it is high only in the row
        that opens an episode, and 0 while the episode lasts; of several metrics it is the joined score of every row. NaN
        while the detector is warming up, and where the row has no value.
    novelty : bool
        Whether an episode opens with this row, or turns out to be a change of state.
    kind : str
        `normal`, `warming`, `missing` (no value), or the kind of the open episode: `anomaly`, `change`.
    typical, lower, upper : float
        The value expected of the row and the interval around it, in the unit of the values; of several metrics, of the
        one that contributes most. NaN where nothing is known yet.
    contributions : dict of str to float
        Of several metrics: the share of each in the score, largest first. Empty for a single series.
    """

    score: float
    novelty: bool
    kind: str
    typical: float
    lower: float
    upper: float
    contributions: dict[str, float]


class Detector:
    """Online novelty detection of one series, or of one host with several metrics.

    Each row is scored by what was learnt before it, and learnt afterwards. Nothing is trained beforehand. The first rows,
    30 minutes by default, have no score. The model is that of `kappa score` and of the streaming jobs.

    Parameters
    ----------
    metrics : sequence of str, optional
        Names of the metrics of a host; rows are mappings then. Without it, rows are single numbers.
    window_seconds : float, default 60
        The usual distance of rows, seconds. Half-lives are times, so this says how many rows they are.
    parameters : DetectorParameters, optional
        Everything else that can be set, such as `warm_up_minutes` or `alarm_chance`.

    Raises
    ------
    ValueError
        If a metric is named twice, or a parameter is out of range.

    Notes
    -----
    It fails where "normal" cannot be learnt from the series' own past: a metric that is zero but for rare bursts of up to some
    ten times the largest so far, or a series of fewer than a few hundred rows. A fault that is there from the first row is the normal.

    Examples
    --------
    >>> import math
    >>> from models import Detector
    >>> detector = Detector(window_seconds=60)
    >>> stream = [(60.0 * row, 20 + math.sin(row / 9) + 0.1 * (row % 7)) for row in range(1, 500)]
    >>> for time, value in stream:
    ...     detector.learn_one(time, value)
    >>> detector.score_one(30_000, 20.5) < 5 < detector.score_one(30_000, 90.0)
    True
    >>> found = detector.detect_one(30_000, 90.0)
    >>> found.novelty, found.kind, found.upper < 30
    (True, 'anomaly', True)

    Several metrics are one host:

    >>> host = Detector(metrics=["cpu", "memory"], window_seconds=60)
    >>> rows = host.detect_many((60.0 * i, {"cpu": i % 5, "memory": 10 + i % 3}) for i in range(1, 400))
    >>> rows[-1].kind
    'normal'
    >>> host.detect_one(24_000, {"cpu": 80, "memory": 11}).contributions["cpu"] > 0.5
    True
    """

    def __init__(
        self,
        metrics: Sequence[str] | None = None,
        *,
        window_seconds: float = 60.0,
        parameters: DetectorParameters | None = None,
    ) -> None:
        if metrics is not None and len(set(metrics)) < len(metrics):
            msg = f"metrics are {list(metrics)}; wanted each name once"
            raise ValueError(msg)
        self._metrics = tuple(metrics) if metrics is not None else None
        chosen = replace(parameters or DetectorParameters(), window_seconds=window_seconds)
        self._scorer = TableScorer(self._metrics or ("value",), chosen, host=self._metrics is not None)
        self._last_ms: int | None = None
        # The row that was scored last, what was found, and the scorer that has learnt it: `learn_one` of the same row takes it.
        self._scored: tuple[int, bytes, RowAnswer, TableScorer] | None = None

    def score_one(self, time: Time, value: Value) -> float:
        """Surprise of a row, without learning it.

        Parameters
        ----------
        time : datetime or float
            Event time of the row: aware datetime, or seconds since 1970. Later than that of the last row learnt.
        value : float, mapping or None
            The number; of a host, numbers by metric. None, NaN, numbers beyond 1e15 and metrics that are left out are
            missing values.

        Returns
        -------
        float
            Nats, as `Detection.score`.

        Raises
        ------
        ValueError
            If the time does not come after the last one, or a metric is unknown.
        """
        at_ms, row = self._row(time, value)
        scorer = copy.deepcopy(self._scorer)
        found = scorer.step(at_ms, row)
        self._scored = at_ms, row.tobytes(), found, scorer
        return found.anomaly_score

    def learn_one(self, time: Time, value: Value) -> None:
        """Learn a row; see `score_one` for the parameters and errors. Learning what was scored just before costs nothing."""
        self.detect_one(time, value)

    def detect_one(self, time: Time, value: Value) -> Detection:
        """Score a row, then learn it: the fast way, without a copy of the state.

        Parameters
        ----------
        time, value
            As for `score_one`.

        Returns
        -------
        Detection
            What is reported of the row.

        Raises
        ------
        ValueError
            As `score_one`.
        """
        at_ms, row = self._row(time, value)
        if self._scored is not None and self._scored[:2] == (at_ms, row.tobytes()):
            _, _, found, self._scorer = self._scored
        else:
            found = self._scorer.step(at_ms, row)
        self._scored, self._last_ms = None, at_ms
        return Detection(
            score=found.anomaly_score,
            novelty=found.novelty,
            kind=found.kind,
            typical=found.typical,
            lower=found.lower,
            upper=found.upper,
            contributions=dict(zip(found.top, found.share, strict=True)),
        )

    def detect_many(self, rows: Iterable[tuple[Time, Value]]) -> list[Detection]:
        """`detect_one` for each `(time, value)` of a batch, in order of time; answers one `Detection` a row."""
        return [self.detect_one(time, value) for time, value in rows]

    def _row(self, time: Time, value: Value) -> tuple[int, Floats]:
        """Epoch milliseconds, and values in the order of the metrics, `(metrics,)`, NaN where missing."""
        at_ms = _milliseconds(time)
        if at_ms <= 0:
            msg = f"time is {at_ms} ms since 1970; wanted one after 1970 began: add any day to times that count from 0"
            raise ValueError(msg)
        if self._last_ms is not None and at_ms <= self._last_ms:
            msg = f"time is {at_ms} ms; wanted one after that of the last row, {self._last_ms} ms"
            raise ValueError(msg)
        if self._metrics is None:
            if isinstance(value, Mapping):
                msg = f"value is a mapping; wanted a number, or Detector(metrics={sorted(value)})"
                raise ValueError(msg)
            return at_ms, np.array([math.nan if value is None else float(value)])
        if not isinstance(value, Mapping):
            msg = f"value is {value!r}; wanted a mapping of {', '.join(self._metrics)} to numbers"
            raise ValueError(msg)
        if unknown := value.keys() - set(self._metrics):
            msg = f"no metric {min(unknown)!r}; there are {', '.join(self._metrics)}"
            raise ValueError(msg)
        found = (value.get(name) for name in self._metrics)
        return at_ms, np.array([math.nan if one is None else float(one) for one in found])


def _milliseconds(time: Time) -> int:
    if not isinstance(time, datetime):
        if not math.isfinite(time):
            msg = f"time is {time}; wanted seconds since 1970"
            raise ValueError(msg)
        return round(1000 * time)
    if time.tzinfo is None:
        msg = f"time is {time.isoformat()} without a time zone; wanted an aware datetime, such as datetime.now(UTC)"
        raise ValueError(msg)
    return round(1000 * time.timestamp())
