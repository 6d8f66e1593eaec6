"""Series that begin anew: what is known of them is forgotten, their names and places stay."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from models.core.arrays import Ints
from models.core.parameters import DetectorParameters
from models.detection import metric_rows as of
from models.detection.shard_state import HOST_COLUMNS, ShardState
from models.records.novelty import Novelty
from models.stats import gamma_poisson as poisson
from models.stats import template_mixture

HABIT = slice(HOST_COLUMNS.index("trials"), None)
COUNTED = ("lines", "templates", "rows", "metrics", *template_mixture.CONTEXT_COLUMNS)


def begin_anew(state: ShardState, chosen: Mapping[str, Ints], now: int, p: DetectorParameters) -> list[Novelty]:
    """Forget what is known of the chosen rows of each table; answers the closing of episodes that were open on them.

    A host or a service that begins anew has its period of grace again.
    """
    before = now - 1000 * p.window_seconds
    state.univariate.grow(len(state.gauges))
    rows = chosen["gauges"]
    state.gauges.matrix[:, rows] = 0.0
    state.gauges.matrix[of.SEEN, rows] = before
    state.gauges.matrix[of.HOST_WINDOW, rows] = state.host_column("windows")[state.gauges.owner[0, rows]]
    state.gauges.matrix[of.TOTAL, rows] = np.nan
    state.univariate.forget(rows)
    state.change_candidates.forget(rows)
    if state.challengers is not None:
        state.challengers.forget(rows)
    state.counts.matrix[:, chosen["counts"]] = 0.0
    state.counts.matrix[poisson.SEEN, chosen["counts"]] = before
    state.counts.matrix[poisson.LAST_LINE, chosen["counts"]] = now
    state.hosts.matrix[HABIT, chosen["hosts"]] = 0.0
    state.host_column("first")[chosen["hosts"]] = now
    for name in COUNTED:
        state.context_column(name)[chosen["contexts"]] = 0.0
    state.context_column("first")[chosen["contexts"]] = now
    names = {state.gauges.names[row] for row in rows.tolist()}
    names |= {state.counts.names[row] for row in chosen["counts"].tolist()}
    names |= {f"host/{state.hosts.names[row]}" for row in chosen["hosts"].tolist()}
    names |= {f"service/{state.contexts.names[row]}" for row in chosen["contexts"].tolist()}
    for name in names & state.trials.keys():
        del state.trials[name]
    state.control.forget(names)
    return [state.episodes.close(name, now) for name in sorted(names & state.episodes.open.keys())]
