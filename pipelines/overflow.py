"""Rows of hosts that send far more than may be known are left out of `statistics`, and counted; and of shards with many such hosts.

Decided from the rows of a window alone, so the number of partitions and of batches changes nothing. Of a host the rows with the least
hashes of their series are kept, so a host that sends the same series in each window keeps the same ones; most of the others are gone
before they are summed (`pipelines.surplus`). A row counts as one for each `NAME_BYTES` of the name of its series, and the last one that is kept
may come to more than there is room for.

A shard with more rows than twice the series that it may have gives each of its hosts as many as the others (max-min fairness): a host that
sends no more than that keeps all of its rows, however many hosts somebody makes up. The same holds of the metrics of each bucket of hosts,
which are summed together: there all has gone already but what shows that there was more (`HostShares.java`).

Of labels, changes and rules of a shard the first that were appended are written.

How many were sent is estimated where `SHOWN_NAMES` more than may be kept were there, and of hosts in a bucket that is too full: hashes
are spread evenly, so among n of them the k-th least is about k / n of the way (k minimum values; its standard error is 1 / sqrt(k),
0.8 % of 15,000). It depends on these least hashes alone. Whoever chooses names for their hashes makes the estimate of his own host larger.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import reduce

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
from models.detection.logged_rules import FIRST as RULE
from models.detection.shard_state import ALL_SERIES
from models.rules.rule_log import MOST_A_WINDOW

ALL = 2**31 - 1  # the largest int of Java
MOST_DIGITS = 12  # an estimate is 10 to this power at most
MOST_HOSTS = 2  # times the hosts of the limit are written in a window: of so many, detect knows which are new
MOST_SERIES = 2  # times the series of the limit are written of a shard in a window
MOST_BYTES = 16 << 20  # of the sample lines of a shard in a window; the same of its labels, its changes and its rules
BUCKETS = 1024  # of hosts, by the hash of their names: what is summed of each goes on by itself (`SeriesSums.java`)
HOSTS_OF_BUCKET = 2  # a bucket may have as many metrics as so many hosts: in a fleet within its limits few have more
LEAST_RANK = 8  # from fewer hashes of a host it is not estimated how many it sent
BUCKET = "bucket"  # a bound of metrics of a bucket
TEXTS = "texts"  # a bound of sample lines, of which nothing is left out but text


@dataclass(frozen=True)
class Excess:
    """A host whose rows of one kind are too many in a window; `host` is quoted. Of hosts, of all series, and of rules, it is empty.

    `last` is the series of the last rule that is read, where there are more; `share` is what each host of a `bucket` may have.
    """

    window_end: int
    host: str
    limit: str
    last: str = ""
    bucket: int = -1
    share: int = 0


def by_window(
    closed: DataFrame, counts: Mapping[str, Column], limits: LimitParameters | None, shards: int
) -> tuple[DataFrame, tuple[str, ...]]:
    """Rows of windows counted by host, these by shard, and these by window, in one pass.

    Parameters
    ----------
    closed
        Rows as `extract.closed_windows` answers them.
    counts
        Further aggregates of the rows, to be summed, by name.
    limits
        None to count nothing else.
    shards
        Their number.

    Returns
    -------
    tuple
        A row for each window: `window_end`, `counts`, hosts that have too many rows in `found`, and for each limit of a shard, whose names are the
        second part, whether a shard may have more.
    """
    if limits is None:
        return closed.groupBy("window_end").agg(*named(counts)), ()
    limit = F.when(F.col("refused").isNull(), limit_of())
    host = F.when(limit.isNotNull(), host_of(F.col("series")))
    by_host = closed.groupBy("window_end", host.alias("host"), limit.alias("limit")).agg(
        F.count_if(~of_other_templates()).alias("rows"),
        F.sum(F.when(~of_other_templates(), units())).alias("units"),
        F.sum(units()).alias("with_others"),
        F.sum(F.octet_length("sample")).alias("bytes"),
        *named(counts),
    )
    most = most_rows(limits)  # null of what people write
    # a level has a template at least: of `with_others` there are as many levels or fewer
    written = F.least("with_others", most) * F.when(F.col("limit") == TEMPLATES, 2).otherwise(1)
    by_shard = by_host.groupBy("window_end", shard_of(F.col("host"), shards).alias("shard")).agg(
        F.collect_list(F.when(F.col("units") > most, F.struct("host", "limit"))).alias("found"),
        F.sum(F.when(most.isNotNull(), written)).alias(ALL_SERIES),
        F.count(most).alias(HOSTS),
        F.sum(F.when(F.col("limit") == TEMPLATES, F.col("bytes"))).alias(TEXTS),
        *(F.sum(F.when(F.col("limit") == kind, F.col("rows"))).alias(kind) for kind in MOST_READ),
        *(F.sum(F.when(F.col("limit") == kind, F.col("bytes"))).alias(f"{kind}_bytes") for kind in MOST_READ),
        *named({name: F.sum(name) for name in counts}),
    )
    of_bucket = HOSTS_OF_BUCKET * limits.metric_rows
    nested = BUCKETS % shards == 0  # then all hosts of a bucket are of one shard
    of_shard = min(series_of_shard(limits, shards), of_bucket if nested else ALL)
    bounds = {ALL_SERIES: of_shard, HOSTS: hosts_of_shard(limits, shards), TEXTS: MOST_BYTES}
    bounds |= MOST_READ
    whole = {kind: F.col(kind) > bound for kind, bound in bounds.items()}
    whole |= {kind: whole[kind] | (F.col(f"{kind}_bytes") > MOST_BYTES) for kind in MOST_READ}
    found = {kind: F.bool_or(F.coalesce(over, F.lit(False))) for kind, over in whole.items()}
    if not nested:
        found[ALL_SERIES] |= F.coalesce(F.sum(ALL_SERIES) > of_bucket, F.lit(False))
    windows = by_shard.groupBy("window_end").agg(
        F.flatten(F.collect_list("found")).alias("found"),
        *named(found),
        *named({name: F.sum(name) for name in counts}),
    )
    return windows, tuple(whole)


def named(columns: Mapping[str, Column]) -> list[Column]:
    return [column.alias(name) for name, column in columns.items()]


def excesses(closed: DataFrame, windows: Sequence[Row], whole: Iterable[str], limits: LimitParameters) -> list[Excess]:
    """What is too much in windows, which are rows of `by_window`, whose limits of shards are `whole`."""
    over = {(row["window_end"], one["host"], one["limit"]) for row in windows for one in row["found"]}
    over |= {(row["window_end"], "", limit) for row in windows for limit in whole if row[limit]}
    full = [end for end, _, limit in over if limit == RULES]
    last = last_rules(closed, full) if full else {}
    found = [Excess(end, host, limit, last.get(end, "") if limit == RULES else "") for end, host, limit in sorted(over)]
    many = [one.window_end for one in found if one.limit == ALL_SERIES]
    return found + (shares_of_buckets(closed, many, limits) if many else [])


def shares_of_buckets(closed: DataFrame, windows: list[int], limits: LimitParameters) -> list[Excess]:
    """The buckets of windows with too many metrics, as `HostShares.java` finds them: what it has left is enough to find them again."""
    host = host_of(F.col("series"))
    metrics = closed.where(F.col("refused").isNull() & of_metric() & F.col("window_end").isin(windows))
    hosts = metrics.groupBy("window_end", bucket_of(host).alias("bucket"), host.alias("host")).agg(
        F.least(F.sum(units()), F.lit(most_metrics(limits))).alias("n")
    )
    found = fair_shares(hosts, series_of_bucket(limits), "bucket").orderBy("window_end", "bucket").collect()
    return [Excess(row["window_end"], "", BUCKET, bucket=row["bucket"], share=row["share"]) for row in found]


def last_rules(closed: DataFrame, windows: list[int]) -> dict[int, str]:
    """The series of the last rule of each window that is read."""
    order = Window.partitionBy("window_end").orderBy("series")
    rules = closed.where(of_rule() & F.col("window_end").isin(windows)).select("window_end", "series")
    found = rules.withColumn("rank", F.row_number().over(order)).where(F.col("rank") == MOST_A_WINDOW).collect()
    return {row["window_end"]: row["series"] for row in found}


def within(rows: DataFrame, over: Sequence[Excess], limits: LimitParameters, shards: int) -> DataFrame:
    """Rows of statistics with their `shard`, without those that are too many, and rows of overflow that say how many these are."""
    if not over:
        return rows
    rows = rows.withColumns({"host": F.when(~of_people(), host_of(F.col("series"))), "limit": limit_of()})
    more: list[DataFrame] = []
    of_buckets = [one for one in over if one.limit == BUCKET]
    unfair: list[DataFrame] = []  # of hosts with more than their shares
    if of_buckets:
        rows, left_out = within_buckets(rows, of_buckets)
        unfair.append(left_out)
    of_hosts = [one for one in over if one.limit == HOSTS]
    if of_hosts:
        rows, left_out = without_hosts(rows, of_hosts, limits, hosts_of_shard(limits, shards))
        more.append(left_out)
    of_shards = [one for one in over if one.limit in MOST_READ]
    if of_shards:
        rows, left_out = first_appended(rows, of_shards)
        more.append(left_out)
    of_series = [one for one in over if one.host]
    if of_series:
        rows, left_out = without_series(rows, of_series, limits)
        more.append(left_out)
    of_all = [one for one in over if one.limit == ALL_SERIES]
    if of_all:
        rows, left_out = with_fair_shares(rows, of_all, series_of_shard(limits, shards))
        more.append(all_left_out(reduce(DataFrame.unionByName, [*unfair, left_out])))
    of_texts = [one for one in over if one.limit == TEXTS]
    if of_texts:
        rows = with_fair_texts(rows, of_texts)
    kept = rows.drop("host", "limit")
    for each in more:
        name = F.concat_ws("/", F.lit("overflow"), "host", "limit")
        row = each.withColumn("series", name).drop("host", "limit")
        kept = kept.unionByName(row, allowMissingColumns=True)
    return kept


def first_appended(rows: DataFrame, over: Sequence[Excess]) -> tuple[DataFrame, DataFrame]:
    """The rows without what people have written that a shard does not read, and what was left out."""
    later = F.lit(False)  # rules of all shards but the first, whose rows are those of every other
    for one in over:
        if one.limit == RULES:
            after = offset_of(F.col("series")) > F.lit(one.last.rsplit("/", 1)[1])
            later |= of_rule() & (F.col("shard") > 0) & (F.col("window_end") == one.window_end) & after
    chosen = (
        of_people() & F.col("window_end").isin([one.window_end for one in over]) & (~of_rule() | (F.col("shard") == 0))
    )
    keys = ["window_end", "shard", "limit"]
    order = Window.partitionBy(*keys).orderBy(offset_of(F.col("series")), "series")
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


def without_series(rows: DataFrame, over: Sequence[Excess], limits: LimitParameters) -> tuple[DataFrame, DataFrame]:
    """The rows that are kept, and what was left out: `window_end, host, limit, shard, n, last, sample`."""
    keys = ["window_end", "host", "limit"]
    flooded = literal(rows, over).select(*keys, F.lit(True).alias("flooded"))
    joined = rows.join(F.broadcast(flooded), keys, "left")
    order = Window.partitionBy(*keys, is_level()).orderBy("hash", "series")
    most = max(limits.metric_rows, limits.template_rows) + SHOWN_NAMES
    ranked = (
        joined.where(F.col("flooded"))
        .withColumn("hash", F.xxhash64("series"))
        .withColumns({"rank": F.row_number().over(order), "before": units_before(order)})
        .where(F.col("rank") <= most)  # a constant: partitions are cut before they are brought together
    )
    fits, shown = F.col("before") < most_rows(limits), F.col("before") < most_rows(limits) + SHOWN_NAMES
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
            F.max(F.col("before") + units()).alias("units"),
        )
        .withColumn("sent", sent(F.col("units") < most_rows(limits) + SHOWN_NAMES))
    )
    n = (F.col("sent") - F.col("first") + 1).cast("long")
    return kept, counted.select(*keys, "shard", n.alias("n"), F.col("sent").cast("double").alias("last"), "sample")


def sent(known: Column) -> Column:
    """How many names there were, by the largest `rank` of the least ones and its `hash`: an estimate, in three digits, where not all are `known`."""
    share = (F.col("hash").cast("double") + F.lit(2.0**63)) / F.lit(2.0**64)
    estimate = F.least((F.col("rank") - 1) / F.greatest(share, F.lit(2.0**-64)), F.lit(10.0**MOST_DIGITS)).cast("long")
    rounded = [F.when(estimate >= 10**d, F.round(estimate, 2 - d)) for d in range(MOST_DIGITS, 2, -1)]
    there = F.col("rank").cast("long")
    return F.when(known, there).otherwise(F.greatest(F.coalesce(*rounded, estimate), there))


def without_hosts(
    rows: DataFrame, over: Sequence[Excess], limits: LimitParameters, most: int
) -> tuple[DataFrame, DataFrame]:
    """The same, where hosts are too many: of a shard those with the most rows are kept, as far as rows of a host are."""
    crowded = F.col("window_end").isin([one.window_end for one in over])
    keys = ["window_end", "shard", "host"]
    found = rows.where(crowded & F.col("host").isNotNull()).groupBy(*keys, "limit", is_level().alias("of_level"))
    kept_rows = F.least(F.count(F.lit(1)), most_rows(limits)).alias("rows")
    hosts = found.agg(kept_rows).groupBy(*keys).agg(F.sum("rows").alias("rows"))
    order = Window.partitionBy("window_end", "shard").orderBy(F.desc("rows"), F.xxhash64("host"), "host")
    gone = hosts.withColumn("rank", F.row_number().over(order)).where(F.col("rank") > most)
    kept = rows.join(gone.select(*keys), keys, "left_anti")
    names = F.array_sort(F.collect_list(F.when(F.col("rank") <= most + SHOWN_NAMES, F.col("host"))))
    counted = gone.groupBy("window_end", "shard").agg(
        F.count(F.lit(1)).alias("n"), F.max("rank").cast("double").alias("last"), F.to_json(names).alias("sample")
    )
    return kept, counted.select("*", F.lit("").alias("host"), F.lit(HOSTS).alias("limit"))


def within_buckets(rows: DataFrame, over: Sequence[Excess]) -> tuple[DataFrame, DataFrame]:
    """The same as `with_fair_shares`, of the metrics of buckets.

    How many there were of a host that has more than its share is estimated. Where hosts alone are more than a bucket may have, one row of
    each was left: that is what is counted.
    """
    bucket = F.when(F.col("limit") == METRICS, bucket_of(F.col("host")))
    looked_at = F.col("before") <= F.col("share")  # others may have gone before
    return within_shares(
        rows.withColumn("bucket", bucket), literal(rows, over), "bucket", looked_at, sent(F.col("rank") < LEAST_RANK)
    )


def with_fair_shares(rows: DataFrame, over: Sequence[Excess], most: int) -> tuple[DataFrame, DataFrame]:
    """Rows of which a shard may have `most` at most: of each host as many as of the others, those with the least hashes.

    Answers what is kept, and a row of each host that has lost some: `window_end, shard, share, n, name`, the first name that is left out.
    """
    full = F.col("window_end").isin([one.window_end for one in over]) & F.col("host").isNotNull()
    own = F.when(full, F.col("shard"))
    hosts = rows.where(full).groupBy("window_end", "shard", "host").agg(F.sum(units()).alias("n"))
    shares = fair_shares(hosts, most).withColumnRenamed("shard", "group")
    return within_shares(rows.withColumn("group", own), shares, "group", F.lit(True), F.col("rank"))


def within_shares(
    rows: DataFrame, shares: DataFrame, group: str, looked_at: Column, sent: Column
) -> tuple[DataFrame, DataFrame]:
    """The same of the `share` that hosts of a group in a window may have, which is a column of `rows` and goes.

    `sent` is how many a host had that has more, by the `rank` and the `hash` of the last that is `looked_at`.
    """
    joined = rows.join(F.broadcast(shares.select("window_end", group, "share")), ["window_end", group], "left")
    host, chosen = ["window_end", "host"], F.col("share").isNotNull()
    order = Window.partitionBy(*host, chosen).orderBy("hash", "series")
    ranked = (
        joined.withColumn("hash", F.xxhash64("series"))
        .withColumns({"rank": F.row_number().over(order), "before": units_before(order)})
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


def all_left_out(hosts: DataFrame) -> DataFrame:
    """Of hosts as `with_fair_shares` answers them what was left out of each shard.

    `last` is the least share: what a host has of which rows are missing, or more.
    """
    return (
        hosts.groupBy("window_end", "shard")
        .agg(
            F.greatest(F.sum("n"), F.lit(1)).alias("n"),
            F.min("share").cast("double").alias("last"),
            F.to_json(F.slice(F.array_sort(F.collect_list("name")), 1, SHOWN_NAMES)).alias("sample"),
        )
        .select("*", F.lit("").alias("host"), F.lit(ALL_SERIES).alias("limit"))
    )


def with_fair_texts(rows: DataFrame, over: Sequence[Excess]) -> DataFrame:
    """The rows, where sample lines of a shard may be more than `MOST_BYTES`: hosts whose lines are more than their share have none."""
    full = F.col("window_end").isin([one.window_end for one in over]) & of_template()
    shard = ["window_end", "shard"]
    texts = (
        rows.where(full).groupBy(*shard, "host").agg(F.coalesce(F.sum(F.octet_length("sample")), F.lit(0)).alias("n"))
    )
    long = texts.join(F.broadcast(fair_shares(texts, MOST_BYTES)), shard).where(F.col("n") > F.col("share"))
    joined = rows.join(long.select(*shard, "host", F.lit(True).alias("long")), [*shard, "host"], "left")
    sample = F.when(F.col("long") & of_template(), F.lit(None).cast("string")).otherwise(F.col("sample"))
    return joined.withColumn("sample", sample).drop("long")


def fair_shares(hosts: DataFrame, most: int, group: str = "shard") -> DataFrame:
    """Of the shards with more than `most` rows the rows that each host may have, `share`, at least one. `group` may be another column.

    `hosts` has the rows of each, `n`. In the order of that number a host may have an equal part of what those before it leave; the
    first that has more than its part, and all that come after it, have that part.
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
    """How many metrics of a host are looked at in a window: some more than are written."""
    return limits.metric_rows + SHOWN_NAMES


def series_of_bucket(limits: LimitParameters) -> int:
    """How many metrics of a bucket of hosts are summed in a window at most."""
    return HOSTS_OF_BUCKET * most_metrics(limits)


def hosts_of_shard(limits: LimitParameters, shards: int) -> int:
    """Of how many hosts of a shard rows are written in a window at most."""
    return limits.of_shard(shards).hosts * MOST_HOSTS


def literal(rows: DataFrame, over: Sequence[Excess]) -> DataFrame:
    """What is too much as a table. Through JSON, because a DataFrame made of Python values would start a Python worker."""
    ddl = "array<struct<window_end:bigint,host:string,limit:string,bucket:int,share:bigint>>"
    found = F.from_json(F.lit(json.dumps([asdict(one) for one in over])), ddl)
    return rows.sparkSession.range(1).select(F.inline(found))


def most_rows(limits: LimitParameters) -> Column:
    """How many rows of the limit's kind a host may have in a window; null of what is of no host."""
    return F.when(F.col("limit") == METRICS, limits.metric_rows).when(F.col("limit") == TEMPLATES, limits.template_rows)


def host_of(series: Column) -> Column:
    """The quoted host of a series."""
    return F.element_at(F.split(series, "/", 3), 2)


def bucket_of(host: Column) -> Column:
    """The bucket of a quoted host, from 0: which are summed together (`SeriesSums.java`)."""
    return shard_of(host, BUCKETS)


def shard_of(host: Column, shards: int) -> Column:
    """The shard of a quoted host, from 0."""
    return F.pmod(F.xxhash64(host), F.lit(shards)).cast("int")


def units() -> Column:
    """As how many a row counts: by the bytes of its series' name."""
    return F.ceil(F.octet_length("series") / NAME_BYTES)


def units_before(order: WindowSpec) -> Column:
    """As how many the rows before a row count."""
    return F.sum(units()).over(order.rowsBetween(Window.unboundedPreceding, 0)) - units()


def of_metric() -> Column:
    return F.col("series").startswith("gauge/") | F.col("series").startswith("counter/")


def of_template() -> Column:
    return F.col("series").startswith("template/")


def of_rule() -> Column:
    return F.col("series").startswith(RULE)


def of_people() -> Column:
    """Labels, changes and rules, which are of no host."""
    return of_rule() | F.col("series").startswith(CHANGE) | F.col("series").startswith(LABEL)


def offset_of(series: Column) -> Column:
    """The offset in the name of what people write: as text, in the order of numbers."""
    return F.substring_index(series, "/", -1)


def of_other_templates() -> Column:
    """Lines of a level whose templates have gone early: a template without an id."""
    return of_template() & F.col("series").endswith("/")


def is_level() -> Column:
    return F.col("series").startswith("logs/")


def level_of(series: Column, kind: str) -> Column:
    """KIND/HOST/SERVICE/LEVEL of the template KIND/HOST/SERVICE/LEVEL/ID."""
    return F.concat(F.lit(f"{kind}/"), F.substring_index(F.substring_index(series, "/", 4), "/", -3))


def limit_of() -> Column:
    """The limit that a row counts for. Levels go with their templates."""
    series, lines = F.col("series"), of_template() | is_level()
    of_limit = F.when(of_metric(), METRICS).when(lines, TEMPLATES).when(of_rule(), RULES)
    return of_limit.when(series.startswith(CHANGE), CHANGES).when(series.startswith(LABEL), LABELS)
