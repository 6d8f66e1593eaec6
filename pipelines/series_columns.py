"""What Spark reads from the name of a series, `KIND/HOST/SERVICE/REST` (docs/architecture.md, `statistics`): its kind, host, shard and level.

Functions without an argument are conditions on the column `series` of rows of statistics.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from models.detection.announcements import FIRST as CHANGE
from models.detection.labels import FIRST as LABEL
from models.detection.logged_rules import FIRST as RULE


def host_of(series: Column) -> Column:
    """The quoted host of a series."""
    return F.element_at(F.split(series, "/", 3), 2)


def shard_of(host: Column, shards: int) -> Column:
    """The shard of a quoted host, from 0. `app.kafka.score_log.shard_of` computes the same without Spark."""
    return F.pmod(F.xxhash64(host), F.lit(shards)).cast("int")


def is_metric() -> Column:
    """Whether a row is of a gauge or a counter."""
    return F.col("series").startswith("gauge/") | F.col("series").startswith("counter/")


def is_template() -> Column:
    """Whether a row counts log lines of a template, or of the other templates of a level (`is_other_templates`)."""
    return F.col("series").startswith("template/")


def is_other_templates() -> Column:
    """Whether a row counts the lines of a level whose templates were left out before counting: its name ends without a template's id."""
    return is_template() & F.col("series").endswith("/")


def is_level() -> Column:
    """Whether a row counts all log lines of a level on a host and service."""
    return F.col("series").startswith("logs/")


def is_rule() -> Column:
    """Whether a row is a record of the topic `rules`."""
    return F.col("series").startswith(RULE)


def has_no_host() -> Column:
    """Whether a row is a label, a change or a rule. None of these counts for a host."""
    return is_rule() | F.col("series").startswith(CHANGE) | F.col("series").startswith(LABEL)


def offset_in(series: Column) -> Column:
    """The offset in the name of a label, change or rule: text of 20 digits, so it sorts as the number does."""
    return F.substring_index(series, "/", -1)


def level_series(series: Column, kind: str) -> Column:
    """`KIND/HOST/SERVICE/LEVEL` of the template `template/HOST/SERVICE/LEVEL/ID`, with another `kind`."""
    return F.concat(F.lit(f"{kind}/"), F.substring_index(F.substring_index(series, "/", 4), "/", -3))
