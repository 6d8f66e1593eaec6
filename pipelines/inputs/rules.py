"""Rules about alarms and learning, as people write them -> rows, of which `extract` makes those of all shards.

A rule is `{"record": "rule", "name": "nightly backup", "host": "db-*", "mute": true, ...}`. Its event time is its append time: it takes
effect in the window in which it came. What is bounded here is the record; what it says is checked by the code that applies it
(`models.rules.rule_log`), in `detect`, so that both cannot disagree. Its key is its name: by another one Kafka, which compacts the topic,
would take it away although it is in effect. For the same reason a record that is refused ends the rule whose name is its key: after a
compaction nothing else is left of that rule. `app.kafka.rule_topic` reads records in the same way.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from models.detection.logged_rules import FIRST
from models.records.records import Heartbeat, RuleRecord
from models.rules.rule_log import MOST_BYTES, MOST_NAME
from pipelines.inputs.fields import CONTROL, HEARTBEAT, not_null, record_text
from pipelines.inputs.labels import OFFSET_DIGITS

COLUMNS = {"raw_value": "binary", "reason": "string", "series": "string", "template": "string", "message": "string"}


def rule_lines(raw: DataFrame) -> DataFrame:
    """Rows of each record of the topic: what is refused and why, and what `detect` is given.

    A record under a key that may be a rule's name is a row of `series` `rule//OFFSET`, with the name as its `template` and the record as its
    `message`: null where it is no rule, which ends the rule of that name. What is no rule is a row with a `reason` and the bytes as `raw_value`;
    a heartbeat is one of series `heartbeat`. Keeps Kafka's columns but the value.
    """
    others = [F.col(f"`{name}`") for name in raw.columns if name != "value"]
    read = raw.select(*others, F.col("value").alias("raw_value"), record_text(F.col("value")).alias("__text"))
    read = read.withColumn("__shape", F.from_json(F.col("__text")["json"], "record string, name string"))
    beat = F.coalesce(F.col("__shape")["record"] == Heartbeat.KIND, F.lit(False))
    unreadable = F.concat(F.lit("not a rule: "), F.col("__text")["reason"])
    why = F.when(~beat, rule_problem(F.col("key"), F.col("__shape"), F.col("raw_value")))
    read = read.withColumns({"__why": F.coalesce(unreadable, why), "__name": rule_name(F.col("key"))})
    refused, name = F.col("__why").isNotNull(), F.col("__name")
    offset = F.lpad(F.col("offset").cast("string"), OFFSET_DIGITS, "0")
    message = F.when(~refused & ~beat, F.col("__text")["json"])
    given = make_row(series=F.concat(F.lit(f"{FIRST}/"), offset), template=name, message=message)
    rows = F.array(
        F.when(refused, make_row(raw_value=F.col("raw_value"), reason=F.col("__why"))),
        F.when(name.isNotNull(), given),
        F.when(beat, make_row(series=F.lit(HEARTBEAT))),
    )
    return read.select(*others, F.col("timestamp").alias("event_time"), F.inline(not_null(rows)))


def make_row(**given: Column) -> Column:
    """What a record becomes: the columns of `COLUMNS`, null where not given."""
    columns = [given.get(name, F.lit(None)).cast(kind).alias(name) for name, kind in COLUMNS.items()]
    return F.struct(*columns)


def rule_name(key: Column) -> Column:
    """The text of a key, where that may be a rule's name; else null."""
    text = F.when(F.octet_length(key) <= 4 * MOST_NAME, key.cast("string"))
    return F.when(F.is_valid_utf8(text) & F.length(text).between(1, MOST_NAME) & ~text.rlike(CONTROL), text)


def rule_problem(key: Column, shape: Column, value: Column) -> Column:
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
