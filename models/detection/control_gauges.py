"""What rules do to metrics: how the model learns each, what is not learnt, and which windows count as loud."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from models.core.arrays import Array, Bools, Floats, Ints
from models.core.parameters import LONGEST_SECONDS, DetectorParameters
from models.detection import metric_rows as of
from models.detection.control import Control
from models.rules.table import Applied, deviates
from models.univariate.model import Univariate
from models.univariate.parameters import UnivariateParameters

TAUGHT = [of.NEGATIVE, of.REPEAT_SECONDS, of.REPEAT_EVIDENCE, *range(of.REPEAT.start, of.REPEAT.stop)]


@dataclass(frozen=True)
class Lesson:
    """What is to be put back after a window: the model of the series at `rows`, and their columns `TAUGHT`.

    `chosen` are their places among the rows of the window.
    """

    chosen: Ints
    rows: Ints
    model: Mapping[str, Array]
    columns: Floats


class GaugeRules:
    """Follows the rules for the metrics of a shard."""

    def __init__(
        self, control: Control, model: Univariate, settings: UnivariateParameters, p: DetectorParameters
    ) -> None:
        self._control, self._model, self._settings, self._p = control, model, settings, p
        self._followed: Applied | None = None

    def follow(self) -> None:
        """Let the model learn each series as the rules say that hold now."""
        applied = self._control.of("gauges")
        if applied is not self._followed:
            self._followed = applied
            self._model.overrides = {} if applied is None else own_parameters(applied, self._settings)

    def lesson(self, rows: Ints, columns: Floats) -> Lesson | None:
        """What is known of those of `rows`, with their columns in the table, that are not to be learnt; None if all are."""
        if self._followed is None or not (held := self._followed.dont_learn[rows]).any():
            return None
        chosen = np.flatnonzero(held)
        copied = self._model.copied(rows[chosen])
        return Lesson(chosen, rows[chosen], copied, columns[np.ix_(TAUGHT, chosen)])

    def unlearn(self, lesson: Lesson | None, columns: Floats) -> None:
        """Put it back, the columns in place."""
        if lesson is not None:
            self._model.put_back(lesson.rows, lesson.model)
            columns[np.ix_(TAUGHT, lesson.chosen)] = lesson.columns

    def weigh(self, base: Floats, stuck: Floats, way: Floats, typical: Floats, rows: Ints) -> None:
        """Take from `base` and `stuck`, in place, what is not counted; all `(n,)`, of series at `rows`.

        `way` is how far values are from what is typical, upwards.
        """
        if self._control.labels.any:
            stuck -= self._control.labels.demand("gauges", "stuck", rows)
        asked = self.asked(way, typical, rows)
        counted: Bools = np.isfinite(asked)
        base[~counted & ~np.isnan(base)] = 0.0
        base -= np.where(counted, asked, 0.0)

    def asked(self, way: Floats, typical: Floats, rows: Ints) -> Floats:
        """Nats that labels and rules ask for beside what is usual, before a deviation counts, infinite where none does; `(n,)`."""
        asked = np.zeros(len(rows))
        if self._control.labels.any:
            demand, size = self._control.labels.demand, np.abs(way)
            down, up = (demand("gauges", f"strange {side}", rows, size) for side in ("down", "up"))
            asked = np.where(way < 0, down, up)
        applied = self._followed
        if applied is None:
            return asked
        seconds = min(self._p.window_seconds, LONGEST_SECONDS)
        asked = asked + np.nan_to_num(-np.log(applied.alarm_chance[rows] * seconds / 3600.0) - self._p.alert_nats)
        return np.where(deviates(way, typical, 1.0, applied, rows), asked, np.inf)


def own_parameters(applied: Applied, settings: UnivariateParameters) -> dict[str, Floats]:
    """Parameters of each series, `(series,)`: those of the rules, else those of all. The healthy state's memory goes along."""
    days, minutes = applied.half_life_days, applied.warm_up_minutes
    found: dict[str, Floats] = {}
    if not np.isnan(minutes).all():
        found["warm_up_minutes"] = np.where(np.isnan(minutes), settings.warm_up_minutes, minutes)
    if not np.isnan(days).all():
        level, well = settings.level_half_life_days, settings.robust_half_life_days
        found["level_half_life_days"] = np.where(np.isnan(days), level, days)
        found["robust_half_life_days"] = np.where(np.isnan(days), well, days * well / level)
    return found
