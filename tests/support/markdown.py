"""Text of the pages, as it is read once Markdown has taken its escapes out; and text that tries to be more than text."""

from __future__ import annotations

import re

ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
CODE_SPAN = re.compile(r"(?<![\\`])(`+)(?!`).*?(?<!`)\1(?!`)")
# What a sender may put into a name or a message to have a page do something. Each begins and ends with a word to look for.
HOSTILE = (
    "evil-1 :red[evil] :material/delete: :smile: evil-1",
    "evil-2 ![evil](http://evil.invalid/a.png) evil-2",
    "evil-3 [evil](http://evil.invalid/) <http://evil.invalid/> https://evil.invalid www.evil.invalid evil-3",
    "evil-4 <img src=http://evil.invalid/b.png onerror=alert(1)> <script>alert(1)</script> evil-4",
    "evil-5 `evil` ``evil`` ```evil evil-5",
    "evil-6 $\\frac{1}{2}$ $$x$$ \\(x\\) evil-6",
    "evil-7 **evil** __evil__ ~~evil~~ # evil > evil - evil 1. evil | evil | evil-7",
    "evil-8 &lt;b&gt; &#58;red[evil] \\:red[evil] evil-8",
    "evil-9 \u202eesrever\u200b\u0007 evil-9",
    "evil-10\n\n# evil\n\n    evil\n\n* evil\n\nevil-10",
)
# What none of them may leave unescaped in anything that is read as Markdown.
RAW = (
    *(
        ":red[",
        "![evil",
        "[evil]",
        "<img",
        "<script",
        "**evil**",
        "__evil__",
        "~~evil~~",
        "$$x",
        "&lt;",
        "&#58;",
        "http://evil",
    ),
    *("www.evil", "\n# evil"),
)
MARKUP = re.compile(r"(?<!\\)(" + "|".join(map(re.escape, RAW)) + ")|[\u202e\u200b\x07]")


def as_read(text: str) -> str:
    """Without the backslashes of escapes, and what keeps addresses from being links."""
    return ESCAPED.sub(r"\1", text).replace("\N{WORD JOINER}", "")
