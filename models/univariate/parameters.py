"""The settings of the univariate model: one default for all series.

Memories are half-lives in time, with a least number of rows; shares are probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from models.core.parameters import check_positive

SHARES = (
    "relative_floor",
    "outlier_share",
    "least_weight",
    "hour_share",
    "step_share",
    "recurring_share",
    "steady_share",
    "interval_probability",
)


@dataclass(frozen=True)
class UnivariateParameters:
    """Memories, priors and shares of the univariate model.

    Every memory is a half-life in time with a least number of rows, so that windows of 10 s and rows of an hour both work.

    Parameters
    ----------
    level_half_life_days
        Memory of what is normal, and of its spread. Raising it learns a new normal more slowly.
    robust_half_life_days
        The same of the robust memory.
    level_rows
        Least half-life of both, rows.
    fast_half_life_minutes, fast_rows
        Half-life of the fast mean, and its least one in rows. Raising it finds smaller deviations that last, later.
    rough_half_life_minutes, rough_rows
        Half-life of the recent roughness (mean absolute step), and its least one in rows.
    scale_half_life_days, scale_rows
        Half-life of the long-run scale of steps and values, which floors logarithms, and its least one in rows.
    rhythm_half_life_days
        Memory of the level of an hour of the day.
    rhythm_prior
        Rows at the overall level that each hour begins with.
    prior_rows
        Rows that the prior spread counts as.
    first_minutes
        Surprises of the first rows, for so long at the most, are excluded from the rarity history.
    relative_floor
        Prior spread, as a share of the level.
    steady_share
        Share of the long-run mean step in the recent roughness that a step is compared with.
    outlier_share
        Prior probability of an outlier, ten times as wide (robust memory).
    trust_days
        Age at which a series learns every row with its full weight. Until then an outlier has the less weight, the younger the series is.
    least_weight
        Weight with which the robust memory learns an outlier.
    block_rows
        Least number of rows of a block, which ends with an hour. Of a block only the greatest surprise counts.
    history_half_life_days
        Memory of how surprising blocks have been: counts of twice as many blocks are halved.
    tolerance
        Factor of 1 + surprise up to which a smaller surprise counts as the same.
    prior_blocks
        Blocks that the prior over surprises counts as in a series.
    prior_hours
        The same for an hour of the day.
    prior_power
        Tail of the prior: P(surprise > s) = (1 + s)^-power.
    hour_share
        Weight of the rarity at this hour of the day against that at any time.
    norm
        Features are joined by this norm.
    step_share
        Share of a step's surprise by the law of the series that counts whatever precedents it has, unless steps recur.
    recurring_share
        Steps recur where more than this share of the blocks had a surprising one, or one as large as this (at this hour of the day, in part).
    warm_up_rows, warm_up_minutes
        Both must have passed before there are scores.
    interval_probability
        Probability outside of `lower` to `upper`, both sides together.
    """

    level_half_life_days: float = 35.0
    robust_half_life_days: float = 7.0
    level_rows: float = 100.0
    fast_half_life_minutes: float = 20.0
    fast_rows: float = 4.0
    rough_half_life_minutes: float = 60.0
    rough_rows: float = 12.0
    scale_half_life_days: float = 3.5
    scale_rows: float = 100.0
    rhythm_half_life_days: float = 4.0
    rhythm_prior: float = 0.3
    prior_rows: float = 2.0
    first_minutes: float = 10.0
    relative_floor: float = 0.01
    steady_share: float = 0.003
    outlier_share: float = 0.01
    trust_days: float = 1.0
    least_weight: float = 0.02
    block_rows: int = 4
    history_half_life_days: float = 58.0
    tolerance: float = 1.87
    prior_blocks: float = 1.0
    prior_hours: float = 0.3
    prior_power: float = 1.5
    hour_share: float = 0.3
    norm: float = 3.0
    step_share: float = 1 / 7
    recurring_share: float = 0.13
    warm_up_rows: int = 30
    warm_up_minutes: float = 30.0
    interval_probability: float = 1e-4

    def __post_init__(self) -> None:
        """Raise ValueError for a number that is out of range."""
        check_positive(self, (field.name for field in fields(self)))
        for name in SHARES:
            if not getattr(self, name) < 1:
                msg = f"{name} is {getattr(self, name)}; wanted a number below 1"
                raise ValueError(msg)
        for name in ("tolerance", "norm"):
            if not getattr(self, name) >= 1:
                msg = f"{name} is {getattr(self, name)}; wanted at least 1"
                raise ValueError(msg)
