r"""Levels of log lines: the six that there are, what others call them, and where a line itself names one.

In capitals a level may stand anywhere in a line's beginning. In small letters it is one as `[error]`, `level=error`, `"level":"error"` or
`error:` alone, because prose has these words as well. `E0105 10:00:00.000000` is one of Google's logging libraries.
"""

from __future__ import annotations

import re

WITHIN = 200  # characters at the beginning of a line in which its level is looked for
UNKNOWN = "info"
SYNONYMS = {
    "trace": ("trace", "finest", "verbose", "10"),
    "debug": ("debug", "dbg", "fine", "7", "20"),
    "warn": ("warn", "warning", "w", "4", "40"),
    "error": ("error", "err", "severe", "e", "3", "50"),
    "fatal": ("fatal", "crit", "critical", "emerg", "emergency", "alert", "panic", "f", "0", "1", "2", "60"),
}  # numbers below 10 are syslog's severities, the others of loggers that write JSON

_WORDS = "WARNING|WARN|TRACE|SEVERE|PANIC|NOTICE|INFO|FATAL|ERROR|ERR|EMERG|DEBUG|CRITICAL|CRIT|ALERT"
_BEGINS, _ENDS = r"(?<![A-Za-z0-9_])", r"(?![A-Za-z0-9_])"
# For Java and Python. `WORD` is the level in what `NAMED` finds.
NAMED = (
    rf"{_BEGINS}(?:{_WORDS}){_ENDS}|\[(?i:{_WORDS})\]|{_BEGINS}level\"?[=:] {{0,8}}\"?(?i:{_WORDS}){_ENDS}"
    rf"|{_BEGINS}(?i:{_WORDS}):|^[IWEF](?=[0-9]{{4}} [0-9]{{2}}:)"
)
WORD = r"[A-Za-z]{1,8}(?=[^A-Za-z]?\z)"

_NAMED = re.compile(NAMED)
_WORD = re.compile(WORD.replace(r"\z", r"\Z"))
_LEVEL = {synonym: level for level, synonyms in SYNONYMS.items() for synonym in synonyms}


def level_of(message: str) -> str:
    """The level that the beginning of a message names, else info."""
    found = _NAMED.search(message[:WITHIN])
    word = found and _WORD.search(found[0])
    return _LEVEL.get(word[0].lower(), UNKNOWN) if word else UNKNOWN
