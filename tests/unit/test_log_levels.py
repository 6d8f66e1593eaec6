"""A level is found in a line where the line says it, and nowhere else."""

from __future__ import annotations

import pytest
from support.named_levels import NAMED_LEVELS

from models.records.log_levels import LIKELY, SYNONYMS, WITHIN, level_named, level_of


@pytest.mark.parametrize(("message", "level"), NAMED_LEVELS.items())
def test_a_level_is_a_word_that_stands_for_one(message: str, level: str) -> None:
    assert level_of(message) == level


@pytest.mark.parametrize(
    ("given", "level"),
    [("WARN ", "warn"), (" WARN", "warn"), ("\terror\n", "error"), ("\xa0error", "info"), (" ", "info")],
)
def test_white_space_around_a_level_is_no_part_of_it(given: str, level: str) -> None:
    assert level_named(given) == level


def test_no_synonym_stands_for_two_levels() -> None:
    every = [synonym for synonyms in SYNONYMS.values() for synonym in synonyms]
    assert len(every) == len(set(every))


def test_a_line_that_is_not_likely_to_name_a_level_names_none() -> None:
    named = [line for line, level in NAMED_LEVELS.items() if level != "info" and not line.startswith(("{", "E", "W"))]
    assert named and all(any(word in line[:WITHIN].upper() for word in LIKELY) for line in named)
    words = {word.upper() for level in SYNONYMS for word in SYNONYMS[level] if level_of(word.upper()) != "info"}
    assert len(words) > 10 and all(any(part in word for part in LIKELY) for word in words)
