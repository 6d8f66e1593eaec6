"""Rules applied to the rows of a table: which rules match which rows, and what those that hold have in effect.

Names are matched once, when a row is added; each window only determines which rules hold. Where several rules that hold
give a number or a direction for one series, the last one in the file counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.core.arrays import Bools, Floats, Ints
from models.core.series import parse
from models.rules.rule import FLAGS, Rule, SeriesParts


@dataclass(frozen=True)
class Applied:
    """What the rules that hold have in effect for each row of a table; every array is `(n,)`.

    Attributes
    ----------
    muted, planned, dont_learn
        As the keys of rules.
    up, down
        Whether a deviation in this direction may open an episode.
    least, least_relative
        Smallest deviation that may open one: in the unit of `least_deviation`, and as a share of the typical value.
    alarm_chance, half_life_days, warm_up_minutes
        As the keys of rules; NaN where no rule gives one.
    """

    muted: Bools
    planned: Bools
    dont_learn: Bools
    up: Bools
    down: Bools
    least: Floats
    least_relative: Floats
    alarm_chance: Floats
    half_life_days: Floats
    warm_up_minutes: Floats


class RuleTable:
    """The rules for the rows of one table. Its list of names only grows, or is another list."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self._names: list[str] | None = None
        self._masks = np.zeros((len(rules), 0), dtype=bool)
        self._applied: tuple[tuple[bool, ...], Applied] | None = None

    def masks(self, names: list[str], texts: dict[str, str], prefix: str = "") -> Bools:
        """Which rules match which rows, `(rules, n)`. `prefix` and a name make a series; `texts` are templates by their ids."""
        if names is not self._names:  # a table that has forgotten rows has another list
            self._names, self._masks = names, np.zeros((len(self._rules), 0), dtype=bool)
        known = self._masks.shape[1]
        if known < len(names):
            fresh = match_names(self._rules, names[known:], texts, prefix)
            self._masks, self._applied = np.concatenate([self._masks, fresh], axis=1), None
        elif known > len(names):
            self._masks, self._applied = self._masks[:, : len(names)], None
        return self._masks

    def with_rules(self, rules: Sequence[Rule], texts: dict[str, str], prefix: str = "") -> RuleTable:
        """The same table under other rules. Names are matched with those only that are new; the rest is as for `masks`."""
        found = RuleTable(rules)
        if self._names is not None:
            known, before = self._names[: self._masks.shape[1]], dict(zip(self._rules, self._masks, strict=True))
            new = [rule for rule in rules if rule not in before]
            before |= zip(new, match_names(new, known, texts, prefix), strict=True)
            found._names = self._names
            found._masks = np.array([before[rule] for rule in rules], dtype=bool).reshape(len(rules), len(known))
        return found

    def apply(self, masks: Bools, holding: tuple[bool, ...]) -> Applied:
        """What those of the rules that hold have in effect: the same object until rows or holding rules change."""
        if self._applied is None or self._applied[0] != holding or len(self._applied[1].up) != masks.shape[1]:
            self._applied = holding, self._made(masks, holding)
        return self._applied[1]

    def _made(self, masks: Bools, holding: tuple[bool, ...]) -> Applied:
        size = masks.shape[1]
        flags = {name: np.zeros(size, dtype=bool) for name in FLAGS}
        up, down = np.ones(size, dtype=bool), np.ones(size, dtype=bool)
        least, least_relative = np.zeros(size), np.zeros(size)
        own = {name: np.full(size, np.nan) for name in ("alarm_chance", "half_life_days", "warm_up_minutes")}
        for rule, mask, holds in zip(self._rules, masks, holding, strict=True):
            if not holds:
                continue
            for name, value in rule.given_effects.items():
                if name in flags:
                    flags[name][mask] = True
                elif name == "direction":
                    up[mask], down[mask] = value != "down", value != "up"
                elif name == "least_deviation":
                    least[mask] = value
                elif name == "least_relative_deviation":
                    least_relative[mask] = value
                elif name in own:
                    own[name][mask] = value
        return Applied(flags["mute"], flags["planned"], flags["dont_learn"], up, down, least, least_relative, **own)


def match_names(rules: Sequence[Rule], names: Sequence[str], texts: dict[str, str], prefix: str) -> Bools:
    """Which rules match which names, `(rules, n)`, as `RuleTable.masks`."""
    series = [parse(prefix + name) for name in names]
    parts = SeriesParts(series, [texts.get(one.template_id) if one.template_id else None for one in series])
    return np.array([rule.selector.mask(parts) for rule in rules], dtype=bool).reshape(len(rules), len(names))


def own_or_usual(own: Floats, usual: Floats | float) -> Floats:
    """Numbers that rules set, `(n,)`; `usual` where none does (NaN)."""
    found: Floats = np.where(np.isnan(own), usual, own)
    return found


def deviates(way: Floats, typical: Floats, per_unit: float, applied: Applied, rows: Ints) -> Bools:
    """Which deviations are large enough, in a direction that counts, `(n,)`.

    Parameters
    ----------
    way, typical
        Deviation, positive upwards, and typical value, `(n,)`.
    per_unit
        A deviation of 1 in the unit of `least_deviation`.
    applied, rows
        What is in effect, and the rows of the series in that table.
    """
    size = np.abs(way)
    allowed: Bools = np.where(way < 0, applied.down[rows], applied.up[rows])
    allowed &= size * per_unit >= applied.least[rows]
    allowed &= size >= applied.least_relative[rows] * np.abs(typical)
    return allowed
