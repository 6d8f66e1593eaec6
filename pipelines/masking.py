r"""Log message -> template: what varies from line to line is masked, what is the same stays.

Tokens: `<url> <email> <path> <ts> <uuid> <mac> <ip> <str> <hex> <num>`; `<ip>` stands for host names too, `<num>` also for
short hexadecimal ids, whose digits may all be decimal. Masking a template gives the same template. It knows nothing of
other lines, so words that vary (a user's name) stay; a miner that sees other lines can start from these templates.

Patterns are Java's. Lines are hostile: every quantifier is bounded or possessive, so that time is linear in the message, and
no group repeats without bound, which would overflow the matcher's stack.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

MAX_INPUT = 2048  # characters of a message that are masked
MAX_TEMPLATE = 1024  # characters

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
_CLOCK = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?"
_TOP_LEVEL = (
    "com|net|org|edu|gov|mil|int|info|biz|io|dev|app|cloud|local|internal|lan|localdomain|"
    "hk|cn|jp|uk|de|fr|nl|ru|br|us|ca|au|eu|kr|tw|es|ch|se|pl"
)
_PORT = r"(?::[0-9]{1,5}(?![0-9]))?"
_UNIT = r"(?:(?: ?(?:[KMGTP]i?B|ns|us|ms|sec|s|min|h)|%)(?!\w))?"

# in order: the larger shape first, because it holds the smaller ones
MASKS: tuple[tuple[str, str], ...] = (
    (r"<[0-9]{1,9} ?(?:ns|us|ms|s|sec|min|h)\b", "<ts>"),  # "<1 sec"
    (r"(?i)\b[a-z][a-z0-9+.-]{1,19}+://[^\s\"'<>()\[\]{},;]++", "<url>"),
    (r"(?i)(?<![\w.%+-])[a-z0-9._%+-]{1,64}+@[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){1,8}\b", "<email>"),
    (
        r"(?<![\w<>./\\-])(?:[A-Za-z]:)?[/\\](?![0-9]{1,3}\.[0-9]|<)[\w.$@%+~:*-]++(?:[/\\][\w.$@%+~:=,&?*-]*+){0,200}+",
        "<path>",
    ),
    (
        rf"(?i)\b(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{{0,6}},? )?{_MONTH}[a-z]{{0,6}} [ 0-9]?[0-9],? {_CLOCK}"
        r"(?: [0-9]{4})?\b",
        "<ts>",
    ),
    (
        r"\b[0-9]{4}[-/.][0-9]{2}[-/.][0-9]{2}(?:[T -][0-9]{2}[:.][0-9]{2}(?:[:.][0-9]{2}(?:[.,][0-9]{1,9})?)?"
        r"(?: ?(?:Z|[+-][0-9]{2}:?[0-9]{2})\b)?)?",
        "<ts>",
    ),
    (rf"(?i)\b[0-9]{{1,2}}[-/](?:{_MONTH}|[0-9]{{2}})[-/][0-9]{{4}}(?:[: ]{_CLOCK}(?: [+-][0-9]{{4}})?)?\b", "<ts>"),
    (r"(?i)\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", "<uuid>"),
    (r"(?i)\b(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}\b", "<mac>"),
    (
        r"(?i)(?<![\w:.])(?:(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}|(?:[0-9a-f]{1,4}:){1,6}(?::[0-9a-f]{1,4}){1,6}|::1)(?![\w:])",
        "<ip>",
    ),
    (
        rf"(?<![\w.<>@-])(?:[A-Za-z0-9][A-Za-z0-9-]{{0,62}}+(?:\.[A-Za-z0-9-]{{1,63}}+){{0,8}}?\.(?:{_TOP_LEVEL})"
        rf"(?![\w.(<>-]){_PORT}|[a-z0-9][a-z0-9-]{{0,62}}+(?:\.[a-z0-9-]{{1,63}}+){{1,9}}+:[0-9]{{1,5}}\b(?!\.[0-9]))",
        "<ip>",
    ),
    (rf"(?<![\w.])[0-9]{{1,3}}(?:\.[0-9]{{1,3}}){{3}}(?:/[0-9]{{1,2}}\b)?{_PORT}(?![\w]|\.[0-9])", "<ip>"),
    (r"(?<![\w:.])[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?)?(?![\w:]|\.[0-9])", "<ts>"),
    (r"<ip> \([^()\s]{0,255}+\)", "<ip>"),  # an address and its name
    (
        r"\"(?!(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) )[^\"]{0,512}+\"|(?<![\w'])'[^']{1,512}+'(?![\w'])",
        "<str>",
    ),
    (r"(?i)\b0x[0-9a-f]{1,32}\b|\b(?=[0-9a-f]{0,32}[0-9])(?=[0-9]{0,32}[a-f])[0-9a-f]{16,128}\b", "<hex>"),
    (r"\b(?i:(?=[a-f]{0,14}[0-9])(?=[0-9]{0,14}[a-f])[0-9a-f]{6,15}|[a-f]{8})\b", "<num>"),
    (r" \([0-9][0-9.,]{0,20} ?[KMGTP]i?B\)", ""),  # a number of bytes once more, in larger units
    (
        r"(?:(?<![A-Za-z0-9.>)-])[-+])?[0-9]++(?:[.,][0-9]++){0,40}+(?:[eE][-+]?[0-9]{1,3}\b)?" + _UNIT,
        "<num>",
    ),
    (r"<ip>(?:, ?<ip>){1,200}+", "<ip>"),
    (r"(?<!\S)(\w{0,16}<num>)(?: \1){1,200}+(?!\S)", "$1"),
    (r"\s++", " "),
)


def template_of(message: Column) -> Column:
    """The template of a message, at most 1,024 characters; null for null."""
    text = F.substring(message, 1, MAX_INPUT)
    for pattern, token in MASKS:
        text = F.regexp_replace(text, pattern, token)
    return F.trim(F.substring(text, 1, MAX_TEMPLATE))


def template_id(template: Column) -> Column:
    """16 lower-case hexadecimal digits that name a template."""
    return F.lower(F.lpad(F.hex(F.xxhash64(template)), 16, "0"))
