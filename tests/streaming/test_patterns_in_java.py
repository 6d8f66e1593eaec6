"""Every pattern that Java applies takes time in proportion to the text in Java's own matcher, and every one up to a megabyte."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support import patterns
from support.hostile_text import attacks, nonlinear

from models.templates.pattern_program import Mask
from pipelines.jvm import compress_table
from pipelines.spark_internals import java_object, jvm_of

pytestmark = pytest.mark.spark

OF_JAVA = [each for each in patterns.every() if each.java]
OF_PYTHON = [each for each in patterns.every() if not each.java]
SHORT = (4_000,)  # judged at four times that
LONG = (4_000, 62_500, 250_000)  # what is not linear is found before it takes hours


def in_java(spark: SparkSession, pattern: str, mask: Mask | None = None) -> Callable[[str], float]:
    """What it takes Java, in seconds of the processor, to find all matches in a text, as `Matcher.replaceAll` does; or `LogTemplate`, a mask's."""
    jvm = jvm_of(spark)
    clock = jvm.java.lang.management.ManagementFactory.getThreadMXBean()
    if mask is not None:
        return of_mask(spark, mask, clock)
    compiled = jvm.java.util.regex.Pattern.compile(pattern)

    def took(text: str) -> float:
        given = jvm.java.lang.StringBuilder()  # a string would come back to Python
        given.append(text)
        matcher = compiled.matcher(given)
        # one connection is one thread of Java
        before = clock.getCurrentThreadCpuTime()
        matcher.results().count()
        return float(clock.getCurrentThreadCpuTime() - before) / 1e9

    return took


def of_mask(spark: SparkSession, mask: Mask, clock: Any) -> Callable[[str], float]:
    """What it takes our own matcher in Java to replace a mask's matches in a text."""
    template = java_object(spark, "LogTemplate", compress_table(patterns.table_of_mask(mask)))

    def took(text: str) -> float:
        before = clock.getCurrentThreadCpuTime()
        template.call(text)
        return float(clock.getCurrentThreadCpuTime() - before) / 1e9

    return took


def slow_texts(took: Callable[[str], float], pattern: str, lengths: tuple[int, ...]) -> list[object]:
    for length in lengths:
        found = nonlinear(took, attacks(pattern), length)
        if found:
            return [(length, *each) for each in found]
    return []


def test_no_text_takes_javas_matcher_more_than_linear_time(spark: SparkSession) -> None:
    found = {
        each.place: slow_texts(in_java(spark, each.text, each.mask), each.python.pattern, SHORT) for each in OF_JAVA
    }
    assert len(found) > 30
    assert {place: slow for place, slow in found.items() if slow} == {}


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("found", OF_JAVA, ids=lambda found: found.place)
def test_no_text_of_a_megabyte_takes_javas_matcher_more_than_linear_time(
    spark: SparkSession, found: patterns.FoundPattern
) -> None:
    assert slow_texts(in_java(spark, found.text, found.mask), found.python.pattern, LONG) == []


@pytest.mark.long
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("found", OF_PYTHON, ids=lambda found: found.place)
def test_no_text_of_a_megabyte_takes_a_pattern_of_python_more_than_linear_time(found: patterns.FoundPattern) -> None:
    assert slow_texts(found.seconds, found.python.pattern, LONG) == []


@pytest.mark.parametrize("pattern", [r"a.*b.*c", r"(\w+\s?)+$"])
def test_a_pattern_that_is_not_linear_in_java_is_found(spark: SparkSession, pattern: str) -> None:
    took = in_java(spark, pattern)
    assert any(nonlinear(took, [attack], 250, judged=0.001) for attack in attacks(pattern))
