"""Log message -> template: what varies from line to line is masked, what is the same stays.

Tokens: `<url> <email> <path> <ts> <uuid> <mac> <ip> <str> <name> <hex> <num> <user>`; `<ip>` stands for host names too, `<num>`
also for ids of letters and digits. A header before the message is cut off. Masking a template gives the same template.

A template is a function of the line alone: it knows of no other line, so it is the same in any order, on any shard, on replay,
and in a file as in the chain; see docs/decisions/0012-templates.md. Words that vary and have no sign of it stay.
"""

from __future__ import annotations

import re

from models.masks import MASKS, MAX_INPUT, MAX_TEMPLATE
from models.xxhash64 import xxhash64

__all__ = ["template_id", "template_of"]

_COMPILED = [(re.compile(pattern, re.ASCII), token.replace("$1", r"\1")) for pattern, token in MASKS]


def template_of(message: str) -> str:
    """The template of a message, at most 1,024 characters: what `pipelines.masking.template_of` says in Spark."""
    text = message[:MAX_INPUT]
    for pattern, token in _COMPILED:
        text = pattern.sub(token, text)
    return text[:MAX_TEMPLATE].strip(" ")


def template_id(template: str) -> str:
    """16 lower-case hexadecimal digits that name a template: Spark's `xxhash64` of its bytes."""
    return f"{xxhash64(template.encode()):016x}"
