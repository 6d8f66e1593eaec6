"""The range of a run: which windows it makes, and that it reads what they are made of and what closes them."""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from contextlib import nullcontext
from pathlib import Path

import pytest

from app.cli.replay_request import range_given
from app.core.settings import Settings
from app.core.timestamps import iso_millis
from app.kafka.input_offsets import input_partitions
from app.kafka.offset_ranges import OffsetRange
from app.kafka.partitions import Partition
from app.versions.replay_manifest import Slice
from pipelines.errors import InputError
from pipelines.windowing import WindowingConfig
from replay import slices
from replay.slices import RequestedRange, resolve

START = 1_767_571_200_000  # 2026-01-05T00:00:00Z
MINUTE, HOUR = 60_000, 3_600_000
Log = dict[Partition, list[int]]  # append times


def busy(number: int) -> list[int]:
    """Heartbeats as every partition gets them while others write, stamped some milliseconds later."""
    return [at + 3 + number for at in range(START, START + HOUR, 5_000)]


def quiet(number: int) -> list[int]:
    """Heartbeats where nobody else writes: all but one partition get one a minute."""
    return busy(number) if number == 0 else [at + 3 for at in range(START, START + HOUR, MINUTE)]


@pytest.fixture(params=[busy, quiet])
def log(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Log:
    """What the input partitions hold, for `resolve`."""
    held = {part: request.param(number) for number, part in enumerate(input_partitions(Settings()))}
    ranges = {part: OffsetRange(0, len(times)) for part, times in held.items()}
    monkeypatch.setattr(slices, "open_consumer", lambda _: nullcontext(None))
    monkeypatch.setattr(slices, "offset_ranges", lambda consumer, wanted: ranges)
    monkeypatch.setattr(slices, "check_partitions", lambda settings, consumer: None)

    def found(consumer: object, ranges: object, at: int) -> dict[Partition, int]:
        return {part: bisect_left(times, at) for part, times in held.items()}

    def after(settings: Settings, consumer: object, window_end: int, ranges: object) -> dict[Partition, int]:
        return found(consumer, ranges, window_end - 1000 * settings.windowing.skew_seconds)

    monkeypatch.setattr(slices, "offsets_at_time", found)
    monkeypatch.setattr(slices, "offsets_after_window", after)
    monkeypatch.setattr(
        slices,
        "last_timestamps",
        lambda consumer, begins, ends: {
            part: held[part.topic, part.partition][end - 1] for part, end in ends.items() if begins[part] < end
        },
    )
    return held


@pytest.mark.parametrize("minutes", [1, 20, 30])
def test_a_run_to_a_time_makes_the_last_window_before_it(log: Log, minutes: int) -> None:
    """The record that closes the window is the first one after it that was appended late enough, which may be a minute later."""
    settings, to = Settings(), START + minutes * MINUTE
    found = resolve(settings, RequestedRange(to_ms=to))
    assert found.until == to
    closes = to + 1000 * settings.windowing.watermark_delay_seconds
    for part, end in found.ends.items():
        assert log[part][end - 1] >= closes > log[part][end - 2], "that record is the last one"


def test_a_run_to_a_time_that_is_not_over_yet_ends_where_the_log_does(log: Log) -> None:
    whole = resolve(Settings(), RequestedRange())
    assert resolve(Settings(), RequestedRange(to_ms=START + 2 * HOUR)) == whole


@pytest.mark.parametrize("beyond", [0, 1, 4_000, 9_999])
def test_a_run_to_a_time_and_one_from_it_make_every_window_once(log: Log, tmp_path: Path, beyond: int) -> None:
    settings = Settings(home=tmp_path, version="again")
    nothing: dict[str, str | None] = dict.fromkeys(("from_time", "to_time", "from_offsets", "to_offsets"))
    at = iso_millis(START + 30 * MINUTE + beyond)
    first = resolve(settings, range_given(settings, nothing | {"to_time": at}))
    second = resolve(settings, range_given(settings, nothing | {"from_time": at}))
    assert first.until == second.after
    assert second.until == resolve(settings, RequestedRange()).until


def test_a_piece_reads_all_that_may_be_of_its_windows_up_to_the_record_that_closes_the_last_of_them() -> None:
    windowing, part = WindowingConfig(lateness_seconds=15, skew_seconds=60, disorder_seconds=5), ("telemetry", 0)
    whole = Slice(None, HOUR, {part: 0}, {part: HOUR})  # a record each millisecond, the first at 0
    cuts = [10 * MINUTE, 20 * MINUTE]
    first, second, third = slices.slices_at(windowing, lambda at: {part: at}, whole, cuts)
    assert [(one.after, one.until) for one in (first, second, third)] == [
        (None, cuts[0]),
        (cuts[0], cuts[1]),
        (cuts[1], HOUR),
    ]
    assert [one.begins[part] for one in (first, second, third)] == [0, *(cut - 60_000 for cut in cuts)]
    assert [one.ends[part] for one in (first, second, third)] == [*(cut + 20_000 + 1 for cut in cuts), HOUR]


def test_a_run_from_a_time_reads_all_rules_unless_its_state_has_them(log: Log) -> None:
    settings, asked = Settings(), RequestedRange(from_ms=START + 30 * MINUTE)
    rules = settings.topic("rules"), 0
    scratch, state = (resolve(settings, dataclasses.replace(asked, has_state=one)).begins for one in (False, True))
    assert scratch == state | {rules: 0}
    assert min(state.values()) > 0


def test_the_first_piece_reads_from_where_the_whole_does_and_the_next_one_no_rules_of_before() -> None:
    telemetry, rules = ("telemetry", 0), ("rules", 0)
    whole = Slice(10 * MINUTE, HOUR, {telemetry: 9 * MINUTE, rules: 0}, {telemetry: HOUR, rules: HOUR})
    cut = 20 * MINUTE
    first, second = slices.slices_at(WindowingConfig(), lambda at: {telemetry: at, rules: at}, whole, [cut])
    assert first.begins == whole.begins
    assert second.begins == dict.fromkeys(whole.begins, cut - 60_000)


@pytest.mark.usefixtures("log")
def test_a_run_to_a_time_before_the_log_is_refused() -> None:
    for before in (0, HOUR):
        with pytest.raises(InputError, match="hold no record"):
            resolve(Settings(), RequestedRange(to_ms=START - MINUTE - before))


def test_the_end_of_the_range_of_an_earlier_run_is_taken_as_it_is(log: Log) -> None:
    """As `--manifest` names it: the times and the offsets."""
    whole = resolve(Settings(), RequestedRange(to_ms=START + 30 * MINUTE))
    again = RequestedRange(to_ms=whole.until, from_offsets=whole.begins, to_offsets=whole.ends)
    assert resolve(Settings(), again) == whole
    assert max(whole.ends.values()) < max(map(len, log.values()))
