"""Log message -> template: what varies from line to line is masked, what is the same stays.

What varies is `<*>`, however much of it comes in a row. A header before the message is cut off. Masking a template gives the same
template.

A template is a function of the line alone: it knows of no other line, so it is the same in any order, on any shard, on replay,
and in a file as in the chain; see docs/decisions/0012-templates.md. Words that vary and have no sign of it stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from models.masks import MASKS, MAX_INPUT, MAX_TEMPLATE
from models.xxhash64 import xxhash64

__all__ = ["masked", "template_id", "template_of"]


def _compiled(masks: Iterable[tuple[str, str]]) -> list[tuple[re.Pattern[str], str]]:
    return [(re.compile(pattern, re.ASCII), token.replace("$1", r"\1")) for pattern, token in masks]


_MASKS = _compiled(MASKS)


def template_of(message: str) -> str:
    """The template of a message, at most 1,024 characters: what `pipelines.masking.template_of` says in Spark."""
    return _applied(message, _MASKS)


def masked(messages: Iterable[str], masks: Sequence[tuple[str, str]]) -> list[str]:
    """Templates by other masks, to see what each is worth."""
    compiled = _compiled(masks)
    return [_applied(message, compiled) for message in messages]


def _applied(message: str, masks: list[tuple[re.Pattern[str], str]]) -> str:
    text = message[:MAX_INPUT]
    for pattern, token in masks:
        text = pattern.sub(token, text)
    return text[:MAX_TEMPLATE].strip(" ")


def template_id(template: str) -> str:
    """16 lower-case hexadecimal digits that name a template: Spark's `xxhash64` of its bytes."""
    return f"{xxhash64(template.encode()):016x}"
