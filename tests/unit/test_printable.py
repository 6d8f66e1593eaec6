"""No text from outside controls a reader's terminal, turns what stands beside it, or hides in it."""

from __future__ import annotations

import io
import json
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.live import Live

from app.cli import doctor, output, quarantine, replay_diff, savepoint, template_files
from app.cli.watch_incidents import IncidentTracker, PipelineHealth
from app.cli.watch_view import LineView, TerminalView
from app.core import logs
from app.doctor.finding import warning
from dashboards import words
from models.core.printable import UNSEEN, printable, printable_lines

ATTACKS = {
    "colour": "\x1b[31mred",
    "clear the screen": "\x1b[2J\x1b[H",
    "title of the window (OSC)": "\x1b]0;owned\x07",
    "hyperlink (OSC 8)": "\x1b]8;;http://evil.invalid\x1b\\web\x1b]8;;\x1b\\",
    "clipboard (OSC 52)": "\x1b]52;c;cm0gLXJm\x07",
    "device control string": "\x1bPq\x1b\\",
    "C1 control sequence": "\x9b31m",
    "C1 operating system command": "\x9d0;owned\x9c",
    "carriage return over the line": "evil\rgood",
    "backspaces": "evil\x08\x08\x08\x08good",
    "a line of its own": "evil\nkappa: all is well",
    "vertical tab, form feed": "a\x0bb\x0cc",
    "next line": "a\x85b",
    "line and paragraph separator": "a\u2028b\u2029c",
    "right to left override": "web\u202e1-bew",
    "isolates and embeddings": "\u2066a\u2067b\u2068c\u2069d\u202ae\u202bf\u202d",
    "arabic letter mark": "a\u061cb",
    "spaces without width": "web\u200b-1\u200c\u200d\ufeff",
    "word joiner and its neighbours": "a\u2060b\u2061c\u2064d",
    "soft hyphen": "web\u00ad-1",
    "combining grapheme joiner": "a\u034fb",
    "hangul fillers": "a\u115f\u1160\u3164\uffa0b",
    "mongolian selectors": "a\u180b\u180eb",
    "variation selectors": "a\ufe0f\U000e0100b",
    "tags": "a\U000e0041\U000e007fb",
    "blank of Braille": "\u2800",
    "half a pair": "a\ud800b",
    "no characters": "a\uffff\ufdd0\U0010ffffb",
    "private use": "a\ue000\U000f0000b",
    "markup of rich": "[red]gone[/red] [link=http://evil.invalid]x[/link]",
}
HARMLESS = ("web-1", "Füße", "日本語", "e\u0301", "שלום", "مرحبا", "a b", "50 % \\ [x]", "😀", "α→β")


def incident(text: str) -> dict[str, Any]:
    return {
        **{"id": "a", "status": "open", "kind": text, "reason": text, "hosts": [text, text]},
        **{"start": 1_795_262_400_000, "window_end": 1_795_262_410_000, "score": 20.0},
    }


def on_terminal(show: Callable[[Live, Console], None]) -> str:
    """What a page looks like, without the sequences that draw it."""
    text = io.StringIO()
    console = Console(file=text, force_terminal=False, width=4000, height=40, color_system=None)
    with Live(console=console, auto_refresh=False) as live:
        show(live, console)
        with console.capture() as capture:
            console.print(live.get_renderable())
    return capture.get()


def of_watch(text: str) -> str:
    lines: list[str] = []
    tracker, health = IncidentTracker(), PipelineHealth(120.0, stalled=(text,))
    tracker.update(incident(text))
    view = LineView(lines.append)
    view.show_version("live", tracker)
    view.show_incident("close", incident(text), tracker)
    view.show_health(health, tracker)

    def page(live: Live, console: Console) -> None:
        shown = TerminalView(live, console)
        shown.show_version("live", tracker)
        shown.show_incident("close", incident(text), tracker)
        shown.show_health(health, tracker)

    return "\n".join(lines) + on_terminal(page)


def of_savepoints(text: str, capsys: pytest.CaptureFixture[str]) -> str:
    output.print_table("savepoints", ["name"] * 7, [savepoint.row({"name": text, "problem": text})])
    return capsys.readouterr().out


def of_doctor(text: str, capsys: pytest.CaptureFixture[str]) -> str:
    doctor.show([warning(text, text, text, text)], every=True)
    return capsys.readouterr().out


def of_difference(text: str, capsys: pytest.CaptureFixture[str]) -> str:
    record = {
        "series": text,
        "window_end": None,
        "left": {"status": text, "kind": text, "hosts": [text]},
        "right": text,
    }
    rows = replay_diff.differences({"differences": [record]}, "scores")
    output.print_table("first differences", ["", "window", "series", "left", "right"], rows, ["window"])
    return capsys.readouterr().out


def of_quarantine(text: str) -> str:
    return quarantine.escaped(text.encode("utf-8", "surrogatepass")) + quarantine.line_of({"headers": text})


def of_templates(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    file, terminal = folder / "app.log", io.StringIO()
    file.write_text(text + "\n", encoding="utf-8", errors="replace", newline="")
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stdout", terminal)
    template_files.mine(file, output.rows_on_stdout())
    return terminal.getvalue()


def of_messages(text: str, capsys: pytest.CaptureFixture[str]) -> str:
    output.print_line(text)
    output.report(text)
    output.print_error(text)
    output.print_table(text, ["a"], [[text]])
    printed = capsys.readouterr()
    return printed.out + printed.err


def test_a_name_in_a_pipe_is_not_broken_in_two(capsys: pytest.CaptureFixture[str]) -> None:
    """So `kappa savepoint list | grep NAME` finds it, however many columns there are."""
    name = "before-the-upgrade-of-friday"
    output.print_table("savepoints", ["name"] * 7, [[name] * 7])
    assert capsys.readouterr().out.count(name) == 7


def of_logs(text: str, capsys: pytest.CaptureFixture[str]) -> str:
    logs.configure()
    structlog.get_logger().error("record quarantined", reason=text, names=[text])
    return capsys.readouterr().err


@pytest.mark.parametrize("text", ATTACKS.values(), ids=ATTACKS)
def test_no_text_reaches_a_terminal_that_it_obeys_or_does_not_show(
    text: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output.out, "width", 4000)
    seen = {
        "watch": of_watch(text),
        "savepoint list": of_savepoints(text, capsys),
        "doctor": of_doctor(text, capsys),
        "replay diff": of_difference(text, capsys),
        "quarantine": of_quarantine(text),
        "messages": of_messages(text, capsys),
        "logs": of_logs(text, capsys),
        "pages": words.plain(text).replace(words.JOINER, "") + words.code(text),
        "templates": of_templates(text, tmp_path, monkeypatch),
    }
    found = {where: UNSEEN.findall(shown.replace("\n", "")) for where, shown in seen.items()}
    assert {where: what for where, what in found.items() if what} == {}
    if text == ATTACKS["markup of rich"]:
        assert all(text in seen[where] for where in ("watch", "savepoint list", "doctor", "replay diff"))
    if text == ATTACKS["a line of its own"]:
        for lines in ("watch", "messages", "logs"):
            assert not any(line.startswith("kappa: all") for line in seen[lines].splitlines())
        for table in ("savepoint list", "replay diff"):
            assert "evil?kappa: all is well" in seen[table], "nothing looks like a row that is none"


@pytest.mark.parametrize("text", HARMLESS)
def test_text_of_any_language_is_shown_as_it_is(text: str) -> None:
    assert printable(text) == text


@given(st.text())
def test_what_is_printable_is_one_line_of_the_same_length_of_characters_that_are_seen(text: str) -> None:
    shown = printable(text)
    assert len(shown) == len(text)
    assert len(shown.splitlines()) <= 1
    assert not {unicodedata.category(c) for c in shown} & {"Cc", "Cs", "Zl", "Zp"}
    assert printable(shown) == shown
    assert printable_lines(text).count("\n") == text.count("\n")


def test_no_character_of_format_is_shown_but_those_that_are_drawn() -> None:
    formats = {chr(i) for i in range(sys.maxunicode + 1) if unicodedata.category(chr(i)) == "Cf"}
    drawn = ("NUMBER", "SIGN", "EGYPTIAN", "ARABIC", "SYRIAC", "SHORTHAND")  # signs that stand around others
    assert [c for c in formats if not UNSEEN.match(c) and not any(word in unicodedata.name(c) for word in drawn)] == []


def test_rows_for_a_program_are_unchanged_and_json_is_ascii(capsys: pytest.CaptureFixture[str]) -> None:
    output.rows_on_stdout().write("a\x1b[31m\n")
    output.print_json({"reason": "a\x1b[31m\u202e\ue000"})
    rows, _, answer = capsys.readouterr().out.partition("\n")
    assert rows == "a\x1b[31m"
    assert answer.isascii() and "\x1b" not in answer
    assert json.loads(answer) == {"reason": "a\x1b[31m\u202e\ue000"}
