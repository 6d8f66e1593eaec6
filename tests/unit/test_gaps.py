"""Records that retention deleted before they were read: offset logs, gaps, and the sentences about them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.settings import Settings
from app.kafka import data_loss
from app.kafka.checkpoints import ConsumedOffsets, consumed_offsets
from app.kafka.data_loss import SavepointSummary, describe_missing, gap_headers
from app.kafka.offset_ranges import (
    OffsetGap,
    OffsetRange,
    RecreatedPartition,
    describe_gaps,
    find_gaps,
    find_gaps_since,
    find_recreated,
)
from app.kafka.topic_marks import LogMarks, TopicMark
from pipelines import failures
from pipelines.errors import DeterminismViolation, InputError

HOUR = 3_600_000
NOON = 1_767_614_400_000  # 2026-01-05T12:00:00Z
ABOUT = {"batchWatermarkMs": 0, "batchTimestampMs": NOON, "conf": {"spark.sql.shuffle.partitions": "2"}}


def checkpoint(folder: Path, batches: dict[int, list[str]], done: list[int], begins: list[str] = []) -> Path:  # noqa: B006
    """A checkpoint as Spark writes it: lines of sources by batch, batches that are done, where sources began."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    for batch, lines in batches.items():
        text = "\n".join(["v1", json.dumps(ABOUT | {"batchWatermarkMs": NOON - HOUR if batch else 0}), *lines])
        (folder / "offsets" / str(batch)).write_text(text)
        (folder / "offsets" / f".{batch}.crc").write_bytes(b"crc")
    for batch in done:
        (folder / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    for source, offsets in enumerate(begins):
        (folder / "sources" / str(source)).mkdir(parents=True)
        (folder / "sources" / str(source) / "0").write_text("\0v1\n" + offsets)
    return folder


def test_a_job_goes_on_where_its_last_batch_that_is_done_ended(tmp_path: Path) -> None:
    lines = {
        9: ['{"telemetry":{"0":90}}', '{"telemetry":{"1":91}}', "-"],
        10: ['{"telemetry":{"0":100}}', '{"telemetry":{"1":101}}', '{"logs":{"0":7}}'],
        11: ['{"telemetry":{"0":110}}', '{"telemetry":{"1":111}}', '{"logs":{"0":8}}'],
    }
    planned = consumed_offsets(checkpoint(tmp_path / "planned", lines, [9, 10]))
    whole = consumed_offsets(checkpoint(tmp_path / "whole", lines, [9, 10, 11]))
    none_yet = consumed_offsets(checkpoint(tmp_path / "none", lines, [9]))
    assert planned is not None and whole is not None and none_yet is not None
    assert planned.offsets == {("telemetry", 0): 100, ("telemetry", 1): 101, ("logs", 0): 7}
    assert whole.offsets == {("telemetry", 0): 110, ("telemetry", 1): 111, ("logs", 0): 8}
    assert none_yet.offsets == {("telemetry", 0): 90, ("telemetry", 1): 91}
    assert whole.at_ms == NOON - HOUR, "the records' own time, where there is a watermark"


def test_a_job_that_never_ended_a_batch_begins_where_its_sources_did(tmp_path: Path) -> None:
    begun = checkpoint(tmp_path / "begun", {0: ['{"novelties":{"0":50,"1":60}}']}, [], ['{"novelties":{"0":5,"1":0}}'])
    assert consumed_offsets(begun) == ConsumedOffsets({("novelties", 0): 5, ("novelties", 1): 0})
    assert consumed_offsets(tmp_path / "never") is None
    first = consumed_offsets(checkpoint(tmp_path / "first", {0: ['{"novelties":{"0":50}}']}, [0]))
    assert first == ConsumedOffsets({("novelties", 0): 50}, NOON), "the time of the batch, without a watermark"


@pytest.mark.parametrize("text", ["v2\n{}\n{}", "v1", "", "v1\nno json\n-"])
def test_a_checkpoint_that_cannot_be_read_is_one_line_that_names_it(tmp_path: Path, text: str) -> None:
    folder = checkpoint(tmp_path / "own", {3: []}, [3])
    (folder / "offsets" / "3").write_text(text)
    with pytest.raises(InputError) as error:
        consumed_offsets(folder)
    assert str(folder) in str(error.value)
    assert "\n" not in str(error.value)


@given(
    read=st.dictionaries(st.integers(0, 5), st.integers(0, 40), min_size=1),
    held=st.dictionaries(st.integers(0, 5), st.tuples(st.integers(0, 40), st.integers(0, 40))),
)
def test_a_gap_is_every_offset_that_is_neither_read_nor_there(
    read: dict[int, int], held: dict[int, tuple[int, int]]
) -> None:
    progress = ConsumedOffsets({("t", part): offset for part, offset in read.items()})
    extents = {("t", part): OffsetRange(begins, begins + more) for part, (begins, more) in held.items()}
    found = find_gaps(progress, extents)
    lost = {(gap.partition, at) for gap in found for at in range(gap.first or 0, gap.last + 1)}
    deleted = {(part, at) for (_, part), extent in extents.items() for at in range(extent.begins)}
    assert lost == {(part, at) for part, at in deleted if part in read and at >= read[part]}
    assert all(gap.first is not None and gap.first <= gap.last for gap in found)


@given(first=st.integers(0, 30), more=st.integers(0, 30), known=st.integers(-1, 70))
def test_what_comes_after_known_offsets_of_a_gap_is_the_rest_of_it(first: int, more: int, known: int) -> None:
    rest = OffsetGap("t", 0, first, first + more).after(known)
    left = set(range(rest.first or 0, rest.last + 1)) if rest is not None else set()
    assert left == {at for at in range(first, first + more + 1) if at > known}


def test_a_topic_that_ends_before_what_was_read_was_recreated() -> None:
    progress = ConsumedOffsets({("t", 0): 10, ("t", 1): 10, ("t", 2): 10, ("t", 3): 0})
    extents = {("t", 0): OffsetRange(0, 9), ("t", 1): OffsetRange(0, 10)}
    assert find_recreated(progress, extents) == [RecreatedPartition("t", 0, 10, 9), RecreatedPartition("t", 2, 10, 0)]


def test_a_time_is_reached_where_nothing_was_deleted_or_an_older_record_is_left() -> None:
    extents = {
        ("t", 0): OffsetRange(0, 9),
        ("t", 1): OffsetRange(5, 9, NOON - 1),
        ("t", 2): OffsetRange(5, 9, NOON + 1),
        ("t", 3): OffsetRange(5, 5),
    }
    assert find_gaps_since(NOON, extents) == [
        OffsetGap("t", 2, None, 4, NOON, NOON + 1),
        OffsetGap("t", 3, None, 4, NOON, None),
    ]


# --- sentences

LOST = OffsetGap("telemetry", 1, 300, 1199, NOON, NOON + HOUR)


def test_a_gap_is_described_in_one_sentence_with_place_time_and_what_to_do() -> None:
    text = describe_gaps("extract", "live", [LOST, LOST])
    for word in (
        "extract",
        "telemetry/1",
        "offset 1200",
        "300 to 1199",
        "2026-01-05T12:00:00Z to 2026-01-05T13:00:00Z",
        "1 more",
        "kappa run extract --accept-gap",
        "savepoint",
        "kappa recover",
    ):
        assert word in text
    assert "\n" not in text


def test_the_record_of_a_gap_has_the_headers_of_a_dead_letter() -> None:
    headers = dict(gap_headers("extract", LOST))
    assert headers == {
        "kappa.record": b"refused",
        "kappa.topic": b"telemetry",
        "kappa.partition": b"1",
        "kappa.offset": b"300",
        "kappa.timestamp": str(NOON).encode(),
        "kappa.reason": b"gap: offsets 300 to 1199 of telemetry/1 were deleted before they were read, about "
        b"2026-01-05T12:00:00Z to 2026-01-05T13:00:00Z",
        "kappa.stage": b"extract",
        "kappa.length": b"0",
        "kappa.sha256": b"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    }
    empty = OffsetGap("logs", 0, 3, 5)
    assert empty.reason.endswith("about the beginning to now")
    assert int(dict(gap_headers("index", empty))["kappa.timestamp"]) > NOON


def test_added_partitions_are_described_with_how_to_go_on() -> None:
    settings = Settings(home=Path("nowhere"))

    def marks(**counts: int) -> LogMarks:
        return {settings.topic(kind): TopicMark("id", {p: (9, 0) for p in range(n)}) for kind, n in counts.items()}

    with pytest.raises(DeterminismViolation) as error:
        data_loss.check_partitions(settings, marks(telemetry=2, logs=3, labels=1))
    text = str(error.value)
    for word in (
        "logs",
        "3 partitions",
        "began with 2",
        "kappa savepoint create",
        "topics.logs_partitions",
        "kappa run all --savepoint NAME --replace",
    ):
        assert word in text
    data_loss.check_partitions(settings, marks(telemetry=2, logs=2, labels=1, changes=1, statistics=4))
    data_loss.check_partitions(settings, marks(logs=3, labels=2), inputs=False)
    with pytest.raises(DeterminismViolation, match="labels has 2 partitions, wanted 1"):
        data_loss.check_partitions(settings, marks(telemetry=2, logs=2, labels=2))
    with pytest.raises(
        DeterminismViolation, match=r"incidents has 5 partitions, .* began with 4: .*`kappa recover` makes it"
    ):
        data_loss.check_partitions(settings, marks(incidents=5), inputs=False)


def test_missing_records_are_described_with_where_a_replay_can_begin_and_which_savepoint_would_do() -> None:
    topics = frozenset({"telemetry", "logs"})
    points = [
        SavepointSummary("early", NOON + HOUR + 59_000, topics),
        SavepointSummary("of-others", NOON + HOUR + 61_000, frozenset({"other-telemetry"})),
        SavepointSummary("right", NOON + HOUR + 62_000, topics),
        SavepointSummary("later", NOON + 2 * HOUR, topics),
    ]
    other = OffsetGap("logs", 0, None, 41, NOON, NOON + HOUR // 2)
    text = describe_missing([LOST, other], points, skew_seconds=60)
    for word in (
        "telemetry/1 begins at offset 1200",
        "wanted offset 300",
        "from 2026-01-05T13:00:00Z",
        "savepoint right",
    ):
        assert word in text
    assert "wanted 2026-01-05T12:00:00Z" in describe_missing([other], [])
    assert describe_missing([other], []).endswith("there is no savepoint")
    assert describe_missing([LOST], points[:2]).endswith("no savepoint would do")
    empty = describe_missing([OffsetGap("logs", 0, 3, 5)], points)
    assert "nothing is left" in empty and empty.endswith("no savepoint would do")
    assert "\n" not in text


def test_savepoints_are_read_from_their_manifests_oldest_first(tmp_path: Path) -> None:
    for name, text in {
        "b": json.dumps({"watermark": 2000, "topics": {"telemetry": "x-telemetry", "logs": "x-logs"}}),
        "a": json.dumps({"watermark": 3000, "topics": {}}),
        "torn": "{",
        "other": "[]",
    }.items():
        (tmp_path / "savepoints" / name).mkdir(parents=True)
        (tmp_path / "savepoints" / name / "manifest.json").write_text(text)
    found = data_loss.savepoint_summaries(tmp_path)
    assert found == [
        SavepointSummary("b", 2000, frozenset({"x-telemetry", "x-logs"})),
        SavepointSummary("a", 3000, frozenset()),
    ]
    assert data_loss.savepoint_summaries(tmp_path / "none") == []


# --- what a task raised

TRACE = """[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted due to stage failure. SQLSTATE: XXKST
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "pipelines/jobs/correlate.py", line 118, in add_statement
    raise DeterminismViolation(msg) from error
pipelines.errors.DeterminismViolation: novelties: 'x' is neither an episode event nor a watermark message (Expecting value); wanted what detect writes

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)
Caused by: java.lang.Exception: pipelines.errors.InputError: another one, further down
"""


def test_an_error_of_ours_in_a_trace_is_that_error_in_one_line() -> None:
    found = failures.raised_kappa_error(RuntimeError(TRACE + "\tat x.y\n" * 10_000))
    assert type(found) is DeterminismViolation
    assert str(found) == (
        "novelties: 'x' is neither an episode event nor a watermark message (Expecting value); wanted what detect writes"
    )


@pytest.mark.parametrize(
    "text", ["java.lang.OutOfMemoryError", "see pipelines.errors.DeterminismViolation: no", "pipelines.errors.Path: no"]
)
def test_other_errors_stay_what_they_are(text: str) -> None:
    assert failures.raised_kappa_error(RuntimeError(text)) is None
    assert not failures.is_data_loss(RuntimeError(text))


@pytest.mark.parametrize(("name", "absent"), [("Timeout", True), ("Disconnect", True), ("RecordTooLarge", False)])
def test_a_broker_that_does_not_answer_differs_from_one_that_refuses(name: str, absent: bool) -> None:
    error = RuntimeError(f"Job aborted: org.apache.kafka.common.errors.{name}Exception: x\n\tat a.b")
    assert failures.is_broker_unavailable(error) == absent
