"""Novelties in words."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.core import wording
from models.core.series import parse
from models.detection import reasons
from models.detection.episodes import Episode
from models.univariate.univariate_state import FEATURES

CPU = parse("gauge/vm-1//system.cpu.utilization")
LOGS = parse("logs/vm-1/web/info")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *[(93.12, "93.1"), (0.4217, "0.422"), (12.0, "12"), (412.4, "412.4"), (8.94e9, "8.94G"), (1234.6, "1235")],
        *[(999.4e6, "999M"), (999.7e6, "1G"), (-999.7e6, "-1G"), (999_999.0, "999999"), (1e6, "1M"), (-0.0, "0")],
    ],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert wording.number(value) == text


def test_a_value_is_held_against_its_interval() -> None:
    assert (
        reasons.value_off(CPU, 93.12, 21.44, 38.0, "", "step")
        == "system.cpu.utilization 93.1, expected 21.4 to 38: an unusual step"
    )
    assert set(reasons.BY_FEATURE) == set(reasons.PART_OF_FEATURE) == set(FEATURES)


@given(st.lists(st.floats(-1e16, 1e16), min_size=2, max_size=4))
def test_numbers_are_shown_on_the_side_of_others_on_which_they_are(values: list[float]) -> None:
    seen = [wording.as_shown(text) for text in wording.distinguishable(*values)]
    for value, shown in zip(values[1:], seen[1:], strict=True):
        near = abs(value - values[0]) <= 1e-8 * max(abs(value), abs(values[0]), 1.0)
        assert near or wording.compare_shown(values[0], value) == wording.compare_shown(seen[0], shown)


@pytest.mark.parametrize(
    ("value", "lower", "upper", "text"),
    [
        (5.2004, 4.9, 5.2, "5.2004, expected 4.9 to 5.2: odd"),
        (123.44, 100.0, 123.41, "123.44, expected 100 to 123.41: odd"),
        (1.2304e9, 1e9, 1.2301e9, "1.2304G, expected 1G to 1.2301G: odd"),
        (5.1, 4.9, 5.2, "5.1: odd, though within the expected 4.9 to 5.2"),
        (0.0167, -3e-14, 5.71e-13, "0.0167, expected 0: odd"),
        (2.0**32 - 1, 2.1, 3.2, "4.29G, expected 2.1 to 3.2: odd"),
    ],
)
def test_no_reason_names_an_interval_that_holds_the_value_as_if_it_did_not(
    value: float, lower: float, upper: float, text: str
) -> None:
    assert reasons.held(value, lower, upper, strange="odd") == text


def test_what_a_feature_other_than_the_level_found_within_the_interval_is_said_so() -> None:
    assert reasons.value_off(CPU, 30.0, 21.44, 38.0, "", "step") == (
        "system.cpu.utilization 30: an unusual step, though within the expected 21.4 to 38"
    )
    assert reasons.mean_off(CPU, 30.0, 21.44, 38.0, "/s") == (
        "system.cpu.utilization averages 30/s: an unusual mean of late, though within the expected 21.4 to 38/s"
    )
    assert reasons.rough(CPU, 0.42014, 0.42011, "").endswith(
        "moves by 0.42014 from window to window, usually by 0.42011"
    )
    parts = [("a <num>", 5.2041, 4.9, 5.2013), ("b", 5.0, 4.9, 5.2)]
    assert reasons.mix_off(LOGS, parts) == (
        "'a <num>' is 5.204 % of web's lines, expected 4.9 to 5.201 %; 'b' is 5 %, within the expected 4.9 to 5.2 %"
    )


def test_lines_are_told_by_the_minute() -> None:
    assert reasons.count_off(LOGS, None, 412, 35, 72, seconds=60) == "web: 412 INFO lines/min, expected 35 to 72"


def test_lines_of_a_template_name_it() -> None:
    series = parse("template/vm-1/web/info/ab12")
    assert reasons.count_off(series, "took <num> ms", 30, 0, 4, seconds=60) == (
        "web: 30 lines/min of 'took <num> ms', expected 0 to 4"
    )


@pytest.mark.parametrize("template", ["can't open <*>", "read <*> lines of file <*>", "a '/min, b"])
def test_a_template_is_quoted_as_it_is(template: str) -> None:
    reason = reasons.count_off(parse("template/vm-1/web/info/ab12"), template, 12, 1, 3, seconds=10)
    assert reason == f"web: 12 lines/min of {template!r}, expected 1 to 3"


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
    assert (
        reasons.silent("host vm-1", 80, 0.98)
        == "host vm-1 silent for 80 s, it reported in 98 % of windows outside of outages"
    )


def test_long_templates_are_cut() -> None:
    assert len(reasons.short("x" * 1000)) == reasons.MOST_CHARACTERS


def test_the_sentence_of_a_silent_metric_is_made_when_it_is_needed() -> None:
    nan = math.nan
    episode = Episode(
        "gauge/vm-1/web/cpu", "metric silent", "silence", 0, 20, 20, 0, 0.98, nan, nan, "reports/window", ""
    )
    for seconds in (60.0, 70.0):
        episode.silent_seconds = seconds
    assert episode.reason == ""
    wanted = "web cpu on vm-1 silent for 70 s, it reported in 98 % of windows outside of outages"
    assert json.loads(episode.dump())["reason"] == episode.event("update", 70_000).reason == wanted
    episode.silent_seconds = 90.0
    episode.add_reason(", given up")
    assert episode.event("close", 90_000).reason == wanted.replace("70 s", "90 s") + ", given up"
