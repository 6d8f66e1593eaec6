"""The state of a shard: its series, hosts and services, open episodes, rules and labels. Dumped as Arrow parts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from models.challengers.memory import PART as CHALLENGERS
from models.challengers.memory import ChallengerMemories
from models.core.arrays import Bools, Floats, Ints, is_in
from models.core.parameters import DetectorParameters
from models.core.series import FLEET, Series, parse, quote
from models.core.store import SeriesTable, read_part, write_part
from models.core.windows import Windows
from models.detection import gauge_columns as col
from models.detection import service_templates
from models.detection.change_candidates import PART as CHANGE_CANDIDATES
from models.detection.change_candidates import ChangeCandidates
from models.detection.episodes import Episode, Episodes
from models.detection.host_columns import (
    CONTEXT_COLUMNS,
    CONTEXT_PLACES,
    HOST_COLUMNS,
    HOST_PLACES,
    HOST_RUNS,
    LOG_RUNS,
)
from models.detection.peer_law import PART as PEERS
from models.detection.peer_law import Peers, forget_waiting
from models.detection.recurrence import COLUMNS as RECURRENCE_COLUMNS
from models.detection.recurrence import PART as RECURRENCES
from models.detection.recurrence import Recurrences
from models.detection.service_templates import Services
from models.records.records import EpisodeEvent
from models.rules.rule_log import LoggedRule
from models.stats import gamma_poisson as poisson
from models.stats import rate_rise, schedule, template_mixture
from models.univariate.univariate_state import PARTS as UNIVARIATE
from models.univariate.univariate_state import UnivariateState

CONTEXT_NUMBERS = tuple(name for name in CONTEXT_COLUMNS if name not in ("first", "seen"))
COUNT_COLUMNS = (*poisson.COLUMNS, *template_mixture.COLUMNS, *schedule.COLUMNS, *rate_rise.COLUMNS)
COUNT_KINDS = ("f8",) * len(poisson.COLUMNS) + ("f4",) * len(template_mixture.COLUMNS)
COUNT_KINDS += ("f8",) * (len(schedule.COLUMNS) + len(rate_rise.COLUMNS))
OF_RISE = slice(len(COUNT_COLUMNS) - len(rate_rise.COLUMNS), None)
OF_SCHEDULE = slice(OF_RISE.start - len(schedule.COLUMNS), OF_RISE.start)
TABLES = ("gauges", "counts", "hosts", "contexts")
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
PATIENT_ROWS = 12.0  # that a host has missed, as far apart as they usually are, before it is given up or forgotten
ALL_SERIES = "all_series"  # the limit of all series of a shard together
UNPUBLISHED, PUBLISHED, DEMAND = "unpublished", "published", "demand"
# Columns of the part `REMEMBERED`, and their Arrow types.
CONTROL_COLUMNS = {
    "series": "string",
    "what": "string",
    "pattern": "string",
    "nats": "double",
    "at": "int64",
    "size": "double",
}
RULES, REMEMBERED = "rules", "remembered"
RULE_COLUMNS = {"name": "string", "rule": "string", "since": "int64", "offset": "int64"}
PARTS = (
    "names",
    "texts",
    RULES,
    REMEMBERED,
    service_templates.PART,
    "episodes",
    RECURRENCES,
    CHANGE_CANDIDATES,
    PEERS,
    *TABLES,
    *UNIVARIATE,
)


@dataclass(frozen=True)
class ShardWindow:
    """A window whose series have their rows in the tables of a shard.

    Attributes
    ----------
    end
        End of the window, epoch ms.
    rows
        Its rows, metrics first; no labels and nothing that is planned.
    metrics
        How many of them are metrics.
    gauges, counts
        Their rows in the tables `gauges` (the metrics) and `counts` (the others).
    """

    end: int
    rows: Windows
    metrics: int
    gauges: Ints
    counts: Ints


@dataclass
class NewTemplate:
    """A template on trial, which may be new or only rare.

    `surprise` (nats) is that of its first line, in the window that ended at `first` (epoch ms); since then it has come back
    in `returns` of `windows`.
    """

    series: str
    surprise: float
    first: int
    returns: int = 0
    windows: int = 0


@dataclass
class ControlState:
    """What a shard remembers of mutes and labels.

    Attributes
    ----------
    unpublished
        Series whose open episodes were not published, because they are muted.
    published
        By series: the pattern of the last episode that was published, when (epoch ms), and how far its value was from the
        typical one, in the unit of the episode.
    demands
        By series and pattern: surprise that is demanded beyond the threshold (nats), since when (epoch ms), and how far off
        the labelled episode was (0: not known). See `labels`.
    changes
        How often demands have changed. No part of what is dumped: it says whether what was made of them is still valid.
    """

    unpublished: set[str] = field(default_factory=set)
    published: dict[str, tuple[str, int, float]] = field(default_factory=dict)
    demands: dict[str, dict[str, tuple[float, int, float]]] = field(default_factory=dict)
    changes: int = field(default=0, compare=False)

    def copy(self) -> ControlState:
        """Another one that stays as it is."""
        return ControlState(
            set(self.unpublished), dict(self.published), {name: dict(own) for name, own in self.demands.items()}
        )

    def dump(self) -> bytes:
        """All of it in a fixed order, as a part with the columns `CONTROL_COLUMNS`."""
        found: list[tuple[str, str, str, float, int, float]] = [
            (name, UNPUBLISHED, "", 0.0, 0, 0.0) for name in self.unpublished
        ]
        found += [(name, PUBLISHED, pattern, 0.0, at, size) for name, (pattern, at, size) in self.published.items()]
        for name, own in self.demands.items():
            found += [(name, DEMAND, pattern, nats, at, size) for pattern, (nats, at, size) in own.items()]
        return write_columns(CONTROL_COLUMNS, sorted(found))

    @classmethod
    def load(cls, arrays: Mapping[str, pa.Array]) -> ControlState:
        """The inverse of `dump`, from the arrays of `read_part`."""
        state = cls()
        for series, what, pattern, nats, at, size in zip(
            *(arrays[name].to_pylist() for name in CONTROL_COLUMNS), strict=True
        ):
            if what == UNPUBLISHED:
                state.unpublished.add(series)
            elif what == PUBLISHED:
                state.published[series] = (pattern, at, size)
            else:
                state.demands.setdefault(series, {})[pattern] = (nats, at, size)
        return state

    def forget(self, names: Iterable[str]) -> None:
        """Forget the episodes and labels of these series."""
        for name in names:
            self.published.pop(name, None)
            self.changes += self.demands.pop(name, None) is not None


@dataclass
class ShardState:
    """Tables with a row for each metric series, count series, host and context (a service of a host).

    Attributes
    ----------
    gauges, counts, hosts, contexts
        The tables.
    univariate, challengers
        The models of the metrics, with the rows of `gauges`; rows that were added in a window are missing until it is scored.
    change_candidates
        The metrics that may be changing.
    peers
        What is known of the metrics that have peers.
    episodes, trials, control
        Open episodes, templates on trial, and what is remembered of mutes and labels.
    texts
        Beginnings of templates by their ids, for reasons.
    templates
        What is known of the templates of each context, to merge them.
    rules, rules_changed
        Rules of the log by name, and whether they have changed since the last dump.
    remembered
        `control` as it was when it was last dumped.
    pressed
        Quoted hosts of which series were left out in the last hour, and when last, epoch ms; the key `` is the fleet's hosts.
    steps, first, last
        Number of observed windows, and the ends of the first and last one, epoch ms. A shard without hosts begins anew
        after a gap of the grace period.
    renamed
        Whether names were added or removed since the last dump.
    """

    gauges: SeriesTable = field(
        default_factory=lambda: SeriesTable(col.COLUMNS, owners=2, kinds=tuple(col.COLUMN_TYPES.values()))
    )
    univariate: UnivariateState = field(default_factory=UnivariateState)
    change_candidates: ChangeCandidates = field(default_factory=ChangeCandidates)
    peers: Peers = field(default_factory=Peers)
    counts: SeriesTable = field(default_factory=lambda: SeriesTable(COUNT_COLUMNS, owners=3, kinds=COUNT_KINDS))
    hosts: SeriesTable = field(default_factory=lambda: SeriesTable(HOST_COLUMNS))
    contexts: SeriesTable = field(default_factory=lambda: SeriesTable(CONTEXT_COLUMNS, owners=1))
    challengers: ChallengerMemories | None = None
    episodes: Episodes = field(default_factory=Episodes)
    trials: dict[str, NewTemplate] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    templates: Services = field(default_factory=dict)
    control: ControlState = field(default_factory=ControlState)
    rules: dict[str, LoggedRule] = field(default_factory=dict)
    rules_changed: bool = False
    remembered: ControlState = field(default_factory=ControlState)
    pressed: dict[str, int] = field(default_factory=dict)
    steps: int = 0
    first: int = 0
    last: int = 0
    renamed: bool = True

    def host_column(self, name: str) -> Floats:
        """A column of the hosts' table: a view."""
        found: Floats = self.hosts.matrix[HOST_PLACES[name]]
        return found

    def text_of(self, series: str) -> str | None:
        """The beginning of the template of a `template/` series; None of other series, or where it is not known."""
        return self.texts.get(series.rsplit("/", 1)[1]) if series.startswith("template/") else None

    def context_column(self, name: str) -> Floats:
        """A column of the contexts' table: a view."""
        found: Floats = self.contexts.matrix[CONTEXT_PLACES[name]]
        return found

    def table_of(self, series: Series) -> SeriesTable:
        """The table that a series has its row in."""
        return self.gauges if series.kind in ("gauge", "counter") else self.counts

    def forget(self, now: int, p: DetectorParameters) -> list[EpisodeEvent]:
        """Remove series that were not seen for `forget_days`, and hosts and services that have none left.

        Where there is no room for what is new, a day counts as so long: of a host with a full table its series, of a shard with
        a full table of hosts these hosts, and of a shard that is full all series.

        Answers the closing of episodes that were open on them.
        """
        oldest = now - self.silence_patience(DAY_MS * p.forget_days, p)
        gone_gauges = self.gauges.matrix[col.SEEN] < oldest[self.gauges.owner[0]]
        gone_counts = self.counts.matrix[poisson.LAST_LINE] < oldest[self.counts.owner[0]]
        gone_hosts = self.host_column("seen") < oldest
        if self.pressed:
            crowded = self._hosts_to_make_room(now)
            gone_gauges |= crowded[self.gauges.owner[0]] & (self.gauges.matrix[col.SEEN] < now - DAY_MS)
            gone_counts |= crowded[self.counts.owner[0]] & (self.counts.matrix[poisson.LAST_LINE] < now - DAY_MS)
        if not (gone_gauges.any() or gone_counts.any() or gone_hosts.any()):
            return []
        self.gauges.keep(~gone_gauges)
        self.univariate.keep(np.flatnonzero(~gone_gauges))
        self.change_candidates.keep(~gone_gauges)
        self.peers.keep(~gone_gauges)
        if self.challengers is not None:
            self.challengers.grow(len(gone_gauges))
            self.challengers.keep(np.flatnonzero(~gone_gauges))
        self.counts.keep(~gone_counts)
        owners = {*map(host_of, self.gauges.names), *map(host_of, self.counts.names)}
        self.hosts.keep(is_in(self.hosts.names, owners))
        places = {*map(context_of, self.gauges.names), *map(context_of, self.counts.names)}
        self.contexts.keep(is_in(self.contexts.names, places))
        self._link_owners()
        known = self.gauges.index.keys() | self.counts.index.keys()
        self.trials = {name: trial for name, trial in self.trials.items() if name in known}
        ids = {parse(name).template_id for name in self.counts.names}
        self.texts = {i: text for i, text in self.texts.items() if i in ids}
        self._forget_templates()
        self.renamed = True
        known |= {name for host in self.hosts.names for name in host_series_of(host)}
        known |= {f"service/{name}" for name in self.contexts.names}
        self.episodes.recurrences.forget({name for name, _ in self.episodes.recurrences.known} - known)
        gone = {name for name in self.episodes.open.keys() - known if not name.startswith(f"{FLEET}/")}
        return [self.episodes.close(name, now) for name in sorted(gone)]

    def silence_patience(self, ms: float, p: DetectorParameters, rows: Ints | slice = slice(None)) -> Floats:
        """How long hosts must be silent where `ms` are asked of those that report often, ms, `(n,)`: see `PATIENT_ROWS`."""
        first, seen, windows = (self.host_column(name)[rows] for name in ("first", "seen", "windows"))
        apart = np.maximum((seen - first) / np.maximum(windows - 1.0, 1.0), 1000.0 * p.window_seconds)
        return np.maximum(ms, PATIENT_ROWS * apart)

    def close_abandoned(self, now: int, p: DetectorParameters, planned: Ints) -> list[EpisodeEvent]:
        """Close what is open on metrics and logs of hosts that have been silent for so long, and on lines of hosts whose logs have.

        So is what is open on hosts whose silence was given up. What ends by itself, as the news of a host does, stays, and what is open on
        `planned` hosts, rows of the table.
        """
        events, patience = [], self.silence_patience(HOUR_MS * p.silence_patience_hours, p)
        for name in sorted(self.episodes.open):
            episode, of_lines = self.episodes.open[name], name in self.counts.index
            of_log = name.startswith("logs/") and not of_lines  # that it is silent
            if episode.over or not (of_lines or of_log or name in self.gauges.index):
                continue
            host = self.hosts.index[host_of(name)]
            quiet = now - self.host_column("log_seen" if of_lines else "seen")[host]
            given_up = self.host_column("trials")[host] == 0
            if (quiet < patience[host] and not given_up) or host in planned:
                continue
            self.end_run_of(episode)
            if of_log:
                self.hosts.matrix[LOG_RUNS, host] = 0.0
            elif not of_lines:
                self.gauges.matrix[col.PRESENT, self.gauges.index[name]] = 0.0
            what = "the log of its host" if of_lines else "its host"
            episode.add_reason(f"; {what} has been silent for {round(min(quiet, patience[host]) / HOUR_MS, 1):g} h")
            events.append(self.episodes.close(name, now))
        return events

    def end_run_of(self, episode: Episode) -> None:
        """End the run of windows that an open episode is about: another episode of its series needs a run of its own."""
        if episode.series in self.gauges.index:
            row = self.gauges.index[episode.series]
            self.gauges.matrix[[col.ALERT_SECONDS, col.REPEAT_SECONDS, col.REPEAT_EVIDENCE], row] = 0.0
            if episode.cause == PEERS:
                self.peers.update(row, forget_waiting)
        elif episode.series in self.counts.index:
            row = self.counts.index[episode.series]
            poisson.clear_high_evidence(self.counts.matrix, row)
            rate_rise.end_rise(self.counts.matrix[OF_RISE], row)
            self.counts.matrix[[poisson.FROZEN, poisson.ZERO_EVIDENCE, poisson.ZERO_SINCE], row] = 0.0

    def _forget_templates(self) -> None:
        """Forget the templates that have no series."""
        ids: dict[str, set[str]] = {}
        for name in filter(is_template, self.counts.names):
            ids.setdefault(context_of(name), set()).add(name.rsplit("/", 1)[1])
        self.templates = {context: own for context, own in self.templates.items() if context in ids}
        for context, own in self.templates.items():
            own.keep(ids[context])

    def _hosts_to_make_room(self, now: int) -> Bools:
        """Hosts that must make room, `(n_hosts,)`."""
        crowded = is_in(self.hosts.names, self.pressed)
        if f"/{ALL_SERIES}" in self.pressed:
            crowded[:] = True
        if "" in self.pressed:
            crowded |= self.host_column("seen") < now - DAY_MS
        return crowded

    def reset(self, chosen: Mapping[str, Ints], now: int, p: DetectorParameters) -> list[EpisodeEvent]:
        """Forget what is known of the chosen rows of each table; their names and places stay.

        A host or service that is reset has its grace period again. Answers the closing of episodes that were open on them.
        """
        before, rows = now - 1000 * p.window_seconds, chosen["gauges"]
        self.univariate.grow(len(self.gauges))
        self.gauges.matrix[:, rows] = 0.0
        self.gauges.matrix[col.SEEN, rows] = before
        self.gauges.matrix[col.HOST_WINDOW, rows] = self.host_column("windows")[self.gauges.owner[0, rows]]
        self.gauges.matrix[col.TOTAL, rows] = np.nan
        self.univariate.forget(rows)
        self.change_candidates.forget(rows)
        self.peers.forget(rows)
        if self.challengers is not None:
            self.challengers.forget(rows)
        self.counts.matrix[:, chosen["counts"]] = 0.0
        self.counts.matrix[poisson.SEEN, chosen["counts"]] = before
        self.counts.matrix[poisson.LAST_LINE, chosen["counts"]] = now
        self.hosts.matrix[HOST_RUNS, chosen["hosts"]] = 0.0
        self.host_column("first")[chosen["hosts"]] = now
        for name in CONTEXT_NUMBERS:
            self.context_column(name)[chosen["contexts"]] = 0.0
        self.context_column("first")[chosen["contexts"]] = now
        names = {self.gauges.names[row] for row in rows.tolist()}
        names |= {self.counts.names[row] for row in chosen["counts"].tolist()}
        names |= {name for row in chosen["hosts"].tolist() for name in host_series_of(self.hosts.names[row])}
        names |= {f"service/{self.contexts.names[row]}" for row in chosen["contexts"].tolist()}
        for name in names & self.trials.keys():
            del self.trials[name]
        self.control.forget(names)
        self.episodes.recurrences.forget(names)
        return [self.episodes.close(name, now) for name in sorted(names & self.episodes.open.keys())]

    def _link_owners(self) -> None:
        """Store, with each series, the rows of its host and context."""
        for table in (self.gauges, self.counts):
            if len(table):
                table.owner[0] = [self.hosts.index[host_of(name)] for name in table.names]
                table.owner[1] = [self.contexts.index[context_of(name)] for name in table.names]
        if len(self.counts):
            self.counts.owner[2] = [is_template(name) for name in self.counts.names]
        if len(self.contexts):
            self.contexts.owner[0] = [self.hosts.index[name.split("/")[0]] for name in self.contexts.names]

    def dump(self, only_changed: bool) -> dict[str, bytes]:
        """Parts by name.

        With `only_changed` without `names`, `texts`, `patterns`, `cold`, `peers`, `rules`, `remembered` and `recurrences`, unless names or these
        have changed.
        """
        self.univariate.grow(len(self.gauges))
        parts = {name: getattr(self, name).dump() for name in TABLES}
        parts |= self.univariate.dump(only_changed=only_changed)
        parts[CHANGE_CANDIDATES] = self.change_candidates.dump()
        if self.peers.changed or not only_changed:
            parts[PEERS] = self.peers.dump()
        if self.rules_changed or not only_changed:
            parts[RULES] = self._rules_part()
        self.rules_changed = False
        if self.control != self.remembered or not only_changed:
            parts[REMEMBERED] = self.control.dump()
            self.remembered = self.control.copy()
        if self.challengers is not None:
            self.challengers.grow(len(self.gauges))
            parts[CHALLENGERS] = self.challengers.dump()
        if self.episodes.recurrences.changed or not only_changed:
            parts[RECURRENCES] = write_columns(RECURRENCE_COLUMNS, self.episodes.recurrences.rows())
        self.episodes.recurrences.changed = False
        about: dict[str, Any] = {"steps": self.steps, "first": self.first, "last": self.last}
        about["trials"] = [vars(self.trials[name]) for name in sorted(self.trials)]
        if self.pressed:
            about["pressed"] = self.pressed
        parts["episodes"] = write_part({"episode": pa.array(self.episodes.dump(), type=pa.string())}, about)
        if self.renamed or not only_changed:
            names = [getattr(self, name).names for name in TABLES]
            lengths = {name: len(table) for name, table in zip(TABLES, names, strict=True)}
            flat = [name for table in names for name in table]
            parts["names"] = write_part({"name": pa.array(flat, type=pa.string())}, lengths)
            ids = sorted(self.texts)
            texts = {
                "id": pa.array(ids, type=pa.string()),
                "text": pa.array(map(self.texts.get, ids), type=pa.string()),
            }
            parts["texts"] = write_part(texts, {})
            parts[service_templates.PART] = service_templates.part_of(service_templates.rows_of(self.templates))
        self.renamed = False
        return parts

    def _rules_part(self) -> bytes:
        """The rules of the log in the order of their names, a column for each attribute."""
        ordered = [self.rules[name] for name in sorted(self.rules)]
        return write_columns(RULE_COLUMNS, [tuple(getattr(one, name) for name in RULE_COLUMNS) for one in ordered])

    @classmethod
    def load(cls, parts: Mapping[str, bytes]) -> ShardState:
        """The inverse of `dump`. Raises ValueError for another format or a part that is missing."""
        missing = [name for name in PARTS if name not in parts]
        if missing:
            msg = f"detector state lacks {', '.join(missing)}; wanted all parts of one dump"
            raise ValueError(msg)
        arrays, lengths = read_part(parts["names"])
        names = arrays["name"].to_pylist()
        state, at = cls(), 0
        for table in TABLES:
            getattr(state, table).load(names[at : at + lengths[table]], parts[table])
            at += lengths[table]
        state.univariate = UnivariateState.load(parts)
        if state.univariate.series != len(state.gauges):
            msg = f"detector state has {state.univariate.series} series for {len(state.gauges)} names: not one dump"
            raise ValueError(msg)
        state.change_candidates = ChangeCandidates.load(*read_part(parts[CHANGE_CANDIDATES]))
        state.peers = Peers.load(*read_part(parts[PEERS]))
        if CHALLENGERS in parts:
            state.challengers = ChallengerMemories.load(parts[CHALLENGERS])
        state._link_owners()
        columns, _ = read_part(parts[RULES])
        known = zip(*(columns[name].to_pylist() for name in RULE_COLUMNS), strict=True)
        state.rules = {row[0]: LoggedRule(*row) for row in known}
        arrays, _ = read_part(parts["texts"])
        state.texts = dict(zip(arrays["id"].to_pylist(), arrays["text"].to_pylist(), strict=True))
        state.templates = service_templates.read(parts[service_templates.PART])
        arrays, about = read_part(parts["episodes"])
        recurrences = Recurrences.load(read_part(parts[RECURRENCES])[0])
        state.episodes = Episodes.load(arrays["episode"].to_pylist(), recurrences)
        state.trials = {trial["series"]: NewTemplate(**trial) for trial in about["trials"]}
        state.control = ControlState.load(read_part(parts[REMEMBERED])[0])
        state.remembered = state.control.copy()
        state.pressed = about.get("pressed", {})
        state.steps, state.first, state.last = about["steps"], about["first"], about["last"]
        state.renamed = False
        return state

    def describe_state(self, name: str) -> dict[str, Any]:
        """All numbers of a series by the names of their columns. Raises KeyError for an unknown series."""
        table = self.table_of(parse(name))
        row = table.index[name]
        found: dict[str, Any] = dict(zip(table.columns, table.matrix[:, row].tolist(), strict=True))
        episode = self.episodes.get(name)
        return found | {"episode": json.loads(episode.dump()) if episode else None}


def write_columns(kinds: Mapping[str, str], rows: Sequence[Sequence[Any]]) -> bytes:
    """Rows as a part, a column for each of `kinds`, which are Arrow types by name."""
    columns = zip(*rows, strict=True) if rows else ((),) * len(kinds)
    typed = zip(kinds.items(), columns, strict=True)
    return write_part({name: pa.array(column, type=pa.type_for_alias(kind)) for (name, kind), column in typed}, {})


def host_of(name: str) -> str:
    """The quoted host in a series' name."""
    return name.split("/", 2)[1]


def host_series_of(host: str) -> tuple[str, str]:
    """The series of a host as a whole, and of its log, by its quoted name."""
    return f"host/{host}", f"logs/{host}//"


def is_template(name: str) -> bool:
    """Whether a count series is the lines of one template."""
    return name.startswith("template/")


def context_of(name: str) -> str:
    """The quoted host and service in a series' name: `HOST/SERVICE`."""
    return "/".join(name.split("/", 3)[1:3])


def context_name(series: Series) -> str:
    """The same from its parts."""
    return f"{quote(series.host)}/{quote(series.service)}"
