"""Log message -> template: what varies from line to line is masked, what is the same stays.

`<ts> <uuid> <ip> <mac> <hex> <path> <url> <email> <str> <num>` stand for times, ids, addresses, numbers. Masking a template
gives the same template. It knows nothing of other lines; a miner that does can start from it.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

MAX_TEMPLATE = 1024  # characters

# in order: longer and more specific shapes first; every quantifier is bounded or possessive, so time is linear
MASKS: tuple[tuple[str, str], ...] = (
    (
        r"\b[0-9]{4}[-/.][0-9]{2}[-/.][0-9]{2}(?:[T :-][0-9]{2}[:.][0-9]{2}(?:[:.][0-9]{2})?(?:[.,][0-9]{1,9})?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?\b",
        "<ts>",
    ),
    (r"\b(?i:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\b", "<uuid>"),
    (r"[0-9]++", "<num>"),
)


def template_of(message: Column) -> Column:
    """The template of a message, at most 1,024 characters; null for null."""
    text = F.substring(message, 1, 2 * MAX_TEMPLATE)
    for pattern, token in MASKS:
        text = F.regexp_replace(text, pattern, token)
    return F.substring(F.trim(F.regexp_replace(text, r"\s++", " ")), 1, MAX_TEMPLATE)


def template_id(template: Column) -> Column:
    """16 lower-case hexadecimal digits that name a template."""
    return F.lower(F.lpad(F.hex(F.xxhash64(template)), 16, "0"))
