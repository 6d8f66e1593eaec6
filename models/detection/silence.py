"""Silence: hosts that have stopped reporting, and logs and single metrics of hosts that go on.

A host is present in a window if any of its series is. Its absence is one episode and hides that of its series, whose
absence counts only in windows in which the host was present. So it is with the log of a host, all its lines together: that none comes
where some always do is one episode, and says nothing of single levels and templates, which are not observed then. A collector that stops
is no drop of hundreds of rates, and nothing is learnt from it. The surprise of an absence follows from how often and for how
long the host or metric has been absent before (`run_length`): one that reports now and then needs a long absence, and 45 reports before it. A gap in
which the whole shard has no window is no evidence, because windows are counted and not time.

Logs come in bursts: a job each hour writes for minutes, and then come short and long gaps. The chain of `run_length` has one kind of gap, and takes a
long one after many short ones for improbable. So the silence of a log also has to be `USUAL_GAPS` times as long as its third longest gap, reported or
not, of which half is left after a day. It fails for a log that ends in the days after three such outages, which is found later.

In hours in which a host or its log is usually away its absence does not count (`usual_hours`). Where it goes on after them, the episode begins then.

Where metrics or hosts end all day, as those of pods or machines that live for minutes do, one more that ends is no news (`churn`).

A host whose records are all refused for their time, as its clock is wrong, is absent too: the reason of its silence says so, as long as there were
such records in the latter half of it.
"""

from __future__ import annotations

import math
from bisect import bisect_left

import numpy as np

from models.core.arrays import Bools, Floats, Ints
from models.core.parameters import DetectorParameters
from models.core.series import Series, build, unquote
from models.detection import gauge_columns as col
from models.detection import reasons
from models.detection.churn import Churn, HostChurn
from models.detection.compiled_metrics import find_absent_metrics, learn_hosts
from models.detection.control import Control
from models.detection.episodes import Episode
from models.detection.host_columns import LOG_GAPS, LOG_RUNS, RUNS, WINDOWS
from models.detection.limits import METRICS, TEMPLATES, Limits
from models.detection.shard_state import DAY_MS, HOUR_MS, ShardState, ShardWindow, host_of
from models.detection.usual_hours import UsualHours
from models.records.records import USUAL_END, EpisodeEvent
from models.stats import run_length

LEAST_REPORTS = 30.0  # windows in which something must have been present before its silence is judged
NOT_OBSERVED_NATS = 3.0  # surprise of a log's absence from which on its levels and templates are not observed
USUAL_GAPS = 2.0  # the silence of a log is longer than so many times its third longest gap
# why a silence counts no longer
GIVEN_UP, ENDS_OFTEN, HOSTS_END = "given up", "metrics of this service end often", "hosts like it end often"
HOST_SILENT, LOG_SILENT, METRIC_SILENT = "host silent", "log silent", "metric silent"


class Silence:
    """Reports hosts and metrics that fall silent or return."""

    def __init__(
        self, state: ShardState, p: DetectorParameters, control: Control, limits: Limits, churn: Churn, hosts: HostChurn
    ) -> None:
        self._state, self._p, self._control, self._limits = state, p, control, limits
        self._churn, self._host_churn = churn, hosts
        self._hours, self._log_hours = UsualHours(state), UsualHours(state, "log_")
        self._half_life, self._window = 3_600_000.0 * p.habit_half_life_hours, 1000.0 * p.window_seconds

    def hosts(self, now: int, present: Bools) -> list[EpisodeEvent]:
        """Learn which hosts are present, `(n_hosts,)`; reports those that fell silent or returned."""
        state = self._state
        self._turn_hours(now)
        events = [self._back(row, now) for row in self._silent_hosts() if present[row]]
        hosts = state.hosts.storage[0]
        absent = learn_hosts(hosts, present, state.steps, float(now), self._half_life, self._window)
        planned = self._control.planned_rows("hosts")
        planned = planned[~present[planned]]
        if absent:
            planned = np.union1d(planned, np.flatnonzero(~present & self._hours.now()))
        if self._limits.are_hosts_uncertain:
            planned = np.union1d(planned, np.flatnonzero(~present))
        if len(planned):
            state.host_column("step")[planned] += 1.0  # the window does not count
        if absent:
            rows = np.flatnonzero(~present)
            events += self._absent_hosts(now, np.setdiff1d(rows, planned) if len(planned) else rows)
        return events

    def _turn_hours(self, now: int) -> None:
        """Learn the hours that have passed since the last window."""
        seen, log_seen = self._state.host_column("seen"), self._state.host_column("log_seen")
        before = int(seen.max(initial=0.0))  # when any host was present
        if not before or (now - 1) // HOUR_MS == (before - 1) // HOUR_MS:
            return
        silent, log_silent = (self._state.host_column(name) == 0 for name in ("trials", "log_trials"))
        silent[self._silent_hosts()] = log_silent[self._silent_hosts(LOG_SILENT)] = True
        self._hours.turn(now, before, silent)
        # Of the log of a host that is away nothing is known.
        self._log_hours.turn(now, before, log_silent & (log_seen > 0) & (seen > before - HOUR_MS))

    def _learn_logs(self, rows: Ints, gap: Floats, passed: Floats) -> None:
        """Learn that logs of hosts are there after a gap of so many windows; what is older by `passed` ms fades."""
        fade = np.exp2(-passed / max(self._half_life, run_length.LEAST_ROWS * self._window))
        chain = self._state.hosts.matrix[LOG_RUNS, rows] * fade
        run_length.learn_gap(list(chain), gap)
        self._state.hosts.matrix[LOG_RUNS, rows] = chain

    def _longest_gaps(self, rows: Ints, passed: Floats) -> Floats:
        """The three longest gaps of the logs of hosts, windows, longest first, `(3, rows)`; half of them is left a day after the last line."""
        gaps: Floats = self._state.hosts.matrix[LOG_GAPS, rows] * np.exp2(-passed / DAY_MS)
        return gaps

    def _silent_hosts(self, cause: str = HOST_SILENT) -> list[int]:
        names = [name for name, e in self._state.episodes.open.items() if e.cause == cause]
        return [self._state.hosts.index[host_of(name)] for name in sorted(names)]

    def _back(self, row: int, now: int) -> EpisodeEvent:
        state = self._state
        state.host_column("step")[row] = state.steps - 1  # an outage is not learnt as a usual absence
        return state.episodes.close(build(Series("host", unquote(state.hosts.names[row]))), now)

    def _absent_hosts(self, now: int, rows: Ints) -> list[EpisodeEvent]:
        state = self._state
        events: list[EpisodeEvent] = []
        trials, begun, asked, stayed = state.hosts.matrix[RUNS, rows]
        length = state.steps - state.host_column("step")[rows]
        surprise = run_length.run_surprise(trials, begun, asked, stayed, length)
        surprise -= self._control.labels.demanded_nats("hosts", HOST_SILENT, rows, prefix="host/")
        silent = np.flatnonzero((surprise >= self._p.silence_nats) & (trials >= LEAST_REPORTS))
        found = silent[self._due(now)[rows[silent]]].tolist() if len(silent) else []
        if not found:
            return events
        usual = run_length.share_outside(trials, begun, asked, stayed)
        names = {at: build(Series("host", unquote(state.hosts.names[rows[at]]))) for at in found}
        # Churn is looked at in windows in which a host is found first.
        first = any(name not in state.episodes.open for name in names.values())
        for at, name in names.items():
            row = int(rows[at])
            if first and self._host_churn.is_usual_end(row, now):
                known = name in state.episodes.open
                events.append(
                    self._give_up(name, now, HOSTS_END) if known else self._usual_end(name, row, now, usual[at])
                )
                state.hosts.matrix[RUNS, row] = 0.0
                continue
            host = unquote(state.hosts.names[row])
            seen = float(state.host_column("seen")[row])
            # In the latter half of the silence: what was refused at its beginning may have been on the way before it.
            refused = 2.0 * state.host_column("refused")[row] > seen + now
            events += self._silent(
                name,
                HOST_SILENT,
                f"host {host}",
                now,
                seen=seen,
                counted=length[at],
                surprise=surprise[at],
                usual=usual[at],
                delay=state.host_column("refused_delay")[row] if refused else 0.0,
            )
            if self._exhausted(name, now):
                events.append(self._give_up(name, now))
                state.hosts.matrix[RUNS, row] = 0.0
        return events

    def _usual_end(self, name: str, row: int, now: int, usual: float) -> EpisodeEvent:
        """An end without surprise, which is evidence only where many hosts, of whatever shards, end at once."""
        nan, host = math.nan, unquote(self._state.hosts.names[row])
        seen = int(self._state.host_column("seen")[row])
        reason = f"{reasons.silent(f'host {host}', (now - seen) / 1000, usual)}, {HOSTS_END}"
        episode = Episode(
            name, USUAL_END, "silence", seen, 0.0, 0.0, 0.0, float(usual), nan, nan, "reports/window", reason,
            over=now + 1, part=USUAL_END,
        )  # fmt: skip
        return self._state.episodes.begin(episode, now)

    def _due(self, now: int) -> Bools:
        """Of which hosts a metric should have come since the last one, `(n_hosts,)`; of the others it is only the log that is missing."""
        hosts, known = len(self._state.hosts), self._state.univariate.series  # metrics of this window may be new
        owner, seen = self._state.gauges.owner[0, :known], self._state.gauges.matrix[col.SEEN, :known]
        last, interval = np.zeros(hosts), np.full(hosts, np.inf)
        np.maximum.at(last, owner, seen)
        newest = np.flatnonzero(seen == last[owner])
        np.minimum.at(interval, owner[newest], self._state.univariate.hot["interval"][0, newest])
        out: Bools = np.isinf(interval) | (now - last >= 1000 * (interval + self._p.window_seconds))
        return out  # a host without metrics always is

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
        # no host is there, or none has ever logged
        if not present.any() or not (logged.any() or state.host_column("log_seen").any()):
            return np.zeros(len(state.hosts), dtype=bool), []
        windows, at, known = (state.host_column(name) for name in ("windows", "log_window", "log_trials"))
        there, missing = np.flatnonzero(logged & present), present & ~logged & (state.host_column("log_seen") > 0)
        gap = np.where(known[there] > 0, windows[there] - at[there] - 1, 0.0)
        passed, events = now - state.host_column("log_seen"), []
        if len(there):  # reported gaps are among the longest ones
            longest = np.sort(np.vstack([self._longest_gaps(there, passed[there]), gap]), axis=0)[:0:-1]
            state.hosts.matrix[LOG_GAPS, there] = longest
        for row in self._silent_hosts(LOG_SILENT):
            if logged[row] and present[row]:
                gap[np.searchsorted(there, row)] = 0.0  # an outage is not learnt as a usual absence
                events.append(state.episodes.close(log_of(unquote(state.hosts.names[row])), now))
        if len(there):
            self._learn_logs(there, gap, passed[there])
            state.host_column("log_seen")[there] = now
            at[there] = windows[there]
        if missing.any():
            unsure = np.union1d(self._planned_logs(missing), self._limits.uncertain_rows(TEMPLATES)).astype(np.int64)
            at[unsure[missing[unsure]]] += 1.0  # the window does not count
            missing[unsure] = False
        usual = missing & self._log_hours.now()
        at[usual] += 1.0  # nor does this one, but nothing is observed
        rows = np.flatnonzero(missing & ~usual)
        if not len(rows):
            return missing, events
        trials, begun, asked, stayed = state.hosts.matrix[LOG_RUNS, rows]
        surprise = run_length.run_surprise(trials, begun, asked, stayed, windows[rows] - at[rows])
        # Of a log that was given up nothing is known until it is back.
        missing[rows] = (surprise >= NOT_OBSERVED_NATS) | (trials == 0)
        surprise -= self._control.labels.demanded_nats("hosts", LOG_SILENT, rows, prefix="logs/", suffix="//")
        longer = windows[rows] - at[rows] > USUAL_GAPS * self._longest_gaps(rows, passed[rows])[-1]
        found = np.flatnonzero((surprise >= self._p.silence_nats) & (trials >= LEAST_REPORTS) & longer).tolist()
        if not found:
            return missing, events
        share = run_length.share_outside(trials, begun, asked, stayed)
        for i in found:
            row = int(rows[i])
            host = unquote(state.hosts.names[row])
            name, seen = log_of(host), state.host_column("log_seen")[row]
            counted = windows[row] - at[row]
            events += self._silent(
                name,
                LOG_SILENT,
                f"log of {host}",
                now,
                seen=seen,
                counted=counted,
                surprise=surprise[i],
                usual=share[i],
            )
            if self._exhausted(name, now):
                events.append(self._give_up(name, now))
                state.hosts.matrix[LOG_RUNS, row] = 0.0
        return missing, events

    def _planned_logs(self, missing: Bools) -> Ints:
        """Rows of the hosts whose logs are `missing`, `(n_hosts,)`, and planned: as such, or all that they are of."""
        if not self._control.has_planned:
            return np.zeros(0, dtype=np.int64)
        names = [log_of(unquote(self._state.hosts.names[row])) for row in np.flatnonzero(missing).tolist()]
        as_such = np.flatnonzero(missing)[self._control.find_planned(names, [None] * len(names))]
        planned, owner, hosts = (
            self._control.planned_rows("counts"),
            self._state.counts.owner[0],
            len(self._state.hosts),
        )
        some = np.bincount(owner[planned], minlength=hosts)
        return np.union1d(as_such, np.flatnonzero((some > 0) & (some == np.bincount(owner, minlength=hosts))))

    def metrics(self, window: ShardWindow, present: Bools) -> list[EpisodeEvent]:
        """Report metrics that fell silent though their host did not; after the metrics of the window were learnt."""
        state, now = self._state, window.end
        if len(window.gauges) == len(state.gauges):
            return []
        owner, windows = state.gauges.owner[0], state.hosts.storage[0][WINDOWS]
        planned = self._control.planned_rows("gauges")
        unsure = self._limits.uncertain_rows(METRICS)
        if len(unsure):
            absent = windows[owner] > state.gauges.matrix[col.HOST_WINDOW]
            planned = np.union1d(planned, np.flatnonzero(absent & np.isin(owner, unsure)))
        if len(planned):
            state.gauges.matrix[col.HOST_WINDOW, planned] += present[owner[planned]]  # the window does not count
        rows, numbers = np.empty(len(state.gauges), np.int64), state.gauges.storage
        rows = rows[: find_absent_metrics(numbers[0], windows, numbers[1], present, LEAST_REPORTS, rows)]
        rows = np.setdiff1d(rows, planned) if len(planned) else rows
        if not len(rows):
            return []
        chains = state.gauges.matrix[col.PRESENT, rows]
        length = windows[owner[rows]] - state.gauges.matrix[col.HOST_WINDOW, rows]
        surprise = run_length.run_surprise(chains[0], chains[1], chains[2], chains[3], length)
        surprise -= self._control.labels.demanded_nats("gauges", METRIC_SILENT, rows)
        found = np.flatnonzero(surprise >= self._p.silence_nats)
        if not len(found):
            return []
        names = [state.gauges.names[row] for row in rows[found].tolist()]
        # Churn is looked at in windows in which a silence of the service is found first.
        places = state.gauges.owner[1, rows[found]].tolist()
        asked = {place for place, name in zip(places, names, strict=True) if name not in state.episodes.open}
        usual = run_length.share_outside(*chains[:, found]).tolist()
        patience = self._patience()[owner[rows[found]]].tolist()
        last = state.gauges.matrix[col.SEEN, rows[found]].tolist()
        events: list[EpisodeEvent] = []
        for i, (row, nats) in enumerate(zip(rows[found].tolist(), surprise[found].tolist(), strict=True)):
            name, place, seen = names[i], places[i], last[i]
            why = ENDS_OFTEN if place in asked and self._churn.is_usual_end(place, seen, now) else GIVEN_UP
            if why == GIVEN_UP:
                events += self._silent(name, METRIC_SILENT, "", now, seen=seen, surprise=nats, usual=usual[i])
                episode = state.episodes.get(name)
                if episode is None or not (episode.expected or now - episode.start >= patience[i]):
                    continue
            if name in state.episodes.open:
                events.append(self._give_up(name, now, why))
            state.gauges.matrix[col.PRESENT, row] = 0.0
        return events

    def returned_metrics(self, window: ShardWindow) -> list[EpisodeEvent]:
        """Close the episodes of metrics that were silent and are present in a window, before these are learnt."""
        state, now, events = self._state, window.end, []
        for name in sorted(n for n, e in state.episodes.open.items() if e.cause == METRIC_SILENT):
            at = bisect_left(window.rows.series, name, 0, window.metrics)
            if at < window.metrics and window.rows.series[at] == name:
                row = int(window.gauges[at])
                windows = state.host_column("windows")[state.gauges.owner[0, row]]
                state.gauges.matrix[col.HOST_WINDOW, row] = windows - 1  # an outage is not learnt as a usual absence
                # nor is it a time in which a value repeated: a run begins now
                state.gauges.matrix[col.REPEAT_SECONDS, row] = (state.gauges.matrix[col.SEEN, row] - now) / 1000
                events.append(state.episodes.close(name, now))
        return events

    def _silent(
        self,
        name: str,
        cause: str,
        what: str,
        now: int,
        *,
        seen: float,
        surprise: float,
        usual: float,
        counted: float = math.inf,
        delay: float = 0.0,
    ) -> list[EpisodeEvent]:
        """An episode about what was seen last at `seen`, epoch ms, and whose absence counts in so many windows."""
        episode = self._state.episodes.get(name)
        seconds = (now - seen) / 1000
        begun = now - counted * self._window
        start = begun if begun - seen >= HOUR_MS else seen  # after hours in which it was usually away
        opens = episode is None
        if episode is None:
            nan = math.nan
            episode = Episode(
                name, cause, "silence", int(start), float(surprise), float(surprise), 0.0, float(usual), nan, nan, "reports/window",
                "", part="silence",
            )  # fmt: skip
        elif episode.cause != cause:  # the next window opens an episode about the silence
            self._state.end_run_of(episode)
            return [self._state.episodes.close(name, now)]
        if cause == METRIC_SILENT:
            episode.silent_seconds = seconds  # there may be thousands, so their sentences are made when they are needed
        else:
            episode.reason = reasons.silent(what, seconds, episode.typical, float(delay))
        if opens:
            return [self._state.episodes.begin(episode, now)]
        episode.score = episode.evidence = max(episode.score, float(surprise))
        return [episode.event("update", now)] if episode.update_due(now) else []

    def _exhausted(self, name: str, now: int) -> bool:
        episode = self._state.episodes.get(name)
        if episode is None:
            return False
        patience = self._patience(np.array([self._state.hosts.index[host_of(name)]]))
        return episode.expected or bool(now - episode.start >= patience[0])

    def _patience(self, hosts: Ints | slice = slice(None)) -> Floats:
        """How long a silence lasts before it is given up, by hosts, rows of the table, ms, `(n,)`."""
        return self._state.silence_patience(HOUR_MS * self._p.silence_patience_hours, self._p, hosts)

    def _give_up(self, name: str, now: int, why: str = GIVEN_UP) -> EpisodeEvent:
        episode = self._state.episodes.open[name]
        self._state.end_run_of(episode)  # it may be about values
        word = "expected" if episode.expected else why
        episode.kind = "change"
        episode.add_reason(f", {word}")
        return self._state.episodes.close(name, now)


def log_of(host: str) -> str:
    """The series of all lines of a host."""
    return build(Series("logs", host))
