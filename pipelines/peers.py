"""Adds to each gauge the quantiles of its peers: the values of the other hosts with the same role in the same window.

A role is a service with a metric and its labels. A gauge without a service has no role, because hosts of all services would be its peers. Where a
role has `LEAST_HOSTS` hosts in a window, each of its rows gets the number of the others, and their 10 % quantile, median and 90 % quantile.

Comparing about once a minute suffices to see a host drift away, so only some windows are compared (`is_compared`): of windows of ten seconds every
seventh. Seven windows are not a whole minute, so hosts that report every 15, 30 or 60 s are compared as well.

The result depends on sorted values alone, so neither the order of rows nor partitions matter. The values of a role are sorted once; the quantiles
without a row's own value follow from nine of them, so a role of 100,000 hosts takes one sort and constant time for each row.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from models.records.records import PEERS

LEAST_HOSTS = 6
QUANTILES = dict(zip(PEERS[1:], (0.1, 0.5, 0.9), strict=True))


def is_compared(window_end: int, window_seconds: int) -> bool:
    """Whether the hosts of a role are compared in the window that ends at `window_end`, epoch ms."""
    return window_end % comparison_interval_ms(window_seconds) == 0


def comparison_interval_ms(window_seconds: int) -> int:
    """The time between two windows that are compared, ms."""
    every = 60 // window_seconds + 1 if window_seconds < 60 else 1
    return 1000 * window_seconds * every


def with_peers(rows: DataFrame, windows: Iterable[int], window_seconds: int) -> DataFrame:
    """Rows of `statistics` with the columns `PEERS`, null where a window is not compared, or a series has no role with enough hosts.

    `windows` are the ends of the rows' windows, epoch ms.
    """
    kinds = {name: "double" for name in QUANTILES} | {"peers": "long"}
    without_peers = {name: F.lit(None).cast(kinds[name]) for name in PEERS}
    if not any(is_compared(end, window_seconds) for end in windows):
        return rows.withColumns(without_peers)
    series = F.col("series")
    role = F.element_at(F.split(series, "/", 3), 3)  # without a service it begins with a slash
    # Not the list of windows: Spark would generate and compile other code for each.
    compared = F.col("window_end") % comparison_interval_ms(window_seconds) == 0
    gauge = series.startswith("gauge/") & compared & ~role.startswith("/")
    mine = rows.where(gauge).withColumn("role", role)
    of_role = (
        mine.groupBy("window_end", "role")
        .agg(F.sort_array(F.collect_list("mean")).alias("sorted"))
        .where(F.size("sorted") >= LEAST_HOSTS)
        .select("window_end", "role", (F.size("sorted") - 1).cast("long").alias("peers"), *values_around_quantiles())
    )
    found = [quantile_without(F.col("mean"), F.col(f"{name}_around")).alias(name) for name in QUANTILES]
    joined = mine.join(of_role, ["window_end", "role"], "left").select(*rows.columns, "peers", *found)
    return rows.where(~gauge).withColumns(without_peers).unionByName(joined)


def values_around_quantiles() -> list[Column]:
    """For each quantile the three sorted values of a role around its place, and the fraction of the place between two of them."""
    others = F.size("sorted") - 1
    found = []
    for name, share in QUANTILES.items():
        exact = F.lit(share) * (others - 1)
        # The extremes decide nothing: one bad host would be the spread of all others.
        place = exact if share == 0.5 else F.greatest(F.least(exact, others - 2.0), F.lit(1.0))
        first = F.floor(place).cast("int")
        values = [F.get("sorted", first + step).alias(f"at{step}") for step in range(3)]
        found.append(F.struct(*values, (place - first).alias("between")).alias(f"{name}_around"))
    return found


def quantile_without(own: Column, around: Column) -> Column:
    """The quantile of the values of a role without `own`: each value from `own` on moves one place down in the order."""
    at = [around[f"at{step}"] for step in range(3)]
    first, second = (F.when(at[step] < own, at[step]).otherwise(at[step + 1]) for step in range(2))
    return F.least(first + (second - first) * around["between"], second)  # rounded, it might be beyond
