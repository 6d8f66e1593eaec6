"""The rows that a detector reads and the rows that it answers with: one window of many series, column by column."""

from __future__ import annotations

from dataclasses import dataclass, fields

from models.core.arrays import Bools, Floats, Ints, Texts


@dataclass(frozen=True)
class Windows:
    """Statistics of the series that reported in one window; every array has shape `(n_rows,)`.

    Rows are sorted by `series` and no series stands twice. For count series (`logs/`, `template/`) only `n` has a
    meaning; `template` and `sample` are texts on `template/` rows and None elsewhere.
    """

    series: Texts
    n: Ints
    mean: Floats
    m2: Floats
    min: Floats
    max: Floats
    last: Floats
    template: Texts
    sample: Texts

    def __len__(self) -> int:
        return len(self.series)

    def without(self, gone: Bools) -> Windows:
        """The rows that are not `gone`, `(n_rows,)`."""
        return Windows(**{field.name: getattr(self, field.name)[~gone] for field in fields(self)})


@dataclass(frozen=True)
class Scores:
    """What the model said of each series before it learnt from the window; every array has shape `(n_rows,)`.

    `score` is surprise in nats, -ln of a tail probability, NaN while the model is warming up. `value` is what was
    compared (the window's mean, a rate per second, a count); `typical`, `lower`, `upper` are in the same unit.
    `kind` is `normal`, `warming`, `anomaly`, `change`, `new` or `silence`; by rules `muted` or `planned`. `health` is what
    the score of a host is made of (`host_score`): of a metric the greater of what is unusual ever and what is not healthy
    now, of lines their score; NaN while it is not known. `template` is a text on `template/` rows and None elsewhere.
    """

    series: Texts
    score: Floats
    value: Floats
    typical: Floats
    lower: Floats
    upper: Floats
    kind: Texts
    template: Texts
    health: Floats
