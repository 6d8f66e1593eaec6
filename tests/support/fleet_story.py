"""Windows for tests, and the events of a detector for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from models.core.windows import Scores, Windows
from models.detection.detector import ShardDetector
from models.records.records import EpisodeEvent

START = 1_767_571_200_000
WINDOW = 10_000
Row = float | int | tuple[int, str]


def windows(rows: Mapping[str, Row]) -> Windows:
    """Values of gauges and counters, numbers of lines, `(lines, template)` of templates."""
    names = sorted(rows)
    size = len(names)
    n, values = np.ones(size, dtype=np.int64), np.full(size, np.nan)
    template = np.full(size, None, dtype=object)
    for i, name in enumerate(names):
        row = rows[name]
        if isinstance(row, tuple):
            n[i], template[i] = row
        elif name.startswith(("logs/", "template/")):
            n[i] = int(row)
        else:
            values[i] = row
    series = np.array(names, dtype=object)
    return Windows(series, n, values, np.zeros(size), values, values, values, template, template)


class DetectorRun:
    """Feeds a detector window by window, each of `window` ms, and keeps what it says."""

    def __init__(self, detector: ShardDetector, begin: int = START, window: int = WINDOW) -> None:
        self.detector, self.now, self.window = detector, begin, window
        self.events: list[EpisodeEvent] = []
        self.scores: list[Scores] = []

    def play(self, *stories: Iterable[Mapping[str, Row]]) -> list[EpisodeEvent]:
        """The events of these windows."""
        before = len(self.events)
        for story in stories:
            for rows in story:
                self.now += self.window
                scores, events = self.detector.step(self.now, windows(rows))
                self.scores.append(scores)
                self.events += events
        return self.events[before:]

    def gap(self, count: int) -> None:
        """Windows in which nothing was recorded at all."""
        self.now += count * self.window

    def score_of(self, series: str) -> float:
        """The score of a series in the last window."""
        last = self.scores[-1]
        return float(last.score[last.series.tolist().index(series)])


def words(events: Iterable[EpisodeEvent]) -> list[tuple[str, str, str]]:
    """Series, status and kind of events."""
    return [(n.series, n.status, n.kind) for n in events]
