"""A level is found in a line where the line says it, and nowhere else."""

from __future__ import annotations

import pytest
from support.named_levels import NAMED_LEVELS

from models.records.log_levels import SYNONYMS, level_of


@pytest.mark.parametrize(("message", "level"), NAMED_LEVELS.items())
def test_a_level_is_a_word_that_stands_for_one(message: str, level: str) -> None:
    assert level_of(message) == level


def test_no_synonym_stands_for_two_levels() -> None:
    every = [synonym for synonyms in SYNONYMS.values() for synonym in synonyms]
    assert len(every) == len(set(every))
