"""Rules about alarms and learning, as people write them -> rows, of which `extract` makes those of all shards.

A rule is `{"record": "rule", "name": "nightly backup", "host": "db-*", "mute": true, ...}`. Its event time is its append time: it takes
effect in the window in which it came. What is bounded here is the record; what it says is checked by the code that applies it
(`models.rules.rule_log`), in `detect`, so that both cannot disagree. Its key is its name: by another one Kafka, which compacts the topic,
would take it away although it is in effect. `app.kafka.rule_topic` holds records to that as well.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from models.detection.logged_rules import FIRST
from models.records.records import Heartbeat, RuleRecord
from models.rules.rule_log import MOST_BYTES, MOST_NAME
from pipelines.inputs.fields import CONTROL, HEARTBEAT, record_text
from pipelines.inputs.labels import OFFSET_DIGITS


def rule_lines(raw: DataFrame) -> DataFrame:
    """A row for each rule: `series` is `rule//OFFSET`, `message` the record.

    Keeps Kafka's columns but the value, which is `raw_value` of a row with a `reason`: of what cannot be read there is one. A
    heartbeat is one row of series `heartbeat`.
    """
    others = [F.col(f"`{name}`") for name in raw.columns if name != "value"]
    read = raw.select(*others, F.col("value").alias("raw_value"), record_text(F.col("value")).alias("__text"))
    shape = F.from_json(F.col("__text")["json"], "record string, name string")
    read = read.withColumn("__shape", shape)
    beat = F.coalesce(F.col("__shape")["record"] == Heartbeat.KIND, F.lit(False))
    unreadable = F.concat(F.lit("not a rule: "), F.col("__text")["reason"])
    why = F.when(~beat, problem(F.col("key"), F.col("__shape"), F.col("raw_value")))
    read = read.withColumn("reason", F.coalesce(unreadable, why))
    good = F.col("reason").isNull() & ~beat
    read = read.select(
        *others,
        F.when(F.col("reason").isNotNull(), F.col("raw_value")).alias("raw_value"),
        "reason",
        beat.alias("__beat"),
        F.when(good, F.col("__text")["json"]).alias("message"),
    )
    offset = F.lpad(F.col("offset").cast("string"), OFFSET_DIGITS, "0")
    series = F.when(F.col("message").isNotNull(), F.concat(F.lit(f"{FIRST}/"), offset))
    return read.select(
        *others,
        "raw_value",
        "reason",
        F.col("timestamp").alias("event_time"),
        F.when(F.col("__beat"), F.lit(HEARTBEAT)).otherwise(series).alias("series"),
        F.lit(None).cast("string").alias("template"),
        "message",
    )


def problem(key: Column, shape: Column, value: Column) -> Column:
    """Why a record cannot be a rule, or null. `key` and `value` are the record."""
    kind, name = shape["record"], shape["name"]
    return (
        F.when(F.octet_length(value) > MOST_BYTES, f"a rule of more than {MOST_BYTES} bytes")
        .when(
            F.coalesce(kind != RuleRecord.KIND, F.lit(True)), f'not a rule: no JSON with "record": "{RuleRecord.KIND}"'
        )
        .when(F.coalesce(F.length(name), F.lit(0)) == 0, "a rule without a name")
        .when(F.length(name) > MOST_NAME, f"a rule whose name has more than {MOST_NAME} characters")
        .when(name.rlike(CONTROL), "a rule whose name has control characters")
        .when(~key.eqNullSafe(name.cast("binary")), "a rule whose key is not its name")
    )
