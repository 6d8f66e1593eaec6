"""Limits: leaves rows of `statistics` out where a host or a shard has more than `limits` allow, and says how many with rows `overflow/...`.

The decision depends on the rows of a window alone, so neither partitions nor batches change it. Each limit is applied to what those above it
have kept:

    what is limited                       what is kept
    metrics of a bucket of hosts          the same number of each host, by max-min fairness: a small host keeps all of its rows, however many hosts
                                          somebody makes up. Buckets are summed together, and most of the surplus is gone by then (`HostShares.java`)
    hosts of a shard                      those with the most rows
    labels, changes and rules of a shard  the first that were appended
    metrics or templates of a host        the series with the least hashes: the same ones in each window
    all series of a shard                 as of a bucket
    sample lines of a shard               the rows without the lines, of hosts with more text than their share

A row weighs one for each `NAME_BYTES` of the name of its series; the last row that is kept may exceed the limit by its weight. Most of the
surplus is dropped before it is summed (`pipelines.surplus`), so how many series a host has sent is estimated where more than `SHOWN_NAMES` are
left out, and in a full bucket: hashes are uniform, so the k-th least of n lies at about k / n of their range (k minimum values, relative
standard error 1 / sqrt(k): 0.8 % with k = 15,000). Whoever chooses names for their hashes can only raise the estimate of his own host.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial, reduce

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F
from pyspark.sql.window import WindowSpec

from models.core.limits import LimitParameters
from models.detection.announcements import FIRST as CHANGE
from models.detection.labels import FIRST as LABEL
from models.detection.limits import (
    CHANGES,
    HOSTS,
    LABELS,
    METRICS,
    MOST_READ,
    NAME_BYTES,
    RULES,
    SHOWN_CHARACTERS,
    SHOWN_NAMES,
    TEMPLATES,
)
from models.detection.shard_state import ALL_SERIES
from models.rules.rule_log import MOST_A_WINDOW
from pipelines.series_columns import (
    has_no_host,
    host_of,
    is_level,
    is_metric,
    is_other_templates,
    is_rule,
    is_template,
    offset_in,
    shard_of,
)

ALL = 2**31 - 1  # no limit: the largest int of Java
MOST_DIGITS = 12  # an estimate is 10 to this power at most
MOST_HOSTS = 2  # times `limits.hosts` of a shard are written: `detect`, which knows which hosts are new, needs more than it keeps
MOST_SERIES = 2  # times `limits.all_series` of a shard are written in a window
MOST_BYTES = 16 << 20  # of the sample lines of a shard in a window; the same of its labels, its changes and its rules
BUCKETS = 1024  # of hosts, by the hash of their names: what is summed of each goes on by itself (`SeriesSums.java`)
HOSTS_OF_BUCKET = 2  # a bucket may have as many metrics as so many hosts: in a fleet within its limits few have more
LEAST_RANK = 8  # from fewer hashes of a host it is not estimated how many it sent
BUCKET = "bucket"  # a bound of metrics of a bucket
TEXTS = "texts"  # a bound of sample lines, of which nothing is left out but text


@dataclass(frozen=True)
class Excess:
    """A limit that is exceeded in the window that ends at `window_end`, epoch ms.

    `host` is the quoted host whose rows of one kind are too many; empty for a limit of shards, which `limit` names. `last` is the series of the
    last rule that is read; `share` is how many rows each host of a `bucket` may have.
    """

    window_end: int
    host: str
    limit: str
    last: str = ""
    bucket: int = -1
    share: int = 0


def count_by_window(
    closed: DataFrame, counts: Mapping[str, Column], limits: LimitParameters | None, shards: int
) -> tuple[DataFrame, tuple[str, ...]]:
    """Count the rows of each window by host, then by shard, then by window, in one pass, to find which limits may be exceeded.

    Parameters
    ----------
    closed
        Rows of `extract.closed_windows`.
    counts
        Further aggregates of the rows, by name; they are summed.
    limits
        None to compute `counts` alone.
    shards
        Number of shards.

    Returns
    -------
    tuple of DataFrame and tuple of str
        A row for each window: `window_end`, `counts`, the hosts with too many rows in `found`, and a boolean column for each limit of shards:
        whether some shard may exceed it. Then the names of these boolean columns.
    """
    if limits is None:
        return closed.groupBy("window_end").agg(*aliased(counts)), ()
    summed = aliased({name: F.sum(name) for name in counts})
    by_shard = count_by_shard(count_by_host(closed, counts), summed, limits, shards)
    exceeded = exceeded_limits(limits, shards)
    windows = by_shard.groupBy("window_end").agg(
        F.flatten(F.collect_list("found")).alias("found"), *aliased(exceeded), *summed
    )
    return windows, tuple(exceeded)


def count_by_host(closed: DataFrame, counts: Mapping[str, Column]) -> DataFrame:
    """The rows of each window, host and limit, their weight without and with those of other templates, their bytes of sample lines, and `counts`."""
    limit = F.when(F.col("refused").isNull(), limit_kind())
    host = F.when(limit.isNotNull(), host_of(F.col("series")))
    return closed.groupBy("window_end", host.alias("host"), limit.alias("limit")).agg(
        F.count_if(~is_other_templates()).alias("rows"),
        F.sum(F.when(~is_other_templates(), row_weight())).alias("units"),
        F.sum(row_weight()).alias("with_others"),
        F.sum(F.octet_length("sample")).alias("bytes"),
        *aliased(counts),
    )


def count_by_shard(by_host: DataFrame, summed: Sequence[Column], limits: LimitParameters, shards: int) -> DataFrame:
    """Rows of `count_by_host` by window and shard: hosts with too many rows in `found`, what each limit of shards bounds, and the sums `summed`."""
    most = max_rows_of_host(limits)  # null for labels, changes and rules
    # each level has at least one template, so there are at most as many levels as `with_others` counts templates
    written = F.least("with_others", most) * F.when(F.col("limit") == TEMPLATES, 2).otherwise(1)
    return by_host.groupBy("window_end", shard_of(F.col("host"), shards).alias("shard")).agg(
        F.collect_list(F.when(F.col("units") > most, F.struct("host", "limit"))).alias("found"),
        F.sum(F.when(most.isNotNull(), written)).alias(ALL_SERIES),
        F.count(most).alias(HOSTS),
        F.sum(F.when(F.col("limit") == TEMPLATES, F.col("bytes"))).alias(TEXTS),
        *(F.sum(F.when(F.col("limit") == kind, F.col("rows"))).alias(kind) for kind in MOST_READ),
        *(F.sum(F.when(F.col("limit") == kind, F.col("bytes"))).alias(f"{kind}_bytes") for kind in MOST_READ),
        *summed,
    )


def exceeded_limits(limits: LimitParameters, shards: int) -> dict[str, Column]:
    """For each limit of shards an aggregate of rows of `count_by_shard`: whether some shard may exceed it."""
    of_bucket = HOSTS_OF_BUCKET * limits.metric_rows
    nested = BUCKETS % shards == 0  # then all hosts of a bucket are of one shard
    of_shard = min(series_of_shard(limits, shards), of_bucket if nested else ALL)
    bounds = {ALL_SERIES: of_shard, HOSTS: hosts_of_shard(limits, shards), TEXTS: MOST_BYTES}
    bounds |= MOST_READ
    over = {kind: F.col(kind) > bound for kind, bound in bounds.items()}
    over |= {kind: over[kind] | (F.col(f"{kind}_bytes") > MOST_BYTES) for kind in MOST_READ}
    exceeded = {kind: F.bool_or(F.coalesce(condition, F.lit(False))) for kind, condition in over.items()}
    if not nested:
        exceeded[ALL_SERIES] |= F.coalesce(F.sum(ALL_SERIES) > of_bucket, F.lit(False))
    return exceeded


def aliased(columns: Mapping[str, Column]) -> list[Column]:
    """Columns under these names."""
    return [column.alias(name) for name, column in columns.items()]


def find_excesses(
    closed: DataFrame, windows: Sequence[Row], whole: Iterable[str], limits: LimitParameters
) -> list[Excess]:
    """The limits that are exceeded in windows. `windows` and `whole` are the rows and the names that `count_by_window` returns."""
    over = {(row["window_end"], one["host"], one["limit"]) for row in windows for one in row["found"]}
    over |= {(row["window_end"], "", limit) for row in windows for limit in whole if row[limit]}
    full = [end for end, _, limit in over if limit == RULES]
    last = find_last_rules(closed, full) if full else {}
    found = [Excess(end, host, limit, last.get(end, "") if limit == RULES else "") for end, host, limit in sorted(over)]
    many = [one.window_end for one in found if one.limit == ALL_SERIES]
    return found + (find_bucket_shares(closed, many, limits) if many else [])


def find_bucket_shares(closed: DataFrame, windows: list[int], limits: LimitParameters) -> list[Excess]:
    """The buckets with too many metrics, and the share of each of their hosts. `HostShares.java` leaves enough rows to find the same ones."""
    host = host_of(F.col("series"))
    metrics = closed.where(F.col("refused").isNull() & is_metric() & F.col("window_end").isin(windows))
    hosts = metrics.groupBy("window_end", bucket_of(host).alias("bucket"), host.alias("host")).agg(
        F.least(F.sum(row_weight()), F.lit(most_metrics(limits))).alias("n")
    )
    found = fair_shares(hosts, series_of_bucket(limits), "bucket").orderBy("window_end", "bucket").collect()
    return [Excess(row["window_end"], "", BUCKET, bucket=row["bucket"], share=row["share"]) for row in found]


def find_last_rules(closed: DataFrame, windows: list[int]) -> dict[int, str]:
    """By window, the series of the last rule that is read: the `MOST_A_WINDOW`-th."""
    order = Window.partitionBy("window_end").orderBy("series")
    rules = closed.where(is_rule() & F.col("window_end").isin(windows)).select("window_end", "series")
    found = rules.withColumn("rank", F.row_number().over(order)).where(F.col("rank") == MOST_A_WINDOW).collect()
    return {row["window_end"]: row["series"] for row in found}


def apply_limits(rows: DataFrame, over: Sequence[Excess], limits: LimitParameters, shards: int) -> DataFrame:
    """Leave the surplus out of rows of statistics, which have their `shard`, and add rows of overflow that say how much it was.

    The order of the limits is that of the table above.
    """
    if not over:
        return rows
    rows = rows.withColumns({"host": F.when(~has_no_host(), host_of(F.col("series"))), "limit": limit_kind()})
    counted: list[DataFrame] = []  # what is left out
    unfair: list[DataFrame] = []  # the same of each host with more than its share

    def exceeding(*names: str) -> list[Excess]:
        return [one for one in over if one.limit in names]

    if of_buckets := exceeding(BUCKET):
        rows, left_out = keep_bucket_shares(rows, of_buckets)
        unfair.append(left_out)
    if of_hosts := exceeding(HOSTS):
        rows, left_out = keep_largest_hosts(rows, of_hosts, limits, hosts_of_shard(limits, shards))
        counted.append(left_out)
    if of_people := exceeding(*MOST_READ):
        rows, left_out = keep_first_appended(rows, of_people)
        counted.append(left_out)
    if of_series := [one for one in over if one.host]:
        rows, left_out = keep_least_hashes(rows, of_series, limits)
        counted.append(left_out)
    if of_all := exceeding(ALL_SERIES):
        rows, left_out = keep_fair_shares(rows, of_all, series_of_shard(limits, shards))
        counted.append(summarize_left_out(reduce(DataFrame.unionByName, [*unfair, left_out])))
    if of_texts := exceeding(TEXTS):
        rows = drop_unfair_texts(rows, of_texts)
    name = F.concat_ws("/", F.lit("overflow"), "host", "limit")
    named = [each.withColumn("series", name).drop("host", "limit") for each in counted]
    return reduce(partial(DataFrame.unionByName, allowMissingColumns=True), named, rows.drop("host", "limit"))


def keep_first_appended(rows: DataFrame, over: Sequence[Excess]) -> tuple[DataFrame, DataFrame]:
    """Keep the labels, changes and rules of a shard that were appended first; returns what is kept, and counts of what is left out."""
    later = F.lit(False)  # rules of all shards but the first, whose rows are those of every other
    for one in over:
        if one.limit == RULES:
            after = offset_in(F.col("series")) > F.lit(one.last.rsplit("/", 1)[1])
            later |= is_rule() & (F.col("shard") > 0) & (F.col("window_end") == one.window_end) & after
    chosen = (
        has_no_host()
        & F.col("window_end").isin([one.window_end for one in over])
        & (~is_rule() | (F.col("shard") == 0))
    )
    keys = ["window_end", "shard", "limit"]
    order = Window.partitionBy(*keys).orderBy(offset_in(F.col("series")), "series")
    ranked = rows.where(chosen).withColumns(
        {
            "rank": F.row_number().over(order),
            "bytes": F.sum(F.octet_length("sample")).over(order.rowsBetween(Window.unboundedPreceding, 0)),
        }
    )
    most = F.coalesce(*(F.when(F.col("limit") == kind, F.lit(number)) for kind, number in MOST_READ.items()))
    fits = (F.col("rank") <= most) & (F.col("bytes") <= MOST_BYTES)
    kept = rows.where(~chosen & ~later).unionByName(ranked.where(fits).drop("rank", "bytes"))
    shown = F.when(
        F.col("rank") <= most + SHOWN_NAMES, F.struct("rank", F.substring("series", 1, SHOWN_CHARACTERS).alias("name"))
    )
    first = F.slice(F.array_sort(F.collect_list(shown)), 1, SHOWN_NAMES)
    counted = (
        ranked.where(~fits)
        .groupBy(*keys)
        .agg(
            F.count(F.lit(1)).alias("n"),
            F.max("rank").cast("double").alias("last"),
            F.to_json(first["name"]).alias("sample"),
        )
    )
    return kept, counted.withColumn("host", F.lit(""))


def keep_least_hashes(rows: DataFrame, over: Sequence[Excess], limits: LimitParameters) -> tuple[DataFrame, DataFrame]:
    """Keep the series of a host with the least hashes.

    Returns what is kept, and of each host how many rows were left out (`n`) of how many (`last`), with the first names (`sample`):
    `window_end, host, limit, shard, n, last, sample`.
    """
    keys = ["window_end", "host", "limit"]
    flooded = as_table(rows, over).select(*keys, F.lit(True).alias("flooded"))
    joined = rows.join(F.broadcast(flooded), keys, "left")
    order = Window.partitionBy(*keys, is_level()).orderBy("hash", "series")
    most = max(limits.metric_rows, limits.template_rows) + SHOWN_NAMES
    ranked = (
        joined.where(F.col("flooded"))
        .withColumn("hash", F.xxhash64("series"))
        .withColumns({"rank": F.row_number().over(order), "before": weight_before(order)})
        .where(F.col("rank") <= most)  # a constant: partitions are cut before they are brought together
    )
    fits, shown = F.col("before") < max_rows_of_host(limits), F.col("before") < max_rows_of_host(limits) + SHOWN_NAMES
    within = joined.where(F.col("flooded").isNull())
    kept = within.unionByName(ranked.where(fits).drop("rank", "hash", "before")).drop("flooded")
    names = F.array_sort(F.collect_list(F.substring("series", 1, SHOWN_CHARACTERS)))
    counted = (
        ranked.where(~fits & ~is_level() & shown)
        .groupBy(*keys, "shard")
        .agg(
            F.to_json(names).alias("sample"),
            F.min("rank").alias("first"),
            F.max("rank").alias("rank"),
            F.max("hash").alias("hash"),
            F.max(F.col("before") + row_weight()).alias("units"),
        )
        .withColumn("sent", estimate_sent(F.col("units") < max_rows_of_host(limits) + SHOWN_NAMES))
    )
    n = (F.col("sent") - F.col("first") + 1).cast("long")
    return kept, counted.select(*keys, "shard", n.alias("n"), F.col("sent").cast("double").alias("last"), "sample")


def estimate_sent(known: Column) -> Column:
    """How many names there were. Where all are `known` it is the largest `rank`; else an estimate from the `hash` at that rank, of three digits."""
    share = (F.col("hash").cast("double") + F.lit(2.0**63)) / F.lit(2.0**64)
    estimate = F.least((F.col("rank") - 1) / F.greatest(share, F.lit(2.0**-64)), F.lit(10.0**MOST_DIGITS)).cast("long")
    rounded = [F.when(estimate >= 10**d, F.round(estimate, 2 - d)) for d in range(MOST_DIGITS, 2, -1)]
    there = F.col("rank").cast("long")
    return F.when(known, there).otherwise(F.greatest(F.coalesce(*rounded, estimate), there))


def keep_largest_hosts(
    rows: DataFrame, over: Sequence[Excess], limits: LimitParameters, most: int
) -> tuple[DataFrame, DataFrame]:
    """As `keep_least_hashes` of hosts: keep the `most` hosts of a shard with the most rows, of which no more count than a host may have."""
    crowded = F.col("window_end").isin([one.window_end for one in over])
    keys = ["window_end", "shard", "host"]
    found = rows.where(crowded & F.col("host").isNotNull()).groupBy(*keys, "limit", is_level().alias("of_level"))
    kept_rows = F.least(F.count(F.lit(1)), max_rows_of_host(limits)).alias("rows")
    hosts = found.agg(kept_rows).groupBy(*keys).agg(F.sum("rows").alias("rows"))
    order = Window.partitionBy("window_end", "shard").orderBy(F.desc("rows"), F.xxhash64("host"), "host")
    gone = hosts.withColumn("rank", F.row_number().over(order)).where(F.col("rank") > most)
    kept = rows.join(gone.select(*keys), keys, "left_anti")
    names = F.array_sort(F.collect_list(F.when(F.col("rank") <= most + SHOWN_NAMES, F.col("host"))))
    counted = gone.groupBy("window_end", "shard").agg(
        F.count(F.lit(1)).alias("n"), F.max("rank").cast("double").alias("last"), F.to_json(names).alias("sample")
    )
    return kept, counted.select("*", F.lit("").alias("host"), F.lit(HOSTS).alias("limit"))


def keep_bucket_shares(rows: DataFrame, over: Sequence[Excess]) -> tuple[DataFrame, DataFrame]:
    """As `keep_fair_shares` of the metrics of buckets.

    How many metrics a host had that has more than its share is estimated. Where a bucket has more hosts than it may have rows, one row of each
    host is left before this, and those are counted.
    """
    bucket = F.when(F.col("limit") == METRICS, bucket_of(F.col("host")))
    looked_at = F.col("before") <= F.col("share")  # others may have gone before
    return keep_shares(
        rows.withColumn("bucket", bucket),
        as_table(rows, over),
        "bucket",
        looked_at,
        estimate_sent(F.col("rank") < LEAST_RANK),
    )


def keep_fair_shares(rows: DataFrame, over: Sequence[Excess], most: int) -> tuple[DataFrame, DataFrame]:
    """Keep at most `most` rows of a shard: of each host up to its fair share, those with the least hashes.

    Returns what is kept, and a row for each host that has lost some: `window_end, shard, share, n, name`, the first name that is left out.
    """
    full = F.col("window_end").isin([one.window_end for one in over]) & F.col("host").isNotNull()
    own = F.when(full, F.col("shard"))
    hosts = rows.where(full).groupBy("window_end", "shard", "host").agg(F.sum(row_weight()).alias("n"))
    shares = fair_shares(hosts, most).withColumnRenamed("shard", "group")
    return keep_shares(rows.withColumn("group", own), shares, "group", F.lit(True), F.col("rank"))


def keep_shares(
    rows: DataFrame, shares: DataFrame, group: str, looked_at: Column, sent: Column
) -> tuple[DataFrame, DataFrame]:
    """As `keep_fair_shares`, with given `shares` of each window and `group`, a column of `rows` that is dropped.

    `sent` is how many rows a host had, an expression of the `rank` and the `hash` of its last row that is `looked_at`.
    """
    joined = rows.join(F.broadcast(shares.select("window_end", group, "share")), ["window_end", group], "left")
    host, chosen = ["window_end", "host"], F.col("share").isNotNull()
    order = Window.partitionBy(*host, chosen).orderBy("hash", "series")
    ranked = (
        joined.withColumn("hash", F.xxhash64("series"))
        .withColumns({"rank": F.row_number().over(order), "before": weight_before(order)})
        .where(~chosen | looked_at)
    )
    fits = F.col("before") < F.col("share")
    kept = ranked.where(~chosen | fits).drop(group, "share", "hash", "rank", "before")
    name = F.when(~fits, F.struct("rank", F.substring("series", 1, SHOWN_CHARACTERS).alias("name")))
    of_hosts = (
        ranked.where(chosen)
        .groupBy(*host, "shard")
        .agg(
            F.max("share").alias("share"),
            F.max("rank").alias("rank"),
            F.max("hash").alias("hash"),
            F.count_if(fits).alias("kept"),
            # where one is left of each host, there may have been more of any
            F.bool_or(~fits | (F.col("share") == 1)).alias("cut"),
            F.min(name)["name"].alias("name"),
        )
    )
    return kept, of_hosts.where("cut").select("window_end", "shard", "share", (sent - F.col("kept")).alias("n"), "name")


def summarize_left_out(hosts: DataFrame) -> DataFrame:
    """What was left out of each shard, from the hosts that `keep_fair_shares` returns. `last` is the least share in the shard."""
    return (
        hosts.groupBy("window_end", "shard")
        .agg(
            F.greatest(F.sum("n"), F.lit(1)).alias("n"),
            F.min("share").cast("double").alias("last"),
            F.to_json(F.slice(F.array_sort(F.collect_list("name")), 1, SHOWN_NAMES)).alias("sample"),
        )
        .select("*", F.lit("").alias("host"), F.lit(ALL_SERIES).alias("limit"))
    )


def drop_unfair_texts(rows: DataFrame, over: Sequence[Excess]) -> DataFrame:
    """Remove the sample lines of hosts that have more than their fair share of the `MOST_BYTES` of a shard. No row is left out."""
    full = F.col("window_end").isin([one.window_end for one in over]) & is_template()
    shard = ["window_end", "shard"]
    texts = (
        rows.where(full).groupBy(*shard, "host").agg(F.coalesce(F.sum(F.octet_length("sample")), F.lit(0)).alias("n"))
    )
    long = texts.join(F.broadcast(fair_shares(texts, MOST_BYTES)), shard).where(F.col("n") > F.col("share"))
    joined = rows.join(long.select(*shard, "host", F.lit(True).alias("long")), [*shard, "host"], "left")
    sample = F.when(F.col("long") & is_template(), F.lit(None).cast("string")).otherwise(F.col("sample"))
    return joined.withColumn("sample", sample).drop("long")


def fair_shares(hosts: DataFrame, most: int, group: str = "shard") -> DataFrame:
    """Max-min fair shares: how many rows each host may have, `share`, at least one, in shards with more than `most` rows.

    `hosts` has the number of rows of each, `n`. In ascending order of `n` a host is offered an equal part of what those before it have left;
    the part of the first one that has more is the share of it and of all after it. `group` names another column than `shard`.
    """
    order = Window.partitionBy("window_end", group).orderBy("n", "host")
    before = F.coalesce(F.sum("n").over(order.rowsBetween(Window.unboundedPreceding, -1)), F.lit(0))
    hosts_left = F.count(F.lit(1)).over(order.rowsBetween(Window.currentRow, Window.unboundedFollowing))
    parts = hosts.withColumn("part", F.floor((F.lit(most) - before) / hosts_left)).where(F.col("n") > F.col("part"))
    share = F.greatest(F.max("part"), F.lit(1)).alias("share")
    return parts.groupBy("window_end", group).agg(share)


def series_of_shard(limits: LimitParameters, shards: int) -> int:
    """How many rows of series are written of a shard in a window at most."""
    return limits.of_shard(shards).all_series * MOST_SERIES


def most_metrics(limits: LimitParameters) -> int:
    """How many metrics of a host are looked at in a window: `SHOWN_NAMES` more than are written, to name some that are left out."""
    return limits.metric_rows + SHOWN_NAMES


def series_of_bucket(limits: LimitParameters) -> int:
    """How many metrics of a bucket of hosts are summed in a window at most."""
    return HOSTS_OF_BUCKET * most_metrics(limits)


def hosts_of_shard(limits: LimitParameters, shards: int) -> int:
    """How many hosts of a shard have rows in a window at most."""
    return limits.of_shard(shards).hosts * MOST_HOSTS


def as_table(rows: DataFrame, over: Sequence[Excess]) -> DataFrame:
    """Excesses as a table. Made from JSON, because a DataFrame made of Python values would start a Python worker."""
    ddl = "array<struct<window_end:bigint,host:string,limit:string,bucket:int,share:bigint>>"
    found = F.from_json(F.lit(json.dumps([asdict(one) for one in over])), ddl)
    return rows.sparkSession.range(1).select(F.inline(found))


def max_rows_of_host(limits: LimitParameters) -> Column:
    """How many rows a host may have in a window of the kind in the column `limit`; null for labels, changes and rules."""
    return F.when(F.col("limit") == METRICS, limits.metric_rows).when(F.col("limit") == TEMPLATES, limits.template_rows)


def bucket_of(host: Column) -> Column:
    """The bucket of a quoted host, from 0. The metrics of a bucket are summed together (`SeriesSums.java`)."""
    return shard_of(host, BUCKETS)


def row_weight() -> Column:
    """How much a row counts towards a limit: one for each `NAME_BYTES` of the name of its series."""
    return F.ceil(F.octet_length("series") / NAME_BYTES)


def weight_before(order: WindowSpec) -> Column:
    """The weight of the rows before a row."""
    return F.sum(row_weight()).over(order.rowsBetween(Window.unboundedPreceding, 0)) - row_weight()


def limit_kind() -> Column:
    """The limit that a row counts towards. Levels count towards that of templates."""
    series, lines = F.col("series"), is_template() | is_level()
    of_limit = F.when(is_metric(), METRICS).when(lines, TEMPLATES).when(is_rule(), RULES)
    return of_limit.when(series.startswith(CHANGE), CHANGES).when(series.startswith(LABEL), LABELS)
