"""Statistics of a window and series by Flink SQL, in a process of its own: SERVERS TOPIC OUTPUT JAR WINDOW DELAY PARALLELISM."""

from __future__ import annotations

import sys
from datetime import timedelta

from pyflink.table import EnvironmentSettings, TableEnvironment

INPUT = """
CREATE TABLE telemetry (
    `@timestamp` TIMESTAMP_LTZ(3),
    `host.name` STRING,
    `metric.name` STRING,
    `metric.value` DOUBLE,
    WATERMARK FOR `@timestamp` AS `@timestamp` - INTERVAL '{delay}' HOUR TO SECOND
) WITH (
    'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{servers}',
    'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset',
    'format' = 'json', 'json.timestamp-format.standard' = 'ISO-8601', 'json.ignore-parse-errors' = 'true'
)
"""
OUTPUT = """
CREATE TABLE statistics (
    `series` STRING, `window_end` BIGINT, `n` BIGINT, `mean` DOUBLE, `m2` DOUBLE,
    `min` DOUBLE, `max` DOUBLE, `last` DOUBLE
) WITH (
    'connector' = 'kafka', 'topic' = '{output}', 'properties.bootstrap.servers' = '{servers}', 'format' = 'json',
    'properties.compression.type' = 'lz4', 'properties.linger.ms' = '50'
)
"""
SUMS = """
INSERT INTO statistics
SELECT
    CONCAT('gauge/', `host.name`, '//', `metric.name`),
    1000 * UNIX_TIMESTAMP(DATE_FORMAT(window_end, 'yyyy-MM-dd HH:mm:ss')),
    COUNT(*), SUM(`metric.value`) / COUNT(*),
    SUM(`metric.value` * `metric.value`) - SUM(`metric.value`) * SUM(`metric.value`) / COUNT(*),
    MIN(`metric.value`), MAX(`metric.value`), LAST_VALUE(`metric.value`)
FROM TABLE(TUMBLE(TABLE telemetry, DESCRIPTOR(`@timestamp`), INTERVAL '{window}' SECOND))
WHERE `metric.name` IS NOT NULL
GROUP BY window_start, window_end, `host.name`, `metric.name`
"""


def main() -> None:
    """Run to the end of the topic."""
    servers, topic, output, jar, window, delay, parallelism = sys.argv[1:]
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for key, value in (
        ("pipeline.jars", f"file://{jar}"),
        ("parallelism.default", parallelism),
        ("pipeline.object-reuse", "true"),
        ("table.local-time-zone", "UTC"),
    ):
        tables.get_config().set(key, value)
    tables.execute_sql(INPUT.format(topic=topic, servers=servers, delay=timedelta(seconds=int(delay))))
    tables.execute_sql(OUTPUT.format(output=output, servers=servers))
    tables.execute_sql(SUMS.format(window=window)).wait()


if __name__ == "__main__":
    main()
