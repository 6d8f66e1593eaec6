"""extract: sums that no order changes, a fate for each record from itself alone, watermarks behind the rows they speak for."""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
from collections import Counter, defaultdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from support.raw_records import NOON_MS, SOURCE, WINDOWING, Raw, at, frame, line, point, raw

from models.core import series as names
from pipelines.jobs import extract
from pipelines.windowing import WindowingConfig

pytestmark = pytest.mark.spark

TOPICS = {"statistics": "s", "late": "l", "dead-letters": "d"}
EPS = float(np.finfo(float).eps)


def closed(
    spark: SparkSession, telemetry: list[Raw], logs: list[Raw] | None = None, windowing: WindowingConfig = WINDOWING
) -> DataFrame:
    return extract.closed_windows(frame(spark, telemetry), frame(spark, logs or []), windowing)


def by_series(rows: list[Any]) -> dict[tuple[str, int], dict[str, Any]]:
    found = {(row["series"], row["window_end"]): row.asDict() for row in rows}
    assert len(found) == len(rows)
    return found


def window_end(seconds: int) -> int:
    return NOON_MS + seconds * 1000


# --- sums


SHUFFLES = 6


def values_of(name: str, source: random.Random) -> list[float]:
    return {
        "small": [source.uniform(0, 1) for _ in range(300)],
        "signed": [source.gauss(0, 1e-3) for _ in range(300)],
        "negative": [-0.1] * 300,
        "wide": [source.choice((-1, 1)) * 10.0 ** source.uniform(-6, 15) for _ in range(300)],
        "large": [8e9 + source.gauss(0, 1e6) for _ in range(300)],
        "whole": [float(source.randint(-(10**9), 10**9)) for _ in range(300)],
        "most": [1e15, -1e15] * 150,
        "one": [0.1],
    }[name]


NAMES = ("small", "signed", "negative", "wide", "large", "whole", "most", "one")


@pytest.fixture(scope="module")
def shuffled(spark: SparkSession) -> dict[str, list[dict[str, Any]]]:
    """Statistics of the same records in many orders, each order on a host of its own, in one job."""
    source = random.Random(20261121)
    rows: list[Raw] = []
    for order in range(SHUFFLES):
        own = [
            raw(point(value, at(i * 0.01), f"order-{order}", metric=name), i, at(i * 0.01))
            for name in NAMES
            for i, value in enumerate(values_of(name, random.Random(name)))
        ]
        source.shuffle(own)
        rows += own
    empty = frame(spark, [])
    telemetry = spark.createDataFrame(rows, SOURCE).repartition(7)
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in extract.closed_windows(telemetry, empty, WINDOWING).collect():
        found[names.parse(row["series"]).metric].append(row.asDict())
    return found


@pytest.mark.parametrize("name", NAMES)
def test_statistics_do_not_depend_on_the_order_or_the_partitions(
    shuffled: dict[str, list[dict[str, Any]]], name: str
) -> None:
    rows = shuffled[name]
    assert len(rows) == SHUFFLES
    kept = [c for c in rows[0] if c != "series"]
    assert len({tuple(row[c] for c in kept) for row in rows}) == 1


@pytest.mark.parametrize("name", NAMES)
def test_statistics_are_those_of_numpy_to_the_last_digits(shuffled: dict[str, list[dict[str, Any]]], name: str) -> None:
    row, values = shuffled[name][0], np.array(values_of(name, random.Random(name)))
    n, total = len(values), math.fsum(values)
    m2 = math.fsum((values - total / n) ** 2)
    assert row["n"] == n
    assert row["mean"] == pytest.approx(total / n, rel=4 * EPS, abs=2.0**-64)
    assert (row["min"], row["max"], row["last"]) == (values.min(), values.max(), values[-1])
    # A difference of two sums: what is lost is a share of the squares, not of the spread.
    assert row["m2"] == pytest.approx(m2, rel=1e-12, abs=8 * EPS * math.fsum(values**2))
    assert row["window_end"] == window_end(10)


def test_one_value_has_no_spread(shuffled: dict[str, list[dict[str, Any]]]) -> None:
    assert {row["m2"] for row in shuffled["one"]} == {0.0}


def test_a_counter_keeps_its_last_value_and_is_not_summed(spark: SparkSession) -> None:
    rows = [raw(point(9e17 + i * 1024, at(i), kind="counter"), i, at(i)) for i in range(9)]
    (row,) = closed(spark, rows).collect()
    assert row["series"] == "counter/h/s/m"
    assert (row["n"], row["mean"], row["m2"]) == (9, 0.0, 0.0)
    assert (row["min"], row["max"], row["last"]) == (9e17, 9e17 + 8 * 1024, 9e17 + 8 * 1024)


def test_last_is_by_event_time_then_by_offset(spark: SparkSession) -> None:
    same, micro = at(5), timedelta(microseconds=1)
    cases = {
        "event time": [(1.0, same + micro, 3), (2.0, same, 9)],
        "offset": [(1.0, same, 9), (2.0, same, 3)],
        "large offset": [(1.0, same, 2**32 + 1), (2.0, same, 2**32)],
        "end of window": [(1.0, at(10) - micro, 0), (2.0, at(10) - 2 * micro, 2**33 - 1)],
    }
    rows = [
        raw(point(value, event, metric=name), offset, at(12))
        for name, entries in cases.items()
        for value, event, offset in entries
    ]
    random.Random(1).shuffle(rows)
    found = {names.parse(row["series"]).metric: row["last"] for row in closed(spark, rows).collect()}
    assert found == dict.fromkeys(cases, 1.0)


def test_an_event_on_the_edge_belongs_to_the_window_that_begins_there(spark: SparkSession) -> None:
    rows = [raw(point(1, at(10) - timedelta(microseconds=1)), 0, at(11)), raw(point(2, at(10)), 1, at(11))]
    found = by_series(closed(spark, rows).collect())
    assert {key[1]: row["last"] for key, row in found.items()} == {window_end(10): 1.0, window_end(20): 2.0}


# --- log lines


def test_the_sample_of_a_template_is_its_least_message_whatever_came_first(spark: SparkSession) -> None:
    messages = [f"request {i} took {i * 7} ms" for i in range(40)]
    logs = [
        raw(line(message, at(1), f"order-{order}"), i, at(1), "logs")
        for order in range(6)
        for i, message in enumerate(random.Random(order).sample(messages, len(messages)))
    ]
    rows = closed(spark, [], logs).collect()
    assert len(rows) == 6
    assert {(row["n"], row["sample"]) for row in rows} == {(40, min(messages, key=str.encode))}
    assert len({row["template"] for row in rows}) == 1


def test_totals_of_a_level_are_the_sums_of_its_templates(spark: SparkSession) -> None:
    source = random.Random(5)
    texts = ("user {} logged in", "disk /dev/sd{} is full", "a/b%c took {} ms")
    logs = [
        raw(
            line(
                source.choice(texts).format(i),
                at(source.uniform(0, 30)),
                host=source.choice(("a", "b/c", "d%2F")),
                level=source.choice(("info", "error")),
                service=source.choice(("s", "", "x/y")),
            ),
            i,
            at(31),
            "logs",
        )
        for i in range(400)
    ]
    rows = extract.all_rows(
        closed(spark, [], logs, WindowingConfig(lateness_seconds=60, shards=8)), WINDOWING
    ).collect()
    totals = {key: row for key, row in by_series(rows).items() if key[0].startswith("logs/")}
    summed: Counter[tuple[str, int]] = Counter()
    for row in rows:
        if row["template"] is not None:
            parts = names.parse(row["series"])
            name = names.build(names.Series("logs", parts.host, parts.service, level=parts.level))
            summed[name, row["window_end"]] += row["n"]
    assert summed.total() == len(logs)
    assert {key: row["n"] for key, row in totals.items()} == summed
    assert all(row["template"] is None and row["mean"] is None for row in totals.values())


def test_all_series_of_a_host_are_in_one_shard_and_hosts_are_spread(spark: SparkSession) -> None:
    hosts = [f"host-{i}" for i in range(24)]
    telemetry = [raw(point(1, at(1), h, metric=m), i, at(1)) for i, h in enumerate(hosts) for m in ("a", "b")]
    logs = [raw(line("x", at(1), h), i, at(1), "logs") for i, h in enumerate(hosts)]
    shards: dict[str, set[int]] = defaultdict(set)
    for row in extract.all_rows(closed(spark, telemetry, logs), WINDOWING).collect():
        shards[names.parse(row["series"]).host].add(row["shard"])
    assert set(shards) == set(hosts)
    assert {len(found) for found in shards.values()} == {1}
    assert len(set.union(*shards.values())) > WINDOWING.shards // 2


# --- fates


def refused(spark: SparkSession, telemetry: list[Raw], logs: list[Raw]) -> list[tuple[str, bytes, dict[str, str]]]:
    rows = extract.refused_rows(closed(spark, telemetry, logs), TOPICS).collect()
    return [(r["topic"], bytes(r["value"]), {h["key"]: bytes(h["value"]).decode() for h in r["headers"]}) for r in rows]


def test_fates_change_exactly_at_the_lateness_and_at_the_skew(spark: SparkSession) -> None:
    append, milli = at(100), timedelta(milliseconds=1)
    late, ahead = append - timedelta(seconds=15), append + timedelta(seconds=60)
    events = {"late": (late, late - milli), "ahead": (ahead, ahead + milli)}
    rows: list[Raw] = []
    wanted: dict[tuple[str, str], Raw] = {}
    for topic in ("telemetry", "logs"):
        for name, (last_good, first_bad) in events.items():
            for offset, event in ((len(rows), last_good), (len(rows) + 1, first_bad)):
                host = f"{name}-{event is last_good}"
                value = line("1", event, host) if topic == "logs" else point(1, event, host)
                rows.append(raw(value, offset, append, topic))
            wanted[topic, name] = rows[-1]
    telemetry, logs = ([r for r in rows if r.topic == topic] for topic in ("telemetry", "logs"))
    found = closed(spark, telemetry, logs).where("refused is null").collect()
    assert Counter(names.parse(r["series"]).host for r in found) == {"late-True": 2, "ahead-True": 2}
    assert {r["window_end"] for r in found} == {window_end(90), window_end(170)}
    answers = {(h["kappa.topic"], topic): (value, h) for topic, value, h in refused(spark, telemetry, logs)}
    assert len(answers) == 4
    for (topic, name), record in wanted.items():
        value, headers = answers[topic, "l" if name == "late" else "d"]
        assert value == record.value
        reason = (
            "more than 15 s late" if name == "late" else "event time is 60 s ahead of the append time, more than 60 s"
        )
        assert headers == {
            "kappa.record": "refused",
            "kappa.topic": topic,
            "kappa.partition": "0",
            "kappa.offset": str(record.offset),
            "kappa.timestamp": str(NOON_MS + 100_000),
            "kappa.reason": reason,
            "kappa.stage": "extract",
            "kappa.length": str(len(record.value or b"")),
            "kappa.sha256": hashlib.sha256(record.value or b"").hexdigest(),
        }


def test_hosts_whose_records_are_refused_for_their_time_are_counted(spark: SparkSession) -> None:
    """In the window of their append times, metrics and lines together, by how much they are late or ahead at least; nobody else's."""
    append = at(100)
    telemetry = [
        *(raw(point(1, append - timedelta(seconds=40 + i), "late/%"), i, append) for i in range(3)),
        raw(point(1, append + timedelta(seconds=3_600.9), "ahead"), 3, append),
        raw(point(1, append, "good"), 4, append),
        raw(b"junk", 5, append),
        raw(point(1, append - timedelta(seconds=40), "late/%"), 6, at(130)),
    ]
    logs = [
        raw(line("x", append - timedelta(seconds=39.5), "late/%"), 0, append, "logs"),
        raw(b"{}", 1, append, "logs"),
    ]
    found = closed(spark, telemetry, logs).persist()
    written = extract.output_records(found, extract.find_closed_windows(found, WINDOWING), WINDOWING, TOPICS, 2).where(
        "topic = 's'"
    )
    rows = [json.loads(bytes(row["value"])) for row in written.collect()]
    found.unpersist()
    counted = {(r["series"], r["window_end"]): r for r in rows if r.get("series", "").startswith("overflow/")}
    assert {key: (row["n"], row["last"]) for key, row in counted.items()} == {
        ("overflow/late%2F%25/late", window_end(110)): (4, 39.0),
        ("overflow/late%2F%25/late", window_end(140)): (1, 70.0),
        ("overflow/ahead/ahead", window_end(110)): (1, 3_600.0),
    }
    assert [row["sample"] for row in counted.values()] == ["[]"] * 3


def test_a_record_has_the_same_fate_whatever_is_around_it(spark: SparkSession) -> None:
    """Late for its own append time, in company that is early or later by an hour."""
    late, good = point(1, at(0)), point(2, at(5))
    pair = [raw(late, 7, at(16)), raw(good, 8, at(16))]
    company = [raw(point(i, at(i)), 100 + i, at(i), partition=1) for i in (-3600, -16, 0, 16, 3600)]
    (alone,) = refused(spark, pair, [])
    (among,) = refused(spark, [*company, *pair], [])
    assert alone == among
    assert alone[0] == "l"
    assert alone[1] == late


def test_an_unreadable_record_gets_a_reason_and_the_window_of_its_append_time(spark: SparkSession) -> None:
    bad = {0: b"{broken", 1: b"", 2: None, 3: b"\xff\xfe", 4: b"[1]", 5: point("x", at(0)), 6: point(1, at(-1e9))}
    rows = [raw(value, offset, at(33)) for offset, value in bad.items()]
    windows = {row["window_end"] for row in closed(spark, rows).collect()}
    assert windows == {window_end(40)}
    found = {
        int(headers["kappa.offset"]): (topic, value, headers) for topic, value, headers in refused(spark, rows, [])
    }
    assert set(found) == set(bad)
    for offset, value in bad.items():
        topic, kept, headers = found[offset]
        assert topic == ("l" if offset == 6 else "d")
        assert kept == (value or b"")
        assert headers["kappa.reason"]


def test_a_letter_has_the_beginning_of_a_large_record_and_its_length_and_hash(spark: SparkSession) -> None:
    large = {0: b"{" * 5_000_000, 1: b"{" * 4_999_999, 2: "ä\U0001f600".encode() * 20_000}
    rows = [raw(value, offset, at(0)) for offset, value in large.items()]
    rows += [raw(value, offset, at(0), "logs") for offset, value in large.items()]
    telemetry, logs = rows[:3], [row for row in rows[3:] if b"{" in (row.value or b"")]  # what is not JSON is syslog
    found = refused(spark, telemetry, logs)
    assert len(found) == 5
    for _, value, headers in found:
        whole = large[int(headers["kappa.offset"])]
        assert value == whole[:65_536]
        assert headers["kappa.length"] == str(len(whole))
        assert headers["kappa.sha256"] == hashlib.sha256(whole).hexdigest()


def test_a_record_of_several_bad_points_or_lines_is_refused_once(spark: SparkSession) -> None:
    metrics = [
        {"name": "m", "tags": {"host": "h"}, "fields": {"x": i}, "timestamp": int(at(61 + i).timestamp())}
        for i in range(1, 5)
    ]
    resource = {"attributes": [{"key": "host.name", "value": {"stringValue": "h"}}]}
    lines = [
        {"timeUnixNano": str((NOON_MS - 16_000) * 10**6), "body": {"stringValue": text}}
        for text in ("one thing", "another thing entirely", "a third")
    ]
    logs = {"resourceLogs": [{"resource": resource, "scopeLogs": [{"logRecords": lines}]}]}
    telemetry_raw, logs_raw = json.dumps({"metrics": metrics}).encode(), json.dumps(logs).encode()
    found = refused(spark, [raw(telemetry_raw, 0, at(0))], [raw(logs_raw, 0, at(0), "logs")])
    assert Counter((topic, value) for topic, value, _ in found) == {("d", telemetry_raw): 1, ("l", logs_raw): 1}


def test_a_heartbeat_is_a_window_without_a_row_and_a_host_of_that_name_is_a_host(spark: SparkSession) -> None:
    beat = b'{"record":"heartbeat","@timestamp":"2026-11-21T12:00:01Z"}'
    found = closed(spark, [raw(beat, 0, at(1))], [raw(beat, 0, at(11), "logs")])
    assert extract.find_closed_windows(found, WINDOWING).ends == (window_end(10), window_end(20))
    assert extract.all_rows(found, WINDOWING).collect() == []
    assert extract.refused_rows(found, TOPICS).collect() == []
    named = closed(
        spark, [raw(point(1, at(1), "heartbeat"), 0, at(1))], [raw(line("x", at(1), "heartbeat"), 0, at(1), "logs")]
    )
    kinds = Counter(names.parse(row["series"]).kind for row in extract.all_rows(named, WINDOWING).collect())
    assert kinds == {"gauge": 1, "template": 1, "logs": 1}


# --- watermark messages


@pytest.mark.parametrize("partitions", [1, 3])
def test_each_window_and_shard_has_one_watermark_message_after_its_rows(spark: SparkSession, partitions: int) -> None:
    seconds = [*range(0, 40), *range(70, 80)]  # nobody wrote into the windows between
    telemetry = [raw(point(1, at(s), f"host-{h}"), 50 * h + i, at(s)) for h in range(12) for i, s in enumerate(seconds)]
    logs = [raw(line(f"line {s}", at(s), "host-3"), i, at(s), "logs") for i, s in enumerate(seconds)]
    batch = closed(spark, telemetry, logs).persist()
    try:
        windows = extract.find_closed_windows(batch, WINDOWING)
        written = extract.output_records(batch, windows, WINDOWING, TOPICS, partitions).collect()
        n_rows = extract.all_rows(batch, WINDOWING).count()
    finally:
        batch.unpersist()
    assert windows.ends == tuple(window_end(s) for s in (10, 20, 30, 40, 80))
    announced: set[tuple[int, int]] = set()
    rows, limits = 0, dict.fromkeys(range(WINDOWING.shards), 0)
    for record in written:
        value = json.loads(record["value"])
        shard = value["shard"]
        assert record["topic"] == "s"
        assert record["partition"] == shard % partitions
        if value["record"] == "watermark":
            assert value == {
                "record": "watermark",
                "watermark": value["watermark"],
                "shard": shard,
            }
            assert record["key"] is None
            assert value["watermark"] > limits[shard], "watermarks of a shard go up"
            limits[shard] = value["watermark"]
            announced.add((value["watermark"], shard))
        else:
            assert bytes(record["key"]).decode() == value["series"]
            assert value["window_end"] > limits[shard], "a row after the watermark of its window"
            rows += 1
    assert announced == {(window, shard) for window in windows.ends for shard in range(WINDOWING.shards)}
    assert rows == n_rows
    assert len(written) == len(announced) + rows


# --- streams


def parquet_of(folder: Path, index: int, rows: list[Raw], schema: pa.Schema) -> None:
    """A file that a stream reads as its next batch."""
    folder.mkdir(exist_ok=True)
    file = folder / f"{index:03d}.parquet"
    parquet.write_table(pa.Table.from_pylist([row._asdict() for row in rows], schema), file)
    os.utime(file, (1_795_000_000 + index, 1_795_000_000 + index))


ARROW = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
    ]
)


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    files = spark.readStream.schema(SOURCE).option("maxFilesPerTrigger", 1).parquet(str(folder))
    return files.withWatermark("timestamp", f"{WINDOWING.watermark_delay_seconds} seconds")


def test_windows_close_by_append_time_and_no_admitted_record_is_dropped(spark: SparkSession, tmp_path: Path) -> None:
    """The mark that the watermark leaves on a column is Spark's own: without it no window would ever close."""
    batches = [
        [raw(point(1, at(5)), 0, at(5)), raw(point(2, at(85)), 1, at(25))],  # the second is ahead, and closes nothing
        [raw(point(3, at(10)), 2, at(25)), raw(point(4, at(9.999)), 3, at(25))],  # as late as may be, and later
        [raw(b"{broken", 4, at(26)), raw(point(5, at(20)), 5, at(35))],
        [raw(point(6, at(90)), 6, at(100))],
    ]
    beats = [[raw(b'{"record":"heartbeat"}', i, rows[-1].timestamp, "logs")] for i, rows in enumerate(batches)]
    for index, (telemetry, logs) in enumerate(zip(batches, beats, strict=True)):
        parquet_of(tmp_path / "telemetry", index, telemetry, ARROW)
        parquet_of(tmp_path / "logs", index, logs, ARROW)
    written: dict[tuple[str, int], tuple[int, float]] = {}
    order: list[int] = []
    letters: list[tuple[str, bytes]] = []

    def keep(batch: DataFrame, _: int) -> None:
        order.extend(extract.find_closed_windows(batch, WINDOWING).ends)
        for row in extract.all_rows(batch, WINDOWING).collect():
            key = (row["series"], row["window_end"])
            assert key not in written, "a window was written twice"
            written[key] = (row["n"], row["last"])
        letters.extend((r["topic"], bytes(r["value"])) for r in extract.refused_rows(batch, TOPICS).collect())

    streams = stream(spark, tmp_path / "telemetry"), stream(spark, tmp_path / "logs")
    writer = extract.closed_windows(*streams, WINDOWING).writeStream.foreachBatch(keep)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    dropped = [
        op["numRowsDroppedByWatermark"] for p in query.recentProgress for op in json.loads(p.json)["stateOperators"]
    ]

    assert dropped
    assert sum(dropped) == 0
    series = "gauge/h/s/m"
    assert written == {
        (series, window_end(10)): (1, 1.0),
        (series, window_end(20)): (1, 3.0),
        (series, window_end(30)): (1, 5.0),
    }
    assert order == sorted(order)
    assert Counter(letters) == {("l", batches[1][1].value): 1, ("d", b"{broken"): 1}
