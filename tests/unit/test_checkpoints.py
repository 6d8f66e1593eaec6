"""A linked checkpoint is read as the one that it was made of, and stays when Spark deletes that one's files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from app.core.atomic_files import link_or_copy
from app.kafka.checkpoints import (
    committed_batches,
    committed_watermark,
    consumed_offsets,
    has_started,
    last_committed,
    link_checkpoint,
    offsets_after,
)


def batch(checkpoint: Path, number: int, offset: int, *, committed: bool = True) -> None:
    """As Spark writes one: where it ends, and that it is done."""
    for part in ("offsets", "commits", "state/0/1"):
        (checkpoint / part).mkdir(parents=True, exist_ok=True)
    about = json.dumps({"batchWatermarkMs": 1000 * number})
    (checkpoint / "offsets" / str(number)).write_text(f"v1\n{about}\n{json.dumps({'novelties': {'0': offset}})}")
    (checkpoint / "state/0/1" / f"{number}.zip").write_bytes(b"state")
    if committed:
        (checkpoint / "commits" / str(number)).write_text("v1\n{}")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Two batches that are done, and one that is not."""
    folder = tmp_path / "correlate"
    for number in (9, 10):
        batch(folder, number, 70 * number)
    batch(folder, 11, 999, committed=False)
    (folder / "metadata").write_text("{}")
    return folder


def test_batches_are_ordered_by_number(checkpoint: Path) -> None:
    assert committed_batches(checkpoint) == [9, 10]
    assert last_committed(checkpoint) == 10
    assert offsets_after(checkpoint, 9) == {("novelties", 0): 630}
    assert committed_watermark(checkpoint) == 10_000


def test_a_job_that_never_ran_has_no_batch(tmp_path: Path) -> None:
    nowhere = tmp_path / "detect"
    assert not has_started(nowhere)
    assert committed_batches(nowhere) == []
    assert last_committed(nowhere) is None
    assert consumed_offsets(nowhere) is None


def test_a_linked_checkpoint_outlives_the_one_that_it_was_made_of(checkpoint: Path, tmp_path: Path) -> None:
    before = consumed_offsets(checkpoint), committed_batches(checkpoint)
    copy = link_checkpoint(checkpoint, tmp_path / "copy")
    assert has_started(copy)
    shutil.rmtree(checkpoint)
    assert (consumed_offsets(copy), committed_batches(copy)) == before
    assert (copy / "state/0/1/10.zip").read_bytes() == b"state"


def test_a_checkpoint_without_metadata_can_be_linked(checkpoint: Path, tmp_path: Path) -> None:
    (checkpoint / "metadata").unlink()
    assert committed_batches(link_checkpoint(checkpoint, tmp_path / "copy")) == [9, 10]


def test_a_file_that_is_not_there_is_not_linked(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        link_or_copy(tmp_path / "gone", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
