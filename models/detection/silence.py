"""Silence: hosts that have stopped reporting, and single metrics of hosts that go on.

A host is present in a window if any of its series is. Its absence is one episode and hides that of its series, whose
absence counts only in windows in which the host was present. The surprise of an absence follows from how often and for how
long the host or metric has been absent before (`run_length`): one that reports now and then needs a long absence. A gap in
which the whole shard has no window is no evidence, because windows are counted and not time.
"""

from __future__ import annotations

import math
from bisect import bisect_left

import numpy as np

from models.core.arrays import Bools, Ints
from models.core.parameters import DetectorParameters
from models.core.series import Series, build, parse, unquote
from models.detection import gauge_columns as col
from models.detection import reasons
from models.detection.control import Control
from models.detection.episodes import Episode
from models.detection.limits import METRICS, Limits
from models.detection.shard_state import ShardState, ShardWindow
from models.records.records import EpisodeEvent
from models.stats import run_length

LEAST_REPORTS = 30.0  # windows in which something must have been present before its silence is judged
HOST_SILENT, METRIC_SILENT = "host silent", "metric silent"
TRIALS, BEGUN, ASKED, STAYED = range(4, 8)  # in the hosts' table


class Silence:
    """Reports hosts and metrics that fall silent or return."""

    def __init__(self, state: ShardState, p: DetectorParameters, control: Control, limits: Limits) -> None:
        self._state, self._p, self._control, self._limits = state, p, control, limits

    def hosts(self, now: int, present: Bools) -> list[EpisodeEvent]:
        """Learn which hosts are present, `(n_hosts,)`; reports those that fell silent or returned."""
        state = self._state
        events = [self._back(row, now) for row in self._silent_hosts() if present[row]]
        rows = np.flatnonzero(present)
        matrix = state.hosts.matrix
        gap = state.steps - state.host_column("step")[rows] - 1
        gap *= state.host_column("trials")[rows] >= 0
        fade = np.exp2(-(now - state.host_column("seen")[rows]) / (3_600_000.0 * self._p.habit_half_life_hours))
        chain = matrix[TRIALS:, rows] * fade
        run_length.learn_gap(list(chain), gap)
        matrix[TRIALS:, rows] = chain
        state.host_column("seen")[rows] = now
        state.host_column("step")[rows] = state.steps
        state.host_column("windows")[rows] += 1
        planned = self._control.planned("hosts")
        if self._limits.hosts_unsure:
            planned = np.union1d(planned, np.flatnonzero(~present))
        state.host_column("step")[planned] += 1.0  # the window does not count
        if not present.all():
            events += self._absent_hosts(now, np.setdiff1d(np.flatnonzero(~present), planned))
        return events

    def _silent_hosts(self) -> list[int]:
        names = [name for name, e in self._state.episodes.open.items() if e.cause == HOST_SILENT]
        return [self._state.hosts.index[name.split("/")[1]] for name in sorted(names)]

    def _back(self, row: int, now: int) -> EpisodeEvent:
        state = self._state
        state.host_column("step")[row] = state.steps - 1  # an outage is not learnt as a usual absence
        return state.episodes.close(build(Series("host", unquote(state.hosts.names[row]))), now)

    def _absent_hosts(self, now: int, rows: Ints) -> list[EpisodeEvent]:
        state, events = self._state, []
        trials, begun, asked, stayed = state.hosts.matrix[TRIALS:, rows]
        length = state.steps - state.host_column("step")[rows]
        surprise = run_length.run_surprise(trials, begun, asked, stayed, length)
        surprise -= self._control.labels.demand("hosts", HOST_SILENT, rows, prefix="host/")
        usual = run_length.share_outside(trials, begun, asked, stayed)
        for at in np.flatnonzero((surprise >= self._p.silence_nats) & (trials >= LEAST_REPORTS)).tolist():
            row = int(rows[at])
            host = unquote(state.hosts.names[row])
            name = build(Series("host", host))
            events += self._silent(
                name,
                HOST_SILENT,
                f"host {host}",
                now,
                seen=state.host_column("seen")[row],
                surprise=surprise[at],
                usual=usual[at],
            )
            if self._exhausted(name, now):
                events.append(self._give_up(name, now))
                state.hosts.matrix[TRIALS:, row] = 0.0
        return events

    def metrics(self, now: int, present: Bools) -> list[EpisodeEvent]:
        """Report metrics that fell silent though their host did not; after the metrics of the window were learnt."""
        state = self._state
        owner = state.gauges.owner[0]
        planned = self._control.planned("gauges")
        unsure = self._limits.unsure(METRICS)
        if len(unsure):
            absent = state.host_column("windows")[owner] > state.gauges.matrix[col.HOST_WINDOW]
            planned = np.union1d(planned, np.flatnonzero(absent & np.isin(owner, unsure)))
        state.gauges.matrix[col.HOST_WINDOW, planned] += present[owner[planned]]  # the window does not count
        length = state.host_column("windows")[owner] - state.gauges.matrix[col.HOST_WINDOW]
        trials = state.gauges.matrix[col.PRESENT][0]
        rows = np.flatnonzero((length > 0) & present[owner] & (trials >= LEAST_REPORTS))
        rows = np.setdiff1d(rows, planned) if len(planned) else rows
        if not len(rows):
            return []
        chains = state.gauges.matrix[col.PRESENT, rows]
        surprise = run_length.run_surprise(chains[0], chains[1], chains[2], chains[3], length[rows])
        surprise -= self._control.labels.demand("gauges", METRIC_SILENT, rows)
        usual = run_length.share_outside(*chains)
        events: list[EpisodeEvent] = []
        for at in np.flatnonzero(surprise >= self._p.silence_nats).tolist():
            row = int(rows[at])
            name = state.gauges.names[row]
            series = parse(name)
            what = f"{reasons.subject(series)} on {series.host}"
            seen = state.gauges.matrix[col.SEEN, row]
            events += self._silent(name, METRIC_SILENT, what, now, seen=seen, surprise=surprise[at], usual=usual[at])
            if self._exhausted(name, now):
                events.append(self._give_up(name, now))
                state.gauges.matrix[col.PRESENT, row] = 0.0
        return events

    def returned_metrics(self, window: ShardWindow) -> list[EpisodeEvent]:
        """Learn that the metrics of a window are present; closes the episodes of those that were silent."""
        state, now = self._state, window.end
        windows = state.host_column("windows")[state.gauges.owner[0, window.gauges]]
        matrix = state.gauges.matrix
        gap = windows - matrix[col.HOST_WINDOW, window.gauges] - 1
        events = []
        for name in sorted(n for n, e in state.episodes.open.items() if e.cause == METRIC_SILENT):
            at = bisect_left(window.rows.series, name, 0, window.metrics)
            if at < window.metrics and window.rows.series[at] == name:
                gap[at] = 0.0  # an outage is not learnt as a usual absence
                events.append(state.episodes.close(name, now))
        passed = now - matrix[col.SEEN, window.gauges]
        chain = matrix[col.PRESENT, window.gauges] * np.exp2(-passed / (3_600_000.0 * self._p.habit_half_life_hours))
        run_length.learn_gap(list(chain), gap)
        matrix[col.PRESENT, window.gauges] = chain
        matrix[col.HOST_WINDOW, window.gauges] = windows
        return events

    def _silent(
        self, name: str, cause: str, what: str, now: int, *, seen: float, surprise: float, usual: float
    ) -> list[EpisodeEvent]:
        episode = self._state.episodes.get(name)
        seconds = (now - seen) / 1000
        if episode is not None:
            if episode.cause != cause:  # the next window opens an episode about the silence
                return [self._state.episodes.close(name, now)]
            episode.reason = reasons.silent(what, seconds, episode.typical)
            episode.score = episode.evidence = max(episode.score, float(surprise))
            return [episode.event("update", now)] if episode.update_due() else []
        nan = math.nan
        episode = Episode(
            name, cause, "silence", int(seen), float(surprise), float(surprise), 0.0, float(usual), nan, nan, "reports/window",
            reasons.silent(what, seconds, float(usual)), part="silence",
        )  # fmt: skip
        return [self._state.episodes.begin(episode, now)]

    def _exhausted(self, name: str, now: int) -> bool:
        episode = self._state.episodes.get(name)
        if episode is None:
            return False
        return episode.expected or now - episode.start >= 3_600_000 * self._p.silence_patience_hours

    def _give_up(self, name: str, now: int) -> EpisodeEvent:
        episode = self._state.episodes.open[name]
        word = "expected" if episode.expected else "given up"
        episode.kind, episode.reason = "change", f"{episode.reason}, {word}"
        return self._state.episodes.close(name, now)
