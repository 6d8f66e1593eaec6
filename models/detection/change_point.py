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
and values that return to the old level end the new one at once. Where neighbouring rows depend on each other, a row is worth
w <= 1 independent observations (`models.univariate.effective_sample`), so the evidence is w (L - HEAD).

    level, spread   win once they have lasted and still hold, where an episode has been open for long, or the evidence reaches
                    what opens an episode
    trend           leads while values are on their way; nothing is learnt from it

While no explanation has won, nothing is reported. A series whose explanations have no evidence left is no candidate any more.
It fails on changes so slow that the old state learns them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from models.core.arrays import Bools, Floats
from models.core.parameters import check_positive
from models.core.sparse_table import Table
from models.detection.change_candidates import TREND as TREND_COLUMNS
from models.stats import regression as reg

EXPLANATIONS = ("old", "spread", "level", "trend")
OLD, SPREAD, LEVEL, TREND = range(len(EXPLANATIONS))
WIDE, DEGREES = 10.0, 8.0
HEAD = 2.0
MOST_AGAINST = 3.0  # nats against an explanation that still holds
FARTHEST = 1e12  # spreads: squares of larger values would overflow single precision
SHAPE = 1.0  # of the prior of a spread: it is worth two rows
SINGLE = 3e38
LN2 = float(np.log(2))


@dataclass(frozen=True)
class ChangeParameters:
    """When a series becomes a change candidate, and what decides.

    Parameters
    ----------
    open_scales
        Distance from the level, in spreads, at which a series becomes a candidate.
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
    """

    open_scales: float = 2.5
    clip_nats: float = 5.0
    against_nats: float = 8.0
    outlier_share: float = 0.01
    level_rows: float = 0.01
    trend_rows: float = 1000.0
    half_life_rows: float = 18.0
    least_rows: float = 12.0

    def __post_init__(self) -> None:
        """Check the numbers. Raises ValueError for one that is not above 0."""
        check_positive(self, (field.name for field in fields(self)))


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
    worth
        Independent observations that a row is worth, at most 1.
    lasting
        How long a change must have lasted, ms.
    needed_nats
        Evidence that it takes without an episode, nats.
    """

    x: Floats
    place: Floats
    scale: Floats
    has_episode: Bools
    settled: Bools
    before: Floats
    now: float
    worth: Floats
    lasting: float
    needed_nats: Floats


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


@dataclass(frozen=True)
class Densities:
    """Log density of a row under each explanation, `(n,)`, -inf where the explanation has not begun."""

    old: Floats
    spread: Floats
    level: Floats
    trend: Floats


def step(s: Table, rows: CandidateRows, p: ChangeParameters) -> Verdict:
    """Weigh a row of every candidate, then learn it; `s` are the columns of `ChangeCandidates`, changed in place."""
    strays = (np.abs(rows.x - rows.place) >= p.open_scales * rows.scale) | rows.has_episode
    y = _anchor(s, rows, (s["level_rows"] == 0) & ((s["spread_rows"] == 0) | ~rows.has_episode), p)
    trend = np.stack([s[name] for name in TREND_COLUMNS])
    reg.advance(trend)
    densities = _densities(s, y, trend, p)
    old = np.maximum(densities.old, densities.spread)
    others = (
        np.logaddexp(np.logaddexp(densities.old, densities.spread) - LN2 * (s["spread_rows"] > 0), densities.trend)
        - LN2
    )
    _weigh(s, "level", densities.level - old, others - densities.level, p)
    _weigh(
        s,
        "spread",
        densities.spread - densities.old,
        np.logaddexp(densities.old, densities.trend) - LN2 - densities.spread,
        p,
    )
    _begin(s, strays, rows)
    _learn(s, y, trend, p)
    return _decide(s, rows, reg.predict(trend)[0], p)


def _anchor(s: Table, rows: CandidateRows, fresh: Bools, p: ChangeParameters) -> Floats:
    """The values as distances from the level in units of the spread, both as they were when the series became a candidate.

    They are fixed meanwhile, because the model of a young series would learn the change. `fresh` are candidates that begin.
    """
    s["anchor"], s["unit"] = np.where(fresh, rows.place, s["anchor"]), np.where(fresh, rows.scale, s["unit"])
    begun = reg.begin(np.ones(len(fresh)), p.level_rows, SHAPE, p.trend_rows)
    for name, column in zip(TREND_COLUMNS, begun, strict=True):
        s[name] = np.where(fresh, column, s[name])
    for name in ("rows", "sum", "nats", "against"):
        s[f"spread_{name}"] = np.where(fresh, 0.0, s[f"spread_{name}"])
    out: Floats = np.clip((rows.x - s["anchor"]) / s["unit"], -FARTHEST, FARTHEST)
    return out


def _begin(s: Table, strays: Bools, rows: CandidateRows) -> None:
    """Begin explanations at rows that stray, which they need not explain, and count the rows of the others."""
    for name in ("level", "spread"):
        begins = strays & (s[f"{name}_nats"] == 0)
        s[f"{name}_start"] = np.where(begins, rows.before, s[f"{name}_start"])
        s[f"{name}_nats"] = np.where(begins, HEAD, s[f"{name}_nats"])
        s[f"{name}_rows"] = np.where(begins | (s[f"{name}_rows"] > 0), s[f"{name}_rows"] + 1, 0.0)


def _densities(s: Table, y: Floats, trend: Floats, p: ChangeParameters) -> Densities:
    """Log densities of `y`, as `_anchor` scales it, before it is learnt."""
    nothing = np.full(len(y), -np.inf)
    old = np.logaddexp(
        np.log1p(-p.outlier_share) + reg.log_density(y, np.ones_like(y), DEGREES),
        np.log(p.outlier_share) + reg.log_density(y / WIDE, np.full_like(y, WIDE), DEGREES),
    )
    shape = SHAPE + s["spread_rows"] / 2
    own = spread_of(s)
    spread = reg.log_density(y / own, own, 2 * shape)
    where, wide, free = level_of(s, p)
    level = reg.log_density((y - where) / wide, wide, free)
    towards, across, degrees = reg.predict(trend)
    line = reg.log_density((y - towards) / across, across, degrees)
    return Densities(
        old,
        np.where(s["spread_rows"] > 0, spread, nothing),
        np.where(s["level_rows"] > 0, level, nothing),
        line,
    )


def spread_of(s: Table) -> Floats:
    """Spread of the rows around the old level, in units of `unit`, `(n,)`."""
    out: Floats = np.sqrt((SHAPE + s["spread_sum"] / 2) / (SHAPE + s["spread_rows"] / 2))
    return out


def level_of(s: Table, p: ChangeParameters) -> tuple[Floats, Floats, Floats]:
    """Location, scale and degrees of freedom of the next value by the new level: Normal-Gamma, its prior around the anchor."""
    rows, mean = s["level_rows"], s["level_mean"]
    weight, shape = rows + p.level_rows, SHAPE + rows / 2
    rate = SHAPE + s["level_sum"] / 2 + p.level_rows * rows / weight * mean * mean / 2
    return rows * mean / weight, np.sqrt(rate * (weight + 1) / (shape * weight)), 2 * shape


def _weigh(s: Table, name: str, gain: Floats, against: Floats, p: ChangeParameters) -> None:
    """Add the evidence for and against an explanation that has begun, and end it where either decides."""
    there = s[f"{name}_nats"] > 0
    gain, against = (np.clip(np.where(there, nats, 0.0), -p.clip_nats, p.clip_nats) for nats in (gain, against))
    s[f"{name}_nats"] = s[f"{name}_nats"] + gain
    s[f"{name}_against"] = np.maximum(s[f"{name}_against"] + against, 0.0)
    goes_on = there & (s[f"{name}_nats"] > 0) & (s[f"{name}_against"] < p.against_nats)
    for column in ("nats", "against"):
        s[f"{name}_{column}"] = np.where(goes_on, s[f"{name}_{column}"], 0.0)
    kept = (
        goes_on if name == "level" else goes_on | (s["level_rows"] > 0)
    )  # a level has to be better than a spread, always
    for column in ("rows", "sum", *(["mean"] if name == "level" else [])):
        s[f"{name}_{column}"] = np.where(kept, s[f"{name}_{column}"], 0.0)


def _learn(s: Table, y: Floats, trend: Floats, p: ChangeParameters) -> None:
    """Learn the row, which has been counted, in all explanations."""
    rows = s["level_rows"]
    delta = np.where(rows > 0, y - s["level_mean"], 0.0)
    s["level_mean"] = s["level_mean"] + delta / np.maximum(rows, 1.0)
    s["level_sum"] = np.minimum(s["level_sum"] + delta * np.where(rows > 0, y - s["level_mean"], 0.0), SINGLE)
    s["spread_sum"] = np.minimum(s["spread_sum"] + np.where(s["spread_rows"] > 0, y * y, 0.0), SINGLE)
    reg.learn(trend, y, 0.5 ** (1 / p.half_life_rows))
    for name, column in zip(TREND_COLUMNS, trend, strict=True):
        s[name] = column


def _decide(s: Table, rows: CandidateRows, line: Floats, p: ChangeParameters) -> Verdict:
    """Which explanation leads, and whether it has won."""
    lead = {name: rows.worth * (s[f"{name}_nats"] - HEAD) for name in ("level", "spread")}
    holds = {
        name: (s[f"{name}_rows"] >= p.least_rows)
        & (rows.now - s[f"{name}_start"] >= rows.lasting)
        & (s[f"{name}_against"] <= MOST_AGAINST)
        for name in lead
    }
    level = holds["level"] & (rows.settled | (lead["level"] >= rows.needed_nats))
    spread = holds["spread"] & rows.settled & (lead["spread"] > 0)
    spread &= lead["level"] <= 0  # the level's lead is over the spread, too
    best = np.where((lead["level"] <= 0) & (lead["spread"] > 0), SPREAD, LEVEL)
    best = np.where(s["level_against"] > MOST_AGAINST, TREND, best)
    best = np.where((s["level_rows"] == 0) & (s["spread_rows"] == 0), OLD, best)
    what = np.where(level, LEVEL, np.where(spread, SPREAD, best))
    level_now, line_now = (s["anchor"] + s["unit"] * y for y in (s["level_mean"], line))
    after = np.select([what == LEVEL, what == SPREAD], [level_now, s["anchor"]], line_now)
    start = np.where(what == SPREAD, s["spread_start"], s["level_start"])
    nats = np.where(what == SPREAD, lead["spread"], lead["level"])
    over = (s["level_rows"] == 0) & ~rows.has_episode
    return Verdict(what.astype(np.int8), level | spread, start, after, spread_of(s) * s["unit"], nats, over)
