"""What the text of a template is made of: words, parameters, white space and the signs between them."""

from __future__ import annotations

import re
import sys
from functools import lru_cache

import numpy as np

from models.core.arrays import Ints

__all__ = ["LEAST_EQUAL", "PLACE", "WORD", "Tokens", "count_plain_words", "is_word", "token_numbers", "tokens_of"]

LEAST_EQUAL = 2  # words without which templates are never taken for one

PLACE = sys.intern("<*>")
_IN_WORD = r"[\w$@+\-\x80-\U0010ffff]"  # all that is not ASCII
_TOKEN = re.compile(rf"<\*>|{_IN_WORD}+(?:\.{_IN_WORD}+)*|\s|[^\w\s]", re.ASCII)
WORD = re.compile(rf"<\*>|{_IN_WORD}(?:(?:\.?{_IN_WORD})++|(?<![_$@+-]))", re.ASCII)  # a sign alone is none

Tokens = tuple[str, ...]


@lru_cache(maxsize=4_096)  # hosts of a service have the same templates: they share their tokens
def tokens_of(template: str) -> Tokens:
    """The tokens of a template, interned."""
    return tuple(map(sys.intern, _TOKEN.findall(template)))


def is_word(token: str) -> bool:
    """Whether a token is a word or a parameter."""
    return len(token) > 1 or token.isalnum() or not token.isascii()


def count_plain_words(tokens: Tokens) -> int:
    """Number of words that are no parameters."""
    return sum(token != PLACE and is_word(token) for token in tokens)


def token_numbers(tokens: Tokens) -> Ints:
    """A number for each token: the same for equal ones, while both are there and interned."""
    return np.fromiter(map(id, tokens), dtype=np.int64, count=len(tokens))
