"""Log message -> template: what varies from line to line is masked, what is the same stays.

What varies is `<*>`, however much of it comes in a row. A header before the message is cut off. Masking a template gives the same
template.

A template is a function of the line alone: it knows of no other line, so it is the same in any order, on any shard, on replay,
and in a file as in the chain; see docs/decisions/0012-templates.md. Words that vary and have no sign of it stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import xxhash

from models.templates.masks import MASKS, MAX_INPUT, MAX_TEMPLATE, PLACES

__all__ = ["collapsed", "masked", "template_id", "template_of"]

SPARK_SEED = 42  # of its function xxhash64

# parts of a pattern: escapes, classes, what begins and ends a group, with a possessive quantifier or without
_PARTS = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\]){0,99}\]|\((?:\?(?:[:=!]|<[=!]|[a-z]+:))?|\)(?:(?P<many>[*+?]|\{[0-9,]{1,12}\})\+)?",
    re.DOTALL,
)


def _compiled(masks: Iterable[tuple[str, str]]) -> list[tuple[re.Pattern[str], str]]:
    return [(re.compile(_portable(pattern), re.ASCII), token.replace("$1", r"\1")) for pattern, token in masks]


def _portable(pattern: str) -> str:
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


_MASKS = _compiled(MASKS)
_PLACES = _compiled(PLACES)


def template_of(message: str) -> str:
    """The template of a log message.

    `pipelines.inputs.masking.template_of` is the same function of a Spark column.

    Parameters
    ----------
    message
        The message as it was logged; its first 2,048 characters count.

    Returns
    -------
    str
        At most 1,024 characters. The template of a template is itself.

    Examples
    --------
    >>> template_of("took 12 ms for user 7f3a9c")
    'took <*> for user <*>'
    """
    return _applied(message, _MASKS)


def collapsed(template: str) -> str:
    """A template with more of it masked than before: what varies is `<*>`, however much of it comes in a row."""
    return _applied(template, _PLACES)


def masked(messages: Iterable[str], masks: Sequence[tuple[str, str]]) -> list[str]:
    """Templates of messages by other masks, to measure what each mask contributes."""
    compiled = _compiled(masks)
    return [_applied(message, compiled) for message in messages]


def _applied(message: str, masks: list[tuple[re.Pattern[str], str]]) -> str:
    text = message[:MAX_INPUT]
    for pattern, token in masks:
        text = pattern.sub(token, text)
    return text[:MAX_TEMPLATE].strip(" ")


def template_id(template: str) -> str:
    """The id of a template: XXH64 of its UTF-8 bytes with seed 42, as Spark's `xxhash64`; 16 lower-case hexadecimal digits."""
    return xxhash.xxh64_hexdigest(template.encode(), seed=SPARK_SEED)
