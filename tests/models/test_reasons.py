"""Novelties in words."""

import pytest

from models.core.series import parse
from models.detection import reasons
from models.univariate.univariate_state import FEATURES

CPU = parse("gauge/vm-1//system.cpu.utilization")
LOGS = parse("logs/vm-1/web/info")


@pytest.mark.parametrize(
    ("value", "text"),
    [(93.12, "93.1"), (0.4217, "0.422"), (12.0, "12"), (412.4, "412.4"), (8.94e9, "8.94G"), (1234.6, "1235")],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert reasons.number(value) == text


def test_a_value_is_held_against_its_interval() -> None:
    assert (
        reasons.value_off(CPU, 93.12, 21.44, 38.0, "", "step")
        == "system.cpu.utilization 93.1, expected 21.4 to 38: an unusual step"
    )
    assert set(reasons.BY_FEATURE) == set(reasons.PART_OF_FEATURE) == set(FEATURES)


def test_lines_are_told_by_the_minute() -> None:
    assert reasons.count_off(LOGS, None, 412, 35, 72, seconds=60) == "web: 412 INFO lines/min, expected 35 to 72"


def test_lines_of_a_template_name_it() -> None:
    series = parse("template/vm-1/web/info/ab12")
    assert reasons.count_off(series, "took <num> ms", 30, 0, 4, seconds=60) == (
        "web: 30 lines/min of 'took <num> ms', expected 0 to 4"
    )


def test_no_lines_are_told_with_their_time() -> None:
    assert reasons.count_off(LOGS, None, 0, 40, 75, seconds=90) == (
        "web: no INFO lines for 90 s, expected 40 to 75 lines/min"
    )


def test_a_new_level_tells_the_old_one() -> None:
    text = reasons.new_level(CPU, 55.23, 31.04, lower=27.93, upper=34.5, unit="")
    assert text == "system.cpu.utilization new level 55.2, was 31.0 (27.9 to 34.5)"


@pytest.mark.parametrize(
    ("probability", "text"),
    [(0.0, "less than 1 %"), (0.2, "20 %"), (0.976, "98 %"), (0.9968, "99.7 %"), (1.0, "more than 99.9 %")],
)
def test_probabilities_are_never_rounded_to_certainty(probability: float, text: str) -> None:
    assert reasons.percent(probability) == text


def test_a_silence_says_what_would_have_been_normal() -> None:
    assert reasons.silent("host vm-1", 80, 0.98) == "host vm-1 silent for 80 s, it reported in 98 % of windows"


def test_long_templates_are_cut() -> None:
    assert len(reasons.short("x" * 1000)) == reasons.MOST_CHARACTERS
