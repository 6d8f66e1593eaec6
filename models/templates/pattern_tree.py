r"""Reads a mask's pattern: the part of the language of regular expressions that Java and Python's `re.ASCII` have in common.

    choice    = sequence {"|" sequence}
    sequence  = {part [quantifier]}
    part      = character | escape | class | "^" | "(" [kind] choice ")"
    kind      = "?:" | "?=" | "?!" | "?<=" | "?<!"            without one: what the replacement calls $1
    quantifier = ("*" | "+" | "?" | "{n}" | "{n,}" | "{n,m}") ["?" | "+"]

A pattern that begins with `(?i)` means small and capital letters of ASCII alike. What else these languages have is refused: `.` and `$`,
which Java and Python read differently at the end of a line, and `\b`, which Java redefines between versions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import cache

__all__ = [
    "CHARACTERS",
    "EDGE",
    "EVERY",
    "NAMED",
    "SYMBOLS",
    "Ahead",
    "Alternation",
    "Behind",
    "Capture",
    "Chars",
    "Giving",
    "Repeat",
    "Sequence",
    "Tree",
    "parsed",
    "symbols_of",
]

ASCII = 128
NAMED = (0x85, 0xB5, 0x3BC, 0x2028, 0x2029)  # characters beyond ASCII that a pattern may name

# Symbols are what a pattern can tell apart: a character of ASCII, one of NAMED, any other character, and the edge of the text.
OTHER = ASCII + len(NAMED)
EDGE = OTHER + 1
SYMBOLS = EDGE + 1

# A set of symbols is a number with a bit for each.
EVERY = (1 << SYMBOLS) - 1
CHARACTERS = EVERY & ~(1 << EDGE)

UNBOUNDED = 1 << 20  # repetitions; longer than any text


class Giving(Enum):
    """What a repetition takes, and whether it gives back."""

    GREEDY = ""
    LAZY = "?"
    POSSESSIVE = "+"


@dataclass(frozen=True, eq=False)
class Chars:
    """One character out of a set of symbols."""

    symbols: int


@dataclass(frozen=True, eq=False)
class Sequence:
    """One part after the other."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True, eq=False)
class Alternation:
    """The first option with which the whole matches."""

    options: tuple[Tree, ...]


@dataclass(frozen=True, eq=False)
class Repeat:
    """A part, `least` to `most` times."""

    part: Tree
    least: int
    most: int
    giving: Giving


@dataclass(frozen=True, eq=False)
class Ahead:
    """Whether a part matches from here; nothing is taken."""

    part: Tree
    wanted: bool


@dataclass(frozen=True, eq=False)
class Behind:
    """Whether the symbols before this place are in sets, the nearest last."""

    symbols: tuple[int, ...]
    wanted: bool


@dataclass(frozen=True, eq=False)
class Capture:
    """What the replacement calls $1."""

    part: Tree


Tree = Chars | Sequence | Alternation | Repeat | Ahead | Behind | Capture


@cache
def symbols_of(characters: str) -> int:
    """The set of these characters. Raises ValueError for one that patterns cannot name."""
    found = 0
    for character in characters:
        code = ord(character)
        if code >= ASCII and code not in NAMED:
            msg = f"a pattern names {character!r}: beyond ASCII it may name {[chr(one) for one in NAMED]}"
            raise ValueError(msg)
        found |= 1 << (code if code < ASCII else ASCII + NAMED.index(code))
    return found


_DIGITS = "0123456789"
_SMALL = "abcdefghijklmnopqrstuvwxyz"
_WORD = symbols_of(_DIGITS + _SMALL + _SMALL.upper() + "_")
_SPACE = symbols_of(" \t\n\x0b\f\r")
_CLASSES = {"w": _WORD, "W": CHARACTERS & ~_WORD, "s": _SPACE, "S": CHARACTERS & ~_SPACE}
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r"}
_QUANTIFIER = re.compile(r"([*+?]|\{([0-9]{1,5})(,[0-9]{0,5})?\})([?+]?)")
_BOUNDS = {"*": (0, UNBOUNDED), "+": (1, UNBOUNDED), "?": (0, 1)}
_KINDS = ("?:", "?=", "?!", "?<=", "?<!")
_REFUSED = "*+?{}.$)]"


def parsed(pattern: str) -> Tree:
    """The tree of a pattern. Raises ValueError for one that is not of the form above."""
    return _Parser(pattern).whole()


class _Parser:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._alike = pattern.startswith("(?i)")
        self._at = 4 if self._alike else 0

    def whole(self) -> Tree:
        found = self._choice()
        if self._at < len(self._pattern):
            raise self._refused()
        return found

    def _refused(self) -> ValueError:
        here = self._pattern[max(0, self._at - 20) : self._at + 20]
        return ValueError(
            f"pattern, place {self._at}, in {here!r}: not of the form that models.templates.pattern_tree reads"
        )

    def _took(self, text: str) -> bool:
        found = self._pattern.startswith(text, self._at)
        if found:
            self._at += len(text)
        return found

    def _choice(self) -> Tree:
        options = [self._sequence()]
        while self._took("|"):
            options.append(self._sequence())
        return options[0] if len(options) == 1 else Alternation(tuple(options))

    def _sequence(self) -> Tree:
        parts: list[Tree] = []
        while self._at < len(self._pattern) and self._pattern[self._at] not in "|)":
            part = self._part()
            quantifier = _QUANTIFIER.match(self._pattern, self._at)
            if quantifier:
                self._at = quantifier.end()
                part = self._repeated(part, quantifier)
            parts.append(part)
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _repeated(self, part: Tree, quantifier: re.Match[str]) -> Tree:
        how, least, most, giving = quantifier.groups()
        if least is None:
            return Repeat(part, *_BOUNDS[how], Giving(giving))
        most = UNBOUNDED if most == "," else int((most or least).removeprefix(","))
        return Repeat(part, int(least), most, Giving(giving))

    def _part(self) -> Tree:
        if self._took("("):
            return self._group()
        if self._took("["):
            return Chars(self._class())
        if self._took("^"):
            return Behind((1 << EDGE,), wanted=True)
        if self._took("\\"):
            return Chars(self._folded(self._escape()))
        if self._pattern[self._at] in _REFUSED:
            raise self._refused()
        return Chars(self._folded(symbols_of(self._next())))

    def _next(self) -> str:
        if self._at == len(self._pattern):
            raise self._refused()
        self._at += 1
        return self._pattern[self._at - 1]

    def _group(self) -> Tree:
        kind = next((kind for kind in _KINDS if self._took(kind)), None)
        if kind is None and self._pattern.startswith("?", self._at):
            raise self._refused()
        part = self._choice()
        if not self._took(")"):
            raise self._refused()
        if kind is None:
            return Capture(part)
        if kind in ("?<=", "?<!"):
            return Behind(self._symbols(part), wanted=kind == "?<=")
        return part if kind == "?:" else Ahead(part, wanted=kind == "?=")

    def _symbols(self, part: Tree) -> tuple[int, ...]:
        parts = part.parts if isinstance(part, Sequence) else (part,)
        found = tuple(one.symbols for one in parts if isinstance(one, Chars))
        if len(found) != len(parts):
            raise self._refused()
        return found

    def _escape(self) -> int:
        name = self._next()
        if name == "u":
            code = self._pattern[self._at : self._at + 4]
            self._at += 4
            return symbols_of(chr(int(code, 16)))
        if name in _CLASSES:
            return _CLASSES[name]
        if name in _CONTROLS:
            return symbols_of(_CONTROLS[name])
        if name.isalnum():
            raise self._refused()
        return symbols_of(name)

    def _class(self) -> int:
        negated, found = self._took("^"), 0
        while not self._took("]"):
            first = self._one()
            if self._pattern.startswith("-", self._at) and not self._pattern.startswith("-]", self._at):
                self._at += 1
                last = self._one()
                low, high = first.bit_length(), last.bit_length()
                if first.bit_count() != 1 or last.bit_count() != 1 or not low <= high <= ASCII:
                    raise self._refused()
                first = (1 << high) - (1 << (low - 1))
            found |= first
        found = self._folded(found)
        return CHARACTERS & ~found if negated else found

    def _one(self) -> int:
        return self._escape() if self._took("\\") else symbols_of(self._next())

    def _folded(self, symbols: int) -> int:
        if not self._alike:
            return symbols
        for small in _SMALL:
            both = symbols_of(small + small.upper())
            if symbols & both:
                symbols |= both
        return symbols
