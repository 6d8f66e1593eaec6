"""Rules of the log as if they had been known when they were true.

A record is about all time from when its window begins, or from its `since` where that is earlier, until a later record of that name.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from models.records.records import RuleRecord
from models.rules.route import Route
from models.rules.rule import Rule
from models.rules.rule_log import (
    OnRefused,
    Placed,
    RuleLog,
    keys_of,
    milliseconds_of,
    moment,
    record_of,
    rule_from,
    take_all,
)


@dataclass(frozen=True)
class Piece:
    """What holds of a name from `begin` to before `end`, epoch ms: the keys of a rule in the log, or a rule of the configuration.

    Pieces are in the order of their places.
    """

    begin: float
    end: float
    place: tuple[int, str]
    keys: Mapping[str, Any] | None = None
    pinned: Rule | None = None

    def rule(self) -> Rule | None:
        """As a rule of a configuration; None where nothing is left of it, and of a route, which is about no result."""
        rule = self.pinned if self.pinned is not None else rule_from(self.keys or {}, int(self.begin))
        if isinstance(rule, Route):
            return None
        if rule.reset_ms is not None:
            return rule if self.begin <= rule.reset_ms < self.end else None
        begin, end = max(self.begin, rule.span[0]), min(self.end, rule.span[1])
        if begin >= end:
            return None
        since, until = (None if math.isinf(at) else moment(at) for at in (begin, end))
        return replace(rule, since=since, until=until)


def rules_known_beforehand(
    pinned: Sequence[Rule],
    records: Iterable[Placed],
    window_ms: int,
    on_refused: OnRefused = lambda offset, reason: None,
) -> tuple[Rule, ...]:
    """The rules of a configuration that knows what the log says.

    Parameters
    ----------
    pinned
        Rules of the configuration so far.
    records
        Those of the topic `rules`, in the order of their offsets.
    window_ms
        Length of a window.
    on_refused
        Called for a record that takes no effect.

    Returns
    -------
    tuple of Rule
        Rules with beginnings and ends, in the order in which they count.
    """
    log = RuleLog(pinned)
    # One without a name is never replaced.
    born = {
        rule.name or f"/{number}": Piece(-math.inf, math.inf, (number, ""), pinned=rule)
        for number, rule in enumerate(pinned)
    }
    pieces = {name: [piece] for name, piece in born.items()}
    for _, since, name, text in take_all(log, records, window_ms, on_refused):
        record = None if text is None else record_of(text)
        begin = since if record is None else true_since(record, since)
        before = [replace(one, end=min(one.end, begin)) for one in pieces.get(name, ())]
        now = [] if record is None or record.removed else [Piece(begin, math.inf, (len(pinned), name), keys_of(record))]
        if record is None and name in born:  # as if there were no record
            now = [replace(born[name], begin=since)]
        pieces[name] = [one for one in before if one.begin < one.end] + now
    ordered = sorted((one for own in pieces.values() for one in own), key=lambda one: (one.place, one.begin))
    return tuple(found for one in ordered if (found := one.rule()) is not None)


def true_since(record: RuleRecord, appended: int) -> float:
    """Since when a record that was appended in a window that begins then is true, epoch ms."""
    given = record.reset if record.reset is not None else record.since
    return appended if given is None else min(appended, milliseconds_of(given))
