"""Promotion leaves no window out: the candidate may serve only after windows of which it has read all records."""

from __future__ import annotations

import dataclasses
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from kafka import TopicPartition

from app.core.atomic_files import write_json_durably
from app.core.settings import Settings
from app.core.timestamps import iso
from app.kafka import cut_log
from app.kafka.cut_log import complete_after
from app.kafka.offset_ranges import OffsetRange
from app.versions import locks, replay_manifest, start_position
from app.versions.replay_manifest import RESULT_KINDS, ReplayManifest, Slice, SliceResult
from app.versions.serving import Serving
from pipelines.errors import InputError
from replay import promote
from replay.promote import HandoverWatch, PromotionPlan, covered_since
from replay.run import ReplayPlan
from replay.start import report_uneven_beginning

START = 1_767_571_200_000  # the append time of offset 0; each offset is a second later
DAY = 86_400_000
PARTS = {("telemetry", 0): 500_000, ("logs", 0): 90_000}
SECOND = 1_000


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A candidate in a log of a record a second, of which retention has deleted nothing."""
    log(monkeypatch, dict.fromkeys(PARTS, 0))
    return Settings(home=tmp_path, version="part")


def log(monkeypatch: pytest.MonkeyPatch, held: dict[tuple[str, int], int]) -> None:
    """Let the log hold each partition from an offset on."""
    ranges = {part: OffsetRange(begins, 1_000_000) for part, begins in held.items()}

    def first(consumer: object, parts: list[Any], begins: dict[Any, int]) -> dict[Any, int]:
        assert all(begins[part] >= held[part.topic, part.partition] for part in parts), "these are gone"
        return {part: START + begins[part] * SECOND for part in parts}

    monkeypatch.setattr(cut_log, "open_consumer", lambda _: nullcontext(None))
    monkeypatch.setattr(cut_log, "offset_ranges", lambda consumer, wanted: {part: ranges[part] for part in wanted})
    monkeypatch.setattr(cut_log, "first_timestamps", first)


def replayed(begins: dict[tuple[str, int], int], after: int | None = None) -> ReplayManifest:
    ends = {part: begin + 10_000 for part, begin in begins.items()}
    whole = Slice(after, START + 510_000 * SECOND, begins, ends)
    result = SliceResult({}, {kind: {"digest": ""} for kind in RESULT_KINDS}, 1.0)
    return ReplayManifest("part", "0.1.0", {}, {}, {}, None, whole, (whole,), (result,))


def complete_from(offset: int) -> int:
    """The end of the last window that may hold a record before the one at an offset: it may have been a minute early."""
    return START + (offset + 60 + 10) * SECOND // 10_000 * 10_000


def test_a_replay_from_offsets_covers_windows_of_which_it_has_read_all_records(settings: Settings) -> None:
    found = covered_since(settings, replayed(PARTS))
    assert found == complete_from(500_000)
    assert covered_since(settings, replayed(dict.fromkeys(PARTS, 0))) is None
    assert covered_since(settings, replayed(PARTS, after=START + DAY)) == START + DAY


def test_what_a_replay_covers_is_what_it_was_when_it_began_however_much_retention_deletes(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = dataclasses.replace(replayed(PARTS), complete_after=complete_after(settings, PARTS))
    replay_manifest.write(settings, made)
    log(monkeypatch, dict.fromkeys(PARTS, 700_000))
    kept = replay_manifest.read(settings)
    assert kept == made
    assert covered_since(settings, kept) == complete_from(500_000)
    # a manifest of a release that did not keep it: not before what the log holds now
    assert covered_since(settings, replayed(PARTS)) == complete_from(700_000)


def test_a_version_that_was_set_back_to_what_the_log_still_held_covers_that(settings: Settings) -> None:
    offsets = {"telemetry": {0: 500_000}, "logs": {0: 90_000}, "scores.part": {0: 7}}
    write_json_durably(
        settings.checkpoint("begin.json"),
        {"watermark": start_position.NO_WINDOW, "savepoint": None, "offsets": offsets},
    )
    assert covered_since(settings, None) == complete_from(500_000)


class At:
    """A version that is indexed up to a watermark."""

    def __init__(self, watermark: int) -> None:
        self._watermark = watermark

    def poll(self) -> int:
        return self._watermark

    def unindexed(self) -> int:
        return 0


def test_windows_between_a_version_that_has_stopped_and_the_candidate_are_not_left_out(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "busy", lambda *_: [])
    covers = covered_since(settings, replayed(PARTS))
    what = PromotionPlan(Settings(home=settings.home), settings, Serving(), covers, first=False)
    new: Any = At(START + 510_000 * SECOND)
    for stopped, goes_over in ((complete_from(500_000) - DAY, False), (complete_from(500_000), True)):
        old: Any = At(stopped)
        watch = HandoverWatch(what, old, new)
        if goes_over:
            assert watch.poll().agreed == stopped
        else:
            with pytest.raises(InputError, match="windows between would be missing"):
                watch.poll()


@pytest.mark.parametrize(("behind_seconds", "agrees"), [(3_600, False), (60, True), (-3_600, True)])
def test_a_candidate_takes_over_where_it_is_a_minute_behind_at_most(
    settings: Settings, behind_seconds: int, agrees: bool
) -> None:
    reached = START + 500_000 * SECOND
    old: Any = At(reached)
    new: Any = At(reached - behind_seconds * SECOND)
    what = PromotionPlan(Settings(home=settings.home), settings, Serving(), None, first=False)
    assert HandoverWatch(what, old, new).poll().agreed == (reached if agrees else None)


def test_a_partition_of_which_nothing_can_be_read_is_named(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cut_log, "first_timestamps", lambda *_: {})
    with pytest.raises(InputError, match=r"logs/0: nothing from offset 90000 on"):
        promote.covered_since(settings, replayed(PARTS))


@pytest.mark.parametrize("minutes", [20, 40])
def test_a_replay_says_where_partitions_begin_farther_apart_than_new_hosts_are_excused(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, minutes: int
) -> None:
    """Retention deletes whole segments: of a quiet partition days later than of a busy one."""
    begins = {("telemetry", 0): 500_000, ("logs", 0): 500_000 + 60 * minutes, ("rules", 0): 0}
    log(monkeypatch, begins)
    whole_after = complete_from(500_000 + 60 * minutes)
    manifest = dataclasses.replace(replayed(begins), complete_after=whole_after)
    lines: list[str] = []
    report_uneven_beginning(ReplayPlan(settings, None, manifest, None), lines.append)
    assert len(lines) == (minutes > settings.detection.grace_minutes)
    assert all("40 min apart" in line and f"--from-time {iso(whole_after)}" in line for line in lines)


def test_a_partition_of_which_nothing_is_deleted_is_not_cut_however_late_it_begins(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = {("telemetry", 0): 0, ("telemetry", 1): 1, ("logs", 0): 30}  # of the first record of each
    times = {TopicPartition(*part): START + 3_600_000 * hour for part, hour in hours.items()}
    monkeypatch.setattr(cut_log, "first_timestamps", lambda *_: times)
    ends = dict.fromkeys(hours, 1_000_000)
    few = {("telemetry", 0): 500_000, ("telemetry", 1): 0, ("logs", 0): 0}
    assert cut_log.describe_uneven_beginning(settings, few, ends) is None
    line = cut_log.describe_uneven_beginning(settings, few | {("telemetry", 1): 9}, ends)
    assert line is not None and "cut partitions up to 60 min apart" in line
