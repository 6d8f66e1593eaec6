"""Texts that make a backtracking matcher work as hard as it can, made from a regular expression itself."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from re import _constants as sre  # type: ignore[attr-defined]  # the parts of a pattern have no public names
from re import _parser  # type: ignore[attr-defined]
from typing import Any

MOST_ATTACKS = 90  # of a pattern
TRIALS, PATIENCE = 3, 2.0  # of a text at least, and seconds for one that seems slow
PLAIN = (
    *(
        "a",
        "A",
        "0",
        " ",
        "/",
        ".",
        ":",
        "-",
        "_",
        "\\",
        '"',
        "'",
        "[",
        "(",
        "<",
        "{",
        "@",
        ",",
        "=",
        "|",
        "\n",
        "\t",
        "é",
    ),
    *("a.", "a/", "a ", "1.", "1:", "a-", "a:", "[a", "a1", "0f", "<*>", "<ip>", "a=", "::", "\\]", '\\"', "aA0-. "),
)
SOUP = "/.:,=-[]\"' !\n\x00"  # some of it is what a class leaves out
REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)
CLASSES = {
    sre.CATEGORY_DIGIT: "07",
    sre.CATEGORY_NOT_DIGIT: "a ",
    sre.CATEGORY_SPACE: " \t",
    sre.CATEGORY_NOT_SPACE: "a/1",
    sre.CATEGORY_WORD: "aZ0_",
    sre.CATEGORY_NOT_WORD: " /",
}

# a prefix, what is repeated, and an end: of a length that is chosen when it is made
Attack = tuple[str, str, str]


def attacks(pattern: str) -> list[Attack]:
    """What to try a pattern with: each of its repetitions and beginnings, many times, with ends that spoil the match."""
    found: dict[Attack, None] = dict.fromkeys(("", unit, "\x00") for unit in PLAIN)
    for before, unit in _pumps(list(_parser.parse(pattern)), ""):
        if unit:
            found |= dict.fromkeys((before, unit, end) for end in ("\x00", "", SOUP))
    whole = _sample(list(_parser.parse(pattern)))
    if whole:
        found |= dict.fromkeys([("", whole, "\x00"), ("", whole[:-1] or whole, ""), ("", whole + " ", "")])
    every = list(found)
    step = max(1, -(-len(every) // MOST_ATTACKS))
    return every[::step] if step > 1 else every


def text_of(attack: Attack, length: int) -> str:
    """An attack as a text of about this many characters."""
    before, unit, end = attack
    return before + unit * max(1, (length - len(before) - len(end)) // len(unit)) + end


def nonlinear(
    took: Callable[[str], float], tried: Sequence[Attack], length: int, judged: float = 0.05, most_growth: float = 2.6
) -> list[tuple[Attack, list[float]]]:
    """The attacks whose time grows faster than their length: with the times at `length`, twice and four times that.

    `took` answers seconds of processor time for a text. What takes less than `judged` at the largest length is not judged. A
    doubled length doubles linear time, and makes quadratic time four times as long; both doublings together must be above
    `most_growth` each. The shortest trial counts, because a busy machine only ever adds to it. What grows too fast is tried again
    for `PATIENCE` seconds: a pattern that is not linear is slow in every trial.
    """
    bad = []
    for attack in tried:
        texts = [text_of(attack, n * length) for n in (1, 2, 4)]
        if took(texts[0]) < judged / 16:
            continue
        best, trials, spent = [math.inf] * 3, 0, 0.0
        while trials < TRIALS or spent < PATIENCE:
            times = [took(text) for text in texts]
            best = [min(pair) for pair in zip(best, times, strict=True)]
            trials, spent = trials + 1, spent + sum(times)
            if trials >= TRIALS and best[2] <= max(judged, best[0] * most_growth**2):
                break
        else:
            bad.append((attack, best))
    return bad


def _pumps(items: Sequence[Any], before: str) -> Iterator[tuple[str, str]]:
    """(prefix, unit) of each repetition in a parsed pattern, and of each beginning of the pattern."""
    for kind, value in items:
        if kind in REPEATS:
            least, _, inner = value
            for unit in _samples(list(inner)):
                yield before, unit
                yield "", before + unit
            yield from _pumps(list(inner), before)
            before += _sample(list(inner)) * max(1, min(least, 3))
        elif kind is sre.SUBPATTERN:
            yield from _pumps(list(value[3]), before)
            before += _sample(list(value[3]))
        elif kind is sre.ATOMIC_GROUP:
            yield from _pumps(list(value), before)
            before += _sample(list(value))
        elif kind is sre.BRANCH:
            for branch in value[1]:
                yield from _pumps(list(branch), before)
                yield "", before + _sample(list(branch))
            before += _sample(list(value[1][0]))
        elif kind in (sre.ASSERT, sre.ASSERT_NOT):
            yield from _pumps(list(value[1]), before)
        else:
            before += _sample([(kind, value)])
            yield "", before


def _samples(items: list[Any]) -> list[str]:
    """Some texts that a part matches."""
    found = [_sample(items)]
    for kind, value in items:
        if kind is sre.IN and len(items) == 1:
            found += [c for c in _of_set(value)[:4]]
        elif kind is sre.BRANCH:
            found += [_sample(list(branch)) for branch in value[1][:6]]
    return list(dict.fromkeys(found))


def _sample(items: list[Any]) -> str:
    """A text that a part matches, or nearly: looking around is left out."""
    out = ""
    for kind, value in items:
        if kind is sre.LITERAL:
            out += chr(value)
        elif kind is sre.NOT_LITERAL:
            out += "b" if value == ord("a") else "a"
        elif kind is sre.ANY:
            out += "a"
        elif kind is sre.IN:
            out += _of_set(value)[0]
        elif kind in REPEATS:
            out += _sample(list(value[2])) * max(1, value[0])
        elif kind is sre.SUBPATTERN:
            out += _sample(list(value[3]))
        elif kind is sre.ATOMIC_GROUP:
            out += _sample(list(value))
        elif kind is sre.BRANCH:
            out += _sample(list(value[1][0]))
    return out


def _of_set(value: list[Any]) -> list[str]:
    """Characters of a class."""
    if value[0][0] is sre.NEGATE:
        listed = re.compile("[" + "".join(map(re.escape, _of_set(value[1:]))) + "]")
        return [c for c in "a1 /.-\\" if not listed.match(c)] or ["\u20ac"]
    found: list[str] = []
    for kind, part in value:
        if kind is sre.LITERAL:
            found.append(chr(part))
        elif kind is sre.RANGE:
            found += [chr(part[0]), chr(part[1])]
        elif kind is sre.CATEGORY:
            found += CLASSES.get(part, "a")
    return found or ["a"]
