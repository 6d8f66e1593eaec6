"""A version begins after the savepoint that was named, with all of it, however often the command was interrupted before."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support.small_savepoints import NOON, save, without_broker

from app.cli.run import set_start_position
from app.core.settings import Settings, SparkSettings, TopicSettings
from app.versions import replay_manifest, serving, start_position
from app.versions.pinned_configuration import configuration_of, pin_configuration, read_pinned
from app.versions.replay_manifest import RESULT_KINDS, ReplayManifest, Slice, SliceResult
from app.versions.serving import Serving
from app.versions.start_position import link_tree, set_back
from models.incidents.parameters import CorrelationParameters
from pipelines.errors import InputError, OfAnotherRelease
from pipelines.state import savepoint_format
from replay.recovery import find_starts

JOBS = ("correlate", "detect", "extract")


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A version whose jobs have run, in a log without a broker."""
    found = Settings(home=tmp_path / "home", version="v2")
    without_broker(monkeypatch, found)
    for job in JOBS:
        found.checkpoint(job).mkdir(parents=True)
    return found


def refuse_step(monkeypatch: pytest.MonkeyPatch, name: str, number: int = 1) -> None:
    """Let the disk be full when a step of `start_position` is made for the n-th time; all others work."""
    real, calls = getattr(start_position, name), []

    def step(*arguments: object) -> object:
        calls.append(arguments)
        if len(calls) == number:
            raise OSError(28, "No space left on device")
        return real(*arguments)

    monkeypatch.setattr(start_position, name, step)


def check_begins_after(settings: Settings, watermark: int) -> None:
    """The jobs would begin after a savepoint that is whole."""
    found = start_position.start_position(settings)
    assert found is not None and found.folder is not None
    assert found.watermark == watermark
    assert savepoint_format.verify(found.folder) == []
    assert not settings.checkpoint("begin.draft").exists()


@pytest.mark.parametrize("step", ["set_aside", "write_json_durably"])
@pytest.mark.parametrize("elsewhere", [True, False])
def test_a_recovery_that_was_interrupted_is_ended_with_the_same_savepoint(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, elsewhere: bool
) -> None:
    """It was linked beside the checkpoints by then: that may be the only one that is left."""
    backup = tmp_path / "backup"
    save(backup / "before", settings)
    (first, *_) = find_starts(settings, backup)
    refuse_step(monkeypatch, step, 2 if step == "write_json_durably" else 1)
    with pytest.raises(OSError, match="No space"):
        set_back(settings, first.folder)
    assert start_position.interrupted(settings)
    again = find_starts(settings, backup if elsewhere else None)
    set_back(settings, again[0].folder)
    check_begins_after(settings, first.watermark)


@pytest.mark.parametrize("by", ["its savepoint", "its first start"])
def test_a_version_that_another_release_began_is_refused_before_its_jobs_start(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """The layout of a savepoint may be another one: the version's checkpoints are past it."""
    if by == "its savepoint":
        link_tree(save(tmp_path / "before", settings), settings.checkpoint("begin"))
    else:
        start_position.set_aside(settings, JOBS)
        start_position.check_release(settings)
        for job in JOBS:
            settings.checkpoint(job).mkdir(parents=True)
    monkeypatch.setattr(savepoint_format, "FORMAT", 99)
    start_position.check_release(settings)
    monkeypatch.setitem(savepoint_format.FORMATS, "incidents", 99)
    with pytest.raises(
        OfAnotherRelease, match=r"version v2 was .*\(state of incidents has format \d+; wanted 99\): start that one"
    ):
        start_position.check_release(settings)
    start_position.set_aside(settings, JOBS)
    start_position.check_release(settings)  # a state that begins now is of this release
    for job in JOBS:
        settings.checkpoint(job).mkdir(parents=True)
    start_position.check_release(settings)


def test_a_folder_is_not_linked_to_itself(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "file").write_text("content")
    (tmp_path / "alias").symlink_to(tmp_path / "own")
    for into in ("own", "alias"):
        with pytest.raises(ValueError, match="itself"):
            link_tree(tmp_path / "own", tmp_path / into)
    assert (tmp_path / "own" / "file").read_text() == "content"


# --- with which configuration


def promoted(settings: Settings, **changed: Any) -> Settings:
    """Settings of a deployment in which `v2` serves, which has begun with other parameters and was replayed before."""
    own = settings.model_copy(update={"correlation": CorrelationParameters(max_episodes=7)})
    pin_configuration(own)
    part = Slice(None, NOON, {}, {})
    result = SliceResult({}, {kind: {"records": 0, "digest": "0"} for kind in RESULT_KINDS}, 1.0)
    replay_manifest.write(
        own, ReplayManifest("v2", "0.1.0", {}, configuration_of(own), {}, None, part, (part,), (result,))
    )
    serving.write(own.home, Serving().then("v2", NOON))
    save(own.home / "savepoints" / "before", own)
    return Settings(home=settings.home, **changed)


def test_a_version_that_serves_keeps_its_parameters_when_it_begins_again_after_a_savepoint(settings: Settings) -> None:
    deployment = promoted(settings)
    set_start_position(deployment, "before", replace=True, follow=True)
    found = serving.to_run(deployment)
    assert (found.version, found.correlation.max_episodes) == ("v2", 7)
    assert read_pinned(found) == configuration_of(found)
    pin_configuration(found)  # as its jobs do when they start
    check_begins_after(found, NOON)


def test_a_version_that_serves_takes_other_numbers_of_partitions_when_it_begins_again(settings: Settings) -> None:
    deployment = promoted(
        settings, spark=SparkSettings(shuffle_partitions=9), topics=TopicSettings(telemetry_partitions=5)
    )
    set_start_position(deployment, "before", replace=True, follow=True)
    found = serving.to_run(deployment)
    assert (found.spark.shuffle_partitions, found.correlation.max_episodes) == (9, 7)
    pin_configuration(found)
    kept = settings.home / "checkpoints" / "v2.replaced-1" / "configuration.json"
    assert json.loads(kept.read_text())["spark"] == {"shuffle_partitions": settings.spark.shuffle_partitions}


def test_a_version_that_was_replayed_does_not_start_under_other_settings(settings: Settings) -> None:
    """Its jobs go on where the replay ended: results of two configurations would lie in the same topics."""
    for job in JOBS:
        settings.checkpoint(job).rmdir()
    promoted(settings)
    save(replay_manifest.folder_of(settings) / "state" / "0000", settings)
    with pytest.raises(InputError, match=r"began with correlation.max_episodes = 7, the settings say 200"):
        set_start_position(settings, None, replace=False)
    assert start_position.start_position(settings) is None
    own = settings.model_copy(update={"correlation": CorrelationParameters(max_episodes=7)})
    set_start_position(own, None, replace=False)
    check_begins_after(own, NOON)


def test_a_version_that_is_named_begins_again_after_a_savepoint_as_the_settings_say(settings: Settings) -> None:
    promoted(settings)
    set_start_position(settings, "before", replace=True)
    assert read_pinned(settings) == configuration_of(settings)


# --- what an interruption leaves


def names(settings: Settings) -> set[str]:
    """What is beside the checkpoints."""
    return {path.name for path in start_position.checkpoint_home(settings).iterdir()}


def test_where_the_savepoint_cannot_be_linked_nothing_has_changed(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(settings.home / "savepoints" / "before", settings)
    pin_configuration(settings)
    refuse_step(monkeypatch, "link_or_copy")
    with pytest.raises(OSError, match="No space"):
        set_start_position(settings, "before", replace=True)
    assert names(settings) >= {*JOBS, "configuration.json"}
    assert start_position.start_position(settings) is None


@pytest.mark.parametrize(("step", "number"), [("set_aside", 1), ("write_json_durably", 2), ("write_json_durably", 3)])
def test_a_version_that_was_half_set_back_does_not_start_before_that_has_ended(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, step: str, number: int
) -> None:
    """Not at the beginning of the log, nor under another configuration."""
    deployment = promoted(settings)
    with monkeypatch.context() as full:
        refuse_step(full, step, number)
        with pytest.raises(OSError, match="No space"):
            set_start_position(deployment, "before", replace=True, follow=True)
    for start in (start_position.start_position, start_position.start_after_replay):
        with pytest.raises(InputError, match="run it again"):
            start(settings)
    set_start_position(deployment, "before", replace=True, follow=True)
    check_begins_after(settings, NOON)
    assert serving.to_run(deployment).correlation.max_episodes == 7


def test_the_same_savepoint_can_be_begun_from_again_and_again(settings: Settings) -> None:
    save(settings.home / "savepoints" / "before", settings)
    for _ in range(3):
        set_start_position(settings, "before", replace=True)
        check_begins_after(settings, NOON)
        settings.checkpoint("detect").mkdir()
    assert savepoint_format.verify(settings.home / "savepoints" / "before") == []


def test_processes_that_start_at_once_after_a_replay_begin_where_it_ended(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them notes the position; the others wait, and find it noted."""
    for job in JOBS:
        settings.checkpoint(job).rmdir()
    promoted(settings)
    own = settings.model_copy(update={"correlation": CorrelationParameters(max_episodes=7)})
    save(replay_manifest.folder_of(settings) / "state" / "0000", settings)
    both, real, looked = threading.Barrier(2), start_position.first_offsets_after, []

    def first(asked: Settings, watermark: int) -> object:
        looked.append(watermark)
        with suppress(threading.BrokenBarrierError):
            both.wait(timeout=1.0)
        return real(asked, watermark)

    monkeypatch.setattr(start_position, "first_offsets_after", first)
    with ThreadPoolExecutor(2) as pool:
        for started in [pool.submit(set_start_position, own, None, replace=False) for _ in range(2)]:
            started.result()
    assert looked == [NOON]
    check_begins_after(settings, NOON)
