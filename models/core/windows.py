"""What a detector reads and answers: one window of many series, as arrays by column.

`Windows` holds the statistics of all series that reported in one window. `pipelines.state.window_buffer.WindowBuffer` keeps rows
until their window is complete and hands them on as `Windows`. `models.detection.shard_state.ShardState` holds what is known of all
series of a shard, in tables. `models.detection.shard_state.ShardWindow` is a `Windows` with the rows of its series in these tables.
`models.univariate.compiled_step.Rows` holds the metrics of a window with the rows of their state in the univariate model.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field, fields

import numpy as np

from models.core.arrays import Bools, Floats, Ints, Texts


@dataclass(frozen=True)
class Windows:
    """Statistics of the series that reported in one window; every array has shape `(n_rows,)`.

    Rows are sorted by `series`, each of which has one row at most.

    Attributes
    ----------
    series
        Names, see `models.core.series`.
    n
        Number of points, or of log lines in `logs/` and `template/` series, whose other numbers have no meaning.
    mean, m2
        Mean, and sum of squared distances from it.
    min, max, last
        Smallest, largest and last value; of a counter `last` is its total.
    template, sample
        Template and one line of `template/` series; a label as JSON in `sample` of `label/` series, the name of a rule and its JSON
        of `rule/` series; None elsewhere.
    peers
        What the other hosts of the role of a gauge have: their number, and the 10 % quantile, median and 90 % quantile of their
        means, `(n_rows, 4)`; NaN where it is not known.
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
    peers: Floats = field(default_factory=lambda: np.full((0, 4), np.nan))

    def __post_init__(self) -> None:
        """Without peers, none are known."""
        if len(self.peers) != len(self.series):
            object.__setattr__(self, "peers", np.full((len(self.series), 4), np.nan))

    def __len__(self) -> int:
        return len(self.series)

    @property
    def metrics(self) -> int:
        """How many rows are of metrics: the first ones, as `counter/` and `gauge/` sort before `logs/` and `template/`.

        Of rows of these four alone: labels, changes and rules have been taken out.
        """
        return bisect_left(self.series, "h")

    def span(self, beginning: str) -> slice:
        """The rows of series whose names begin so; `beginning` ends with a slash, and names are sorted."""
        first = bisect_left(self.series, beginning)
        if first == len(self.series) or not self.series[first].startswith(beginning):  # as nearly always
            return slice(first, first)
        return slice(first, bisect_left(self.series, beginning[:-1] + chr(ord("/") + 1)))

    def without_span(self, gone: slice) -> Windows:
        """The rows that are not in `gone`."""
        if gone.start == gone.stop:
            return self
        chosen = np.zeros(len(self), dtype=bool)
        chosen[gone] = True
        return self.without(chosen)

    def without(self, gone: Bools) -> Windows:
        """The rows that are not in `gone`, `(n_rows,)`."""
        return Windows(**{one.name: getattr(self, one.name)[~gone] for one in fields(self)})


@dataclass(frozen=True)
class Scores:
    """Scores of series by what was known before the window was learnt; every array has shape `(n_rows,)`.

    Attributes
    ----------
    series
        Names of the series.
    score
        Surprise, -ln of a tail probability, nats; NaN while the model is warming up.
    value
        The window's mean of a gauge, rate per second of a counter, log lines a minute.
    typical, lower, upper
        What was expected, and an interval around it, in the unit of `value`.
    kind
        `normal`, `warming`, or that of the open episode: `anomaly`, `change`, `new`, `silence`; by rules `muted`, `planned`.
    template
        The text of `template/` series; None elsewhere.
    health
        What a host's score is made of, nats: of metrics the rarity against their healthy state, of log lines their score; NaN while it is
        not known.
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
