"""`kappa watch`: what is news of an incident, and how it is shown."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.live import Live

from app.cli import watch as watching
from app.cli.watch import Book, Pulse
from app.cli.watch_log import Watermarks
from app.cli.watch_view import JsonLines, Lines, Page, printable

NOON = 1_795_262_400_000  # 2026-11-21 12:00:00 UTC


def incident(name: str, status: str, seconds: int, score: float = 20.0, **own: Any) -> dict[str, Any]:
    return {
        "id": name,
        "status": status,
        "kind": "anomaly",
        "start": NOON,
        "window_end": NOON + 1000 * seconds,
        "score": score,
        "hosts": ["vm-1"],
        "reason": "cpu 99",
        **own,
    }


def test_incident_opens_changes_and_closes_once() -> None:
    book = Book()
    story = [("open", 0), ("update", 10), ("update", 10), ("close", 20), ("close", 20)]
    said = [book.take(incident("a", status, at)) for status, at in story]
    assert said == ["open", "update", None, "close", None]
    assert not book.open


def test_statements_that_come_again_after_a_crash_open_nothing() -> None:
    book = Book()
    story = [incident("a", "open", 0), incident("a", "update", 10), incident("a", "close", 20)]
    assert [book.take(each) for each in story] == ["open", "update", "close"]
    assert [book.take(each) for each in story] == [None, None, None]
    assert not book.open


def test_incident_that_began_before_the_watch_opens_with_the_first_word_that_is_heard() -> None:
    assert Book().take(incident("a", "update", 10)) == "open"


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 5)), max_size=60))
def test_what_is_open_does_not_depend_on_repeats(story: list[tuple[str, int]]) -> None:
    statements = [incident(name, ("open", "update", "close")[min(at, 2)], at) for name, at in story]
    once, twice = Book(), Book()
    for each in statements:
        once.take(each)
        twice.take(each)
        assert twice.take(each) is None
    assert once.open == twice.open


def test_book_forgets_closed_incidents_and_never_an_open_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "REMEMBERED", 5)
    book = Book()
    book.take(incident("open one", "open", 0))
    for number in range(50):
        book.take(incident(f"{number}", "open", 1))
        book.take(incident(f"{number}", "close", 2))
    assert len(book._heard) <= 6
    assert set(book.open) == {"open one"}
    assert book.take(incident("open one", "open", 0)) is None


def test_windows_are_judged_when_the_last_shard_has_ticked_them() -> None:
    watermarks = Watermarks()
    watermarks.take({"tick": NOON, "shard": 0, "shards": 2})
    assert watermarks.behind(NOON / 1000) is None
    watermarks.take({"tick": NOON - 10_000, "shard": 1, "shards": 2})
    watermarks.take({"id": "a statement"})
    assert watermarks.behind(NOON / 1000 + 30) == 40


JOB = {"healthy": True, "lag": 12, "batch_seconds": 0.5, "dropped_by_watermark": 0}
WELL = Pulse(120, behind_seconds=30.4, late=3, jobs={"detect": JOB})
ILL = replace(WELL, silent=("extract has written nothing",))


def test_what_is_wrong_is_said_upstream_first_and_nothing_else_while_kafka_is_away() -> None:
    stuck = replace(ILL, jobs={"index": {**JOB, "healthy": False}})
    assert WELL.healthy
    assert stuck.problems == (
        "extract has written nothing for 120 s",
        "index is not healthy: it makes no progress",
    )
    dropped = {**JOB, "healthy": False, "dropped_by_watermark": 2}
    assert replace(WELL, jobs={"extract": dropped}).problems == ("extract is not healthy: the watermark dropped rows",)
    assert replace(stuck, unreachable="Kafka does not answer").problems == ("Kafka does not answer",)


def shown(view: Lines | JsonLines) -> None:
    """A short story: one is open, another opens and closes, the pipeline falls ill and gets well."""
    book = Book()
    book.take(incident("a", "open", 0, 30.0))
    view.began("live", book)
    view.pulse(WELL, book)
    for each in (
        incident("b", "open", 10, hosts=["x", "y", "z", "w"], reason="bad\x1b[2J\nline"),
        incident("b", "close", 20),
    ):
        what = book.take(each)
        assert what is not None
        view.said(what, each, book)
    for pulse in (WELL, ILL, ILL, WELL):
        view.pulse(pulse, book)


def test_lines_say_each_event_once_and_obey_nothing_that_a_log_line_says() -> None:
    said: list[str] = []
    shown(Lines(said.append))
    assert said[0] == "watching version live: 1 incidents are open"
    assert said[1] == "11-21 12:00:00Z OPEN   anomaly     30.0 nats  vm-1: cpu 99"
    assert said[3] == "11-21 12:00:10Z OPEN   anomaly     20.0 nats  x, y, z and 1 more: bad?[2J?line"
    assert said[4] == "11-21 12:00:20Z close  anomaly     20.0 nats  vm-1: cpu 99"
    health = [line.split("Z ", 1)[1] for line in (said[2], *said[5:])]
    well = "health healthy; windows are judged 30 s after they end"
    assert health == [well, "HEALTH extract has written nothing for 120 s", well]


def test_every_line_of_json_is_one_object() -> None:
    said: list[str] = []
    shown(JsonLines(said.append))
    found = [json.loads(line) for line in said]
    events = ["watching", "open", "health", "open", "close", "health", "health"]
    assert [each["event"] for each in found] == events
    assert found[3]["incident"]["hosts"] == ["x", "y", "z", "w"]
    assert (found[5]["healthy"], found[5]["problems"]) == (False, ["extract has written nothing for 120 s"])
    assert (found[6]["late"], found[6]["jobs"]["detect"]["lag"]) == (3, 12)


def test_page_shows_health_what_is_open_and_what_has_closed() -> None:
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=140, height=40, color_system=None)
    with Live(console=console, auto_refresh=False) as live:
        page, book = Page(live, console), Book()
        for number in range(40):
            book.take(incident(f"{number}", "open", 0, score=float(number), reason=f"reason [{number}]"))
        page.began("v2", book)
        closing = incident("39", "close", 20, reason="[red]gone\x07")
        assert book.take(closing) == "close"
        page.said("close", closing, book)
        page.pulse(ILL, book)
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


@given(st.text())
def test_what_is_printable_has_no_control_characters(text: str) -> None:
    assert len(printable(text)) == len(text)
    assert "\x1b" not in printable(text)
    assert len(printable(text).splitlines()) <= 1
