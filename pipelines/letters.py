"""Letters: what becomes of a record that a job refuses, and of an output that is too large for the log.

A letter on its way through a job is text: the JSON of `RefusedRecord` with a member `value`, the record's first bytes in
base64. It becomes a record of the topic `dead-letters` where the job writes.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from models.records.records import HEADER, LETTER_BYTES, RefusedRecord
from models.records.schema import fields_of, plain

HEADERS = "array<struct<key:string,value:binary>>"
OUTPUT = ("topic", "partition", "key", "value", "headers")
# Bytes of key and value of a record that a job writes, so that it fits with the defaults of every broker and producer.
MOST_BYTES = 1_000_000
FIELDS = tuple(fields_of(RefusedRecord))


def letter(value: bytes, **source: Any) -> str:
    """A letter about the record with this value; `source` has the fields of `RefusedRecord` but the last two."""
    about = plain(RefusedRecord.about(value, **source))
    return json.dumps(about | {"value": base64.b64encode(value[:LETTER_BYTES]).decode()})


def value_of(text: Column) -> Column:
    """The bytes of a letter."""
    return F.unbase64(F.get_json_object(text, "$.value"))


def headers_of(text: Column) -> Column:
    """The headers of a letter, as Kafka's sink wants them."""
    return headers({name: F.coalesce(F.get_json_object(text, f"$.{name}"), F.lit("None")) for name in FIELDS})


def headers(fields: dict[str, Column]) -> Column:
    """Kafka's headers of the fields of `RefusedRecord`, in their order."""
    own = (header(f"{HEADER}{name}", fields[name]) for name in FIELDS)
    return F.array(*own).cast(HEADERS)


def header(name: str, value: Column) -> Column:
    """A Kafka header."""
    return F.struct(F.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))


def within_bounds(records: DataFrame, dead_letters: str, stage: str) -> DataFrame:
    """Records for Kafka (`OUTPUT`), where each that has more than `MOST_BYTES` is a letter instead.

    Every job's records are bounded by what they are made of (docs/architecture.md): this is for what nobody has thought of, as
    a record that the producer refuses would end the job at each start.
    """
    size = F.octet_length("value") + F.coalesce(F.octet_length("key"), F.lit(0))
    too_large = F.coalesce(size > MOST_BYTES, F.lit(False))
    reason = F.concat(F.lit("an output of "), size.cast("string"), F.lit(f" bytes, wanted at most {MOST_BYTES}"))
    unknown = F.lit("None")
    fields = {
        "record": F.lit(RefusedRecord.KIND),
        "topic": F.col("topic"),
        "partition": F.coalesce(F.col("partition").cast("string"), unknown),
        "offset": unknown,
        "timestamp": unknown,
        "reason": reason,
        "stage": F.lit(stage),
        "length": F.octet_length("value"),
        "sha256": F.sha2("value", 256),
    }
    return records.select(
        F.when(too_large, F.lit(dead_letters)).otherwise(F.col("topic")).alias("topic"),
        F.when(~too_large, F.col("partition")).alias("partition"),
        F.when(~too_large, F.col("key")).alias("key"),
        F.when(too_large, F.substring("value", 1, LETTER_BYTES)).otherwise(F.col("value")).alias("value"),
        F.when(too_large, headers(fields)).otherwise(F.col("headers")).alias("headers"),
    )
