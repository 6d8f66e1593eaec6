"""The topics that a job's checkpoint names, and those that the job reads now: a setting or a release can change them.

Spark takes a topic that is read no longer for one that was deleted, and a new one that begins after offset 0 for one that has lost
records. It plans a batch before it finds that, so the job fails at each start, whatever the settings are by then.
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
from app.kafka.checkpoint_damage import checksum_file, plan_anew
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


def adapt(settings: Settings, jobs: Mapping[str, Path], report: Report = silent) -> None:
    """Let jobs go on with the topics that they read now. The jobs must not run, and their checkpoints have been mended.

    A batch that is planned with other topics is planned anew. A job without a state goes on where it was in topics that it still reads; a
    topic that is new to it is read from its beginning.

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
    begun = check(settings, jobs)
    inputs = {job: topics.inputs_of(settings, job) for job in jobs}
    for job, checkpoint in jobs.items():
        fitting = all(fits(line, inputs[job]) for _, _, lines in begun[job] for line in lines)
        batch = planned_batch(checkpoint)
        planned = [] if batch is None else read_offset_log(checkpoint, batch.number)[1]
        if not fitting or not all(fits(line, inputs[job]) for line in planned):
            plan_anew(job, settings.version, checkpoint, report)
        if not fitting:
            rewrite(settings, job, begun[job], inputs[job], report)


def check(settings: Settings, jobs: Mapping[str, Path]) -> dict[str, list[tuple[Path, str, list[str]]]]:
    """Where jobs go on, as `where_it_goes_on` has it. Raises InputError as `adapt` does; changes nothing, so the jobs may run."""
    begun = {job: where_it_goes_on(path) for job, path in jobs.items()}
    for job, files in begun.items():
        inputs, lines = topics.inputs_of(settings, job), [line for _, _, own in files for line in own]
        refuse_other_topics(settings.version, job, lines, inputs)
    return begun


def where_it_goes_on(checkpoint: Path) -> list[tuple[Path, str, list[str]]]:
    """The files that say where a job's next batch begins: each with what comes before its offsets, and a line for each source."""
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
    """The topics that a source of a checkpoint names; none where it has no offset yet."""
    return set() if line.strip() in ("", NO_OFFSET) else set(json.loads(line))


def input_of(line: str, inputs: Inputs) -> tuple[str, ...]:
    """The input that a source reads: it has a topic in common with it. Empty where there is none."""
    return next((one for one in inputs if topics_in(line) & set(one)), ())


def fits(line: str, inputs: Inputs) -> bool:
    """Whether a source has read what its input reads now."""
    return topics_in(line) == set(input_of(line, inputs))


def refuse_other_topics(version: str, job: str, lines: Sequence[str], inputs: Inputs) -> None:
    """Raise InputError where a job cannot go on with the topics that it reads now."""
    for line in lines:
        if fits(line, inputs) or (job in WITHOUT_STATE and input_of(line, inputs)):
            continue
        wanted = ", ".join(topic for one in inputs for topic in one)
        msg = (
            f"{job} of version {version} began with topic {min(topics_in(line))}, and would now read {wanted}: set topics.prefix back, or use "
            "another --version"
        )
        raise InputError(msg)


def rewrite(
    settings: Settings, job: str, files: Sequence[tuple[Path, str, list[str]]], inputs: Inputs, report: Report
) -> None:
    """Let the next batch of a job begin in the topics that its inputs have now."""
    read = {topic for _, _, lines in files for line in lines for topic in topics_in(line)}
    added = {topic for one in inputs for topic in one} - read
    begins = beginnings(settings, added) if added else {}
    for file, head, lines in files:
        changed = head + "\n".join(with_topics(line, input_of(line, inputs), begins) for line in lines)
        checksum_file(file).unlink(missing_ok=True)  # those of another content; Hadoop needs none
        write_durably(file, changed.encode())
    gone = read - {topic for one in inputs for topic in one}
    for names, what in ((gone, "is read no longer"), (added, "is read from its beginning")):
        for topic in sorted(names):
            report(f"{job} of version {settings.version}: topic {topic} {what}, as the settings or this release say")


def with_topics(line: str, wanted: Sequence[str], begins: Mapping[str, Mapping[str, int]]) -> str:
    """The offsets of a source for the topics that its input has now."""
    if not topics_in(line):
        return line
    offsets = begins | json.loads(line)
    return json.dumps({topic: offsets[topic] for topic in wanted if topic in offsets}, separators=(",", ":"))


def beginnings(settings: Settings, names: set[str]) -> dict[str, dict[str, int]]:
    """The first offset of each partition of some topics; those that do not exist are left out."""
    with open_consumer(settings) as consumer:
        parts = [
            TopicPartition(topic, p) for topic in sorted(names) for p in consumer.partitions_for_topic(topic) or ()
        ]
        found = consumer.beginning_offsets(parts) if parts else {}
    return by_topic({(part.topic, part.partition): offset for part, offset in found.items()})
