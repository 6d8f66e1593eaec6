"""Masks as Python's `re` applies them, one pattern after the other: what the table of masks is held against."""

from __future__ import annotations

import re
from collections.abc import Iterable

from models.templates.masks import MASKS, MAX_INPUT, MAX_TEMPLATE
from models.templates.pattern_program import Mask

# parts of a pattern: escapes, classes, what begins and ends a group, with a possessive quantifier or without
_PARTS = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\]){0,99}\]|\((?:\?(?:[:=!]|<[=!]|[a-z]+:))?|\)(?:(?P<many>[*+?]|\{[0-9,]{1,12}\})\+)?",
    re.DOTALL,
)


def compiled(masks: Iterable[Mask]) -> list[tuple[re.Pattern[str], str]]:
    """Patterns and replacements for `re`."""
    return [(re.compile(portable(pattern), re.ASCII), token.replace("$1", r"\1")) for pattern, token in masks]


def portable(pattern: str) -> str:
    """The same pattern without groups that repeat possessively, which Python before 3.11.5 gets wrong.

    `(?:x){1,9}+` is `(?=(?P<_1>(?:x){1,9}))(?P=_1)`: what is looked ahead for is found once, and never given back.
    """
    out: list[str] = []
    open_at: list[int] = []
    at = named = 0
    for part in _PARTS.finditer(pattern):
        out.append(pattern[at : part.start()])
        at = part.end()
        text = part[0]
        if text.startswith("("):
            open_at.append(len(out))
        if text.startswith(")"):
            begin = open_at.pop()
            if part["many"] is not None:
                named += 1
                out[begin] = f"(?=(?P<_{named}>{out[begin]}"
                text = f"){part['many']}))(?P=_{named})"
        out.append(text)
    return "".join(out) + pattern[at:]


OF_LINES = compiled(MASKS)


def applied(message: str, masks: list[tuple[re.Pattern[str], str]]) -> str:
    """The template of a message."""
    text = cut(message)
    for pattern, token in masks:
        text = pattern.sub(token, text)
    return text[:MAX_TEMPLATE].strip(" ")


def cut(message: str) -> str:
    """What is read of a message: up to the first bracket after a word or `=` that is open where a long one is cut off."""
    text, pairs = message[:MAX_INPUT], {")": "(", "]": "[", "}": "{"}
    open_at: list[int] = []
    for i, c in enumerate(text):
        if c in pairs.values():
            open_at.append(i)
        elif c in pairs and open_at and text[open_at[-1]] == pairs[c]:
            open_at.pop()
    ends = (i + 1 for i in open_at if re.search(r"[\w=]$", text[max(i - 1, 0) : i], re.ASCII))
    return text if len(message) <= MAX_INPUT else text[: next(ends, len(text))]


def template_of(message: str) -> str:
    """The template of a log message: `models.templates.extraction.template_of`."""
    return applied(message, OF_LINES)
