"""What of Spark's words says that a job never began."""

from __future__ import annotations

import pytest

from pipelines.failures import is_of_a_planning_worker

INITIALIZATION = "[STREAMING_PYTHON_RUNNER_INITIALIZATION{}] Streaming Runner initialization failed"


@pytest.mark.parametrize(
    ("words", "planning"),
    [
        ("org.apache.spark.SparkException: Python worker failed to connect back.", True),
        (INITIALIZATION.format("_COMMUNICATION_FAILURE") + " during initial config communication. Cause: null", True),
        (INITIALIZATION.format("_FAILURE") + ", error: ModuleNotFoundError", False),
        ("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)", False),
    ],
)
def test_a_job_whose_first_worker_was_late_or_killed_never_began(words: str, planning: bool) -> None:
    assert is_of_a_planning_worker(RuntimeError(words)) == planning
