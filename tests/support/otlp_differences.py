"""Records that are read differently as OpenTelemetry's protobuf and as its JSON, or otherwise than the official decoder reads them."""

from __future__ import annotations

import random

from google.protobuf.message import DecodeError
from pyspark.sql import SparkSession
from support.otlp_messages import OF_TOPIC, Message, as_json, damaged, message
from support.reader_differences import frame_of, read

SCOPE = b"\x12"  # what a record of OTLP is recognised by, behind its first byte


def rows(spark: SparkSession, records: list[bytes], topic: str) -> list[list[str]]:
    """What is read of each record, as text, in order."""
    found: list[list[str]] = [[] for _ in records]
    for row in read(frame_of(spark, records, topic), topic).collect():
        found[row["offset"]].append(row["row"])
    return [sorted(each) for each in found]


def is_good(row: str) -> bool:
    """Whether it is a point or a line, not a reason."""
    return '"reason"' not in row


def official(topic: str, record: bytes) -> Message | None:
    """What the official decoder makes of a record; None where it refuses it."""
    try:
        decoded: Message = OF_TOPIC[topic].FromString(record)
    except DecodeError:
        return None
    return decoded


def unlike_json(spark: SparkSession, topic: str, seed: int, count: int) -> tuple[list[str], int]:
    """A sentence for each record that is not read as its twin in JSON, and how many points or lines were read."""
    source = random.Random(seed)
    made = [each for each in (message(source, topic) for _ in range(count)) if SCOPE in each.SerializeToString()]
    found = rows(spark, [each.SerializeToString() for each in made] + [as_json(each) for each in made], topic)
    pairs = zip(made, found, found[len(made) :], strict=False)
    wrong = [f"seed {seed}: {as_json(m)!r} is {one}, as JSON {two}" for m, one, two in pairs if one != two]
    return wrong, sum(map(is_good, (row for each in found[: len(made)] for row in each)))


def unlike_official(spark: SparkSession, topic: str, seed: int, count: int) -> tuple[list[str], int]:
    """A sentence for each damaged record that gives no row, several reasons, or other rows than what the official decoder
    makes of it, and how many were compared with that.

    What the decoder refuses may be read, as only that is looked at which is read; what we refuse it may read, as we are stricter.
    """
    source = random.Random(seed)
    records = [damaged(source, message(source, topic).SerializeToString()) or b"\n" for _ in range(count)]
    decoded = {i: parsed for i, record in enumerate(records) if (parsed := official(topic, record)) is not None}
    found = rows(spark, records + [as_json(each) for each in decoded.values()], topic)
    twins = dict(zip(decoded, found[count:], strict=True))
    read_well = [i for i in twins if any(map(is_good, found[i]))]
    wrong = [
        f"seed {seed}: {records[i]!r} is {found[i]}, decoded {twins[i]}" for i in read_well if found[i] != twins[i]
    ]
    for record, each in zip(records, found, strict=False):
        if not each or len(each) - sum(map(is_good, each)) > 1:
            wrong.append(f"seed {seed}: {record!r} is {each}")
    return wrong, len(read_well)
