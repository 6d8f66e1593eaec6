"""What a flood sends and `overflow` would leave out goes before it is kept, so a flood takes no more memory than what is kept of it.

Kept are the least hashes of a host's series in a window. A series that has as many with smaller hashes before it now has as many at
the end, whatever comes in between and however the log is cut into batches: without it the least are the same. Metrics go where points are
summed (`SumsBlock`), log lines before they are counted. Of a log line whose template goes its level still counts. What goes
early is therefore a matter of memory alone, and no part of a result.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from models.core.limits import LimitParameters
from models.detection.limits import SHOWN_NAMES
from pipelines.jvm import Needed
from pipelines.overflow import ALL, level_of, most_metrics, of_other_templates, of_template, series_of_bucket


def needed_series(limits: LimitParameters | None) -> Needed:
    """How many metric series of a window are needed at most."""
    return Needed(ALL, ALL) if limits is None else Needed(most_metrics(limits), series_of_bucket(limits))


def lines_without(lines: DataFrame, limits: LimitParameters | None) -> DataFrame:
    """Lines of `extract.admitted`; those of templates that will be left out count for the other templates of their level."""
    if limits is None:
        return lines
    most = limits.template_rows + SHOWN_NAMES
    columns = lines.columns
    template = F.when(of_template(), may_be_kept(F.col("series"), most)).otherwise(F.lit(True))
    others = F.concat(level_of(F.col("series"), "template"), F.lit("/"))
    marked = lines.withColumn("kept", template).withColumns(
        {
            "series": F.when(F.col("kept"), F.col("series")).otherwise(others),
            **{name: F.when(F.col("kept"), F.col(name)) for name in ("template", "message")},
        }
    )
    level = F.when(of_other_templates(), may_be_kept(level_of(F.col("series"), "logs"), most)).otherwise(F.lit(True))
    return marked.where(level).select(*columns)


def may_be_kept(series: Column, most: int) -> Column:
    """Whether a series may be among the `most` of its kind and host with the least hashes in the column `window`."""
    owner = F.substring_index(series, "/", 2)
    window = F.unix_millis("window")
    return F.call_function("kappa_among_least", window, owner, F.xxhash64(series), F.lit(most))
