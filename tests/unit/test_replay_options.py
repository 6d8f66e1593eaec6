"""What `kappa replay` takes for a time or for offsets, anything else is refused in one line; and how it says how far it is."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from app.cli import output
from app.cli.replay_request import moment_of, progress, read_json
from app.core.settings import Settings
from pipelines.errors import InputError
from replay.run import ReplayProgress, with_lateness

DAY_MS = 86_400_000
NOON = 1_767_614_400_000


@pytest.mark.parametrize(
    ("text", "back"), [("14d", 14 * DAY_MS), ("2h", DAY_MS // 12), ("30m", 1_800_000), ("7s", 7_000)]
)
def test_a_time_back_from_now(text: str, back: int) -> None:
    assert moment_of("--from-time", text, NOON) == NOON - back


@pytest.mark.parametrize("text", ["999999999d", "999999999h", "100000d"])
def test_before_all_records_is_their_beginning(text: str) -> None:
    assert moment_of("--from-time", text, NOON) == 0


@pytest.mark.parametrize(
    "text",
    ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "1969-12-31T23:59:59Z", "2200-01-01T00:00:00Z"],
)
def test_a_time_that_no_record_has_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"--to-time is .* wanted a time of 1970 to 2199"):
        moment_of("--to-time", text, NOON)


@pytest.mark.parametrize("content", [b"\xff{}", b'{"a":' * 100_000, b"[1]", b"", b"{"])
def test_a_file_that_is_no_json_object_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "offsets.json"
    file.write_bytes(content)
    with pytest.raises(InputError, match="replay: --from-offsets"):
        read_json("--from-offsets", str(file))


def test_without_a_terminal_each_stage_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with progress() as on_progress:
        on_progress(ReplayProgress(0, 2, 0, 5_000, 1_767_614_400_000, "extracting"))
        on_progress(ReplayProgress(1, 2, 2_000, 5_000, 1_767_618_000_000, "detecting"))
        on_progress(ReplayProgress(2, 2, 5_000, 5_000, 1_767_618_000_000, "done"))
    first, second, last = capsys.readouterr().err.splitlines()
    assert first == "slice 1 of 2, to 2026-01-05T12:00:00Z: extracting; 0 of 5,000 events"
    assert second.startswith("slice 2 of 2, to 2026-01-05T13:00:00Z: detecting; 2,000 of 5,000 events ")
    assert second.endswith("/s")
    assert last.startswith("slice 2 of 2, to 2026-01-05T13:00:00Z: done; 5,000 of 5,000 events ")


@pytest.mark.parametrize("seconds", [3_000_000, 2_592_001, -1])
def test_records_that_are_later_than_a_version_can_admit_are_refused_in_a_line(seconds: int) -> None:
    """Of `--lateness`, and of `--include-late` where a record of the range is more than 30 days late."""
    with pytest.raises(InputError, match=rf"up to {seconds} s late .* wanted 0 to 2592000.*--lateness") as refused:
        with_lateness(Settings(), seconds)
    assert "\n" not in str(refused.value)
    assert with_lateness(Settings(), 2_592_000).windowing.lateness_seconds == 2_592_000


def test_the_rate_of_a_replay_that_is_gone_on_with_is_that_of_this_run(capsys: pytest.CaptureFixture[str]) -> None:
    now = iter([0.0, 0.0, 10.0])
    with progress(lambda: next(now)) as on_progress:
        on_progress(ReplayProgress(9, 10, 180_000, 200_000, NOON, "extracting"))
        on_progress(ReplayProgress(10, 10, 200_000, 200_000, NOON, "done"))
    first, last = capsys.readouterr().err.splitlines()
    assert first.endswith("180,000 of 200,000 events")
    assert last.endswith("200,000 of 200,000 events 2,000/s")


def test_the_time_left_is_known_where_a_step_takes_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "err", Console(file=StringIO(), force_terminal=True))
    bar, now = output.progress_bar(), [0.0]
    bar.get_time = lambda: now[0]
    task = bar.add_task("replay", total=None)
    for done in range(4):
        bar.update(task, total=10, completed=done)
        now[0] += 120.0
    (shown,) = bar.tasks
    assert shown.time_remaining == 7 * 120
