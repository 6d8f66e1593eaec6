"""What is known of the log lines of each service: what `detect` publishes for the lane in real time, to which a line of something else is news.

A service has a bound where something new would be news: nothing new has come from it for most of its life, and the surprise of a new
template (`models.stats.pitman_yor`) is half of what reports one. So with something new a service loses its bound for as long. What was
written last is memory of the worker, as in `models.detection.alarm_bounds`.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from models.core.arrays import Bools, Floats
from models.core.parameters import DetectorParameters
from models.detection.control import Control
from models.detection.shard_state import ShardState, ShardWindow, is_template
from models.records.records import Bound
from models.stats import gamma_poisson as poisson
from models.stats.pitman_yor import new_surprise
from models.templates.tokens import PLACE

SURPRISE_SHARE = 0.5  # of `new_template_nats`
QUIET_SHARE = 0.75  # of a service's life in which nothing new has come, or
LEAST_QUIET_GRACES = 4.0  # at least, in times of grace
MOST_QUIET_MS = 7 * 86_400_000  # and that long is enough
LOOK_MS = 60_000  # how often services are looked at that have nothing new
AGAIN_MS = 3_600_000  # how often a bound is written that stays
AT_ONCE = 200  # services that are written in a window at most
MOST_KNOWN = 2_000  # templates of a service
MOST_PATTERN_BYTES = 65_536  # of its patterns


class LineBounds:
    """Bounds of the log lines of a shard's services, of which those are answered that have changed."""

    def __init__(self, state: ShardState, p: DetectorParameters, control: Control) -> None:
        self._state, self._p, self._control = state, p, control
        self._written: dict[str, int] = {}  # when, epoch ms, by context
        self._looked, self._series = 0, 0  # when, and how many count series there were

    def step(self, window: ShardWindow) -> list[Bound]:
        """The bounds that have changed with a window, which has been learnt."""
        now, series = window.end, len(self._state.counts)
        if series == self._series and now - self._looked < LOOK_MS:
            return []
        self._looked, self._series = now, series
        names, surprise = self._state.contexts.names, self._surprises()
        has = {names[row]: row for row in np.flatnonzero(self._has_bound(surprise, now)).tolist()}
        found = [Bound(series=f"template/{name}", window_end=now) for name in self._written if name not in has]
        self._written = {name: at for name, at in self._written.items() if name in has}
        due = sorted((at, name) for name in has if now - (at := self._written.get(name, 0)) >= AGAIN_MS)[:AT_ONCE]
        rows = sorted(has[name] for _, name in due)
        for row, known in zip(rows, self._known(rows), strict=True):
            found.append(self._bound(names[row], known, now, float(surprise[row])))
            self._written[names[row]] = now
        return found

    def _bound(self, context: str, known: list[str], now: int, surprise: float) -> Bound:
        """What is known of a service, by the names of its series; that there is no bound, where that is too much."""
        own, series = self._state.templates.get(context), f"template/{context}"
        every = {one for both in own.merger.patterns for one in both} if own is not None else set()
        patterns = [one for one in every if PLACE in one]
        ids = {name.rsplit("/", 1)[1] for name in known if is_template(name)}
        if len(ids) > MOST_KNOWN or sum(len(one.encode()) for one in patterns) > MOST_PATTERN_BYTES:
            return Bound(series=series, window_end=now)
        return Bound(
            series=series,
            window_end=now,
            chance=float(np.exp(-surprise)),
            known=sorted(ids),
            levels=sorted({name.split("/")[3] for name in known}),
            patterns=sorted(patterns),
        )

    def _known(self, rows: list[int]) -> list[list[str]]:
        """The names of the count series of each of these contexts."""
        names, owners = self._state.counts.names, self._state.counts.owner[1]
        found: defaultdict[int, list[str]] = defaultdict(list)
        for at in np.flatnonzero(np.isin(owners, rows)).tolist():
            found[int(owners[at])].append(names[at])
        return [found[row] for row in rows]

    def _surprises(self) -> Floats:
        """Surprise of a new template by context, nats, `(n,)`."""
        lines, kinds = self._state.context_column("lines"), self._state.context_column("templates")
        return np.array(list(map(new_surprise, lines.tolist(), kinds.tolist())), dtype=np.float64)

    def _has_bound(self, surprise: Floats, now: int) -> Bools:
        """Which contexts have a bound, `(n,)`: none of which something is muted or planned."""
        counts = self._state.counts
        quiet = np.full(len(surprise), np.inf)  # the age of what is newest, ms
        np.minimum.at(quiet, counts.owner[1], 1000.0 * self._p.window_seconds * counts.matrix[poisson.ROWS])
        life = now - self._state.context_column("first")
        has: Bools = quiet >= np.clip(
            QUIET_SHARE * life, LEAST_QUIET_GRACES * 60_000 * self._p.grace_minutes, MOST_QUIET_MS
        )
        has &= (surprise >= SURPRISE_SHARE * self._p.new_template_nats) & np.isfinite(quiet)
        applied = self._control.applied_to("counts")
        if applied is not None:
            has[counts.owner[1, np.flatnonzero(applied.muted | applied.planned)]] = False
        return has
