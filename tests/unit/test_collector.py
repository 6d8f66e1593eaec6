"""The collector: canonical readings; through rotation no line is lost or doubled; lines are read as they are."""

from __future__ import annotations

import bz2
import glob
import gzip
import json
import lzma
import os
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from itertools import pairwise
from pathlib import Path
from threading import Event
from time import tzset
from typing import BinaryIO
from zoneinfo import ZoneInfo

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.log_headers import HEADERS, MESSAGES

from app.collector.collector import (
    MOST_DEVICES,
    MOST_MOUNTS,
    MOST_WAITING,
    MachineMetrics,
    collect,
    encoded,
    first_devices,
    is_image,
    observed,
    wait_for_room,
)
from app.collector.links import led_to
from app.collector.log_tail import LEFT_SECONDS, LONGEST_LINE, LogTail, log_event, opened
from app.collector.patterns import matching
from app.core.errors import SettingsError
from app.core.timestamps import iso_millis
from app.kafka.heartbeats import Heartbeats, heartbeat
from models.templates.extraction import template_of
from pipelines.errors import ServiceUnavailable
from pipelines.windowing import WindowingConfig

NOW = 1_767_600_000_123  # 2026-01-05T08:00:00.123Z
NOBODY = {"bootstrap_servers": "127.0.0.1:1", "bootstrap_timeout_ms": 300, "request_timeout_ms": 200}


def texts(tail: LogTail, most: int = 5_000) -> list[str]:
    return [line for _, line in tail.read(most)]


def append(path: Path, data: str | bytes) -> None:
    with path.open("ab") as file:
        file.write(data if isinstance(data, bytes) else data.encode())


# --- readings


def test_the_first_reading_comes_at_once_and_later_ones_have_processor_shares_that_sum_to_all() -> None:
    machine = MachineMetrics()
    assert not [r for r in machine.read() if r.name.startswith("system.cpu")]
    before = sum(os.times()[:2])
    while sum(os.times()[:2]) - before < 0.1:  # the kernel counts processor time in hundredths of a second
        pass
    readings = machine.read()
    modes = [r.value for r in readings if r.name == "system.cpu.time.percent"]
    (total,) = [r.value for r in readings if r.name == "system.cpu.utilization"]
    assert sum(modes) == pytest.approx(100, abs=0.1)
    assert 0 < total <= 100


def test_of_many_devices_those_with_hardware_are_measured_and_the_others_by_name() -> None:
    containers = [f"cali{n:04d}" for n in range(2 * MOST_DEVICES)]
    found = first_devices([*containers, "eth0", "ens3"], lambda name: name.startswith("e"))
    assert found == [*containers[: MOST_DEVICES - 2], "ens3", "eth0"]
    assert first_devices(["b", "a"], lambda _: False) == ["a", "b"]


def test_of_many_mounts_images_as_snaps_are_come_after_disks() -> None:
    mounts = {f"/snap/core/{n}": f"/dev/loop{n}" for n in range(2 * MOST_MOUNTS)} | {"/": "", "/srv": "/dev/sdb1"}
    found = first_devices(mounts, lambda name: not is_image(mounts[name]), MOST_MOUNTS)
    assert len(found) == MOST_MOUNTS
    assert (found[0], found[-1]) == ("/", "/srv")


def test_readings_cover_the_machine_and_say_what_is_cumulative() -> None:
    readings = {reading.name: reading for reading in MachineMetrics().read()}
    for name in ("memory.used", "swap.used.percent", "load.1m", "disk.used.percent", "processes.count", "uptime"):
        assert f"system.{name}" in readings
    assert readings["system.uptime"].counter
    assert not readings["system.memory.used"].counter
    assert readings["system.memory.used"].value <= psutil.virtual_memory().total
    assert {r.counter for name, r in readings.items() if name.endswith((".read.bytes", ".receive.bytes"))} <= {True}


def test_no_two_readings_of_a_moment_are_the_same_series() -> None:
    named = [(r.name, *sorted(r.labels.items())) for r in MachineMetrics().read()]
    assert len(named) == len(set(named))


def test_an_event_is_canonical() -> None:
    machine = MachineMetrics()
    events = [reading.event("here", NOW) for reading in machine.read()]
    for event in events:
        assert list(event)[:4] == ["@timestamp", "host.name", "metric.name", "metric.value"]
        assert event["@timestamp"] == "2026-01-05T08:00:00.123Z"
        assert set(event) <= {"@timestamp", "host.name", "metric.name", "metric.value", "labels", "metric.type"}
        assert isinstance(event["metric.value"], int | float)
        assert json.loads(encoded(event)) == event
    assert {event.get("metric.type", "counter") for event in events} == {"counter"}


def test_readings_come_every_interval_and_missed_ones_are_not_made_up_for(tmp_path: Path) -> None:
    now = 0
    read_at = []
    turns = observed(MachineMetrics(), LogTail([str(tmp_path / "a.log")]), "h", 10, lambda: now)
    for moment in (0, 5_000, 9_999, 10_000, 12_000, 95_000, 96_000, 99_999, 100_000):
        now = moment
        while (turn := next(turns))[0] == "telemetry":
            assert {event["@timestamp"] for event in turn[1]} == {iso_millis(moment)}
            read_at.append(moment)
    assert read_at == [0, 10_000, 95_000, 100_000]


def test_readings_go_on_where_the_clock_is_set_back(tmp_path: Path) -> None:
    now = 0
    read_at = []
    turns = observed(MachineMetrics(), LogTail([str(tmp_path / "a.log")]), "h", 10, lambda: now)
    for moment in (900_000_000, 100_000, 109_999, 110_000, 109_000, 118_999, 119_000):
        now = moment
        while next(turns)[0] == "telemetry":
            read_at.append(moment)
    assert read_at == [900_000_000, 100_000, 110_000, 109_000, 119_000]


# --- tailing


def test_what_was_there_is_skipped_and_what_comes_is_read_once(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    append(log, "old\n")
    tail = LogTail([str(log)])
    assert texts(tail) == []
    append(log, "new 1\nnew 2\n")
    assert texts(tail) == ["new 1", "new 2"]
    assert texts(tail) == []
    assert texts(LogTail([str(log)], from_start=True)) == ["old", "new 1", "new 2"]


def test_a_file_that_comes_later_is_read_from_its_beginning(tmp_path: Path) -> None:
    tail = LogTail([str(tmp_path / "*.log"), str(tmp_path / "sub" / "b.log")])
    assert texts(tail) == []
    append(tmp_path / "a.log", "first\n")
    (tmp_path / "sub").mkdir()
    append(tmp_path / "sub" / "b.log", "second\n")
    append(tmp_path / "c.txt", "not wanted\n")
    assert sorted(texts(tail)) == ["first", "second"]


def test_a_half_written_line_waits_for_its_end(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    tail = LogTail([str(log)], from_start=True)
    append(log, "whole\nha")
    assert texts(tail) == ["whole"]
    append(log, "lf\r\n\n  \n")
    assert texts(tail) == ["half"]


@pytest.mark.parametrize("pattern", ["a.log", "a.log*"])
def test_rotation_by_renaming_loses_and_doubles_nothing(tmp_path: Path, pattern: str) -> None:
    log = tmp_path / "a.log"
    tail = LogTail([str(tmp_path / pattern)], from_start=True)
    append(log, "1\n")
    assert texts(tail) == ["1"]
    append(log, "2\nlast without end")
    log.rename(tmp_path / "a.log.1")
    append(log, "3\n")
    append(tmp_path / "a.log.1", "\n")
    assert sorted(texts(tail)) == ["2", "3", "last without end"]
    append(log, "4\n")
    assert texts(tail) == ["4"]


def test_what_is_written_to_a_renamed_file_until_its_writer_opens_the_new_one_is_read(tmp_path: Path) -> None:
    log, old, now = tmp_path / "a.log", tmp_path / "a.log.1", 0.0
    append(log, "1\n")
    tail = LogTail([str(log)], from_start=True, clock=lambda: now)
    assert texts(tail) == ["1"]
    log.rename(old)
    append(log, "")
    for now, line in ((0.0, "2"), (0.5, "3"), (LEFT_SECONDS - 1.0, "4")):  # noqa: B007 - it is the tail's clock
        assert texts(tail) == []
        append(old, f"{line}\n")
        assert texts(tail) == [line]
    append(old, "unfinished")
    assert texts(tail) == []
    now += LEFT_SECONDS - 1
    assert texts(tail) == []
    now += 1
    assert texts(tail) == ["unfinished"]
    append(old, " and no longer followed\n")
    append(log, "5\n")
    assert texts(tail) == ["5"]
    tail.close()


def test_a_file_in_the_place_of_a_renamed_one_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    append(log, "1\n")
    tail = LogTail([str(log)], from_start=True)
    assert texts(tail) == ["1"]
    log.rename(tmp_path / "a.log.1")
    log.symlink_to(log)
    for line in ("2", "3"):
        append(tmp_path / "a.log.1", f"{line}\n")
        assert (texts(tail), list(tail.unreadable)) == ([line], [str(log)])
    tail.close()


def test_a_line_cut_off_by_deletion_is_given_when_the_file_is_gone(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    tail = LogTail([str(log)], from_start=True)
    append(log, "1\nunfinished")
    assert texts(tail) == ["1"]
    log.unlink()
    assert texts(tail) == ["unfinished"]
    append(log, "again\n")
    assert texts(tail) == ["again"]


def test_a_truncated_file_is_read_from_its_beginning(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    tail = LogTail([str(log)], from_start=True)
    append(log, "a long line before\nand a part")
    assert texts(tail) == ["a long line before"]
    log.write_text("short\n", encoding="utf-8")
    assert texts(tail) == ["short"]


RUN = "starts\nlistens on port 80\ncannot bind\n"


@pytest.mark.parametrize("again", ["starts\nlistens on port 81\nhas ended\n", "later run\n" * 9])
def test_a_file_that_is_truncated_and_written_to_its_old_size_or_more_is_read_from_its_beginning(
    tmp_path: Path, again: str
) -> None:
    log = tmp_path / "a.log"
    log.write_text("before\n")
    tail = LogTail([str(log)])
    assert texts(tail) == []
    for run in (RUN, again, RUN):
        written = log.stat().st_mtime_ns
        log.write_text(run)
        os.utime(log, ns=(log.stat().st_atime_ns, written + 1_000_000_000))
        assert texts(tail) == run.splitlines()
        assert texts(tail) == []


@pytest.mark.parametrize("data", ["a line\n", "a line\nand a part", "x" * 300 + "\n", ""])
def test_what_is_written_on_or_has_another_time_is_read_once(tmp_path: Path, data: str) -> None:
    log = tmp_path / "a.log"
    append(log, data)
    tail = LogTail([str(log)], from_start=True)
    found = texts(tail)
    os.utime(log, ns=(log.stat().st_atime_ns, log.stat().st_mtime_ns + 1_000_000_000))  # before the size, as in a write
    found += texts(tail)
    append(log, " goes on\n")
    assert found + texts(tail) == f"{data} goes on".split("\n")


def test_a_file_that_was_not_written_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "a.log"
    append(log, "a line\n")
    tail = LogTail([str(log)], from_start=True)
    assert texts(tail) == ["a line"]
    monkeypatch.setattr("app.collector.log_tail.bytes_before", None)
    assert texts(tail) == []


def test_a_file_whose_name_is_no_text_ends_nothing(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.log")).write_text("it is done\n")
    tail = LogTail([str(tmp_path / "*.log")], from_start=True)
    ((path, line),) = tail.read()
    tail.close()
    found = json.loads(encoded(log_event(line, path, "h", NOW)))
    assert (found["service.name"], found["message"]) == ("caf?", "it is done")


def test_invalid_bytes_are_replaced_and_endless_lines_are_cut(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    tail = LogTail([str(log)], from_start=True)
    append(log, b"caf\xe9 \xff\n" + b"x" * (5 * LONGEST_LINE) + b"\nafter\n")
    found = texts(tail)
    assert found[0] == "caf\ufffd \ufffd"
    assert len(found[1]) <= LONGEST_LINE
    assert set(found[1]) == {"x"}
    assert found[2:] == ["after"]


def test_no_more_lines_are_taken_than_there_is_room_for_and_the_rest_waits(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    lines = [f"line {i} {'.' * 500}" for i in range(4000)]
    append(log, "\n".join(lines) + "\n")
    tail = LogTail([str(log)], from_start=True)
    first = texts(tail, most=100)
    assert 100 <= len(first) < 1000
    rest = [line for _ in range(50) for line in texts(tail, most=100)]
    assert first + rest == lines


def test_what_cannot_be_opened_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    (tmp_path / "loop.log").symlink_to(tmp_path / "loop.log")
    append(tmp_path / "a.log", "fine\n")
    tail = LogTail([str(tmp_path / "a.log"), str(tmp_path / "*.log")], from_start=True)
    assert texts(tail) == ["fine"]
    assert list(tail.unreadable) == [str(tmp_path / "loop.log")]


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="wants a file of Linux that can be opened and not read")
@pytest.mark.parametrize("from_start", [True, False])
def test_a_file_that_cannot_be_read_ends_nothing_and_is_named(tmp_path: Path, from_start: bool) -> None:
    (tmp_path / "a.log").symlink_to("/proc/self/mem")
    append(tmp_path / "b.log", "before\n")
    tail = LogTail([str(tmp_path / "*.log")], from_start=from_start)
    found = texts(tail)
    append(tmp_path / "b.log", "after\n")
    assert found + texts(tail) == (["before", "after"] if from_start else ["after"])
    assert list(tail.unreadable) == [str(tmp_path / "a.log")]
    (tmp_path / "a.log").unlink()
    assert (texts(tail), tail.unreadable) == ([], {})
    tail.close()


def test_an_endless_line_holds_up_no_other_file(tmp_path: Path) -> None:
    with (tmp_path / "a.log").open("wb") as hole:
        hole.truncate(1 << 40)
    append(tmp_path / "b.log", "fine\n")
    tail = LogTail([str(tmp_path / "*.log")], from_start=True)
    assert texts(tail) + texts(tail) == ["fine"]
    append(tmp_path / "b.log", "still\n")
    assert texts(tail) + texts(tail) == ["still"]
    tail.close()


def test_a_file_that_is_written_faster_than_it_is_read_holds_up_no_other_one(tmp_path: Path) -> None:
    append(tmp_path / "a.log", "much\n" * 10_000)
    append(tmp_path / "b.log", "fine\n")
    tail = LogTail([str(tmp_path / "*.log")], from_start=True)
    turns = [texts(tail, most=10) for _ in range(2)]
    assert "fine" in turns[1]
    tail.close()


def test_links_in_a_circle_make_no_endless_number_of_paths(tmp_path: Path) -> None:
    (tmp_path / "sub" / "x").mkdir(parents=True)
    for name in ("a", "b"):
        (tmp_path / name).symlink_to(".")
        (tmp_path / "sub" / name).symlink_to(tmp_path)
    for name in ("top", "sub/under", "sub/x/below"):
        append(tmp_path / f"{name}.log", f"{name}\n")
    for pattern in ("**/*.log", "**/**/*.log", "**/x/../**/*.log", "*/*/*/*/*/*/*/*/*/*/*/*/**/*.log"):
        tail = LogTail([str(tmp_path / pattern)], from_start=True)
        assert sorted(texts(tail)) == ["sub/under", "sub/x/below", "top"]
        assert len(matching(str(tmp_path / pattern), lambda *_: None)) == 3
        tail.close()


def test_patterns_match_what_the_shell_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("web/old", "db", ".git", "[x]"):
        Path(folder).mkdir(parents=True)
        for name in ("a.log", "b.txt", ".c.log"):
            append(Path(folder, name), "x\n")
    append(Path("a.log"), "x\n")
    several = ("*.log", "*/*.log", "**/*.log", "**", "./**/a.log", "web/**", "**/old/*", "w*/**/[ab].*")
    for pattern in (*several, ".*/*.log", "[[]x]/*.log", "web/../db/*", "no/**", "web", "no", "web/**/old/**/*"):
        for each in (pattern, str(tmp_path / pattern)):
            by_glob = glob.glob(each, recursive=True)  # noqa: PTH207 - it is compared with this
            wanted = {os.path.realpath(path) for path in by_glob if Path(path).is_file()}
            found = [path for path in matching(each, lambda *_: None) if Path(path).is_file()]
            assert {os.path.realpath(path) for path in found} == wanted, each
            assert len(found) == len(wanted), each


def test_a_pattern_that_matches_too_much_is_named_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.collector.patterns.MOST_PATHS", 10)
    for number in range(20):
        (tmp_path / f"{number:02}").mkdir()
        append(tmp_path / f"{number:02}" / "a.log", "x\n")
    tail = LogTail([str(tmp_path / "**" / "*.log")], from_start=True)
    assert texts(tail)
    assert tail.unreadable == {str(tmp_path / "**" / "*.log"): "it matches more than 10 files and folders"}
    tail.close()


@pytest.mark.parametrize("from_start", [True, False])
def test_a_quiet_file_that_was_out_of_reach_goes_on_where_it_was_left(tmp_path: Path, from_start: bool) -> None:
    folder, now = tmp_path / "share", 0.0
    folder.mkdir()
    append(folder / "a.log", "1\n")
    tail = LogTail([str(folder / "*.log")], from_start=from_start, clock=lambda: now)
    assert texts(tail) == (["1"] if from_start else [])
    append(folder / "a.log", "2\n")
    assert texts(tail) == ["2"]
    folder.rename(tmp_path / "away")
    assert texts(tail) == []
    now += LEFT_SECONDS
    assert texts(tail) == []
    append(tmp_path / "away" / "a.log", "3\n")
    (tmp_path / "away").rename(folder)
    assert texts(tail) == ["3"]
    tail.close()


@pytest.mark.parametrize("rewritten", ["9\n", "another file, longer than it was\n"])
def test_another_file_under_the_inode_of_one_that_was_left_is_read_from_its_beginning(
    tmp_path: Path, rewritten: str
) -> None:
    log, now = tmp_path / "a.log", 0.0
    append(log, "1\n2\n")
    tail = LogTail([str(log)], from_start=True, clock=lambda: now)
    assert texts(tail) == ["1", "2"]
    log.rename(tmp_path / "b")
    assert texts(tail) == []
    now += LEFT_SECONDS
    assert texts(tail) == []
    (tmp_path / "b").write_text(rewritten)
    (tmp_path / "b").rename(log)
    assert texts(tail) == [rewritten.strip()]
    tail.close()


def test_a_file_for_which_there_was_no_room_is_followed_from_where_it_ended_at_first(tmp_path: Path) -> None:
    for name in ("a", "b"):
        append(tmp_path / f"{name}.log", "old\n")
    tail = LogTail([str(tmp_path / "*.log")], most_files=1)
    assert texts(tail) == []
    append(tmp_path / "b.log", "new\n")
    append(tmp_path / "c.log", "whole\n")
    (tmp_path / "a.log").unlink()
    assert texts(tail) + texts(tail) == ["new"]
    (tmp_path / "b.log").unlink()
    assert texts(tail) + texts(tail) == ["whole"]
    tail.close()


def test_a_file_that_could_not_be_opened_at_first_is_followed_from_where_it_ended_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "a.log"
    append(log, "old\n")

    def refused(*_: object) -> BinaryIO:
        raise PermissionError(13, "Permission denied")

    tail = LogTail([str(log)])
    with monkeypatch.context() as patch:
        patch.setattr("app.collector.log_tail.opened", refused)
        assert (texts(tail), list(tail.unreadable)) == ([], [str(log)])
    append(log, "new\n")
    assert texts(tail) == ["new"]
    tail.close()


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress, bz2.compress])
def test_a_file_that_rotation_has_compressed_is_left_out_and_named(
    tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    log, rotated, packed = tmp_path / "a.log", tmp_path / "a.log.2", compress(random.Random(1).randbytes(20_000))
    tail = LogTail([str(tmp_path / "a.log*")], from_start=True)
    append(log, "one\n")
    assert texts(tail) == ["one"]
    for part in (packed[:100], packed[100:]):
        append(rotated, part)
        append(log, "more\n")
        assert texts(tail) == ["more"]
    assert tail.unreadable == {str(rotated): "it is compressed"}
    tail.close()


def test_what_is_remembered_of_files_that_are_not_open_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.collector.log_tail.MOST_REMEMBERED", 3)
    for number in range(9):
        append(tmp_path / f"{number}.log", "old\n")
    tail = LogTail([str(tmp_path / "*.log")], most_files=1)
    assert texts(tail) == []
    assert len(tail._left) == 3
    tail.close()


def test_more_files_than_a_process_may_have_open_are_left_out_and_named(tmp_path: Path) -> None:
    for number in range(20):
        append(tmp_path / f"{number:02}.log", f"{number}\n")
    tail = LogTail([str(tmp_path / "*.log")], from_start=True, most_files=5)
    assert texts(tail) == ["0", "1", "2", "3", "4"]
    assert set(tail.unreadable.values()) == {"5 files are followed already"}
    for number in range(3):
        (tmp_path / f"{number:02}.log").unlink()
    assert texts(tail) + texts(tail) == ["5", "6", "7"]
    tail.close()


NOBODY_ELSE, SOMEBODY = 65_534, 65_533  # users that own nothing else here
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes links of other users")


@as_root
@pytest.mark.parametrize(
    ("link", "target", "is_followed"),
    [
        (SOMEBODY, 0, False),
        (SOMEBODY, NOBODY_ELSE, False),
        (SOMEBODY, SOMEBODY, True),
        (0, NOBODY_ELSE, True),
    ],
)
@pytest.mark.parametrize("of_folder", [False, True])
def test_a_link_is_followed_where_who_made_it_may_say_what_is_read(
    tmp_path: Path, link: int, target: int, is_followed: bool, of_folder: bool
) -> None:
    watched, secret = tmp_path / "watched", tmp_path / "others"
    watched.mkdir()
    secret.mkdir()
    append(secret / "a.log", "root:secret\n")
    made = watched / ("folder" if of_folder else "a.log")
    made.symlink_to(secret if of_folder else secret / "a.log")
    os.chown(secret, target, -1)
    os.chown(secret / "a.log", target, -1)
    os.lchown(made, link, -1)
    tail = LogTail([str(watched / "**" / "*.log")], from_start=True)
    assert texts(tail) == (["root:secret"] if is_followed else [])
    assert bool(tail.unreadable) != is_followed
    tail.close()


@as_root
def test_no_link_gives_the_log_of_another_service_another_name(tmp_path: Path) -> None:
    append(tmp_path / "auth.log", "accepted\n")
    (tmp_path / "evil.log").symlink_to(tmp_path / "auth.log")
    os.lchown(tmp_path / "evil.log", SOMEBODY, -1)
    tail = LogTail([str(tmp_path / "*.log")], from_start=True)
    assert tail.read() == [(str(tmp_path / "auth.log"), "accepted")]
    assert list(tail.unreadable) == [str(tmp_path / "evil.log")]
    tail.close()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system does not say where an open file lies")
def test_a_folder_that_becomes_a_link_while_a_file_in_it_is_opened_leads_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("own", "others"):
        (tmp_path / folder).mkdir()
        append(tmp_path / folder / "a.log", folder)

    def exchanged(path: str) -> str:
        found = led_to(path)
        (tmp_path / "own").rename(tmp_path / "own before")
        (tmp_path / "own").symlink_to(tmp_path / "others")
        return found

    monkeypatch.setattr("app.collector.log_tail.led_to", exchanged)
    with pytest.raises(OSError, match="another file"):
        opened(str(tmp_path / "own" / "a.log"))


def test_paths_lead_where_the_system_says(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    append(tmp_path / "a" / "b" / "x", "")
    (tmp_path / "up").symlink_to("a/b/../b/./../../a")
    (tmp_path / "a" / "far").symlink_to(tmp_path / "up" / "b")
    for path in ("a/b/x", "up/b/x", "a/far/x", "a/far/../far/x", "a/../up/b/x"):
        assert led_to(str(tmp_path / path)) == os.path.realpath(tmp_path / path)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(OSError, match="symbolic links"):
        led_to(str(tmp_path / "loop"))


def test_a_file_that_has_become_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.log")
    with pytest.raises(OSError, match="no regular file"):
        opened(str(tmp_path / "a.log"))


@given(
    lines=st.lists(st.text(st.characters(exclude_characters="\n\r\x00", codec="utf-8"), max_size=12), max_size=12),
    cuts=st.lists(st.integers(0, 200), max_size=5),
)
def test_however_a_file_is_written_its_lines_are_read(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], cuts: list[int]
) -> None:
    log = tmp_path_factory.mktemp("cuts") / "a.log"
    data = "".join(line + "\n" for line in lines).encode()
    tail = LogTail([str(log)], from_start=True)
    found: list[str] = []
    edges = sorted({0, len(data), *(min(c, len(data)) for c in cuts)})
    for low, high in pairwise(edges):
        append(log, data[low:high])
        found += texts(tail)
    tail.close()
    assert found == [line for line in lines if line.strip()]


# --- what a line says


def event_of(line: str, path: str = "/logs/app.log") -> tuple[str, str, str, str]:
    event = log_event(line, path, "h", NOW, UTC)
    assert list(event) == ["@timestamp", "host.name", "service.name", "log.level", "message"]
    return event["@timestamp"], event["service.name"], event["log.level"], event["message"]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("just text", ("2026-01-05T08:00:00.123Z", "app", "info", "just text")),
        ("WARN slow disk", ("2026-01-05T08:00:00.123Z", "app", "warn", "WARN slow disk")),
        (
            "<11>1 2026-01-05T07:59:58.5Z host postgres 42 ID1 [a b=\"c\"] out of space",
            ("2026-01-05T07:59:58.500Z", "postgres", "error", "out of space"),
        ),
        (
            '<165>1 2026-01-05T07:59:59Z host app - - [x@1 a="\\]" b="2"][y@1] \ufeffBOM and brackets',
            ("2026-01-05T07:59:59.000Z", "app", "info", "BOM and brackets"),
        ),
        ("<14>1 - host - - - - no time", ("2026-01-05T08:00:00.123Z", "app", "info", "no time")),
        (
            "<30>Jan  5 07:59:57 host sshd[77]: session opened",
            ("2026-01-05T07:59:57.000Z", "sshd", "info", "session opened"),
        ),
        (
            "Dec 31 23:59:59 host cron: error: it failed",
            ("2025-12-31T23:59:59.000Z", "cron", "error", "error: it failed"),
        ),
        (
            "2026-01-05 07:59:56,250 ERROR boom",
            ("2026-01-05T07:59:56.250Z", "app", "error", "2026-01-05 07:59:56,250 ERROR boom"),
        ),
        (
            "2026-01-05T09:59:56+02:00 host kernel[0]: hello",
            ("2026-01-05T07:59:56.000Z", "kernel", "info", "hello"),
        ),
        (
            '2026-01-05T07:59:56Z {"level":"warn"}',
            ("2026-01-05T07:59:56.000Z", "app", "warn", '2026-01-05T07:59:56Z {"level":"warn"}'),
        ),
        (
            "2026-99-99T00:00:00Z no such day",
            ("2026-01-05T08:00:00.123Z", "app", "info", "2026-99-99T00:00:00Z no such day"),
        ),
    ],
)  # fmt: skip
def test_time_service_and_level_are_read_where_the_line_has_them(line: str, wanted: tuple[str, str, str, str]) -> None:
    assert event_of(line) == wanted


@pytest.mark.parametrize(
    ("path", "service"),
    {
        "/var/log/app.log.1": "app",
        "/var/log/app-2026-01-05.log": "app",
        "/var/log/server-2026-01-04T18-30-00.000.log": "server",
        "/var/log/pods/default_web-7d9c_5f/nginx/0.log": "nginx",
        f"/var/log/containers/web-7d9c_default_nginx-{'0a' * 32}.log": "nginx",
        "/var/log/postgresql-16-main.log": "postgresql-16-main",
        "/var/log/.hidden.log": "hidden",
        "/var/log/2026-01-05.log": "log",
    }.items(),
)
def test_the_service_of_a_line_that_names_none_is_that_of_its_file_whatever_its_date(path: str, service: str) -> None:
    assert event_of("text", path)[1] == service


@pytest.mark.parametrize("header", HEADERS)
def test_a_line_has_the_template_that_its_text_has(header: str) -> None:
    for message in MESSAGES:
        assert template_of(event_of(header + message)[3]) == template_of(header + message) == template_of(message)


def test_times_without_a_zone_are_in_the_given_zone() -> None:
    east = timezone(timedelta(hours=2))
    assert log_event("2026-01-05 10:00:00 x", "a", "h", NOW, east)["@timestamp"] == "2026-01-05T08:00:00.000Z"


@pytest.mark.parametrize("zone", ["Z", " Z", "UTC", " UTC", " GMT", "+0000", " +0000", " +00:00"])
def test_a_zone_behind_a_time_is_honoured(zone: str) -> None:
    east, time = timezone(timedelta(hours=2)), f"2026-01-05 07:59:56,250{zone}"
    lines = {"[77] LOG:  text": "x", "LOG: text: more": "x", "host app[1]: text": "app"}
    for rest, service in lines.items():
        event = log_event(f"{time} {rest}", "/a/x.log", "h", NOW, east)
        assert (event["@timestamp"], event["service.name"]) == ("2026-01-05T07:59:56.250Z", service)
    assert log_event(f"[{time}] text", "a", "h", NOW, east)["@timestamp"] == "2026-01-05T07:59:56.250Z"


@pytest.mark.parametrize("word", ["CET", "IST", "UTC+1", "UTCX", "-7000", "-12", "+"])
def test_a_word_behind_a_time_that_is_no_certain_zone_is_none(word: str) -> None:
    east = timezone(timedelta(hours=2))
    event = log_event(f"2026-01-05 09:59:56 {word} [77] text", "a", "h", NOW, east)
    assert event["@timestamp"] == "2026-01-05T07:59:56.000Z"


BERLIN = ZoneInfo("Europe/Berlin")
SET_BACK, SET_FORWARD = (datetime(2026, month, day, 1, tzinfo=UTC) for month, day in ((10, 25), (3, 29)))


@pytest.mark.parametrize("form", ["%Y-%m-%d %H:%M:%S x", "%Y-%m-%dT%H:%M:%S,000 x", "%b %d %H:%M:%S h app: x"])
@pytest.mark.parametrize("changed", [SET_BACK, SET_FORWARD])
@pytest.mark.parametrize("minutes", [-61, -59, -1, 0, 1, 59, 61])
@pytest.mark.parametrize("own_zone", [True, False])
def test_lines_have_the_right_time_in_the_hours_when_clocks_are_changed(
    form: str, changed: datetime, minutes: int, own_zone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = changed + timedelta(minutes=minutes, seconds=-1)
    line, read = written.astimezone(BERLIN).strftime(form), round(1000 * (written.timestamp() + 2))
    if own_zone:
        with monkeypatch.context() as patch:
            patch.setenv("TZ", "Europe/Berlin")
            tzset()
            event = log_event(line, "a", "h", read)
        tzset()
    else:
        event = log_event(line, "a", "h", read, BERLIN)
    assert event["@timestamp"] == iso_millis(read - 2_000)


@pytest.mark.parametrize(
    "time", ["0001-01-01T00:00:00", "9999-12-31T23:59:59", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"]
)
@pytest.mark.parametrize("zone", [None, UTC, ZoneInfo("America/New_York"), ZoneInfo("Pacific/Kiritimati")])
def test_a_line_at_the_ends_of_the_calendar_has_the_time_at_which_it_was_read(time: str, zone: tzinfo | None) -> None:
    for line in (f"{time} hello", f"{time} web app: hello", f"<34>1 {time} web app 1 - - hello"):
        assert log_event(line, "a", "h", NOW, zone)["@timestamp"] == iso_millis(NOW)


@given(st.text(max_size=300))
def test_any_line_becomes_an_event(line: str) -> None:
    event = log_event(line, "/x/y.log", "h", NOW, UTC)
    assert datetime.fromisoformat(event["@timestamp"]).tzinfo is not None
    assert event["log.level"] in {"trace", "debug", "info", "warn", "error", "fatal"}
    assert event["service.name"]


@given(st.integers(0, 4_102_444_800_000))
def test_iso_times_keep_their_milliseconds(at: int) -> None:
    assert round(datetime.fromisoformat(iso_millis(at)).timestamp() * 1000) == at
    assert json.loads(heartbeat(at)) == {"record": "heartbeat", "@timestamp": iso_millis(at)}


# --- without a broker


class AwayBroker:
    """An outbox that is full for a while; files are written and rotated away meanwhile."""

    def __init__(self, log: Path, looks: int) -> None:
        self.log, self.looks, self.rotated = log, looks, 0

    def settle(self) -> int:
        if self.rotated == self.looks:
            return 0
        append(self.log, f"{self.rotated}\n")
        self.log.rename(self.log.with_name(f"{self.rotated}.old"))
        if self.rotated:
            self.log.with_name(f"{self.rotated - 1}.old").unlink()
        self.rotated += 1
        append(self.log, "")
        return MOST_WAITING


def test_files_that_are_rotated_away_while_kafka_is_away_are_read_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.collector.collector.ROOM_SECONDS", 0.001)
    monkeypatch.setattr("app.collector.collector.POLL_SECONDS", 0.001)
    tail = LogTail([str(tmp_path / "a.log")])
    assert texts(tail) == []
    append(tmp_path / "a.log", "")
    assert texts(tail) == []
    assert wait_for_room(AwayBroker(tmp_path / "a.log", looks=5).settle, tail, Event())
    append(tmp_path / "a.log", "back\n")
    assert sorted(texts(tail)) == ["0", "1", "2", "3", "4", "back"]
    tail.close()


def test_who_waits_for_room_is_stopped_at_once(tmp_path: Path) -> None:
    stop = Event()
    stop.set()
    assert not wait_for_room(AwayBroker(tmp_path / "a.log", looks=5).settle, LogTail([]), stop)


@pytest.mark.parametrize(
    "start",
    [
        lambda: collect(NOBODY, {"telemetry": "telemetry", "logs": "logs"}, Event()),
        lambda: Heartbeats(NOBODY, ["telemetry"], WindowingConfig()).start(),
    ],
)
def test_a_broker_that_is_not_there_is_one_line_that_says_what_to_do(start: Callable[[], object]) -> None:
    with pytest.raises(ServiceUnavailable, match=r"127\.0\.0\.1:1.*kappa up") as caught:
        start()
    assert "\n" not in str(caught.value)


def test_an_interval_of_no_length_is_refused() -> None:
    with pytest.raises(SettingsError, match="interval is 0"):
        collect(NOBODY, {}, Event(), interval=0)
