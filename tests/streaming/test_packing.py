"""Records of `statistics` on their way to Python: many to a row, each with its shard; what `extract` has not written is a letter."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from models.detection.limits import AHEAD, KINDS, LATE
from models.records.records import PEERS
from pipelines.jobs import extract
from pipelines.jobs.detect import METRICS, add_records, decode_metric_columns
from pipelines.jvm import REFUSED, pack_by_shard
from pipelines.peers import QUANTILES
from pipelines.series_columns import shard_of
from pipelines.state.window_buffer import COUNTS, NUMBERS, WindowBuffer
from pipelines.windowing import TopicOfShards

W = 1_700_000_000_000
TOPIC = TopicOfShards("statistics", partitions=2, shards=8, window_ms=10_000, ahead_ms=45_000)
GAUGE_OR_COUNTER = re.compile(rb'{"record":"statistics","series":"(gauge|counter)/')
NAME = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=12
) | st.sampled_from(['"shard":9', '","shard":9', "\\", '{"watermark":1}', "a/b%c", "\u2028", "\U0001f600"])
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=30)
VALUE = st.floats(-1e15, 1e15, allow_subnormal=True)
CHANGE = '{"at":1700000000000,"change":"other","service":TEXT,"host":"","version":"","comment":TEXT,"author":""}'
SAMPLES = {  # what detect reads of what people write
    "label": ['{"label":"true","series":["gauge/h//m",TEXT]}'],
    "change": [CHANGE, '{"client":TEXT,"server":"s","removed":false}'],
}


def values(spark: SparkSession, records: list[tuple[bytes | None, int]], append: int = W) -> DataFrame:
    """As Kafka's source gives them: `records` are values and partitions."""
    rows = [(value, partition, offset, append) for offset, (value, partition) in enumerate(records)]
    frame = spark.createDataFrame(rows, "value binary, partition int, offset long, timestamp long")
    return frame.withColumn("timestamp", F.timestamp_millis("timestamp")).coalesce(1)


Packed = tuple[int, bytes | tuple[Any, ...]]  # a shard, and a line, or the numbers of a metric
METRIC = ("series", *COUNTS, *NUMBERS, *PEERS)


def packed(
    spark: SparkSession, records: list[tuple[bytes | None, int]]
) -> tuple[list[Packed], list[dict[str, Any]], list[bytes]]:
    """The records that were believed, with their shards, the letters about the others, and the values that hold the former."""
    rows = pack_by_shard(values(spark, records), TOPIC).collect()
    letters = [json.loads(bytes(row.value)) for row in rows if row.shard == REFUSED]
    found = [(row.shard, bytes(row.value)) for row in rows if row.shard != REFUSED]
    good: list[Packed] = []
    for shard, value in found:
        if value.startswith(METRICS):
            columns = decode_metric_columns(value)
            metrics = zip(*(columns[name].tolist() for name in METRIC), strict=True)
            good += [(shard, tuple(None if number != number else number for number in one)) for one in metrics]  # noqa: PLR0124
        else:
            good += [(shard, line) for line in value.split(b"\n")]
    return good, letters, [value for _, value in found]


def as_packed(records: Iterable[tuple[int, bytes]]) -> list[Packed]:
    """The same of shards and records, read by Python's own JSON."""
    return [
        (shard, tuple(map(json.loads(line).get, METRIC)) if GAUGE_OR_COUNTER.match(line) else line)
        for shard, line in records
    ]


def quoted(part: str) -> str:
    return part.replace("%", "%25").replace("/", "%2F")


@st.composite
def rows(draw: st.DrawFn) -> dict[str, Any]:
    """A row as extract writes it, without its shard."""
    host, service, name = (quoted(draw(NAME)) for _ in range(3))
    kind = draw(st.sampled_from(["gauge", "counter", "logs", "template", "overflow", "rule", *SAMPLES]))
    about: dict[str, Any] = {"window_end": W - 10_000 * draw(st.integers(0, 5)), "n": draw(st.integers(1, 10**8))}
    if kind in ("gauge", "counter"):
        least, last, most = sorted(draw(st.lists(VALUE, min_size=3, max_size=3)))
        about |= {
            "mean": last if kind == "gauge" else 0.0,
            "m2": abs(draw(VALUE)),
            "min": least,
            "max": most,
            "last": last,
        }
        if kind == "gauge" and draw(st.booleans()):
            bounds = sorted(draw(st.lists(VALUE, min_size=3, max_size=3)))
            about |= {"peers": draw(st.integers(5, 10**6)), **dict(zip(QUANTILES, bounds, strict=True))}
        return {"series": f"{kind}/{host}/{service}/{name}", **about}
    if kind == "logs":
        return {"series": f"logs/{host}/{service}/error", **about}
    if kind == "rule":
        series = f"rule/{draw(st.integers(0, TOPIC.shards - 1))}/{7:020d}"
        return {"series": series, **about, "template": draw(NAME), "sample": draw(st.none() | TEXT)}
    if kind == "overflow":
        series = f"overflow/{host}/{draw(st.sampled_from((*KINDS, LATE, AHEAD)))}"
        return {"series": series, **about, "last": float(about["n"]), "sample": json.dumps(draw(st.lists(TEXT)))}
    if kind in SAMPLES:
        sample = draw(st.sampled_from(SAMPLES[kind])).replace("TEXT", json.dumps(draw(TEXT)))
        return {"series": f"{kind}/{host}/{7:020d}", **about, "sample": sample}
    return {"series": f"template/{host}//info/{'0a' * 8}", **about, "template": draw(TEXT), "sample": draw(TEXT)}


def written(spark: SparkSession, found: list[dict[str, Any]]) -> list[tuple[int, bytes]]:
    """Shards and values of rows, as `extract.output_records` makes them."""
    names = ["series", "window_end", "n", "mean", "m2", "min", "max", "last", "peers", *QUANTILES, "template", "sample"]
    types = ["string", "long", "long", *["double"] * 5, "long", *["double"] * 3, "string", "string"]
    ddl = ", ".join(f"{name} {kind}" for name, kind in zip(names, types, strict=True))
    frame = spark.createDataFrame([[row.get(name) for name in names] for row in found], ddl)
    host = F.element_at(F.split("series", "/"), 2)
    of_rule = F.col("series").startswith("rule/")
    shard = F.when(of_rule, host.try_cast("int")).otherwise(shard_of(host, TOPIC.shards))
    fields = F.struct(F.lit("statistics").alias("record"), *extract.STATISTICS)
    made = frame.withColumn("shard", shard).select("shard", F.to_json(fields).cast("binary").alias("value"))
    return [(row.shard, bytes(row.value)) for row in made.collect()]


def message(watermark: int, shard: int, **changes: Any) -> bytes:
    about = {"record": "watermark", "watermark": watermark, "shard": shard} | changes
    return json.dumps(about, separators=(",", ":")).encode()


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(rows(), min_size=1, max_size=60), st.lists(st.tuples(st.integers(0, 9), st.integers(0, 7)), max_size=9))
def test_each_record_of_extract_is_packed_once_with_its_shard(
    spark: SparkSession, found: list[dict[str, Any]], messages: list[tuple[int, int]]
) -> None:
    records = written(spark, found) + [(shard, message(W - 10_000 * back, shard)) for back, shard in messages]
    good, letters, chunks = packed(spark, [(value, shard % 2) for shard, value in records])
    assert letters == []
    assert Counter(good) == Counter(as_packed(records))
    buffer = WindowBuffer()
    add_records(buffer, chunks)  # what is believed can be read
    assert len(buffer.rows["n"]) == len(found)


def test_numbers_are_read_as_they_were_written(spark: SparkSession) -> None:
    """Those of few digits, which are read otherwise than long ones, with as many digits before and behind the point as there may be."""
    source = random.Random(5)
    numbers = [-0.0]
    for digits in range(1, 18):
        for places in range(max(0, digits - 15), digits):
            numbers.append(float(f"{source.choice('-+')}{source.randrange(10 ** (digits - 1), 10**digits)}E-{places}"))
    row = {"window_end": W, "n": 1, "m2": 0.0}
    found: list[dict[str, Any]] = [
        row | {"series": f"gauge/h{i}/web/m"} | dict.fromkeys(("mean", "min", "max", "last"), x)
        for i, x in enumerate(numbers)
    ]
    records = written(spark, found)
    good, letters, _ = packed(spark, [(value, shard % 2) for shard, value in records])
    assert letters == []
    assert sorted(map(repr, good)) == sorted(map(repr, as_packed(records))), "to the bit, and with the sign of zero"


def test_metrics_are_in_rows_of_a_bounded_size(spark: SparkSession) -> None:
    found = written(spark, [GOOD | {"series": f"gauge/web-1/shop/{i}{'x' * 200}"} for i in range(4000)])
    shard = found[0][0]
    good, letters, chunks = packed(spark, [(value, shard % 2) for _, value in found])
    assert (letters, Counter(good)) == ([], Counter(as_packed(found)))
    assert len(chunks) > 2
    assert all(262_144 <= len(value) < 264_000 for value in sorted(chunks, key=len)[1:])


def test_a_row_has_a_bounded_size(spark: SparkSession) -> None:
    row = {"window_end": W, "n": 1, "template": "x" * 500, "sample": "y"}
    found = written(spark, [{"series": f"template/h{i % 2}//info/{i:016x}", **row} for i in range(4000)])
    shards = {shard for shard, _ in found}
    assert len(shards) == 2
    rows = pack_by_shard(values(spark, [(value, shard % 2) for shard, value in found]), TOPIC).collect()
    sizes = {shard: sorted(len(row.value) for row in rows if row.shard == shard) for shard in shards}
    assert all(262_144 <= size < 264_000 for of in sizes.values() for size in of[1:])
    assert sum(bytes(row.value).count(b"\n") + 1 for row in rows) == 4000


GOOD = {
    "series": "gauge/web-1/shop/load",
    "window_end": W,
    "n": 3,
    "mean": 1.5,
    "m2": 0.5,
    "min": 1.0,
    "max": 2.0,
    "last": 1.0,
}
JUNK: list[tuple[bytes | None, str]] = [
    (None, "it is empty"),
    (b"", "it is empty"),
    (b"not JSON", "it begins otherwise"),
    (b"[1,2]", "it begins otherwise"),
    (b"\xff\xfe\x00", "a control character"),
    (b"\x80\x81", "not UTF-8"),
    (b"x" * 2_000_000, "it has 2000000 bytes"),
    (b"[" * 900_000, "it begins otherwise"),
    (b'{"series":"a"}', "it begins otherwise"),
    (message(9 * 10**15, 1), "after the append time"),
    (message(9 * 10**17, 1), "after the append time"),
    (message(W + 50_000, 1), "after the append time"),
    (message(W - 5, 1), "is not on the grid"),
    (message(-10_000, 1), "a watermark message"),
    (message(0, 1), "is not on the grid"),
    (message(W, 0), "does not live in partition 1"),
    (message(W, 9), "does not live in partition 1"),
    (message(W, 2**31 + 1), "a watermark message"),
    (message(W, 1, instance=0), "a watermark message"),
    (message(W, 1).replace(b'"shard":1', b'"shard":"1"'), "a watermark message"),
    (message(W, 1, more=1), "a watermark message"),
    (message(W, 1)[:-1], "a watermark message"),
    (message(W, 1) + b"\n" + message(W, 1), "a control character"),
    (message(W, 1) + message(W, 1), "a watermark message"),
    (json.dumps(json.loads(message(W, 1))).encode(), "it begins otherwise"),
]


@pytest.mark.parametrize(("record", "reason"), JUNK, ids=range(len(JUNK)))
def test_what_extract_has_not_written_is_a_letter(spark: SparkSession, record: bytes | None, reason: str) -> None:
    honest = message(W + 40_000, 1)
    good, (letter,), _ = packed(spark, [(honest, 1), (record, 1), (honest, 1)])
    assert good == [(1, honest)] * 2
    value = record or b""
    assert reason in letter["reason"]
    assert base64.b64decode(letter.pop("value")) == value[:65_536]
    assert letter == {
        "record": "refused",
        "topic": "statistics",
        "partition": 1,
        "offset": 1,
        "timestamp": W,
        "reason": letter["reason"],
        "stage": "detect",
        "length": len(value),
        "sha256": hashlib.sha256(value).hexdigest(),
    }


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"n":3', b'"n":-3'),
        (b'"n":3', b'"n":2.5'),
        (b'"n":3', b'"n":0'),
        (b'"n":3', b'"n":99999999999'),
        (b'"n":3', b'"n":"3"'),
        (b'"n":3', b'"n":null'),
        (b'"mean":1.5', b'"mean":NaN'),
        (b'"mean":1.5', b'"mean":"NaN"'),
        (b'"mean":1.5', b'"mean":1.5E999'),
        (b'"m2":0.5', b'"m2":-0.5'),
        (b'"m2":0.5', b'"m2":Infinity'),
        (b'"min":1.0', b'"min":9.0'),
        (b'"last":1.0', b'"last":3.0'),
        (b'"max":2.0', b'"max":2.0E15'),
        (b'"m2":0.5,', b""),
        (b"window_end", b"window_and"),
        (b"1700000000000", b"1700000000001"),
        (b"1700000000000", b"9000000000000000"),
        (b"gauge/", b"gouge/"),
        (b"gauge/", b"host/"),
        (b"gauge/web-1/", b"gauge//"),
        (b"gauge/web-1/shop/load", b"gauge"),
        (b"gauge/web-1/shop/load", b"gauge/web-1/shop"),
        (b"gauge/web-1/shop/load", b"gauge/web-1/shop/load/more"),
        (b"load", b"lo%ad"),
        (b"load", b"lo\\u0000ad"),
        (b"load", b"lo\\nad"),
        (b"load", "lo\u0085ad".encode()),
        (b"load", b"x" * 24_001),
        (b"load", b"x" * 999_000),
        (b"web-1", b"web-5"),
        (b'"shard"', b'"shard":1,"shard"'),
        (b"}", b',"template":"a"}'),
        (b"}", b',"more":1}'),
        (b"}", b"}}"),
        (b"}", b""),
    ],
)
def test_a_row_that_was_tampered_with_is_refused(spark: SparkSession, old: bytes, new: bytes) -> None:
    ((shard, value),) = written(spark, [GOOD])
    assert old in value
    good, letters, _ = packed(spark, [(value, shard % 2), (value.replace(old, new, 1), shard % 2)])
    assert good == as_packed([(shard, value)])
    assert len(letters) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"rule/1/", b"rule/3/"),
        (b"rule/1/", b"rule/01/"),
        (b"rule/1/", b"rule//"),
        (b"rule/1/", b"rule/one/"),
        (b'"shard":1', b'"shard":3'),
        (b"0007", b"007"),
        (b"0007", b"x007"),
        (b"00000000000000000007", b"09223372036854775808"),
        (b'"sample"', b'"template"'),
        (b'"template":"name",', b""),
        (b'"template":"name"', b'"template":""'),
        (b'"template":"name"', b'"template":null'),
        (b'"name"', b'"%s"' % (b"x" * 401)),
    ],
)
def test_a_rule_that_is_not_for_its_shard_or_has_no_name_is_refused(
    spark: SparkSession, old: bytes, new: bytes
) -> None:
    row = {"series": f"rule/1/{7:020d}", "window_end": W, "n": 1, "template": "name", "sample": "{}"}
    ((shard, value),) = written(spark, [row])
    assert old in value
    good, letters, _ = packed(spark, [(value, 1), (value.replace(old, new, 1), 1)])
    assert (good, len(letters)) == ([(shard, value)], 1)


@pytest.mark.parametrize(
    ("kind", "samples"),
    [
        (
            "label/h",
            [
                "junk",
                "{}",
                "null",
                "[]",
                '{"label":"true"}',
                '{"label":5,"series":["a"]}',
                '{"label":"true","series":"a"}',
            ],
        ),
        (
            "label/h",
            [
                '{"label":"true","series":[5]}',
                '{"label":"true","series":["\\ud800"]}',
                '{"label":"true","series":[]}{}',
            ],
        ),
        ("label/h", ['{"label":"true","series":[' + "[" * 900, '{"label":"true","label":"true","series":[]}', None]),
        (
            "change/h",
            ["junk", "{}", CHANGE.replace("1700000000000", "1e400"), CHANGE.replace("1700000000000", "9" * 19)],
        ),
        (
            "change/h",
            [CHANGE.replace("TEXT", '"\\udc00"'), CHANGE.replace("TEXT", "7"), '{"client":"a"}', "[" * 900, None],
        ),
        ("change/h", ['{"client":"a","server":"b","removed":"yes"}', '{"client":null,"server":"b"}', '{"at":1}']),
        ("overflow/h/metrics", ["junk", "{}", "[5]", "[null]", '["\\ud800"]', '["a"', None]),
        ("overflow/h/none", ["[]"]),
        ("overflow/h/", ["[]"]),
    ],
)
def test_json_in_a_row_that_detect_could_not_read_is_refused(
    spark: SparkSession, kind: str, samples: list[str | None]
) -> None:
    series = kind if kind.startswith("overflow") else f"{kind}/{7:020d}"
    row = {"series": series, "window_end": W, "n": 1, **({"last": 1.0} if kind.startswith("overflow") else {})}
    records = written(spark, [row | {"sample": sample} for sample in samples])
    good, letters, _ = packed(spark, [(value, shard % 2) for shard, value in records])
    assert (good, len(letters)) == ([], len(samples))


def test_the_beginning_of_a_record_is_a_letter_wherever_it_ends(spark: SparkSession) -> None:
    lines = {"template": 'a "quoted" <*>', "sample": "tab\tand \\"}
    found: list[dict[str, Any]] = [
        GOOD | {"peers": 9} | dict.fromkeys(QUANTILES, 1.0),
        {"series": f"template/h//info/{1:016x}", "window_end": W, "n": 1, **lines},
        {"series": f"label/h/{7:020d}", "window_end": W, "n": 1, "sample": SAMPLES["label"][0].replace("TEXT", '"a"')},
        {"series": f"rule/1/{7:020d}", "window_end": W, "n": 1, "template": "name", "sample": "{}"},
        {"series": "overflow/h/metrics", "window_end": W, "n": 1, "last": 2.0, "sample": "[]"},
    ]
    records = [*written(spark, found), (1, message(W, 1))]
    whole, none, _ = packed(spark, [(value, shard % 2) for shard, value in records])
    assert (len(whole), none) == (len(records), [])
    cut: list[tuple[bytes | None, int]] = [
        (value[:end], shard % 2) for shard, value in records for end in range(len(value))
    ]
    good, letters, _ = packed(spark, cut)
    assert (good, len(letters)) == ([], len(cut))


def test_whatever_bytes_are_changed_what_is_believed_can_be_read(spark: SparkSession) -> None:
    source = random.Random(21)
    lines = {"template": 'a "quoted" <*> \U0001f600', "sample": "tab\tand \x01 \u00e9 \\"}
    given = written(spark, [GOOD, {"series": f"template/h//info/{1:016x}", "window_end": W, "n": 1, **lines}])
    given += [(1, message(W, 1))]
    records: list[tuple[bytes | None, int]] = []
    for _ in range(3_000):
        shard, value = source.choice(given)
        changed = bytearray(value)
        for _ in range(source.choice([1, 1, 2, 5])):
            at = source.randrange(len(changed))
            what = source.choice(
                [b"\\", b'"', b"u", b"\xff", b"\xc3", b"0", b"9", b"-", b".", b"E", b"", b"\\ud800", b"\\udc00", b"/"]
            )
            changed[at : at + source.choice([0, 1])] = what
        records.append((bytes(changed), shard % 2))
    good, letters, chunks = packed(spark, records)
    assert len(good) + len(letters) == len(records)
    assert len(letters) > 1_000
    buffer = WindowBuffer()
    add_records(buffer, chunks)
    numbers = [buffer.rows[name] for name in ("mean", "m2", "min", "max", "last")]
    metric = np.char.startswith(buffer.rows["series"].astype(str), "gauge/")
    assert all(np.isfinite(column[metric]).all() for column in numbers)
    assert (buffer.rows["n"] > 0).all()
