"""Numbers and lengths of time in sentences."""

from __future__ import annotations

import math

LARGE = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"))
MOST_FURTHER = 6  # digits
NOTHING_BESIDE = 1e-9  # share of a number, of 1 at most, below which another one beside it is shown as 0


def number(value: float, further: int = 0) -> str:
    """A number with three or four digits, and `further` ones; large ones with a prefix such as M."""
    if not math.isfinite(value):
        return "unknown"
    size = abs(value)
    for unit, sign in LARGE if size >= LARGE[-1][0] else ():
        shown = f"{value / unit:.{3 + further}g}"
        if abs(float(shown)) >= 1:  # as it is rounded: 999.7M is 1G in three digits
            return f"{shown}{sign}"
    if value == round(value):
        return f"{value + 0.0:.0f}"  # no -0
    if size >= 1000:
        return f"{value:.{further}f}"
    if size >= 10:
        return f"{value:.{1 + further}f}"
    return f"{value:.{3 + further}g}"


def as_shown(text: str) -> float:
    """What a text of `number` says."""
    unit = next((unit for unit, sign in LARGE if text.endswith(sign)), None)
    return float(text) if unit is None else float(text[:-1]) * unit


def distinguishable(value: float, *others: float) -> list[str]:
    """Numbers with as many digits as show on which side of each of the others the first one lies; others that are nothing beside it are 0."""
    others = tuple(0.0 if abs(one) < NOTHING_BESIDE * min(abs(value), 1.0) else one for one in others)
    texts: list[str] = []
    for further in range(MOST_FURTHER + 1):
        texts = [number(one, further) for one in (value, *others)]
        if not all(map(math.isfinite, (value, *others))):
            break
        seen = [as_shown(text) for text in texts]
        if all(
            compare_shown(value, one) == compare_shown(seen[0], text)
            for one, text in zip(others, seen[1:], strict=True)
        ):
            break
    return texts


def compare_shown(one: float, other: float) -> int:
    """-1, 0 or 1 as the one is below, at or above the other."""
    return (one > other) - (one < other)


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
