"""What people say of incidents, and what the detector says after that."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from fleet_story import START, WINDOW, Teller, windows, words
from test_control import CPU, LEVEL, LINES, QUICK, STORY, column, of, story

from models.control_rules import Rule
from models.detector import ShardDetector
from models.labels import EXPECTED, FALSE_ALARM, TRUE
from models.windows import Windows

SPIKES = {range(60, 66): {CPU: 9.0}, range(120, 126): {CPU: 9.0}, range(180, 186): {CPU: 9.0}}
Labels = dict[int, list[tuple[str, str]]]


def with_labels(rows: Windows, labels: list[tuple[str, str]]) -> Windows:
    """Rows and labels, `(label, series)`, as `extract` writes them."""
    more = [
        (f"label/{series.split('/')[1]}/{i:020d}", json.dumps({"label": label, "series": [series]}))
        for i, (label, series) in enumerate(labels)
    ]
    size = len(more)
    nothing, numbers = np.full(size, None, dtype=object), np.full(size, np.nan)
    names, texts = (np.array([one[i] for one in more], dtype=object) for i in (0, 1))
    added = Windows(names, np.ones(size, dtype=np.int64), numbers, numbers, numbers, numbers, numbers, nothing, texts)
    both = {f.name: np.concatenate([getattr(rows, f.name), getattr(added, f.name)]) for f in dataclasses.fields(rows)}
    order = np.argsort(both["series"], kind="stable")
    return Windows(**{name: values[order] for name, values in both.items()})


def tell(rows: STORY, labels: Labels, teller: Teller | None = None) -> Teller:
    """Windows with labels by the number of their window."""
    one = teller or Teller(ShardDetector(QUICK))
    for window in rows:
        number = (one.now - START) // WINDOW
        one.now += WINDOW
        scores, said = one.detector.step(one.now, with_labels(windows(window), labels.get(number, [])))
        one.scores.append(scores)
        one.said += said
    return one


def opened(one: Teller, series: str) -> list[int]:
    """The windows in which episodes of a series were opened."""
    return [(n.window_end - START) // WINDOW - 1 for n in one.said if n.series == series and n.status == "open"]


def near(windows_: list[int], wanted: list[int]) -> bool:
    return len(windows_) == len(wanted) and all(0 <= a - b < 10 for a, b in zip(windows_, wanted, strict=True))


ROWS = story(200, SPIKES)


def test_without_labels_it_is_said_each_time() -> None:
    assert near(opened(tell(ROWS, {}), CPU), [60, 120, 180])


def test_a_false_alarm_is_not_said_again_and_true_takes_that_back() -> None:
    wrong = {80 + i: [(FALSE_ALARM, CPU)] for i in range(3)}
    assert near(opened(tell(ROWS, wrong), CPU), [60])
    assert near(opened(tell(ROWS, wrong | {150: [(TRUE, CPU)]}), CPU), [60, 180])


def test_a_label_changes_no_score_and_is_answered_with_none() -> None:
    labelled, plain = tell(ROWS, {80: [(FALSE_ALARM, CPU)] * 3}), tell(ROWS, {})
    np.testing.assert_array_equal(column(labelled, CPU, "score")[:120], column(plain, CPU, "score")[:120])
    assert not any(name.startswith("label/") for scores in labelled.scores for name in scores.series)


def test_a_false_alarm_says_nothing_of_the_other_direction_and_of_other_series() -> None:
    down = story(200, {**SPIKES, range(120, 126): {CPU: -9.0}, range(180, 186): {CPU: -9.0}})
    wrong = {80: [(FALSE_ALARM, CPU)] * 3}
    assert near(opened(tell(down, wrong), CPU), opened(tell(down, {}), CPU))
    assert len(opened(tell(down, {}), CPU)) >= 2
    other = {80: [(FALSE_ALARM, "gauge/h-1/db/size")] * 3}
    assert near(opened(tell(ROWS, other), CPU), [60, 120, 180])


def test_a_gross_deviation_is_said_in_spite_of_a_label() -> None:
    rows = story(200, {range(60, 66): {CPU: 9.0}, range(120, 130): {CPU: 5000.0}})
    assert 120 <= opened(tell(rows, {80: [(FALSE_ALARM, CPU)]}), CPU)[-1] < 130


def test_false_alarms_add_up_to_a_bound_and_fade() -> None:
    once, often = ({80: [(FALSE_ALARM, CPU)] * n} for n in (1, 50))
    nats = [tell(ROWS[:90], labels).detector._state.demands[CPU]["strange up"][0] for labels in (once, often)]
    assert nats == [pytest.approx(6.9), pytest.approx(3 * 6.9)]
    quick = Teller(ShardDetector(dataclasses.replace(QUICK, label_half_life_days=0.01)))
    faded = tell(ROWS, {80: [(FALSE_ALARM, CPU)]}, quick)
    assert faded.detector._state.demands[CPU]["strange up"][0] == pytest.approx(6.9)
    quick.gap(1000)
    tell(ROWS[:1], {}, quick)
    assert quick.detector._state.demands == {}


def test_an_expected_change_is_adopted_at_once() -> None:
    rows = story(100, {range(60, 100): {CPU: 40.0}})
    at = opened(tell(rows, {}), CPU)[0] + 3
    found = tell(rows, {at: [(EXPECTED, CPU)]})
    assert of(CPU, found) == [("open", "anomaly"), ("update", "change"), ("close", "change")]
    assert found.said[-1].window_end == START + (at + 2) * WINDOW
    assert found.detector.believes(CPU)["typical"] > 55


def test_an_expected_rate_is_adopted_at_once() -> None:
    rows = story(100, {range(60, 100): {LINES: 20.0}})
    at = opened(tell(rows, {}), LEVEL)[0] + 3
    found = tell(rows, {at: [(EXPECTED, LEVEL)]})
    assert [status for status, _ in of(LEVEL, found)][-2:] == ["update", "close"]
    assert of(LEVEL, found)[-1] == ("close", "change")


def test_an_expected_silence_is_given_up() -> None:
    rows = [{n: r for n, r in w.items() if k < 60 or "/h-1/" not in n} for k, w in enumerate(story(160))]
    assert of("host/h-1", tell(rows, {})) == [("open", "silence")]
    at = opened(tell(rows, {}), "host/h-1")[0] + 5
    found = tell(rows, {at: [(EXPECTED, "host/h-1")]})
    assert of("host/h-1", found) == [("open", "silence"), ("close", "change")]
    assert "expected" in found.said[-1].reason


def test_a_label_about_what_nobody_knows_changes_nothing() -> None:
    strange = [(FALSE_ALARM, "gauge/h-9//x"), (TRUE, "host/h-9"), (EXPECTED, "logs/h-9//error")]
    found, plain = tell(ROWS, {80: strange}), tell(ROWS, {})
    assert words(found.said) == words(plain.said)


@pytest.mark.parametrize("cut", [64, 79, 80, 81, 121, 150])
def test_a_detector_that_is_loaded_remembers_labels_to_the_bit(cut: int) -> None:
    labels = {80: [(FALSE_ALARM, CPU)], 122: [(FALSE_ALARM, CPU), (TRUE, LEVEL)], 183: [(EXPECTED, CPU)]}
    p = dataclasses.replace(QUICK, rules=(Rule(host="h-2", mute=True),))
    whole = tell(ROWS, labels, Teller(ShardDetector(p)))
    first = tell(ROWS[:cut], labels, Teller(ShardDetector(p)))
    second = Teller(ShardDetector.load(first.detector.dump(), p), first.now)
    tell(ROWS[cut:], labels, second)
    assert whole.said == first.said + second.said
    assert whole.detector.dump() == second.detector.dump()
