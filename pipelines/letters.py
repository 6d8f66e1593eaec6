"""Dead letters, `letters` for short: records of the topic `dead-letters`, about a record that a job refuses or an output too large for the log.

Within a job a dead letter is text: the JSON of `RefusedRecord` with a member `value`, the record's first bytes in base64.
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


def dead_letter_text(value: bytes, **source: Any) -> str:
    """The text of a dead letter about a record with this value; `source` has the fields of `RefusedRecord` but the last two."""
    about = plain(RefusedRecord.about(value, **source))
    return json.dumps(about | {"value": base64.b64encode(value[:LETTER_BYTES]).decode()})


def value_column(text: Column) -> Column:
    """The value of a dead letter, from its text: the first bytes of the refused record."""
    return F.unbase64(F.get_json_object(text, "$.value"))


def headers_column(text: Column) -> Column:
    """The headers of a dead letter, from its text, as Spark's Kafka sink takes them."""
    return header_array({name: F.coalesce(F.get_json_object(text, f"$.{name}"), F.lit("None")) for name in FIELDS})


def header_array(fields: dict[str, Column]) -> Column:
    """An array of Kafka headers of the fields of `RefusedRecord`, in their order."""
    own = (header(f"{HEADER}{name}", fields[name]) for name in FIELDS)
    return F.array(*own).cast(HEADERS)


def header(name: str, value: Column) -> Column:
    """A Kafka header."""
    return F.struct(F.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))


def replace_oversized(records: DataFrame, dead_letters: str, stage: str) -> DataFrame:
    """Records for Kafka (`OUTPUT`), where each that has more than `MOST_BYTES` is replaced by a dead letter.

    All records are bounded by design (docs/architecture.md, how large a record can be). This is a safeguard: a record that the producer refuses
    would end the job at each start.
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
        F.when(too_large, header_array(fields)).otherwise(F.col("headers")).alias("headers"),
    )
