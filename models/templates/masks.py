r"""Patterns that turn a log message into its template, in order: the larger shape first, because it holds the smaller ones.

They are data: `pattern_program` makes one table of them, which Spark's JVM (pipelines/jvm/LogTemplate.java) and `matcher` interpret, so both give the
same template. The patterns mean the same to Java's `Pattern` and to Python's `re` with `re.ASCII`, which the tests hold the table against:
`pattern_tree` says what they may be made of.

Lines are hostile: every quantifier is bounded or possessive, so that time is linear in the message, and no group repeats without
bound, which would overflow the matcher's stack.
"""

from __future__ import annotations

from functools import cache

from models.templates.log_header import HEADER, REST
from models.templates.pattern_program import Mask, Table, table_of

__all__ = ["MASKS", "MAX_INPUT", "MAX_TEMPLATE", "PLACES", "line_table"]

MAX_INPUT = 2048  # characters of a message that are masked
MAX_TEMPLATE = 1024  # characters

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
_CLOCK = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?"
_UNIT = (
    r"(?:(?: ?(?:[kKMGTP]i?[Bb]|B|[Bb]ytes?|ns|us|[\u00b5\u03bc]s|ms|secs?|s|mins?|h|hrs?)|[KMGTB]|[KMG]i|%)(?!\w))?"
)
_NOT_A_USER = (  # what else follows the word "user" or "account" in a sentence
    "unknown|is|was|are|not|has|had|and|or|in|on|to|at|of|from|for|with|by|via|the|a|an|no|name|names|id|ids|agent|space|mode|"
    "data|session|sessions|authentication|authorization|login|logout|process|defined|does|did|can|cannot|could|will|must|count|"
    "list|limit|quota|group|groups|account|accounts|password|info|profile|request|requests|input|code|activity|interface|level|"
    "permission|permissions|already|locked|created|deleted|added|removed|exists|expired|disabled|service|manager|key|keys"
)

# the message within fields or JSON is no parameter, although it is quoted
_MESSAGES: tuple[Mask, ...] = (
    (
        r"(?i)(?<![\w\"])(?:msg|message)=\"([^\"\\]{0,1024}+(?:\\[^\n\r\u0085\u2028\u2029][^\"\\]{0,1024}+){0,200})\"",
        "$1",
    ),
    (
        r"(?i)\"(?:msg|message|log)\": ?\"([^\"\\]{0,1024}+(?:\\[^\n\r\u0085\u2028\u2029][^\"\\]{0,1024}+){0,200})\"",
        "$1 ",
    ),
    (
        r"^\"([^\"\\]{0,1024}+(?:\\[^\n\r\u0085\u2028\u2029][^\"\\]{0,1024}+){0,200})\"(?= [\w.-]{1,64}+=)",
        "$1",
    ),
)

_FORMS: tuple[Mask, ...] = (
    (r"(?i)(?<!\w)[a-z][a-z0-9+.-]{1,19}+://[^\s\"'<>()\[\]{},;]++", "<url>"),
    (r"(?i)(?<![\w.%+-])[a-z0-9._%+-]{1,64}+@[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){1,8}(?!\w)", "<email>"),
    (
        r"(?<![\w<>./\\-])(?:[A-Za-z]:)?[/\\](?![0-9]{1,3}\.[0-9]|<)[\w.$@%+~*-]++(?:[/\\][\w.$@%+~*-]*+){0,200}+"
        r"(?:[:=,&?][\w.$@%+~*:=,&?/\\-]{0,999}[\w/\\=*])?"
        r"|(?:(?<=[A-Z] )|(?<=[=\"']))/(?:\?[\w.$@%+~*:=,&?/-]{1,999})?(?![^\s\"',;)\]])",  # "GET / ", "path=/"
        "<path>",
    ),
    # one pattern for all that begins a word: a pass over the line is what costs
    (
        rf"(?i)(?<!\w)(?=[0-9a-fjmnostw])(?:"
        rf"(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{{0,6}},? )?{_MONTH}[a-z]{{0,6}} [ 0-9]?[0-9],? {_CLOCK}(?: [0-9]{{4}})?(?!\w)"
        r"|(?=[0-9a-f]{1,8}[-/.:])(?:"  # as all of these begin, and few words do
        r"[0-9]{4}[-/.][0-9]{2}[-/.][0-9]{2}(?:[T -][0-9]{2}[:.][0-9]{2}(?:[:.][0-9]{2}(?:[.,][0-9]{1,9})?)?"
        r"(?: ?(?:Z|[+-][0-9]{2}:?[0-9]{2})(?!\w))?)?"
        rf"|[0-9]{{1,2}}[-/](?:{_MONTH}|[0-9]{{2}})[-/][0-9]{{4}}(?:[: ]{_CLOCK}(?: [+-][0-9]{{4}})?)?(?!\w)"
        r"|[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}(?!\w)|(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}(?!\w)))",
        "<id>",  # a time, a UUID, the address of a network card
    ),
)

_ADDRESSES: tuple[Mask, ...] = (
    (
        r"(?i)(?<![\w:.])(?:(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}|(?:[0-9a-f]{1,4}:){1,6}(?::[0-9a-f]{1,4}){1,6}|::1)(?![\w:])",
        "<ip>",
    ),
)


def _balanced(opening: str, closing: str) -> str:
    """A pair of brackets with what is between them: two more of its kind in one another at most."""
    other = f"[^{opening}{closing}]{{1,2048}}+"
    found = f"{opening}[^{opening}{closing}]{{0,2048}}+{closing}"
    for _ in range(2):
        found = f"{opening}(?:{other}|{found}){{0,200}}+{closing}"
    return found


_NAMES: tuple[Mask, ...] = (
    # "{'a': 1, 'b': None}", but neither JSON nor where a line begins: that may be the whole line
    (r"(?<=[\s\S])(?=\{\s*+[^\s\"<])" + _balanced(r"\{", r"\}"), "<str>"),
    (
        # but neither a request nor what begins where one ends: "GET /a HTTP/1.1" 200 "-"
        r"(?<!HTTP/[0-9]\.[0-9])(?<!HTTP/[23])(?<!<\*>)\"(?!(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) )[^\"]{0,2048}+\""
        r"|(?<![\w'>])(?:[bBfFrRuU]{1,2})?'[^']{0,2048}+'(?![\w'<])",
        "<str>",
    ),
    # an object as a language writes it: "<Thing at 0x7f12>", "Thing(a=1, b=[2])"
    (r"(?<![\w<>-])<(?=[\w.]{2})(?:[^<>\"]{1,2048}+|<[^<>\"]{0,2048}+>){1,200}+>", "<str>"),
    (r"(?<![\w.])[A-Za-z_][\w.$]{0,80}+(?=\([\w.]{1,64}+=)" + _balanced(r"\(", r"\)"), "<str>"),
    # base64: letters of both cases, and two digits or its end
    (
        r"(?<![\w+/=-])(?=[\w+/-]{20})(?=[\w+/-]{0,64}?[0-9][A-Za-z_+/-]{0,64}?[0-9]|[\w+/-]{20,1024}+=)(?=[\w+/-]{0,64}?[a-z])(?=[\w+/-]{0,64}?[A-Z])"
        r"[\w+/-]{20,1024}+={0,2}(?![\w=])",
        "<num>",
    ),
    # a list of words: "=a,b:c", "a,b,c", "[a, b]"
    (r"(?<==)[\w.-]{1,64}+(?:[,;#|+:][\w.-]{1,64}+){1,200}+(?![\w(=]|[,;#|+:]\S)", "<str>"),
    (r"(?<![\w,.=-])[\w-]{1,64}+(?:,[\w.-]{1,64}+){2,200}+(?![\w(=]|,\S)", "<str>"),
    (r"(?<=[\[({])[\w./:-]{1,64}+(?:, ?[\w./:-]{1,64}+){1,200}+(?=[\])}])", "<str>"),
    # relative paths and files: "./a", "a/b/c", "a.log"
    (r"(?<![\w<>./\\-])(?:(?:\.{1,2}|~)(?:/[\w.@%+~*-]++){1,64}+|[\w.-]{1,64}+(?:/[\w.@%+~*-]++){2,64}+)", "<path>"),
    (r"(?<![\w.<>/\\-])[\w-][\w.+-]{0,80}?\.[a-z][a-z0-9]{1,4}(?:\.[0-9]{1,9})?(?![\w(/=]|[.-]\w)", "<path>"),
    # "com.example.Thing", with what an application of it is called; but what went wrong is what a line is about
    (
        r"(?<![\w.$@-])(?![\w.$-]{1,200}(?:Exception|Error)(?!\w))[A-Za-z_][\w$-]*+(?:\.[A-Za-z_$][\w$-]*+){2,12}"
        r"(?:/[\w.$-]*+)?(?![\w(@]|\.\w)",
        "<name>",
    ),
    # "orders.created", but no setting where a line begins or that is given a value, and no "e.g"
    (
        r"(?<=[\s(\[{,=:'<])(?!(?:e\.g|i\.e|a\.k)(?!\w))(?![\w.$-]{1,200}(?:Exception|Error)(?!\w))"
        r"[A-Za-z_][\w$-]++\.[A-Za-z_$][\w$-]++(?![\w(@=:]|\.\w| ?=)",
        "<name>",
    ),
)

_NUMBERS: tuple[Mask, ...] = (
    # what C prints where there is no pointer, no text; what JSON has that is no number and no text
    (r"\((?:nil|null)\)|(?:(?<=<str>:)|(?<=<str>: ))(?:true|false|null)(?!\w)", "<num>"),
    # hexadecimal: 0x..., or both digits and letters, or eight letters
    (
        r"(?i)(?<!\w)(?=[0-9a-f])(?:0x[0-9a-f]{1,32}|(?=[0-9]{1,128}[a-f]|[a-f]{1,128}[0-9])[0-9a-f]{6,128}|[a-f]{8})(?!\w)",
        "<num>",
    ),
    (r"(?:(?<![A-Za-z0-9.>)-])[-+])?[0-9]++(?:[.,][0-9]++){0,40}+(?:[eE][-+]?[0-9]{1,3}(?!\w))?" + _UNIT, "<num>"),
    # "[ann smith]", and a list of whatever: "[a b, <num>]"
    (
        r"(?<=\s)\[[\w.@:-]{1,64}+(?: [\w.@:-]{1,64}+){0,3}\](?![^\s,.;:])"
        r"|(?<![\w\])>])\[(?=[^\[\]]{0,2048}(?:,|<[a-z]))(?!(?:<[a-z*]{1,5}>|[^\w\[\]<>])++\])(?:[^\[\]]{1,2048}+|\[[^\[\]]{0,2048}+\]){0,200}+\]",
        "[<str>]",
    ),
)

_TOKEN = "<[a-z]{2,5}>"
_GLUE = r"(?:[\w-]|\.(?!\.))"  # a word goes with the token in it: "blk_<num>"; not a row of dots before it

# What kind of thing varies is not certain (an id may have only digits), nor how many there are: a run of them is one `<*>`
PLACES: tuple[Mask, ...] = (
    (rf"(?:(?<![\w.-])(?:[\w-]{{1,64}}+/){{0,4}}+{_GLUE}{{0,64}}+)?{_TOKEN}(?:{_GLUE}|{_TOKEN}){{0,200}}+", "<*>"),
    (r" \s++|[^\S ]\s*+", " "),  # each but a single space
    # "12 bytes (0.1 KB)": the same number again, or nothing
    (r" [(\[{](?:<\*>|[^\w()\[\]{}<]){0,200}+[)\]}](?!\w)", ""),
    (
        rf"(?i)(?<!\w)(user|username|account) (?!(?:{_NOT_A_USER})(?!\w))[\w.@$<>-]{{1,64}}+"
        r"(?=[,.;:)]?(?: |(?:\r?\n|[\r\u0085\u2028\u2029])?(?!\S|\s)))",
        "$1 <*>",
    ),
    (r"<{0,9}<\*>(?:[^\w<=]{0,200}+<{0,9}<\*>){0,200}+", "<*>"),
    (REST, ""),
)

MASKS: tuple[Mask, ...] = (
    (HEADER, ""),
    *_MESSAGES,
    *_FORMS,
    *_ADDRESSES,
    *_NAMES,
    *_NUMBERS,
    *PLACES,
)


@cache
def line_table() -> Table:
    """The table of all masks."""
    return table_of(MASKS, MAX_INPUT, MAX_TEMPLATE)
