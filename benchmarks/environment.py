"""The settings of a deployment as variables of a process of its own."""

from __future__ import annotations

import json
import os

from app.core.settings import Settings


def clean() -> dict[str, str]:
    """The variables of this process without those that belong to its own Python, Spark and settings."""
    return {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "KAPPA_"))}


def environment_of(settings: Settings) -> dict[str, str]:
    """Variables with which `load` gives these servers, topics, windows and sizes of batches."""
    own, windowing, spark = settings.topics, settings.windowing, settings.spark
    given: dict[str, object] = {
        "HOME": settings.home,
        "JAR_FOLDER": settings.jars,
        "KAFKA__BOOTSTRAP_SERVERS": settings.kafka.bootstrap_servers,
        "ELASTICSEARCH__URL": settings.elasticsearch.url,
        "TOPICS__PREFIX": own.prefix,
        "TOPICS__TIMESTAMPS": own.timestamps,
        "TOPICS__TELEMETRY_PARTITIONS": own.telemetry_partitions,
        "TOPICS__LOGS_PARTITIONS": own.logs_partitions,
        "TOPICS__PARTITIONS": own.partitions,
        "WINDOWING__LATENESS_SECONDS": windowing.lateness_seconds,
        "WINDOWING__SKEW_SECONDS": windowing.skew_seconds,
        "WINDOWING__SHARDS": windowing.shards,
        "SPARK__MASTER": spark.master,
        "SPARK__DRIVER_MEMORY": spark.driver_memory,
        "SPARK__EXTRA": json.dumps(dict(spark.extra)),
        "SPARK__MAX_RECORDS_PER_BATCH": spark.max_records_per_batch,
    }
    if spark.secret is not None:
        given["SPARK__SECRET"] = spark.secret.get_secret_value()
    return clean() | {f"KAPPA_{name}": str(value) for name, value in given.items()}
