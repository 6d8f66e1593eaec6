"""Episodes that come back: of one series at regular times (a restart each night, a disk that is cleaned every three days), or of one series after
the other that differ in labels alone (an error on one of a switch's ports).

Of the last n times between the beginnings of episodes, seconds, the mean m and the predictive spread s of the next one are known
(`models.stats.intervals`). Another episode is expected e seconds after the last one if

    |e / k - m| <= MOST_DEVIATION s        k = e / m, rounded: one or two may be missing

where n >= LEAST_INTERVALS and s <= MOST_SPREAD m. The episode *recurs* where it has been so for a day (a pod that restarts every five minutes is
not regular within its first hour), and only as long as it is no stronger and no longer than those before were: beyond `GROWTH` times that it is
an episode like any other.

That a metric is silent and that its values are strange are different causes, of which neither stands for the other. One more between two
expected ones is not expected, and is left out. Any other time of coming begins anew. Of episodes that come at random (a
Poisson process) 0.2 % are taken for regular; of those that come every 20 hours, give or take 5 %, 13 % are not, the first four included
(tests/models/test_recurrence.py).

Series are *alike* if host, service and metric are the same and labels differ. Where the last episodes of others alike began on three or more
occasions of the last week, of five minutes each, the first of them a day ago, another one recurs as well, unless more than twice as many begin
together. Three of those occasions have to be as long and as strong, as above.

It fails where a fault comes just when something regular is due, and looks like it: it is reported once the regular one has come as well. So it does
for a fault that is one of many short ones.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any

import pyarrow as pa

from models.stats import intervals
from models.stats.intervals import LEAST_INTERVALS, MOST_DEVIATION, MOST_MISSING, MOST_SPREAD

ESTABLISHED_SECONDS = 86_400.0
PRIOR_SPREAD = 0.05  # of the mean
GROWTH = 1.5
TOGETHER, WEEK = 300_000, 7 * 86_400_000  # ms
SHORT = 300.0  # seconds: what is shorter is as short as that
LEAST_OCCASIONS, MOST_ALIKE = 3, 64  # of series that are alike, the latest
PART = "recurrences"


@dataclass
class Recurrence:
    """How the episodes of a series have come back.

    Attributes
    ----------
    since, last
        When the first one of those that count and the last one began, epoch ms.
    intervals, mean, squares
        How many times between them count, their mean and their sum of squared deviations, seconds.
    longest, highest
        Of those that have ended: how long they lasted, seconds, and their evidence, nats, at most.
    """

    since: int = 0
    last: int = 0
    intervals: float = 0.0
    mean: float = 0.0
    squares: float = 0.0
    longest: float = 0.0
    highest: float = 0.0

    def note_begin(self, start: int, found: int) -> bool:
        """Take in an episode that began at `start` and was opened at `found`, epoch ms; answers whether it recurs."""
        if not self.last:
            self.since = self.last = start
            return False
        passed = (start - self.last) / 1000
        if passed <= 0:  # the last one was closed and goes on
            return False
        if self.intervals < LEAST_INTERVALS:
            self._learn(passed, start)
            return False
        spread = self._spread()
        regular, times = spread <= MOST_SPREAD * self.mean, max(round(passed / self.mean), 1)
        # Of what began within windows, and was noticed some windows later, the time is not better known.
        near = MOST_DEVIATION * spread + min((found - start) / 1000, MOST_SPREAD * self.mean)
        if regular and times <= 1 + MOST_MISSING and abs(passed / times - self.mean) <= near:
            self._learn(passed / times, start)
            return start - self.since >= 1000 * ESTABLISHED_SECONDS
        if not (regular and times <= 1):
            self.since = self.last = start
            self.intervals = self.mean = self.squares = self.longest = self.highest = 0.0
        return False

    def note_end(self, start: int, lasted: float, evidence: float) -> None:
        """Take in that the episode that began at `start`, epoch ms, is over: how long it lasted, seconds, and its evidence, nats.

        Of one that was not expected nothing is learnt.
        """
        if start == self.last:
            self.longest = max(self.longest, lasted)
            self.highest = max(self.highest, evidence)

    def _spread(self) -> float:
        """The spread of the next interval, seconds."""
        return float(intervals.predictive_spread(self.intervals, self.mean, self.squares, PRIOR_SPREAD))

    def _learn(self, seconds: float, start: int) -> None:
        known = intervals.learn_interval(self.intervals, self.mean, self.squares, seconds)
        self.intervals, self.mean, self.squares = map(float, known)
        self.last = start


NUMBERS = tuple(one.name for one in fields(Recurrence))
COLUMNS = dict.fromkeys(("series", "cause"), "string") | dict.fromkeys(NUMBERS[:2], "int64")
COLUMNS |= dict.fromkeys(NUMBERS[2:], "double")
numbers_of = attrgetter(*NUMBERS)


@dataclass(frozen=True)
class UsualEpisode:
    """What an episode that recurs is held against: the time between two, how long they last, seconds, and their evidence, nats, at most."""

    every: float
    longest: float
    highest: float


@dataclass
class Recurrences:
    """The recurrences of a shard, by series and cause of the episodes, and whether they have changed since the last dump."""

    known: dict[tuple[str, str], Recurrence] = field(default_factory=dict)
    changed: bool = False

    def __post_init__(self) -> None:
        """Sort those that are alike by their last episodes."""
        self._alike: dict[tuple[str, str], list[tuple[int, str]]] = {}
        for (series, cause), one in self.known.items():
            self._alike.setdefault((without_labels(series), cause), []).append((one.last, series))
        for own in self._alike.values():
            own.sort()

    def note_begin(self, series: str, cause: str, start: int, found: int) -> UsualEpisode | None:
        """Take in an episode that began at `start` and was opened at `found`, epoch ms; answers what it is like where it recurs."""
        own, alike = self.known.get((series, cause)), self._alike.setdefault((without_labels(series), cause), [])
        if own is None:
            own = self.known[series, cause] = Recurrence()
        else:
            del alike[bisect_left(alike, (own.last, series))]
        self.changed = True
        if own.note_begin(start, found):
            usual: UsualEpisode | None = UsualEpisode(own.mean, own.longest, own.highest)
        else:
            at = bisect_left(alike, (start - WEEK, ""))
            oldest = alike[at][0] if at < len(alike) - MOST_ALIKE else start
            usual = find_usual([self.known[name, cause] for _, name in alike[-MOST_ALIKE:]], start, oldest)
        insort(alike, (own.last, series))
        return usual

    def note_end(self, series: str, cause: str, start: int, lasted: float, evidence: float) -> None:
        """Take in the end of an episode, see `Recurrence.note_end`."""
        if (series, cause) in self.known:
            self.changed = True
            self.known[series, cause].note_end(start, lasted, evidence)

    def forget(self, series: Container[str]) -> None:
        """Forget these series."""
        for name, cause in [key for key in self.known if key[0] in series]:
            alike = self._alike[without_labels(name), cause]
            del alike[bisect_left(alike, (self.known.pop((name, cause)).last, name))]
            if not alike:
                del self._alike[without_labels(name), cause]
            self.changed = True

    def rows(self) -> list[tuple[Any, ...]]:
        """With the columns `COLUMNS`, in the order of the names."""
        return [(*key, *numbers_of(self.known[key])) for key in sorted(self.known)]

    @classmethod
    def load(cls, columns: Mapping[str, pa.Array]) -> Recurrences:
        """The inverse of `rows`, from the arrays of `read_part`."""
        rows = zip(*(columns[name].to_pylist() for name in NUMBERS), strict=True)
        keys = zip(columns["series"].to_pylist(), columns["cause"].to_pylist(), strict=True)
        return cls({key: Recurrence(*row) for key, row in zip(keys, rows, strict=True)})


def without_labels(series: str) -> str:
    """The name of a series without its labels; a host or service may have a brace in its name."""
    *owner, rest = series.split("/", 3)
    return series if len(owner) < 3 else "/".join([*owner, rest.partition("{")[0]])


def find_usual(alike: Iterable[Recurrence], start: int, oldest: int) -> UsualEpisode | None:
    """What an episode that begins at `start`, epoch ms, is like where those of others `alike` have come often enough; else None.

    Where these are the latest of more, `oldest` is when the first one of the last week began, epoch ms; else `start`.
    """
    occasions: dict[int, list[Recurrence]] = {}
    together = 1
    for one in alike:
        if abs(start - one.last) <= TOGETHER:
            together += 1
        elif start - one.last <= WEEK and one.longest > 0:
            occasions.setdefault(one.last // TOGETHER, []).append(one)
    as_many = [own for own in occasions.values() if 2 * len(own) >= together]
    first = min((one.last for own in as_many for one in own), default=start)
    begun = min(first, oldest) if together <= 2 else first  # one alone is an occasion then
    if len(as_many) < LEAST_OCCASIONS or start - begun < 1000 * ESTABLISHED_SECONDS:
        return None
    longest = sorted((max(one.longest for one in own) for own in as_many), reverse=True)
    highest = sorted((max(one.highest for one in own) for own in as_many), reverse=True)
    every = (start - first) / 1000 / len(as_many)
    return UsualEpisode(every, longest[LEAST_OCCASIONS - 1], highest[LEAST_OCCASIONS - 1])
