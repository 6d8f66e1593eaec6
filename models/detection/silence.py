"""Silence: hosts that have stopped reporting, and logs and single metrics of hosts that go on.

A host is present in a window if any of its series is. Its absence is one episode and hides that of its series, whose
absence counts only in windows in which the host was present. So it is with the log of a host, all its lines together: that none comes
where some always do is one episode, and says nothing of single levels and templates, which are not observed then. A collector that stops
is no drop of hundreds of rates, and nothing is learnt from it. The surprise of an absence follows from how often and for how
long the host or metric has been absent before (`run_length`): one that reports now and then needs a long absence. A gap in
which the whole shard has no window is no evidence, because windows are counted and not time.
"""

from __future__ import annotations

import math
from bisect import bisect_left

import numpy as np

from models.core.arrays import Bools, Floats, Ints
from models.core.parameters import DetectorParameters
from models.core.series import Series, build, parse, unquote
from models.detection import gauge_columns as col
from models.detection import reasons
from models.detection.control import Control
from models.detection.episodes import Episode
from models.detection.limits import METRICS, TEMPLATES, Limits
from models.detection.shard_state import HOST_COLUMNS, ShardState, ShardWindow, host_of
from models.records.records import EpisodeEvent
from models.stats import run_length

LEAST_REPORTS = 30.0  # windows in which something must have been present before its silence is judged
NOT_OBSERVED_NATS = 3.0  # surprise of a log's absence from which on its levels and templates are not observed
HOST_SILENT, LOG_SILENT, METRIC_SILENT = "host silent", "log silent", "metric silent"
RUNS = slice(HOST_COLUMNS.index("trials"), HOST_COLUMNS.index("stayed") + 1)
LOG_RUNS = slice(HOST_COLUMNS.index("log_trials"), HOST_COLUMNS.index("log_stayed") + 1)


class Silence:
    """Reports hosts and metrics that fall silent or return."""

    def __init__(self, state: ShardState, p: DetectorParameters, control: Control, limits: Limits) -> None:
        self._state, self._p, self._control, self._limits = state, p, control, limits

    def hosts(self, now: int, present: Bools) -> list[EpisodeEvent]:
        """Learn which hosts are present, `(n_hosts,)`; reports those that fell silent or returned."""
        state = self._state
        events = [self._back(row, now) for row in self._silent_hosts() if present[row]]
        rows = np.flatnonzero(present)
        gap = state.steps - state.host_column("step")[rows] - 1
        gap *= state.host_column("trials")[rows] >= 0
        self._learn(RUNS, rows, gap, now - state.host_column("seen")[rows])
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

    def _learn(self, runs: slice, rows: Ints, gap: Floats, passed: Floats) -> None:
        """Learn that hosts, or their logs, are there after a gap of so many windows; what is older by `passed` ms fades."""
        fade = np.exp2(-passed / (3_600_000.0 * self._p.habit_half_life_hours))
        chain = self._state.hosts.matrix[runs, rows] * fade
        run_length.learn_gap(list(chain), gap)
        self._state.hosts.matrix[runs, rows] = chain

    def _silent_hosts(self, cause: str = HOST_SILENT) -> list[int]:
        names = [name for name, e in self._state.episodes.open.items() if e.cause == cause]
        return [self._state.hosts.index[host_of(name)] for name in sorted(names)]

    def _back(self, row: int, now: int) -> EpisodeEvent:
        state = self._state
        state.host_column("step")[row] = state.steps - 1  # an outage is not learnt as a usual absence
        return state.episodes.close(build(Series("host", unquote(state.hosts.names[row]))), now)

    def _absent_hosts(self, now: int, rows: Ints) -> list[EpisodeEvent]:
        state, events = self._state, []
        trials, begun, asked, stayed = state.hosts.matrix[RUNS, rows]
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
                state.hosts.matrix[RUNS, row] = 0.0
        return events

    def logs(self, now: int, present: Bools, logged: Bools) -> tuple[Bools, list[EpisodeEvent]]:
        """Learn which hosts log; reports those whose log fell silent or returned though they are present.

        Parameters
        ----------
        now
            End of the window, epoch ms.
        present, logged
            Whether anything, and any log line, came of each host, `(n_hosts,)`.

        Returns
        -------
        not observed
            Hosts that are present and whose log is missing where it hardly ever is, or was given up, `(n_hosts,)`.
        list of episode events
        """
        state = self._state
        if not (logged.any() or state.host_column("log_seen").any()):  # no host has ever logged
            return np.zeros(len(state.hosts), dtype=bool), []
        windows, at, known = (state.host_column(name) for name in ("windows", "log_window", "log_trials"))
        there, missing = np.flatnonzero(logged & present), present & ~logged & (state.host_column("log_seen") > 0)
        gap = np.where(known[there] > 0, windows[there] - at[there] - 1, 0.0)
        events = []
        for row in self._silent_hosts(LOG_SILENT):
            if logged[row] and present[row]:
                gap[np.searchsorted(there, row)] = 0.0  # an outage is not learnt as a usual absence
                events.append(state.episodes.close(log_of(unquote(state.hosts.names[row])), now))
        self._learn(LOG_RUNS, there, gap, now - state.host_column("log_seen")[there])
        state.host_column("log_seen")[there] = now
        at[there] = windows[there]
        unsure = np.union1d(self._planned_logs(), self._limits.unsure(TEMPLATES)).astype(np.int64)
        at[unsure[missing[unsure]]] += 1.0  # the window does not count
        missing[unsure] = False
        rows = np.flatnonzero(missing)
        if not len(rows):
            return missing, events
        trials, begun, asked, stayed = state.hosts.matrix[LOG_RUNS, rows]
        surprise = run_length.run_surprise(trials, begun, asked, stayed, windows[rows] - at[rows])
        missing[rows] = (surprise >= NOT_OBSERVED_NATS) | (
            trials == 0
        )  # of one that was given up nothing is known until it is back
        surprise -= self._control.labels.demand("hosts", LOG_SILENT, rows, prefix="logs/", suffix="//")
        usual = run_length.share_outside(trials, begun, asked, stayed)
        for i in np.flatnonzero((surprise >= self._p.silence_nats) & (trials >= LEAST_REPORTS)).tolist():
            row = int(rows[i])
            host = unquote(state.hosts.names[row])
            name, seen = log_of(host), state.host_column("log_seen")[row]
            events += self._silent(
                name, LOG_SILENT, f"log of {host}", now, seen=seen, surprise=surprise[i], usual=usual[i]
            )
            if self._exhausted(name, now):
                events.append(self._give_up(name, now))
                state.hosts.matrix[LOG_RUNS, row] = 0.0
        return missing, events

    def _planned_logs(self) -> Ints:
        """Rows of the hosts of whose log all is planned."""
        planned = self._control.planned("counts")
        if not len(planned):
            return planned
        owner, hosts = self._state.counts.owner[0], len(self._state.hosts)
        some = np.bincount(owner[planned], minlength=hosts)
        return np.flatnonzero((some > 0) & (some == np.bincount(owner, minlength=hosts)))

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


def log_of(host: str) -> str:
    """The series of all lines of a host."""
    return build(Series("logs", host))
