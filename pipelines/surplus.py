"""Drops rows that `overflow` would leave out anyway before they enter the state, so that a flood takes no more memory than what is kept of it.

`overflow` keeps the N series of a host with the least hashes. Once N series with smaller hashes have been seen in a window, a series cannot be
among the least any more, whatever follows: dropping it changes memory and no result. Metrics are dropped where points are summed (`SumsBlock`),
log lines before they are counted; a line whose template is dropped still counts for its level.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from models.core.limits import LimitParameters
from models.detection.limits import SHOWN_NAMES
from pipelines.jvm import Needed
from pipelines.overflow import ALL, most_metrics, series_of_bucket
from pipelines.series_columns import is_other_templates, is_template, level_series


def needed_series(limits: LimitParameters | None) -> Needed:
    """How many metric series of a host and of a bucket of hosts a window needs at most."""
    return Needed(ALL, ALL) if limits is None else Needed(most_metrics(limits), series_of_bucket(limits))


def drop_surplus_lines(lines: DataFrame, limits: LimitParameters | None) -> DataFrame:
    """Lines of `extract.admit_or_refuse`, where a line of a template that `overflow` would leave out counts for the other templates of its level."""
    if limits is None:
        return lines
    most = limits.template_rows + SHOWN_NAMES
    columns = lines.columns
    template = F.when(is_template(), is_among_least(F.col("series"), most)).otherwise(F.lit(True))
    others = F.concat(level_series(F.col("series"), "template"), F.lit("/"))
    marked = lines.withColumn("kept", template).withColumns(
        {
            "series": F.when(F.col("kept"), F.col("series")).otherwise(others),
            **{name: F.when(F.col("kept"), F.col(name)) for name in ("template", "message")},
        }
    )
    level = F.when(is_other_templates(), is_among_least(level_series(F.col("series"), "logs"), most)).otherwise(
        F.lit(True)
    )
    return marked.where(level).select(*columns)


def is_among_least(series: Column, most: int) -> Column:
    """Whether a series can still be among the `most` of its kind and host with the least hashes in its window (the column `window`)."""
    owner = F.substring_index(series, "/", 2)
    window = F.unix_millis("window")
    return F.call_function("kappa_among_least", window, owner, F.xxhash64(series), F.lit(most))
