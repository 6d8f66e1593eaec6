"""Which records of the topic `labels` are labels, for whoever reads them: `extract` makes letters of the others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from models.records.records import LABELS, Heartbeat

MOST_SERIES = 1_000
MOST_NAME = 2_048  # characters of a series' name
MOST_BYTES = 262_144  # of a label: its row in `statistics` can have twice as many
PART = r"[^/\x00-\x1f\x7f-\x9f]"
NAME = (
    rf"(gauge|counter|logs)/{PART}+/{PART}*/{PART}+|template/{PART}+/{PART}*/{PART}+/{PART}+"
    rf"|logs/{PART}+//|host/{PART}+|service/{PART}+/{PART}*"  # the first is the log of a host
)  # the whole of it, in Python and in Java


def is_label(source: Mapping[str, Any]) -> bool:
    """Whether a JSON object is a label of one of the kinds, about series by names that they can have."""
    series = source.get("series")
    if source.get("record") == Heartbeat.KIND or source.get("label") not in LABELS or not isinstance(series, list):
        return False
    return 0 < len(series) <= MOST_SERIES and all(isinstance(one, str) and is_name(one) for one in series)


def is_name(text: str) -> bool:
    """Whether a text is the name of a series, of one that a label may be about."""
    return len(text) <= MOST_NAME and re.fullmatch(NAME, text) is not None
