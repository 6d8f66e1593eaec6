"""What is said of a novelty, window by window: opened once, updated, closed."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Novelty:
    """One statement about one episode of one series. Times are window ends (or starts) in epoch milliseconds.

    `status`  `open` once, then `update` (new evidence, a new peak, another kind), then `close` once.
    `kind`    `anomaly`, `change` (a change of state: the new level, series, service or host is the new normal), `new`
              (a template never seen in a known service) or `silence` (a host or series that stopped).
    `score`   the largest surprise of the episode so far, nats; `evidence` what the episode has gathered in all, nats.
    `typical`, `lower`, `upper` are what was expected when it opened, `value` what was seen at the peak, in `unit`.
    `reason`  one sentence for a person: what was seen, what was expected, since when, how sure.
    `part`    what of the model spoke: `level`, `step`, `mean`, `roughness`, `rhythm`, `local` (a step in a calm hour),
              `spread`, `stuck`, `rate`, `mix`, `silence`, `new host`, `new service`, `new metric` or `new template`.
    `certainty`    the probability that it is no chance (`models.detection.episodes`).
    `provisional`  undecided: it may pass, or turn out to be the new normal.
    `before`, `after`  of a change: the old and the new level, in `unit`; NaN else.
    """

    series: str
    kind: str
    status: str
    start: int
    window_end: int
    score: float
    evidence: float
    value: float
    typical: float
    lower: float
    upper: float
    unit: str
    reason: str
    template: str | None = None
    sample: str | None = None
    part: str = ""
    certainty: float = math.nan
    provisional: bool = False
    before: float = math.nan
    after: float = math.nan
