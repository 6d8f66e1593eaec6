"""The weighing of change candidates in numpy, all of them at once: the reference of `models.detection.compiled_changes`.

Columns are those of `ChangeCandidates` in double precision, by name, and are changed in place.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.core.arrays import Bools, Floats
from models.core.sparse_table import Table
from models.detection.change_candidates import TREND as TREND_COLUMNS
from models.detection.change_point import CandidateRows, ChangeParameters, Verdict
from models.detection.compiled_changes import (
    DEGREES,
    FARTHEST,
    HEAD,
    LEVEL,
    LN2,
    MOST_AGAINST,
    OLD,
    OTHER_SPREAD,
    SHAPE,
    SINGLE,
    SPREAD,
    TREND,
    WIDE,
)
from models.stats import regression as reg


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

    They, and what rows are worth, are fixed meanwhile, because the model of a young series would learn the change. `fresh` are candidates that begin.
    """
    begun_with = {"anchor": rows.place, "unit": rows.scale, "worth": rows.worth, "common": rows.common}
    for name, now in begun_with.items():
        s[name] = np.where(fresh, now, s[name])
    begun = reg.begin(np.ones(len(fresh)), p.level_rows, SHAPE, p.trend_rows)
    for name, column in zip(TREND_COLUMNS, begun, strict=True):
        s[name] = np.where(fresh, column, s[name])
    for name in ("rows", "sum", "nats", "against"):
        s[f"spread_{name}"] = np.where(fresh, 0.0, s[f"spread_{name}"])
    out: Floats = np.clip((rows.x - s["anchor"]) / s["unit"], -FARTHEST, FARTHEST)
    return out


def _begin(s: Table, strays: Bools, rows: CandidateRows) -> None:
    """Begin explanations at rows that stray, which they need not explain, and count the rows of the others."""
    fast_before = np.clip((rows.fast_before - s["anchor"]) / s["unit"], -FARTHEST, FARTHEST)
    for name in ("level", "spread"):
        begins = strays & (s[f"{name}_nats"] == 0)
        if name == "level":
            s["level_from"] = np.where(begins, fast_before, s["level_from"])
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
    for column in ("rows", "sum", *(["mean", "rise"] if name == "level" else [])):
        s[f"{name}_{column}"] = np.where(kept, s[f"{name}_{column}"], 0.0)


def _learn(s: Table, y: Floats, trend: Floats, p: ChangeParameters) -> None:
    """Learn the row, which has been counted, in all explanations."""
    rows = s["level_rows"]
    delta = np.where(rows > 0, y - s["level_mean"], 0.0)
    s["level_mean"] = s["level_mean"] + delta / np.maximum(rows, 1.0)
    rise = np.where(
        rows > 0, rows / 2 * (y - s["level_mean"]), 0.0
    )  # (row - mean of the rows before) * (value - mean of all)
    s["level_rise"] = np.clip(s["level_rise"] + rise, -SINGLE, SINGLE)
    s["level_sum"] = np.minimum(s["level_sum"] + delta * np.where(rows > 0, y - s["level_mean"], 0.0), SINGLE)
    s["spread_sum"] = np.minimum(s["spread_sum"] + np.where(s["spread_rows"] > 0, y * y, 0.0), SINGLE)
    reg.learn(trend, y, 0.5 ** (1 / p.half_life_rows))
    for name, column in zip(TREND_COLUMNS, trend, strict=True):
        s[name] = column


def _at_once(s: Table, share: float) -> Bools:
    """Whether enough of the way to the new level lies between the fast mean before it and the beginning of a line through its rows."""
    rows, mean = s["level_rows"], s["level_mean"]
    begins = mean - 6.0 * s["level_rise"] / np.maximum(rows * rows - 1.0, 1.0)
    error = 2.0 * np.sqrt(s["level_sum"]) / np.maximum(rows, 1.0)
    out: Bools = np.sign(mean) * (begins - s["level_from"]) - error >= share * np.abs(mean)
    return out


def _decide(s: Table, rows: CandidateRows, line: Floats, p: ChangeParameters) -> Verdict:
    """Which explanation leads, and whether it has won."""
    kinds = ("level", "spread")
    together = {name: 1 / (1 + np.maximum(s[f"{name}_rows"] - 1, 0) * s["common"]) for name in kinds}
    lead = {name: np.minimum(s["worth"], together[name]) * (s[f"{name}_nats"] - HEAD) for name in kinds}
    holds = {
        name: (s[f"{name}_rows"] >= p.least_rows)
        & (rows.now - s[f"{name}_start"] >= rows.lasting)
        & (s[f"{name}_against"] <= MOST_AGAINST)
        for name in lead
    }
    away = np.abs(s["level_mean"]) >= p.open_scales
    arrived = rows.settled & away & _at_once(s, p.at_once / 2)
    level = holds["level"] & (arrived | ((lead["level"] >= rows.needed_nats) & _at_once(s, p.at_once)))
    ratio = spread_of(s)
    spread = holds["spread"] & rows.settled & (lead["spread"] > 0) & (np.maximum(ratio, 1 / ratio) >= OTHER_SPREAD)
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
