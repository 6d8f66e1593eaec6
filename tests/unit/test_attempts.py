"""Starts with a batch in hand are counted, and some of them are the time to search it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.core.settings import Settings
from app.kafka.checkpoint_damage import mend_all
from app.kafka.checkpoints import ConsumedOffsets, PlannedBatch, consumed_offsets, planned_batch
from app.runtime import attempts
from app.runtime.attempts import count_start
from app.runtime.poison import in_parts

BATCH = PlannedBatch(4, "hash", {("a", 0): 1}, {("a", 0): 9})


def test_the_second_start_with_a_batch_in_hand_is_to_search_it_and_then_fewer_and_fewer(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    found = []
    for start in range(1, 131):
        if count_start(settings, "extract", BATCH).due():
            found.append(start)
            attempts.note_search(settings, "extract")
    assert found == [2, 8, 32, 128]


def test_a_search_that_was_stopped_is_due_at_the_next_start(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    due = [count_start(settings, "extract", BATCH).due() for _ in range(4)]
    assert due == [False, True, True, True]


def test_after_a_kill_from_outside_the_first_search_waits_for_one_start_more(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    due = [count_start(settings, "extract", BATCH).due(killed=True) for _ in range(3)]
    assert due == [False, False, True]


def test_another_batch_or_other_offsets_are_counted_anew(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    other = PlannedBatch(4, "other", BATCH.begins, BATCH.ends)
    found = [count_start(settings, "extract", batch).starts for batch in (BATCH, BATCH, other, BATCH)]
    assert found == [1, 2, 1, 1]
    attempts.forget(settings, "extract")
    assert count_start(settings, "extract", BATCH).starts == 1
    assert count_start(settings, "detect", BATCH).starts == 1


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"batch": "4"}', '{"batch": 4, "offsets": "hash", "starts": null}']
)
def test_a_file_that_cannot_be_read_counts_as_none(tmp_path: Path, text: str) -> None:
    settings = Settings(home=tmp_path)
    file = attempts.file_of(settings, "extract")
    file.parent.mkdir(parents=True)
    file.write_text(text)
    assert count_start(settings, "extract", BATCH).starts == 1


def checkpoint(folder: Path, planned: int, done: int) -> Path:
    """A checkpoint with batches planned and committed, ten records each."""
    for name, count in (("offsets", planned), ("commits", done)):
        (folder / name).mkdir(parents=True)
        for batch in range(count):
            text = "v1\n{}\n" + json.dumps({"logs": {"0": 100 + 10 * batch}}) + "\n-\n"
            (folder / name / str(batch)).write_text(text)
    (folder / "sources" / "0").mkdir(parents=True)
    (folder / "sources" / "0" / "0").write_text('\0v1\n{"logs":{"0":90}}')
    return folder


def test_the_batch_in_hand_is_the_one_that_is_planned_and_not_committed(tmp_path: Path) -> None:
    first = planned_batch(checkpoint(tmp_path / "first", 1, 0))
    assert first is not None
    assert (first.number, first.begins, first.ends) == (0, {("logs", 0): 90}, {("logs", 0): 100})
    third = planned_batch(checkpoint(tmp_path / "third", 3, 2))
    assert third is not None
    assert (third.number, third.begins, third.ends) == (2, {("logs", 0): 110}, {("logs", 0): 120})
    assert planned_batch(checkpoint(tmp_path / "done", 3, 3)) is None
    assert planned_batch(tmp_path / "none") is None


def test_a_batch_that_is_too_much_at_once_is_planned_anew_in_parts(tmp_path: Path) -> None:
    folder, reports = checkpoint(tmp_path / "extract", 3, 2), list[str]()
    state = folder / "state" / "0" / "0"
    state.mkdir(parents=True)
    for version in (1, 2, 3):
        (state / f"{version}.changelog").write_bytes(b"x")
    batch = planned_batch(folder)
    assert batch is not None
    large = PlannedBatch(batch.number, batch.hash, {("logs", 0): 0}, {("logs", 0): 160_000})
    assert in_parts("live", "extract", folder, batch, reports.append) == {}
    assert planned_batch(folder) == batch
    assert in_parts("live", "extract", folder, large, reports.append) == {"extract": 10_000}
    assert planned_batch(folder) is None
    assert consumed_offsets(folder) == ConsumedOffsets({("logs", 0): 110})
    # What the batch had left of its state is gone with it: another batch leaves another one.
    assert sorted(file.name for file in state.iterdir()) == ["1.changelog", "2.changelog"]
    assert (tmp_path / "damaged" / "extract-1" / "offsets" / "2").exists()
    assert in_parts("live", "extract", folder, large, reports.append) == {}


def test_whoever_looks_at_a_checkpoint_before_a_start_gives_a_sign_of_life_for_each_file(tmp_path: Path) -> None:
    folder, signs = checkpoint(tmp_path / "extract", 3, 2), list[int]()
    files = [*(folder / "offsets").iterdir(), *(folder / "commits").iterdir()]
    mend_all("live", {"extract": folder}, alive=lambda: signs.append(1))
    assert len(signs) >= len(files)
