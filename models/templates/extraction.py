"""Log message -> template: what varies from line to line is masked, what is the same stays.

What varies is `<*>`, however much of it comes in a row. A header before the message is cut off. Masking a template gives the same
template.

A template is a function of the line alone: it knows of no other line, so it is the same in any order, on any shard, on replay,
and in a file as in the chain; see docs/decisions/0012-templates.md. Words that vary and have no sign of it stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np
import xxhash

from models.templates import matcher
from models.templates.masks import MAX_INPUT, MAX_TEMPLATE, PLACES, line_table
from models.templates.pattern_program import Mask, Table, table_of

__all__ = [
    "COLOUR",
    "ESCAPE",
    "collapse_parameters",
    "mask_messages",
    "strip_terminal_codes",
    "template_id",
    "template_of",
]

SPARK_SEED = 42  # of its function xxhash64
CODING = "utf-32-le"
ESCAPE = "\x1b"
COLOUR = r"\x1b\[[0-9;]{0,16}[A-Za-z]"  # and what else is meant for a terminal; for Java and Python
_COLOUR = re.compile(COLOUR)


def strip_terminal_codes(line: str) -> str:
    """A line without what is meant for a terminal, as `pipelines.inputs.fields.strip_colours` does for a Spark column."""
    return _COLOUR.sub("", line) if ESCAPE in line else line


def template_of(message: str) -> str:
    """The template of a log message.

    `pipelines.inputs.masking.template_of` is the same function of a Spark column.

    Parameters
    ----------
    message
        The message as it was logged; of a longer one its first 2,048 characters count, and where these end within brackets, what is before
        them: `Order(items=[Item(` is `Order(`.

    Returns
    -------
    str
        At most 1,024 characters. The template of a template is itself.

    Examples
    --------
    >>> template_of("took 12 ms for user 7f3a9c")
    'took <*> for user <*>'
    """
    return _applied(message, line_table())


@cache
def _places() -> Table:
    return table_of(PLACES, MAX_INPUT, MAX_TEMPLATE)


def collapse_parameters(template: str) -> str:
    """A template with more of it masked than before: what varies is `<*>`, however much of it comes in a row."""
    return _applied(template, _places())


def mask_messages(messages: Iterable[str], masks: Sequence[Mask]) -> list[str]:
    """Templates of messages by other masks, to measure what each mask contributes."""
    table = table_of(masks, MAX_INPUT, MAX_TEMPLATE)
    return [_applied(message, table) for message in messages]


def _applied(message: str, table: Table) -> str:
    text = np.frombuffer(message[: MAX_INPUT + 1].encode(CODING, "surrogatepass"), np.uint32)
    return matcher.apply_masks(table, text).tobytes().decode(CODING, "surrogatepass")


def template_id(template: str) -> str:
    """The id of a template: XXH64 of its UTF-8 bytes with seed 42, as Spark's `xxhash64`; 16 lower-case hexadecimal digits."""
    return xxhash.xxh64_hexdigest(template.encode(), seed=SPARK_SEED)
