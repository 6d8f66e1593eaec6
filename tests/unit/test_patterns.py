"""Every regular expression of the product takes time in proportion to the text, whatever the text."""

from __future__ import annotations

import re
import time

import pytest
from support import patterns
from support.hostile_text import attacks, nonlinear

LENGTH = 4_000  # characters; judged at four times that
FOUND = patterns.every()


def test_every_pattern_of_the_source_is_found() -> None:
    assert len(FOUND) > 80
    assert {each.place.split(":")[0] for each in FOUND} > {"pipelines/inputs/fields.py", "models/rules/rule.py"}
    assert patterns.of_java() == patterns.OF_JAVA


@pytest.mark.parametrize("found", FOUND, ids=lambda found: found.place)
def test_no_text_takes_a_pattern_more_than_linear_time(found: patterns.FoundPattern) -> None:
    assert nonlinear(found.seconds, attacks(found.python.pattern), LENGTH) == []


@pytest.mark.parametrize("pattern", [r"[^/.]+[^/]*$", r"^\s*(\w+: )*end", r"a.*b.*c"])
def test_a_pattern_that_is_not_linear_is_found(pattern: str) -> None:
    compiled = re.compile(pattern, re.M)

    def took(text: str) -> float:
        started = time.process_time()
        list(compiled.finditer(text))
        return time.process_time() - started

    assert any(nonlinear(took, [attack], 250, judged=0.001) for attack in attacks(pattern))
