"""Statistics of a window and series by Bytewax: `python -m bytewax.testing`, with SERVERS, TOPIC, OUTPUT, WINDOW, DELAY as variables."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from bytewax import operators as op
from bytewax.connectors.kafka import KafkaSinkMessage
from bytewax.connectors.kafka import operators as kafka
from bytewax.dataflow import Dataflow
from bytewax.operators.windowing import EventClock, TumblingWindower, fold_window

SERVERS = [os.environ["SERVERS"]]
WINDOW = timedelta(seconds=int(os.environ["WINDOW"]))
DELAY = timedelta(seconds=int(os.environ["DELAY"]))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Sums = list[float]  # n, mean, m2, min, max, last


def read(message: Any) -> tuple[str, tuple[datetime, float]] | None:
    """Series, event time and value; None for a heartbeat."""
    event = orjson.loads(message.value)
    name = event.get("metric.name")
    if name is None:
        return None
    return f"gauge/{event['host.name']}//{name}", (
        datetime.fromisoformat(event["@timestamp"]),
        float(event["metric.value"]),
    )


def nothing() -> Sums:
    """Sums of no value."""
    return [0, 0.0, 0.0, float("inf"), float("-inf"), 0.0]


def add(sums: Sums, event: tuple[datetime, float]) -> Sums:
    """One value more, by Welford's recurrence."""
    value = event[1]
    sums[0] += 1
    step = value - sums[1]
    sums[1] += step / sums[0]
    sums[2] += step * (value - sums[1])
    sums[3] = min(sums[3], value)
    sums[4] = max(sums[4], value)
    sums[5] = value
    return sums


def merged(one: Sums, other: Sums) -> Sums:
    """Tumbling windows are never merged."""
    msg = f"{one} and {other} are of one window"
    raise ValueError(msg)


def written(result: tuple[str, tuple[int, Sums]]) -> Any:
    """The record of a window."""
    series, (number, sums) = result
    window_end = round((EPOCH + WINDOW * (number + 1)).timestamp() * 1000)
    values = dict(zip(("n", "mean", "m2", "min", "max", "last"), sums, strict=True))
    record = {"series": series, "window_end": window_end, **values}
    return KafkaSinkMessage(key=None, value=orjson.dumps(record))


flow = Dataflow("peer")
source = kafka.input("read", flow, brokers=SERVERS, topics=[os.environ["TOPIC"]], tail=False)
events = op.filter_map("parse", source.oks, read)
clock = EventClock(lambda event: event[0], wait_for_system_duration=DELAY)
# Records of a series are in order of time here, so that none has to wait for those before it.
windows = fold_window("sum", events, clock, TumblingWindower(WINDOW, EPOCH), nothing, add, merged, ordered=False)
kafka.output("write", op.map("format", windows.down, written), brokers=SERVERS, topic=os.environ["OUTPUT"])
