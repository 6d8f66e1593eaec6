"""Stories: windows of a small fleet, and the episode events that a detector reports of them."""

import json
from collections.abc import Callable, Iterable

import numpy as np
import pytest
from support.control_stories import with_appended
from support.fleet_story import START, WINDOW, DetectorRun, Row, windows, words
from support.machine_stories import CPU, LEVEL, Machine, after_an_hour, beside_another_log

from models.core.parameters import DetectorParameters
from models.core.series import Series, build
from models.detection.detector import ShardDetector
from models.detection.table_score import one_point_window
from models.records.records import EXPECTED, EpisodeEvent

STORY = Callable[[int], dict[str, Row]]


def ends(events: list[EpisodeEvent]) -> list[tuple[str, str, str]]:
    """What opened and closed."""
    return words(n for n in events if n.status != "update")


@pytest.fixture
def story() -> tuple[Machine, DetectorRun]:
    return after_an_hour()


@pytest.fixture
def machine(story: tuple[Machine, DetectorRun]) -> Machine:
    return story[0]


@pytest.fixture
def run(story: tuple[Machine, DetectorRun]) -> DetectorRun:
    return story[1]


@pytest.mark.slow
def test_nothing_is_reported_of_hours_without_events(run: DetectorRun, machine: Machine) -> None:
    assert run.play(machine.windows(3 * 360)) == []


def test_a_single_burst_is_scored_and_not_published(run: DetectorRun, machine: Machine) -> None:
    assert run.play(machine.windows(1, cpu=70.0)) == []
    assert run.score_of(CPU) > 5
    assert run.play(machine.windows(30)) == []


def test_a_great_step_is_published_in_its_second_window(run: DetectorRun, machine: Machine) -> None:
    assert words(run.play(machine.windows(2, cpu=93.1))) == [(CPU, "open", "anomaly")]


def test_a_burst_that_falls_back_is_not_published(run: DetectorRun, machine: Machine) -> None:
    assert run.play(machine.windows(1, cpu=93.1), machine.windows(1, cpu=61.0), machine.windows(30)) == []


def test_a_spike_of_minutes_opens_and_closes_as_an_anomaly(run: DetectorRun, machine: Machine) -> None:
    events = run.play(machine.windows(12, cpu=93.1), machine.windows(60))
    assert words(events)[0] == (CPU, "open", "anomaly")
    assert words(events)[-1] == (CPU, "close", "anomaly")
    assert events[0].reason.startswith("cpu 93.1, expected 1")
    assert events[0].window_end - events[0].start <= 5 * WINDOW


def test_strength_is_measured_by_what_was_expected_before_the_first_strange_window(
    run: DetectorRun, machine: Machine
) -> None:
    run.play(machine.windows(1))
    before = run.detector.describe_state(CPU)
    events = run.play(machine.windows(12, cpu=93.1))
    widths = (93.1 - before["typical"]) / (before["upper"] - before["typical"])
    assert [event.strength for event in events] == pytest.approx([widths] * len(events), rel=0.01)
    assert {event.delay for event in events} == {WINDOW / 1000}


def test_a_deviation_of_one_window_has_no_strength_after_it(run: DetectorRun, machine: Machine) -> None:
    high, higher = (machine.windows(1, cpu=cpu) for cpu in (80.0, 99.0))
    events = run.play(high, machine.windows(1, cpu=80.0), higher, machine.windows(60))
    strengths = [event.strength for event in events]
    assert strengths == pytest.approx([strengths[0]] * len(strengths), rel=0.01)  # that of 80, which came twice


def test_an_anomaly_is_not_learnt_as_normal(run: DetectorRun, machine: Machine) -> None:
    run.play(machine.windows(12, cpu=93.1), machine.windows(60))
    assert run.detector.describe_state(CPU)["typical"] == pytest.approx(30, abs=1)
    again = run.play(machine.windows(12, cpu=93.1))
    assert words(again)[0] == (CPU, "open", "anomaly")


def test_a_level_that_persists_is_published_once_as_a_change_and_becomes_normal(
    run: DetectorRun, machine: Machine
) -> None:
    rng = np.random.default_rng(1)
    events = [n for _ in range(180) for n in run.play(machine.windows(1, cpu=round(55 + rng.normal(0, 1.5), 2)))]
    changes = [n for n in events if n.kind == "change"]
    assert words(events)[0] == (CPU, "open", "anomaly")
    assert [n.status for n in changes] == ["update", "close"]
    assert 600_000 <= changes[0].window_end - changes[0].start <= 1_000_000
    assert "new level 5" in changes[0].reason
    assert "was 30" in changes[0].reason or "was 29.9" in changes[0].reason
    assert run.detector.describe_state(CPU)["typical"] == pytest.approx(55, abs=1)
    assert run.score_of(CPU) < 5


def test_a_ramp_is_an_anomaly_while_it_goes_on(run: DetectorRun, machine: Machine) -> None:
    events = [n for k in range(120) for n in run.play(machine.windows(1, cpu=30 + 0.4 * k))]
    assert words(events)[0] == (CPU, "open", "anomaly")
    assert not [n for n in events if n.kind == "change"]


@pytest.mark.slow
def test_a_slow_rhythm_is_normal(run: DetectorRun, machine: Machine) -> None:
    rng = np.random.default_rng(2)
    quarter = 30 + 8 * np.sin(2 * np.pi * np.arange(1080) / 4320) + rng.normal(0, 1.5, 1080)
    assert [n for x in quarter for n in run.play(machine.windows(1, cpu=round(float(x), 2)))] == []


def test_a_stuck_metric_is_an_anomaly_until_it_moves(run: DetectorRun, machine: Machine) -> None:
    events = run.play(machine.windows(30, cpu=30.12), machine.windows(20))
    assert words(events)[0] == (CPU, "open", "anomaly")
    assert words(events)[-1] == (CPU, "close", "anomaly")
    assert "stuck at 30.1" in events[0].reason


@pytest.mark.slow
def test_a_constant_is_not_stuck() -> None:
    machine, run = Machine(), DetectorRun(ShardDetector(DetectorParameters()))
    assert run.play(machine.windows(900, cpu=16.0)) == []


@pytest.mark.slow
def test_a_constant_that_changes_for_good_is_a_change() -> None:
    machine, run = Machine(), DetectorRun(ShardDetector(DetectorParameters()))
    events = run.play(machine.windows(400, cpu=16.0), machine.windows(120, cpu=8.0))
    assert words(events)[0] == (CPU, "open", "anomaly")
    assert words(events)[-2:] == [(CPU, "update", "change"), (CPU, "close", "change")]
    assert "new level 8, was" in events[-1].reason


def test_lines_of_a_service_that_stop_are_a_silence_until_they_come_back(run: DetectorRun, machine: Machine) -> None:
    events = run.play(beside_another_log(machine.windows(30, info=None, aa=None)), machine.windows(30))
    of_level = [n for n in events if n.series == LEVEL]
    assert words(of_level)[0] == (LEVEL, "open", "silence")
    assert words(of_level)[-1] == (LEVEL, "close", "silence")
    assert of_level[0].reason.startswith("web: no INFO lines for ")
    assert of_level[0].window_end - of_level[0].start <= 100_000


def test_a_log_that_stops_is_one_episode_and_nothing_is_learnt_of_its_rates(run: DetectorRun, machine: Machine) -> None:
    before = run.detector.describe_state(LEVEL)["sum"]
    events = run.play(machine.windows(400, info=None, aa=None))
    assert ends(events) == [("logs/vm-1//", "open", "silence")]
    assert events[0].reason.startswith("log of vm-1 silent for ")
    assert run.detector.describe_state(LEVEL)["sum"] == before
    assert words(run.play(machine.windows(60))) == [("logs/vm-1//", "close", "silence")]
    again = run.play(machine.windows(20, info=None, aa=None))
    assert words(again)[0] == ("logs/vm-1//", "open", "silence"), "an outage is not learnt as usual"


@pytest.mark.slow
def test_a_log_in_bursts_is_silent_thrice_and_when_it_ends(run: DetectorRun, machine: Machine) -> None:
    def silences(gap: int) -> list[tuple[str, str, str]]:
        return ends(run.play(machine.windows(gap, info=None, aa=None), machine.windows(30)))

    silent = [("logs/vm-1//", "open", "silence"), ("logs/vm-1//", "close", "silence")]
    assert [silences(gap) for gap in (60, 90, 75)] == [silent] * 3
    assert [silences(gap) for gap in (80, 60, 90, 70, 85)] == [[]] * 5
    (opened, *_) = run.play(machine.windows(1100, info=None, aa=None))
    assert words([opened]) == silent[:1], "its end is found"
    assert opened.window_end - opened.start > 10_000 * 2 * 85


def test_a_log_that_is_given_up_is_one_change() -> None:
    machine, run = Machine(), DetectorRun(ShardDetector(DetectorParameters(silence_patience_hours=0.2)))
    assert run.play(machine.windows(360)) == []
    events = run.play(machine.windows(120, info=None, aa=None))
    assert ends(events) == [("logs/vm-1//", "open", "silence"), ("logs/vm-1//", "close", "change")]
    assert run.play(machine.windows(30)) == []


def test_the_silence_of_a_log_that_is_labelled_as_expected_is_given_up(run: DetectorRun, machine: Machine) -> None:
    run.play(machine.windows(30, info=None, aa=None))
    assert "logs/vm-1//" in run.detector._state.episodes
    label = json.dumps({"label": EXPECTED, "series": ["logs/vm-1//"]})
    (rows,) = machine.windows(1, info=None, aa=None)
    _, events = run.detector.step(run.now + WINDOW, with_appended(windows(rows), [(f"label/vm-1/{0:020d}", label)]))
    assert words(events) == [("logs/vm-1//", "close", "change")]


def test_a_log_of_a_line_now_and_then_is_no_silence_in_between() -> None:
    run = DetectorRun(ShardDetector(DetectorParameters()))
    for k in range(2_000):
        rows = {"gauge/vm-1//cpu": 30.0 + k % 7, **({"logs/vm-1/web/info": 1} if k % 37 == 0 else {})}
        assert run.play([rows]) == []


def test_many_lines_for_minutes_are_an_anomaly(run: DetectorRun, machine: Machine) -> None:
    events = run.play(machine.windows(10, info=60), machine.windows(30))
    assert words(events)[0] == (LEVEL, "open", "anomaly")
    assert "INFO lines/min, expected" in events[0].reason
    assert words(events)[-1] == (LEVEL, "close", "anomaly")


def test_lines_are_a_minute_in_scores_as_in_events(run: DetectorRun, machine: Machine) -> None:
    events = run.play(machine.windows(10, info=60))
    opening = run.scores[-10:][(events[0].window_end - events[0].start) // WINDOW - 1]
    at = opening.series.tolist().index(LEVEL)
    assert (opening.value[at], opening.typical[at]) == (360.0, events[0].typical)
    assert opening.lower[at] < opening.typical[at] < opening.upper[at] < opening.value[at]


@pytest.mark.slow
def test_a_silent_host_is_one_episode_and_not_one_for_each_series() -> None:
    machine, other = Machine(), Machine(9, "vm-2")
    run = DetectorRun(ShardDetector(DetectorParameters()))
    run.play(a | b for a, b in zip(machine.windows(700), other.windows(700), strict=True))
    events = run.play(other.windows(12))
    assert ends(events) == [("host/vm-1", "open", "silence")]
    assert events[0].reason.startswith(("host vm-1 silent for 40 s", "host vm-1 silent for 50 s"))
    machine.total = 0.0
    back = run.play(a | b for a, b in zip(machine.windows(40), other.windows(40), strict=True))
    assert words(back) == [("host/vm-1", "close", "silence")]


def test_a_host_may_come_while_another_is_silent() -> None:
    machine, other, new = Machine(), Machine(9, "vm-2"), Machine(11, "vm-3")
    run = DetectorRun(ShardDetector(DetectorParameters()))
    run.play(a | b for a, b in zip(machine.windows(300), other.windows(300), strict=True))
    assert ends(run.play(other.windows(12))) == [("host/vm-1", "open", "silence")]
    run.play(a | b for a, b in zip(other.windows(12), new.windows(12), strict=True))
    events = run.play(a | b | c for a, b, c in zip(machine.windows(3), other.windows(3), new.windows(3), strict=True))
    assert ("host/vm-1", "close", "silence") in words(events)


def test_a_host_and_a_metric_that_report_every_half_hour_fall_silent_as_others_do() -> None:
    minute, reports, rng = 60_000, 60, np.random.default_rng(3)
    detector, slow = ShardDetector(DetectorParameters(window_seconds=60)), ("gauge/vm-1//backups", "gauge/vm-2//free")
    found: list[tuple[int, EpisodeEvent]] = []
    for k in range(30 * (reports + 20)):
        rows = dict.fromkeys(slow if k % 30 == 0 and k < 30 * reports else (), float(rng.normal()))
        _, events = detector.step(START + k * minute, windows({"gauge/vm-1//cpu": float(rng.normal()), **rows}))
        found += [(k, event) for event in events if event.status == "open"]
    assert words(event for _, event in found) == [(slow[0], "open", "silence"), ("host/vm-2", "open", "silence")]
    assert all(30 * (reports + 5) < k < 30 * (reports + 15) for k, _ in found)


@pytest.mark.parametrize(
    ("row", "delay", "clock"),
    [
        ("late", 40.0, "what it sends is refused: 40 s late, by its clock or on the way"),
        ("ahead", 3_605.0, "what it sends is refused: 60 min ahead of time, by its clock"),
    ],
)
def test_silence_of_a_host_whose_records_are_refused_for_their_time_says_so(row: str, delay: float, clock: str) -> None:
    machine, other = Machine(), Machine(9, "vm-2")
    run = DetectorRun(ShardDetector(DetectorParameters()))
    run.play(a | b for a, b in zip(machine.windows(300), other.windows(300), strict=True))
    refused = f"overflow/vm-1/{row}"
    assert run.play(a | {refused: 20.0} | b for a, b in zip(machine.windows(5), other.windows(5), strict=True)) == []
    # not in each window: an event of an episode comes in windows without a record as well
    events = run.play(rows | ({refused: delay} if k % 2 == 0 else {}) for k, rows in enumerate(other.windows(40)))
    assert ends(events) == [("host/vm-1", "open", "silence")]
    assert len(events) > 1
    assert all(event.reason.endswith(f"% of windows outside of outages; {clock}") for event in events)
    run.play(a | b for a, b in zip(machine.windows(40), other.windows(40), strict=True))
    last = other.windows(40)
    run.play([next(last) | {refused: delay}])  # still on the way when the host went
    (silent, *_) = run.play(last)
    assert silent.reason.endswith("% of windows outside of outages")


def test_a_metric_that_stops_alone_is_a_silence(run: DetectorRun, machine: Machine) -> None:
    events = run.play(machine.windows(30, cpu=None), machine.windows(5))
    assert ends(events) == [(CPU, "open", "silence"), (CPU, "close", "silence")]


@pytest.mark.slow
def test_a_metric_that_reports_each_minute_is_not_silent_in_between() -> None:
    run = DetectorRun(ShardDetector(DetectorParameters()))
    story = enumerate(Machine().windows(900))
    events = run.play(rows if k % 6 == 0 else {n: r for n, r in rows.items() if n != CPU} for k, rows in story)
    assert events == []


def by_the_minute(values: Iterable[float], lines: int = 3) -> list[dict[str, Row]]:
    """Windows of a host that reports a metric once in six, and log lines in each."""
    log: dict[str, Row] = {"logs/vm-1/web/info": lines} if lines else {}
    return [log | ({CPU: value} if k == 0 else {}) for value in values for k in range(6)]


def noise(minutes: int, seed: int = 5) -> list[float]:
    return [float(value) for value in np.random.default_rng(seed).normal(30.0, 2.0, minutes)]


def test_a_log_that_stops_is_no_silence_of_a_host_that_reports_each_minute() -> None:
    run = DetectorRun(ShardDetector(DetectorParameters()))
    events = run.play(by_the_minute(noise(60)), by_the_minute(noise(15, 6), lines=0))
    assert ends(events) == [("logs/vm-1//", "open", "silence")]
    gone = run.play([{"gauge/vm-2//cpu": 1.0}] * 60)
    assert ("host/vm-1", "open", "silence") in ends(gone)


@pytest.mark.parametrize(("strange", "kinds"), [([90.0], []), ([90.0, 88.0, 91.0], ["anomaly"])])
def test_a_single_strange_row_of_a_metric_by_the_minute_is_not_published(
    strange: list[float], kinds: list[str]
) -> None:
    run = DetectorRun(ShardDetector(DetectorParameters()))
    events = run.play(by_the_minute([*noise(240), *strange, *noise(9, 7)]))
    assert [e.kind for e in events if e.status == "open" and e.series == CPU] == kinds


def test_what_was_strangest_before_an_episode_opened_is_in_its_score() -> None:
    run = DetectorRun(ShardDetector(DetectorParameters()))
    run.play(by_the_minute(noise(240)))
    before = len(run.scores)
    (opened,) = [e for e in run.play(by_the_minute([90.0, 88.0])) if e.status == "open"]
    scores = [float(s.score[s.series.tolist().index(CPU)]) for s in run.scores[before:] if CPU in s.series.tolist()]
    assert opened.score == pytest.approx(scores[0], abs=1e-5)
    assert scores[0] > scores[1]


def test_an_episode_has_no_score_of_the_one_before() -> None:
    """That one ends as a new level, in the middle of a run above the alert threshold."""
    rng, names = np.random.default_rng(5), np.array([CPU], dtype=object)
    levels = np.repeat([30.0, 90.0, 120.0], [3000, 180, 12]) + rng.normal(size=3192)
    detector, events, scores = ShardDetector(DetectorParameters(window_seconds=60)), [], []
    for k, level in enumerate(levels):
        found, more = detector.step(60_000 * (k + 1), one_point_window(names, np.array([level])))
        events += more
        scores.append(float(found.score[0]))
    first, second = (event for event in events if event.status == "open")
    assert [event.kind for event in events if event.id == first.id][-1] == "change"
    assert second.window_end >= 60_000 * 3181
    assert second.score <= max(scores[3180:]) < first.score


def test_one_row_in_six_windows_is_one_test_in_six() -> None:
    run = DetectorRun(ShardDetector(DetectorParameters()))
    run.play({**rows, "gauge/vm-1//load": 1.0 + k % 7} for k, rows in enumerate(by_the_minute(noise(60), lines=0)))
    assert (run.detector.watched.series, run.detector.watched.tests) == (2, 1)
    dense = DetectorRun(ShardDetector(DetectorParameters()))
    dense.play([{"gauge/vm-1//load": 1.0 + k % 7} for k in range(60)])
    assert (dense.detector.watched.series, dense.detector.watched.tests) == (1, 1)


@pytest.mark.slow
def test_a_silent_host_is_given_up_as_a_change_in_the_end() -> None:
    run = DetectorRun(ShardDetector(DetectorParameters(silence_patience_hours=0.2)))
    machine, other = Machine(), Machine(9, "vm-2")
    run.play(a | b for a, b in zip(machine.windows(300), other.windows(300), strict=True))
    events = run.play(other.windows(200))
    assert ends(events) == [("host/vm-1", "open", "silence"), ("host/vm-1", "close", "change")]


def test_a_gap_is_no_silence(run: DetectorRun, machine: Machine) -> None:
    run.gap(60)
    machine.total += 60 * 50_000
    assert run.play(machine.windows(60)) == []


def test_a_counter_that_is_reset_says_nothing(run: DetectorRun, machine: Machine) -> None:
    machine.total = 0.0
    assert run.play(machine.windows(60)) == []


def test_a_rate_is_growth_per_second(run: DetectorRun, machine: Machine) -> None:
    run.play(machine.windows(1))
    last = run.scores[-1]
    at = last.series.tolist().index("counter/vm-1//bytes")
    assert last.value[at] == pytest.approx(5000, rel=0.2)


def test_a_new_host_is_one_change(run: DetectorRun, machine: Machine) -> None:
    new = Machine(3, "vm-9")
    events = run.play(a | b for a, b in zip(machine.windows(30), new.windows(30), strict=True))
    assert words(events) == [("host/vm-9", "open", "change"), ("host/vm-9", "close", "change")]
    assert events[0].reason == "new host vm-9 first seen"


@pytest.mark.parametrize(("missing", "is_new"), [(0, True), (170, True), (190, False)])
def test_a_host_is_new_to_an_empty_shard_that_was_observed_for_the_grace_period(missing: int, is_new: bool) -> None:
    """A gap as long as that begins it anew: nobody knows what was new meanwhile."""
    run = DetectorRun(ShardDetector(DetectorParameters()))
    run.play({} for _ in range(200))
    run.gap(missing)
    found = words(run.play(Machine().windows(3)))
    assert found == ([("host/vm-1", "open", "change"), ("host/vm-1", "close", "change")] if is_new else [])


def test_a_new_service_is_one_change(run: DetectorRun, machine: Machine) -> None:
    extra: dict[str, Row] = {
        "gauge/vm-1/db/size": 5.0,
        "logs/vm-1/db/info": 3,
        "template/vm-1/db/info/cc": (3, "checkpoint"),
    }
    events = run.play(rows | extra for rows in machine.windows(10))
    assert words(events) == [("service/vm-1/db", "open", "change"), ("service/vm-1/db", "close", "change")]


def test_a_new_metric_of_a_known_service_is_a_change(run: DetectorRun, machine: Machine) -> None:
    events = run.play(rows | {"gauge/vm-1/web/queue": 5.0} for rows in machine.windows(5))
    assert words(events) == [("gauge/vm-1/web/queue", "open", "change"), ("gauge/vm-1/web/queue", "close", "change")]


def test_a_never_seen_template_is_new_with_its_text(run: DetectorRun, machine: Machine) -> None:
    name = "template/vm-1/web/error/dead"
    events = run.play(rows | {name: (3, "disk on fire at <num>")} for rows in machine.windows(6))
    assert words(events)[0] == (name, "open", "new")
    assert events[0].template == events[0].sample == "disk on fire at <num>"
    assert events[0].reason == "never-seen template in vm-1/web: disk on fire at <num>"
    assert events[0].window_end - events[0].start <= 40_000


def test_a_level_that_a_service_never_had_is_judged_from_its_first_line(run: DetectorRun, machine: Machine) -> None:
    name = "logs/vm-1/web/error"
    events = run.play(rows | {name: 4} for rows in machine.windows(6))
    assert words(events)[0] == (name, "open", "anomaly")
    assert events[0].part == "rate"
    assert events[0].window_end - events[0].start <= 50_000


def test_single_lines_of_a_level_that_a_service_never_had_are_not_published(run: DetectorRun, machine: Machine) -> None:
    name = "logs/vm-1/web/error"
    for _ in range(6):
        assert run.play((rows | {name: 1} for rows in machine.windows(1)), machine.windows(9)) == []


def test_the_first_levels_of_a_log_warm_up_together() -> None:
    run = DetectorRun(ShardDetector(DetectorParameters()))
    run.play({"gauge/vm-1/web/cpu": 30.0 + k % 7} for k in range(360))
    assert run.play({"gauge/vm-1/web/cpu": 30.0 + k % 7, "logs/vm-1/web/error": 9} for k in range(30)) == []


def test_a_rare_template_seen_for_the_first_time_is_marked_and_not_published(
    run: DetectorRun, machine: Machine
) -> None:
    name = "template/vm-1/web/info/rare"
    assert run.play(rows | {name: (1, "rare")} for rows in machine.windows(1)) == []
    last = run.scores[-1]
    assert last.kind[last.series.tolist().index(name)] == "new"
    assert run.play(machine.windows(40)) == []


@pytest.mark.slow
def test_the_templates_of_a_service_that_is_for_ever_making_them_are_no_news() -> None:
    machine, run = Machine(), DetectorRun(ShardDetector(DetectorParameters()))
    story = (
        rows | {f"template/vm-1/web/info/t{k // 3}": (1, f"text {k // 3}")}
        for k, rows in enumerate(machine.windows(700))
    )
    assert [n for n in run.play(story) if n.kind == "new"] == []


@pytest.mark.slow
def test_what_is_open_of_a_host_ends_when_it_is_gone(machine: Machine) -> None:
    """A pod that is out of memory, and ends for good."""
    run = DetectorRun(ShardDetector(DetectorParameters(silence_patience_hours=0.2)))
    other = Machine(9, "vm-2")
    run.play(a | b for a, b in zip(machine.windows(300), other.windows(300), strict=True))
    sick = machine.windows(12, cpu=93.1, info=900)
    open_before = {e.series for e in run.play(a | b for a, b in zip(sick, other.windows(12), strict=True))}
    assert CPU in open_before
    assert len(open_before) > 1
    events = run.play(other.windows(500))
    assert ends(events)[0] == ("host/vm-1", "open", "silence")
    closed = {e.series: e for e in events if e.status == "close"}
    assert closed.keys() == {"host/vm-1", *open_before}
    assert closed[CPU].reason.endswith("; its host has been silent for 0.2 h")
    again = run.play(a | b for a, b in zip(machine.windows(120), other.windows(120), strict=True))
    assert not [e for e in again if e.kind == "silence"]
    late = run.play(other.windows(20))
    assert ends(late) == [("host/vm-1", "open", "silence")], "the absence was not learnt as a usual one"


def test_zero_lines_have_a_row_where_they_say_something(run: DetectorRun, machine: Machine) -> None:
    run.play(machine.windows(1, info=None))
    last = run.scores[-1]
    at = last.series.tolist().index(LEVEL)
    assert last.value[at] == 0
    assert last.score[at] > 3


def test_a_metric_that_stops_in_an_anomaly_is_silent_then(run: DetectorRun, machine: Machine) -> None:
    events = run.play(machine.windows(10, cpu=90.0), machine.windows(20, cpu=None))
    assert ends(events) == [(CPU, "open", "anomaly"), (CPU, "close", "anomaly"), (CPU, "open", "silence")]


@pytest.mark.slow
def test_a_line_of_errors_now_and_then_is_not_reported() -> None:
    hosts, hours, promised = 360, 4, DetectorParameters().alarm_chance
    rng, detector, opened = np.random.default_rng(3), ShardDetector(DetectorParameters()), 0
    names = np.array([build(Series("gauge", f"h{i:03d}", metric="errors")) for i in range(hosts)], dtype=object)
    for t in range(hours * 360):
        lines = rng.poisson(1 / 2_880, hosts).astype(np.float64)
        _, events = detector.step(1_700_006_400_000 + WINDOW * (t + 1), one_point_window(names, 0.1 * lines))
        opened += sum(n.status == "open" and n.series.startswith("gauge/") for n in events)
    assert opened <= promised * hours * hosts
