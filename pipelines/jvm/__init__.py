"""Functions of our own in Spark's JVM: where they are, and what they answer. `app.spark.session` makes them known.

They read the bytes of one record each, so that no record of the usual forms costs a parser of its own; see
docs/decisions/0010-flat-records-in-java.md.
"""

from pathlib import Path

from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

SOURCES = Path(__file__).parent

# SQL name -> (class, what it answers); null for a record that is not plainly good
FUNCTIONS = {
    "kappa_flat_point": (
        "FlatPoint",
        StructType(
            [
                StructField("event_time", LongType()),  # microseconds since 1970
                StructField("series", StringType()),
                StructField("value", DoubleType()),
            ]
        ),
    ),
    "kappa_flat_line": (
        "FlatLine",
        StructType(
            [
                StructField("event_time", LongType()),
                *(StructField(name, StringType()) for name in ("host", "service", "level", "message")),
            ]
        ),
    ),
}
