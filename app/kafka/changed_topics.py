"""Adapts the offsets in a job's checkpoint to the topics that the job reads now, which a setting or a release can change.

Spark takes a topic that is no longer read for a deleted one, and a new topic that begins after offset 0 for one that has lost records. It writes
a planned batch before it finds that, so the job would fail at each start, even if the settings were set back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from kafka import TopicPartition

from app.core.atomic_files import write_durably
from app.core.report import Report, silent
from app.core.settings import Settings
from app.kafka import topics
from app.kafka.checkpoint_damage import checksum_file, discard_planned_batch
from app.kafka.checkpoints import (
    NO_OFFSET,
    last_committed,
    parse_initial_offsets,
    planned_batch,
    read_offset_log,
    unreadable,
)
from app.kafka.connection import open_consumer
from app.kafka.partitions import by_topic
from pipelines.errors import InputError

WITHOUT_STATE = ("index",)

Inputs = Sequence[tuple[str, ...]]  # names of topics, for each input of a job


def adapt_checkpoints(settings: Settings, jobs: Mapping[str, Path], report: Report = silent) -> None:
    """Let jobs continue with the topics that they read now. The jobs must not run, and their checkpoints have been mended.

    A batch that is planned with other topics is discarded. A job without a state continues at its offsets in topics that it still reads, and at
    the beginning of topics that are new to it.

    Parameters
    ----------
    settings
        Those of the version whose jobs are about to start.
    jobs
        Checkpoints by the names of jobs.
    report
        Gets a line for each checkpoint that is changed.

    Raises
    ------
    InputError
        A job with a state has read other topics, or one without a state none of those that it reads now.
    ServiceUnavailable
        Kafka does not answer.
    """
    begun = check_topics(settings, jobs)
    inputs = {job: topics.input_topics_of_job(settings, job) for job in jobs}
    for job, checkpoint in jobs.items():
        fitting = all(reads_all_of_input(line, inputs[job]) for _, _, lines in begun[job] for line in lines)
        batch = planned_batch(checkpoint)
        planned = [] if batch is None else read_offset_log(checkpoint, batch.number)[1]
        if not fitting or not all(reads_all_of_input(line, inputs[job]) for line in planned):
            discard_planned_batch(job, settings.version, checkpoint, report)
        if not fitting:
            rewrite_offsets(settings, job, begun[job], inputs[job], report)


def check_topics(settings: Settings, jobs: Mapping[str, Path]) -> dict[str, list[tuple[Path, str, list[str]]]]:
    """Where jobs go on, as `next_batch_files` returns it. Raises InputError as `adapt_checkpoints` does; changes nothing, so the jobs may run."""
    begun = {job: next_batch_files(path) for job, path in jobs.items()}
    for job, files in begun.items():
        inputs, lines = topics.input_topics_of_job(settings, job), [line for _, _, own in files for line in own]
        refuse_other_topics(settings.version, job, lines, inputs)
    return begun


def next_batch_files(checkpoint: Path) -> list[tuple[Path, str, list[str]]]:
    """The files that hold where a job's next batch begins: `(file, text before the offsets, a line of offsets for each source)`."""
    done = last_committed(checkpoint)
    try:
        if done is None:
            initial = sorted((checkpoint / "sources").glob("*/0"))
            return [(file, "\0v1\n", [parse_initial_offsets(file.read_text())]) for file in initial]
        metadata, lines = read_offset_log(checkpoint, done)
        return [(checkpoint / "offsets" / str(done), f"v1\n{json.dumps(metadata)}\n", lines)]
    except (OSError, ValueError) as error:
        raise unreadable(checkpoint, error) from error


def topics_in(line: str) -> set[str]:
    """The topics in the offsets of a source, a line of a checkpoint; none where the source has no offset yet."""
    return set() if line.strip() in ("", NO_OFFSET) else set(json.loads(line))


def matching_input(line: str, inputs: Inputs) -> tuple[str, ...]:
    """The input that has a topic in common with a source; empty where none has."""
    return next((one for one in inputs if topics_in(line) & set(one)), ())


def reads_all_of_input(line: str, inputs: Inputs) -> bool:
    """Whether a source has the same topics as its input."""
    return topics_in(line) == set(matching_input(line, inputs))


def refuse_other_topics(version: str, job: str, lines: Sequence[str], inputs: Inputs) -> None:
    """Raise InputError where a job cannot go on with the topics that it reads now."""
    for line in lines:
        if reads_all_of_input(line, inputs) or (job in WITHOUT_STATE and matching_input(line, inputs)):
            continue
        wanted = ", ".join(topic for one in inputs for topic in one)
        msg = (
            f"{job} of version {version} began with topic {min(topics_in(line))}, and would now read {wanted}: set topics.prefix back, or use "
            "another --version"
        )
        raise InputError(msg)


def rewrite_offsets(
    settings: Settings, job: str, files: Sequence[tuple[Path, str, list[str]]], inputs: Inputs, report: Report
) -> None:
    """Rewrite the offsets at which a job's next batch begins for the topics that its inputs have now."""
    read = {topic for _, _, lines in files for line in lines for topic in topics_in(line)}
    added = {topic for one in inputs for topic in one} - read
    begins = first_offsets(settings, added) if added else {}
    for file, head, lines in files:
        changed = head + "\n".join(offsets_for_topics(line, matching_input(line, inputs), begins) for line in lines)
        checksum_file(file).unlink(missing_ok=True)  # those of another content; Hadoop needs none
        write_durably(file, changed.encode())
    gone = read - {topic for one in inputs for topic in one}
    for names, what in ((gone, "is read no longer"), (added, "is read from its beginning")):
        for topic in sorted(names):
            report(f"{job} of version {settings.version}: topic {topic} {what}, as the settings or this release say")


def offsets_for_topics(line: str, wanted: Sequence[str], begins: Mapping[str, Mapping[str, int]]) -> str:
    """The offsets of a source for the topics `wanted`: its own, else those of `begins`."""
    if not topics_in(line):
        return line
    offsets = begins | json.loads(line)
    return json.dumps({topic: offsets[topic] for topic in wanted if topic in offsets}, separators=(",", ":"))


def first_offsets(settings: Settings, names: set[str]) -> dict[str, dict[str, int]]:
    """The first offset of each partition of some topics; those that do not exist are left out."""
    with open_consumer(settings) as consumer:
        parts = [
            TopicPartition(topic, p) for topic in sorted(names) for p in consumer.partitions_for_topic(topic) or ()
        ]
        found = consumer.beginning_offsets(parts) if parts else {}
    return by_topic({(part.topic, part.partition): offset for part, offset in found.items()})
