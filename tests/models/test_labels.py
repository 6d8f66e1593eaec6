"""What people say of incidents, and what the detector says after that."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from support.control_stories import (
    CPU,
    LEVEL,
    LINES,
    QUICK,
    STORY,
    column,
    of,
    story,
    texts_of,
    turns,
    when,
    with_appended,
)
from support.fleet_story import START, WINDOW, DetectorRun, windows, words

from models.core.parameters import DetectorParameters
from models.core.windows import Windows
from models.detection.detector import ShardDetector
from models.detection.labels import MOST_DEMANDED
from models.detection.shard_state import ShardState
from models.records.records import ACKNOWLEDGED, EXPECTED, FALSE_ALARM, TRUE
from models.rules.rule import Rule

Labels = dict[int, list[tuple[str, str]]]


def spikes(*sizes: float) -> STORY:
    """Two hosts, whose first metric is higher for a minute, twice; a repeat of the same would be no news."""
    return story(120, {range(50 + 45 * i, 57 + 45 * i): {CPU: size} for i, size in enumerate(sizes)})


def with_labels(rows: Windows, labels: list[tuple[str, str]]) -> Windows:
    """Rows and labels, `(label, series)`, as `extract` writes them."""
    more = [
        (f"label/{series.split('/')[1]}/{i:020d}", json.dumps({"label": label, "series": [series]}))
        for i, (label, series) in enumerate(labels)
    ]
    return with_appended(rows, more)


def play(rows: STORY, labels: Labels, run: DetectorRun | None = None) -> DetectorRun:
    """Windows with labels by the number of their window."""
    one = run or DetectorRun(ShardDetector(QUICK))
    for window in rows:
        number = (one.now - START) // WINDOW
        one.now += WINDOW
        scores, events = one.detector.step(one.now, with_labels(windows(window), labels.get(number, [])))
        one.scores.append(scores)
        one.events += events
    return one


def opened(one: DetectorRun, series: str) -> list[int]:
    """The windows in which episodes of a series were opened."""
    return [(n.window_end - START) // WINDOW - 1 for n in one.events if n.series == series and n.status == "open"]


def near(windows_: list[int], wanted: list[int]) -> bool:
    return len(windows_) == len(wanted) and all(0 <= a - b < 10 for a, b in zip(windows_, wanted, strict=True))


ROWS = spikes(60, 150)


def test_without_labels_it_is_said_each_time() -> None:
    assert near(opened(play(ROWS, {}), CPU), [50, 95])


def test_a_false_alarm_is_not_said_again_and_true_takes_that_back() -> None:
    wrong = {70: [(FALSE_ALARM, CPU)] * 3}
    assert near(opened(play(ROWS, wrong), CPU), [50])
    assert near(opened(play(ROWS, wrong | {80: [(TRUE, CPU)]}), CPU), [50, 95])


def test_a_label_changes_no_score_and_is_answered_with_none() -> None:
    labelled, plain = play(ROWS, {70: [(FALSE_ALARM, CPU)] * 3}), play(ROWS, {})
    np.testing.assert_array_equal(column(labelled, CPU, "score")[:97], column(plain, CPU, "score")[:97])
    assert not any(name.startswith("label/") for scores in labelled.scores for name in scores.series)


def test_a_false_alarm_says_nothing_of_the_other_direction_and_of_other_series() -> None:
    rows, wrong = spikes(60, -90), {70: [(FALSE_ALARM, CPU)] * 3}
    assert near(opened(play(rows, {}), CPU), [50, 95])
    assert opened(play(rows, wrong), CPU) == opened(play(rows, {}), CPU)
    assert near(opened(play(ROWS, {70: [(FALSE_ALARM, "gauge/h-1/db/size")] * 3}), CPU), [50, 95])


def test_what_is_much_further_off_is_published_in_spite_of_labels() -> None:
    assert near(opened(play(spikes(60, 400), {70: [(FALSE_ALARM, CPU)] * 3}), CPU), [50, 95])


def smooth_for_hours() -> list[float]:
    """Values of windows of a minute: noise around 1000 with a spread of 10, which falls slowly instead from 2600 to 2960, and is at 0 from 3020."""
    rng, out = np.random.default_rng(1), []
    for k in range(3040):
        x = np.clip(4 - 0.1 * (k - 2600), -4, 4) + 0.5 * rng.normal() if 2600 <= k < 2960 else 10 * rng.normal()
        out.append(round(1000 + x if k < 3020 else rng.normal(), 2))
    return out


@pytest.mark.slow
def test_a_false_alarm_about_roughness_is_about_roughness_on_both_sides_and_not_about_values() -> None:
    found: list[list[tuple[str, int]]] = []
    for labels in ([], [(FALSE_ALARM, CPU)] * 3):
        detector = ShardDetector(DetectorParameters(window_seconds=60))
        found.append([])
        for k, x in enumerate(smooth_for_hours()):
            rows = with_labels(windows({CPU: x}), labels if k == 2670 else [])
            _, events = detector.step(START + 60_000 * (k + 1), rows)
            found[-1] += [(event.part, k) for event in events if event.status == "open"]
    plain, labelled = found
    assert [part for part, _ in plain] == ["roughness", "roughness", "local", "level"]
    assert labelled == [plain[0], *plain[2:]], "the same at once, apart from roughness after the label"
    assert list(detector._state.control.demands[CPU]) == ["strange roughness"]


@pytest.mark.parametrize(
    ("series", "patterns"),
    [
        (CPU, ["strange up", "strange down", "strange roughness", "peers up", "peers down"]),
        (LEVEL, ["high", "frequent", "zero", "overdue"]),
    ],
)
def test_a_false_alarm_of_what_is_not_remembered_is_one_of_each_usual_cause(series: str, patterns: list[str]) -> None:
    demands = play(ROWS[:3], {1: [(FALSE_ALARM, series)]}).detector._state.control.demands[series]
    assert {pattern: nats for pattern, (nats, _, _) in demands.items()} == dict.fromkeys(
        patterns, pytest.approx(DetectorParameters().label_nats)
    )


@pytest.mark.slow
def test_too_many_lines_need_more_after_a_label_unless_they_are_many_more() -> None:
    labels = {75: [(FALSE_ALARM, LEVEL)] * 3}
    for by, later in ((6.0, True), (40.0, False)):
        rows = story(120, {range(50, 58): {LINES: 6.0}, range(90, 110): {LINES: by}})
        plain, labelled = opened(play(rows, {}), LEVEL), opened(play(rows, labels), LEVEL)
        assert (labelled[1] > plain[1]) is later


def test_false_alarms_add_up_to_a_bound_and_fade() -> None:
    each = DetectorParameters().label_nats
    once, often = ({70: [(FALSE_ALARM, CPU)] * n} for n in (1, 50))
    nats = [play(ROWS[:80], labels).detector._state.control.demands[CPU]["strange up"][0] for labels in (once, often)]
    assert nats == [pytest.approx(each), pytest.approx(3 * each)]
    quick = DetectorRun(ShardDetector(dataclasses.replace(QUICK, label_half_life_days=0.01)))
    assert play(ROWS[:80], once, quick).detector._state.control.demands
    quick.gap(1000)
    play(ROWS[:1], {}, quick)
    assert quick.detector._state.control.demands == {}


def test_an_expected_change_is_adopted_at_once() -> None:
    rows = story(100, {range(60, 100): {CPU: 40.0}})
    at = opened(play(rows, {}), CPU)[0] + 3
    found = play(rows, {at: [(EXPECTED, CPU)]})
    assert turns(CPU, found) == [("open", "anomaly"), ("close", "change")]
    assert ("update", "change") in of(CPU, found)
    assert found.events[-1].window_end == START + (at + 2) * WINDOW
    assert found.detector.describe_state(CPU)["typical"] > 55


def test_an_expected_rate_is_adopted_at_once() -> None:
    rows = story(100, {range(60, 100): {LINES: 20.0}})
    at = opened(play(rows, {}), LEVEL)[0] + 3
    found = play(rows, {at: [(EXPECTED, LEVEL)]})
    assert [status for status, _ in of(LEVEL, found)][-2:] == ["update", "close"]
    assert of(LEVEL, found)[-1] == ("close", "change")


def test_an_expected_silence_is_given_up() -> None:
    rows = [{n: r for n, r in w.items() if k < 60 or "/h-1/" not in n} for k, w in enumerate(story(160))]
    assert turns("host/h-1", play(rows, {})) == [("open", "silence")]
    at = opened(play(rows, {}), "host/h-1")[0] + 5
    found = play(rows, {at: [(EXPECTED, "host/h-1")]})
    assert turns("host/h-1", found) == [("open", "silence"), ("close", "change")]
    assert "expected" in found.events[-1].reason


def test_a_label_about_what_nobody_knows_changes_nothing() -> None:
    strange = [(FALSE_ALARM, "gauge/h-9//x"), (TRUE, "host/h-9"), (EXPECTED, "logs/h-9//error")]
    found, plain = play(ROWS, {80: strange}), play(ROWS, {})
    assert words(found.events) == words(plain.events)


@pytest.mark.parametrize("cut", [90, 100])
def test_a_reset_takes_labels_back_in_a_detector_that_is_loaded_and_in_one_that_goes_on(cut: int) -> None:
    """While another series still has some."""
    labels = {70: [(FALSE_ALARM, CPU)] * 3 + [(FALSE_ALARM, "gauge/h-2//cpu")]}
    p = dataclasses.replace(QUICK, rules=(Rule(host="h-1", metric="cpu", reset=when(89)),))
    rows = story(150, {range(50, 57): {CPU: 60.0}, range(135, 142): {CPU: 150.0}})
    whole = play(rows, labels, DetectorRun(ShardDetector(p)))
    first = play(rows[:cut], labels, DetectorRun(ShardDetector(p)))
    second = DetectorRun(ShardDetector.load(first.detector.dump(), p), first.now)
    play(rows[cut:], labels, second)
    assert texts_of(whole) == texts_of(first, second)
    assert near(opened(whole, CPU), [50, 135])


def test_an_acknowledgement_changes_nothing() -> None:
    given = {52: [(ACKNOWLEDGED, CPU)], 70: [(ACKNOWLEDGED, CPU), (ACKNOWLEDGED, LEVEL), (ACKNOWLEDGED, "host/h-9")]}
    runs = [play(ROWS, labels, DetectorRun(ShardDetector(QUICK))) for labels in ({}, given)]
    assert texts_of(runs[0]) == texts_of(runs[1])


@pytest.mark.parametrize("cut", [54, 71, 97])
def test_a_detector_that_is_loaded_remembers_labels_to_the_bit(cut: int) -> None:
    labels = {70: [(FALSE_ALARM, CPU)], 96: [(FALSE_ALARM, CPU), (TRUE, LEVEL)], 98: [(EXPECTED, CPU)]}
    p = dataclasses.replace(QUICK, rules=(Rule(host="h-2", mute=True),))
    whole = play(ROWS, labels, DetectorRun(ShardDetector(p)))
    first = play(ROWS[:cut], labels, DetectorRun(ShardDetector(p)))
    second = DetectorRun(ShardDetector.load(first.detector.dump(), p), first.now)
    play(ROWS[cut:], labels, second)
    assert texts_of(whole) == texts_of(first, second)
    assert whole.detector.dump() == second.detector.dump()


def test_labels_of_ever_more_series_have_a_bound_and_a_letter_and_what_was_known_stays() -> None:
    state = ShardState()
    run = DetectorRun(ShardDetector(QUICK, state))
    names = [f"gauge/h-1//m{i:05d}" for i in range(MOST_DEMANDED + 5)]
    texts = [
        (f"label/a/{at:020d}", json.dumps({"label": FALSE_ALARM, "series": names[at : at + 1_000]}))
        for at in range(0, len(names), 1_000)
    ]
    run.now += WINDOW
    run.detector.step(run.now, with_appended(windows(ROWS[0]), texts))
    (letter,) = run.detector.overflow
    assert (letter.limit, letter.wanted, letter.most, letter.left_out) == ("labels", len(names), MOST_DEMANDED, 5)
    assert letter.names == names[MOST_DEMANDED:]
    assert set(state.control.demands) == set(names[:MOST_DEMANDED])
    again = [(f"label/a/{0:020d}", json.dumps({"label": word, "series": [names[0]]})) for word in (FALSE_ALARM, TRUE)]
    for text, left in zip(again, (MOST_DEMANDED, MOST_DEMANDED - 1), strict=True):
        run.now += WINDOW
        run.detector.step(run.now, with_appended(windows(ROWS[0]), [text]))
        assert run.detector.overflow == []
        assert len(state.control.demands) == left
