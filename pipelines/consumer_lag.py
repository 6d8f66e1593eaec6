"""How far behind the log a streaming query was, by what Spark reports of a batch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

QueryProgress = Mapping[str, Any]


def lag_of(progress: QueryProgress) -> int:
    """The consumer lag: records that were in the topics when the batch was planned and that it did not read."""
    lag = 0
    for source in progress.get("sources", []):
        latest, end = offsets(source.get("latestOffset")), offsets(source.get("endOffset"))
        lag += sum(max(0, latest[where] - end.get(where, 0)) for where in latest)
    return lag


def offsets(value: Any) -> dict[tuple[str, str], int]:
    """Kafka offsets as Spark reports them (an object, or a text that holds one), by topic and partition."""
    found = json.loads(value) if isinstance(value, str) else value
    if not isinstance(found, dict):
        return {}
    return {(topic, part): int(n) for topic, parts in found.items() for part, n in parts.items()}
