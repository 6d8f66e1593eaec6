"""Changes and calls that people and tools announce: from the rows of a window to what its shard says of it.

One comes into a shard as a row of series `change/NAME/OFFSET`, in the window in which it was appended, and is passed on with the watermark message
of that window. Nothing is kept: `correlate` remembers them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from models.core.arrays import Texts
from models.core.windows import Windows
from models.detection.limits import CHANGES, MOST_READ
from models.records.records import (
    CHANGE_BYTES,
    TOPOLOGY_BYTES,
    AnnouncedCall,
    AnnouncedChange,
    Overflow,
    fit_into_bytes,
)
from models.records.schema import parsed

FIRST = "change/"  # names of announcements begin so


class Announcements:
    """Takes announcements out of the rows of a window, and has those of the last one."""

    def __init__(self, shard: int = 0) -> None:
        self._shard = shard
        self.window: tuple[list[AnnouncedChange], list[AnnouncedCall]] = ([], [])
        self.overflow: list[Overflow] = []

    def take(self, now: int, rows: Windows) -> Windows:
        """Note what is announced in a window. Answers the other rows."""
        announced = rows.span(FIRST)
        self.window, self.overflow = ([], []), []
        if announced.start == announced.stop:
            return rows
        found = [json.loads(text) for text in self._read(now, rows.series[announced], rows.sample[announced]).tolist()]
        changes = sorted({parsed(AnnouncedChange, one) for one in found if "client" not in one})
        listed = [parsed(AnnouncedCall, one) for one in found if "client" in one]
        # Of a call the last one counts: rows of a client are in the order of the log.
        calls = sorted({(call.client, call.server): call for call in listed}.values())
        self.window = fit_into_bytes(changes, CHANGE_BYTES), fit_into_bytes(calls, TOPOLOGY_BYTES)
        self._count(now, changes, self.window[0])
        self._count(now, calls, self.window[1])
        return rows.without_span(announced)

    def _read(self, now: int, names: Texts, texts: Texts) -> Texts:
        """The texts that are read, and a letter about the others."""
        most = MOST_READ[CHANGES]
        if len(texts) <= most:
            return texts
        offsets = np.array([name.rsplit("/", 1)[1] for name in names.tolist()])
        order = np.argsort(offsets, kind="stable")
        self._count(now, names[order].tolist(), names[order[:most]].tolist())
        read: Texts = texts[order[:most]]
        return read

    def _count(self, now: int, wanted: Sequence[Any], kept: Sequence[Any]) -> None:
        """A letter about what one watermark message has no room for."""
        if len(kept) < len(wanted):
            names = [str(one)[:200] for one in wanted[len(kept) :][:10]]
            left, most = len(wanted) - len(kept), len(kept)
            self.overflow.append(
                Overflow(
                    host="", limit=CHANGES, window_end=now, wanted=len(wanted), most=most, left_out=left, names=names
                )
            )
