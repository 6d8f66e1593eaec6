"""Times as people give and read them: ISO 8601 on the outside, epoch milliseconds within."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

from pipelines.errors import InputError

SET_BACK_MS = 60_000  # what a clock is set back by without anybody's notice
LAST_MS = 7_258_118_400_000  # 2200-01-01: a record with a later time is not believed


def milliseconds(option: str, text: str, otherwise: str = "") -> int:
    """Epoch milliseconds of an ISO 8601 time with its zone, of 1970 to 2199, as those of records are.

    `option` names command and option in errors, `otherwise` says what else would do. Raises InputError.
    """
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        msg = f"{option} is {text!r}; wanted ISO 8601 such as 2026-01-05T00:00:00Z{otherwise}"
        raise InputError(msg) from error
    if at.tzinfo is None:
        msg = f"{option} {text!r} has no zone; append Z or an offset"
        raise InputError(msg)
    found = round(at.timestamp() * 1000)
    if not 0 <= found < LAST_MS:
        msg = f"{option} is {text!r}; wanted a time of 1970 to 2199{otherwise}"
        raise InputError(msg)
    return found


def iso(at_ms: float) -> str:
    """A time to the second, in UTC."""
    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def iso_or(at_ms: float | None, unknown: str) -> str:
    """A time to the second, in UTC; `unknown` for None."""
    return unknown if at_ms is None else iso(at_ms)


def iso_millis(at_ms: int) -> str:
    """A time to the millisecond, in UTC, as events carry it."""
    return f"{iso(at_ms)[:-1]}.{at_ms % 1000:03d}Z"


def time_of_digits(text: str) -> int | None:
    """The epoch milliseconds that a text of digits says; None for any other text, and for times that are not believed."""
    at = int(text) if re.fullmatch(r"[0-9]{1,13}", text) else LAST_MS
    return at if at < LAST_MS else None


def is_due(at_ms: float, now_ms: float, most_ms: float) -> bool:
    """Whether a time has come that was at most so far ahead when it was set: one that is further ahead was set before the clock was set back."""
    return not now_ms < at_ms <= now_ms + most_ms + SET_BACK_MS


def wall_clock() -> int:
    """Now, epoch milliseconds."""
    return int(time.time() * 1000)
