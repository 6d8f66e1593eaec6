"""The settings of the univariate model: one default for all series. Times are times, probabilities are probabilities."""

from __future__ import annotations

from dataclasses import dataclass, fields

SHARES = ("relative_floor", "outlier_share", "least_weight", "hour_share", "steady_share", "interval_probability")


@dataclass(frozen=True)
class UnivariateParameters:
    """How fast a series is forgotten, how surprises are counted, and what is taken for granted of a new series.

    Every memory is a half-life in time with a least number of rows, so windows of 10 s and rows of an hour both work.

    `level_half_life_days`    memory of what is normal, and of its spread. Raising it learns a new normal more slowly.
    `robust_half_life_days`     the same of the healthy state.
    `level_rows`              the least half-life of both, in rows.
    `fast_half_life_minutes`  of the fast mean: raising it finds smaller deviations that last, later.
    `fast_rows`               the least half-life of it, in rows.
    `rough_half_life_minutes` of the recent roughness (mean absolute step) and of the smoothed rhythm residual.
    `rough_rows`              the least half-life of them, in rows.
    `scale_half_life_days`    of the long-run scale of steps and values, which floors logarithms.
    `scale_rows`              the least half-life of it, in rows.
    `rhythm_half_life_days`   memory of an hour of the day's level.
    `rhythm_prior`            rows at the overall level that each hour begins with.
    `prior_rows`              rows that the prior spread is worth.
    `first_minutes`           surprises of the first rows, for so long at the most, are no precedents: little is known yet.
    `mean_prior_observations`        independent looks that the width of a smoothed member is worth beforehand: see `smoothed`.
                              Raising it trusts a young series' means sooner, and takes an unseen wave for a fault.
    `relative_floor`          prior spread, as a share of the level.
    `steady_share`            share of the long-run mean step in the recent roughness that a step is held against.
    `outlier_share`           prior probability of an outlier, ten times as wide (what is healthy).
    `trust_days`              age at which a series learns whatever comes. Until then it learns an outlier the less, the younger
                              it is: what is strange would soon be most of what it has seen. So long, too, is a smoothed member
                              not known by its rows: see `smoothed`.
    `least_weight`            what an outlier still counts when the healthy state is learnt.
    `block_rows`              the least number of rows of a block, which ends with an hour: of a block only the greatest
                              surprise counts.
    `block_alert_nats`               a block of a young series does not end while the series is louder than that,
    `longest_block_hours`     unless it has lasted so long.
    `history_half_life_days`  memory of how surprising blocks have been.
    `tolerance`               factor of 1 + surprise up to which a smaller surprise has been "the same".
    `prior_blocks`            blocks that the prior over surprises is worth in a series.
    `prior_hours`             the same for an hour of the day.
    `prior_power`             tail of the prior: P(surprise > s) = (1 + s)^-power.
    `hour_share`              weight of "at this hour of the day" against "ever".
    `norm`                    members are joined by this norm.
    `warm_up_rows`, `warm_up_minutes`  both must have passed before anything is said.
    `interval_probability`    what lies outside of `lower` to `upper`, both sides together.
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
    mean_prior_observations: float = 10.0
    relative_floor: float = 0.01
    steady_share: float = 0.003
    outlier_share: float = 0.01
    trust_days: float = 1.0
    least_weight: float = 0.02
    block_rows: int = 4
    block_alert_nats: float = 7.0
    longest_block_hours: float = 4.0
    history_half_life_days: float = 58.0
    tolerance: float = 1.87
    prior_blocks: float = 1.0
    prior_hours: float = 0.3
    prior_power: float = 1.5
    hour_share: float = 0.3
    norm: float = 3.0
    warm_up_rows: int = 30
    warm_up_minutes: float = 30.0
    interval_probability: float = 1e-4

    def __post_init__(self) -> None:
        """Raise ValueError for a number that is out of range."""
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                msg = f"{field.name} is {value}; wanted a number above 0"
                raise ValueError(msg)
        for name in SHARES:
            if not getattr(self, name) < 1:
                msg = f"{name} is {getattr(self, name)}; wanted a number below 1"
                raise ValueError(msg)
        for name in ("tolerance", "norm"):
            if not getattr(self, name) >= 1:
                msg = f"{name} is {getattr(self, name)}; wanted at least 1"
                raise ValueError(msg)
