"""What of Spark's words says that a job never began."""

from __future__ import annotations

import pytest

from pipelines.failures import is_state_schema_mismatch, is_worker_start_failure, refused_by_kafka

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
    assert is_worker_start_failure(RuntimeError(words)) == planning


def test_state_of_other_columns_is_of_another_release() -> None:
    raised = "[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match existing state key schema."
    assert is_state_schema_mismatch(RuntimeError(raised))
    assert not is_state_schema_mismatch(RuntimeError("[STATE_STORE_NOT_COMMITTED] nothing of schemas"))


@pytest.mark.parametrize(
    ("raised", "named"),
    [
        ("TopicAuthorizationException: Not authorized to access topics: [kappa.scores]", "[kappa.scores]"),
        ("ClusterAuthorizationException: Cluster authorization failed.", "Cluster authorization failed"),
        ("SaslAuthenticationException: Authentication failed: Invalid username or password", "Invalid username"),
        ("SslAuthenticationException: SSL handshake failed", "handshake"),
    ],
)
def test_what_kafka_does_not_permit_is_one_line_that_names_it(raised: str, named: str) -> None:
    """A trace of Spark would be followed by a search for a record that ends the job."""
    text = (
        "Job aborted due to stage failure: Task 0 in stage 5.0 failed 4 times, most recent failure: Lost task 0.3 in stage 5.0 (TID 20) "
        f"(10.0.0.1 executor driver): org.apache.kafka.common.errors.{raised}\n\n\tat x.y\n"
    )
    found = refused_by_kafka(RuntimeError(text))
    assert found is not None and named in str(found) and "\n" not in str(found)


def test_what_a_record_says_of_rights_is_no_refusal() -> None:
    assert refused_by_kafka(RuntimeError("ValueError: TopicAuthorizationException: x")) is None
