"""A joined score as a probability: the pooled law of normal data, and how each series departs from it.

In normal data a joined score r exceeds u_1 < u_2 < ... with probabilities S(u_j): the default law, whose -ln S is
`LAW_NATS` at `EVER_LAW` or `WELL_LAW`. A shard, and a series in it, may go beyond a level more often or less:

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
# joined scores r of simulated normal series of 16 kinds, rows 5 min and 10 s apart, and -ln P(> r): medians over kinds
LAW_NATS = (0.0, 0.69, 1.2, 1.61, 2.3, 3.0, 3.91, 4.61, 5.81, 6.91, 8.11, 9.21, 10.4)
EVER_LAW = (0.0, 0.14, 0.32, 0.43, 0.64, 0.88, 1.22, 1.47, 1.9, 2.35, 2.8, 3.25, 3.8)
WELL_LAW = (0.0, 0.035, 0.08, 0.13, 0.27, 0.46, 0.78, 1.05, 1.5, 1.95, 2.45, 2.95, 3.5)


def default_nats(score: Floats, law: tuple[float, ...]) -> Floats:
    """-ln P(joined score > `score`) under a default law, nats; linear in between, and beyond with the last slope."""
    out = np.interp(score, law, LAW_NATS)
    slope = (LAW_NATS[-1] - LAW_NATS[-2]) / (law[-1] - law[-2])
    out = out + slope * np.maximum(score - law[-1], 0.0)
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
