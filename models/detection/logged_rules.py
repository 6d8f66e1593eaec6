"""Rules of the log, as they come into a shard: rows of series `rule/SHARD/OFFSET`, in the window in which they were appended.

The name of a rule is the row's template, its record the sample, which is missing where `extract` has refused the record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from models.core.windows import Windows
from models.detection.limits import RULES, SHOWN_NAMES
from models.detection.shard_state import ShardState
from models.records.records import Overflow
from models.rules.rule import Rule
from models.rules.rule_log import HOUR_MS, RuleLog, TooManyRules

FIRST = "rule/"  # names of rules begin so


@dataclass(frozen=True)
class RefusedRule:
    """A record of the topic `rules` that could not be taken: its offset, the begin of its window (epoch ms), why, and its JSON."""

    offset: int
    since: int
    reason: str
    text: str


class LoggedRules:
    """The rules in effect in a shard, kept in its state: those of its configuration, and what the log says."""

    def __init__(self, state: ShardState, pinned: Sequence[Rule], begin: int) -> None:
        self._log = RuleLog(pinned, begin, state.rules.values())
        self._state = state
        state.rules_changed |= len(self._log.known) < len(state.rules)
        state.rules = self._log.known
        self.refused: list[RefusedRule] = []
        self.overflow: list[Overflow] = []  # of the last window
        self.changed = False

    def take(self, since: int, now: int, rows: Windows) -> Windows:
        """Take in the rules of a window from `since` to `now`, epoch ms. Answers the other rows.

        Once an hour, those that had ended by the end of the last window are forgotten: an instant of a gap since then has its effect in this
        window.
        """
        self.refused, self.overflow, self.changed = [], [], False
        if now // HOUR_MS != self._state.last // HOUR_MS:
            self.changed = self._log.forget(self._state.last)
        own = rows.span(FIRST)
        if own.start < own.stop:
            self._take(since, now, rows, own)
        self._state.rules_changed |= self.changed
        return rows.without_span(own)

    def _take(self, since: int, now: int, rows: Windows, own: slice) -> None:
        """Take in the rules that are the rows `own`."""
        before, left_out = dict(self._log.known), list[tuple[TooManyRules, str]]()
        records = (column[own].tolist() for column in (rows.series, rows.template, rows.sample))
        for series, name, text in zip(*records, strict=True):
            offset = int(series.rsplit("/", 1)[1])
            try:
                self._log.take(name or "", text, offset, since)
            except ValueError as error:
                if isinstance(error, TooManyRules):
                    left_out.append((error, series))
                self.refused.append(RefusedRule(offset, since, str(error), text or ""))
        self.changed |= self._log.known != before
        self.overflow = rule_overflow(left_out, now)

    def rules(self) -> tuple[Rule, ...]:
        """The rules in effect."""
        return self._log.rules()


def rule_overflow(left_out: Sequence[tuple[TooManyRules, str]], now: int) -> list[Overflow]:
    """The overflow of the records of a window for which there were too many, with the names of their rows."""
    if not left_out:
        return []
    last, count, names = left_out[-1][0], len(left_out), [name for _, name in left_out[:SHOWN_NAMES]]
    wanted = max(last.wanted, last.most + count)
    return [Overflow(host="", limit=RULES, window_end=now, wanted=wanted, most=last.most, left_out=count, names=names)]
