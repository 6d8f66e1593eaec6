"""Times of the log as whoever sits at this terminal reads them: in its time zone (`TZ`, or that of the machine)."""

from __future__ import annotations

from datetime import datetime, tzinfo


def moment(millis: float, zone: tzinfo | None = None) -> str:
    """Epoch milliseconds with month, day and the name of the zone; `zone` None is that of the terminal."""
    return f"{local(millis, zone):%m-%d %H:%M:%S %Z}"


def clock(millis: float, near: float, zone: tzinfo | None = None) -> str:
    """Epoch milliseconds as a time of day, with month and day where they are not those of `near`, epoch milliseconds."""
    at = local(millis, zone)
    return f"{at:%H:%M:%S}" if at.date() == local(near, zone).date() else f"{at:%m-%d %H:%M:%S}"


def local(millis: float, zone: tzinfo | None = None) -> datetime:
    """The time in this zone; None is that of the terminal."""
    return datetime.fromtimestamp(millis / 1000).astimezone(zone)
