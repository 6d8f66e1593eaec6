"""What people type to find a series, as a query for the names that are stored."""

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboards.queries.series import contains, words_of
from dashboards.words import series_text
from models.core.series import Series, build, parse


def finds(word: str, name: str) -> bool:
    """Whether Elasticsearch would find a name by a word."""
    asked = contains(word)["bool"]["should"]
    patterns = [one["wildcard"]["novelty.series"]["value"] for one in asked]
    # Of `fnmatch` a bracket is one more sign of a pattern, and what is escaped stands in brackets.
    return any(fnmatchcase(name.lower(), as_glob(pattern.lower())) for pattern in patterns)


def as_glob(pattern: str) -> str:
    """A pattern of Elasticsearch as one of `fnmatch`."""
    found, signs = "", iter(pattern)
    for sign in signs:
        found += f"[{next(signs)}]" if sign == "\\" else "[[]" if sign == "[" else sign
    return found


@pytest.mark.parametrize("word", ["mount=/var", "/var", "MOUNT", "mount=%2Fvar", "vm-1/web/disk", "50%"])
def test_a_name_is_found_as_it_is_shown_and_as_it_is_stored(word: str) -> None:
    assert finds(word, build(Series("gauge", "vm-1", "web", metric="disk{mount=/var,full=50%}")))
    assert not finds(word, "gauge/vm-2//cpu")


def test_the_name_of_a_metric_is_found_as_pages_show_it() -> None:
    name = build(Series("gauge", "vm-1", "web", metric="disk{mount=/var}"))
    assert "·" in series_text(name) and all(finds(word, name) for word in words_of(series_text(name)))


@given(st.text("ab/%*?[]\\", min_size=1, max_size=6), st.text("ab/%*?[]\\", max_size=4))
def test_every_part_of_a_name_is_found_whatever_it_holds(word: str, rest: str) -> None:
    name = build(Series("gauge", "vm-1", metric=rest + word + rest))
    assert parse(name).metric == rest + word + rest
    assert finds(word, name)
