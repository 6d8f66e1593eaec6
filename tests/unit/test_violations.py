"""Violations of determinism in the file beside a version's checkpoints."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from app.core.settings import Settings
from app.versions import violations
from app.versions.start_position import set_aside
from pipelines.errors import DeterminismViolation, InputError

DROPPED = DeterminismViolation("extract: 3 rows were dropped by the watermark, wanted 0")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path)


def commit(settings: Settings, batch: int) -> Path:
    checkpoint = settings.checkpoint("extract")
    (checkpoint / "commits").mkdir(parents=True, exist_ok=True)
    (checkpoint / "commits" / str(batch)).touch()
    return checkpoint


def test_a_version_without_a_violation_is_let_start(settings: Settings) -> None:
    violations.check(settings)
    checkpoint = settings.checkpoint("extract")
    assert violations.check_before_start(settings, {"extract": checkpoint}) == {"extract": frozenset()}
    assert violations.summary(settings) == {"count": 0, "accepted": 0, "last": None}


def test_a_violation_is_kept_once_and_refuses_in_one_line(settings: Settings) -> None:
    checkpoint = commit(settings, 6)
    for _ in range(3):
        violations.remember(settings, "extract", checkpoint, DROPPED)
    [found] = violations.read(settings)
    assert (found.job, found.batch, found.accepted) == ("extract", 7, None)
    with pytest.raises(DeterminismViolation) as error:
        violations.check_before_start(settings, {"extract": checkpoint})
    for word in (
        "version live stopped at",
        "batch 7 of extract",
        "3 rows were dropped",
        "kappa replay",
        "--accept-viol",
    ):
        assert word in str(error.value)
    assert "\n" not in str(error.value)
    assert violations.summary(settings)["count"] == 1


def test_a_violation_of_a_batch_that_was_accepted_before_refuses_again(settings: Settings) -> None:
    checkpoint = commit(settings, 6)
    violations.remember(settings, "extract", checkpoint, DROPPED)
    violations.write(settings, [replace(one, accepted=1) for one in violations.read(settings)])
    violations.check(settings)
    violations.remember(settings, "extract", checkpoint, DROPPED)
    assert [one.accepted for one in violations.read(settings)] == [1, None]
    with pytest.raises(DeterminismViolation, match="batch 7 of extract"):
        violations.check(settings)


def test_violations_of_several_batches_are_all_kept_up_to_a_number(settings: Settings) -> None:
    for batch in range(violations.MOST + 5):
        violations.remember(settings, "extract", commit(settings, batch), DROPPED)
    found = violations.read(settings)
    assert [one.batch for one in found] == list(range(6, violations.MOST + 6))
    with pytest.raises(DeterminismViolation, match=f"and {violations.MOST - 1} more"):
        violations.check(settings)


def test_another_version_is_not_concerned(settings: Settings) -> None:
    violations.remember(settings, "extract", commit(settings, 1), DROPPED)
    violations.check(settings.model_copy(update={"version": "other"}))


def test_a_version_that_begins_again_from_a_savepoint_leaves_its_violations_behind(settings: Settings) -> None:
    violations.remember(settings, "extract", commit(settings, 1), DROPPED)
    set_aside(settings, ["extract", violations.FILE])
    violations.check(settings)
    assert json.loads((settings.home / "checkpoints" / "live.replaced-1" / violations.FILE).read_text())


def test_a_file_that_is_not_json_refuses_too(settings: Settings) -> None:
    violations.remember(settings, "extract", commit(settings, 1), DROPPED)
    violations.file_of(settings).write_text("{")
    with pytest.raises(InputError, match=violations.FILE):
        violations.check(settings)
