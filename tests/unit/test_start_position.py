"""A version begins after the savepoint that was named, with all of it, however often the command was interrupted before."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.small_savepoints import save, without_broker

from app.core.settings import Settings
from app.versions import start_position
from app.versions.start_position import link_tree, set_back
from pipelines.state import savepoint_format
from replay.recovery import starts_of

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
    (first, *_) = starts_of(settings, backup)
    refuse_step(monkeypatch, step, 2 if step == "write_json_durably" else 1)
    with pytest.raises(OSError, match="No space"):
        set_back(settings, first.folder)
    assert start_position.interrupted(settings)
    again = starts_of(settings, backup if elsewhere else None)
    set_back(settings, again[0].folder)
    check_begins_after(settings, first.watermark)


def test_a_folder_is_not_linked_to_itself(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "file").write_text("content")
    (tmp_path / "alias").symlink_to(tmp_path / "own")
    for into in ("own", "alias"):
        with pytest.raises(ValueError, match="itself"):
            link_tree(tmp_path / "own", tmp_path / into)
    assert (tmp_path / "own" / "file").read_text() == "content"
