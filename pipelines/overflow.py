"""Rows of hosts that send far more than may be known are left out of `statistics`, and counted; and of shards with many such hosts.

Decided from the rows of a window alone, so the number of partitions and of batches changes nothing. Of a host the rows with the least
hashes of their series are kept, so a host that sends the same series in each window keeps the same ones; most of the others are gone
before they are summed (`pipelines.surplus`).

A shard with more rows than twice the series that it may have gives each of its hosts as many as the others (max-min fairness): a host that
sends no more than that keeps all of its rows, however many hosts somebody makes up.

Of labels, changes and rules of a shard the first that were appended are written.

How many were sent is estimated where `SHOWN_NAMES` more than may be kept were there: hashes are spread evenly, so among n of them the k-th
least is about k / n of the way (k minimum values; its standard error is 1 / sqrt(k), 0.8 % of 15,000). It depends on these least hashes
alone. Whoever chooses names for their hashes makes the estimate of his own host larger.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F

from models.core.limits import LimitParameters
from models.detection.announcements import FIRST as CHANGE
from models.detection.labels import FIRST as LABEL
from models.detection.limits import (
    CHANGES,
    HOSTS,
    LABELS,
    METRICS,
    MOST_READ,
    RULES,
    SHOWN_CHARACTERS,
    SHOWN_NAMES,
    TEMPLATES,
)
from models.detection.logged_rules import FIRST as RULE
from models.detection.shard_state import ALL_SERIES
from models.rules.rule_log import MOST_A_WINDOW

MOST_DIGITS = 12  # an estimate is 10 to this power at most
MOST_HOSTS = 2  # times the hosts of the limit are written in a window: of so many, detect knows which are new
MOST_SERIES = 2  # times the series of the limit are written of a shard in a window
MOST_BYTES = 16 << 20  # of the sample lines of a shard in a window; the same of its labels, its changes and its rules
TEXTS = "texts"  # a bound of sample lines, of which nothing is left out but text


@dataclass(frozen=True)
class Excess:
    """A host whose rows of one kind are too many in a window; `host` is quoted. Of hosts, of all series, and of rules, it is empty.

    `last` is the series of the last rule that is read, where there are more.
    """

    window_end: int
    host: str
    limit: str
    last: str = ""


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
        F.count(F.lit(1)).alias("with_others"),
        F.sum(F.octet_length("sample")).alias("bytes"),
        *named(counts),
    )
    most = most_rows(limits)  # null of what people write
    # a level has a template at least: of `with_others` there are as many levels or fewer
    written = F.least("with_others", most) * F.when(F.col("limit") == TEMPLATES, 2).otherwise(1)
    by_shard = by_host.groupBy("window_end", shard_of(F.col("host"), shards).alias("shard")).agg(
        F.collect_list(F.when(F.col("rows") > most, F.struct("host", "limit"))).alias("found"),
        F.sum(F.when(most.isNotNull(), written)).alias(ALL_SERIES),
        F.count(most).alias(HOSTS),
        F.sum(F.when(F.col("limit") == TEMPLATES, F.col("bytes"))).alias(TEXTS),
        *(F.sum(F.when(F.col("limit") == kind, F.col("rows"))).alias(kind) for kind in MOST_READ),
        *(F.sum(F.when(F.col("limit") == kind, F.col("bytes"))).alias(f"{kind}_bytes") for kind in MOST_READ),
        *named({name: F.sum(name) for name in counts}),
    )
    bounds = {ALL_SERIES: series_of_shard(limits, shards), HOSTS: hosts_of_shard(limits, shards), TEXTS: MOST_BYTES}
    bounds |= MOST_READ
    whole = {kind: F.col(kind) > bound for kind, bound in bounds.items()}
    whole |= {kind: whole[kind] | (F.col(f"{kind}_bytes") > MOST_BYTES) for kind in MOST_READ}
    windows = by_shard.groupBy("window_end").agg(
        F.flatten(F.collect_list("found")).alias("found"),
        *named({kind: F.bool_or(F.coalesce(over, F.lit(False))) for kind, over in whole.items()}),
        *named({name: F.sum(name) for name in counts}),
    )
    return windows, tuple(whole)


def named(columns: Mapping[str, Column]) -> list[Column]:
    return [column.alias(name) for name, column in columns.items()]


def excesses(closed: DataFrame, windows: Sequence[Row], whole: Iterable[str]) -> list[Excess]:
    """What is too much in windows, which are rows of `by_window`, whose limits of shards are `whole`."""
    over = {(row["window_end"], one["host"], one["limit"]) for row in windows for one in row["found"]}
    over |= {(row["window_end"], "", limit) for row in windows for limit in whole if row[limit]}
    full = [end for end, _, limit in over if limit == RULES]
    last = last_rules(closed, full) if full else {}
    return [Excess(end, host, limit, last.get(end, "") if limit == RULES else "") for end, host, limit in sorted(over)]


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
        more.append(left_out)
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
    flooded = literal(rows, over).withColumn("flooded", F.lit(True))
    joined = rows.join(F.broadcast(flooded), keys, "left")
    order = Window.partitionBy(*keys, is_level()).orderBy("hash", "series")
    most = max(limits.metric_rows, limits.template_rows) + SHOWN_NAMES
    ranked = (
        joined.where(F.col("flooded"))
        .withColumn("hash", F.xxhash64("series"))
        .withColumn("rank", F.row_number().over(order))
        .where(F.col("rank") <= most)  # a constant: partitions are cut before they are brought together
    )
    fits = F.col("rank") <= most_rows(limits)
    within = joined.where(F.col("flooded").isNull())
    kept = within.unionByName(ranked.where(fits).drop("rank", "hash")).drop("flooded")
    names = F.array_sort(F.collect_list(F.substring("series", 1, SHOWN_CHARACTERS)))
    counted = (
        ranked.where(~fits & ~is_level() & (F.col("rank") <= most_rows(limits) + SHOWN_NAMES))
        .groupBy(*keys, "shard")
        .agg(F.to_json(names).alias("sample"), F.max("rank").alias("rank"), F.max("hash").alias("hash"))
        .withColumn("sent", sent(most_rows(limits) + SHOWN_NAMES))
    )
    n = (F.col("sent") - most_rows(limits)).cast("long")
    return kept, counted.select(*keys, "shard", n.alias("n"), F.col("sent").cast("double").alias("last"), "sample")


def sent(most: Column) -> Column:
    """How many names there were, by the largest `rank` of the `most` least and its `hash`: an estimate, in three digits, where all are there."""
    share = (F.col("hash").cast("double") + F.lit(2.0**63)) / F.lit(2.0**64)
    estimate = F.least((most - 1) / F.greatest(share, F.lit(2.0**-64)), F.lit(10.0**MOST_DIGITS)).cast("long")
    rounded = [F.when(estimate >= 10**d, F.round(estimate, 2 - d)) for d in range(MOST_DIGITS, 2, -1)]
    return F.when(F.col("rank") < most, F.col("rank").cast("long")).otherwise(
        F.greatest(F.coalesce(*rounded, estimate), most.cast("long"))
    )


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


def with_fair_shares(rows: DataFrame, over: Sequence[Excess], most: int) -> tuple[DataFrame, DataFrame]:
    """The same, where rows of a shard may be more than `most`: of each host the same number at most, those with the least hashes.

    `last` is that number: what a host has of which rows are missing.
    """
    full = F.col("window_end").isin([one.window_end for one in over]) & F.col("host").isNotNull()
    shard, host = ["window_end", "shard"], ["window_end", "host"]
    shares = fair_shares(rows.where(full).groupBy(*shard, "host").agg(F.count(F.lit(1)).alias("n")), most)
    joined = rows.join(F.broadcast(shares), shard, "left")
    order = Window.partitionBy(*host).orderBy(F.xxhash64("series"), "series")
    chosen = full & F.col("share").isNotNull()
    ranked = joined.where(chosen).withColumn("rank", F.row_number().over(order))
    kept = joined.where(~chosen).unionByName(ranked.where(F.col("rank") <= F.col("share")).drop("rank"))
    first = F.when(F.col("rank") == F.col("share") + 1, F.substring("series", 1, SHOWN_CHARACTERS))  # one a host: few
    counted = (
        ranked.where(F.col("rank") > F.col("share"))
        .groupBy(*shard)
        .agg(
            F.count(F.lit(1)).alias("n"),
            F.max("share").cast("double").alias("last"),
            F.to_json(F.slice(F.array_sort(F.collect_list(first)), 1, SHOWN_NAMES)).alias("sample"),
        )
    )
    return kept.drop("share"), counted.select("*", F.lit("").alias("host"), F.lit(ALL_SERIES).alias("limit"))


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


def fair_shares(hosts: DataFrame, most: int) -> DataFrame:
    """Of the shards with more than `most` rows the rows that each host may have, `share`, at least one.

    `hosts` has the rows of each, `n`. In the order of that number a host may have an equal part of what those before it leave; the
    first that has more than its part, and all that come after it, have that part.
    """
    order = Window.partitionBy("window_end", "shard").orderBy("n", "host")
    before = F.coalesce(F.sum("n").over(order.rowsBetween(Window.unboundedPreceding, -1)), F.lit(0))
    hosts_left = F.count(F.lit(1)).over(order.rowsBetween(Window.currentRow, Window.unboundedFollowing))
    parts = hosts.withColumn("part", F.floor((F.lit(most) - before) / hosts_left)).where(F.col("n") > F.col("part"))
    share = F.greatest(F.max("part"), F.lit(1)).alias("share")
    return parts.groupBy("window_end", "shard").agg(share)


def series_of_shard(limits: LimitParameters, shards: int) -> int:
    """How many rows of series are written of a shard in a window at most."""
    return limits.of_shard(shards).all_series * MOST_SERIES


def hosts_of_shard(limits: LimitParameters, shards: int) -> int:
    """Of how many hosts of a shard rows are written in a window at most."""
    return limits.of_shard(shards).hosts * MOST_HOSTS


def literal(rows: DataFrame, over: Sequence[Excess]) -> DataFrame:
    """What is too much as a table. Through JSON, because a DataFrame made of Python values would start a Python worker."""
    ddl = "array<struct<window_end:bigint,host:string,limit:string>>"
    found = F.from_json(F.lit(json.dumps([asdict(one) for one in over])), ddl)
    return rows.sparkSession.range(1).select(F.inline(found))


def most_rows(limits: LimitParameters) -> Column:
    """How many rows of the limit's kind a host may have in a window; null of what is of no host."""
    return F.when(F.col("limit") == METRICS, limits.metric_rows).when(F.col("limit") == TEMPLATES, limits.template_rows)


def host_of(series: Column) -> Column:
    """The quoted host of a series."""
    return F.element_at(F.split(series, "/", 3), 2)


def shard_of(host: Column, shards: int) -> Column:
    """The shard of a quoted host, from 0."""
    return F.pmod(F.xxhash64(host), F.lit(shards)).cast("int")


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
