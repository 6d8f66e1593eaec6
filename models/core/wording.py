"""Numbers of things and lengths of time in sentences."""

from __future__ import annotations


def counted(number: float, one: str, many: str = "") -> str:
    """So many of something: `1 record`, `1,200 records`. `many` is the plural where it is not `one` with an s."""
    text = f"{number:,}" if isinstance(number, int) else f"{number:g}"
    return f"{text} {one if number == 1 else many or f'{one}s'}"


def duration(seconds: float) -> str:
    """A length of time in seconds, minutes, hours or days: `90 s`, `5 min`, `2.5 h`, `14 days`."""
    if seconds < 300:
        return f"{seconds:.0f} s"
    if seconds < 7_200:
        return f"{seconds / 60:.0f} min"
    if seconds < 172_800:
        return f"{round(seconds / 3_600, 1):g} h"
    return f"{round(seconds / 86_400, 1):g} days"
