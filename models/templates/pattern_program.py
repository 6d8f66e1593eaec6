r"""Masks as a program: one table of whole numbers, which the matcher of each language interprets (`matcher.py`, `LogTemplate.java`).

A mask's pattern is turned into instructions for a backtracking matcher. It finds what `re` and `java.util.regex` find, with these differences in
how it goes there, none of which can be seen:

- Characters that no pattern tells apart are one class. Sets, and what to try next, are looked up by the class of the next character.
- An option, or a repetition's end, is not tried where the next character does not begin it or what follows it.
- A repetition of one character is one instruction, and one entry of the stack.
- A match is looked for only where the character before a place, the two behind it, and the rest of its word allow one (`starts`,
  `seconds`, `allowed`).

Layout of the table; an address is an index of it:

    header     HEADER_WORDS numbers, see the names of their places below
    masks      MASK_WORDS each, see below
    code       instructions: an operation and its operands
    sets       for each class 1 where it is a member, else 0
    choices    for each class the address of a list of addresses of code, 0 for an empty one
    lists      addresses, up to 0
    starts     for each class before a place, and each class behind it: which masks may begin there, a bit each
    seconds    for each class of a first character, and each of a second one: which masks may begin with these
    rare       for each class the rare sets that it is a member of, a bit each; -1 for a blank, which ends a word
    allowed    for each union of such bits: which masks need no other rare set
    classes    the class of each character of ASCII, that of others, and pairs: one of NAMED and its class; then -1
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache, partial, reduce

import numpy as np
from numpy.typing import NDArray

from models.templates import pattern_tree as tree
from models.templates.pattern_tree import EDGE, EVERY, Giving, Tree, symbols_of

__all__ = ["Mask", "Table", "table_of"]

Table = NDArray[np.int32]
Mask = tuple[str, str]  # a pattern, and its replacement, which may begin with $1

# Places in the header
MASKS, CLASS_COUNT, STARTS, SECONDS, RARE, ALLOWED, CLASSES, STACK, SLOTS, MOST_READ, MOST_WRITTEN = range(11)
HEADER_WORDS = 11
# Places in what is written of a mask: the addresses of its code and of its replacement, and whether this begins with $1
CODE, REPLACEMENT, KEEPS = range(3)
MASK_WORDS = 3

# Operations; behind each stand the address of what comes next, and the operands that are named here
MATCH = 0
SET = 1  # set: takes a character of it
SETS = 2  # how many, sets: takes a character of each
NEXT = 3  # set: the next character is in it
BACK = 4  # distance, set: a character before
SPAN = 5  # set, least, most: takes as many as there are, gives none back
GREEDY = 6  # set, least, most, following: gives back up to where one of `following` comes next
LAZY = 7  # set, least, most, following: takes up to where one of `following` comes next
CHOICE = 8  # choice
IF = 9  # set, address: goes there unless the next character is in the set
ENTER = 10  # slot, slot of a count: as MARK, and begins to count at 0
COUNT = 11  # slot of a count: begins at 0
LOOP = 12  # slot of the count, least, most, choice, address behind the loop: what comes next is the part
RUN = 13  # slot of the count, set, most: takes characters, counts each
AGAIN = 14  # slot of the count: counts
AGAIN_CUT = 15  # slot of the count, slot, least: counts, and as CUT once there are enough
CUT = 16  # slot: forgets what could be tried since the stack had the height that is in the slot
LOOK = 17  # slot: remembers the stack's height and, in the slot behind, the place in the text
LOOKED = 18  # slot: as CUT, and back to that place
UNLESS = 19  # slot, address, set: remembers the height; what fails from here on goes on at the address, at once unless a member comes next
FAIL = 20  # slot: as CUT, and fails
CAPTURE = 21  # 0 where $1 begins, 1 where it ends

BLANKS = symbols_of(" \t\n\x0b\f\r")
MOST_KEPT = 10_000  # entries of the stack
MOST_SETS = 16  # characters of a repetition that are written one by one
COMMON = symbols_of("abcdefghijklmnopqrstuvwxyz0123456789")


@dataclass(eq=False)
class _Label:
    """An address that is known later."""

    at: int = 0


@dataclass(frozen=True)
class _Set:
    symbols: int


@dataclass(frozen=True)
class _Ways:
    """Of a choice: the addresses, and the symbols with which each begins."""

    to: tuple[tuple[_Label, int], ...]


_Word = int | _Label | _Set | _Ways


def table_of(masks: Iterable[Mask], most_read: int, most_written: int) -> Table:
    """The table of some masks; of a text `most_read` characters count, of the template `most_written`.

    Raises ValueError for a pattern of another form than `pattern_tree` reads, one that may match nothing or
    go back in too many ways, or more than 31 masks.
    """
    return _Writer(tuple(masks)).table(most_read, most_written)


class _Writer:
    def __init__(self, masks: tuple[Mask, ...]) -> None:
        if len(masks) > 31:
            msg = f"{len(masks)} masks: at most 31 have a bit each"
            raise ValueError(msg)
        self._masks = masks
        self._trees = [tree.parsed(pattern) for pattern, _ in masks]
        self._code: list[_Word] = []
        self._open: list[_Label] = []  # what leads to the instruction that is written next
        self._slots = 0
        self._stack = 0
        self._proven: list[int] = []  # sets that no instruction asks for, as `starts` does

    # ---- the code of a pattern

    def _write(self, *words: _Word) -> None:
        """Write an instruction, which comes after what was written last; its first operand is what comes after it."""
        for label in self._open:
            label.at = self._here
        after = _Label()
        self._code += [words[0], after, *words[1:]]
        self._open = [after]

    def _slot(self, words: int = 1) -> int:
        self._slots += words
        return self._slots - words

    @property
    def _here(self) -> int:
        return HEADER_WORDS + MASK_WORDS * len(self._masks) + len(self._code)

    def _pattern(self, node: Tree, follow: int) -> None:
        """The code of a part, which is followed by one of the symbols `follow` wherever the whole matches."""
        match node:
            case tree.Chars(symbols):
                self._write(SET, _Set(symbols))
            case tree.Sequence(parts):
                self._sequence(parts, follow)
            case tree.Alternation(options):
                self._choice(options, follow)
            case tree.Repeat(tree.Chars(symbols), least, most, giving):
                self._span(symbols, least, most, giving, follow)
            case tree.Repeat(part, 0, 1, Giving.GREEDY):
                self._choice((part, tree.Sequence(())), follow)
            case tree.Repeat():
                self._loop(node, follow)
            case tree.Ahead():
                self._ahead(node)
            case tree.Behind(sets, wanted):
                self._behind(sets, wanted=wanted)
            case tree.Capture(part):
                self._write(CAPTURE, 0)
                self._pattern(part, follow)
                self._write(CAPTURE, 1)

    def _sequence(self, parts: tuple[Tree, ...], follow: int) -> None:
        follows = [follow]
        for part in reversed(parts):
            follows.append(_first(part, follows[-1]))
        taken: list[_Set] = []
        for part, after in zip(parts, follows[-2::-1], strict=True):
            if one_by_one := _one_by_one(part):
                taken += map(_Set, one_by_one)
                continue
            self._takes(taken)
            self._pattern(part, after)
        self._takes(taken)

    def _takes(self, sets: list[_Set]) -> None:
        if len(sets) == 1:
            self._write(SET, *sets)
        elif sets:
            self._write(SETS, len(sets), *sets)
        sets.clear()

    def _choice(self, options: tuple[Tree, ...], follow: int) -> None:
        self._ways([(partial(self._pattern, option, follow), _first(option, follow)) for option in options], CHOICE)

    def _ways(self, options: list[tuple[Callable[[], None], int]], *words: _Word) -> None:
        """A choice; each option is written by a function, and begins with one of a set of symbols."""
        labels = [(_Label(), first) for _, first in options]
        self._write(*words, _Ways(tuple(labels)))
        ends: list[_Label] = []
        for (write, _), (label, _) in zip(options, labels, strict=True):
            self._open = [label]
            write()
            ends += self._open
        self._open = ends

    def _span(self, symbols: int, least: int, most: int, giving: Giving, follow: int) -> None:
        if giving is Giving.POSSESSIVE or not symbols & follow or least == most:
            self._write(SPAN, _Set(symbols), least, most)
        else:
            operation = GREEDY if giving is Giving.GREEDY else LAZY
            self._write(operation, _Set(symbols), least, most, _Set(follow))

    def _loop(self, node: tree.Repeat, follow: int) -> None:
        possessive = node.giving is Giving.POSSESSIVE
        if possessive:  # what follows has no say in what is taken
            follow = EVERY
        if not _least(node.part):
            msg = "a pattern repeats a group that may match nothing"
            raise ValueError(msg)
        first, count, mark = _first(node.part, EVERY), self._slot(), self._slot()
        end, loop, part = _Label(), _Label(), _Label()
        if not node.least:
            self._write(IF, _Set(first), end)
        self._write(*((ENTER, mark, count) if possessive else (COUNT, count)))
        self._open.append(loop)
        ways = ((part, first), (out := _Label(), follow))
        self._write(LOOP, count, node.least, node.most, _Ways(ways[::-1] if node.giving is Giving.LAZY else ways), out)
        self._open.append(part)
        if possessive and not node.least:
            self._turns(node, count, loop)
        else:
            self._pattern(node.part, first | follow)
        self._write(*((AGAIN_CUT, count, mark, node.least) if possessive else (AGAIN, count)))
        self._open[0].at = loop.at
        self._open = [out]
        if possessive:
            self._write(CUT, mark)
        self._open.append(end)

    def _turns(self, node: tree.Repeat, count: int, loop: _Label) -> None:
        """The part of a loop that gives nothing back: a single character, with which no other option begins, is taken again and again."""
        options = _options(node.part)
        firsts = [_first(option, EVERY) for option in options]
        ways: list[tuple[Callable[[], None], int]] = []
        for at, (option, first) in enumerate(zip(options, firsts, strict=True)):
            alone = not any(first & other for other in firsts[:at] + firsts[at + 1 :])
            if isinstance(option, tree.Chars) and alone:
                ways.append((partial(self._run, count, option.symbols, node.most, loop), first))
            else:
                ways.append((partial(self._pattern, option, EVERY), first))
        if len(ways) == 1:
            ways[0][0]()
        else:
            self._ways(ways, CHOICE)

    def _run(self, count: int, symbols: int, most: int, loop: _Label) -> None:
        self._write(RUN, count, _Set(symbols), most)
        self._open[0].at = loop.at
        self._open = []

    def _ahead(self, node: tree.Ahead) -> None:
        if isinstance(node.part, tree.Chars):
            symbols = node.part.symbols
            self._write(NEXT, _Set(symbols if node.wanted else EVERY & ~symbols))
            return
        if node.wanted:
            slot = self._slot(2)
            self._write(LOOK, slot)
            self._pattern(node.part, EVERY)
            self._write(LOOKED, slot)
        else:
            self._unless(partial(self._pattern, node.part, EVERY), _first(node.part, EVERY))

    def _unless(self, write: Callable[[], None], first: int) -> None:
        slot, after = self._slot(), _Label()
        self._write(UNLESS, slot, after, _Set(first))
        write()
        self._write(FAIL, slot)
        self._open = [after]

    def _behind(self, sets: tuple[int, ...], *, wanted: bool) -> None:
        if not wanted and len(sets) == 1:
            sets, wanted = (EVERY & ~sets[0],), True
        if wanted:
            for distance, symbols in enumerate(reversed(sets), 1):
                self._write(BACK, distance, _Set(symbols))
        else:
            self._unless(partial(self._behind, sets, wanted=True), EVERY)

    # ---- the table

    def table(self, most_read: int, most_written: int) -> Table:
        begins = []
        for number, node in enumerate(self._trees):
            if _least(node) < 1:
                msg = f"pattern {self._masks[number][0][:80]!r} may match nothing"
                raise ValueError(msg)
            begins.append(self._here)
            self._pattern(self._unproven(node), EVERY)
            self._write(MATCH)
            self._open = []
            self._stack = max(self._stack, _most_kept(node))
            if self._stack > MOST_KEPT:
                msg = f"pattern {self._masks[number][0][:80]!r} may keep more than {MOST_KEPT} ways to go back"
                raise ValueError(msg)
        classes, class_of = self._classes()
        words: list[int] = [0] * (HEADER_WORDS + MASK_WORDS * len(self._masks) + len(self._code))
        addresses: dict[object, int] = {}

        def address(part: tuple[int, ...]) -> int:
            if part not in addresses:
                addresses[part] = len(words)
                words.extend(part)
            return addresses[part]

        def placed(word: _Word) -> int:
            match word:
                case _Set(symbols):
                    return address(tuple(symbols >> one & 1 for one in classes))
                case _Ways(to):
                    lists = [tuple(label.at for label, first in to if first >> one & 1) for one in classes]
                    return address(tuple(address((*each, 0)) if each else 0 for each in lists))
                case _Label(at):
                    return at
            return word

        at = HEADER_WORDS
        for (_, token), begin in zip(self._masks, begins, strict=True):
            replacement = address((*(class_of[ord(one)] + (ord(one) << 8) for one in token.removeprefix("$1")), -1))
            words[at : at + MASK_WORDS] = [begin, replacement, int(token.startswith("$1"))]
            at += MASK_WORDS
        for word in self._code:
            words[at] = placed(word)
            at += 1
        rare, allowed = self._rare()
        words[:HEADER_WORDS] = [
            len(self._masks),
            len(classes),
            address(self._bits(lambda node: _starts(node, classes))),
            address(self._bits(lambda node: _seconds(node, classes))),
            address(
                tuple(
                    -1 if BLANKS >> one & 1 else sum((symbols >> one & 1) << bit for bit, symbols in enumerate(rare))
                    for one in classes
                )
            ),
            address(allowed),
            address(
                (
                    *class_of[: tree.ASCII],
                    class_of[tree.OTHER],
                    *(
                        word
                        for number, named in enumerate(tree.NAMED, tree.ASCII)
                        for word in (named, class_of[number])
                    ),
                    -1,
                )
            ),
            self._stack,
            self._slots,
            most_read,
            most_written,
        ]
        return np.array(words, np.int32)

    def _unproven(self, node: Tree) -> Tree:
        """A pattern without what it begins with and `starts` holds already: a character before it, or the next one, is in a set."""
        parts = node.parts if isinstance(node, tree.Sequence) else ()
        for at, part in enumerate(parts):
            match part:
                case tree.Behind((symbols,)) | tree.Ahead(tree.Chars(symbols)):
                    self._proven.append(symbols)
                case _:
                    return tree.Sequence(parts[at:])
        return node

    def _classes(self) -> tuple[list[int], tuple[int, ...]]:
        """A symbol of each class, and the class of each character's symbol; the edge of the text is the last class."""
        sets = [word.symbols for word in self._code if isinstance(word, _Set)]
        sets += [first for word in self._code if isinstance(word, _Ways) for _, first in word.to]
        sets = list(dict.fromkeys([*sets, *self._proven, BLANKS]))
        of_member: dict[tuple[int, ...], int] = {}
        class_of = [of_member.setdefault(tuple(one >> s & 1 for one in sets), len(of_member)) for s in range(EDGE)]
        return [*(class_of.index(number) for number in range(len(of_member))), EDGE], tuple(class_of)

    def _bits(self, of: Callable[[Tree], NDArray[np.bool_]]) -> tuple[int, ...]:
        """What holds for which mask, a bit each."""
        found = sum(of(node).astype(np.int64) << bit for bit, node in enumerate(self._trees))
        return tuple(np.ravel(found).tolist())

    def _rare(self) -> tuple[list[int], tuple[int, ...]]:
        """Rare sets, one of whose members is in the word of every match of a mask; and what masks need no others than those of each union."""
        needed = []
        for node in self._trees:
            first = _first(node, EVERY)
            sets = [one for one in _needs(node)[0] if first & ~one]
            needed.append(min(sets, key=lambda one: (one.bit_count(), -one), default=0))
        rare = sorted({one for one in needed if one})
        bits = [1 << rare.index(one) if one else 0 for one in needed]
        return rare, tuple(
            sum(1 << mask for mask, need in enumerate(bits) if need & ~there == 0) for there in range(1 << len(rare))
        )


def _one_by_one(node: Tree) -> list[int]:
    """The sets of the characters of a part that always takes as many, up to `MOST_SETS` of a repetition; none for any other."""
    match node:
        case tree.Chars(symbols):
            return [symbols]
        case tree.Sequence(parts):
            each = [_one_by_one(part) for part in parts]
            return [one for found in each for one in found] if all(each) else []
        case tree.Repeat(part, least, most) if least == most:
            found = _one_by_one(part) * least
            return found if len(found) <= MOST_SETS else []
    return []


def _options(node: Tree) -> list[Tree]:
    """What a part is a choice of."""
    return (
        [one for option in node.options for one in _options(option)] if isinstance(node, tree.Alternation) else [node]
    )


@lru_cache(maxsize=1 << 16)
def _first(node: Tree, follow: int) -> int:
    """The symbols one of which comes next where a part matches that is followed by one of `follow`."""
    match node:
        case tree.Chars(symbols):
            return symbols
        case tree.Sequence(parts):
            for part in reversed(parts):
                follow = _first(part, follow)
            return follow
        case tree.Alternation(options):
            return reduce(int.__or__, (_first(option, follow) for option in options))
        case tree.Repeat(part, least):
            return _first(part, EVERY) | (0 if least else follow)
        case tree.Ahead(part, True):
            return _first(part, EVERY) & follow
        case tree.Ahead(tree.Chars(symbols), False):
            return follow & ~symbols
        case tree.Capture(part):
            return _first(part, follow)
    return follow


def _starts(node: Tree, classes: list[int]) -> NDArray[np.bool_]:
    """For each class before a place and behind it whether a match may begin there, `(classes, classes)`."""

    def members(symbols: int) -> NDArray[np.bool_]:
        return np.array([symbols >> one & 1 for one in classes], bool)

    def first(node: Tree, follow: NDArray[np.bool_]) -> NDArray[np.bool_]:
        match node:
            case tree.Sequence(parts):
                for part in reversed(parts):
                    follow = first(part, follow)
                return follow
            case tree.Alternation(options):
                return reduce(np.logical_or, (first(option, follow) for option in options))
            case tree.Repeat(part, least):
                again = first(part, np.ones_like(follow))
                return again if least else again | follow
            case tree.Ahead(part, True):
                return first(part, np.ones_like(follow)) & follow
            case tree.Behind(sets, True):
                return follow & members(sets[-1])[:, None]
            case tree.Behind((symbols,), False):
                return follow & ~members(symbols)[:, None]
            case tree.Capture(part):
                return first(part, follow)
            case tree.Chars(symbols):
                return np.broadcast_to(members(symbols), follow.shape)
            case tree.Ahead(tree.Chars(symbols), False):
                return follow & ~members(symbols)
        return follow

    return first(node, np.ones((len(classes), len(classes)), bool))


def _seconds(node: Tree, classes: list[int]) -> NDArray[np.bool_]:
    """For each class of a first character and each of a second one whether a match may begin with them, `(classes, classes)`."""
    found = [_after(node, 1 << symbol, EVERY, EVERY) for symbol in classes]
    return np.array([[symbols >> one & 1 for one in classes] for symbols in found], bool)


def _after(node: Tree, taken: int, follow: int, second: int) -> int:
    """The symbols one of which comes second, where a part begins with the symbol `taken`.

    `follow` are those that may follow the part, and `second` those that come second where nothing of the part is taken.
    """
    if not taken & _first(node, EVERY if second else 0):
        return 0
    match node:
        case tree.Chars():
            return follow
        case tree.Sequence(parts):
            for part in reversed(parts):
                second, follow = _after(part, taken, follow, second), _first(part, follow)
            return second
        case tree.Alternation(options):
            return reduce(int.__or__, (_after(option, taken, follow, second) for option in options))
        case tree.Repeat(part, least, most):
            again = _first(part, EVERY) if least > 1 else follow if most == 1 else follow | _first(part, EVERY)
            return _after(part, taken, again, 0) | (0 if least else second)
        case tree.Ahead(part, True):
            return _after(part, taken, EVERY, EVERY) & second
        case tree.Capture(part):
            return _after(part, taken, follow, second)
    return second


def _needs(node: Tree) -> tuple[list[int], bool]:
    """Rare sets of each of which a part's match, up to a blank, holds a member; and whether no match of the part holds a blank."""
    match node:
        case tree.Chars(symbols):
            return ([] if symbols & (BLANKS | COMMON) else [symbols]), not symbols & BLANKS
        case tree.Sequence(parts):
            found: list[int] = []
            for part in parts:
                sets, within = _needs(part)
                found += sets
                if not within:
                    return found, False
            return found, True
        case tree.Alternation(options):
            each = [_needs(option) for option in options]
            common, *others = (_smallest(sets) for sets, _ in each)
            for sets in others:
                common = _smallest([a | b for a in common for b in sets])
            return common, all(within for _, within in each)
        case tree.Repeat(part, least):
            sets, within = _needs(part)
            return (sets if least else []), within
        case tree.Ahead(part, True):
            return _needs(part)[0], True
        case tree.Capture(part):
            return _needs(part)
    return [], True


def _smallest(sets: list[int]) -> list[int]:
    """The sets that hold no other one, and of these some."""
    found = [one for one in dict.fromkeys(sets) if not any(other != one and other & ~one == 0 for other in sets)]
    return sorted(found, key=int.bit_count)[:30]


def _least(node: Tree) -> int:
    """The fewest characters that a part takes."""
    match node:
        case tree.Chars():
            return 1
        case tree.Sequence(parts):
            return sum(map(_least, parts))
        case tree.Alternation(options):
            return min(map(_least, options))
        case tree.Repeat(part, least):
            return least * _least(part)
        case tree.Capture(part):
            return _least(part)
    return 0


def _most_kept(node: Tree) -> int:
    """A bound of the entries of the stack that a part makes."""
    match node:
        case tree.Sequence(parts):
            return sum(map(_most_kept, parts))
        case tree.Alternation(options):
            return 1 + max(map(_most_kept, options))
        case tree.Repeat(tree.Chars()):
            return 1
        case tree.Repeat(part, least, most, giving):
            kept = least + 1 if giving is Giving.POSSESSIVE else most
            return 1 + kept * (2 + _most_kept(part))
        case tree.Ahead(part) | tree.Capture(part):
            return 1 + _most_kept(part)
        case tree.Behind():
            return 1
    return 0
