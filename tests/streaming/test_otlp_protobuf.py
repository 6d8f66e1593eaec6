"""OpenTelemetry's protobuf is read as its JSON is: the same points and lines, the same limits, and no bytes that raise."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from pyspark.sql import SparkSession
from support.otlp_differences import rows, unlike_json, unlike_official
from support.otlp_messages import NANOSECONDS, Message, as_json

pytestmark = pytest.mark.spark

# without shrinking: a smaller seed is no smaller record
FEW = settings(max_examples=2, phases=[Phase.generate], suppress_health_check=list(HealthCheck), derandomize=True)
RECORDS = 200  # of an example
TOPICS = ("telemetry", "logs")


def metrics() -> MetricsData:
    data = MetricsData()
    of = data.resource_metrics.add()
    of.resource.attributes.add(key="host.name").value.string_value = "h"
    of.resource.attributes.add(key="service.name").value.string_value = "shop"
    scope = of.scope_metrics.add()
    gauge = scope.metrics.add(name="queue", unit="1").gauge.data_points.add(time_unix_nano=NANOSECONDS, as_double=2.5)
    gauge.attributes.add(key="zone").value.int_value = -3
    total = scope.metrics.add(name="requests").sum
    total.aggregation_temporality, total.is_monotonic = 2, True
    total.data_points.add(time_unix_nano=NANOSECONDS, as_int=9007199254740993)
    times = scope.metrics.add(name="times").histogram
    times.aggregation_temporality = 1
    times.data_points.add(time_unix_nano=NANOSECONDS, count=4, sum=2.5, bucket_counts=[1, 3], explicit_bounds=[0.5])
    sizes = scope.metrics.add(name="sizes").exponential_histogram
    sizes.aggregation_temporality = 2
    sizes.data_points.add(time_unix_nano=NANOSECONDS, count=0)
    scope.metrics.add(name="rpc").summary.data_points.add(time_unix_nano=NANOSECONDS, count=6)
    return data


def logs() -> LogsData:
    data = LogsData()
    of = data.resource_logs.add()
    of.resource.attributes.add(key="k8s.node.name").value.string_value = "node-1"
    of.resource.attributes.add(key="service.name").value.string_value = "shop"
    line = of.scope_logs.add().log_records.add(time_unix_nano=NANOSECONDS, severity_number=17, severity_text="ERROR")
    line.body.string_value = "timeout after 3021 ms"
    return data


# what the official encoder makes of the two
VECTORS = {
    "telemetry": bytes.fromhex(
        "0a87020a2a0a100a09686f73742e6e616d6512030a01680a160a0c736572766963652e6e616d6512060a0473686f7012d8011235"
        "0a0571756575651a01312a290a271900490fa5a6ac87182100000000000004403a130a047a6f6e65120b18fdffffffffffffffff01"
        "12240a0872657175657374733a180a121900490fa5a6ac87183101000000000020001002180112440a0574696d65734a3b0a371900"
        "490fa5a6ac87182104000000000000002900000000000004403210010000000000000003000000000000003a08000000000000e03f"
        "100112160a0573697a6573520d0a091900490fa5a6ac87181002121b0a037270635a140a121900490fa5a6ac871821060000000000"
        "0000"
    ),
    "logs": bytes.fromhex(
        "0a640a330a190a0d6b38732e6e6f64652e6e616d6512080a066e6f64652d310a160a0c736572766963652e6e616d6512060a047368"
        "6f70122d122b0900490fa5a6ac871810111a054552524f522a170a1574696d656f75742061667465722033303231206d73"
    ),
}
MADE: dict[str, Message] = {"telemetry": metrics(), "logs": logs()}
READ = {
    "telemetry": {
        ("gauge/h/shop/queue{zone=-3}", 2.5),
        ("counter/h/shop/requests", 9007199254740992.0),
        ("gauge/h/shop/times.count", 4.0),
        ("gauge/h/shop/times.sum", 2.5),
        ("counter/h/shop/sizes.count", 0.0),
        ("counter/h/shop/rpc.count", 6.0),
        ("counter/h/shop/rpc.sum", 0.0),
    },
    "logs": {("node-1", "shop", "error", "timeout after 3021 ms")},
}


def traces() -> TracesData:
    data = TracesData()
    of = data.resource_spans.add()
    span = of.scope_spans.add().spans.add(trace_id=bytes(range(16)), span_id=bytes(8), name="GET /", kind=2)
    span.start_time_unix_nano = span.end_time_unix_nano = NANOSECONDS
    return data


@pytest.mark.parametrize("topic", TOPICS)
def test_the_bytes_of_the_official_encoder_are_read(spark: SparkSession, topic: str) -> None:
    assert MADE[topic].SerializeToString() == VECTORS[topic]
    (found,) = rows(spark, [VECTORS[topic]], topic)
    names = ("series", "value") if topic == "telemetry" else ("host", "service", "level", "message")
    parsed = [json.loads(row) for row in found]
    assert {tuple(row[name] for name in names) for row in parsed} == READ[topic]
    assert {row["time"] for row in parsed} == {NANOSECONDS // 1000}


def test_traces_are_refused_with_a_reason_that_says_so_in_both_forms(spark: SparkSession) -> None:
    for topic in TOPICS:
        found = rows(spark, [traces().SerializeToString(), as_json(traces())], topic)
        wanted = "traces are not read, only metrics and logs"
        assert [[json.loads(row)["reason"] for row in each] for each in found] == [[wanted], [wanted]]


def test_a_line_of_texts_alone_is_none_of_a_metric(spark: SparkSession) -> None:
    """Its fields have the numbers and types of a metric's: what comes behind it shows what it is."""
    data = logs()
    lines = data.resource_logs[0].scope_logs[0].log_records
    whole = lines.pop()
    lines.add(severity_text="ERROR", trace_id=b"0123456789abcdef").body.string_value = "a"
    lines.append(whole)
    found, as_text = rows(spark, [data.SerializeToString(), as_json(data)], "logs")
    assert found == as_text
    assert sorted(json.loads(row)["message"] for row in found) == ["a", "timeout after 3021 ms"]


@pytest.mark.parametrize("topic", TOPICS)
@given(seed=st.integers(0, 2**32))
@FEW
def test_a_record_is_read_alike_in_json_and_in_protobuf(spark: SparkSession, topic: str, seed: int) -> None:
    wrong, good = unlike_json(spark, topic, seed, RECORDS)
    assert wrong == []
    assert good > RECORDS / 2


@pytest.mark.parametrize("topic", TOPICS)
@given(seed=st.integers(0, 2**32))
@FEW
def test_no_damage_raises_or_loses_a_record_or_reads_it_otherwise_than_the_official_decoder(
    spark: SparkSession, topic: str, seed: int
) -> None:
    wrong, compared = unlike_official(spark, topic, seed, RECORDS)
    assert wrong == []
    assert compared > RECORDS / 20


@pytest.mark.parametrize("topic", TOPICS)
def test_a_record_that_is_cut_off_is_refused(spark: SparkSession, topic: str) -> None:
    whole = VECTORS[topic]
    found = rows(spark, [whole[:length] for length in range(1, len(whole))], topic)
    reasons = {json.loads(row)["reason"] for each in found for row in each}
    assert all(len(each) == 1 for each in found)
    assert all(
        reason.startswith(("OTLP protobuf: broken at byte", "not JSON", "not a JSON object", "not UTF-8"))
        for reason in reasons
    ), reasons
