"""Control over learning and alarms: the rules and labels of people, applied to the series of a shard.

Which rules hold follows from the window's end alone, and what is muted or labelled is part of the state, so a replay applies
the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from models.core.arrays import Bools, Floats, Ints
from models.core.parameters import DetectorParameters
from models.core.series import parse
from models.core.windows import Scores, Windows
from models.detection import reasons
from models.detection.controlled_parameters import ControlledParameters
from models.detection.labels import Labels
from models.detection.logged_rules import LoggedRules, RefusedRule
from models.detection.shard_state import ShardState
from models.records.records import EpisodeEvent, Overflow
from models.rules.rule import Rule, SeriesParts
from models.rules.table import Applied, RuleTable

MUTED, PLANNED = "muted", "planned"
MOST_ASKED = 10_000  # names of which it is remembered whether they are muted
PREFIXES = {"gauges": "", "counts": "", "hosts": "host/", "contexts": "service/"}


class Control:
    """Applies rules and labels to the series of a shard."""

    def __init__(self, state: ShardState, p: DetectorParameters, shard: int = 0) -> None:
        self._state, self._p, self._shard = state, p, shard
        self.labels = Labels(state, p)
        own = p if isinstance(p, ControlledParameters) else ControlledParameters()
        self._log = LoggedRules(state, own.rules, own.rules_from)
        self._rules: Sequence[Rule] = self._log.rules()
        self._tables = {name: RuleTable(self._rules) for name in PREFIXES}
        self._holding = (False,) * len(self._rules)
        self._muted: dict[str, bool] = {}  # by name, of rules that hold; and of the rows of the last window
        self._planned: dict[str, bool] = {}

    @property
    def refused(self) -> list[RefusedRule]:
        """Records of rules that could not be taken in the last window."""
        return self._log.refused

    @property
    def overflow(self) -> list[Overflow]:
        """What there was no room for in the last window: records about rules, of which all shards have the same, and series with labels."""
        return [*(self._log.overflow if self._shard == 0 else []), *self.labels.overflow]

    def take(self, now: int, rows: Windows) -> Windows:
        """Take in the rules that were appended in a window, which they are in effect in. Answers the other rows."""
        rows = self._log.take(now - int(1000 * self._p.window_seconds), now, rows)
        if self._log.changed:
            self._rules = self._log.rules()
            texts = self._state.texts
            self._tables = {name: t.with_rules(self._rules, texts, PREFIXES[name]) for name, t in self._tables.items()}
            self._holding = (False,) * len(self._rules)
            self._muted, self._planned = {}, {}
        return rows

    def advance(self, now: int, before: int) -> list[EpisodeEvent]:
        """Go on from the window that ended at `before` to the one that ends at `now`: reset the series that a rule resets.

        Answers the closing of episodes that were open on them.
        """
        if not self._rules:
            return []
        self.determine_holding(now)
        due = [r.reset_ms is not None and before and before <= r.reset_ms < now for r in self._rules]
        if not any(due):
            return []
        chosen = {name: self._masks(name)[np.array(due)].any(axis=0) for name in PREFIXES}
        return self._state.reset({name: np.flatnonzero(mask) for name, mask in chosen.items()}, now, self._p)

    def determine_holding(self, now: int) -> None:
        """Determine the rules that hold in the window that ends at `now`, epoch ms."""
        length = int(1000 * self._p.window_seconds)
        holding = tuple(rule.holds(now, length) for rule in self._rules)
        if holding != self._holding:
            self._holding = holding
            self._muted, self._planned = {}, {}

    def _masks(self, table: str) -> Bools:
        names = getattr(self._state, table).names
        return self._tables[table].masks(names, self._state.texts, PREFIXES[table])

    def applied_to(self, table: str) -> Applied | None:
        """What the rules that hold say about the rows of a table; None if no rule holds."""
        return self._tables[table].apply(self._masks(table), self._holding) if any(self._holding) else None

    def _holding_with(self, effect: str) -> list[Rule]:
        """The rules that hold and have an effect."""
        both = zip(self._rules, self._holding, strict=True)
        return [rule for rule, holds in both if holds and getattr(rule, effect)]

    def is_muted(self, name: str) -> bool:
        """Whether a rule mutes a series, host or service, which may be unknown."""
        rules = self._holding_with("mute")
        if not rules:
            return False
        found = self._muted.get(name)
        if found is None:
            if len(self._muted) >= MOST_ASKED:
                self._muted.clear()
            text = self._state.text_of(name)
            found = self._muted[name] = any(rule.selector.matches(name, text) for rule in rules)
        return found

    def is_kept_from_learning(self, table: str, row: int) -> bool:
        """Whether a rule keeps a row of a table from being learnt."""
        applied = self.applied_to(table)
        return applied is not None and bool(applied.dont_learn[row])

    def is_planned(self, name: str) -> bool:
        """Whether a count series that has a row is planned."""
        applied = self.applied_to("counts")
        return applied is not None and bool(applied.planned[self._state.counts.index[name]])

    @property
    def has_planned(self) -> bool:
        """Whether something is planned now."""
        return bool(self._holding_with("planned"))

    def find_planned(self, names: Sequence[str], texts: Sequence[str | None]) -> Bools:
        """Which series are planned, `(n,)`, by their names and the texts of their templates: they may have no place in the tables."""
        parts = SeriesParts([parse(name) for name in names], list(texts))
        out = np.zeros(len(names), dtype=bool)
        for rule in self._holding_with("planned"):
            out |= rule.selector.mask(parts)
        return out

    def planned_mask(self, rows: Windows) -> Bools | None:
        """Which rows are of planned series, `(n,)`; None if none is. Most have no place in the tables yet, or never will have one."""
        if not self.has_planned:
            return None
        names, before = rows.series.tolist(), self._planned
        new = [at for at, name in enumerate(names) if name not in before]
        texts = [reasons.short(text) if text else None for text in rows.template[new].tolist()]
        affected = self.find_planned([names[at] for at in new], texts).tolist()
        added = {names[at]: is_planned for at, is_planned in zip(new, affected, strict=True)}
        # of this window alone: senders choose the names
        self._planned = {name: added[name] if name in added else before[name] for name in names}
        found = np.fromiter(self._planned.values(), dtype=bool, count=len(names))
        return found if found.any() else None

    def planned_rows(self, table: str) -> Ints:
        """Rows of a table that are planned."""
        applied = self.applied_to(table)
        return np.zeros(0, dtype=np.int64) if applied is None else np.flatnonzero(applied.planned)

    def drop_muted(self, now: int, events: Sequence[EpisodeEvent]) -> list[EpisodeEvent]:
        """Those episode events that are not muted. An episode that began under a mute is opened after it, if it goes on."""
        unpublished = self._state.control.unpublished
        if not (unpublished or any(self._holding)):
            return list(events)
        published = [one for event in events if (one := self._unless_muted(event)) is not None]
        for name in sorted(unpublished):
            episode = self._state.episodes.get(name)
            if episode is None:
                unpublished.discard(name)
            elif not (self.is_muted(name) or episode.normal_windows or episode.over):
                unpublished.discard(name)
                published.append(episode.event("open", now))
        return published

    def _unless_muted(self, event: EpisodeEvent) -> EpisodeEvent | None:
        unpublished, name = self._state.control.unpublished, event.series
        muted, hidden = self.is_muted(name), name in unpublished
        if event.status == "open" and muted:
            unpublished.add(name)
        elif hidden and not (event.status == "update" and muted):
            unpublished.discard(name)
        if (muted and event.status != "close") or (hidden and event.status == "close"):
            return None
        return replace(event, status="open") if hidden else event


NUMBERS = ("score", "value", "typical", "lower", "upper", "health")


def add_planned_scores(scores: Scores, rows: Windows, planned: Bools, windows_per_minute: float) -> Scores:
    """Scores of all rows, of which the planned ones have a value alone; `scores` are those of the others."""
    size, kept = len(planned), np.flatnonzero(~planned)
    more = len(scores.series) - len(kept)
    at = np.concatenate([kept, size + np.arange(more)])
    columns = {name: np.full(size + more, math.nan) for name in NUMBERS}
    columns["value"][:size] = plain_values(rows, windows_per_minute)
    for name, column in columns.items():
        column[at] = getattr(scores, name)
    kind = np.full(size + more, PLANNED, dtype=object)
    kind[at] = scores.kind
    template = np.full(size + more, None, dtype=object)
    template[:size] = rows.template
    template[at] = scores.template
    series = np.concatenate([rows.series, scores.series[len(kept) :]])
    return Scores(series=series, kind=kind, template=template, **columns)


def plain_values(rows: Windows, windows_per_minute: float) -> Floats:
    """The values of rows without a model, `(n,)`: means of gauges, lines a minute; NaN for counters."""
    kinds = np.array([name.split("/", 1)[0] for name in rows.series.tolist()], dtype=object)
    found: Floats = np.where(
        kinds == "gauge", rows.mean, np.where(kinds == "counter", np.nan, rows.n * windows_per_minute)
    )
    return found.astype(np.float64)
