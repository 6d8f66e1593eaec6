"""Labels that people give to incidents: true, false alarm, expected change, acknowledged. Labels are records of the log.

A label comes into a shard as a row of series `label/HOST/OFFSET`, in the window in which it was appended, and takes effect
before that window is scored. A *pattern* is the cause of an episode, with its direction where it has one. That a metric moves more or less than
usual, within its interval, is a pattern of its own: its values are on both sides of the typical one.

    false-alarm      the pattern of the last episode of each series, up to BEYOND times as far off, is reported only with
                     `label_nats` more surprise from then on. Labels add up, to MOST_LABELS of them; half of the demand is
                     left after `label_half_life_days`
    true             the demand on that pattern is removed
    expected-change  the level that the series has now is adopted as normal, and its open episode ends as a change
    acknowledged     nothing: it tells people who has the incident in hand
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import numpy as np

from models.core.arrays import Floats, Ints
from models.core.parameters import DetectorParameters
from models.core.windows import Windows
from models.detection.episodes import Episode
from models.detection.limits import LABELS
from models.detection.shard_state import DAY_MS, HOUR_MS, ShardState
from models.records.records import ACKNOWLEDGED, EXPECTED, TRUE, EpisodeEvent, Overflow

FIRST = "label/"  # names of labels begin so
BEYOND = 3.0  # a deviation so many times as large as the labelled one is not affected
MOST_LABELS = 3  # false alarms of one pattern that add up
MOST_DEMANDED = 2_000  # series of a shard of which more surprise is demanded: 0.9 kB each
LEAST_NATS = 0.1  # smaller demands are forgotten
UP, DOWN = "up", "down"
ROUGHNESS = "roughness"  # as the part of the model that finds it
# The ways in which values deviate, of causes of episodes whose patterns say that.
WAYS = {"strange": (UP, DOWN, ROUGHNESS), "peers": (UP, DOWN)}
SIZED = ("strange", "peers", "high")  # causes whose deviations have a size, unless it is `ROUGHNESS`
USUAL = {
    "gauge": ("strange", "peers"),
    "counter": ("strange",),
    "logs": ("high", "frequent", "zero", "overdue"),
    "template": ("high", "frequent", "zero", "overdue"),
    "service": ("mix",),
}


def pattern_name(part: str, way: str) -> str:
    """The pattern of a cause, with the way in which values deviate where it has one."""
    return f"{part} {way}" if part in WAYS else part


class Labels:
    """Takes in labels, and answers how much more surprise each pattern needs."""

    def __init__(self, state: ShardState, p: DetectorParameters) -> None:
        self._state, self._p = state, p
        self.overflow: list[Overflow] = []  # of the last window
        self._dense: dict[tuple[str, str], tuple[Sequence[str], tuple[int, ...], Floats, Floats]] = {}

    def take(self, now: int, rows: Windows) -> Windows:
        """Apply the labels of a window in the order in which they were appended. Answers the other rows."""
        labels = rows.span(FIRST)
        self.overflow = []
        if labels.start == labels.stop:
            return rows
        left_out = set()
        for text in rows.sample[labels].tolist():
            label = json.loads(text)  # with those of its series that are of one host, see `extract`
            left_out |= {name for name in label["series"] if not self._apply(label["label"], name, now)}
        if left_out:
            self._count(now, left_out)
        self._state.control.changes += 1
        return rows.without_span(labels)

    def _count(self, now: int, left_out: set[str]) -> None:
        """A letter about the series that there is no room for."""
        names = [name[:200] for name in sorted(left_out)[:10]]
        wanted, left = len(self._state.control.demands) + len(left_out), len(left_out)
        self.overflow.append(
            Overflow(
                host="", limit=LABELS, window_end=now, wanted=wanted, most=MOST_DEMANDED, left_out=left, names=names
            )
        )

    def _apply(self, label: str, name: str, now: int) -> bool:
        """Apply a label to a series. Answers False where there is no room for what it demands."""
        if label == ACKNOWLEDGED:
            return True
        episode = self._state.episodes.get(name)
        if label == EXPECTED:
            if episode is not None:
                episode.expected = True
            return True
        demands = self._state.control.demands
        if label != TRUE and name not in demands and len(demands) >= MOST_DEMANDED:
            return False
        for pattern, size in self._patterns(name):
            if label == TRUE:
                demands.get(name, {}).pop(pattern, None)
            else:
                most, before = MOST_LABELS * self._p.label_nats, demands.get(name, {}).get(pattern)
                added = min(self._remaining_nats(name, pattern, now) + self._p.label_nats, most)
                reach = size if before is None or not size else max(size, before[2])
                demands.setdefault(name, {})[pattern] = (added, now, reach)
        if not demands.get(name, True):
            del demands[name]
        return True

    def _patterns(self, name: str) -> list[tuple[str, float]]:
        """Pattern and size of the last published episode of a series; all patterns of its kind if that is not known."""
        last = self._state.control.published.get(name)
        if last is not None:
            return [(last[0], last[2])]
        usual = USUAL.get(name.split("/", 1)[0], ())
        return [(pattern_name(part, way), 0.0) for part in usual for way in WAYS.get(part, ("",))]

    def _remaining_nats(self, name: str, pattern: str, now: int) -> float:
        nats, at, _ = self._state.control.demands.get(name, {}).get(pattern, (0.0, now, 0.0))
        return float(nats * 2.0 ** (-(now - at) / (DAY_MS * self._p.label_half_life_days)))

    @property
    def has_demands(self) -> bool:
        """Whether anything is demanded of any pattern."""
        return bool(self._state.control.demands)

    def remember_published(self, published: Iterable[EpisodeEvent]) -> None:
        """Remember published episodes, to know what a later label is about."""
        known = self._state.control.published
        for event in published:
            episode, size = self._state.episodes.get(event.series), deviation_of(event)
            if event.status == "open" and episode is not None:
                way = direction_of(episode)
                sized = episode.cause in SIZED and way != ROUGHNESS
                known[event.series] = (pattern_name(episode.cause, way), event.window_end, size if sized else 0.0)
            elif (
                event.kind == "anomaly" and event.series in known
            ):  # the value of a change is its new level, not the peak
                pattern, at, before = known[event.series]
                known[event.series] = (pattern, at, before and max(before, size))

    def forget(self, now: int) -> None:
        """Forget old episodes and small demands; called once an hour."""
        state, oldest = self._state.control, now - DAY_MS * self._p.forget_days
        state.published = {name: last for name, last in state.published.items() if last[1] >= oldest}
        kept = {
            name: {
                pattern: found
                for pattern, found in own.items()
                if self._remaining_nats(name, pattern, now) >= LEAST_NATS
            }
            for name, own in state.demands.items()
        }
        state.demands = {name: own for name, own in kept.items() if own}
        state.changes += 1

    def demanded_nats(
        self, table: str, pattern: str, rows: Ints, size: Floats | None = None, prefix: str = "", suffix: str = ""
    ) -> Floats | float:
        """Surprise that a pattern needs beyond the threshold, nats, as of the beginning of the hour.

        Parameters
        ----------
        table, rows, prefix, suffix
            The series: rows of a table of the shard, whose names with `prefix` and `suffix` are series.
        pattern
            As `pattern_name` makes it.
        size
            How far off values are, in the unit of episode events, `(n,)`; without it, deviations of any size are meant.

        Returns
        -------
        array of shape `(n,)`, or 0.0 where nothing is demanded of any pattern
        """
        if not self.has_demands:
            return 0.0
        names: Sequence[str] = getattr(self._state, table).names
        hour = self._state.last // HOUR_MS
        fits = (len(names), hour, self._state.control.changes)
        kept = self._dense.get((table, pattern))
        if kept is None or kept[0] is not names or kept[1] != fits:
            kept = self._dense[table, pattern] = (
                names,
                fits,
                *self._demands_of_table(table, pattern, hour * HOUR_MS, prefix, suffix),
            )
        nats, reach = kept[2][rows], kept[3][rows]
        found: Floats = nats if size is None else np.where(size <= reach, nats, 0.0)
        return found

    def _demands_of_table(self, table: str, pattern: str, at: int, prefix: str, suffix: str) -> tuple[Floats, Floats]:
        """Demand, and the largest deviation that it applies to, of all rows of a table."""
        columns = getattr(self._state, table)
        nats, reach = np.zeros(len(columns)), np.zeros(len(columns))
        for name, own in self._state.control.demands.items():
            fits = name.startswith(prefix) and name.endswith(suffix)
            row = columns.index.get(name.removeprefix(prefix).removesuffix(suffix)) if fits else None
            if row is not None and pattern in own:
                _, since, size = own[pattern]
                nats[row], reach[row] = self._remaining_nats(name, pattern, max(at, since)), BEYOND * size or np.inf
        return nats, reach


def deviation_of(event: EpisodeEvent) -> float:
    """Distance of an episode's value from the typical one; 0 if that is not known."""
    return float(np.nan_to_num(abs(event.value - event.typical)))


def direction_of(episode: Episode) -> str:
    """The way in which the values of an episode deviate."""
    if episode.part == ROUGHNESS and episode.lower <= episode.value <= episode.upper:
        return ROUGHNESS
    return DOWN if episode.value < episode.typical else UP
