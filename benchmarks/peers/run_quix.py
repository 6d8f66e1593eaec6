"""Statistics of a window and series by Quix Streams: SERVERS TOPIC OUTPUT WINDOW DELAY FOLDER. Ends when nothing has come for IDLE_SECONDS."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import Any

from quixstreams import Application
from quixstreams.models import TopicConfig

IDLE_SECONDS = 5.0
NAMES = ("n", "mean", "m2", "min", "max", "last")


def event_time(value: Any, headers: Any, timestamp: float, kind: Any) -> int:
    """Epoch milliseconds of a record."""
    return round(datetime.fromisoformat(value["@timestamp"]).timestamp() * 1000)


def first(event: dict[str, Any]) -> dict[str, Any]:
    """Sums of one value; a heartbeat has none."""
    if "metric.name" not in event:
        return {"n": 0}
    value = event["metric.value"]
    series = f"gauge/{event['host.name']}//{event['metric.name']}"
    return {"series": series, "n": 1, "mean": value, "m2": 0.0, "min": value, "max": value, "last": value}


def add(sums: dict[str, Any], event: dict[str, Any]) -> dict[str, Any]:
    """One value more, by Welford's recurrence."""
    if "metric.name" not in event:
        return sums
    value = event["metric.value"]
    sums["n"] += 1
    step = value - sums["mean"]
    sums["mean"] += step / sums["n"]
    sums["m2"] += step * (value - sums["mean"])
    sums["min"], sums["max"], sums["last"] = min(sums["min"], value), max(sums["max"], value), value
    return sums


def written(window: dict[str, Any]) -> dict[str, Any]:
    """The record of a window."""
    return {**window["value"], "window_end": window["end"]}


def main() -> None:
    """Run until nothing comes."""
    servers, topic, output, window, delay, folder = sys.argv[1:]
    application = Application(
        servers,
        consumer_group=f"quix-{output}",
        auto_offset_reset="earliest",
        state_dir=folder,
        loglevel="WARNING",
        topic_create_timeout=30,
    )
    source = application.topic(topic, timestamp_extractor=event_time)
    sink = application.topic(output, config=TopicConfig(num_partitions=1, replication_factor=1))
    frame = application.dataframe(source)
    # Records have their series as their key. A heartbeat is the last of its partition, and closes the windows of all keys.
    windows = frame.tumbling_window(1000 * int(window), grace_ms=1000 * int(delay)).reduce(
        reducer=add, initializer=first
    )
    windows.final(closing_strategy="partition").filter(lambda one: one["value"]["n"] > 0).apply(written).to_topic(sink)
    application.run(timeout=IDLE_SECONDS)


if __name__ == "__main__":
    main()
