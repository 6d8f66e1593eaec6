"""A joined score as a probability: the pooled law of normal data, and how each series departs from it.

In normal data a joined score r exceeds u_1 < u_2 < ... with probabilities S(u_j): the default law, whose -ln S is
`DEFAULT_NATS` at `DEFAULT_SCORES`. A shard, and a series in it, may go beyond a level more often or less:

    q_j = P(r > u_j | r > u_(j-1)) ~ Beta                  series -> shard -> default law
    E[q_j] = (n_j + kappa Q_j) / (n_(j-1) + kappa)         n_j rows beyond u_j, Q_j the shard's, kappa pseudo-rows

a Polya tree over the tail, centred on the pool (Mauldin, Sudderth & Williams 1992), so a series with little history has
its shard's law and a heavy-tailed one its own. Between two levels -ln P runs in proportion to the default's, beyond the
last one it goes on with the last slope. It fails where normal data are rarer than 1 in kappa: there it is the pool's word.
"""

from __future__ import annotations

import numpy as np

from models.rarity import Ints
from models.windows import Floats

LEVEL_NATS = (0.7, 1.6, 3.2, 5.3, 7.6)
# -ln P(joined score > r) on simulated normal series: see `benchmarks.calibration`
DEFAULT_SCORES = (0.0, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0, 1.3, 1.6, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0)
DEFAULT_NATS = (0.0, 0.1, 0.3, 0.7, 1.2, 2.0, 2.9, 3.9, 4.9, 6.0, 7.4, 8.6, 9.5, 10.3, 11.8)


def default_nats(score: Floats) -> Floats:
    """-ln P(joined score > `score`) under the default law, nats; linear in between, and beyond with the last slope."""
    out = np.interp(score, DEFAULT_SCORES, DEFAULT_NATS)
    slope = (DEFAULT_NATS[-1] - DEFAULT_NATS[-2]) / (DEFAULT_SCORES[-1] - DEFAULT_SCORES[-2])
    out = out + slope * np.maximum(score - DEFAULT_SCORES[-1], 0.0)
    return np.where(np.isnan(score), np.nan, out)


def conditional(tail: Floats, centre: Floats, strength: float) -> Floats:
    """E[q_j], `(levels, n)`; `tail` is `(1 + levels, n)`, all rows and those beyond each level, `centre` `(levels, n)`."""
    out: Floats = (tail[1:] + strength * centre) / (tail[:-1] + strength)
    return out


def default_conditional() -> Floats:
    """Q_j of the default law, `(levels, 1)`."""
    out: Floats = np.exp(-np.diff(LEVEL_NATS, prepend=0.0))[:, None]
    return out


def calibrated(nats: Floats, chances: Floats) -> Floats:
    """-ln of the tail under the tree `chances` `(levels, 1 or n)`, nats, `(n,)`, for default nats `(n,)`."""
    levels = np.array([0.0, *LEVEL_NATS])
    slopes = -np.log(chances) / np.diff(levels)[:, None]
    out = np.zeros(nats.shape)
    for j, slope in enumerate(slopes):
        above = nats - levels[j]
        out += slope * (
            np.clip(above, 0.0, levels[j + 1] - levels[j]) if j + 1 < len(slopes) else np.maximum(above, 0.0)
        )
    return out


def count(tail: Floats, keep: Floats, nats: Floats) -> Floats:
    """The counts `tail`, `(1 + levels, n)`, after a row with default nats `(n,)`; not known counts for nothing."""
    levels = np.array([-1.0, *LEVEL_NATS])[:, None]
    out: Floats = tail * keep + (np.nan_to_num(nats, nan=-2.0) > levels)
    return out


def pooled(tail: Floats, group: Ints, groups: int, strength: float) -> Floats:
    """E[q_j] of each group, `(levels, groups)`: its rows under the default law. `group` is `(n,)`, `tail` as above."""
    total = np.stack([np.bincount(group, weights=row, minlength=groups) for row in tail])
    # float32: the order in which series are added must not be seen
    return conditional(total.astype(np.float32).astype(np.float64), default_conditional(), strength)
