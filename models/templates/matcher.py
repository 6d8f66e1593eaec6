"""Applies a table of masks (`pattern_program`) to a line: a backtracking matcher, compiled to machine code.

`pipelines/jvm/LogTemplate.java` is the same, operation by operation. Which masks may begin at a place is kept with the place, so a mask
looks at few of them; where something was replaced, it is found anew for the words around alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from models.core.compiled import called, compiled, item
from models.templates import pattern_program as p
from models.templates.pattern_program import Table
from models.templates.pattern_tree import ASCII

__all__ = ["apply_masks"]

Characters = NDArray[np.uint32]
Places = NDArray[np.int64]

# What an entry of the stack is: what else can be tried, or the count that a slot had
OPTIONS, COUNTED, GIVES_BACK, TAKES_MORE, PLACE = range(5)
ENTRY = 4  # numbers: kind, address or slot, and two more
END = 2  # of what is kept of a match: where it ends, behind where $1 begins and ends
SPACE = 32

# A place of a line is a number: the class of its character, the character, and a bit for each mask that may begin there.
CLASS = 0xFF
CHARACTER = 1 << 8
ONE_MASK = 1 << 32
BLOCK = 16  # places
ROOM = 64  # places for one more token, and for the edges
OPENING, CLOSING = (40, 91, 123), (41, 93, 125)  # ( [ {, ) ] }: a pair is one or two apart


@called
def _class_of(t: Table, character: int) -> int:
    """The class of a character."""
    place = item(t, p.CLASSES) + min(character, ASCII)
    named = item(t, p.CLASSES) + ASCII + 1
    while character >= ASCII and item(t, named) >= 0:
        if item(t, named) == character:
            place = named + 1
        named += 2
    found: int = item(t, place)
    return found


@called
def _others(t: Table, stack: Table, options: int, pos: int, top: int) -> int:
    """Keep what else can be tried than the first of these options, if there is anything; answers the stack's height."""
    if item(t, options + 1) == 0:
        return top
    stack[top], stack[top + 1], stack[top + 2] = OPTIONS, options + 1, pos
    return top + ENTRY


@called
def _match(t: Table, line: Places, pos: int, pc: int, stack: Table, slots: Table, kept: Table) -> int:
    """Where the match ends that begins at a place, or -1. `kept` is where $1 begins and ends."""
    top = 0
    while True:
        op = item(t, pc)
        if op == p.SETS:
            many = item(t, pc + 2)
            i = 0
            while i < many and item(t, item(t, pc + 3 + i) + (item(line, pos) & CLASS)) != 0:
                pos += 1
                i += 1
            if i == many:
                pc = item(t, pc + 1)
                continue
        elif op == p.CHOICE:
            one = item(t, item(t, pc + 2) + (item(line, pos) & CLASS))
            if one != 0:
                top = _others(t, stack, one, pos, top)
                pc = item(t, one)
                continue
        elif op == p.SET:
            if item(t, item(t, pc + 2) + (item(line, pos) & CLASS)) != 0:
                pos += 1
                pc = item(t, pc + 1)
                continue
        elif op == p.SPAN:
            chars, least, most = item(t, pc + 2), pos + item(t, pc + 3), pos + item(t, pc + 4)
            while pos < most and item(t, chars + (item(line, pos) & CLASS)) != 0:
                pos += 1
            if pos >= least:
                pc = item(t, pc + 1)
                continue
        elif op == p.NEXT:
            if item(t, item(t, pc + 2) + (item(line, pos) & CLASS)) != 0:
                pc = item(t, pc + 1)
                continue
        elif op == p.BACK:
            if item(t, item(t, pc + 3) + (item(line, pos - item(t, pc + 2)) & CLASS)) != 0:
                pc = item(t, pc + 1)
                continue
        elif op == p.GREEDY:
            chars, least, most, follow = item(t, pc + 2), pos + item(t, pc + 3), pos + item(t, pc + 4), item(t, pc + 5)
            while pos < most and item(t, chars + (item(line, pos) & CLASS)) != 0:
                pos += 1
            while pos >= least and item(t, follow + (item(line, pos) & CLASS)) == 0:
                pos -= 1
            if pos >= least:
                if pos > least:
                    stack[top], stack[top + 1], stack[top + 2], stack[top + 3] = GIVES_BACK, pc, pos, least
                    top += ENTRY
                pc = item(t, pc + 1)
                continue
        elif op == p.LAZY:
            chars, least, most, follow = item(t, pc + 2), pos + item(t, pc + 3), pos + item(t, pc + 4), item(t, pc + 5)
            while pos < least and item(t, chars + (item(line, pos) & CLASS)) != 0:
                pos += 1
            if pos >= least:
                while (
                    pos < most
                    and item(t, follow + (item(line, pos) & CLASS)) == 0
                    and item(t, chars + (item(line, pos) & CLASS)) != 0
                ):
                    pos += 1
                if item(t, follow + (item(line, pos) & CLASS)) != 0:
                    if pos < most and item(t, chars + (item(line, pos) & CLASS)) != 0:
                        stack[top], stack[top + 1], stack[top + 2], stack[top + 3] = TAKES_MORE, pc, pos, most
                        top += ENTRY
                    pc = item(t, pc + 1)
                    continue
        elif op == p.IF:
            pc = item(t, pc + 1) if item(t, item(t, pc + 2) + (item(line, pos) & CLASS)) != 0 else item(t, pc + 3)
            continue
        elif op == p.LOOP:
            count = slots[item(t, pc + 2)]
            if count < item(t, pc + 3):
                pc = item(t, pc + 1)
                continue
            if count >= item(t, pc + 4):
                pc = item(t, pc + 6)
                continue
            one = item(t, item(t, pc + 5) + (item(line, pos) & CLASS))
            if one != 0:
                top = _others(t, stack, one, pos, top)
                pc = item(t, one)
                continue
        elif op == p.RUN:
            slot, chars = item(t, pc + 2), item(t, pc + 3)
            most = pos + item(t, pc + 4) - slots[slot]
            slots[slot] -= pos
            while pos < most and item(t, chars + (item(line, pos) & CLASS)) != 0:
                pos += 1
            slots[slot] += pos
            pc = item(t, pc + 1)
            continue
        elif op == p.AGAIN_CUT:
            slot = item(t, pc + 2)
            slots[slot] += 1
            if slots[slot] >= item(t, pc + 4):
                top = slots[item(t, pc + 3)]
            else:
                stack[top], stack[top + 1], stack[top + 2] = COUNTED, slot, slots[slot] - 1
                top += ENTRY
            pc = item(t, pc + 1)
            continue
        elif op == p.AGAIN:
            slot = item(t, pc + 2)
            stack[top], stack[top + 1], stack[top + 2] = COUNTED, slot, slots[slot]
            top += ENTRY
            slots[slot] += 1
            pc = item(t, pc + 1)
            continue
        elif op == p.COUNT:
            slot = item(t, pc + 2)
            stack[top], stack[top + 1], stack[top + 2] = COUNTED, slot, slots[slot]
            top += ENTRY
            slots[slot] = 0
            pc = item(t, pc + 1)
            continue
        elif op == p.ENTER:
            slots[item(t, pc + 2)] = top
            slots[item(t, pc + 3)] = 0
            pc = item(t, pc + 1)
            continue
        elif op == p.CUT:
            top = slots[item(t, pc + 2)]
            pc = item(t, pc + 1)
            continue
        elif op == p.LOOK:
            slots[item(t, pc + 2)], slots[item(t, pc + 2) + 1] = top, pos
            pc = item(t, pc + 1)
            continue
        elif op == p.LOOKED:
            top, pos = slots[item(t, pc + 2)], slots[item(t, pc + 2) + 1]
            pc = item(t, pc + 1)
            continue
        elif op == p.UNLESS:
            if item(t, item(t, pc + 4) + (item(line, pos) & CLASS)) == 0:
                pc = item(t, pc + 3)
                continue
            slots[item(t, pc + 2)] = top
            stack[top], stack[top + 1], stack[top + 2] = PLACE, item(t, pc + 3), pos
            top += ENTRY
            pc = item(t, pc + 1)
            continue
        elif op == p.FAIL:
            top = slots[item(t, pc + 2)]
        elif op == p.CAPTURE:
            kept[item(t, pc + 2)] = pos
            pc = item(t, pc + 1)
            continue
        else:
            return pos
        # this way leads nowhere: back to the last place where there was another
        while True:
            if top == 0:
                return -1
            top -= ENTRY
            kind, where = stack[top], stack[top + 1]
            if kind == OPTIONS:
                pos = stack[top + 2]
                pc = item(t, where)
                if item(t, where + 1) != 0:
                    stack[top + 1] = where + 1
                    top += ENTRY
                break
            if kind == COUNTED:
                slots[where] = stack[top + 2]
            elif kind == PLACE:
                pc, pos = where, stack[top + 2]
                break
            elif kind == GIVES_BACK:
                pos, least, follow = stack[top + 2] - 1, stack[top + 3], item(t, where + 5)
                while pos >= least and item(t, follow + (item(line, pos) & CLASS)) == 0:
                    pos -= 1
                if pos >= least:
                    if pos > least:
                        stack[top + 2] = pos
                        top += ENTRY
                    pc = item(t, where + 1)
                    break
            else:
                pos, most, chars, follow = stack[top + 2] + 1, stack[top + 3], item(t, where + 2), item(t, where + 5)
                while (
                    pos < most
                    and item(t, follow + (item(line, pos) & CLASS)) == 0
                    and item(t, chars + (item(line, pos) & CLASS)) != 0
                ):
                    pos += 1
                if item(t, follow + (item(line, pos) & CLASS)) != 0:
                    if pos < most and item(t, chars + (item(line, pos) & CLASS)) != 0:
                        stack[top + 2] = pos
                        top += ENTRY
                    pc = item(t, where + 1)
                    break


@called
def _say_what_begins(t: Table, line: Places, n: int, begin: int, end: int) -> int:
    """Say of places which masks may begin there: from `end` back to the blank before the word of `begin`; answers that place."""
    count, starts, seconds, rare, allowed = (
        item(t, p.CLASS_COUNT),
        item(t, p.STARTS),
        item(t, p.SECONDS),
        item(t, p.RARE),
        item(t, p.ALLOWED),
    )
    in_word, i = 0, end + 1
    while i <= n and item(t, rare + (item(line, i) & CLASS)) >= 0:
        in_word |= item(t, rare + (item(line, i) & CLASS))
        i += 1
    second, one, i = item(line, end + 1) & CLASS, item(line, end) & CLASS, end
    while i > 0:
        before, here = item(line, i - 1) & CLASS, item(t, rare + one)
        in_word = 0 if here < 0 else in_word | here
        found = (
            item(t, starts + before * count + one)
            & item(t, seconds + one * count + second)
            & item(t, allowed + in_word)
        )
        line[i] = item(line, i) & (ONE_MASK - 1) | (found * ONE_MASK)
        if i < begin and here < 0:
            return i
        second, one, i = one, before, i - 1
    return i


@called
def _any_of_blocks(line: Places, n: int, blocks: Places) -> int:
    """The masks that may begin in each block of places; answers those that may begin anywhere."""
    anywhere = 0
    for block in range((n + BLOCK - 1) // BLOCK):
        found = 0
        for i in range(1 + block * BLOCK, min(1 + (block + 1) * BLOCK, n + 1)):
            found |= item(line, i)
        blocks[block] = found
        anywhere |= found
    return anywhere


@called
def _next_match(
    t: Table, line: Places, n: int, i: int, blocks: Places, bit: int, pc: int, stack: Table, slots: Table, kept: Table
) -> int:
    """Where the next match of a mask begins, from a place on, or -1. `kept` is where $1 begins and ends, and where the match ends."""
    while i <= n:
        if (i - 1) % BLOCK == 0 and item(blocks, (i - 1) // BLOCK) & bit == 0:
            i += BLOCK
            continue
        if item(line, i) & bit != 0:
            end = _match(t, line, i, pc, stack, slots, kept)
            if end >= 0:
                kept[END] = end
                return i
        i += 1
    return -1


@called
def _copied(line: Places, begin: int, end: int, to: Places, at: int) -> int:
    for i in range(begin, end):
        to[at + i - begin] = item(line, i)
    return at + end - begin


@called
def _is_of_value(text: Characters, at: int) -> bool:
    """Whether a character is one of a word, of ASCII, or `=`."""
    c = np.int64(text[at])
    return bool(48 <= c <= 57 or 97 <= (c | 32) <= 122 or c in (61, 95))


@called
def _cut(text: Characters, n: int, open_at: Places) -> int:
    """Where a line ends of which `n` characters are read: behind the first bracket that is open there and follows a word or `=`.

    What is within is a list as a rule, of which as much is read as its other members leave room for: its end says nothing. `open_at` is for
    the brackets that are open, `(n,)`.
    """
    depth = 0
    for i in range(n):
        c = np.int64(text[i])
        if c in OPENING:
            open_at[depth] = i
            depth += 1
        elif c in CLOSING and depth > 0:
            opening = np.int64(text[open_at[depth - 1]])
            depth -= 1 if 0 < c - opening <= 2 else 0
    for k in range(depth):
        at: int = open_at[k]
        if at > 0 and _is_of_value(text, at - 1):
            return at + 1
    return n


@compiled
def apply_masks(t: Table, text: Characters) -> Characters:
    """The template of a line by a table of masks, as code points, `(n,)`. A longer line than is read is cut off by `_cut`."""
    n = min(len(text), item(t, p.MOST_READ))
    if n < len(text):
        n = _cut(text, n, np.empty(n, np.int64))
    edge = item(t, p.CLASS_COUNT) - 1
    line, other = np.empty(2 * n + ROOM, np.int64), np.empty(2 * n + ROOM, np.int64)
    for i in range(n):
        line[i + 1] = _class_of(t, text[i]) + np.int64(text[i]) * CHARACTER
    line[0] = line[n + 1] = edge
    stack, slots, kept = (
        np.empty(ENTRY * item(t, p.STACK), np.int32),
        np.empty(item(t, p.SLOTS), np.int32),
        np.empty(3, np.int32),
    )
    blocks, replaced = np.empty(len(line) // BLOCK + 1, np.int64), np.empty(2 * n + ROOM, np.int32)
    _say_what_begins(t, line, n, 1, n)
    anywhere = _any_of_blocks(line, n, blocks)
    for mask in range(item(t, p.MASKS)):
        bit = ONE_MASK << mask
        if anywhere & bit == 0:
            continue
        about = p.HEADER_WORDS + mask * p.MASK_WORDS
        at, done, i, many = 1, 1, 1, 0
        while True:
            i = _next_match(t, line, n, i, blocks, bit, item(t, about + p.CODE), stack, slots, kept)
            if i < 0:
                break
            end = kept[END]
            if at + n - done + ROOM > len(other):
                more = np.empty(2 * len(other) + ROOM, np.int64)
                _copied(other, 1, at, more, 1)
                other = more
            at = _copied(line, done, i, other, at)
            if many + 2 > len(replaced):
                more_replaced = np.empty(2 * len(replaced), np.int32)
                more_replaced[:many] = replaced[:many]
                replaced = more_replaced
            replaced[many] = at
            if item(t, about + p.KEEPS) != 0:
                at = _copied(line, kept[0], kept[1], other, at)
            token = item(t, about + p.REPLACEMENT)
            while item(t, token) >= 0:
                other[at] = item(t, token)
                at += 1
                token += 1
            replaced[many + 1] = at
            many += 2
            done = i = end
        if many == 0:
            continue
        at = _copied(line, done, n + 1, other, at)
        n = at - 1
        other[0] = other[n + 1] = edge
        line, other = other, line
        if len(other) < len(line):
            other = np.empty(len(line), np.int64)
            blocks = np.empty(len(line) // BLOCK + 1, np.int64)
        known = n
        while many > 0:
            many -= 2
            if replaced[many] <= known:
                known = _say_what_begins(t, line, n, replaced[many], min(known, replaced[many + 1]))
        anywhere = _any_of_blocks(line, n, blocks)
    begin, end = 1, min(n, item(t, p.MOST_WRITTEN)) + 1
    while begin < end and item(line, begin) // CHARACTER % (ONE_MASK // CHARACTER) == SPACE:
        begin += 1
    while end > begin and item(line, end - 1) // CHARACTER % (ONE_MASK // CHARACTER) == SPACE:
        end -= 1
    out = np.empty(end - begin, np.uint32)
    for i in range(begin, end):
        out[i - begin] = item(line, i) // CHARACTER % (ONE_MASK // CHARACTER)
    return out
