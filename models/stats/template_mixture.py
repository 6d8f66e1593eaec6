"""Mixture of a service's log templates: their shares, which do not depend on the load, against those that were learnt.

Given the n lines of a block, a template with the share p has a Dirichlet-multinomial's marginal, a beta-binomial count

    x ~ BetaBinomial(n, C p, C (1 - p))        Var x = n p (1 - p) (1 + (n - 1) / (C + 1))        1 / (C + 1) = rho + 1 / B

p = A / B, with A the template's lines and B those of its service while it was known, both decaying with a half-life. rho is how
much shares vary from block to block, from E[(x - n p)^2 - n p (1 - p)] = n (n - 1) p (1 - p) rho: that of the service, or the
template's own where that is more, because one that is hardly ever seen shows nothing of how it varies. Without one template the
rest is Dirichlet-multinomial again (neutrality), so templates that another detector has published can be left out. With f the probability of x lines
and r(x) = f(x + 1) / f(x),

    P(X >= x) = f(x) M(x)        M(x) = 1 + r(x) M(x + 1) ~ 2 / (g + sqrt(g^2 + 4 r d))        g = 1 - r        d = r(x) - r(x + 1)

which takes M as the solution of g M = 1 - r d M^2, and for a normal tail is Birnbaum's bound of Mills' ratio. The surprise of a
block is that of its strangest template in either direction, corrected for the 2 K tests; of two templates, one share determines
the other. It is held against chance by Page's sum over blocks, where a block counts for no more than half of what it takes:
one strange block is no shift.

It fails where the mix follows the hour of the day faster than the half-life; there rho grows until it is no news.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from models.core.arrays import Bools, Floats, Ints
from models.core.parameters import DetectorParameters

# of a template: A and B, the two sums of rho, lines of this block, lines since the evidence began
COLUMNS = ("mix_sum", "mix_lines", "mix_excess", "mix_square", "mix_pending", "mix_fresh")
SUM, LINES, EXCESS, SQUARE, PENDING, FRESH = range(len(COLUMNS))
# of a service: end of the last block (while an episode is open, of the last one that was judged), begin of this one, Page's sum,
# since when it is above 0 and for how many blocks
CONTEXT_COLUMNS = ("mix_seen", "mix_begun", "mix_page", "mix_since", "mix_blocks")

LEAST_LINES = 50.0  # of a block
LONGEST_MS = 3_600_000  # a block that takes longer to fill is learnt only
LEAST_KNOWN = 500.0  # lines of its service during which a template must have been known
PRIOR_RHO, PRIOR_BLOCKS = 0.01, 20.0
LEAST_RHO, MOST_RHO = 1e-4, 0.5
MOST_LEFT_OUT = 0.95


@dataclass(frozen=True)
class Blocks:
    """Full blocks of `size` services, with their templates, `(m,)`.

    `place` is the service of a template, `lines` its lines in the block, `published` whether another detector has published it as an
    anomaly, `settled` whether it is known for long enough.

    `seconds` is the time since the last block by which memories fade, `(size,)`; 0 where nothing is learnt.
    """

    size: int
    place: Ints
    lines: Floats
    published: Bools
    settled: Bools
    seconds: Floats

    def sum_by_service(self, numbers: Floats) -> Floats:
        """Sums of `(m,)` by service, `(size,)`."""
        return np.bincount(self.place, weights=numbers, minlength=self.size).astype(np.float64, copy=False)


@dataclass(frozen=True)
class MixturePrediction:
    """Predictive distribution of blocks, and how surprising they are: of templates, `(m,)`, and of services, `(size,)`.

    `counted` are the templates that a block is judged by, `share` what is expected of them and `strength` C, `nats` their surprise;
    `total` is the lines of those, `judged` whether there are enough of both, `score` the block's surprise, NaN where it is not judged.
    """

    sum: Floats
    lines: Floats
    counted: Bools
    share: Floats
    strength: Floats
    nats: Floats
    total: Floats
    judged: Bools
    score: Floats

    def bounds(self, at: Ints, lines: float, blocks: float, outside: float) -> tuple[Floats, Floats]:
        """The central intervals of the shares of templates `at` in blocks of so many lines: those of a beta of the same variance.

        Blocks are taken as independent.
        """
        p, c = self.share[at], self.strength[at]
        strength = np.maximum(blocks * lines * (c + 1) / (c + lines) - 1, 1e-3)
        a, b = p * strength, (1 - p) * strength
        return special.betaincinv(a, b, outside / 2), special.betaincinv(a, b, 1 - outside / 2)


def predict(s: Floats, blocks: Blocks, p: DetectorParameters) -> MixturePrediction:
    """Score blocks by what is known of their templates; nothing is learnt.

    Parameters
    ----------
    s
        States of the templates as `COLUMNS`, shape `(columns, m)`.
    blocks
        The full blocks.
    p
        Half-lives of the shares and of their spread.
    """
    decay = share_left(blocks.seconds, p.mix_half_life_hours)[blocks.place]
    own, lines = s[SUM] * decay, s[LINES] * decay
    counted = blocks.settled & ~blocks.published & (lines >= LEAST_KNOWN)
    kinds = blocks.sum_by_service(counted.astype(float))
    total = blocks.sum_by_service(blocks.lines * counted)
    judged = (kinds >= 2) & (total >= LEAST_LINES)
    raw = np.where(counted, (own + 1 / np.maximum(kinds, 1)[blocks.place]) / (lines + 1), 0.0)
    counted = counted & judged[blocks.place]
    share = np.where(counted, raw / np.maximum(blocks.sum_by_service(raw), 1e-300)[blocks.place], 0.5)
    strength = _strength(s, blocks, share, np.where(counted, total[blocks.place], 0.0), lines, p)
    nats = np.zeros(len(share))
    at = np.flatnonzero(counted)
    nats[at] = share_surprisal(blocks.lines[at], total[blocks.place[at]], share[at], strength[at])
    most = np.zeros(blocks.size)
    np.maximum.at(most, blocks.place, nats)
    tests = np.where(kinds > 2, 2 * kinds, 2.0)
    score = np.where(judged, np.maximum(most - np.log(tests), 0.0), np.nan)
    return MixturePrediction(own, lines, counted, share, strength, nats, total, judged, score)


def _strength(s: Floats, blocks: Blocks, share: Floats, total: Floats, lines: Floats, p: DetectorParameters) -> Floats:
    """Concentration C of each template, `(m,)`; `total` is the lines of the block, 0 where the template does not count."""
    decay = share_left(blocks.seconds, p.spread_half_life_hours)[blocks.place]
    excess, square = s[EXCESS] * decay, s[SQUARE] * decay
    prior = PRIOR_BLOCKS * total * np.maximum(total - 1, 0) * share * (1 - share)
    weight = blocks.sum_by_service(square + prior)
    common = blocks.sum_by_service(excess + PRIOR_RHO * prior) / np.where(weight > 0, weight, 1.0)
    common = np.clip(common, LEAST_RHO, MOST_RHO)[blocks.place]
    weight = square + prior
    rho = np.clip((excess + common * prior) / np.where(weight > 0, weight, 1.0), common, MOST_RHO)
    strength: Floats = 1 / (rho + 1 / (lines + 1)) - 1
    return strength


def share_surprisal(x: Floats, n: Floats, share: Floats, strength: Floats) -> Floats:
    """Surprisal of `x` of `n` lines on the side of the mean where it is, nats, `(m,)`; `share` is expected, `strength` is C."""
    many = x >= n * share
    a, b = share * strength, (1 - share) * strength
    return upper_tail_surprisal(np.where(many, x, n - x), n, np.where(many, a, b), np.where(many, b, a))


def log_pmf(x: Floats, n: Floats, a: Floats, b: Floats) -> Floats:
    """Log probability of `x` of `n` under a beta-binomial distribution with parameters `a` and `b`."""
    choices = special.gammaln(n + 1) - special.gammaln(x + 1) - special.gammaln(n - x + 1)
    found: Floats = choices + special.betaln(x + a, n - x + b) - special.betaln(a, b)
    return found


def upper_tail_surprisal(x: Floats, n: Floats, a: Floats, b: Floats) -> Floats:
    """Surprisal -ln P(X >= x) under a beta-binomial distribution, nats, for `x` above its mean; at least 0."""

    def ratio(k: Floats) -> Floats:
        left = np.maximum(n - k, 0.0)
        return left * (k + a) / ((k + 1) * np.maximum(left - 1 + b, 1e-9))

    here = ratio(x)
    bend = (1 - here) ** 2 + 4 * here * (here - ratio(x + 1))
    closing = np.clip((1 - here + np.sqrt(np.maximum(bend, 0.0))) / 2, 1e-12, 1.0)
    return np.maximum(np.log(closing) - log_pmf(x, n, a, b), 0.0)


def learn(s: Floats, blocks: Blocks, b: MixturePrediction, weight: Floats, p: DetectorParameters) -> None:
    """Learn blocks in place in `s`; templates that were published are not learnt. Without a weight nothing is, and nothing fades.

    Parameters
    ----------
    s, blocks, p
        As for `predict`.
    b
        Its prediction.
    weight
        Weight of each template, 0 to 1, shape `(m,)`.
    """
    fades = weight > 0  # what is published fades: it was not compared either, so it is learnt first when it is back
    weight = weight * ~blocks.published
    left_out = blocks.sum_by_service(np.where(blocks.published, b.sum / np.maximum(b.lines, 1.0), 0.0))
    counted = blocks.sum_by_service(blocks.lines * ~blocks.published) / (1 - np.minimum(left_out, MOST_LEFT_OUT))
    s[SUM] = np.where(fades, b.sum, s[SUM]) + weight * blocks.lines
    s[LINES] = np.where(fades, b.lines, s[LINES]) + weight * counted[blocks.place]
    n, q = b.total[blocks.place], b.share * (1 - b.share)
    weight = weight * b.counted
    decay = np.where(fades, share_left(blocks.seconds, p.spread_half_life_hours)[blocks.place], 1.0)
    s[EXCESS] = s[EXCESS] * decay + weight * ((blocks.lines - n * b.share) ** 2 - n * q)
    s[SQUARE] = s[SQUARE] * decay + weight * n * (n - 1) * q


def combine_states(s: Floats) -> Floats:
    """State of one template that several were all along, `(columns,)`, from theirs, `(columns, n)`: their lines add up."""
    out: Floats = s.sum(axis=1)
    out[LINES] = s[LINES].max()
    return out


def most_block_nats(p: DetectorParameters) -> float:
    """Most nats that one block adds to Page's sum: two in a row reach the threshold."""
    return p.count_nats / 2 + p.allowance_nats


def share_left(seconds: Floats, half_life_hours: float) -> Floats:
    """Share of a memory that is left after `seconds`, `(size,)`."""
    found: Floats = np.exp2(-seconds / (3600.0 * half_life_hours))
    return found
