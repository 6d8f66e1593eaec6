"""A table of masks finds what Python's `re` finds, of any pattern that it takes."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import masks_of_re
from support.examples import examples

from models.templates import pattern_tree
from models.templates.extraction import mask_messages
from models.templates.pattern_program import table_of

# Patterns of a few characters, so that texts of the same ones match often.
CHARACTERS = st.sampled_from(
    ["a", "b", "1", " ", r"\.", r"\w", r"\s", r"\S", "[a-b]", "[^a]", "[^\\w ]", "[1b.]", "\\u00b5"]
)
COUNTS = st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "{9}"])
GIVING = st.sampled_from(["", "?", "+"])
BOUNDED = st.sampled_from(
    ["?", "{2}", "{1,3}", "{0,2}", "?+", "??", "{1,3}?", "{0,2}+", "*+", "++", "{2,}+"]
)  # of a group
BEHIND = st.sampled_from(["(?<![a1])", "(?<=[b ])", "(?<!1a)", "(?<=\\w.)".replace(".", "b"), "^", "(?<!\\w)"])
AHEAD = st.sampled_from(["(?=", "(?!"])


def larger(part: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Patterns that are made of smaller ones. What is repeated takes a character at least."""
    groups = st.tuples(CHARACTERS, part).map("".join)
    return st.one_of(
        st.lists(part, min_size=1, max_size=4).map("".join),
        st.lists(part, min_size=2, max_size=4).map(lambda options: f"(?:{'|'.join(options)})"),
        st.tuples(groups, BOUNDED).map(lambda given: f"(?:{given[0]}){given[1]}"),
        st.tuples(st.lists(groups, min_size=2, max_size=3), BOUNDED).map(
            lambda given: f"(?:{'|'.join(given[0])}){given[1]}"
        ),
        st.tuples(AHEAD, part).map(lambda given: f"{given[0]}{given[1]})"),
    )


SMALL = st.one_of(CHARACTERS, st.tuples(CHARACTERS, COUNTS, GIVING).map("".join), BEHIND)
PATTERNS = st.recursive(SMALL, larger, max_leaves=12)
TEXTS = st.lists(st.text("aab11b. -\u00b5\n", max_size=12), min_size=1, max_size=6)


@given(st.lists(st.tuples(CHARACTERS, PATTERNS, st.booleans()), min_size=1, max_size=3), TEXTS)
@examples(400, derandomize=True, database=None)
def test_a_table_replaces_what_regular_expressions_replace(
    given: list[tuple[str, str, bool]], texts: list[str]
) -> None:
    masks = [(f"(?:{pattern}){first}" if last else f"{first}(?:{pattern})", "<ab>") for first, pattern, last in given]
    compiled = masks_of_re.compiled(masks)
    assert mask_messages(texts, masks) == [masks_of_re.applied(text, compiled) for text in texts]


@pytest.mark.parametrize(
    ("pattern", "token"),
    [(r"a(b{1,3})1", "$1"), (r"(a|ab)(?=1)1", "$1 x"), (r"(?i)(A|b+)\.", "$1"), ("((?:a{0,3}b){1,5}?)1", "$1")],
)
@given(TEXTS)
@examples(50, derandomize=True, database=None)
def test_a_replacement_may_begin_with_what_was_captured(pattern: str, token: str, texts: list[str]) -> None:
    compiled = masks_of_re.compiled([(pattern, token)])
    assert mask_messages(texts, [(pattern, token)]) == [masks_of_re.applied(text, compiled) for text in texts]


@pytest.mark.parametrize(
    "pattern",
    [
        "a.b",
        "a$",
        r"\ba",
        "a{",
        "(a",
        "a)",
        "[b-a]",
        "é",
        r"(?<=a+)b",
        "(?P<n>a)",
        "a**",
        r"\d",
        "[a",
        "a\\",
        "a*",
        "(?:ab)*1",
        "(?:(?:(?:ab){99}){99}){99}1",
        "(?:a?)+b",
        "(?=a)",
        "",
    ],
)
def test_a_pattern_of_another_form_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="pattern"):
        table_of([(pattern, "")], 10, 10)


def test_more_masks_than_bits_are_refused() -> None:
    assert len(table_of([("a", "b")] * 31, 10, 10))
    with pytest.raises(ValueError, match="32 masks"):
        table_of([("a", "b")] * 32, 10, 10)


def test_the_same_masks_make_the_same_table() -> None:
    masks = [(r"(?<!\w)a(?:b|c){1,3}+1", "<a>"), (r"\S{1,3}? ", "")]
    assert np.array_equal(table_of(masks, 10, 10), table_of(list(masks), 10, 10))


def test_a_set_is_refused_beyond_what_patterns_can_name() -> None:
    assert pattern_tree.symbols_of("a").bit_count() == 1
    with pytest.raises(ValueError, match="beyond ASCII"):
        pattern_tree.symbols_of("ä")


@pytest.mark.parametrize(
    ("pattern", "text", "plain", "possessive"),
    [
        (r"(?:a|ab){1,3}%c", "abc", "abc", None),
        (r"x(?:[)]y|\(z)*%\)", "x)y(z)", "x)y(z)", "x)y(z)"),
        (r"(?:(?:a|ab){1,2}%b){1,2}%b", "abbb", "abb", "abb"),
        (r"(?i)(?<!q)(?:A[(]?)+%a", "aaa", "aaa", None),
    ],
)
def test_a_group_that_repeats_possessively_gives_nothing_back(
    pattern: str, text: str, plain: str | None, possessive: str | None
) -> None:
    for mark, expected in (("", plain), ("+", possessive)):
        found = re.search(masks_of_re.portable(pattern.replace("%", mark)), text)
        assert (found[0] if found else None) == expected
