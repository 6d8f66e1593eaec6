"""Damaged files of a real checkpoint: found, described in one line, and mended so that Spark goes on to the same results."""

from __future__ import annotations

import json
import shutil
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from app.kafka.checkpoint_damage import (
    NO_BATCH,
    bytes_problem,
    checksum_file,
    discard_planned_batch,
    find_damage,
    mend,
    mend_all,
    mend_on_error,
)
from app.kafka.checkpoints import last_committed
from pipelines.errors import InputError

pytestmark = pytest.mark.spark

JOB, VERSION = "detect", "v1"


def write_input(folder: Path, first: int, count: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(first, first + count):
        lines = [f'{{"key": {i % 3}, "value": {number}}}' for i in range(6)]
        (folder / f"{number:04d}.json").write_text("\n".join(lines))


def run(spark: SparkSession, inputs: Path, checkpoint: Path) -> dict[int, int]:
    """Read one file a batch; returns the state that the last batch with data has left: how many rows each key has had."""
    found: dict[int, int] = {}

    def keep(rows: DataFrame, _: int) -> None:
        found.update({row["key"]: row["n"] for row in rows.collect()})

    stream = spark.readStream.schema("key int, value int").option("maxFilesPerTrigger", 1).json(str(inputs))
    counted = stream.groupBy("key").agg(F.count("*").alias("n"))
    writer = counted.writeStream.outputMode("update").foreachBatch(keep).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()
    return found


@pytest.fixture(scope="module")
def original(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with inputs, and the checkpoint of a query that has read four files in four batches."""
    folder = tmp_path_factory.mktemp("damage")
    write_input(folder / "in", 0, 4)
    assert run(spark, folder / "in", folder / JOB) == {0: 8, 1: 8, 2: 8}
    assert last_committed(folder / JOB) == 3
    return folder


@pytest.fixture
def checkpoint(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original / JOB, tmp_path / JOB))


def empty(file: Path) -> None:
    file.write_bytes(b"")


def halve(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def garble(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2 :] = bytes(b ^ 0x5A for b in content[len(content) // 2 :])
    file.write_bytes(bytes(content))


def state_files(checkpoint: Path, version: int) -> list[Path]:
    found = sorted(checkpoint.glob(f"state/*/*/{version}.changelog"))
    assert found
    return found


def test_a_whole_checkpoint_has_no_damage(checkpoint: Path, tmp_path: Path) -> None:
    assert find_damage(checkpoint) is None
    assert find_damage(checkpoint, thorough=True) is None
    assert find_damage(tmp_path / "nowhere") is None
    assert bytes_problem(checkpoint / "offsets" / "3") is None
    assert checksum_file(checkpoint / "offsets" / "3").exists(), "Hadoop's checksums are there to be compared"


CASES: dict[str, tuple[Callable[[Path], Path], int]] = {
    "offsets of a batch that is done": (lambda c: c / "offsets" / "3", 2),
    "commit of the last batch": (lambda c: c / "commits" / "3", 2),
    "commit of an earlier batch": (lambda c: c / "commits" / "1", 3),
    "what the last batch has left": (lambda c: state_files(c, 4)[0], 2),
    "what an earlier batch has left": (lambda c: state_files(c, 2)[0], 0),
    "the first change of a state": (lambda c: state_files(c, 1)[0], NO_BATCH),
    "metadata": (lambda c: c / "metadata", 3),
}


@pytest.mark.parametrize("tear", [empty, halve, garble])
@pytest.mark.parametrize("case", CASES)
def test_a_torn_file_is_found_and_moved_aside(checkpoint: Path, case: str, tear: Callable[[Path], None]) -> None:
    where, after = CASES[case]
    torn = where(checkpoint)
    tear(torn)
    damage = find_damage(checkpoint)
    assert damage is not None
    assert [one.file for one in damage.files] == [torn]
    assert damage.after == after
    reported: list[str] = []
    mend(JOB, VERSION, damage, reported.append)
    assert find_damage(checkpoint, thorough=True) is None
    assert len(reported) == 1
    assert str(torn) in reported[0]
    assert last_committed(checkpoint) == (None if after == NO_BATCH else after)
    assert (checkpoint.parent / "damaged" / f"{JOB}-1" / torn.relative_to(checkpoint)).exists()


def test_spark_goes_on_after_a_mended_checkpoint_to_the_same_state(
    spark: SparkSession, original: Path, tmp_path: Path
) -> None:
    """The offsets of a batch that was planned and not done, a commit, and the state of the last batch: all torn at once."""
    shutil.copytree(original, tmp_path / "all")
    checkpoint = tmp_path / "all" / JOB
    halve(checkpoint / "commits" / "3")
    empty(state_files(checkpoint, 4)[0])
    garble(checkpoint / "metadata")
    empty(checkpoint / "offsets" / "4")
    mend_all(VERSION, {JOB: checkpoint})
    assert last_committed(checkpoint) == 2
    write_input(tmp_path / "all" / "in", 4, 1)
    # The source's own log names its files by their place in the first folder: give the query that one, with one file more.
    write_input(original / "in", 4, 1)
    assert run(spark, original / "in", checkpoint) == {0: 10, 1: 10, 2: 10}


def test_spark_goes_on_from_the_beginning_where_a_first_batch_is_planned_anew(
    spark: SparkSession, original: Path, checkpoint: Path
) -> None:
    """A first batch that ended its job again and again, after one of its tasks had written its state."""
    shutil.rmtree(checkpoint / "sources")  # the source of this test remembers there what it has read
    shutil.rmtree(checkpoint / "commits")
    for batch in (1, 2, 3):
        for file in (checkpoint / "offsets" / str(batch), checksum_file(checkpoint / "offsets" / str(batch))):
            file.unlink()
    assert discard_planned_batch(JOB, VERSION, checkpoint)
    assert not (checkpoint / "state").exists()
    assert (checkpoint.parent / "damaged" / f"{JOB}-1" / "state" / "0").exists()
    assert run(spark, original / "in", checkpoint) == run(spark, original / "in", checkpoint.with_name("scratch"))


def test_a_planned_batch_is_kept_where_only_its_commit_is_torn(checkpoint: Path) -> None:
    empty(checkpoint / "commits" / "3")
    damage = find_damage(checkpoint)
    assert damage is not None
    assert damage.aside == (checkpoint / "commits" / "3",)


def test_torn_offsets_of_a_planned_batch_take_the_state_that_it_left_with_them(checkpoint: Path) -> None:
    (checkpoint / "commits" / "3").unlink()
    empty(checkpoint / "offsets" / "3")
    damage = find_damage(checkpoint)
    assert damage is not None
    assert damage.after == 2
    assert set(damage.aside) == {checkpoint / "offsets" / "3", *state_files(checkpoint, 4)}


def test_without_a_whole_batch_one_line_says_what_to_do(checkpoint: Path) -> None:
    for batch in (0, 1, 2):  # as Spark deletes what it does not need
        for part in ("offsets", "commits"):
            (checkpoint / part / str(batch)).unlink()
    empty(checkpoint / "commits" / "3")
    with pytest.raises(InputError) as refused:
        mend_all(VERSION, {JOB: checkpoint})
    assert "kappa recover" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert (checkpoint / "commits" / "3").exists(), "nothing was changed"


def test_an_error_of_a_job_is_told_as_the_damage_that_caused_it(checkpoint: Path) -> None:
    for file in [*state_files(checkpoint, 1), *(checkpoint / "offsets").glob("0")]:
        file.unlink()
    jobs: dict[str, Any] = {JOB: checkpoint}
    with pytest.raises(InputError, match="kappa recover"), mend_on_error(VERSION, jobs):
        raise RuntimeError("Error reading delta file")
    with pytest.raises(RuntimeError), mend_on_error(VERSION, {}):
        raise RuntimeError("something else")


def broken_table(checkpoint: Path, *snapshots: int) -> None:
    """A table of the right length and with other bytes than its checksums say, in snapshots of these versions."""
    folder = state_files(checkpoint, 4)[0].parent
    table, content = folder / "SSTs" / "1.sst", b"keys and values"
    table.parent.mkdir()
    checksum_file(table).write_bytes(b"crc\0" + (512).to_bytes(4, "big") + zlib.crc32(content).to_bytes(4, "big"))
    table.write_bytes(bytes(len(content)))
    for version in snapshots:
        with zipfile.ZipFile(folder / f"{version}.zip", "w") as snapshot:
            tables = [{"dfsSstFileName": table.name, "sizeBytes": len(content)}]
            snapshot.writestr("metadata", "v1\n" + json.dumps({"sstFiles": tables}))


def test_damage_that_only_an_error_of_a_job_shows_is_mended_after_it(checkpoint: Path) -> None:
    """A start compares the lengths of large tables, not their bytes: with this damage each start would fail as the one before."""
    broken_table(checkpoint, 4)
    assert find_damage(checkpoint) is None
    with pytest.raises(RuntimeError), mend_on_error(VERSION, {JOB: checkpoint}):
        raise RuntimeError("Checksum error")
    assert find_damage(checkpoint, thorough=True) is None
    assert last_committed(checkpoint) == 3


def test_a_table_that_an_earlier_snapshot_needs_too_is_damage_of_both(checkpoint: Path) -> None:
    broken_table(checkpoint, 2, 4)
    state_files(checkpoint, 1)[0].unlink()
    damage = find_damage(checkpoint, thorough=True)
    assert damage is not None
    assert damage.after == NO_BATCH
    assert {one.file.name for one in damage.files} == {"2.zip", "4.zip"}


@pytest.mark.parametrize(("name", "after"), [("offsets/3", 2), ("state/*/*/4.changelog", 2), ("metadata", 3)])
def test_a_file_that_is_gone_is_found(checkpoint: Path, name: str, after: int) -> None:
    next(checkpoint.glob(name)).unlink()
    mend_all(VERSION, {JOB: checkpoint})
    assert last_committed(checkpoint) == after
    assert (checkpoint / "metadata").exists()
    assert find_damage(checkpoint, thorough=True) is None
