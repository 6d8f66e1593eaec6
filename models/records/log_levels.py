r"""Levels of log lines: the six that there are, what others call them, and where a line itself names one.

In capitals a level may stand anywhere in a line's beginning, colours around it or not. In small letters it is one as `[error]`, `[core:error]`,
`level=error` or `error:` alone, because prose has these words as well. `E0105 10:00:00.000000` is one of Google's logging libraries. A line that
is a JSON object has the level that a member of it is, and no other: its texts are prose.
"""

from __future__ import annotations

import re

WITHIN, WITHIN_JSON = 200, 4096  # characters at the beginning of a line in which its level is looked for
UNKNOWN = "info"
SYNONYMS = {
    "trace": ("trace", "trc", "finest", "finer", "verbose", "vrb", "v", "10"),
    "debug": ("debug", "dbg", "fine", "d", "7", "20"),
    "warn": ("warn", "warning", "wrn", "w", "4", "40"),
    "error": ("error", "err", "severe", "failure", "eror", "e", "3", "50"),
    "fatal": (
        *("fatal", "ftl", "crit", "critical", "emerg", "emergency", "alert", "panic", "pnc", "dpanic", "f"),
        *("0", "1", "2", "60"),
    ),
}  # numbers below 10 are syslog's severities, the others of loggers that write JSON

_SHORT = "WRN|TRC|VRB|DBG|PNC|FTL"
_TAGS = (  # also in small letters before a colon
    f"WARNING|WARN|TRACE|SEVERE|PANIC|NOTICE|INFO|FATAL|EROR|ERROR|EMERG|DPANIC|DEBUG|CRITICAL|CRIT|ALERT|{_SHORT}"
)
_WORDS = (
    f"{_TAGS}|ERR|INF|VERBOSE|FINEST|FINER|FINE"  # "err: x" is what a program calls an error's text, "fine: x" is prose
)
_BEGINS, _ENDS = r"(?:(?<![A-Za-z0-9_])|(?<=[0-9\[]m))", r"(?![A-Za-z0-9_])"
_KEYS = "level|severity|loglevel|levelname|level_name|lvl|log\\.level|@l|@level"
# For Java and Python. `WORD` is the level in what `NAMED` finds.
NAMED = (
    rf"{_BEGINS}(?:{_WORDS}){_ENDS}|\[(?:[a-z_]{{1,32}}:)?(?i:{_WORDS})\]|{_BEGINS}(?:level|severity|lvl)[=:] {{0,8}}\"?(?i:{_WORDS}){_ENDS}"
    rf"|{_BEGINS}(?i:{_TAGS}):|^[IWEF](?=[0-9]{{4}}(?:[0-9]{{4}})? [0-9]{{2}}:)"
)
WORD = r"[A-Za-z]{1,8}(?=[^A-Za-z]?\z)"
IN_JSON = rf"\"(?i:{_KEYS})\" {{0,8}}: {{0,8}}\"?([A-Za-z0-9]{{1,16}})"

# Of a beginning in capitals without any of these, and without a letter before four digits, `NAMED` says no more than info.
LIKELY = (
    *("WARN", "TRACE", "SEVERE", "PANIC", "FATAL", "EROR", "ERR", "EMERG", "DEBUG", "CRIT", "ALERT", "VERBOSE", "FINE"),
    *_SHORT.split("|"),
)
BEFORE_DIGITS = r"^[WEF][0-9]{4}"

_NAMED, _IN_JSON = re.compile(NAMED), re.compile(IN_JSON)
_WORD = re.compile(WORD.replace(r"\z", r"\Z"))
_BLANK = "".join(map(chr, range(0x21)))  # what Java's `trim` removes
_LEVEL = {synonym: level for level, synonyms in SYNONYMS.items() for synonym in synonyms}


def level_named(word: str) -> str:
    """The level that a word or number stands for, with spaces around it or not; info where it is unknown."""
    return _LEVEL.get(word.strip(_BLANK).lower(), UNKNOWN)


def level_of(message: str) -> str:
    """The level that the beginning of a message names, else info."""
    if message.startswith("{"):
        found = _IN_JSON.search(message[:WITHIN_JSON])
        return level_named(found[1]) if found else UNKNOWN
    found = _NAMED.search(message[:WITHIN])
    word = found and _WORD.search(found[0])
    return level_named(word[0]) if word else UNKNOWN
