"""Outlier or change of state: competing explanations of a series' latest windows, compared by evidence.

The level m and spread s that a series has had are those of the univariate model. While the series is a change candidate, its
rows since some start are explained by

    old       it goes on, with a row ten spreads wide now and then:  (1 - e) t(m, s) + e t(m, 10 s)
    spread    the old level with a spread of its own                 trend   a line through the latest rows
    level     one new level with a spread of its own, since one moment

Each predicts every row before it learns it, and evidence is gathered as in Page's test with learnt alternatives:

    L_level += clip(ln p_level(x) - max(ln p_old(x), ln p_spread(x)), -c, c)        alike for spread against old

An explanation begins with `HEAD` nats at a row that strays, so that a first row or two may miss, and ends where its evidence
is used up, or where others have explained the latest rows better by `against_nats`: a ramp is not a level, however far away,
and values that return to the old level end the new one at once. Where rows depend on those around them, each of n rows is worth
w(n) <= 1 independent observations, so the evidence is w(n) (L - HEAD):

    w(n) = min(w, 1 / (1 + (n - 1) s))        w: worth of a row, s: share of the variance that rows of some hours have in common

(`models.univariate.effective_sample`). Like level and spread, w and s are those of the series when it became a candidate: they must
not learn from the change that is in question.

    level, spread   win once they have lasted and still hold, where an episode has been open for long and the level is away from the old one as
                    far as a row that strays and a third of the way was made at once, or the spread is half as large again as the old one, or
                    two thirds of it; a level also where the evidence reaches what opens an episode and two thirds of the way were made at once
    trend           leads while values are on their way; nothing is learnt from it

What is nearer than that is where a series returns to after an anomaly: some explanation is a little better than the old law on any rows
(decision 53). "At once" is from the fast mean before the new level (half-life 20 minutes) to where a line through its rows begins: on a first day,
whose rhythm nobody has seen, a slow wave strays as far as a change does (decision 47); and what goes on rising, as memory that leaks, has no
new level half-way (decision 58).

While no explanation has won, nothing is reported. A series whose explanations have no evidence left is no candidate any more.
It fails on changes so slow that the old state learns them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from models.core.arrays import Bools, Floats, Ints
from models.core.parameters import check_positive
from models.detection import compiled_changes as compiled
from models.detection.change_candidates import ChangeCandidates
from models.detection.compiled_changes import Candidates

EXPLANATIONS = ("old", "spread", "level", "trend")


@dataclass(frozen=True)
class ChangeParameters:
    """When a series becomes a change candidate, and what decides.

    Parameters
    ----------
    open_scales
        Distance from the level, in spreads, at which a series becomes a candidate, and of a new level that wins by an episode.
    clip_nats
        Most evidence of one row.
    against_nats
        Evidence for other explanations that ends one.
    outlier_share
        Share of rows in a spread `WIDE` times as large, in the old state.
    level_rows
        Rows that the prior of a new level, around the old one, is worth. Raising it expects smaller changes.
    trend_rows
        The same of a trend's prior around 0.
    half_life_rows
        Memory of the trend.
    least_rows
        Least number of rows of a new level or spread.
    at_once
        Least share of the way to a new level that is made in one go where no episode is open; half of it where one is.
    """

    open_scales: float = 2.5
    clip_nats: float = 5.0
    against_nats: float = 8.0
    outlier_share: float = 0.01
    level_rows: float = 0.01
    trend_rows: float = 1000.0
    half_life_rows: float = 18.0
    least_rows: float = 12.0
    at_once: float = 2 / 3

    def __post_init__(self) -> None:
        """Check the numbers. Raises ValueError for one that is not above 0."""
        check_positive(self, (field.name for field in fields(self)))

    @cached_property
    def vector(self) -> Floats:
        """The numbers in the order of `compiled_changes`: of the trend's memory, what is left after a row."""
        numbers = {field.name: float(getattr(self, field.name)) for field in fields(self)}
        numbers["half_life_rows"] = 0.5 ** (1 / self.half_life_rows)
        return np.array(list(numbers.values()))


@dataclass(frozen=True)
class CandidateRows:
    """A window's row of each change candidate; arrays are `(n,)`.

    Attributes
    ----------
    x, place, scale
        The value, and the level and spread that the series has had, in the unit of the series.
    has_episode, settled
        Whether an episode about its values is open, and has been for `lasting`.
    before, now
        Ends of the last window with a row and of this one, epoch ms.
    worth, common
        Independent observations that a row is worth now, at most 1, and the share of the variance that rows of some hours have in common; of a
        candidate those count that it begins with.
    lasting
        How long a change must have lasted, ms.
    needed_nats
        Evidence that it takes without an episode, nats.
    fast_before
        The fast mean before this row, in the unit of the series.
    """

    x: Floats
    place: Floats
    scale: Floats
    has_episode: Bools
    settled: Bools
    before: Floats
    now: float
    worth: Floats
    common: Floats
    lasting: float
    needed_nats: Floats
    fast_before: Floats


@dataclass(frozen=True)
class Verdict:
    """The leading explanation of each candidate after a row; arrays are `(n,)`.

    Attributes
    ----------
    what
        Its index in `EXPLANATIONS`.
    announced
        Whether it has won with this row.
    start
        End of the last window before it began, epoch ms.
    after, spread, lead
        Its level and spread, in the unit of the series, and its evidence, nats.
    over
        Whether the series is no candidate any more.
    """

    what: NDArray[np.int8]
    announced: Bools
    start: Floats
    after: Floats
    spread: Floats
    lead: Floats
    over: Bools


def step(candidates: ChangeCandidates, places: Ints, rows: CandidateRows, p: ChangeParameters) -> Verdict:
    """Weigh a row of each candidate at `places` of the table, `(n,)`, then learn it, in place."""
    given, found = np.empty((8, len(places))), np.empty((7, len(places)))
    given[compiled.X], given[compiled.PLACE], given[compiled.SCALE] = rows.x, rows.place, rows.scale
    given[compiled.BEFORE], given[compiled.NEEDED_NATS] = rows.before, rows.needed_nats
    given[compiled.WORTH_NOW], given[compiled.COMMON_NOW] = rows.worth, rows.common
    given[compiled.FAST_BEFORE] = rows.fast_before
    table, times = Candidates(**candidates.columns), (float(rows.now), float(rows.lasting))
    compiled.weigh(table, places, given, rows.has_episode, rows.settled, times, p.vector, found)
    candidates.changed = True
    return Verdict(
        what=found[compiled.WHAT].astype(np.int8),
        announced=found[compiled.ANNOUNCED] > 0,
        start=found[compiled.START],
        after=found[compiled.AFTER],
        spread=found[compiled.SPREAD_NOW],
        lead=found[compiled.LEAD],
        over=found[compiled.OVER] > 0,
    )
