"""What of Spark's words says that a job never began."""

from __future__ import annotations

import pytest

from pipelines.failures import is_of_a_planning_worker, is_of_another_release

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


def test_state_of_other_columns_is_of_another_release() -> None:
    raised = "[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match existing state key schema."
    assert is_of_another_release(RuntimeError(raised))
    assert not is_of_another_release(RuntimeError("[STATE_STORE_NOT_COMMITTED] nothing of schemas"))
