"""Which template is another one but for whole values: what has a place in one is all of what stands there in the other, up to the blank.

`relay=<*>, delay=<*>` is wider than `relay=db[<*>, delay=<*>`, and `mailed to <*>` than `mailed to Ann-Lena's`. Patterns of one shape
(`models.templates.merging`) do not see that, because the signs between words are part of a shape: whether a mask knew all of a value or a
part of it, and how many words of it became one place, makes another shape.

A value does not take the place of another one if it names something that the other does not: `by (uid=<*>)` is no `by <*>`.

Each text has an age, and the oldest that is wider is found: a text that comes later changes nothing of what was found before. Work is
bounded: of the texts that have the right values where they have no place, the MOST_WIDER and MOST_NARROWER oldest are looked at.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from functools import lru_cache

import numpy as np

from models.core.arrays import Bools
from models.templates.tokens import LEAST_EQUAL, PLACE, Tokens, count_plain_words, token_numbers, tokens_of

__all__ = ["WiderTexts"]

MOST_WIDER, MOST_NARROWER = 32, 500
BLANK = " "  # the only white space of a template


class WiderTexts:
    """The texts of a service's templates, and of what their patterns were before, by how many values they have."""

    def __init__(self) -> None:
        self._of_length: dict[int, _Texts] = {}
        self._age: dict[str, int] = {}

    def put(self, text: str, age: int) -> None:
        """Add a text, or give it another age; no two have the same age but a pattern and its text."""
        if self._age.get(text) == age:
            return
        if text in self._age:
            self.remove(text)
        self._age[text] = age
        length = _length(text)
        if length not in self._of_length:
            self._of_length[length] = _Texts(length)
        self._of_length[length].insert(text, age)

    def remove(self, text: str) -> None:
        """Take a text away."""
        own = self._of_length[_length(text)]
        own.remove(text, self._age.pop(text))
        if not len(own):
            del self._of_length[_length(text)]

    def wider(self, text: str) -> tuple[int, str] | None:
        """The age and the text of the oldest one that another one is but for whole values."""
        own = self._of_length.get(_length(text))
        found = () if own is None else own.maybe_wider(_values(text))
        return next((one for one in found if _is_wider(one[1], text)), None)

    def narrower(self, text: str) -> list[str]:
        """The texts that are a text but for whole values. A first word needs more of its line to be equal."""
        own = self._of_length.get(_length(text))
        if own is None or PLACE not in text:
            return []
        found = [one for _, one in own.maybe_narrower(_values(text)) if _is_wider(text, one)]
        few, first = count_plain_words(tokens_of(text)) <= LEAST_EQUAL, text.partition(BLANK)[0]
        return [one for one in found if not few or one.partition(BLANK)[0] == first]


class _Texts:
    """Texts with the same number of values, the oldest first.

    A text is compared with all of them at once: a row of numbers for each, `(n, values)`.
    """

    def __init__(self, length: int) -> None:
        self._keys: list[tuple[int, str]] = []  # age, text
        self._values: list[Tokens] = []  # interned as long as they are here
        self._room = np.empty((4, length), dtype=np.int64)

    def __len__(self) -> int:
        return len(self._keys)

    def insert(self, text: str, age: int) -> None:
        values, count = _values(text), len(self)
        if count == len(self._room):
            self._room = np.concatenate([self._room, np.empty_like(self._room)])
        at = bisect_left(self._keys, (age, text))
        self._room[at + 1 : count + 1] = self._room[at:count]
        self._room[at] = token_numbers(values)
        self._keys.insert(at, (age, text))
        self._values.insert(at, values)

    def remove(self, text: str, age: int) -> None:
        at = bisect_left(self._keys, (age, text))
        self._room[at : len(self) - 1] = self._room[at + 1 : len(self)]
        del self._keys[at], self._values[at]

    def maybe_wider(self, values: Tokens) -> list[tuple[int, str]]:
        """Texts that have these values wherever they have no place, and their ages."""
        rows = self._room[: len(self)]
        return self._where((rows == token_numbers(values)) | (rows == id(PLACE)), MOST_WIDER)

    def maybe_narrower(self, values: Tokens) -> list[tuple[int, str]]:
        """Texts that have those of the values which are no place, and their ages."""
        own = token_numbers(values)
        return self._where((self._room[: len(self)] == own) | (own == id(PLACE)), MOST_NARROWER)

    def _where(self, fits: Bools, most: int) -> list[tuple[int, str]]:
        return [self._keys[at] for at in np.flatnonzero(fits.all(axis=1))[:most].tolist()]


def _length(text: str) -> int:
    return text.count(BLANK) + 1


@lru_cache(maxsize=4_096)
def _values(text: str) -> Tokens:
    """The values of a text; one with a place in it is PLACE."""
    return tuple(PLACE if PLACE in one else sys.intern(one) for one in text.split(BLANK))


def _is_wider(wide: str, text: str) -> bool:
    """Whether a text is another one but for whole values; both have as many of them."""
    if wide == text:
        return False
    if not all(a == b or _takes(a, b) for a, b in zip(wide.split(BLANK), text.split(BLANK), strict=True)):
        return False
    return count_plain_words(tokens_of(wide)) >= LEAST_EQUAL


def _takes(wide: str, value: str) -> bool:
    """Whether a value is another one with something in each of its places."""
    first, *others = wide.split(PLACE)
    if not others or not value.startswith(first) or value.count("=") > wide.count("="):
        return False
    at = len(first)
    for one in others[:-1]:
        found = value.find(one, at + 1)
        if found < 0:
            return False
        at = found + len(one)
    return value.endswith(others[-1]) and len(value) - len(others[-1]) > at
