"""Hosts with too many rows: what is left out of `statistics` follows from the rows of the window alone, and is counted."""

from __future__ import annotations

import json
import math
import random
import statistics
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import xxhash
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from support.raw_records import NOON_MS, WINDOWING

from models.core.limits import LimitParameters
from models.core.parameters import DetectorParameters
from models.detection.limits import CHANGES, LABELS, MOST_READ, SHOWN_NAMES
from models.records.records import RefusedRecord
from pipelines import overflow
from pipelines.jobs import detect, extract
from pipelines.jobs.detect_bounded import detect_bounded

pytestmark = pytest.mark.spark

LIMITS = LimitParameters(
    metrics_per_host=30, templates_per_host=10, services_per_host=5, new_series_per_host=20, hosts=40
)
END = NOON_MS + 10_000
HONEST = [f"gauge/honest/web/m{i}" for i in range(45)] + [f"template/honest/web/info/{i:016x}" for i in range(25)]
FLOOD = [f"gauge/big//x{i}" for i in range(700)] + [f"counter/big//y{i}" for i in range(300)]
LINES = [f"template/noisy/s{i % 90}/info/{i:016x}" for i in range(400)]


def closed(spark: SparkSession, series: list[str], partitions: int = 3, sample_bytes: int = 10) -> DataFrame:
    """Rows as `closed_windows` answers them."""
    names = spark.createDataFrame([(name,) for name in series], "series string").repartition(partitions)
    numbers = [F.lit(1.0).alias(name) for name in ("mean", "m2", "min", "max", "last")]
    template = F.when(F.col("series").startswith("template/"), F.col("series"))
    text = F.when(F.col("series").rlike("^(change|label|template/wordy)/"), F.lit("x" * sample_bytes)).otherwise(
        template
    )
    refused = F.lit(None).cast(f"struct<{extract.REFUSED}>").alias("refused")
    return names.select(
        "series", F.lit(END).alias("window_end"), F.lit(1).cast("long").alias("n"), *numbers,
        template.alias("template"), text.alias("sample"), refused,
    )  # fmt: skip


def rows_written(
    spark: SparkSession,
    series: list[str],
    partitions: int = 3,
    limits: LimitParameters = LIMITS,
    sample_bytes: int = 10,
) -> list[dict[str, Any]]:
    """Rows of statistics, as the sink of `extract` writes them, by shard and series."""
    frame = closed(spark, series, partitions, sample_bytes)
    windows = extract.find_closed_windows(frame, WINDOWING, limits)
    assert windows.ends == (END,)
    rows = extract.output_records(
        frame, windows, WINDOWING, {"statistics": "s", "dead-letters": "d"}, 2, limits
    ).collect()
    values = [json.loads(row["value"]) for row in rows]
    found = [value for value in values if value["record"] == "statistics"]
    assert len(found) + WINDOWING.shards == len(values)
    return sorted(found, key=lambda row: (row["shard"], row["series"]))


def written(
    spark: SparkSession, series: list[str], partitions: int = 3, sample_bytes: int = 10
) -> dict[str, dict[str, Any]]:
    """The same by series."""
    return {row["series"]: row for row in rows_written(spark, series, partitions, sample_bytes=sample_bytes)}


def kinds(found: dict[str, dict[str, Any]]) -> Counter[tuple[str, str]]:
    return Counter((name.split("/")[1], name.split("/")[0]) for name in found)


def test_only_hosts_that_have_too_much_lose_rows_and_no_partitioning_changes_which(spark: SparkSession) -> None:
    found = written(spark, HONEST + FLOOD + LINES)
    counted = kinds(found)
    assert (counted["honest", "gauge"], counted["honest", "template"]) == (45, 25)
    assert counted["big", "gauge"] + counted["big", "counter"] == LIMITS.metric_rows == 50
    assert counted["noisy", "template"] == LIMITS.template_rows == 30
    assert counted["noisy", "logs"] == 30  # of 90 services
    over = {name: row for name, row in found.items() if name.startswith("overflow/")}
    assert over.keys() == {"overflow/big/metrics", "overflow/noisy/templates"}
    for name, sent, kept in (("big/metrics", 1000, LIMITS.metric_rows), ("noisy/templates", 400, LIMITS.template_rows)):
        row = over[f"overflow/{name}"]
        assert row["n"] == row["last"] - kept
        assert row["last"] == pytest.approx(sent, rel=4 / math.sqrt(kept + SHOWN_NAMES))
    assert over["overflow/big/metrics"]["shard"] == next(
        row["shard"] for name, row in found.items() if name.startswith("gauge/big/")
    )
    named = json.loads(over["overflow/big/metrics"]["sample"])
    assert len(named) == 10
    assert set(named) <= set(FLOOD) - found.keys()
    assert written(spark, (LINES + FLOOD + HONEST)[::-1], 7) == found
    alone = written(spark, HONEST)
    assert {name: row for name, row in found.items() if "/honest/" in name} == alone


@pytest.mark.parametrize("more", [SHOWN_NAMES - 1, SHOWN_NAMES])
def test_a_few_more_series_than_may_be_kept_are_counted(spark: SparkSession, more: int) -> None:
    row = written(spark, [f"gauge/big//x{i}" for i in range(LIMITS.metric_rows + more)])["overflow/big/metrics"]
    assert row["n"] == row["last"] - LIMITS.metric_rows
    assert len(json.loads(row["sample"])) == more
    assert row["n"] == more or more == SHOWN_NAMES <= row["n"]


def test_long_names_count_several_times_and_what_is_left_out_is_counted_in_series(spark: SparkSession) -> None:
    long = [f"gauge/big//x{i}{{k={'x' * 300 * (i % 3)}}}" for i in range(400)]
    few = [f"gauge/long//x{i}{{k={'x' * 300}}}" for i in range(28)]  # which count as 56: all that are needed are there
    found = written(spark, HONEST + long + few)
    kept: list[str] = []
    for name in sorted(long, key=lambda name: (xxhash.xxh64_intdigest(name.encode(), 42) ^ 1 << 63, name)):
        if sum(-(-len(one) // 256) for one in kept) < LIMITS.metric_rows:
            kept.append(name)
    assert {name for name in found if name.startswith("gauge/big/")} == set(kept)
    row = found["overflow/big/metrics"]
    assert row["n"] == row["last"] - len(kept)
    assert row["last"] == pytest.approx(400, rel=4 / math.sqrt(len(kept)))
    assert (found["overflow/long/metrics"]["n"], found["overflow/long/metrics"]["last"]) == (3, 28)
    assert {name: row for name, row in found.items() if "/honest/" in name} == written(spark, HONEST)


@pytest.mark.slow
def test_the_estimate_of_how_many_were_sent_is_as_exact_as_its_theory_says(spark: SparkSession) -> None:
    numbers = spark.range(200 * 5_000).select(F.col("id") % 200, F.concat(F.lit("gauge/h/s/m"), "id").alias("series"))
    rows = numbers.toDF("window_end", "series").withColumn("hash", F.xxhash64("series"))
    order = Window.partitionBy("window_end").orderBy("hash")
    least = rows.withColumn("rank", F.row_number().over(order)).where("rank = 400")
    found = [row[0] for row in least.select(overflow.estimate_sent(F.lit(False))).collect()]
    error = [one / 5_000 - 1 for one in found]
    assert len(error) == 200
    assert not any(one % 10 for one in found), "three digits are as many as are known"
    assert abs(statistics.fmean(error)) < 4 / math.sqrt(400 * 200)
    assert statistics.pstdev(error) == pytest.approx(1 / math.sqrt(400), rel=0.25)


def test_a_level_that_is_kept_counts_all_lines_of_its_templates(spark: SparkSession) -> None:
    lines = [f"template/noisy/web/info/{i:016x}" for i in range(400)]
    assert written(spark, lines)["logs/noisy/web/info"]["n"] == 400


def test_hosts_beyond_twice_the_limit_lose_all_their_rows_those_with_the_fewest_first(spark: SparkSession) -> None:
    honest = [f"gauge/honest-{h}//m{i}" for h in range(20) for i in range(3)]
    found = written(spark, honest + [f"gauge/random-{h}//m" for h in range(3000)])
    counted = kinds(found)
    assert all(counted[f"honest-{h}", "gauge"] == 3 for h in range(20))
    over = [row for name, row in found.items() if name == "overflow//hosts"]
    assert over
    hosts = len({name.split("/")[1] for name in found if name.startswith("gauge/")})
    most = 2 * LIMITS.of_shard(WINDOWING.shards).hosts * WINDOWING.shards
    assert hosts <= most


# A shard may have as many series as one host: 40. Twice as many of its rows are written.
FEW = replace(LIMITS, all_series=1)
MADE_UP = [f"gauge/made-up-{h}/s{i % 3}/m{i}" for h in range(30) for i in range(25)]
MADE_UP += [
    f"template/made-up-{h}/s/{level}/{i:016x}" for h in range(30) for i, level in enumerate(("info", "l1", "l2"))
]
SMALL_HOSTS = [f"gauge/small-{h}//m{i}" for h in range(4) for i in range(1 + h)] + [
    f"template/small-3/web/info/{1:016x}"
]


def test_a_shard_writes_no_more_than_twice_its_series_and_hosts_with_few_lose_none(spark: SparkSession) -> None:
    found, sent = (rows_written(spark, MADE_UP + SMALL_HOSTS, limits=limits) for limits in (FEW, LIMITS))
    most = overflow.series_of_shard(FEW, WINDOWING.shards)
    over = {row["shard"]: row for row in found if row["series"].startswith("overflow/")}
    rows = [row for row in found if row not in over.values()]
    assert {row["series"] for row in over.values()} == {"overflow//all_series"}
    by_shard = Counter(row["shard"] for row in sent)
    assert over.keys() == {shard for shard, n in by_shard.items() if n > most}
    assert 1 < len(over) < len(by_shard)
    for shard, row in over.items():
        hosts = Counter(one["series"].split("/")[1] for one in rows if one["shard"] == shard)
        assert most - len(hosts) < hosts.total() <= most
        assert max(hosts.values()) == row["last"]
        gone = {one["series"] for one in sent if one["shard"] == shard} - {one["series"] for one in rows}
        assert row["n"] == len(gone)
        assert set(json.loads(row["sample"])) < gone
    alone = rows_written(spark, SMALL_HOSTS)
    assert [row for row in rows if "/small-" in row["series"]] == alone
    assert {row["shard"] for row in alone} & over.keys()
    assert rows_written(spark, (SMALL_HOSTS + MADE_UP)[::-1], 7, FEW) == found


@pytest.mark.parametrize(("kind", "limit"), [("change", CHANGES), ("label", LABELS)])
@pytest.mark.parametrize(("sample_bytes", "kept"), [(10, MOST_READ[CHANGES]), (overflow.MOST_BYTES // 500 - 1, 500)])
def test_of_labels_and_changes_of_a_shard_the_first_are_written_and_no_more_than_so_many_bytes(
    spark: SparkSession, kind: str, limit: str, sample_bytes: int, kept: int
) -> None:
    offsets = random.Random(1).sample(range(10**6), kept + 25)
    names = [f"{kind}/greedy/{offset:020d}" for offset in offsets]
    few = [f"{kind}/{name}/{0:020d}" for name in ("a", "b", "c")]
    found = rows_written(spark, names + few + HONEST, sample_bytes=sample_bytes)
    in_order, shard = sorted(names), next(row["shard"] for row in found if "/greedy/" in row["series"])
    more = [name for name in few if any(row["series"] == name and row["shard"] == shard for row in found)]
    written_of = [row["series"] for row in found if "/greedy/" in row["series"]]
    assert written_of == in_order[: kept - len(more)]
    (over,) = [row for row in found if row["series"].startswith("overflow/")]
    assert (over["series"], over["shard"]) == (f"overflow//{limit}", shard)
    assert (over["n"], over["last"]) == (25 + len(more), kept + 25 + len(more))
    assert json.loads(over["sample"]) == in_order[kept - len(more) :][:10]
    honest = [row for row in found if "/honest/" in row["series"]]
    assert honest == [row for row in rows_written(spark, HONEST) if "/honest/" in row["series"]]
    if sample_bytes > 10:
        return
    assert rows_written(spark, (names + few + HONEST)[::-1], 7) == found


def test_a_host_whose_sample_lines_are_too_long_has_none_and_all_of_its_rows(spark: SparkSession) -> None:
    wordy = [f"template/wordy/web/info/{i:016x}" for i in range(20)]
    found = written(spark, HONEST + wordy, sample_bytes=overflow.MOST_BYTES // 19)
    assert all(found[name].get("sample") is None for name in wordy)
    assert all(found[name]["template"] for name in wordy)
    assert {name: row for name, row in found.items() if "/honest/" in name} == written(spark, HONEST)
    assert found["logs/wordy/web/info"]["n"] == 20
    short = written(spark, HONEST + wordy, sample_bytes=overflow.MOST_BYTES // 21)
    assert all(short[name]["sample"] for name in wordy)


def test_shares_of_hosts_are_those_of_max_min_fairness(spark: SparkSession) -> None:
    """Each shard against the plain definition: the largest equal share with which all hosts together have no more than there is."""
    source = random.Random(6)
    sizes = {shard: [int(source.paretovariate(0.7)) for _ in range(source.randint(1, 40))] for shard in range(200)}
    rows = [(END, shard, f"h{i}", min(n, 10_000)) for shard, hosts in sizes.items() for i, n in enumerate(hosts)]
    table = spark.createDataFrame(rows, "window_end long, shard int, host string, n long")
    most = 60
    found = {row["shard"]: row["share"] for row in overflow.fair_shares(table, most).collect()}

    def taken(shard: int, share: int) -> int:
        return sum(min(n, share) for n in sizes[shard])

    wanted = {
        shard: max(share for share in range(1, most + 1) if taken(shard, share) <= most)
        for shard, hosts in sizes.items()
        if sum(hosts) > most
    }
    assert found == wanted
    assert 100 < len(wanted) < 190


def test_within_the_limits_the_rows_are_the_same_and_the_query_has_no_more_steps(spark: SparkSession) -> None:
    frame = closed(spark, HONEST[:20])
    rows = extract.all_rows(frame, WINDOWING)
    windows = extract.find_closed_windows(frame, WINDOWING, LIMITS)
    assert overflow.apply_limits(rows, windows.over, LIMITS, WINDOWING.shards) is rows


def test_what_is_left_out_is_a_dead_letter_of_its_host_and_window(spark: SparkSession) -> None:
    frame = closed(spark, HONEST + FLOOD)
    windows = extract.find_closed_windows(frame, WINDOWING, LIMITS)
    rows = extract.statistics_rows(frame, windows, WINDOWING, LIMITS)
    answers = detect_bounded(rows, list(windows.ends), DetectorParameters(), "live", WINDOWING.shards, 2)
    topics = {"scores": "s", "bounds": "b", "novelties": "n", "dead-letters": "d", "statistics": "st"}
    found = detect.output_records(answers.where("part is null"), topics, 4).where("topic = 'd'").collect()
    assert len(found) == 1
    letter = json.loads(found[0]["value"])
    assert (letter["record"], letter["host"], letter["limit"]) == ("overflow", "big", "metrics")
    assert letter["left_out"] == letter["wanted"] - LIMITS.metric_rows == pytest.approx(950, rel=0.5)
    headers = {one["key"]: bytes(one["value"]).decode() for one in found[0]["headers"]}
    assert headers["kappa.record"] == RefusedRecord.KIND
    assert headers["kappa.topic"] == "st"
    assert headers["kappa.offset"] == "None"
    assert headers["kappa.stage"] == "detect"
    assert headers["kappa.reason"] == (
        f"host big: {letter['left_out']} left out by the limit of metrics, 10000, of {letter['wanted']}"
    )
    assert found[0]["partition"] == int(headers["kappa.partition"])
