"""A candidate regime for a series whose values no longer fit: a passing anomaly, or a new normal?

Beside the regime A that the series has had, a candidate B learns the values since some start. Their log Bayes factor

    L += temper * clip(ln p_B(x) - ln p_A(x), -5, 5)          L <= 0: L = 0, B starts again with the next value

is Page's test with a learnt alternative; `temper` < 1 because neighbouring windows are not independent. Both
predictives are Student's t; B is a Normal-Gamma that forgets with a half-life of a few minutes, so that it is where the
values are now. B becomes the normal when it has been the better one for long enough *and* stands still: its spread, and
the way it went in the last minutes, must be small against its distance from A, which a ramp's are not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

HALF_LIFE_SECONDS = 180.0
RECENT_HALF_LIFE_SECONDS = 60.0
TEMPER = 0.1
CLIP_NATS = 5.0
ENOUGH_NATS = 5.0
PRIOR_WEIGHT, PRIOR_ALPHA = 0.1, 1.0
STILL_SCALES, STILL_SHARE = 3.0, 0.1  # how wide it may be, in scales of A and as a share of the distance
STILL_WINDOWS = 6
DRIFT_SCALES, DRIFT_SHARE = 0.5, 0.12  # how far the last minute may be from the last few: a ramp's is a third at first


@dataclass
class Candidate:
    """Regime B: Normal-Gamma sums since `since` (ms), and the log Bayes factor against A, nats."""

    since: int
    spread: float  # prior variance: that of A
    weight: float = 0.0
    mean: float = 0.0
    sum: float = 0.0
    windows: int = 0
    log_factor: float = 0.0
    recent: float = 0.0  # mean of the last minute or so
    still: int = 0  # windows in a row in which it stood still

    def learn(self, x: float, seconds: float) -> None:
        """Take in a value, `seconds` after the last one."""
        kept = 0.5 ** (seconds / HALF_LIFE_SECONDS)
        before = self.weight * kept
        self.weight = before + 1.0
        delta = x - self.mean
        self.mean += delta / self.weight
        self.sum = self.sum * kept + before / self.weight * delta * delta
        gain = max(1 - 0.5 ** (seconds / RECENT_HALF_LIFE_SECONDS), 1 / (self.windows + 1))
        self.recent += gain * (x - self.recent)
        self.windows += 1

    @property
    def variance(self) -> float:
        """Of the values around the mean, with the prior in it."""
        return (self.sum + 2 * PRIOR_ALPHA * self.spread) / (self.weight + 2 * PRIOR_ALPHA)

    def log_density(self, x: float) -> float:
        """ln of the predictive density of `x`."""
        scale = math.sqrt(self.variance * (1 + 1 / (self.weight + PRIOR_WEIGHT)))
        return log_t_density((x - self.mean) / scale, self.weight + 2 * PRIOR_ALPHA) - math.log(scale)

    def step(self, x: float, now: int, seconds: float, log_density_of_old: float) -> None:
        """Weigh the window against the old regime, then learn it."""
        if self.windows:
            gain = self.log_density(x) - log_density_of_old
            self.log_factor += TEMPER * min(max(gain, -CLIP_NATS), CLIP_NATS)
            if self.log_factor <= 0:
                self.since, self.weight, self.mean, self.sum, self.windows = now, 0.0, 0.0, 0.0, 0
                self.still = 0
                self.log_factor = self.recent = 0.0
        self.learn(x, seconds)

    def stands(self, now: int, level: float, seconds: float) -> bool:
        """Whether it has been better than the old level for so long, and stands still; counts still windows."""
        scale, distance = math.sqrt(self.spread), abs(self.mean - level)
        own, drift = math.sqrt(self.sum / self.weight), abs(self.recent - self.mean)
        narrow = own < max(STILL_SCALES * scale, STILL_SHARE * distance)
        calm = narrow and drift < max(DRIFT_SCALES * scale, DRIFT_SHARE * distance)
        self.still = self.still + 1 if calm else 0
        lasted = now - self.since >= 1000 * seconds and self.log_factor >= ENOUGH_NATS
        return lasted and self.still >= STILL_WINDOWS


def log_t_density(t: float, df: float) -> float:
    """ln of the density of Student's t."""
    constant = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - 0.5 * math.log(math.pi * df)
    return constant - (df + 1) / 2 * math.log1p(t * t / df)
