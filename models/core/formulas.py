"""Text from outside in cells of a table that a spreadsheet may open, where some characters at the beginning make a formula of it.

A formula can send what is in other cells elsewhere, or start a program (OWASP, CSV Injection).
"""

from __future__ import annotations

import re

# Excel and LibreOffice; the wide forms where the language has them. A tab or a line end before a formula is passed over.
BEGINNING = re.compile("'*[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")


def as_text(cell: str, mark: str = "'") -> str:
    """The cell, with a mark before it where it would be a formula.

    Cells that begin with apostrophes and then so get one more: what begins with one and then so had one less.
    """
    return mark + cell if BEGINNING.match(cell) else cell
