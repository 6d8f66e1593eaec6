"""Change candidates: a sparse table with a row for each metric whose values do not fit what it has been.

Rows are in the order of the metrics' rows in the table `gauges`.
"""

from __future__ import annotations

from models.core.sparse_table import SparseTable
from models.stats import regression

PART = "change_candidates"
TREND = tuple(f"trend_{name}" for name in regression.COLUMNS)
# Values are in units of `unit` from `anchor`, level and spread of the series when it became a candidate; `worth` is what a row was worth then, and
# `common` the share of the variance that rows of some hours have in common: see `models.univariate.effective_sample`. Times are epoch ms.
CANDIDATE_COLUMNS: dict[str, str] = {
    "anchor": "f8",
    "unit": "f8",
    "worth": "f4",
    "common": "f4",
    "level_start": "f8",  # the last row before the new level
    "level_rows": "f4",
    "level_mean": "f4",
    "level_sum": "f4",
    "level_rise": "f4",  # sum of the products of rows' numbers and values, both less their means
    "level_from": "f4",  # the fast mean before the new level
    "level_nats": "f4",
    "level_against": "f4",
    "spread_start": "f8",
    "spread_rows": "f4",
    "spread_sum": "f4",
    "spread_nats": "f4",
    "spread_against": "f4",
    **dict.fromkeys(TREND, "f4"),
}


class ChangeCandidates(SparseTable):
    """The table of change candidates."""

    KINDS = CANDIDATE_COLUMNS
    WHAT = "change candidates"
