"""What is known of log lines: published of services that write nothing new any more, and of no others."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.core.windows import Windows
from models.detection.alarm_bounds import EarlyParameters
from models.detection.controlled_parameters import ControlledParameters
from models.detection.detector import ShardDetector
from models.records.records import Bound
from models.rules.rule import Rule
from models.templates.extraction import template_id

WINDOW, START = 10_000, 1_767_571_200_000
EARLY = EarlyParameters(1.0, 1)
P = ControlledParameters(warm_up_minutes=1, grace_minutes=2, new_template_nats=8.0)
SERVICE, USUAL, WORDS = "template/h/shop", "served <*> items", ("alpha", "beta", "gamma", "delta", "omega", "kappa")


def windows(lines: dict[tuple[str, str], int]) -> Windows:
    """A window with so many lines of each level and template of the service."""
    counts: dict[str, tuple[int, str | None]] = {}
    for (level, text), number in lines.items():
        counts[f"template/h/shop/{level}/{template_id(text)}"] = number, text
        own = f"logs/h/shop/{level}"
        counts[own] = counts.get(own, (0, None))[0] + number, None
    names = sorted(counts)
    none, nothing = np.full(len(names), np.nan), np.full(len(names), None, dtype=object)
    n, texts = (
        np.array([counts[name][0] for name in names]),
        np.array([counts[name][1] for name in names], dtype=object),
    )
    return Windows(np.array(names, dtype=object), n, none, none, none, none, none, texts, nothing)


class LoggingService:
    """A service that writes the usual line, and the last bound of its lines."""

    def __init__(self, parameters: ControlledParameters = P, early: EarlyParameters | None = EARLY) -> None:
        self.detector = ShardDetector(parameters, early=early)
        self.now, self.written, self.answers = START, list[Bound](), list[object]()

    def step(self, *others: tuple[str, str], usual: int = 20) -> LoggingService:
        self.now += WINDOW
        self.answers.append(self.detector.step(self.now, windows({("info", USUAL): usual} | dict.fromkeys(others, 1))))
        self.written += self.detector.bounds
        return self

    def run(self, steps: int, *others: tuple[str, str]) -> LoggingService:
        for _ in range(steps):
            self.step(*others)
        return self


def test_a_service_that_writes_nothing_new_has_its_levels_and_templates_as_bound() -> None:
    (bound,) = LoggingService().run(60, ("warn", "slow")).written
    assert (bound.series, bound.levels, bound.patterns) == (SERVICE, ["info", "warn"], [USUAL])
    assert bound.known == sorted(map(template_id, (USUAL, "slow")))
    assert 48 <= (bound.window_end - START) // WINDOW <= 55 and bound.chance < np.exp(-4.0)


def test_with_something_new_the_bound_is_gone_until_nothing_new_has_come_for_most_of_its_life() -> None:
    own = LoggingService().run(60).step(("error", "disk on fire"))
    assert [bound.known is None for bound in own.written] == [False, True]
    assert own.written[-1].window_end == own.now
    again = own.run(200).written[2]
    assert template_id("disk on fire") in (again.known or ()) and again.levels == ["error", "info"]


def test_templates_that_were_merged_are_known_by_their_pattern() -> None:
    own = LoggingService()
    for word in WORDS:
        own.step(("info", f"opening queue {word} now"))
    (bound,) = own.run(70).written
    assert bound.patterns == ["opening queue <*> now", USUAL]


def test_a_template_of_merged_words_in_a_row_is_known_by_its_text_too() -> None:
    """A single word in their place is part of it."""
    own = LoggingService()
    for word in WORDS:
        own.step(("info", f"opening queue {word} {word} now"))
    (bound,) = own.run(70).written
    assert bound.patterns == ["opening queue <*> <*> now", "opening queue <*> now", USUAL]


def test_a_service_with_new_templates_all_the_time_has_none() -> None:
    own = LoggingService()
    for number in range(120):
        own.step(("info", f"{'abcdefghij'[number // 12]}{'klmnopqrstuv'[number % 12]} again"))
    assert own.written == []


def test_what_rules_mute_has_no_bound() -> None:
    muted = dataclasses.replace(P, rules=(Rule(service="shop", mute=True),))
    assert LoggingService(muted).run(80).written == []


def test_a_bound_is_written_once_an_hour_and_once_after_a_restart() -> None:
    own = LoggingService().run(60 + 360)
    assert len(own.written) == 2
    own.detector = ShardDetector.load(own.detector.dump(), P, early=EARLY)
    assert len(own.run(6).written) == 3


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(0, 7), min_size=70, max_size=110))
def test_scores_novelties_and_states_are_the_same_without_bounds(numbers: list[int]) -> None:
    with_bounds, without = LoggingService(), LoggingService(early=None)
    for number in [*([7] * 60), *numbers]:
        others = [("warn", f"queue {WORDS[number]} is full")] if number < len(WORDS) else []
        with_bounds.step(*others)
        without.step(*others)
    assert with_bounds.written and not without.written
    assert repr(with_bounds.answers) == repr(without.answers)
    assert with_bounds.detector.dump() == without.detector.dump()


@pytest.mark.parametrize("limit", ["MOST_KNOWN", "MOST_PATTERN_BYTES"])
def test_what_is_too_much_to_publish_is_no_bound(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"models.detection.line_bounds.{limit}", 0)
    assert all(bound.known is None for bound in LoggingService().run(60).written)
