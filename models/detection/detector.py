"""The detector of a shard: windows of statistics in, scores and episode events out. One object holds all series of many hosts.

In each window every series is scored by what was known before it, and learnt afterwards. What is reported of a series
depends on nothing but what its host has sent, so splitting a shard by hosts changes nothing of that. Whether it is news that a host begins or ends
depends on the other hosts of the shard as well. A detector that is dumped and loaded goes on bit for bit.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

import numpy as np

from models.core.arrays import Bools, Ints, Texts, is_in
from models.core.parameters import DetectorParameters
from models.core.windows import Scores, Windows
from models.detection import gauge_columns as col
from models.detection.alarm_bounds import AlarmBounds, EarlyParameters
from models.detection.announcements import Announcements
from models.detection.appearance import Appearance
from models.detection.calls_seen import CallsSeen
from models.detection.churn import Churn, HostChurn
from models.detection.control import MUTED, Control, add_planned_scores
from models.detection.controlled_parameters import ControlledParameters
from models.detection.count_detector import CountDetector, CountScores
from models.detection.gauge_changes import GaugeChanges
from models.detection.gauge_detector import GaugeDetector, GaugeScores, make_model
from models.detection.gauge_episodes import GaugeEpisodes
from models.detection.limits import TEMPLATES, Limits
from models.detection.line_bounds import LineBounds
from models.detection.logged_rules import RefusedRule
from models.detection.mixture_detector import MixtureDetector
from models.detection.newcomers import Newcomers
from models.detection.peer_detector import PeerDetector
from models.detection.population import GAPS, Population
from models.detection.shard_state import HOUR_MS, ShardState, ShardWindow, host_of
from models.detection.silence import METRIC_SILENT, Silence
from models.detection.template_merging import TemplateMerging
from models.records.records import Bound, EpisodeEvent, Overflow, Watched
from models.univariate.parameters import UnivariateParameters

UNNAMED: tuple[list[str] | None, Ints, Ints] = (None, np.zeros(0, np.int64), np.zeros(0, np.int64))


class ShardDetector:
    """Steps all series of a shard, window by window.

    `step` must be called for every window in which anything was recorded, in order; hosts and series without a row are
    known to be silent then. Windows that are left out altogether are a gap: forgetting goes on, silence does not.

    Parameters
    ----------
    parameters
        One set for all series; with `ControlledParameters`, rules about some of them, and limits.
    state
        Where to go on from; a new shard without it.
    shard
        Its number, for its sentences.
    early
        Of which early alarms bounds are made; without it there are none. Nothing else depends on it.

    Attributes
    ----------
    bounds
        The bounds of single records that have changed with the last window.
    """

    def __init__(
        self,
        parameters: DetectorParameters,
        state: ShardState | None = None,
        shard: int = 0,
        early: EarlyParameters | None = None,
    ) -> None:
        p, state = parameters, state if state is not None else ShardState()
        self._p, self._state = p, state
        settings = UnivariateParameters(warm_up_minutes=p.warm_up_minutes, interval_probability=p.interval_probability)
        model = make_model(p, settings, state)
        self._control = Control(state, p, shard)
        self._limits = Limits(state, p, p.limits if isinstance(p, ControlledParameters) else None, shard)
        self._templates = TemplateMerging(state, p)
        self._newcomers = Newcomers(state, p)
        churn, hosts = Churn(state), HostChurn(state, p)
        self._appearance = Appearance(state, p, self._newcomers, churn, hosts)
        self._silence = Silence(state, p, self._control, self._limits, churn, hosts)
        self._gauges = GaugeDetector(state, p, self._control, model, settings, self._newcomers)
        self._changes = GaugeChanges(state, p, model, settings)
        self._gauge_episodes = GaugeEpisodes(state, p, self._control, model, self._changes, settings)
        self._peers = PeerDetector(state, p, self._control)
        self._counts = CountDetector(state, p, self._control, self._limits, self._newcomers)
        self._mixtures = MixtureDetector(state, p, self._control, self._limits)
        self._named = UNNAMED  # the last window's names, and their rows
        self._population = Population(state, p)
        self._calls = CallsSeen(state.gauges)
        self._announced = Announcements(shard)
        self.bounds: list[Bound] = []
        self._alarm_bounds = early and AlarmBounds(state, p, self._control, self._gauges, model, early)
        self._line_bounds = early and LineBounds(state, p, self._control)

    def step(self, window_end: int, rows: Windows) -> tuple[Scores, list[EpisodeEvent]]:
        """Score one window, then learn it.

        Parameters
        ----------
        window_end
            End of the window, epoch ms.
        rows
            The series that reported in the window, and labels, changes and rules that were appended in it.

        Returns
        -------
        Scores
            A row for each of `rows` but labels, changes and rules, templates that are merged as one, then one for each count series whose
            missing lines are informative.
        list of episode events
            What is published of episodes, sorted by series.

        Raises
        ------
        ValueError
            If the window does not come after the last one.
        """
        # what is due before the window is looked at
        rows, events = self._advance(window_end, rows)
        rows = self._announced.take(window_end, self._control.labels.take(window_end, rows))
        rows, ended = self._templates.step(self._limits.take(rows))
        self._limits.add_overflow([*self._announced.overflow, *self._control.overflow])
        if self._templates.has_moved:
            self._named = UNNAMED
        planned = self._control.planned_mask(rows)
        if planned is not None:
            self._gauges.note_totals(window_end, rows, planned)
        events += [self._state.episodes.close(name, window_end) for name in self._state.episodes.ending_at(window_end)]

        # rows of known and new series, and hosts that are present
        window, more = self._locate(window_end, rows if planned is None else rows.without(planned))
        if len(window.rows) < len(rows):  # some are planned, or there is no room for some
            kept = is_in(rows.series.tolist(), set(window.rows.series.tolist()))
            kept = kept if planned is None else kept | planned
            rows, planned = rows.without(~kept), planned if planned is None else planned[kept]
        events += more + self._limits.step(window_end)
        self._templates.settle()
        present = self._present(window, rows, planned)
        events += self._silence.hosts(window_end, present)

        # metrics: scores, changes of state, episodes, silence
        events += self._silence.returned_metrics(window)
        gauges = self._gauges.score(window)
        above = gauges.base >= gauges.alert_nats
        joined = self._newcomers.find_joined(window.gauges, above, gauges.value, gauges.typical)
        changes = self._changes.step(window, gauges, self._gauge_episodes.episode_starts())
        events += self._gauge_episodes.step(window, gauges, changes)
        events += self._peers.step(window, gauges)
        events += self._silence.metrics(window, present)

        # log lines: scores, episodes, mixes of templates, new templates
        silent, more = self._silence.logs(window_end, present, self._logged(window, rows, planned))
        events += more
        counts = self._counts.score(window, present & ~silent)
        if len(counts.rows):
            events += self._counts.update_episodes(window, counts)
        events += self._mixtures.step(window_end, counts)
        events += self._appearance.new_templates(window_end, window.rows, lambda name: self._not_observed(name, silent))
        self._appearance.learn(window)
        if len(joined):
            events = self._newcomers.begin_again(joined, window_end, events)

        # what is answered and published
        scores = self._scores(window, gauges, counts)
        if planned is not None:
            scores = add_planned_scores(scores, rows, planned, self._p.windows(minutes=1))
        published = self._control.drop_muted(window_end, events)
        self._control.labels.remember_published(published)
        if self._alarm_bounds and self._line_bounds:
            self.bounds = [*self._alarm_bounds.step(window), *self._line_bounds.step(window)]
        return scores, sorted([*published, *ended], key=lambda event: event.series)

    def _advance(self, window_end: int, rows: Windows) -> tuple[Windows, list[EpisodeEvent]]:
        """Go on to a window: take in its rules; reset those that a rule resets.

        Once an hour what is open on hosts that are gone ends, and series that are gone are forgotten.

        Answers the other rows, and the closing of episodes that were open on them.
        """
        state, before = self._state, self._state.last
        if window_end <= before:
            msg = f"window {window_end} comes after {before}; wanted windows in order"
            raise ValueError(msg)
        rows = self._control.take(window_end, rows)
        closed: list[EpisodeEvent] = []
        if before // HOUR_MS != window_end // HOUR_MS and state.steps:
            closed = state.close_abandoned(window_end, self._p, self._control.planned_rows("hosts"))
            closed += state.forget(window_end, self._p)
            self._control.labels.forget(window_end)
            self._templates.note_forgotten()
            self._named = UNNAMED  # rows may have moved
            self._calls.forget()
        # A rule may be much older than all else that the log still holds: in its window no host could be seen.
        gap = max(60_000 * self._p.grace_minutes, 1000 * self._p.window_seconds)
        if not state.first or (not len(state.hosts) and window_end - before > gap):
            state.first = window_end
        state.last = window_end
        state.steps += 1
        return rows, closed + self._control.advance(window_end, before)

    def _locate(self, now: int, rows: Windows) -> tuple[ShardWindow, list[EpisodeEvent]]:
        """Find the rows of a window's series in the tables; unknown series get theirs, and are reported if that is news.

        What there is no room for is no row of the answer.
        """
        state = self._state
        names, metrics = rows.series.tolist(), rows.metrics
        if names == self._named[0]:  # as nearly always, and much cheaper than looking each of them up
            return ShardWindow(now, rows, metrics, *self._named[1:]), []
        gauges, counts = state.gauges.index, state.counts.index
        events: list[EpisodeEvent] = []
        if not (gauges.keys() >= set(names[:metrics]) and counts.keys() >= set(names[metrics:])):
            missing = [i for i in range(metrics) if names[i] not in gauges]
            missing += [i for i in range(metrics, len(names)) if names[i] not in counts]
            admitted = self._limits.admit(missing, rows.series)
            events = self._appearance.register(admitted, now, rows)
            if len(admitted) < len(missing):
                gone = np.zeros(len(rows), dtype=bool)
                gone[np.setdiff1d(missing, admitted)] = True
                rows = rows.without(gone)
                names, metrics = rows.series.tolist(), rows.metrics
        gauge_rows = np.fromiter(map(gauges.__getitem__, names[:metrics]), dtype=np.int64, count=metrics)
        count_rows = np.fromiter(map(counts.__getitem__, names[metrics:]), dtype=np.int64, count=len(names) - metrics)
        self._named = names, gauge_rows, count_rows
        return ShardWindow(now, rows, metrics, gauge_rows, count_rows), events

    def _not_observed(self, series: str, silent: Bools) -> bool:
        """Whether nothing follows from the lines of a template in this window; the log of some hosts is `silent`, `(n_hosts,)`."""
        if silent[self._state.hosts.index[host_of(series)]]:
            return True
        return self._limits.is_uncertain(TEMPLATES, series) or self._control.is_planned(series)

    def _present(self, window: ShardWindow, rows: Windows, planned: Bools | None) -> Bools:
        """Which hosts sent anything, `(n_hosts,)`.

        Planned rows show that their host is present, unless that is planned too and nothing else came of it: a host that is planned with all
        its series counts as absent.
        """
        state = self._state
        present = np.zeros(len(state.hosts), dtype=bool)
        present[state.gauges.owner[0, window.gauges]] = True
        if len(window.counts):
            present[state.counts.owner[0, window.counts]] = True
        sent = present.copy()
        if planned is not None:
            hosts = {*map(host_of, rows.series[planned].tolist())}
            present[[state.hosts.index[name] for name in hosts if name in state.hosts.index]] = True
        away = self._control.planned_rows("hosts")
        if len(away):
            present[away] = sent[away]
        return present

    def _logged(self, window: ShardWindow, rows: Windows, planned: Bools | None) -> Bools:
        """Which hosts sent log lines, `(n_hosts,)`, planned ones included."""
        state = self._state
        logged = np.zeros(len(state.hosts), dtype=bool)
        if len(window.counts):
            logged[state.counts.owner[0, window.counts]] = True
        if planned is not None:
            lines = [name for name in rows.series[planned].tolist() if name.startswith(("logs/", "template/"))]
            logged[
                [state.hosts.index[host] for host in sorted({*map(host_of, lines)}) if host in state.hosts.index]
            ] = True
        return logged

    def _scores(self, window: ShardWindow, values: GaugeScores, lines: CountScores) -> Scores:
        """Scores in the order of the rows, then those of informative zeros."""
        rows = window.rows
        if not len(lines.rows):
            return self._only_metrics(rows, values)
        zeros, per_minute = lines.informative_zeros, self._p.windows(minutes=1)
        at = np.concatenate([np.searchsorted(lines.rows, window.counts), zeros])
        absent = np.array([self._state.counts.names[row] for row in lines.rows[zeros].tolist()], dtype=object)
        series = np.concatenate([rows.series, absent]) if len(zeros) else rows.series
        texts = np.array([self._state.text_of(name) for name in absent.tolist()], dtype=object)
        score = np.concatenate([values.score, lines.score[at]])
        kind = np.full(len(series), "normal", dtype=object)
        kind[np.isnan(score)] = "warming"
        self._mark(series, len(rows), kind)
        return Scores(
            series=series,
            score=score,
            value=np.concatenate([values.value, lines.value[at] * per_minute]),
            typical=np.concatenate([values.typical, lines.belief.mean[at] * per_minute]),
            lower=np.concatenate([values.lower, lines.lower[at] * per_minute]),
            upper=np.concatenate([values.upper, lines.upper[at] * per_minute]),
            kind=kind,
            template=np.concatenate([rows.template, texts]) if len(zeros) else rows.template,
            health=np.concatenate([values.health, lines.score[at]]),
        )

    def _only_metrics(self, rows: Windows, values: GaugeScores) -> Scores:
        kind = np.full(len(rows), "normal", dtype=object)
        kind[np.isnan(values.score)] = "warming"
        self._mark(rows.series, len(rows), kind)
        v = values
        return Scores(rows.series, v.score, v.value, v.typical, v.lower, v.upper, kind, rows.template, v.health)

    def _mark(self, series: Texts, sorted_rows: int, kind: Any) -> None:
        """Set the kind of rows whose series have an open episode (the episode's) or a template on trial (`new`), in place."""
        kinds = dict.fromkeys(self._state.trials, "new")
        # metrics that are silent, of which there may be thousands, have no row
        kinds |= {name: e.kind for name, e in self._state.episodes.open.items() if e.cause != METRIC_SILENT}
        kinds |= {name: MUTED for name in kinds if self._control.is_muted(name)}
        for name, word in kinds.items():
            at = bisect_left(series, name, 0, sorted_rows)
            if at < sorted_rows and series[at] == name:
                kind[at] = word
        for at in range(sorted_rows, len(series)):
            kind[at] = kinds.get(series[at], kind[at])

    @property
    def overflow(self) -> list[Overflow]:
        """What was left out of the last window, by host and limit."""
        return self._limits.overflow

    @property
    def refused_rules(self) -> list[RefusedRule]:
        """Records of rules that could not be taken in the last window; all shards have the same."""
        return self._control.refused

    @property
    def watched(self) -> Watched:
        """How many series and hosts the shard has after its last window, and how many of them are there or were lately."""
        state = self._state
        series = len(state.gauges) + len(state.counts)
        hosts, services, omitted = self._population.count_hosts()
        apart = self._gauges.windows_apart(slice(len(state.gauges))).astype(np.int64)
        quiet = state.last - state.gauges.matrix[col.SEEN]
        numbers = np.bincount(apart[quiet <= GAPS * 1000.0 * self._p.window_seconds * apart])
        judged = round(sum(int(numbers[k]) / k for k in np.flatnonzero(numbers).tolist()))
        return Watched(
            series,
            len(state.hosts),
            self._p.window_seconds,
            services,
            omitted,
            self._calls.list_calls,
            *self._announced.window,
            hosts_lately=int(hosts.sum()),
            tests=judged + int(hosts[state.counts.owner[0]].sum()),
        )

    @property
    def series(self) -> list[str]:
        """The names of all series: metrics, then those that are counted."""
        return [*self._state.gauges.names, *self._state.counts.names]

    def __contains__(self, series: str) -> bool:
        return series in self._state.gauges.index or series in self._state.counts.index

    @property
    def steps(self) -> int:
        """How many windows have been taken."""
        return self._state.steps

    @property
    def last_window(self) -> int:
        """The end of the last one, epoch ms; 0 before the first."""
        return self._state.last

    def dump(self, only_changed: bool = False) -> dict[str, bytes]:
        """The state as Arrow IPC parts by name; with `only_changed`, without parts equal to those of the last dump."""
        return self._state.dump(only_changed)

    @classmethod
    def load(
        cls,
        parts: Mapping[str, bytes],
        parameters: DetectorParameters,
        shard: int = 0,
        early: EarlyParameters | None = None,
    ) -> ShardDetector:
        """The inverse of `dump`. Raises ValueError for another format or a part that is missing."""
        return cls(parameters, ShardState.load(parts), shard, early)

    def describe_state(self, series: str) -> dict[str, Any]:
        """What is known of a series, and expected of its next window, by name. Raises KeyError for an unknown series."""
        self._control.determine_holding(self._state.last)
        found = self._state.describe_state(series)
        row = self._state.gauges.index.get(series)
        if row is None:
            return found | self._counts.describe_state(self._state.counts.index[series])
        return found | self._gauges.describe_state(row)
