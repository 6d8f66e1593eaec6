"""From where a version begins again after a loss, and what is lost."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.small_savepoints import save, without_broker

from app.cli.recover import describe_without_problems
from app.core.atomic_files import read_json_object, write_json_durably
from app.core.settings import ControlSettings, Settings
from app.kafka import data_loss, log_marks
from app.kafka.log_marks import LogChange
from app.kafka.offset_ranges import OffsetRange
from app.kafka.topic_marks import LogMarks, TopicMark, marks_of, record_of
from app.versions import replay_manifest, serving, start_position
from app.versions.pinned_configuration import configuration_of, pin_configuration, read_pinned
from app.versions.replay_manifest import RESULT_KINDS, ReplayManifest, Slice, SliceResult
from app.versions.start_position import set_aside
from models.incidents.parameters import CorrelationParameters
from pipelines.errors import InputError
from replay import recovery
from replay.recovery import (
    LogState,
    RecoveryPlan,
    Start,
    choose_start,
    is_json,
    lost_after_reading,
    recover,
    take_savepoint,
    unreadable_files,
)
from replay.savepoints.savepoint_folder import NoStateYet

NOON = 1_767_614_400_000
HOUR = 3_600_000
PARTS = {("telemetry", 0): OffsetRange(0, 900), ("logs", 0): OffsetRange(0, 50), ("labels", 0): OffsetRange(0, 50)}
OLD = {"telemetry": TopicMark("a", {0: (100, 1)}), "scores": TopicMark("s", {0: (100, 1)})}
NEW = {"telemetry": TopicMark("a", {0: (500, 1)}), "scores": TopicMark("s", {0: (500, 1)})}


def start(name: str, hours: float, log: LogMarks) -> Start:
    at = NOON + int(hours * HOUR)
    return Start(name, Path(name), at, at, log)


STARTS = [start("new", 0, NEW), start("old", -6, OLD)]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path)


def log(changes: Sequence[LogChange] = (), held: dict[tuple[str, int], OffsetRange] | None = None) -> LogState:
    """The log with changes; since an earlier mark it has lost what that mark is beyond."""

    def since(marks: LogMarks) -> list[LogChange]:
        found = []
        for change in changes:
            mark = marks.get(change.topic)
            if mark is not None and (change.recreated or mark.ends[0][0] > change.end):
                found.append(change)
        return found

    return LogState(held or PARTS, tuple(changes), since)


def test_with_the_log_whole_it_is_the_newest_savepoint(settings: Settings) -> None:
    found, lost = choose_start(settings, log(), STARTS, whole=False)
    assert found is not None
    assert (found.name, lost) == ("new", ())


def test_without_a_savepoint_it_is_the_beginning(settings: Settings) -> None:
    found, lost = choose_start(settings, log(), [], whole=False)
    assert found is not None
    assert (found.folder, lost) == (None, ())


@pytest.mark.parametrize("topic", ["telemetry", "scores"])
def test_a_savepoint_that_holds_lost_records_is_passed_over(settings: Settings, topic: str) -> None:
    """The log of telemetry, or of scores, ends now at 300: before the newer savepoint's mark, after the older one's."""
    found, lost = choose_start(settings, log([LogChange(topic, 0, 700, 300)]), STARTS, whole=True)
    assert found is not None
    assert (found.name, lost) == ("old", ())


def test_the_beginning_where_every_savepoint_holds_lost_records(settings: Settings) -> None:
    found, lost = choose_start(settings, log([LogChange("telemetry", 0, 700, 20)]), STARTS, whole=True)
    assert found is not None
    assert (found.folder, lost) == (None, ())


def test_what_was_read_and_lost_is_named(settings: Settings) -> None:
    changes = [LogChange("telemetry", 0, 700, 300), LogChange("scores", 0, 700, 300), LogChange("logs")]
    (lost,) = lost_after_reading(settings, changes)
    assert "offsets 300 to 699" in lost.sentence
    assert "differ" in lost.sentence


def test_a_topic_of_results_that_was_made_again_needs_the_newest_savepoint_only(settings: Settings) -> None:
    found, lost = choose_start(settings, log([LogChange("scores")]), STARTS, whole=True)
    assert found is not None
    assert (found.name, lost) == ("new", ())


def test_an_input_that_was_made_again_keeps_the_state_that_there_is(settings: Settings) -> None:
    found, lost = choose_start(settings, log([LogChange("telemetry")]), STARTS, whole=True)
    assert found is None, "a savepoint of the checkpoints as they are"
    assert [one.topic for one in lost] == ["telemetry"]


def test_an_input_that_was_made_again_and_a_torn_checkpoint_go_back_to_the_newest_savepoint(settings: Settings) -> None:
    found, lost = choose_start(settings, log([LogChange("telemetry")]), STARTS, whole=False)
    assert found is not None
    assert found.name == "new"
    assert "are missing" in lost[0].sentence


def test_retention_rules_savepoints_out(settings: Settings) -> None:
    """What is left of telemetry begins an hour before noon: enough for the newer savepoint, not for the older or the beginning."""
    held = PARTS | {("telemetry", 0): OffsetRange(60, 900, NOON - HOUR)}
    found, lost = choose_start(settings, log(held=held), STARTS, whole=False)
    assert found is not None
    assert (found.name, lost) == ("new", ())
    found, lost = choose_start(settings, log(held=held), STARTS[1:], whole=False)
    assert found is not None
    assert found.name == "old"
    assert "retention" in lost[0].sentence
    found, lost = choose_start(settings, log(held=held), STARTS[1:], whole=True)
    assert found is None, "going on from the state that there is loses less"
    assert lost


def test_what_retention_has_deleted_is_named_for_each_partition(settings: Settings) -> None:
    """Of logs, which was made again, the sentence about that is enough."""
    parts = [("logs", 0), ("logs", 1), ("telemetry", 0), ("telemetry", 1)]
    held = PARTS | {part: OffsetRange(60, 900, NOON - HOUR) for part in parts}
    found, lost = choose_start(settings, log([LogChange("logs")], held), [], whole=True)
    assert found is None
    assert [(one.topic, one.partition) for one in lost] == [("logs", 0), ("telemetry", 0), ("telemetry", 1)]


def test_a_savepoint_from_before_marks_is_taken_for_what_it_may_be(settings: Settings) -> None:
    unmarked = [start("new", 0, {})]
    found, lost = choose_start(settings, log([LogChange("telemetry", 0, 700, 300)]), unmarked, whole=True)
    assert found is not None
    assert (found.folder, lost) == (None, ())


def test_marks_come_back_as_they_were_written(settings: Settings) -> None:
    log_marks.write_marks(settings, "extract", OLD)
    log_marks.write_marks(settings, "detect", NEW)
    assert log_marks.read_marks(settings) == [NEW, OLD]
    assert marks_of(record_of(NEW)) == NEW
    assert "kappa recover --dry-run" in data_loss.describe_changes("live", [LogChange("logs"), LogChange("scores")])


def test_torn_files_of_a_version_are_named_in_one_line(settings: Settings) -> None:
    file = settings.configuration_file
    for content, problem in (
        (b"", "is empty"),
        (b'{"a": ', "is not JSON"),
        (b"[1]", "holds list"),
        (b"\xff\xfe", "is not JSON"),
    ):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        with pytest.raises(InputError, match=problem) as refused:
            read_json_object(file)
        assert "\n" not in str(refused.value)
        assert not is_json(file)
        assert unreadable_files(settings) == (file,)
    write_json_durably(file, {"a": 1})
    assert read_json_object(file) == {"a": 1}
    assert unreadable_files(settings) == ()
    assert [one.name for one in file.parent.iterdir()] == [file.name], "no draft is left"


def test_what_is_set_aside_is_kept_under_the_next_number(settings: Settings) -> None:
    home = start_position.checkpoint_home(settings)
    for number in (1, 2):
        (home / "detect").mkdir(parents=True)
        (home / "detect" / "file").write_text(str(number))
        aside = set_aside(settings, ["detect", "extract"])
        assert aside == home.with_name(f"{home.name}.replaced-{number}")
        assert (aside / "detect" / "file").read_text() == str(number)
    assert set_aside(settings, ["detect"]) is None


def test_a_version_without_a_complete_window_begins_at_the_beginning_of_the_log(settings: Settings) -> None:
    lines: list[str] = []

    def take(_: Settings, name: str) -> Path:
        raise NoStateYet(name)

    assert take_savepoint(settings, take, "recovery", lines.append) is None
    assert "beginning of the log (recovery)" in lines[0]
    assert take_savepoint(settings, lambda _, name: Path(name), "recovery", lines.append) == Path("recovery")

    def damaged(_: Settings, name: str) -> Path:
        raise InputError(name)

    with pytest.raises(InputError):
        take_savepoint(settings, damaged, "recovery", lines.append)


def test_no_job_starts_before_an_interrupted_recovery_has_ended(settings: Settings) -> None:
    assert start_position.start_position(settings) is None
    write_json_durably(start_position.checkpoint_home(settings) / start_position.RECOVERY, {})
    with pytest.raises(InputError, match="run it again"):
        start_position.start_position(settings)


def nothing_taken(_: Settings, name: str) -> Path:
    raise AssertionError(name)


def test_there_is_no_moment_in_which_torn_serving_intervals_let_live_serve(settings: Settings) -> None:
    own = settings.model_copy(update={"version": "v2"})
    file = serving.file_of(own.home)
    file.parent.mkdir(parents=True)
    file.write_bytes(b'{"format": 1, "te')
    seen: list[str] = []

    def report(_: str) -> None:
        seen.append(serving.read(own.home).version)

    recover(own, RecoveryPlan(("torn",), unreadable=(file,)), nothing_taken, report)
    assert seen == ["v2"]
    assert file.with_name("serving.json.damaged").read_bytes() == b'{"format": 1, "te'


def test_a_recovery_that_is_killed_once_a_torn_start_is_moved_has_to_be_run_again(settings: Settings) -> None:
    file = start_position.checkpoint_home(settings) / "begin.json"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"{")

    def killed(_: str) -> None:
        raise KeyboardInterrupt

    what = RecoveryPlan(("torn",), start=Start("begin", None, -1, 0), unreadable=(file,))
    with pytest.raises(KeyboardInterrupt):
        recover(settings, what, nothing_taken, killed)
    assert not file.exists()
    with pytest.raises(InputError, match="run it again"):
        start_position.start_position(settings)


# --- a torn configuration.json


def with_incidents(settings: Settings, most: int) -> dict[str, Any]:
    """The configuration of the settings, with another limit of an incident."""
    own = dataclasses.replace(settings.correlation, max_episodes=most)
    return configuration_of(settings.model_copy(update={"correlation": own}))


@pytest.fixture
def torn(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A version whose settings have changed since it began, and whose configuration is torn; nothing else is wrong."""
    own = settings.model_copy(update={"version": "v2"})
    without_broker(monkeypatch, own)
    monkeypatch.setattr(recovery, "read_log_state", lambda *_: LogState({}, (), lambda _: []))
    monkeypatch.setattr(recovery, "find_offset_gaps", lambda *_: {})
    for job in start_position.JOBS_WITH_STATE:
        own.checkpoint(job).mkdir(parents=True)
    own.configuration_file.write_bytes(b"")
    return own


def savepoints_of(own: Settings) -> Path:
    return own.home / "savepoints"


def from_the_beginning(own: Settings) -> None:
    own.configuration_file.unlink()
    start_position.start_from(
        own.model_copy(update={"correlation": CorrelationParameters(max_episodes=7)}),
        save(own.home / "elsewhere", own),
        replace=True,
    )
    own.checkpoint("detect").mkdir()
    own.configuration_file.write_bytes(b"{")


def from_the_savepoint_that_it_began_from(own: Settings) -> None:
    save(own.checkpoint("begin"), own, configuration=with_incidents(own, 7))
    write_json_durably(own.checkpoint("begin.json"), {"savepoint": "before", "watermark": NOON, "offsets": {}})
    save(savepoints_of(own) / "newer", own, NOON + HOUR, with_incidents(own, 8))


def from_its_replay(own: Settings) -> None:
    save(own.checkpoint("begin"), own.model_copy(update={"version": "live"}), configuration=with_incidents(own, 6))
    part, result = Slice(None, NOON, {}, {}), SliceResult({}, {kind: {"digest": ""} for kind in RESULT_KINDS}, 1.0)
    made = ReplayManifest("v2", "0.1.0", {}, with_incidents(own, 7), {}, None, part, (part,), (result,))
    replay_manifest.write(own, made)


def from_its_newest_savepoint(own: Settings) -> None:
    save(savepoints_of(own) / "old", own, NOON, with_incidents(own, 6), "2026-01-05T12:00:00+00:00")
    save(savepoints_of(own) / "new", own, NOON, with_incidents(own, 7), "2026-01-05T13:00:00+00:00")
    broken = save(savepoints_of(own) / "broken", own, NOON, with_incidents(own, 8), "2026-01-05T14:00:00+00:00")
    (broken / "gauges.parquet").unlink()
    other = own.model_copy(update={"version": "other"})
    save(savepoints_of(own) / "other", other, NOON, with_incidents(own, 9), "2026-01-05T15:00:00+00:00")


@pytest.mark.parametrize(
    "source",
    [from_the_beginning, from_the_savepoint_that_it_began_from, from_its_replay, from_its_newest_savepoint],
)
def test_a_torn_configuration_is_written_again_as_the_version_began_with_it(torn: Settings, source: Any) -> None:
    source(torn)
    what = recovery.plan(torn)
    assert what.start is None and not what.take, "its checkpoints are whole"
    assert "again" in what.steps[0]
    recover(torn, what, nothing_taken)
    assert read_pinned(torn) == with_incidents(torn, 7)
    with pytest.raises(InputError, match=r"began with correlation.max_episodes = 7"):
        pin_configuration(torn)
    assert torn.configuration_file.with_name("configuration.json.damaged").exists()
    assert not recovery.plan(torn).problems


def test_savepoints_of_what_a_version_with_a_torn_configuration_began_with_can_be_used(torn: Settings) -> None:
    save(savepoints_of(torn) / "before", torn, NOON, with_incidents(torn, 7))
    write_json_durably(start_position.checkpoint_home(torn) / start_position.RECOVERY, {})
    what = recovery.plan(torn)
    assert what.start is not None
    assert what.start.name == "before"
    recover(torn, what, nothing_taken)
    assert read_pinned(torn) == with_incidents(torn, 7)
    assert start_position.start_position(torn) is not None


def test_where_nothing_says_what_a_version_began_with_that_is_among_the_steps(torn: Settings) -> None:
    what = recovery.plan(torn)
    assert "the settings" in what.steps[0]
    recover(torn, what, nothing_taken)
    assert read_pinned(torn) is None


# --- a topic of rules that was made again


@pytest.mark.parametrize(
    ("ends", "changes", "again"),
    [
        (40, [], False),
        (39, [], True),  # with the rules that it had an offset of 40 would be its end
        (90, [LogChange("rules")], True),
        (90, [LogChange("rules", 0, 60, 39)], True),
        (90, [LogChange("rules", 0, 60, 50)], False),
        (90, [LogChange("logs")], False),
    ],
)
def test_the_rules_of_a_topic_that_was_made_again_count_from_its_beginning(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, ends: int, changes: list[LogChange], again: bool
) -> None:
    """A version that knew rules beforehand leaves out records up to the offset at which it was made: of the new topic that is all for long."""
    own = settings.model_copy(update={"version": "v2", "control": ControlSettings(rules_from=40)})
    without_broker(monkeypatch, own)
    pin_configuration(own)
    held = {("rules", 0): OffsetRange(0, ends)}
    monkeypatch.setattr(recovery, "read_log_state", lambda *_: LogState(held, tuple(changes), lambda _: []))
    monkeypatch.setattr(recovery, "find_offset_gaps", lambda *_: {})
    what = recovery.plan(own)
    assert what.other_rules is again and (not again or what.problems)
    if not changes:  # else the recorder of losses needs a broker
        recover(own, what, lambda *_: own.home)
        kept = read_pinned(own)
        assert kept is not None and ("rules_from" in kept["control"]) is not again


def test_a_home_that_knows_nothing_of_a_version_is_not_called_well(settings: Settings) -> None:
    line = describe_without_problems(settings)
    assert f"nothing of it has run in this home, {settings.home.resolve()}" in line
    assert "--savepoints" in line and "--take-over" in line
    settings.checkpoint("extract").mkdir(parents=True)
    assert describe_without_problems(settings) == "version live: nothing is wrong with its checkpoints and its log"
