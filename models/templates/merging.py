"""Templates of one service that differ in few words become one: these are parameters that have no sign of being one.

Masks know a parameter by its form (`models.templates.masks`); plain words, such as names of users, queues and topics, have none. They are
known by what else was seen: templates with the same number of words and the same signs between them, that are equal but for the words in
the same places, are merged when each of these places has had enough different words,

    MANY words of any kind, or SOME with a sign of a name in them: a digit, a capital within, `_`, `-`, `.`, `@`

and twice as many where a line begins, because its first word is what it is about. A word that comes where a known
template has `<*>` is that parameter at once, and one that came before is when such a template comes, unless it is the first word and no
more than LEAST_EQUAL others are equal. The same holds for all that stands there up to the blank, whatever its shape
(`models.templates.wider_texts`). At least LEAST_EQUAL other words must be equal. A merged template takes part in further
merges, so that several places of a line become parameters one after the other.

What was seen is a list of patterns in the order in which they came: the same templates in the same order give the same answers. A pattern
is a template before what varies in a row becomes one `<*>`, so lists of another length are another pattern of the same template. A state
is bounded by MOST_PATTERNS, and MOST_ALIKE of one shape; further ones are only looked up. It fails where MANY different words stand for as
many states of one thing, and where lists of plain words differ in length.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from models.core.arrays import Bools, Ints
from models.templates.extraction import collapse_parameters
from models.templates.tokens import (
    LEAST_EQUAL,
    PLACE,
    WORD,
    Tokens,
    count_plain_words,
    is_word,
    token_numbers,
    tokens_of,
)
from models.templates.wider_texts import WiderTexts

__all__ = ["Merge", "TemplateMerger", "merge_templates"]

MANY, SOME = 5, 3
FIRST = 2  # factor of both for the first word
MOST_PATTERNS = 2000  # of a service
MOST_ALIKE = 200  # of one shape
MOST_TOKENS = 128  # of a template that takes part: about 64 words
MOST_HOLES = 8  # sets of known parameters that a template is compared without

_NAME = re.compile(r"[0-9_.$@+-]|[a-z][A-Z]")

Pattern = tuple[str, str]  # the pattern, and the text of its template


@dataclass(frozen=True)
class Merge:
    """Templates that have become one: the texts `before`, sorted, which are no templates any more, and the text `after`."""

    before: tuple[str, ...]
    after: str


class TemplateMerger:
    """What was seen of one service's templates.

    Examples
    --------
    >>> merger = TemplateMerger()
    >>> for name in ("orders", "mail", "audit", "search", "users"):
    ...     found = merger.add(f"queue {name} is full")
    >>> found.after, merger.text_of("queue exports is full")
    ('queue <*> is full', 'queue <*> is full')
    """

    def __init__(self, patterns: Iterable[Pattern] = ()) -> None:
        """Go on from the `patterns` of another merger, in their order."""
        self._of_shape: dict[str, _SameShape] = {}
        self._text: dict[Tokens, str] = {}  # of each pattern, in order
        self._uses: Counter[str] = Counter()  # patterns of each text
        self._age: dict[Tokens, int] = {}  # of each pattern: how many came before it
        self._came = 0
        self._forms: dict[str, set[int]] = {}  # ages of the patterns that are these or have them as their text
        self._wider = WiderTexts()  # of all forms
        for pattern, text in patterns:
            self._insert(tokens_of(pattern), text)

    def __len__(self) -> int:
        return len(self._text)

    def __contains__(self, text: str) -> bool:
        """Whether there is a template with this text."""
        return self._uses[text] > 0

    @property
    def patterns(self) -> list[Pattern]:
        """The state: each pattern and the text of its template, merged ones last, in their order."""
        return [("".join(tokens), text) for tokens, text in self._text.items()]

    def text_of(self, template: str) -> str:
        """The template that a template is part of; itself where it has not been merged."""
        tokens = tokens_of(template)
        own = self._text.get(tokens)
        if own is not None:
            return own
        if len(tokens) > MOST_TOKENS:
            return template
        alike = self._of_shape.get(_shape(tokens))
        covering = None if alike is None else alike.covering(tokens)
        wider = self._wider.wider(template)
        if wider is not None and (covering is None or wider[0] < self._age[covering]):
            return self._text.get(tokens_of(wider[1]), wider[1])
        return template if covering is None else self._text[covering]

    def add(self, template: str, *, merge: bool = True) -> Merge | None:
        """Take in a template. Answers which templates have become one by it; none do without `merge`."""
        tokens = tokens_of(template)
        if tokens in self._text or len(tokens) > MOST_TOKENS or len(self._text) >= MOST_PATTERNS:
            return None
        alike = self._of_shape.get(_shape(tokens))
        if alike is not None and (len(alike) >= MOST_ALIKE or alike.covering(tokens) is not None):
            return None
        if self._wider.wider(template) is not None:
            return None
        self._insert(tokens, template)
        return self._merge(tokens) if merge else None

    def keep(self, texts: Container[str]) -> None:
        """Forget the templates that are not among the `texts`."""
        for tokens in [tokens for tokens, text in self._text.items() if text not in texts]:
            self._remove(tokens)

    def _merge(self, tokens: Tokens) -> Merge | None:
        """Merge the template that came last with others, and what they become with further ones."""
        alike = self._of_shape[_shape(tokens)]
        before = self._take(one for one in alike.covered(tokens) if not _only_by_first(tokens, one))
        while (general := _generalised(tokens, alike)) is not None:
            before |= self._take([*alike.covered(general), general])
            tokens = general
            self._insert(tokens, collapse_parameters("".join(tokens)))
            alike = self._of_shape[_shape(tokens)]
        before |= self._join(tokens)
        if not before:
            return None
        return Merge(tuple(sorted(text for text in before if text not in self)), self._text[tokens])

    def _join(self, general: Tokens) -> set[str]:
        """Make the templates that are a pattern or its text but for whole values that one. Answers their texts."""
        after = self._text[general]
        found = {one for wide in ("".join(general), after) for one in self._wider.narrower(wide)}
        before = {text for text in found if text in self and text != after}
        for tokens, text in [one for one in self._text.items() if one[1] in before] if before else ():
            if "".join(tokens) == text:
                self._remove(tokens)  # all that it covered, the wider one does
            else:
                self._unuse(tokens, text)
                self._use(tokens, after)
        return before

    def _take(self, patterns: Iterable[Tokens]) -> set[str]:
        """Remove the patterns that have become part of another one. Answers the texts that they had."""
        taken = {one: self._text[one] for one in patterns if one in self._text}
        for one in taken:
            self._remove(one)
        return set(taken.values())

    def _insert(self, tokens: Tokens, text: str) -> None:
        self._age[tokens], self._came = self._came, self._came + 1
        self._use(tokens, text)
        shape = _shape(tokens)
        if shape not in self._of_shape:
            self._of_shape[shape] = _SameShape(len(tokens))
        self._of_shape[shape].append(tokens)

    def _remove(self, tokens: Tokens) -> None:
        shape = _shape(tokens)
        self._unuse(tokens, self._text.pop(tokens))
        del self._age[tokens]
        self._of_shape[shape].remove(tokens)
        if not len(self._of_shape[shape]):
            del self._of_shape[shape]

    def _use(self, tokens: Tokens, text: str) -> None:
        self._text[tokens] = sys.intern(text)
        self._uses[text] += 1
        for form in {"".join(tokens), text}:
            ages = self._forms.setdefault(form, set())
            ages.add(self._age[tokens])
            self._wider.put(form, min(ages))

    def _unuse(self, tokens: Tokens, text: str) -> None:
        self._uses[text] -= 1
        if not self._uses[text]:
            del self._uses[text]
        for form in {"".join(tokens), text}:
            ages = self._forms[form]
            ages.remove(self._age[tokens])
            if ages:
                self._wider.put(form, min(ages))
            else:
                del self._forms[form]
                self._wider.remove(form)


class _SameShape:
    """The patterns of one shape in their order, so that a template is compared with all of them at once: senders choose how many there are.

    Tokens are interned, so equal ones have one address, which is a number: a row for each pattern, `(n, tokens)`.
    """

    def __init__(self, size: int) -> None:
        self.patterns: list[Tokens] = []
        self._general = 0  # of them have parameters
        self._room = np.empty((4, size), dtype=np.int64)

    def __len__(self) -> int:
        return len(self.patterns)

    @property
    def _rows(self) -> Ints:
        return self._room[: len(self.patterns)]

    def append(self, tokens: Tokens) -> None:
        """Add a pattern."""
        if len(self.patterns) == len(self._room):
            self._room = np.concatenate([self._room, np.empty_like(self._room)])
        self._room[len(self.patterns)] = token_numbers(tokens)
        self.patterns.append(tokens)
        self._general += PLACE in tokens

    def remove(self, tokens: Tokens) -> None:
        """Take a pattern away."""
        at = self.patterns.index(tokens)
        self._room[at : len(self.patterns) - 1] = self._room[at + 1 : len(self.patterns)]
        del self.patterns[at]
        self._general -= PLACE in tokens

    def covering(self, tokens: Tokens) -> Tokens | None:
        """The first pattern that a template is, but for its parameters, and is not itself."""
        if not self._general:
            return None
        rows = self._rows
        fits = ((rows == token_numbers(tokens)) | (rows == id(PLACE))).all(axis=1)
        return next((one for at in np.flatnonzero(fits).tolist() if _covers(one := self.patterns[at], tokens)), None)

    def covered(self, general: Tokens) -> list[Tokens]:
        """The patterns that are a template but for its parameters, apart from itself."""
        if PLACE not in general:
            return []
        own = token_numbers(general)
        fits = ((self._rows == own) | (own == id(PLACE))).all(axis=1)
        found = [self.patterns[at] for at in np.flatnonzero(fits).tolist()]
        return [one for one in found if one != general and _covers(general, one)]

    def differing(self, base: Tokens) -> Bools:
        """Where each pattern differs from a template, the parameters of that aside, `(n, tokens)`."""
        own = token_numbers(base)
        found: Bools = (self._rows != own) & (own != id(PLACE))
        return found

    def nearly(self, tokens: Tokens) -> list[Tokens]:
        """The patterns with parameters that a template is, these aside, but for one place at most."""
        if not self._general:
            return []
        rows = self._rows
        places = rows == id(PLACE)
        fits = places.any(axis=1) & (((rows != token_numbers(tokens)) & ~places).sum(axis=1) <= 1)
        return [self.patterns[at] for at in np.flatnonzero(fits).tolist()]


def merge_templates(templates: Sequence[str]) -> list[str]:
    """What templates are in the end, if these are all that a service has written, in this order."""
    merger = TemplateMerger()
    for template in dict.fromkeys(templates):
        merger.add(template)
    after = {template: merger.text_of(template) for template in dict.fromkeys(templates)}
    return [after[template] for template in templates]


@lru_cache(maxsize=4_096)  # each is asked for several times
def _shape(tokens: Tokens) -> str:
    """What templates must have in common to be compared: how many words, and the signs between them."""
    return sys.intern(WORD.sub("w", "".join(tokens)))


def _first_word(tokens: Tokens) -> int:
    """The place of the first word or parameter."""
    return next((at for at, token in enumerate(tokens) if is_word(token)), 0)


def _only_by_first(general: Tokens, tokens: Tokens) -> bool:
    """Whether a template is another one by a parameter in place of its first word, and little else is equal."""
    first = _first_word(tokens)
    return general[first] != tokens[first] and count_plain_words(general) <= LEAST_EQUAL


def _covers(general: Tokens, tokens: Tokens) -> bool:
    """Whether a template is another one but for its parameters; both have the same shape."""
    for a, b in zip(general, tokens, strict=True):
        if b != a != PLACE:
            return False
    return general == tokens or count_plain_words(general) >= LEAST_EQUAL


def _generalised(tokens: Tokens, alike: _SameShape) -> Tokens | None:
    """The template that `tokens` and others of its shape become, if there were enough of them."""
    for base in _without_known(tokens, alike):
        others = _by_differences(base, alike)
        first = _first_word(base)
        for places in sorted(others, key=lambda found: (len(found), found)):
            general = tuple(PLACE if at in places else token for at, token in enumerate(base))
            if count_plain_words(general) < LEAST_EQUAL:
                continue
            # One after the other: most end with the first, and there may be sixty of them.
            words = ((at, {one[at] for one in [base, *others[places], *others.get((at,), ())]}) for at in places)
            if all(_are_many(found, FIRST if at == first else 1) for at, found in words):
                return general
    return None


def _without_known(tokens: Tokens, alike: _SameShape) -> list[Tokens]:
    """The template itself, and without the words where others have parameters that differ from it in one more word at most."""
    found = {tokens: None}
    for one in alike.nearly(tokens):
        if len(found) <= MOST_HOLES:
            found[tuple(PLACE if a == PLACE else b for a, b in zip(one, tokens, strict=True))] = None
    return list(found)


def _by_differences(base: Tokens, alike: _SameShape) -> dict[tuple[int, ...], list[Tokens]]:
    """The templates of a shape that differ from another one, by the places where they do, the parameters of that one aside."""
    differing = alike.differing(base)
    own: dict[bytes, list[int]] = {}
    for at, key in enumerate(np.packbits(differing, axis=1)):
        own.setdefault(key.tobytes(), []).append(at)
    found = {
        tuple(np.flatnonzero(differing[rows[0]]).tolist()): [alike.patterns[at] for at in rows] for rows in own.values()
    }
    found.pop((), None)
    return found


def _are_many(words: set[str], factor: int) -> bool:
    if PLACE in words:
        return len(words) > 1
    return len(words) >= factor * MANY or sum(_NAME.search(word) is not None for word in words) >= factor * SOME
