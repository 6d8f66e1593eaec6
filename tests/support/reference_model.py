"""The univariate model of one series in scalar code, against which the vectorised one is tested. Levels are not rounded, nothing fades."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import pairwise

import numpy as np
from scipy.special import erfcx

from models.stats.rarity import BINS, DAYS, GRADES
from models.univariate.parameters import UnivariateParameters

FEATURES = 6
DIRECTED = (0, 2, 4)
LOG_LEVEL, STEP, RHYTHM = 0, 1, 4


def graded(blocks: list[int], visits: list[int]) -> list[float]:
    """Visits by bin, in it or above, of which only the grades are known: within one they are spread as blocks are."""
    found = [float(number) for number in visits]
    for begin, end in pairwise([*GRADES.tolist(), BINS]):
        of_grade = blocks[begin] - blocks[end]
        for bin_ in range(begin + 1, end):
            share = (blocks[bin_] - blocks[end]) / of_grade if of_grade else (end - bin_) / (end - begin)
            found[bin_] = visits[end] + share * (visits[begin] - visits[end])
    return found


class ReferenceModel:
    """Scores rows of one point each; `step` answers surprise and rarity of the six features, and their norm."""

    def __init__(self, p: UnivariateParameters) -> None:
        self.p, self.rows = p, 0
        self.ew: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        self.mean, self.sums, self.weight = [0.0] * FEATURES, [0.0] * FEATURES, 0.0
        self.robust, self.least = [0.0, 0.0, 0.0], [0.0] * FEATURES  # the robust memory's value: mean, sum, weight
        self.blocks: list[dict[tuple[int, bool], int]] = []
        self.days: dict[int, list[dict[tuple[int, bool], int]]] = defaultdict(list)
        self.hours: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
        self.block: dict[tuple[int, bool], int] = {}
        self.visit: dict[tuple[int, bool], int] = {}
        self.block_rows, self.hour, self.overall, self.turned = 0, 0, [0.0, 0.0], True
        self.time = self.previous = self.interval = self.quantum = self.trust = 0.0

    def _ew(self, name: str, value: float, seconds: float, half_life: float, rows: float) -> float:
        kept = 2 ** -min(seconds / half_life, 1 / rows)
        total = self.ew[name]
        total[1] = total[1] * kept + 1
        total[0] += (value - total[0]) / total[1]
        return total[0]

    def _last(self, name: str, otherwise: float) -> float:
        total = self.ew[name]
        return total[0] if total[1] else otherwise

    def _turn(self, now: float) -> None:
        hour = int(now // 3600)
        self.turned = not self.rows or hour != self.hour
        if self.rows and hour != self.hour:
            self.days[self.hour % 24] = [self.visit, *self.days[self.hour % 24]][:DAYS]
            self.visit = {}
        if not self.rows or hour != self.hour:
            self.hours[hour % 24][1] *= 2 ** (-1 / self.p.rhythm_half_life_days)
        self.hour = hour

    def _end_block(self) -> None:
        """After a row at the turn of an hour: the block ends, if it is long enough."""
        if self.turned and self.block_rows >= self.p.block_rows:
            self.blocks.append(self.block)
            self.block, self.block_rows = {}, 0

    def _features(self, now: float, x: float) -> tuple[list[float], float]:
        p, first = self.p, self.rows == 0
        seconds = 0.0 if first else now - self.time
        step = 0.0 if first else x - self.previous
        pauses = self.rows <= 4 and 3 * seconds < self.interval
        usual = seconds if self.rows == 1 or pauses else self.interval
        if seconds > 1.5 * usual:
            step /= seconds / usual
        if not first:
            gain = max(1 - 2 ** (-1 / 50), 1 / self.rows)
            self.interval = usual + gain * (min(seconds, 3 * usual) - usual)
        before, rough_before = self._last("fast", x), self._last("rough", 0.0)
        mean, weight = self.hours[self.hour % 24]
        usual_now = (weight * mean + p.rhythm_prior * self.overall[0]) / (weight + p.rhythm_prior)
        residual = 0.0 if first else x - usual_now
        kept = 2 ** -min(seconds / (0.6 * 86400 * p.level_half_life_days), 1 / (0.6 * p.level_rows))
        trust = self.trust
        self.overall[1] = self.overall[1] * kept + trust
        self.overall[0] += trust * (x - self.overall[0]) / self.overall[1]
        self.hours[self.hour % 24] = [mean + trust * (x - mean) / (weight + trust), weight + trust]
        hour = 60 * p.rough_half_life_minutes, p.rough_rows
        days = 86400 * p.scale_half_life_days, p.scale_rows
        fast = self._ew("fast", x, seconds, 60 * p.fast_half_life_minutes, p.fast_rows)
        rough = self._ew("rough", abs(step), seconds, *hour)
        long_step = self._ew("long_step", abs(step), seconds, *days)
        size = self._ew("long_size", abs(x), seconds, *days)
        if not first and x != self.previous:
            moved = abs(x - self.previous)
            self.quantum = min(abs(self.quantum), moved) if self.quantum else -moved
        tiny, value = 1e-9 * size + 1e-30, max(self.quantum, 0.0) / 2
        offset, floor = max(0.02 * size, 1e-30), 1e-3 * long_step + tiny
        scale = (1 - p.steady_share) * rough_before + p.steady_share * long_step + tiny
        self.least = [
            1e-5 + value / (abs(x) + offset + value), tiny + value, tiny + value / 4,
            1e-5 + max(math.log1p((tiny + value / 4) / floor) - math.log1p(long_step / floor), 0.0), tiny + value,
            1e-5 + (tiny + value) / (scale + tiny + value),
        ]  # fmt: skip
        self.time, self.previous = now, x
        sign = -1.0 if x < 0 else 1.0
        log_level, roughness = sign * math.log1p(abs(x) / offset), math.log1p(rough / floor)
        return [log_level, step, fast, roughness, residual, math.asinh((x - before) / scale)], seconds

    def _trust(self, x: float) -> float:
        """What the row counts: of a young series only what is regular by the robust memory."""
        p = self.p
        if self.rows < 20:
            return 1.0
        share = min(max(self.rows * self.interval / (86400 * p.trust_days), p.least_weight), 1.0)
        least = 1e-9 * self.ew["long_size"][0] + 1e-30 + max(self.quantum, 0.0) / 2
        return share + (1 - share) * self._regular(x, least)

    def _regular(self, x: float, least: float) -> float:
        mean, sums, weight = self.robust
        nu = weight + self.p.prior_rows
        scale = max(math.sqrt((sums + self.p.prior_rows * (self.p.relative_floor * mean) ** 2) / nu), least)
        tau = abs(x - mean) / (scale * math.sqrt(1 + 1 / weight))
        near, far = ((1 - self.p.outlier_share), self.p.outlier_share / 10)
        odds = math.exp((nu + 1) / 2 * (math.log1p(tau * tau / nu) - math.log1p(tau * tau / nu / 100)))
        return near / (near + far * odds)

    def _learn_robust(self, x: float, seconds: float) -> None:
        p, rows = self.p, self.rows
        kept = 2 ** -min(seconds / (86400 * p.robust_half_life_days), 1 / p.level_rows)
        w = 1.0 if rows < 20 else p.least_weight + (1 - p.least_weight) * self._regular(x, self.least[STEP])
        mean, sums, weight = self.robust if rows else [x, 0.0, 0.0]
        before, deviation = weight * kept, x - mean
        self.robust = [
            mean + w * deviation / (before + w), sums * kept + w * before / (before + w) * deviation**2, before + w,
        ]  # fmt: skip

    def _surprise(self, feature: int, deviation: float) -> float:
        floor = 0.0 if feature == LOG_LEVEL else self.p.relative_floor * abs(self.mean[feature])
        rows = self.p.prior_rows
        nu = self.weight + rows
        scale = max(math.sqrt((self.sums[feature] + rows * floor**2) / nu), self.least[feature])
        tau = abs(deviation) / (scale * math.sqrt(1 + 1 / max(self.weight, 1e-12)))
        days = self.rows * self.interval / 86400
        if feature == RHYTHM and days >= 1:
            tau /= 1 + (math.sqrt(2) - 1) * max(2 - days, 0.0)
        z = min(math.sqrt(nu * math.log1p(tau * tau / nu)) * (8 * nu + 1) / (8 * nu + 3), 20.0)
        return min(max(z * z / 2 - math.log(erfcx(z / math.sqrt(2))), 0.0), 200.0)

    def _rare(self, key: tuple[int, bool], s: float) -> float:
        p = self.p
        y = max(4 * (math.log1p(s) - math.log(p.tolerance)), 0.0)
        base = (1 + s) ** -p.prior_power

        def by_bin(blocks: list[dict[tuple[int, bool], int]]) -> list[int]:
            return [*(sum(block.get(key, 0) >= bin_ for block in blocks) for bin_ in range(BINS)), 0]

        def above(numbers: list[float] | list[int]) -> float:
            return float(np.interp(min(y, BINS - 1), range(BINS + 1), numbers))

        blocks = by_bin(self.blocks)
        ever = (p.prior_blocks * base + above(blocks)) / (p.prior_blocks + len(self.blocks))
        visits = self.days[self.hour % 24]
        if visits:
            hour = (p.prior_hours * base + above(graded(blocks, by_bin(visits)))) / (p.prior_hours + len(visits))
            ever = (1 - p.hour_share) * ever + p.hour_share * hour
        return -math.log(min(ever, 1.0))

    def step(self, now: float, x: float) -> tuple[list[float], list[float], float]:
        """Surprises, rarities, and the norm of the rarities. `now` is in seconds."""
        self._turn(now)
        w = self.trust = self._trust(x)
        seen, seconds = self._features(now, x)
        kept = 2 ** -min(seconds / (86400 * self.p.level_half_life_days), 1 / self.p.level_rows)
        surprises, rarities = [], []
        for m, value in enumerate(seen):
            deviation = value - self.mean[m]
            s = self._surprise(m, deviation) if self.weight > 2.5 else 0.0
            key = m, m in DIRECTED and deviation < 0
            surprises.append(s)
            unseen = m == RHYTHM and self.rows * self.interval < 86400
            rarities.append(0.0 if unseen else self._rare(key, s))
            first = self.rows < self.p.warm_up_rows and self.rows * self.interval < 60 * self.p.first_minutes
            bin_ = 0 if first else min(int(4 * math.log1p(s)), 15)
            for most in (self.block, self.visit):
                most[key] = max(most.get(key, 0), bin_)
            before = self.weight * kept
            self.sums[m] = self.sums[m] * kept + w * before / (before + w) * deviation**2
            self.mean[m] += w * deviation / (before + w)
        self.weight = self.weight * kept + w
        self._learn_robust(x, seconds)
        self.rows += 1
        self.block_rows += 1
        joined = (sum(c**self.p.norm for c in rarities) / 4) ** (1 / self.p.norm)
        self._end_block()
        return surprises, rarities, joined
