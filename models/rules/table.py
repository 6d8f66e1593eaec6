"""What rules say of the rows of a table: which rules are about which rows, and what the ones that hold now come to.

Names are resolved once, when a row is added: a window asks only which rules hold. Where several rules that hold say a
number or a direction of one series, the last one in the file counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.core.arrays import Bools, Floats, Ints
from models.rules.rule import FLAGS, Rule


@dataclass(frozen=True)
class Applied:
    """What holds of each row now; every array is `(n,)`.

    `muted`, `planned`, `dont_learn` are as the keys of rules; `up` and `down` say whether a deviation that way may open an episode;
    `least` and `least_relative` are distances. `alarm_chance`, `half_life_days` and `warm_up_minutes` are NaN where no rule
    says any.
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
    """The rules against the rows of one table, whose names only grow until the table is made anew."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self._names: list[str] | None = None
        self._masks = np.zeros((len(rules), 0), dtype=bool)
        self._applied: tuple[tuple[bool, ...], Applied] | None = None

    def masks(self, names: list[str], texts: dict[str, str], prefix: str = "") -> Bools:
        """Which rules are about which rows, `(rules, n)`. `names` with `prefix` are series, `texts` of templates by their ids."""
        if names is not self._names:  # a table that has forgotten rows has another list
            self._names, self._masks = names, np.zeros((len(self._rules), 0), dtype=bool)
        known = self._masks.shape[1]
        if known < len(names):
            fresh = np.zeros((len(self._rules), len(names) - known), dtype=bool)
            for at, name in enumerate(names[known:]):
                series = prefix + name
                text = texts.get(series.rsplit("/", 1)[1]) if series.startswith("template/") else None
                fresh[:, at] = [rule.selector.matches(series, text) for rule in self._rules]
            self._masks, self._applied = np.concatenate([self._masks, fresh], axis=1), None
        elif known > len(names):
            self._masks, self._applied = self._masks[:, : len(names)], None
        return self._masks

    def applied(self, masks: Bools, holding: tuple[bool, ...]) -> Applied:
        """What the rules that hold come to. The same object as long as neither rows nor rules that hold change."""
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
            for name, value in rule.does.items():
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


def deviates(way: Floats, typical: Floats, per_unit: float, applied: Applied, rows: Ints) -> Bools:
    """Which values are far enough from what is typical, in a direction that counts, `(n,)`; `rows` are theirs in the table.

    `way` is how far, upwards; `per_unit` is what one is in the unit of `least_deviation`.
    """
    size = np.abs(way)
    allowed: Bools = np.where(way < 0, applied.down[rows], applied.up[rows])
    allowed &= size * per_unit >= applied.least[rows]
    allowed &= size >= applied.least_relative[rows] * np.abs(typical)
    return allowed
