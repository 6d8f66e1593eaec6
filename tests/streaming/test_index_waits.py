"""A batch of `index` that waits for Elasticsearch is not counted as one that ends the job."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from app.core.ports import LOOPBACK, free_port
from app.core.settings import Settings
from app.runtime import attempts
from app.runtime.attempts import Attempts
from app.runtime.health import Health
from app.runtime.run import make_job
from pipelines.errors import ServiceUnavailable

pytestmark = pytest.mark.spark

DOCUMENTS = (
    "id string, index string, version long, document string, problem string, topic string, partition int, offset long, "
    "timestamp timestamp"
)


def test_starts_while_elasticsearch_is_away_say_nothing_about_records(spark: SparkSession, tmp_path: Path) -> None:
    settings = Settings.model_validate(
        {
            "home": tmp_path,
            "kafka": {"bootstrap_servers": f"{LOOPBACK}:{free_port(None)}"},
            "elasticsearch": {"url": f"http://{LOOPBACK}:{free_port(None)}"},
        }
    )
    attempts.write(settings, "index", Attempts(3, "offsets", 2))
    stopping = threading.Event()
    job = make_job(settings, "index", stopping, Health(60.0))
    stopping.set()
    assert job.sink is not None
    with pytest.raises(ServiceUnavailable, match="stopped while it waited"):
        job.sink(spark.createDataFrame([], DOCUMENTS), 3)
    assert attempts.read_attempts(attempts.file_of(settings, "index")) is None
