"""The records of kappa's topics, one class each: names, types, units and meanings of their fields.

Every record says what it is in its field `record`; a refused record, whose value may be any bytes, in the Kafka header
`kappa.record`. The schemas of Arrow, Spark, Elasticsearch and JSON come from these classes (`models.records.schema`), and so do
the JSON Schemas in `docs/schemas`. Times are event times in epoch milliseconds, surprise and evidence are in nats.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

from models.core.series import parse
from models.core.wording import distinguishable
from models.records.schema import NOT_INDEXED, Doc, parsed, plain

STATUSES = ("open", "update", "close")
STATUS_ORDER = {status: order for order, status in enumerate(STATUSES)}
EPISODE_KINDS = ("anomaly", "change", "new", "silence")
LASTING_KINDS = ("anomaly", "silence")
SEVERITIES = INFO, MINOR, MAJOR, CRITICAL = ("info", "minor", "major", "critical")
LIMIT = "limit"  # part of an episode about a host, or the fleet, that sends more than it may
USUAL_END = "usual end"  # part of an episode about a host that ends where hosts like it end often
APPEARANCES = ("new host", "new service", "new metric", "new template")
MAX_NAME = 256  # characters of a host, service or metric
MOST_COMMENT, MOST_AUTHOR = 1_000, 100  # characters of a label
TRUE, FALSE_ALARM, EXPECTED, ACKNOWLEDGED = LABELS = ("true", "false-alarm", "expected-change", "acknowledged")
OUTCOMES = DELIVERED, FAILED, HELD = ("delivered", "failed", "held")
EARLY_STATUSES = RAISED, CONFIRMED, WITHDRAWN = ("raised", "confirmed", "withdrawn")
JOBS = ("extract", "detect", "correlate", "index")
HEADER = "kappa."
MILLISECONDS = "epoch ms"
LETTER_BYTES = 65_536  # of a refused record that its letter holds
MAX_REASON = 1_000  # characters of why it was refused
MAX_SENTENCE = 2_000  # characters of the reason of an episode
MOST_SERVICES = 500  # that a watermark message lists
LIST_BYTES = 131_072  # of JSON of each list in an incident
MOST_WATCHED = 10**12  # series or hosts of a shard: sums over all shards are of 64 bits
MOST_CALLS = 500  # that a watermark message lists
CALL_BYTES = 65_536  # of JSON of them
CHANGE_KINDS = ("deployment", "configuration", "scaling", "other")
CHANGE_BYTES = 65_536  # of JSON of the changes that a watermark message lists
TOPOLOGY_BYTES = 131_072  # of JSON of the calls that it lists
MOST_TEXT = 200  # characters of a text for people that comes with a change

PEERS = ("peers", "peers_lower", "peers_median", "peers_upper")  # what a row of `statistics` says of other hosts

Key = tuple[str, ...]

RecordKind = Annotated[str, Doc("Type of the record.")]
SeriesName = Annotated[
    str, Doc("Name of the series: `kind/host/service/...`, with `%` and `/` of a part as `%25` and `%2F`.")
]
WindowEnd = Annotated[int, Doc("End of the event-time window.", MILLISECONDS)]
Version = Annotated[str, Doc("Version of the pipeline that wrote it, such as `live`.")]


@dataclass(frozen=True, kw_only=True)
class StatisticsRow:
    """Exact statistics of one series in one event-time window. Topic `statistics`."""

    KIND: ClassVar = "statistics"

    record: RecordKind = KIND
    series: SeriesName
    window_end: WindowEnd
    n: Annotated[int, Doc("Points of a metric, or lines of a template or level.")]
    mean: Annotated[float, Doc("Mean; 0 for a counter, of which `last` counts.", "unit of the metric")] = math.nan
    m2: Annotated[float, Doc("Sum of squared deviations from the mean.", "unit of the metric, squared")] = math.nan
    min: Annotated[float, Doc("Least value.", "unit of the metric")] = math.nan
    max: Annotated[float, Doc("Largest value.", "unit of the metric")] = math.nan
    last: Annotated[float, Doc("Value with the largest event time, then offset.", "unit of the metric")] = math.nan
    peers: Annotated[
        int | None,
        Doc("Number of other hosts of the role (service, metric and labels) in the window; missing below 5."),
    ] = None
    peers_lower: Annotated[float, Doc("10 % quantile of their means.", "unit of the metric")] = math.nan
    peers_median: Annotated[float, Doc("Median of their means.", "unit of the metric")] = math.nan
    peers_upper: Annotated[float, Doc("90 % quantile of their means.", "unit of the metric")] = math.nan
    shard: Annotated[int, Doc("Shard of the host: all its series are scored together.")] = 0
    template: Annotated[
        str | None, Doc("Log template: the message with its variable parts masked; of a rule, its name.")
    ] = None
    sample: Annotated[
        str | None,
        Doc("Least message of the window in byte order; of a label, change or rule, its JSON, null of a refused rule."),
    ] = None


@dataclass(frozen=True, order=True)
class CallSeen:
    """One service calls another."""

    client: Annotated[str, Doc("The service that calls.")]
    server: Annotated[str, Doc("The service that is called.")]


@dataclass(frozen=True, order=True)
class AnnouncedChange:
    """A change of a service or host that somebody has announced."""

    at: Annotated[int, Doc("When it was made.", MILLISECONDS)]
    change: Annotated[str, Doc("What kind of change it is.", values=CHANGE_KINDS)]
    service: Annotated[str, Doc("The service that was changed.")] = ""
    host: Annotated[str, Doc("The host that was changed.")] = ""
    version: Annotated[str, Doc("The new version, for people.")] = ""
    comment: Annotated[str, Doc("What was changed, for people; 200 characters at most.")] = ""
    author: Annotated[str, Doc("Who made it.")] = ""

    @property
    def name(self) -> str:
        """What was changed: the service, or else the host."""
        return self.service or self.host


@dataclass(frozen=True, order=True)
class AnnouncedCall:
    """A call between services that somebody has announced, or that it is no more."""

    client: Annotated[str, Doc("The service that calls.")]
    server: Annotated[str, Doc("The service that is called.")]
    removed: Annotated[bool, Doc("Whether it does so no more.")] = False


@dataclass(frozen=True)
class Watched:
    """How much is watched, so that the false alarms which chance makes can be counted, and what is known of it. All 0 where it is not known."""

    series: Annotated[int, Doc("Number of series.")] = 0
    hosts: Annotated[int, Doc("Number of hosts that are remembered.")] = 0
    window_seconds: Annotated[float, Doc("Length of a window.", "s")] = 0.0
    services: Annotated[
        Mapping[str, int],
        Doc(
            "Number of hosts by service, of those that are there or were lately; the key `` is hosts with series that have no service. "
            "Those with the most hosts, then by name, 500 at most."
        ),
    ] = field(default_factory=dict)
    services_omitted: Annotated[int, Doc("Number of services that `services` leaves out.")] = 0
    calls: Annotated[
        list[CallSeen],
        Doc(
            "Calls between services that labels of metrics tell, in order of names. Where there are more than 500, or than 65,536 bytes, "
            "each host that tells them has the same room at most."
        ),
    ] = field(default_factory=list)
    changes: Annotated[
        list[AnnouncedChange], Doc("Changes that were announced in the window, 65,536 bytes at most.")
    ] = field(default_factory=list)
    topology: Annotated[list[AnnouncedCall], Doc("Calls that were announced in the window, 131,072 bytes at most.")] = (
        field(default_factory=list)
    )
    hosts_lately: Annotated[int, Doc("Number of hosts that are there or were lately; 0 where it is not known.")] = 0
    tests: Annotated[
        int,
        Doc("Number of series that are judged in a window, on average; 0 where it is not known, which counts as all."),
    ] = 0

    @property
    def is_sound(self) -> bool:
        """Whether these can be numbers of what is watched."""
        numbers = (
            self.series,
            self.tests,
            self.hosts,
            self.window_seconds,
            self.services_omitted,
            *self.services.values(),
        )
        numbers += (self.hosts_lately,)
        within = min(numbers) >= 0 and max(numbers) <= MOST_WATCHED
        return within and len(self.services) <= MOST_SERVICES and len(self.calls) <= MOST_CALLS

    def population(self, role: Key) -> int:
        """How many hosts could do what is done in this role; 0 if that is not known.

        Of a service that some shard leaves out it is a lower bound.
        """
        if not role:
            return 0
        return self.hosts_lately or self.hosts if role[0] == "host" else self.services.get(role[1], 0)


NOTHING = Watched()


def total(parts: Iterable[Watched]) -> Watched:
    """What several shards watch in all: no host is in two of them."""
    parts = list(parts)
    services: Counter[str] = Counter()
    for part in parts:
        services.update(part.services)
    return Watched(
        sum(part.series for part in parts),
        sum(part.hosts for part in parts),
        max((part.window_seconds for part in parts), default=0.0),
        services,
        sum(part.services_omitted for part in parts),
        sorted({call for part in parts for call in part.calls}),
        sorted({change for part in parts for change in part.changes}),
        sorted({call for part in parts for call in part.topology}),
        sum(part.hosts_lately for part in parts),
        sum(part.tests or part.series for part in parts),
    )


def largest_services(hosts: Mapping[str, int]) -> tuple[dict[str, int], int]:
    """The services with the most hosts, then by name, at most MOST_SERVICES, and how many others there are."""
    if len(hosts) <= MOST_SERVICES:
        return dict(hosts), 0
    ranked = sorted(hosts.items(), key=lambda of: (-of[1], of[0]))
    return dict(ranked[:MOST_SERVICES]), len(hosts) - MOST_SERVICES


@dataclass(frozen=True, kw_only=True)
class WatermarkMessage:
    """A promise that no row of a shard with a window up to `watermark` will follow. Topics `statistics` and `novelties`."""

    KIND: ClassVar = "watermark"

    record: RecordKind = KIND
    watermark: Annotated[int, Doc("The window's end up to which everything of the shard is written.", MILLISECONDS)]
    shard: Annotated[int, Doc("The shard that the promise is about.")]
    shards: Annotated[int | None, Doc("Number of shards. Topic `novelties`.")] = None
    watched: Annotated[Watched | None, Doc("What the shard watches. Topic `novelties`.")] = None

    @classmethod
    def from_json(cls, value: bytes | str | None) -> WatermarkMessage | None:
        """The watermark message that the value of a record is; None for any other value, whatever it holds."""
        text = value.decode(errors="replace") if isinstance(value, bytes) else value or ""
        if cls.KIND not in text:  # as in nearly all of them, and much cheaper than reading each
            return None
        try:
            found = json.loads(text)
            return parsed(cls, found) if isinstance(found, dict) and found.get("record") == cls.KIND else None
        except (ValueError, RecursionError):
            return None


@dataclass(frozen=True, kw_only=True)
class Score:
    """What one series scored in one window, before the model learnt from it. Topic `scores`. Seven significant digits."""

    KIND: ClassVar = "score"

    record: RecordKind = KIND
    series: SeriesName
    window_end: WindowEnd
    score: Annotated[float, Doc("Surprise, -ln of a tail probability; missing while the model warms up.", "nats")] = (
        math.nan
    )
    value: Annotated[
        float,
        Doc("What was compared: the window's mean, a rate per second, lines a minute.", "unit", search=NOT_INDEXED),
    ] = math.nan
    typical: Annotated[float, Doc("What was expected.", "unit of the value", search=NOT_INDEXED)] = math.nan
    lower: Annotated[float, Doc("Lower end of the expected interval.", "unit of the value", search=NOT_INDEXED)] = (
        math.nan
    )
    upper: Annotated[float, Doc("Upper end of the expected interval.", "unit of the value", search=NOT_INDEXED)] = (
        math.nan
    )
    kind: Annotated[
        str,
        Doc(
            "State of the series in this window; `muted` and `planned` come from rules.",
            values=("normal", "warming", *EPISODE_KINDS, "muted", "planned"),
        ),
    ] = "normal"
    template: Annotated[str | None, Doc("Log template of a `template/` series.", search=NOT_INDEXED)] = None


@dataclass(frozen=True, kw_only=True)
class Bound:
    """What a single record of a series is compared with before its window is judged. Topic `bounds`. The last one of a series counts.

    A value below `lower` or above `upper` is rarer than `chance`. Of log lines `series` is `template/HOST/SERVICE`, and a line is news of a level
    that is not in `levels`, or of a template that is not in `known` and matches none of `patterns`. Without `lower`, `upper` and `known` nothing is.
    """

    KIND: ClassVar = "bound"

    record: RecordKind = KIND
    series: Annotated[str, Doc("Name of the series; of the templates of a service, `template/HOST/SERVICE`.")]
    window_end: Annotated[int, Doc("End of the last window that it is made of.", MILLISECONDS)]
    lower: Annotated[
        float, Doc("The least value that is no news; of a counter, of the rate between two records.", "unit or unit/s")
    ] = math.nan
    upper: Annotated[float, Doc("The largest value that is no news.", "unit or unit/s")] = math.nan
    typical: Annotated[float, Doc("The value that is expected.", "unit or unit/s")] = math.nan
    chance: Annotated[
        float, Doc("The most that the probability of news is for one record, on each side.", "0 to 1")
    ] = math.nan
    known: Annotated[
        list[str] | None, Doc("Ids of the templates that are known, in order; null for a metric, and for no bound.")
    ] = None
    levels: Annotated[
        list[str] | None, Doc("Log levels that are known, in order; null for a metric, and for no bound.")
    ] = None
    patterns: Annotated[
        list[str] | None,
        Doc(
            "Templates with parameters that are known, in order: `<*>` is a word. Null for a metric, and for no bound."
        ),
    ] = None


def episode_id(series: str, start: int) -> str:
    """The id of an episode by the series that it was opened on and its start, epoch ms: 20 hexadecimal digits."""
    return hashlib.sha256(f"{series}|{start}".encode()).hexdigest()[:20]


@dataclass(frozen=True, kw_only=True)
class EpisodeEvent:
    """An episode of one series opens, is updated or closes. Topic `novelties`.

    `host`, `service`, `metric` and `level` always follow from `series`. `id` follows from `series` and `start` where it is not given, so
    an episode has the same id in every run of every version.
    """

    KIND: ClassVar = "episode"

    record: RecordKind = KIND
    id: Annotated[str, Doc("Id of the episode: a hash of the series that it was opened on and `start`.")] = ""
    version: Version = ""
    series: SeriesName
    kind: Annotated[
        str,
        Doc(
            "`anomaly`, `change` (a new level, series, service or host is the new normal), `new` (a template never seen in a "
            "known service) or `silence` (a host or series that stopped).",
            values=EPISODE_KINDS,
        ),
    ]
    status: Annotated[
        str,
        Doc(
            "`open` once, then `update` on new evidence, a new peak or another kind, then `close` once.",
            values=STATUSES,
        ),
    ]
    start: Annotated[
        int,
        Doc(
            "Start of the first window of the episode; of a change below the alert threshold, end of the last window before it.",
            MILLISECONDS,
        ),
    ]
    window_end: WindowEnd
    score: Annotated[float, Doc("Largest surprise of the episode so far.", "nats")] = math.nan
    evidence: Annotated[float, Doc("Evidence that the episode has gathered in all.", "nats")] = math.nan
    value: Annotated[float, Doc("What was seen at the peak, in `unit`.", search=NOT_INDEXED)] = math.nan
    typical: Annotated[float, Doc("What was expected when the episode opened, in `unit`.", search=NOT_INDEXED)] = (
        math.nan
    )
    lower: Annotated[float, Doc("Lower end of the expected interval, in `unit`.", search=NOT_INDEXED)] = math.nan
    upper: Annotated[float, Doc("Upper end of the expected interval, in `unit`.", search=NOT_INDEXED)] = math.nan
    unit: Annotated[str, Doc("Unit of `value`, `typical`, `lower`, `upper`, `before` and `after`.")] = ""
    reason: Annotated[
        str,
        Doc(
            "One sentence: what was seen, what was expected; 2,000 characters at most. Since when is `start`, how sure `certainty`.",
            search=NOT_INDEXED,
        ),
    ] = ""
    template: Annotated[str | None, Doc("Log template of a `template/` series.")] = None
    sample: Annotated[str | None, Doc("A message of the template.", search={"index": False, "doc_values": False})] = (
        None
    )
    part: Annotated[
        str,
        Doc(
            "The part of the model that raised it: `level`, `step`, `mean`, `roughness`, `rhythm`, `local` (a step in an hour of little movement), "
            "`spread`, `stuck`, `peers` (too far from the other hosts of its role), "
            "`rate`, `mix`, `silence`, `new host`, `new service`, `new metric`, `new template`, `limit` or "
            "`usual end` (of a host where hosts like it end often: no news unless many end at once)."
        ),
    ] = ""
    certainty: Annotated[
        float, Doc("The most that the evidence can make the probability that it is not chance.", "0 to 1")
    ] = math.nan
    provisional: Annotated[bool, Doc("Undecided: it may pass, or turn out to be the new normal.")] = False
    before: Annotated[float, Doc("Of a change: the old level, in `unit`.", search=NOT_INDEXED)] = math.nan
    after: Annotated[float, Doc("Of a change: the new level, in `unit`.", search=NOT_INDEXED)] = math.nan
    strength: Annotated[
        float,
        Doc(
            "How far values of a metric have gone in at least two windows (in one of one) from what was expected of the episode's first "
            "window; null where there is no measure.",
            "widths of the expected interval, 1 is its border",
        ),
    ] = math.nan
    delay: Annotated[
        float, Doc("By how much the series may be late in showing something: the time between its rows.", "s")
    ] = 0.0
    recurs_every: Annotated[
        float,
        Doc(
            "The usual time between two of them, where an episode of the series has come back as regularly as ever for a day or more, or often of "
            "series that differ in labels alone, and is neither longer nor stronger than they were: it is no evidence for an incident; null else.",
            "s",
        ),
    ] = math.nan
    alias_of: Annotated[
        str | None,
        Doc(
            "The series that the episode was opened on, where its template has been merged with others since; `series` is what it is now."
        ),
    ] = None
    host: Annotated[str, Doc("Host of the series.")] = ""
    service: Annotated[str, Doc("Service of the series; empty where it has none.")] = ""
    metric: Annotated[str, Doc("Metric of the series with its labels; empty where it has none.")] = ""
    level: Annotated[str, Doc("Log level of the series; empty where it has none.")] = ""

    def __post_init__(self) -> None:
        """Fill in what follows from other fields. Raises ValueError for an unknown status."""
        if self.status not in STATUS_ORDER:
            msg = f"episode of {self.series}: status is {self.status!r}; wanted one of {', '.join(STATUS_ORDER)}"
            raise ValueError(msg)
        found = parse(self.series)
        own = {"host": found.host, "service": found.service, "metric": found.metric, "level": found.level}
        own["reason"] = self.reason[:MAX_SENTENCE]
        if not self.id:
            own["id"] = episode_id(self.series, self.start)
        for name, value in own.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_record(cls, source: Mapping[str, Any]) -> EpisodeEvent:
        """Read an event from JSON types. Raises ValueError where it lacks a field or has an unknown status."""
        return parsed(cls, source)

    def to_record(self, version: str) -> dict[str, Any]:
        """The event as JSON types, written by a version."""
        return plain(replace(self, version=version))

    @property
    def order(self) -> tuple[str, str, int]:
        """Sorts the events of a window: by series, episode, and what comes first in an episode."""
        return self.series, self.id, STATUS_ORDER[self.status]

    @property
    def recurs(self) -> bool:
        """Whether it has come back as usual."""
        return math.isfinite(self.recurs_every)

    @property
    def is_fact(self) -> bool:
        """Whether it says that something is there that has never been, or too much: no matter of chance, as a new level is."""
        return self.part == LIMIT or (self.kind not in LASTING_KINDS and self.part in APPEARANCES)

    @property
    def template_id(self) -> str:
        """The id of the log template that this is about, or empty."""
        return self.series.rsplit("/", 1)[1] if self.series.startswith("template/") else ""

    @property
    def keys(self) -> list[Key]:
        """What this shares with another event if the two belong to one incident."""
        if self.part == LIMIT:  # an incident of its own; all shards say the same of the fleet
            return [(LIMIT, self.host, self.metric.partition(" ")[0])]
        if self.part == USUAL_END:  # no news but with others that end at once
            return []
        metric = self.metric.partition("{")[0]
        found: list[Key] = []
        if self.host:
            found.append(("host", self.host))
        if self.service and metric:
            found.append(("metric", self.service, metric))
        if self.service and self.level:
            found.append(("level", self.service, self.level))
        if self.template_id:
            found.append(("template", self.template_id))
        return found

    @property
    def series_kind(self) -> str:
        """The kind of its series: gauge, counter, logs, template, host, service or fleet."""
        return self.series.partition("/")[0]

    @property
    def role(self) -> Key:
        """What other hosts may do as well: the service, and its metric, level, template, or coming and going; or empty."""
        metric = self.metric.partition("{")[0]
        if not self.host:
            return ()
        if self.series_kind in ("host", "service"):
            return (self.series_kind, self.service, USUAL_END if self.part == USUAL_END else self.kind)
        if self.template_id:
            return ("template", self.service, self.template_id)
        if not (metric or self.service or self.level):
            return ("host", "", f"log {self.kind}")
        return ("metric", self.service, metric) if metric else ("level", self.service, self.level)


@dataclass(frozen=True)
class Contribution:
    """What a series adds to an incident."""

    series: SeriesName
    share: Annotated[float, Doc("Share of the incident's evidence.", "0 to 1")]
    score: Annotated[float, Doc("Largest surprise of the series.", "nats")]
    kind: Annotated[str, Doc("Kind of its strongest episode.", values=EPISODE_KINDS)]
    reason: Annotated[str, Doc("Reason of its strongest episode.", search=NOT_INDEXED)]


@dataclass(frozen=True, kw_only=True)
class Cause:
    """What may be the cause of an incident."""

    kind: Annotated[
        str,
        Doc(
            "`episode`: what is strange in a service, or on a host; `change`: a change that was announced.",
            values=("episode", "change"),
        ),
    ]
    host: Annotated[str, Doc("Host of its strongest metric; of a change, the host that it is about.")] = ""
    service: Annotated[str, Doc("The service; empty of a host as a whole.")] = ""
    metric: Annotated[str, Doc("Its strongest metric with its labels; of a change, its kind.")] = ""
    series: Annotated[str, Doc("Name of that series; empty of a change.")] = ""
    onset: Annotated[int, Doc("When it began; of a change, when it was made.", MILLISECONDS)]
    score: Annotated[
        float,
        Doc(
            "Of an episode, the strength of all that it explains, its own included, in widths of intervals; of a change, -ln of the "
            "probability that one comes so close before the incident by chance. It compares causes of one kind."
        ),
    ]
    why: Annotated[str, Doc("One sentence: how far it went, and whom it explains.", search=NOT_INDEXED)]


@dataclass(frozen=True, kw_only=True)
class IncidentEvent:
    """An incident opens, is updated or closes: episodes that belong together. Topic `incidents`.

    Each of its lists is cut where its JSON would have more than `LIST_BYTES`.
    """

    KIND: ClassVar = "incident"

    record: RecordKind = KIND
    version: Version = ""
    id: Annotated[str, Doc("Id of the incident: a hash of that of its first episode.")]
    status: Annotated[str, Doc("`open` once, then `update`, then `close` once.", values=STATUSES)]
    kind: Annotated[str, Doc("What its episodes make it.", values=EPISODE_KINDS)]
    scope: Annotated[
        str,
        Doc(
            "`fleet` if many hosts do the same at once, or come or go one after the other, else the hosts it reaches.",
            values=("host", "hosts", "fleet"),
        ),
    ]
    start: Annotated[
        int,
        Doc(
            "Start of the first of the episodes that opened it. One that joins later may have begun before.",
            MILLISECONDS,
        ),
    ]
    end: Annotated[int | None, Doc("End of its last episode; null until it is closed.", MILLISECONDS)]
    window_end: WindowEnd
    score: Annotated[float, Doc("Surprise that chance makes this anywhere in the fleet within a window.", "nats")]
    hosts: Annotated[list[str], Doc("Its hosts, in order of names; bounded by `correlation.max_members`.")]
    services: Annotated[list[str], Doc("Its services.")]
    templates: Annotated[list[str], Doc("Its log templates; bounded by `correlation.max_shown`.")]
    series: Annotated[
        list[Contribution], Doc("Its series, largest share of the evidence first; bounded by `correlation.max_shown`.")
    ]
    novelties: Annotated[int, Doc("Number of its episodes.")]
    episodes: Annotated[
        list[str], Doc("Ids of its episodes, largest evidence first; bounded by `correlation.max_episodes`.")
    ]
    episodes_omitted: Annotated[int, Doc("Number of episodes that `episodes` leaves out.")]
    affected: Annotated[
        int, Doc("Number of hosts that do the same, of an incident of the fleet; else of all its hosts.")
    ]
    population: Annotated[int | None, Doc("Number of hosts that could do the same; null where it is not known.")]
    share: Annotated[float | None, Doc("`affected` of `population`; null where it is not known.", "0 to 1")]
    false_alarms_per_day: Annotated[
        float | None, Doc("Incidents of at least this score that chance makes; null where it is not known.", "1/day")
    ]
    reason: Annotated[
        str,
        Doc(
            "One sentence: what contributes most, and how much more there is; since when is `start`.",
            search=NOT_INDEXED,
        ),
    ]
    severity: Annotated[str, Doc("How bad it is, in a word.", values=SEVERITIES)] = INFO
    severity_points: Annotated[
        int,
        Doc(
            "How bad it is: from how rarely chance makes it, how many hosts it touches, how long it lasts.", "0 to 100"
        ),
    ] = 0
    causes: Annotated[list[Cause], Doc("Who is likely the cause, the likeliest first; 10 at most.")] = field(
        default_factory=list
    )

    def to_record(self, version: str) -> dict[str, Any]:
        """The event as JSON types, written by a version."""
        return plain(replace(self, version=version))


def fit_into_bytes(items: Sequence[Any], most: int = LIST_BYTES) -> list[Any]:
    """The first of these texts or records, as many as have so many bytes as JSON."""
    left = most
    for i, item in enumerate(items):
        left -= bytes_in_list(item)
        if left < 0:
            return list(items[:i])
    return list(items)


def bytes_in_list(item: Any) -> int:
    """How many bytes a text or record takes in a list of JSON, with the comma."""
    return 1 + len(json.dumps(item if isinstance(item, str) else plain(item), ensure_ascii=False).encode())


@dataclass(frozen=True, kw_only=True)
class RefusedRecord:
    """Why a record of another topic was refused, as Kafka headers with the prefix `kappa.`; the value is the beginning of that record.

    Topics `late` and `dead-letters`. The value has `LETTER_BYTES` at most.
    """

    KIND: ClassVar = "refused"

    record: RecordKind = KIND
    topic: Annotated[str, Doc("Topic of the record that was refused.")]
    partition: Annotated[int, Doc("Partition of that record.")]
    offset: Annotated[int | None, Doc("Offset of that record; `None` where it is not known.")]
    timestamp: Annotated[int | None, Doc("Append time of that record; `None` where it is not known.", MILLISECONDS)]
    reason: Annotated[str, Doc("Why it was refused, in a sentence of 1,000 characters at most.")]
    stage: Annotated[str, Doc("The job that refused it.", values=JOBS)]
    length: Annotated[int, Doc("Length of that record; the value is its first 65,536 bytes.", "bytes")]
    sha256: Annotated[str, Doc("SHA-256 of the whole record, hexadecimal.")]

    @classmethod
    def about(cls, value: bytes, **source: Any) -> RefusedRecord:
        """Why the record with this value was refused. `source` has the other fields; a reason that is too long is cut."""
        reason = source.pop("reason")[:MAX_REASON]
        return cls(**source, reason=reason, length=len(value), sha256=hashlib.sha256(value).hexdigest())

    def headers(self) -> list[tuple[str, bytes]]:
        """The Kafka headers, in one order."""
        return [(f"{HEADER}{name}", str(value).encode()) for name, value in plain(self).items()]


@dataclass(frozen=True, kw_only=True)
class Overflow:
    """What was left out of one host, or of the fleet, in one window, by one limit. Topic `dead-letters`: the value of a refused record."""

    KIND: ClassVar = "overflow"

    record: RecordKind = KIND
    host: Annotated[str, Doc("The host; empty where hosts are left out, or what people and tools write.")]
    limit: Annotated[
        str,
        Doc(
            "What is limited.",
            values=("metrics", "templates", "services", "new", "hosts", "all_series", "changes", "labels", "rules"),
        ),
    ]
    window_end: WindowEnd
    wanted: Annotated[int, Doc("How many there would be without the limit; of hosts and all series, in the shard.")]
    most: Annotated[int, Doc("How many there may be.")]
    left_out: Annotated[int, Doc("How many were left out in the window.")]
    names: Annotated[list[str], Doc("The first ten of them, each cut at 200 characters.")]

    @property
    def reason(self) -> str:
        """Why they were left out, in a sentence."""
        of = f"host {self.host[:100]}" if self.host else "the fleet"
        return f"{of}: {self.left_out} left out by the limit of {self.limit}, {self.most}, of {self.wanted}"


@dataclass(frozen=True, kw_only=True)
class QuarantinedRecord:
    """A record that ended a job each time it was read, and that this job does not read again. Topic `quarantine`.

    A record that was appended again has a second one, with the status `released`.
    """

    KIND: ClassVar = "quarantined"

    record: RecordKind = KIND
    status: Annotated[str, Doc("`released` once it has been appended again.", values=("quarantined", "released"))]
    topic: Annotated[str, Doc("Topic of the record.")]
    partition: Annotated[int, Doc("Partition of the record.")]
    offset: Annotated[int, Doc("Offset of the record.")]
    timestamp: Annotated[int, Doc("Append time of the record.", MILLISECONDS)]
    job: Annotated[str, Doc("The job that it ended, and that refuses it.", values=JOBS)]
    reason: Annotated[str, Doc("What happened when it was read: the first line of the error.")]
    length: Annotated[int, Doc("Length of its value.", "bytes")]
    sha256: Annotated[str, Doc("SHA-256 of its value, in hexadecimal digits.")]
    head: Annotated[str, Doc("The first 1,024 bytes of its value, in Base64.")]
    found: Annotated[int, Doc("When it was found, or released.", MILLISECONDS)]
    version: Version
    software: Annotated[str, Doc("Version of the program that could not read it.")]
    released_as: Annotated[
        int | None, Doc("Offset of the copy, of one that is released; before that, where its partition ends.")
    ] = None

    @property
    def place(self) -> tuple[str, int, int]:
        """Topic, partition and offset."""
        return self.topic, self.partition, self.offset

    @property
    def identity(self) -> tuple[str, int, int, int]:
        """Its place and append time: where a topic is made again, another record has the place."""
        return *self.place, self.timestamp

    @property
    def name(self) -> str:
        """Its place as text, `TOPIC/PARTITION/OFFSET`: the key in the topic."""
        return f"{self.topic}/{self.partition}/{self.offset}"

    def is_of(self, timestamp: int) -> bool:
        """Whether what has its place and was appended then (epoch ms) is this record; 0 is an append time that is not known."""
        return self.timestamp in (0, timestamp)


@dataclass(frozen=True, kw_only=True)
class Label:
    """What a person says of an incident. Topic `labels`. The models read `label` and `series`."""

    KIND: ClassVar = "label"

    record: RecordKind = KIND
    label: Annotated[
        str,
        Doc(
            "Whether it was worth knowing; `acknowledged`: the author has it in hand, which changes nothing in the models.",
            values=LABELS,
        ),
    ]
    incident: Annotated[str, Doc("Id of the incident.")] = ""
    version: Annotated[str, Doc("Version whose incident it is.")] = ""
    series: Annotated[list[str], Doc("Names of the series that it is about, 1,000 at most.")] = field(
        default_factory=list
    )
    host: Annotated[list[str], Doc("Their hosts.")] = field(default_factory=list)
    start: Annotated[str | None, Doc("Start of the incident.", "ISO 8601")] = None
    end: Annotated[str | None, Doc("End of the incident; null while it was open.", "ISO 8601")] = None
    comment: Annotated[str, Doc("What the person found, for people.")] = ""
    author: Annotated[str, Doc("Who gave the label.")] = ""


@dataclass(frozen=True, kw_only=True)
class ChangeMade:
    """A change of a service or host, as people and tools announce it. Topic `changes`."""

    KIND: ClassVar = "change"

    record: RecordKind = KIND
    change: Annotated[str, Doc("What kind of change it is.", values=CHANGE_KINDS)]
    service: Annotated[str, Doc("The service that was changed; it or `host` must be given.")] = ""
    host: Annotated[str, Doc("The host that was changed.")] = ""
    at: Annotated[str | None, Doc("When it was made; null is when it is appended.", "ISO 8601 or epoch number")] = None
    version: Annotated[str, Doc("The new version, for people; cut at 200 characters, as the next two.")] = ""
    comment: Annotated[str, Doc("What was changed, for people.")] = ""
    author: Annotated[str, Doc("Who made it.")] = ""


@dataclass(frozen=True, kw_only=True)
class Topology:
    """A service calls another, as people and tools announce it. Topic `changes`."""

    KIND: ClassVar = "topology"

    record: RecordKind = KIND
    client: Annotated[str, Doc("The service that calls.")]
    server: Annotated[str, Doc("The service that is called.")]
    removed: Annotated[bool, Doc("Whether it does so no more.")] = False


@dataclass(frozen=True, kw_only=True)
class RuleRecord:
    """A rule about alarms and learning, or with `channels` a route of incidents, from the window in which it is appended on. Topic `rules`.
    The same name replaces.
    """

    KIND: ClassVar = "rule"

    record: RecordKind = KIND
    name: Annotated[
        str, Doc("What people call it, 100 characters at most. In UTF-8 it is the record's key, else it is refused.")
    ]
    removed: Annotated[bool, Doc("Whether the rule of this name is no more; then there is no effect.")] = False
    host: Annotated[str | None, Doc("Pattern of hosts: a glob, or a regular expression after `re:`.")] = None
    service: Annotated[str | None, Doc("Pattern of services; empty for series without one.")] = None
    metric: Annotated[str | None, Doc("Pattern of metrics.")] = None
    level: Annotated[str | None, Doc("Pattern of levels.")] = None
    template: Annotated[str | None, Doc("Pattern of the id of a log template, or of the beginning of its text.")] = None
    kind: Annotated[str | None, Doc("Pattern of kinds of series.")] = None
    since: Annotated[
        str | None, Doc("From when it holds; of the end of a rule, from when it was no more.", "ISO 8601")
    ] = None
    until: Annotated[str | None, Doc("Until when it holds.", "ISO 8601")] = None
    days: Annotated[list[str], Doc("On which days of the week: `mon` to `sun`.")] = field(default_factory=list)
    hours: Annotated[str, Doc("Between which hours, such as `22:00-06:00`.")] = ""
    zone: Annotated[str, Doc("Time zone of days and hours.")] = "UTC"
    mute: Annotated[bool, Doc("Nothing is reported.")] = False
    planned: Annotated[bool, Doc("Neither scored nor learnt.")] = False
    dont_learn: Annotated[bool, Doc("Not learnt.")] = False
    reset: Annotated[str | None, Doc("When what is known is forgotten.", "ISO 8601")] = None
    direction: Annotated[str | None, Doc("Deviations in the other direction open nothing.")] = None
    least_deviation: Annotated[float | None, Doc("Smallest deviation that opens an episode.", "unit of the metric")] = (
        None
    )
    least_relative_deviation: Annotated[float | None, Doc("The same as a share of the typical value.")] = None
    alarm_chance: Annotated[float | None, Doc("Instead of the setting `detection.alarm_chance`.")] = None
    half_life_days: Annotated[float | None, Doc("Half-life of what is normal.", "days")] = None
    warm_up_minutes: Annotated[float | None, Doc("Instead of the setting `detection.warm_up_minutes`.", "minutes")] = (
        None
    )
    channels: Annotated[
        list[str] | None, Doc("To which channels incidents go, of `notify.channels`; those of no route without it.")
    ] = None
    kinds: Annotated[list[str], Doc("Of a route, kinds of incidents.")] = field(default_factory=list)
    severity: Annotated[str, Doc("Of a route, severity of incidents at least.", values=SEVERITIES)] = INFO
    labels: Annotated[dict[str, str], Doc("Of a route, patterns by name of a label.")] = field(default_factory=dict)
    escalate_minutes: Annotated[
        float | None, Doc("After how long it goes further where nobody has labelled it.", "minutes")
    ] = None
    escalate_to: Annotated[list[str], Doc("To which channels it goes then.")] = field(default_factory=list)
    comment: Annotated[str, Doc("Why, for people.")] = ""
    author: Annotated[str, Doc("Who wrote it.")] = ""
    incident: Annotated[str, Doc("Id of the incident that it was written about; empty without one.")] = ""


@dataclass(frozen=True, kw_only=True)
class Heartbeat:
    """A record that moves the watermark of an input partition to which nobody writes. Topics `telemetry`, `logs`, `labels`, `changes`, `rules`."""

    KIND: ClassVar = "heartbeat"

    record: RecordKind = KIND


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """What became of a notification: it was sent to a channel, or could not be, or was left out. Topic `deliveries`."""

    KIND: ClassVar = "delivery"

    record: RecordKind = KIND
    channel: Annotated[str, Doc("Name of the channel, of `notify.channels`.")]
    incident: Annotated[
        str, Doc("Id of the incident, or of the early alarm; of what is neither, the key that the channel knows it by.")
    ]
    version: Version = ""
    status: Annotated[str, Doc("What it says: that it opens, has become worse, or is over.", values=STATUSES)]
    severity: Annotated[str, Doc("Severity that it says.", values=SEVERITIES)]
    outcome: Annotated[
        str,
        Doc(
            "`delivered`; `failed`: the channel refused it, or did not take it in time; `held`: left out in a storm, or because too much "
            "waited.",
            values=OUTCOMES,
        ),
    ]
    why: Annotated[str, Doc("Which route sent it there.")] = ""
    answer: Annotated[str, Doc("The channel's answer, 200 characters at most.")] = ""
    title: Annotated[str, Doc("The first line of what was sent.")] = ""
    attempts: Annotated[int, Doc("How often it was tried.")] = 0
    at: Annotated[int, Doc("When.", MILLISECONDS)]
    topic: Annotated[str, Doc("Topic of the incident's record; empty where it is about none.")] = ""
    partition: Annotated[int, Doc("Partition of that record.")] = 0
    offset: Annotated[int, Doc("Offset of that record.")] = 0
    key: Annotated[
        str, Doc("What the channel knows the incident by where that is not its id: the early alarm that it confirmed.")
    ] = ""

    @property
    def name(self) -> str:
        """What it is the record of: the key in the topic. One that is repeated has the same."""
        return f"{self.channel}/{self.incident}/{self.status}/{self.severity}"


@dataclass(frozen=True, kw_only=True)
class DeliveriesUntil:
    """Of a partition of `incidents` or `early`, everything before this offset has been dealt with. Topic `deliveries`."""

    KIND: ClassVar = "position"

    record: RecordKind = KIND
    topic: Annotated[str, Doc("Topic that is read.")]
    partition: Annotated[int, Doc("Its partition.")]
    offset: Annotated[int, Doc("Offset of the first record of which somebody may still have to be notified.")]


def early_id(series: str, window_end: int) -> str:
    """The id of an early alarm: 20 hexadecimal digits."""
    return hashlib.sha256(f"{series}|early|{window_end}".encode()).hexdigest()[:20]


@dataclass(frozen=True, kw_only=True)
class EarlyAlarm:
    """A single record is beyond the bounds of its series, as the lane in real time saw it when it was appended. Topic `early`.

    It is provisional: each one that is raised is either confirmed by an incident or withdrawn, under the same id.
    """

    KIND: ClassVar = "early"

    record: RecordKind = KIND
    id: Annotated[str, Doc("Id of the alarm: a hash of the series and the window.")]
    version: Version = ""
    series: SeriesName
    window_end: Annotated[int, Doc("End of the event-time window that the record belongs to.", MILLISECONDS)]
    status: Annotated[
        str,
        Doc(
            "`raised` once, by the first record; then once `confirmed`, by an incident, or `withdrawn`, as there was none.",
            values=EARLY_STATUSES,
        ),
    ]
    event_time: Annotated[int, Doc("Event time of the record.", MILLISECONDS)]
    value: Annotated[
        float,
        Doc(
            "What it says: of a counter the rate per second; null of log lines.",
            "unit of the metric",
            search=NOT_INDEXED,
        ),
    ] = math.nan
    lower: Annotated[float, Doc("The bound that it is below; else null.", "unit of the metric", search=NOT_INDEXED)] = (
        math.nan
    )
    upper: Annotated[float, Doc("The bound that it is above; else null.", "unit of the metric", search=NOT_INDEXED)] = (
        math.nan
    )
    typical: Annotated[float, Doc("What is usual.", "unit of the metric", search=NOT_INDEXED)] = math.nan
    chance: Annotated[float, Doc("How rarely chance makes a record that is so far out.", "0 to 1")] = math.nan
    bound_window_end: Annotated[int, Doc("The last window that the bound was made of.", MILLISECONDS)]
    template: Annotated[str | None, Doc("Log template of a line; null of a metric.")] = None
    incident: Annotated[str, Doc("Of one that is confirmed: id of the incident.")] = ""
    seconds_won: Annotated[
        float,
        Doc(
            "Of one that is confirmed: by how much it was appended before the first record of the incident; null where that came first.",
            "s",
        ),
    ] = math.nan
    settled_at: Annotated[
        int | None, Doc("Of one that is settled: the window up to which the jobs had judged then.", MILLISECONDS)
    ] = None

    @property
    def host(self) -> str:
        """The host of its series."""
        return parse(self.series).host

    @property
    def seen(self) -> str:
        """What was seen, in a sentence."""
        found = parse(self.series)
        where = f"{found.host}/{found.service}" if found.service else found.host
        if found.metric:
            above = math.isfinite(self.upper)
            value, bound = distinguishable(self.value, self.upper if above else self.lower)
            return f"{where}: {found.metric} {value}, {'above' if above else 'below'} {bound}"
        what = f"level {found.level}" if found.kind == "logs" else "a template"
        return f"{where}: a line of {what}, which it has never had: {(self.template or '')[:MOST_TEXT]}"

    @property
    def reason(self) -> str:
        """What was seen, and of one that is settled what became of it, in a sentence."""
        if self.status == CONFIRMED:
            won = f", {self.seconds_won:.0f} s before it" if math.isfinite(self.seconds_won) else ""
            return f"{self.seen}; confirmed by incident {self.incident}{won}"
        return f"{self.seen}; {'withdrawn' if self.status == WITHDRAWN else 'provisional'}"


@dataclass(frozen=True, kw_only=True)
class HeldAlarms:
    """How many series had no early alarm in a window because their host, or the fleet, had too many. Topic `early`."""

    KIND: ClassVar = "held"

    record: RecordKind = KIND
    version: Version = ""
    window_end: WindowEnd
    held: Annotated[int, Doc("Number of series.")]
    hosts: Annotated[int, Doc("Number of their hosts.")]


# The classes of the records of each topic that other programs may read.
PUBLIC: dict[str, tuple[type, ...]] = {
    "statistics": (StatisticsRow, WatermarkMessage),
    "scores": (Score,),
    "bounds": (Bound,),
    "novelties": (EpisodeEvent, WatermarkMessage),
    "incidents": (IncidentEvent,),
    "early": (EarlyAlarm, HeldAlarms),
    "late": (RefusedRecord,),
    "dead-letters": (RefusedRecord,),
    "labels": (Label, Heartbeat),
    "changes": (ChangeMade, Topology, Heartbeat),
    "rules": (RuleRecord, Heartbeat),
    "quarantine": (QuarantinedRecord,),
    "deliveries": (Delivery, DeliveriesUntil),
}
