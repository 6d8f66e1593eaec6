"""One of the jobs, or what is measured beside them, to the end of its topic: JOB, with the settings in the environment."""

from __future__ import annotations

import sys
from collections.abc import Callable

from app.core.settings import Settings, load
from app.kafka.connection import kafka_connection
from app.runtime import jobs
from app.runtime.spark import own_session
from benchmarks.peers import state_of_series
from benchmarks.throughput import plain_job
from pipelines.runner import Job, Runner

JOBS: dict[str, Callable[[Settings], Job]] = {
    "plain": lambda settings: plain_job(settings, "peer"),
    "extract": jobs.extract_job,
    "detect": jobs.detect_job,
    "apply": state_of_series.apply_job,
    "transform": state_of_series.transform_job,
}


def main() -> None:
    """Run the job that the command line names."""
    settings = load()
    with own_session(settings, "peers") as spark:
        runner = Runner(spark, kafka_connection(settings))
        try:
            runner.run_to_end(JOBS[sys.argv[1]](settings))
        finally:
            runner.stop()


if __name__ == "__main__":
    main()
