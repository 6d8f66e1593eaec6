"""`kappa watch`: which records change an incident, and how incidents and health are shown."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.live import Live

from app.cli import watch_incidents
from app.cli.watch_incidents import IncidentTracker, PipelineHealth, watch_version
from app.cli.watch_log import LogReader
from app.cli.watch_view import JsonView, LineView, TerminalView, where
from app.core.settings import Settings
from app.kafka.shard_watermarks import ShardWatermarks
from models.records.records import EarlyAlarm, WatermarkMessage
from models.records.schema import plain

NOON = 1_795_262_400_000  # 2026-11-21 12:00:00 UTC


def incident(name: str, status: str, seconds: int, score: float = 20.0, **own: Any) -> dict[str, Any]:
    return {
        "id": name,
        "status": status,
        "kind": "anomaly",
        "start": NOON,
        "window_end": NOON + 1000 * seconds,
        "score": score,
        "severity": "major",
        "hosts": ["vm-1"],
        "reason": "cpu 99",
        **own,
    }


def test_incident_opens_changes_and_closes_once() -> None:
    tracker = IncidentTracker()
    story = [("open", 0), ("update", 10), ("update", 10), ("close", 20), ("close", 20)]
    changes = [tracker.update(incident("a", status, at)) for status, at in story]
    assert changes == ["open", "update", None, "close", None]
    assert not tracker.open


def test_records_repeated_after_a_crash_open_nothing() -> None:
    tracker = IncidentTracker()
    story = [incident("a", "open", 0), incident("a", "update", 10), incident("a", "close", 20)]
    assert [tracker.update(each) for each in story] == ["open", "update", "close"]
    assert [tracker.update(each) for each in story] == [None, None, None]
    assert not tracker.open


def test_incident_of_before_the_watch_opens_with_its_first_record() -> None:
    assert IncidentTracker().update(incident("a", "update", 10)) == "open"


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 5)), max_size=60))
def test_what_is_open_does_not_depend_on_repeats(story: list[tuple[str, int]]) -> None:
    records = [incident(name, ("open", "update", "close")[min(at, 2)], at) for name, at in story]
    once, twice = IncidentTracker(), IncidentTracker()
    for each in records:
        once.update(each)
        twice.update(each)
        assert twice.update(each) is None
    assert once.open == twice.open


def test_tracker_forgets_closed_incidents_and_never_an_open_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_incidents, "REMEMBERED", 5)
    tracker = IncidentTracker()
    tracker.update(incident("open one", "open", 0))
    for number in range(50):
        tracker.update(incident(f"{number}", "open", 1))
        tracker.update(incident(f"{number}", "close", 2))
    assert len(tracker._latest) <= 6
    assert set(tracker.open) == {"open one"}
    assert tracker.update(incident("open one", "open", 0)) is None


def message(watermark: int, shard: int, shards: int = 2) -> bytes:
    return json.dumps(plain(WatermarkMessage(watermark=watermark, shard=shard, shards=shards))).encode()


def test_windows_are_scored_when_the_last_shard_has_sent_its_watermark() -> None:
    watermarks = ShardWatermarks()
    watermarks.update(message(NOON, 0), NOON)
    assert watermarks.behind(NOON / 1000) is None
    watermarks.update(message(NOON - 10_000, 1), NOON)
    watermarks.update(None, NOON)
    assert watermarks.behind(NOON / 1000 + 30) == 40


def test_a_watermark_message_of_the_future_and_one_of_other_shards_hide_nothing() -> None:
    watermarks = ShardWatermarks()
    for shard in (0, 1):
        watermarks.update(message(9 * 10**15, shard), NOON)
    watermarks.update(message(10_000, 4_999, 5_000), NOON)
    watermarks.update(message(10_000, 7), NOON)
    for shard in (0, 1):
        watermarks.update(message(NOON - 10_000, shard), NOON)
    assert watermarks.until == NOON - 10_000


JOB = {"healthy": True, "lag": 12, "batch_seconds": 0.5, "dropped_by_watermark": 0}
HEALTHY = PipelineHealth(120, behind_seconds=30.4, late=3, jobs={"detect": JOB})
STALLED = replace(HEALTHY, stalled=("extract has written nothing",))


def test_problems_are_listed_upstream_first_and_alone_while_kafka_is_away() -> None:
    stuck = replace(STALLED, jobs={"index": {**JOB, "healthy": False}})
    assert HEALTHY.healthy
    assert stuck.problems == (
        "extract has written nothing for 120 s",
        "index is not healthy: it makes no progress",
    )
    dropped = {**JOB, "healthy": False, "dropped_by_watermark": 2}
    assert replace(HEALTHY, jobs={"extract": dropped}).problems == (
        "extract is not healthy: the watermark dropped rows",
    )
    assert replace(stuck, unreachable="Kafka does not answer").problems == ("Kafka does not answer",)


def shown(view: LineView | JsonView) -> None:
    """One incident is open, another opens and closes; the pipeline stalls and recovers."""
    tracker = IncidentTracker()
    tracker.update(incident("a", "open", 0, 30.0))
    view.show_version("live", tracker)
    view.show_health(HEALTHY, tracker)
    for each in (
        incident("b", "open", 10, hosts=["x", "y", "z", "w"], reason="bad\x1b[2J\nline"),
        incident("b", "close", 20),
    ):
        change = tracker.update(each)
        assert change is not None
        view.show_incident(change, each, tracker)
    for health in (HEALTHY, STALLED, STALLED, HEALTHY):
        view.show_health(health, tracker)


def test_lines_show_each_event_once_and_no_control_characters() -> None:
    lines: list[str] = []
    shown(LineView(lines.append, ZoneInfo("Europe/Vienna")))
    assert lines[0] == "watching version live: open incidents: 1"
    assert lines[1] == "11-21 13:00:00 CET OPEN   major    anomaly   vm-1: cpu 99; since 13:00:00; incident a"
    assert (
        lines[3]
        == "11-21 13:00:10 CET OPEN   major    anomaly   x, y, z and 1 more: bad?[2J?line; since 13:00:00; incident b"
    )
    assert lines[4] == "11-21 13:00:20 CET close  major    anomaly   vm-1: cpu 99; since 13:00:00; incident b"
    health = [line.split(" CET ", 1)[1] for line in (lines[2], *lines[5:])]
    healthy = "health healthy; windows are judged 30 s after they end"
    assert health == [healthy, "HEALTH extract has written nothing for 120 s", healthy]


def test_line_names_a_host_once() -> None:
    lines: list[str] = []
    view, tracker = LineView(lines.append, ZoneInfo("Europe/Vienna")), IncidentTracker()
    for number, reason in enumerate(("vm-1: cache: no INFO lines", "vm-12: cpu 99", "cache: no INFO lines of vm-1")):
        view.show_incident("open", incident(f"{number}", "open", 0, reason=reason), tracker)
    texts = [line.split("anomaly   ", 1)[1].split("; since", 1)[0] for line in lines]
    assert texts == ["vm-1: cache: no INFO lines", "vm-1: vm-12: cpu 99", "vm-1: cache: no INFO lines of vm-1"]


def test_every_line_of_json_is_one_object() -> None:
    lines: list[str] = []
    shown(JsonView(lines.append))
    found = [json.loads(line) for line in lines]
    events = ["watching", "open", "health", "open", "close", "health", "health"]
    assert [each["event"] for each in found] == events
    assert found[3]["incident"]["hosts"] == ["x", "y", "z", "w"]
    assert (found[5]["healthy"], found[5]["problems"]) == (False, ["extract has written nothing for 120 s"])
    assert (found[6]["late"], found[6]["jobs"]["detect"]["lag"]) == (3, 12)


ALARM = EarlyAlarm(
    id="e1",
    series="gauge/vm-1/shop/latency",
    window_end=NOON + 10_000,
    status="raised",
    event_time=NOON + 7_000,
    value=74.25,
    upper=61.5,
    bound_window_end=NOON - 20_000,
)
SETTLED = replace(ALARM, status="confirmed", incident="i1", seconds_won=27.4)


def test_early_alarms_are_lines_and_objects_that_say_what_became_of_them() -> None:
    lines: list[str] = []
    line = replace(ALARM, series=f"template/vm-1/shop/warn/{'a' * 16}", template="no\x1b[2J disk", status="withdrawn")
    for alarm in (ALARM, SETTLED, line, replace(ALARM, upper=float("nan"), lower=80.0)):
        LineView(lines.append, ZoneInfo("Europe/Vienna")).show_early(alarm, IncidentTracker())
    assert [text.removeprefix("11-21 13:00:07 CET early  vm-1/shop: ") for text in lines] == [
        "latency 74.2, above 61.5; provisional",
        "latency 74.2, above 61.5; confirmed by incident i1, 27 s before it",
        "a line of a template, which it has never had: no?[2J disk; withdrawn",
        "latency 74.2, below 80; provisional",
    ]
    JsonView(lines.append).show_early(SETTLED, IncidentTracker())
    shown = json.loads(lines[-1])
    assert (shown["event"], shown["alarm"]["status"], shown["alarm"]["seconds_won"]) == ("early", "confirmed", 27.4)


def test_hosts_that_a_record_does_not_name_are_counted() -> None:
    hosts = ["x", "y", "z", "w"]
    assert where(incident("a", "open", 0, hosts=hosts, affected=2_000)) == "x, y, z and 1,997 more"
    assert where(incident("a", "open", 0, hosts=hosts, affected="many")) == "x, y, z and 1 more"


class TwoVersions:
    """What is read of a log in which the lanes of two versions have raised an alarm each."""

    def past(self, leave: Callable[[], bool]) -> list[dict[str, Any]]:
        return []

    def poll(self) -> list[dict[str, Any]]:
        return []

    def alarms(self) -> list[EarlyAlarm]:
        return [replace(ALARM, version=version, value=value) for version, value in (("live", 74.25), ("v2", 99.0))]

    def activity(self, stale_seconds: float) -> None:
        return None


def test_early_alarms_are_those_of_the_version_that_is_watched(tmp_path: Path) -> None:
    lines: list[str] = []
    leaves = iter([False, True])
    own = Settings(home=tmp_path, version="v2")
    watch_version(own, cast(LogReader, TwoVersions()), lambda: next(leaves), LineView(lines.append))
    assert [line.partition(" early  ")[2] for line in lines if " early " in line] == [
        "vm-1/shop: latency 99, above 61.5; provisional"
    ]


def test_page_shows_an_early_alarm_until_it_is_settled() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=140, height=40, color_system=None)
    with Live(console=console, auto_refresh=False) as live:
        page, seen = TerminalView(live, console), []
        for alarm in (ALARM, SETTLED):
            page.show_early(alarm, IncidentTracker())
            with console.capture() as capture:
                console.print(live.get_renderable())
            seen.append("latency 74.2, above 61.5; provisional" in capture.get())
    assert seen == [True, False]


def test_page_shows_health_what_is_open_and_what_has_closed() -> None:
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=140, height=40, color_system=None)
    with Live(console=console, auto_refresh=False) as live:
        page, tracker = TerminalView(live, console), IncidentTracker()
        for number in range(40):
            tracker.update(incident(f"{number}", "open", 0, score=float(number), reason=f"reason [{number}]"))
        page.show_version("v2", tracker)
        closing = incident("39", "close", 20, reason="[red]gone\x07")
        assert tracker.update(closing) == "close"
        page.show_incident("close", closing, tracker)
        page.show_health(STALLED, tracker)
        with console.capture() as capture:
            console.print(live.get_renderable())
    seen = capture.get()
    assert "extract has written nothing for 120 s" in seen
    assert "version v2" in seen
    assert "open: 39" in seen
    assert "more below" in seen
    assert "reason [38]" in seen
    assert "reason [1]" not in seen
    assert "closed lately" in seen
    assert "[red]gone?" in seen
    assert "detect: healthy, 12 records behind" in seen


def test_line_says_the_likely_cause_where_that_is_a_choice_or_a_change() -> None:
    strange = {
        "kind": "episode",
        "service": "cart",
        "why": "latency of cart went 8.0 times as far from its usual value as it normally does",
    }
    change = {"kind": "change", "service": "cart", "why": "began 40 s after deployment 1.8.2 of cart\x1b[2J"}
    wanted = {
        (): "vm-1: cpu 99",
        (0,): "vm-1: cpu 99",
        (
            0,
            0,
        ): "vm-1: cpu 99; probably: latency of cart went 8.0 times as far from its usual value as it normally does",
        (1,): "vm-1: cpu 99; probably: began 40 s after deployment 1.8.2 of cart?[2J",
        (1, 0): "vm-1: cpu 99; probably: began 40 s after deployment 1.8.2 of cart?[2J",
    }
    for chosen, text in wanted.items():
        lines: list[str] = []
        causes = [(strange, change)[i] for i in chosen]
        LineView(lines.append, ZoneInfo("Europe/Vienna")).show_incident(
            "open", incident("a", "open", 0, causes=causes), IncidentTracker()
        )
        assert [line.split("anomaly   ", 1)[1] for line in lines] == [f"{text}; since 13:00:00; incident a"]
