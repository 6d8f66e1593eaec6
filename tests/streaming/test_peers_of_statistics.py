"""Peers: what the other hosts of a role have at the same moment, whatever the order of rows, partitions and batches."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from support.raw_records import NOON_MS, WINDOWING, Raw, at, frame, line, point, raw

from pipelines.jobs import extract
from pipelines.peers import LEAST_HOSTS, QUANTILES, is_compared, with_peers

pytestmark = pytest.mark.spark

W = 7 * 10_000 * 24_000_000  # a window that is compared
ROWS = "series string, window_end bigint, mean double"
TOPICS = {"statistics": "s", "late": "l", "dead-letters": "d"}


def found(rows: DataFrame) -> dict[tuple[str, int], tuple[Any, ...]]:
    return {
        (row["series"], row["window_end"]): (row["peers"], *(row[name] for name in QUANTILES))
        for row in with_peers(rows, [W, W + 70_000], 10).collect()
    }


def quantile(values: list[float], share: float) -> float:
    """Between the values next to it, but never of the least or largest alone."""
    values, n = sorted(values), len(values)
    place = share * (n - 1) if share == 0.5 else max(min(share * (n - 1), n - 2.0), 1.0)
    first = math.floor(place)
    return values[first] + (values[min(first + 1, n - 1)] - values[first]) * (place - first)


def test_each_row_has_the_quantiles_of_all_others_of_its_role(spark: SparkSession) -> None:
    source = random.Random(7)
    rows = []
    for role in range(12):
        size = LEAST_HOSTS + role
        for window in (W, W + 70_000):
            # small whole numbers: many are equal
            values = [float(source.choice((source.randint(0, 3), source.gauss(5, 2)))) for _ in range(size)]
            rows += [(f"gauge/h{i}/s/m{role}", window, value) for i, value in enumerate(values)]
    source.shuffle(rows)
    answers = found(spark.createDataFrame(rows, ROWS).repartition(5))
    for name, end, _ in rows:
        part = name.rsplit("/", 1)[1]
        others = [v for n, w, v in rows if w == end and n != name and n.endswith(f"/{part}")]
        wanted = [quantile(others, share) for share in QUANTILES.values()]
        assert answers[name, end] == (len(others), *(pytest.approx(one, rel=1e-12, abs=1e-12) for one in wanted))


def test_order_and_partitions_change_not_one_bit(spark: SparkSession) -> None:
    source = random.Random(11)
    rows = [(f"gauge/h{i}/s/m", W, source.gauss(0, 1) * 10 ** source.uniform(-9, 9)) for i in range(200)]
    answers = []
    for partitions in (1, 3, 8):
        source.shuffle(rows)
        answers.append(found(spark.createDataFrame(rows, ROWS).repartition(partitions)))
    assert answers[0] == answers[1] == answers[2]


def test_one_bad_host_is_not_the_spread_of_the_others(spark: SparkSession) -> None:
    rows = [(f"gauge/h{i}/s/m", W, 10.0 + i / 10) for i in range(9)] + [("gauge/bad/s/m", W, 1e12)]
    answers = found(spark.createDataFrame(rows, ROWS))
    assert all(upper < 12 for _, _, _, upper in answers.values())
    assert answers["gauge/bad/s/m", W][0] == 9


def test_windows_that_are_not_compared_have_no_peers(spark: SparkSession) -> None:
    rows = [(f"gauge/h{i}/s/m", W + 10_000, 1.0 * i) for i in range(20)]
    assert set(found(spark.createDataFrame(rows, ROWS)).values()) == {(None, None, None, None)}


def test_small_roles_metrics_without_a_service_counters_and_lines_have_no_peers(spark: SparkSession) -> None:
    few = [(f"gauge/h{i}/s/few", W, 1.0) for i in range(LEAST_HOSTS - 1)]
    apart = [(f"gauge/h{i}/s{i}/m", W, 1.0) for i in range(20)]
    apart += [(f"gauge/h{i}//m", W, 1.0) for i in range(20)]
    others = [(f"{kind}/h{i}/s/info", W, 1.0) for i in range(20) for kind in ("counter", "logs", "template")]
    answers = found(spark.createDataFrame(few + apart + others, ROWS))
    assert set(answers.values()) == {(None, None, None, None)}


def written(spark: SparkSession, rows: list[Raw]) -> list[dict[str, Any]]:
    closed = extract.closed_windows(
        frame(spark, rows), frame(spark, [raw(line("hello", at(11)), 1, at(11))]), WINDOWING
    )
    batch = extract.output_records(closed, extract.find_closed_windows(closed, WINDOWING), WINDOWING, TOPICS, 3)
    found = [json.loads(row["value"]) for row in batch.collect()]
    return sorted((one for one in found if one["record"] == "statistics"), key=lambda one: str(one["series"]))


def test_peers_are_in_the_records_of_gauges_that_have_some_and_nowhere_else(spark: SparkSession) -> None:
    hosts = [raw(point(float(i), at(12), f"h{i:02}", metric="m"), i, at(12)) for i in range(20)]
    alone = [raw(point(5.0, at(12), "h00", metric="alone"), 30, at(12))]
    rows = written(spark, hosts + alone)
    with_some = {row["series"]: row["peers"] for row in rows if "peers" in row}
    assert with_some == {f"gauge/h{i:02}/s/m": 19 for i in range(20)}
    first = next(row for row in rows if row["series"] == "gauge/h00/s/m")
    assert first["peers_median"] == 10.0
    assert {
        name for row in rows if row["series"].endswith("alone") for name in row if name.startswith("peers")
    } == set()


def test_totals_of_log_levels_are_computed_once_for_all_rows_that_have_peers_or_none(spark: SparkSession) -> None:
    hosts = [raw(point(float(i), at(12), f"h{i:02}"), i, at(12)) for i in range(20)]
    lines = [raw(line("hello", at(12)), 1, at(12))]
    closed = extract.closed_windows(frame(spark, hosts), frame(spark, lines), WINDOWING).localCheckpoint()
    windows = extract.ClosedWindows((W,), {})
    plan = str(extract.statistics_rows(closed, windows, WINDOWING)._jdf.queryExecution().optimizedPlan())
    assert plan.count("Aggregate [") == 2  # the totals, and the roles


def test_another_window_needs_no_other_code(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(f"gauge/h{i}/s/m", W, 1.0 * i) for i in range(20)], ROWS)
    first, second = (with_peers(rows, [end], 10)._jdf.queryExecution().analyzed() for end in (W, W + 70_000))
    assert first.sameResult(second)


def test_one_window_in_seven_is_compared_and_every_phase_of_a_minute_has_its_turn() -> None:
    compared = [end for end in range(NOON_MS, NOON_MS + 420_000, 10_000) if is_compared(end, 10)]
    assert len(compared) == 6
    assert {end % 60_000 for end in compared} == set(range(0, 60_000, 10_000))
    assert all(is_compared(end, 60) for end in range(NOON_MS, NOON_MS + 600_000, 60_000))
