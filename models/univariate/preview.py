"""What series would score with some value in their next window: the compiled step on copies of their state, so nothing is learnt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from models.core.arrays import Array, Floats, Ints
from models.univariate import compiled_step
from models.univariate.block import HotColumns
from models.univariate.compiled_step import Known, Rows


@dataclass(frozen=True)
class Previewed:
    """What the values would score, `(n,)` each: as in `UnivariateScores`, NaN while warming up."""

    base: Floats
    typical: Floats


class Preview:
    """Scores of values that have not come, for `n` series, one row each a usual interval after the last one.

    It holds copies, so it stays true while the series learn; rarities are those of the hour of the day of the last row.

    Parameters
    ----------
    hot
        The hot columns of the series, copies, `(length, n)`.
    known
        What is known of them besides, copies.
    settings
        See `settings_vector`.
    levels
        Parameters in which series differ, `(n,)` each or `(1,)`: see `compiled_step.step`.
    """

    def __init__(
        self, hot: Mapping[str, Array], known: Known, settings: Floats, levels: tuple[Floats, Floats, Floats]
    ) -> None:
        self._hot, self._known, self._settings, self._levels = hot, known, settings, levels
        self._stepped = HotColumns(**{name: np.empty(column.shape, column.dtype) for name, column in hot.items()})
        self._now = hot["time"][0] + 1000.0 * hot["interval"][0].astype(np.float64)

    def scores(self, chosen: Ints, values: Floats) -> Previewed:
        """What the `chosen` of the series, by their places from 0, would score with these values, finite; `(len(chosen),)` each."""
        one, none = np.ones(len(values)), np.zeros(len(values))
        rows = Rows(chosen, self._now[chosen], one, np.ascontiguousarray(values), none)
        for name, column in self._hot.items():
            copy = getattr(self._stepped, name)
            if len(chosen) == column.shape[1]:
                copy[:] = column
            else:
                copy[:, chosen] = column[:, chosen]
        level, robust, warm_up = (own if len(own) == 1 else own[chosen] for own in self._levels)
        out = np.empty((compiled_step.ANSWERS, len(chosen)))  # contiguous, as the compiled step is made for
        compiled_step.step(rows, self._stepped, self._known, self._settings, (level, robust, warm_up), out)
        return Previewed(out[compiled_step.BASE], out[compiled_step.TYPICAL])
