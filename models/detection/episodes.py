"""Open episodes of series: opened once, updated rarely, closed once."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from models.core.series import parse
from models.detection import reasons, recurrence
from models.detection.recurrence import Recurrences
from models.records.records import USUAL_END, EpisodeEvent, episode_id
from models.stats.interval_distance import distance_in_widths, two_farthest

GROWTH = 1.5  # an update is due when the score has grown by this factor
GATHERED = 1.25  # or when the evidence has: incidents wait for it
MOST_UPDATES = 8
INDEPENDENT_WINDOWS = 10.0  # rows of an episode that are nearer to one another are not independent evidence
RECENT_SECONDS = 180.0  # half-life
LIMITED = "limited"  # the cause of what says that a host sends more than it may
APPEARED = "appeared"  # the cause of what is reported once: a new host, service, metric or template
UNDECIDED = ("anomaly", "silence")  # kinds that may yet become a change
PRIOR = 1e-4  # share of windows in which something is strange


def certainty(nats: float) -> float:
    """Upper bound of the posterior probability that an episode is not chance.

    A surprisal of s nats is a p-value of e^-s. Whatever alternative explains it, the odds of chance fall at most by

        B = e s e^-s                    s > 1: the least Bayes factor over alternatives that make small p-values likelier

    (Sellke, Bayarri and Berger 2001, "Calibration of p values for testing precise null hypotheses"). With prior odds of one strange
    window in ten thousand, a day of windows of ten seconds,

        certainty = 1 / (1 + B (1 - PRIOR) / PRIOR)

    is the most that the evidence can make it: 11 nats are 0.2, 14 are 0.76, 17 are 0.98, 20 are 0.999. It is far too high where the
    calibration has drifted, because the surprisal is no p-value then.

    Parameters
    ----------
    nats
        Evidence of the episode; NaN where it is not known.

    Returns
    -------
    0 to 1; NaN where `nats` is.
    """
    if math.isnan(nats):
        return math.nan
    factor = math.e * nats * math.exp(-nats) if nats > 1 else 1.0
    return 1 / (1 + factor * (1 - PRIOR) / PRIOR)


@dataclass
class Episode:
    """One open episode. Fields that are not listed are those of its events.

    Attributes
    ----------
    cause
        What opened it, and so what ends it: `strange`, `stuck`, `high`, `frequent`, `zero`, `mix`, `host silent`, `metric silent`,
        `appeared`, `limited`.
    reason
        The sentence of its events.
    published_score, published_evidence, updates
        Score and evidence of the last event, nats, and the number of updates so far.
    normal_windows
        Normal windows in a row, so far.
    over
        When it is due to be closed, epoch ms; 0: not yet known.
    adopted, expected, strayed
        Whether its values were adopted as normal, whether a label says that the change is expected, and whether a value has
        been outside its interval.
    began_with, farthest, second, delay
        Of a metric's values: typical value, lower and upper end of the interval of its first window; the largest and the second largest
        distance from that, in widths of the interval, the latter None after one window; by how much the series may be late, seconds.
    opened_as
        The series that it was opened on, where that has become part of another one; empty else.
    recurs_every, longest, highest
        Of one that has come back as usual: the usual time between two, seconds (else 0), and how long they last, seconds, and
        their evidence, nats, at most: see `models.detection.recurrence`.
    strange_until
        When its last window that was not normal ended, epoch ms.
    mean, weight
        Of log lines: the mean of the last minutes, and how many windows it is worth; of rare ones that are frequent, since it was opened.
    silent_seconds
        Of a metric that is silent: how long it has been, where `reason` is yet to be made of that; else 0. No part of what is dumped.
    """

    series: str
    cause: str
    kind: str
    start: int
    score: float
    evidence: float
    value: float
    typical: float
    lower: float
    upper: float
    unit: str
    reason: str
    template: str | None = None
    sample: str | None = None
    published_score: float = 0.0
    updates: int = 0
    normal_windows: int = 0
    over: int = 0
    adopted: bool = False
    strayed: bool = False
    expected: bool = False
    mean: float = 0.0
    weight: float = 0.0
    part: str = ""
    before: float = math.nan
    after: float = math.nan
    published_evidence: float = 0.0
    began_with: Sequence[float] = ()
    farthest: float = 0.0
    second: float | None = None
    delay: float = 0.0
    published_strength: float = 0.0
    opened_as: str = ""
    recurs_every: float = 0.0
    longest: float = 0.0
    highest: float = 0.0
    strange_until: int = 0
    silent_seconds: float = field(default=0.0, compare=False)

    def finish_reason(self) -> None:
        """Make the sentence of a metric that is silent: it changes with every window, and few are published."""
        if self.silent_seconds:
            series, seconds, self.silent_seconds = parse(self.series), self.silent_seconds, 0.0
            self.reason = reasons.silent(f"{reasons.subject(series)} on {series.host}", seconds, self.typical)

    def add_reason(self, text: str) -> None:
        """Append to the sentence."""
        self.finish_reason()
        self.reason += text

    def event(self, status: str, window_end: int) -> EpisodeEvent:
        """An event of the episode; it becomes the last one that was published."""
        self.finish_reason()
        self.published_score, self.published_evidence, self.published_strength = (
            self.score,
            self.evidence,
            self.strength,
        )
        facts = self.cause in (APPEARED, LIMITED)
        sure, provisional = self.certainty, status != "close" and self.kind in UNDECIDED and not facts
        return EpisodeEvent(
            id=episode_id(self.opened_as or self.series, self.start),
            series=self.series,
            alias_of=self.opened_as or None,
            kind=self.kind,
            status=status,
            start=self.start,
            window_end=window_end,
            score=self.score,
            evidence=self.evidence,
            value=self.value,
            typical=self.typical,
            lower=self.lower,
            upper=self.upper,
            unit=self.unit,
            reason=self.reason,
            template=self.template,
            sample=self.sample,
            part=self.part,
            certainty=sure,
            provisional=provisional,
            before=self.before,
            after=self.after,
            strength=self.strength,
            delay=self.delay,
            recurs_every=self.recurs_every if self.recurs_every and not self.adopted else math.nan,
        )

    def move(self, series: str) -> None:
        """Go on as the episode of another series, which its own has become part of."""
        if series != self.series:
            self.opened_as, self.series = self.opened_as or self.series, series

    @property
    def strength(self) -> float:
        """How far its values have gone in two windows, in widths of the interval of its first one; NaN where there is no measure."""
        if not self.began_with:
            return math.nan
        return self.farthest if self.second is None else self.second

    def add_distance(self, value: float) -> None:
        """Take in the distance of another value from what was expected of its first window."""
        if self.began_with:
            distance = distance_in_widths(value, *self.began_with)
            self.farthest, self.second = two_farthest(self.farthest, self.second or 0.0, distance)

    @property
    def certainty(self) -> float:
        """Upper bound of the probability that the episode is not chance; 1 of a new host, service or metric, and of a limit.

        Evidence gathered by lasting is counted in full here, so long weak episodes look surer than they are.
        """
        sure = self.cause == LIMITED or (self.cause == APPEARED and self.kind == "change")
        return 1.0 if sure else certainty(self.evidence)

    def add_surprise(self, score: float, allowance: float, windows: float) -> bool:
        """Add the surprise of another row, nats, so many windows after the last one; answers whether it is a new peak."""
        self.evidence += min(windows / INDEPENDENT_WINDOWS, 1.0) * max(score - allowance, 0.0)
        if score <= self.score:
            return False
        self.evidence += score - self.score
        self.score = score
        return True

    def add_value(self, value: float, seconds: float) -> None:
        """Add a value to the mean, `seconds` after the last one."""
        self.weight = 1.0 + self.weight * 0.5 ** (seconds / RECENT_SECONDS)
        self.mean += (value - self.mean) / self.weight

    def update_due(self, now: int) -> bool:
        """Whether score, evidence or strength have grown enough since the last event, or the strength has fallen; counts the update.

        It is also due where an episode that recurs is longer or stronger by now, epoch ms, than those before it were: it is one like any other.
        """
        if self.recurs_every and self.is_unusual(now):
            self.recurs_every = 0.0
            return True
        grown = self.score >= GROWTH * self.published_score or self.evidence >= GATHERED * self.published_evidence
        known, before = self.strength, self.published_strength
        grown |= known >= GROWTH * before or before >= GROWTH * known
        if not grown or self.updates >= MOST_UPDATES:
            return False
        self.updates += 1
        return True

    def is_unusual(self, now: int) -> bool:
        """Whether it is longer or stronger by now, epoch ms, than those before it."""
        return (
            self.unusual_seconds(now) > recurrence.GROWTH * max(self.longest, recurrence.SHORT)
            or self.evidence > recurrence.GROWTH * self.highest
        )

    def count_normal(self, now: int, *, normal: bool) -> None:
        """Take in whether the window that ended at `now`, epoch ms, was normal."""
        self.normal_windows = self.normal_windows + 1 if normal else 0
        if not normal:
            self.strange_until = now

    def unusual_seconds(self, now: int) -> float:
        """Seconds from its beginning to its last window that was not normal; of what is missing all are, until now, epoch ms."""
        counted = self.kind == "anomaly" or self.normal_windows
        return ((self.strange_until if counted else now) - self.start) / 1000

    def dump(self) -> str:
        """As JSON; floats keep every bit."""
        self.finish_reason()
        known = {name: value for name, value in vars(self).items() if name != "silent_seconds"}
        return json.dumps(known, sort_keys=True, ensure_ascii=False)

    @classmethod
    def load(cls, text: str) -> Episode:
        """The inverse of `dump`."""
        return cls(**json.loads(text))


class Episodes:
    """The open episodes of a shard, one for each series at most, and how those of each series have come back."""

    def __init__(self, episodes: Iterable[Episode] = (), recurrences: Recurrences | None = None) -> None:
        self.open: dict[str, Episode] = {e.series: e for e in episodes}
        self.recurrences = Recurrences() if recurrences is None else recurrences

    def __contains__(self, series: str) -> bool:
        return series in self.open

    def get(self, series: str) -> Episode | None:
        """The open episode of a series."""
        return self.open.get(series)

    def begin(self, episode: Episode, window_end: int) -> EpisodeEvent:
        """Open an episode. Answers the event."""
        self.open[episode.series] = episode
        episode.strange_until = window_end
        if episode.kind in UNDECIDED and episode.cause not in (LIMITED, USUAL_END):
            usual = self.recurrences.note_begin(episode.series, episode.cause, episode.start, window_end)
            if usual is not None:
                episode.longest, episode.highest = usual.longest, usual.highest
                episode.recurs_every = 0.0 if episode.is_unusual(window_end) else usual.every
        return episode.event("open", window_end)

    def close(self, series: str, window_end: int) -> EpisodeEvent:
        """Close the episode of a series. Answers the event."""
        episode = self.open.pop(series)
        if not episode.adopted:
            self.recurrences.note_end(
                series, episode.cause, episode.start, episode.unusual_seconds(window_end), episode.evidence
            )
        return episode.event("close", window_end)

    def ending_at(self, window_end: int) -> list[str]:
        """Series whose episodes end now, in order of their names."""
        return sorted(name for name, e in self.open.items() if e.over and e.over <= window_end)

    def dump(self) -> list[str]:
        """Every episode as JSON, in order of series."""
        return [self.open[name].dump() for name in sorted(self.open)]

    @classmethod
    def load(cls, texts: Iterable[str], recurrences: Recurrences | None = None) -> Episodes:
        """The inverse of `dump`."""
        return cls((Episode.load(text) for text in texts), recurrences)
