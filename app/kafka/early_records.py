"""Records of the topic `early`, for all that read them: nothing in them is believed, and their size is bounded once."""

from __future__ import annotations

import json

from app.core.timestamps import LAST_MS
from app.kafka.incident_records import ID
from models.core.series import parse
from models.records.records import EARLY_STATUSES, EarlyAlarm
from models.records.schema import parsed

MOST_ALARM_BYTES = 65_536


def parse_alarm(value: bytes | None) -> EarlyAlarm | None:
    """A record of `early` that is an alarm; None for anything else."""
    if value is None or len(value) > MOST_ALARM_BYTES:
        return None
    try:
        source = json.loads(value)
        found = parsed(EarlyAlarm, source)
        parse(found.series)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    sound = source.get("record") == EarlyAlarm.KIND and found.status in EARLY_STATUSES
    sound = sound and bool(ID.fullmatch(found.id))  # it becomes a header of a webhook
    return found if sound and 0 <= found.window_end < LAST_MS and 0 <= found.event_time < LAST_MS else None
