"""What people say of incidents afterwards: true, a false alarm, an expected change. Labels are records of the log.

A label comes into a shard as a row of series `label/HOST/OFFSET`, in the window in which it was appended, and takes effect
before that window is scored.

    false-alarm      the pattern that opened the last episode of each series (which look at it, and in which direction) needs
                     `label_nats` more from then on. More labels add up, to MOST_LABELS of them; half is left after
                     `label_half_life_days`
    true             that pattern needs no more than usual again
    expected-change  the level that the series has now is the normal, and its open episode ends as a change
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from models.episodes import Episode
from models.novelty import Novelty
from models.parameters import Parameters
from models.shard_state import ShardState
from models.store import Ints
from models.windows import Floats, Windows

TRUE, FALSE_ALARM, EXPECTED = "true", "false-alarm", "expected-change"
LABELS = (TRUE, FALSE_ALARM, EXPECTED)
FIRST, AFTER = "label/", "label0"  # names of labels lie between
MOST_LABELS = 3  # false alarms of one pattern that add up
LEAST_NATS = 0.1  # what is less is forgotten
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
UP, DOWN = "up", "down"
# The looks at a series that have a direction; the others have the same name both ways.
DIRECTED = ("strange",)
USUAL = {"gauge": ("strange",), "counter": ("strange",), "logs": ("high", "zero"), "template": ("high", "zero")}


@dataclass(frozen=True)
class Label:
    """One label, as far as one host is concerned."""

    label: str
    series: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Label:
        """From the JSON that `extract` makes of it."""
        found = json.loads(text)
        return cls(found["label"], tuple(found["series"]))


def named(part: str, way: str) -> str:
    """A pattern: the look at a series, and the direction where it has one."""
    return f"{part} {way}" if part in DIRECTED else part


class Labels:
    """Takes in labels, and says what more they demand of a pattern."""

    def __init__(self, state: ShardState, p: Parameters) -> None:
        self._state, self._p = state, p
        self._dense: dict[tuple[str, str], tuple[Sequence[str], tuple[int, ...], Floats]] = {}
        self._changes = 0

    def take(self, now: int, rows: Windows) -> Windows:
        """The labels of a window take effect, in the order in which they were appended. Answers the rows that are none."""
        first, after = bisect_left(rows.series, FIRST), bisect_left(rows.series, AFTER)
        if first == after:
            return rows
        for text in rows.sample[first:after].tolist():
            label = Label.of(text)
            for name in label.series:
                self._apply(label.label, name, now)
        self._changes += 1
        labels = np.zeros(len(rows), dtype=bool)
        labels[first:after] = True
        return rows.without(labels)

    def _apply(self, label: str, name: str, now: int) -> None:
        episode = self._state.episodes.get(name)
        if label == EXPECTED:
            if episode is not None:
                episode.expected = True
            return
        for pattern in self._patterns(name):
            if label == TRUE:
                self._state.control.demands.get(name, {}).pop(pattern, None)
            else:
                left, most = self._left(name, pattern, now), MOST_LABELS * self._p.label_nats
                added = min(left + self._p.label_nats, most)
                self._state.control.demands.setdefault(name, {})[pattern] = (added, now)
        if not self._state.control.demands.get(name, True):
            del self._state.control.demands[name]

    def _patterns(self, name: str) -> list[str]:
        """The pattern of the last episode that was said of a series; if that is not known, all that are usual."""
        last = self._state.control.spoken.get(name)
        if last is not None:
            return [last[0]]
        return [named(part, way) for part in USUAL.get(name.split("/", 1)[0], ()) for way in (UP, DOWN)]

    def _left(self, name: str, pattern: str, now: int) -> float:
        nats, at = self._state.control.demands.get(name, {}).get(pattern, (0.0, now))
        return float(nats * 2.0 ** (-(now - at) / (DAY_MS * self._p.label_half_life_days)))

    @property
    def any(self) -> bool:
        """Whether any pattern needs more than the usual."""
        return bool(self._state.control.demands)

    def note(self, spoken: Iterable[Novelty]) -> None:
        """Remember what was said, to know what a label is about."""
        for novelty in spoken:
            episode = self._state.episodes.get(novelty.series)
            if novelty.status == "open" and episode is not None:
                self._state.control.spoken[novelty.series] = (named(episode.cause, way_of(episode)), novelty.window_end)

    def forget(self, now: int) -> None:
        """Once an hour: let go of what is long ago, or hardly counts any more."""
        state, oldest = self._state.control, now - DAY_MS * self._p.forget_days
        state.spoken = {name: last for name, last in state.spoken.items() if last[1] >= oldest}
        kept = {
            name: {pattern: found for pattern, found in own.items() if self._left(name, pattern, now) >= LEAST_NATS}
            for name, own in state.demands.items()
        }
        state.demands = {name: own for name, own in kept.items() if own}
        self._changes += 1

    def demand(self, table: str, pattern: str, rows: Ints, prefix: str = "") -> Floats | float:
        """Nats that a pattern needs beyond the usual ones, `(n,)`, of series at `rows` of a table, as of the hour's beginning."""
        if not self.any:
            return 0.0
        names: Sequence[str] = getattr(self._state, table).names
        hour = self._state.last // HOUR_MS
        fits = (len(names), hour, self._changes)
        kept = self._dense.get((table, pattern))
        if kept is None or kept[0] is not names or kept[1] != fits:
            kept = self._dense[table, pattern] = names, fits, self._made(table, pattern, hour * HOUR_MS, prefix)
        found: Floats = kept[2][rows]
        return found

    def _made(self, table: str, pattern: str, at: int, prefix: str) -> Floats:
        columns = getattr(self._state, table)
        found = np.zeros(len(columns))
        for name in self._state.control.demands:
            row = columns.index.get(name.removeprefix(prefix)) if name.startswith(prefix) else None
            if row is not None:
                found[row] = self._left(name, pattern, max(at, self._since(name, pattern)))
        return found

    def _since(self, name: str, pattern: str) -> int:
        return int(self._state.control.demands[name].get(pattern, (0.0, 0))[1])


def way_of(episode: Episode) -> str:
    """The direction in which an episode's peak lies."""
    return DOWN if episode.value < episode.typical else UP
