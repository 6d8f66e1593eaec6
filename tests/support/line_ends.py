"""Lines on which matchers differ: with a line's end within, and with characters that are nearly others."""

from __future__ import annotations

ENDS = ("\n", "\r", "\r\n", "\n\r", "\x85", "\u2028", "\u2029", "\0", "\x1c", "\n\n", "\r\r\n", "\x0b", "\x0c")
# what may end a line where a pattern asks for its end, as Java's `$` does; the others are characters like any
OF_JAVA = ("\n", "\r", "\r\n", "\x85", "\u2028", "\u2029")

AT_THE_END = [f"session of user ann{end}" for end in ENDS]
ESCAPED = [f'level=info msg="a \\{end} b 12"' for end in (*ENDS, '"', "\\")]
NEARLY = [
    "12 \u00b5s 12\u03bcs 12\u017f 12\u212a \u0661\u0662 12\u0301 e\u0301a12",
    "\U0001f600 12\u00a012\u2003 12",
    "a" * 5000 + " 12",
    "1 " * 1024,
    "user a " * 290,
]
LINE_ENDS = [*AT_THE_END, *ESCAPED, *NEARLY]
