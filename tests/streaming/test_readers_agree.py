"""Flat records are read in Java as Spark's functions read them: the same rows, or the same refusal."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from support import record_grammar
from support.reader_differences import READERS, differing, fuzzed

pytestmark = pytest.mark.spark

RECORDS = 10_000  # of each topic; benchmarks/fuzz_readers.py has more
SEED = 21
MIXED = {
    record_grammar.TELEMETRY: [
        b'{"@timestamp":"2026-01-05T00:00:10Z","host.name":"h","service":{"name":"s"},"metric.name":"m","metric.value":%s}',
        b'{"@timestamp":"2026-01-05T00:00:10Z","host.name":"h","metric.name":"m","metric.value":%s,"metric.type":null,"metric":{"type":"counter"}}',
        b'{"@timestamp":"2026-01-05T00:00:10Z","host.name":null,"host":{"name":"h"},"metric.name":"m","metric.value":%s}',
    ],
    record_grammar.LOGS: [
        b'{"@timestamp":"2026-01-05T00:00:10Z","host.name":"h","service.name":"s","service":{"name":"t"},"log.level":"info","message":"m %s"}',
        b'{"@timestamp":"2026-01-05T00:00:10Z","host.name":"h","service.name":"s","log.level":null,"log":{"level":"error"},"message":"m %s"}',
        # a member that only the slower reader knows counts, and no other makes a difference
        b'{"@timestamp":"2026-01-05T00:00:10Z","host.name":"h","log.level":"info","kubernetes":{"node":{"name":"n"}},"message":"m %s"}',
        b'{"@timestamp":"2026-01-05T00:00:10Z","host.name":"h","service.name":"s","log.level":"info","kubernetes.node.name":"n","message":"m %s"}',
        b'{"@timestamp":"2026-01-05T00:00:10Z","host.name":"h","log.level":"info","log":{"syslog":{"hostname":"n"}},"message":"m %s"}',
        b'{"@timestamp":"2026-01-05T00:00:10Z","host.name":"h","service.name":"s","message":"ERROR m %s"}',
        b'{"@timestamp":"2026-01-05T00:00:10Z","host.name":"h","service.name":"s","message":"m %s","level":"error"}',
        b'{"@timestamp":"2026-01-05T00:00:10Z","host.name":"h","log.level":"warn","message":"m %s","container":{"name":"c"}}',
        b'{"@timestamp":"2026-01-05T00:00:10Z","host.name":"h","message":"WARN m %s"}',
        b'{"@timestamp":"2026-01-05T00:00:10Z","host.name":"h","service.name":"","message":"m %s"}',
    ],
}


@pytest.mark.parametrize("topic", READERS)
def test_both_readers_give_the_same_rows_or_the_same_refusal(spark: SparkSession, topic: str) -> None:
    assert fuzzed(spark, topic, SEED, RECORDS) == []


@pytest.mark.parametrize("topic", READERS)
def test_flat_and_nested_members_are_one_series_however_a_number_is_spelt(spark: SparkSession, topic: str) -> None:
    spelt = [record % number for record in MIXED[topic] for number in (b"5", b"5.0", b"5e0", b"0.5E+1", b"50e-1")]
    assert differing(spark, spelt, topic) == []
