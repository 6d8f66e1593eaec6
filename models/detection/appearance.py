"""What appears for the first time: hosts, services, metrics, templates.

A new host is one episode, not one for each of its series; so is a new service. While a shard, host or service is younger
than the grace period, nothing new in it is reported, because everything there is new.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np

from models.core.parameters import DetectorParameters
from models.core.series import Series, build, parse, quote
from models.core.windows import Windows
from models.detection import reasons
from models.detection.churn import Churn, HostChurn
from models.detection.compiled_metrics import learn_contexts
from models.detection.episodes import APPEARED, Episode
from models.detection.newcomers import Newcomers
from models.detection.shard_state import (
    DAY_MS,
    NewTemplate,
    ShardState,
    ShardWindow,
    context_name,
    context_of,
    is_template,
)
from models.records.records import EpisodeEvent
from models.stats import gamma_poisson as poisson
from models.stats.pitman_yor import new_surprise, return_surprise

TRIAL_MINUTES = 10.0


class Appearance:
    """Registers new series, and reports those that are improbable given what each service has shown so far."""

    def __init__(
        self, state: ShardState, p: DetectorParameters, newcomers: Newcomers, churn: Churn, hosts: HostChurn
    ) -> None:
        self._state, self._p, self._newcomers, self._churn, self._host_churn = state, p, newcomers, churn, hosts
        self._grace = 60_000 * p.grace_minutes
        self._new_hosts: dict[str, frozenset[str]] = {}  # of those that are new in this window: services with metrics
        self._alike: Counter[frozenset[str]] = Counter()  # how many of them have the same services

    def register(self, missing: list[int], now: int, rows: Windows) -> list[EpisodeEvent]:
        """Give unknown series their rows in the tables; `missing` are their places in `rows`. Answers what is reported."""
        events: list[EpisodeEvent] = []
        metrics = rows.metrics
        together = Counter(context_of(rows.series[i]) for i in missing if i < metrics)
        parsed = [parse(rows.series[i]) for i in missing]
        self._find_new_hosts(parsed, now)
        for i, series in zip(missing, parsed, strict=True):
            name = rows.series[i]
            events += self._host(series, now)
            events += self._context(series, now)
            events += self._series(name, series, now, together[context_of(name)])
            if series.kind == "template" and rows.template[i]:
                self._state.texts.setdefault(series.template_id, reasons.short(rows.template[i]))
        self._state.renamed |= bool(missing)
        return events

    def _find_new_hosts(self, missing: Iterable[Series], now: int) -> None:
        """Find the services with metrics of hosts that are not known yet, and how many hosts have the same, where new ones are reported."""
        found: dict[str, set[str]] = {}
        for series in missing if now - self._state.first >= self._grace else ():
            if quote(series.host) not in self._state.hosts.index:
                found.setdefault(series.host, set()).update([series.service] if series.metric else ())
        self._new_hosts = {host: frozenset(services) for host, services in found.items()}
        self._alike = Counter(self._new_hosts.values())

    def _host(self, series: Series, now: int) -> list[EpisodeEvent]:
        state, key = self._state, quote(series.host)
        if key in state.hosts.index:
            return []
        hosts, lived = len(state.hosts), float(state.host_column("windows").sum())
        state.hosts.add(key, first=now, seen=now, step=state.steps - 1)
        if now - state.first < self._grace:
            return []
        services = self._new_hosts[series.host]
        if self._host_churn.is_usual_beginning(services, self._alike[services], now):
            return []
        score = new_surprise(max(lived, state.steps), hosts)
        return [self._announce(build(Series("host", series.host)), f"new host {series.host} first seen", score, now)]

    def _context(self, series: Series, now: int) -> list[EpisodeEvent]:
        state, key = self._state, context_name(series)
        if key in state.contexts.index:
            return []
        host = state.hosts.index[quote(series.host)]
        siblings = int((state.contexts.owner[0] == host).sum())
        state.contexts.add(key, [host], first=now, seen=now)
        if not series.service or now - state.host_column("first")[host] < self._grace:
            return []
        score = new_surprise(float(state.host_column("windows")[host]), siblings)
        reason = f"new service {series.service} on {series.host} first seen"
        return [self._announce(build(Series("service", series.host, series.service)), reason, score, now)]

    def _series(self, name: str, series: Series, now: int, together: int) -> list[EpisodeEvent]:
        """Add a series; of its service of a host so many metrics are new in the window."""
        state = self._state
        host, context = state.hosts.index[quote(series.host)], state.contexts.index[context_name(series)]
        before = now - 1000 * self._p.window_seconds
        age = now - state.context_column("first")[context]
        if series.kind in ("gauge", "counter"):
            windows = float(state.host_column("windows")[host])
            nan = float("nan")
            state.gauges.add(name, (host, context), seen=before, host_window=windows, total=nan)
            score = self._surprise(context, "rows", "metrics")
            if age < self._grace or score < self._p.new_series_nats:
                return []
            if self._churn.is_usual_beginning(context, together, now):
                return []
            return [self._announce(name, f"new metric {reasons.subject(series)} on {series.host}", score, now)]
        owners = host, context, is_template(name)
        # Windows since its service began, of a day at most: more would hide for days that lines end which are regular since yesterday.
        absent = {"zero_longest": min(age, DAY_MS) / (1000 * self._p.window_seconds)}
        if series.kind != "template":
            state.counts.add(
                name, owners, **{"seen": before, "last_line": now, **self._empty_so_far(context), **absent}
            )
            return []
        state.counts.add(name, owners, seen=before, last_line=now, rise_windows=absent["zero_longest"], **absent)
        score = self._surprise(context, "lines", "templates")
        needed = self._newcomers.needed_minutes(self._p.grace_minutes)
        if age >= (self._grace if needed is None else 60_000 * needed[host]):
            state.trials[name] = NewTemplate(name, score, now)
        return []

    def _empty_so_far(self, context: int) -> dict[str, float]:
        """What is known of a log level before its first line: as long as other lines of the service came, none of it did."""
        counts = self._state.counts
        known = np.flatnonzero((counts.owner[1] == context) & (counts.owner[2] == 0))
        if not len(known):
            return {}
        oldest = known[np.argmax(counts.matrix[poisson.ROWS, known])]
        return poisson.state_without_lines(counts.matrix[:, oldest], self._p)

    def _surprise(self, context: int, things: str, kinds: str) -> float:
        """Surprise of another metric or template (`kinds`) after so many rows or lines (`things`), nats; counts it."""
        seen, known = self._state.context_column(things), self._state.context_column(kinds)
        score = new_surprise(float(seen[context]), float(known[context]))
        known[context] += 1
        return score

    def _announce(self, name: str, reason: str, score: float, now: int) -> EpisodeEvent:
        nan, kind = float("nan"), parse(name).kind
        what = kind if kind in ("host", "service") else "metric"
        start = now - int(1000 * self._p.window_seconds)
        episode = Episode(
            name, APPEARED, "change", start, score, score, nan, nan, nan, nan, "", reason,
            over=now + 1, part=f"new {what}",
        )  # fmt: skip
        return self._state.episodes.begin(episode, now)

    def learn(self, window: ShardWindow) -> None:
        """Learn how many rows of metrics and lines of logs came from each service; older numbers fade."""
        state, (contexts, _) = self._state, self._state.contexts.storage
        of_gauges, of_counts = state.gauges.owner[1][window.gauges], state.counts.owner[1][window.counts]
        templates = bisect_left(window.rows.series, "template/") if len(of_counts) else window.metrics
        lines = window.rows.n[templates:].astype(np.float64)
        half_life = 3600.0 * self._p.context_half_life_hours
        learn_contexts(contexts, of_gauges, of_counts, lines, float(window.end), half_life, len(state.contexts))

    def new_templates(self, now: int, rows: Windows, left_out: Callable[[str], bool]) -> list[EpisodeEvent]:
        """Report the templates on trial that have come back often enough to be new and not only rare.

        `left_out` says which series have no trial in this window.
        """
        events = []
        for trial in [trial for trial in self._state.trials.values() if not left_out(trial.series)]:
            at = bisect_left(rows.series, trial.series)
            here = at < len(rows) and rows.series[at] == trial.series
            if now > trial.first:
                trial.windows += 1
                trial.returns += here
            evidence = trial.surprise + return_surprise(trial.returns, max(trial.windows, 1), self._exposure(trial))
            if here and evidence >= self._p.new_template_nats and trial.series not in self._state.episodes:
                events.append(self._new(trial, evidence, now, rows, at))
                del self._state.trials[trial.series]
            elif now - trial.first >= 60_000 * TRIAL_MINUTES:
                del self._state.trials[trial.series]
        return events

    def _exposure(self, trial: NewTemplate) -> float:
        """Number of windows in which the template could have come before its first line."""
        context = self._state.counts.owner[1][self._state.counts.index[trial.series]]
        age = trial.first - float(self._state.context_column("first")[context])
        return age / (1000 * self._p.window_seconds)

    def _new(self, trial: NewTemplate, evidence: float, now: int, rows: Windows, at: int) -> EpisodeEvent:
        series, template, sample = parse(trial.series), rows.template[at], rows.sample[at]
        per_minute = float(rows.n[at]) * 60 / self._p.window_seconds
        start = trial.first - int(1000 * self._p.window_seconds)
        episode = Episode(
            trial.series, APPEARED, "new", start, evidence, evidence, per_minute, 0.0, 0.0, 0.0,
            "lines/min", reasons.new_template(series, template), template, sample,
            over=now + 1, part="new template",
        )  # fmt: skip
        return self._state.episodes.begin(episode, now)
