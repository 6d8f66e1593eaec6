"""Savepoints by themselves: when one is due, which ones stay, and that a failure is only reported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.core.settings import SavepointSettings, Settings
from app.core.timestamps import iso
from app.runtime.health import Health
from pipelines.errors import InputError, ServiceUnavailable
from pipelines.state import savepoint_format
from replay.savepoints import create_savepoint, periodic, savepoint_folder
from replay.savepoints.periodic import PeriodicSavepoints, automatic_name, automatic_names, last_taken_ms

NOON = 1_767_614_400_000
HOUR = 3_600_000


class Savepoints:
    """Takes savepoints that are only manifests, by a clock that a test moves."""

    def __init__(self, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
        self.settings, self.now, self.error = settings, NOON, None
        self.health = Health(60.0)
        self.periodic = PeriodicSavepoints(settings, self.health, self.take, lambda: self.now)
        monkeypatch.setattr(create_savepoint, "check_has_state", lambda _: None)

    error: Exception | None

    def take(self, settings: Settings, name: str) -> None:
        if self.error is not None:
            raise self.error
        folder = savepoint_folder.savepoints_folder(settings.home) / name
        folder.mkdir(parents=True)
        about = {"format": savepoint_format.FORMAT, "formats": savepoint_format.FORMATS, "created_at": iso(self.now)}
        (folder / savepoint_format.MANIFEST).write_text(json.dumps(about))


@pytest.fixture
def savepoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Savepoints:
    return Savepoints(Settings(home=tmp_path, savepoints=SavepointSettings(every="2h", keep=2)), monkeypatch)


def test_one_is_taken_when_it_is_due_and_the_oldest_go(savepoints: Savepoints) -> None:
    by_hand = savepoint_folder.savepoints_folder(savepoints.settings.home) / "before-upgrade"
    by_hand.mkdir(parents=True)
    for hour in range(9):
        savepoints.now = NOON + hour * HOUR
        assert 0 < savepoints.periodic.step() <= 300
    assert automatic_names(savepoints.settings, savepoints.now) == [
        automatic_name("live", NOON + hour * HOUR) for hour in (6, 8)
    ]
    assert last_taken_ms(savepoints.settings, savepoints.now) == NOON + 8 * HOUR
    assert by_hand.is_dir(), "what people have named stays"
    assert savepoints.health.summary()["savepoint"] == {"taken": iso(NOON + 8 * HOUR), "problem": ""}
    assert b"kappa_savepoint_timestamp_seconds" in savepoints.health.exposition()


def test_savepoints_of_a_clock_that_was_ahead_hold_up_none_and_go_first(savepoints: Savepoints) -> None:
    for hour in range(100_000, 100_008, 2):
        savepoints.now = NOON + hour * HOUR
        savepoints.periodic.step()
    for hour in range(0, 8, 2):
        savepoints.now = NOON + hour * HOUR
        savepoints.periodic.step()
        assert savepoints.health.summary()["savepoint"] == {"taken": iso(savepoints.now), "problem": ""}
    assert automatic_names(savepoints.settings, savepoints.now) == [
        automatic_name("live", NOON + hour * HOUR) for hour in (4, 6)
    ]


def test_a_failure_is_reported_and_tried_again(savepoints: Savepoints) -> None:
    savepoints.periodic.step()
    savepoints.now += 2 * HOUR
    for error, shown in ((ServiceUnavailable("Kafka is away"), "Kafka is away"), (ValueError("no"), "ValueError")):
        savepoints.error = error
        savepoints.periodic.step()
        assert savepoints.health.summary()["savepoint"] == {"taken": iso(NOON), "problem": shown}
        assert savepoints.health.summary()["healthy"], "the jobs are as healthy as before"
    savepoints.error = None
    savepoints.periodic.step()
    assert last_taken_ms(savepoints.settings, savepoints.now) == NOON + 2 * HOUR
    assert savepoints.health.summary()["savepoint"]["problem"] == ""


def test_a_version_that_has_just_begun_has_time(savepoints: Savepoints) -> None:
    savepoints.error = InputError("no complete window yet")
    assert savepoints.periodic.step() == periodic.NOT_YET_SECONDS
    assert savepoints.health.summary()["savepoint"] == {"taken": "never", "problem": ""}


def test_off_takes_none(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, savepoints=SavepointSettings(every="off"))
    assert settings.savepoints.every_ms is None
    with PeriodicSavepoints(settings, Health(60.0), lambda *_: pytest.fail("none is wanted")) as made:
        assert made.step() > 0


@pytest.mark.parametrize(("every", "hours"), [("30m", 0.5), ("6h", 6), ("1d", 24)])
def test_durations(every: str, hours: float) -> None:
    assert SavepointSettings(every=every).every_ms == hours * HOUR


@pytest.mark.parametrize("every", ["", "6", "0h", "-1h", "6 h", "6w"])
def test_what_is_no_duration_is_refused(every: str) -> None:
    with pytest.raises(ValueError, match="every"):
        SavepointSettings(every=every)


def test_another_versions_savepoints_do_not_count(savepoints: Savepoints) -> None:
    savepoints.take(savepoints.settings, automatic_name("live-2", NOON))
    savepoints.take(savepoints.settings, automatic_name("v2", NOON))
    assert automatic_names(savepoints.settings, savepoints.now) == []
