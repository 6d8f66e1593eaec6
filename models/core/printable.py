"""Text from outside as it may be shown: on a terminal, in a log line, on a page.

Names, templates, messages and reasons are written by anybody who can write to the input topics. A terminal obeys control
characters, some characters turn the direction of what stands beside them, and some are not seen at all, so that two names
look the same.
"""

from __future__ import annotations

import re

# Control characters; line and paragraph separators; marks of direction; what is not seen: spaces without width, fillers, joiners,
# selectors, tags (Unicode's default-ignorable characters, and the blank of Braille); private use; halves of pairs; no characters.
UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800"
    "\u3164\ud800-\udfff\ue000-\uf8ff\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U0010ffff]"
)


def printable(text: str, instead: str = "?") -> str:
    """The text on one line, with `instead` for every character of `UNSEEN`: as many characters as before."""
    return UNSEEN.sub(instead, text)


def printable_lines(text: str) -> str:
    """The same of a text of several lines, which stay apart."""
    return "\n".join(printable(line) for line in text.split("\n"))
