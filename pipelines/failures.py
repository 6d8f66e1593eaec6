"""Classifies the error that ended a job. Spark wraps it in the traces of every process that it passed through, so its text decides."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JNetworkError

from models.core.state_format import OtherFormat
from pipelines import errors
from pipelines.errors import CheckpointLost, InputError, KappaError, OfAnotherRelease

# A traceback ends in the exception's name and message. Spark indents traces that it quotes in others.
KAPPA_ERROR = re.compile(r"^[ \t]{0,200}(?:\w{1,100}: ){0,10}pipelines\.errors\.(\w+): (.+)$", re.M)
# Spark's words before what a task raised; and the last line of a Python worker's traceback.
TASK_RAISED = re.compile(r"\(executor [^)]{0,200}\)\s{0,9}: (.+)|\(\S{1,200} executor driver\)\s{0,9}: (.+)")
PYTHON_RAISED = re.compile(
    r"^(?!\s|Traceback)([\w.]{1,200}(?:Error|Exception|Violation|Interrupt|Exit|Unavailable)\b.*)$", re.M
)
# Spark's words; of a function that fails by itself it says STREAMING_PYTHON_RUNNER_INITIALIZATION_FAILURE.
WORKER_START_FAILURES = (
    "Python worker failed to connect back",
    "STREAMING_PYTHON_RUNNER_INITIALIZATION_COMMUNICATION_FAILURE",
)
STATE_SCHEMA_MISMATCHES = ("KEY_SCHEMA_NOT_COMPATIBLE", "VALUE_SCHEMA_NOT_COMPATIBLE")
OUT_OF_MEMORY = ("OutOfMemoryError", "MemoryError", "GC overhead")
MOST_CHARACTERS = 300
# What Kafka's clients raise when they have tried for long enough.
BROKER_UNAVAILABLE = re.compile(
    r"org\.apache\.kafka\.common\.errors\."
    r"(Timeout|Disconnect|Network|BrokerNotAvailable|LeaderNotAvailable|NotLeaderOrFollower|CoordinatorNotAvailable)Exception"
)
REFUSED = re.compile(
    r"org\.apache\.kafka\.common\.errors\.(\w{0,30}AuthorizationException|S(?:asl|sl)AuthenticationException): (.+)"
)
DATA_LOSS = ("KAFKA_DATA_LOSS", "Some data may have been lost", "OffsetOutOfRange", "UnknownTopicOrPartition")


@contextmanager
def reading_state(what: str) -> Iterator[None]:
    """Raises OfAnotherRelease where the state of a job, read in the block, has another format, CheckpointLost where it is damaged."""
    try:
        yield
    except OtherFormat as error:
        raise of_another_release(what, str(error)) from error
    except (ValueError, OSError) as error:
        msg = (
            f"{what} cannot be read ({first_line(error)}): it is damaged; start from a savepoint, "
            "`kappa run all --savepoint NAME --replace`"
        )
        raise CheckpointLost(msg) from error


def of_another_release(what: str, why: str) -> OfAnotherRelease:
    """The error for a job's state that another release has written: how to go on."""
    return OfAnotherRelease(
        f"{what} was written by another release ({why}): start that one again with `kappa run all`; to change to this one, let it learn the log "
        "beside it under a new name, `kappa replay --version NAME`, compare, `kappa replay diff live NAME`, let it serve, "
        "`kappa replay promote NAME`, then stop the other release and start this one (docs/running.md, Upgrade)"
    )


def raised_kappa_error(error: BaseException) -> KappaError | None:
    """The error of ours that a task raised, if that is what ended a job: one line. None for any other."""
    found = KAPPA_ERROR.search(str(error))
    if found is None:
        return None
    kind = getattr(errors, found[1], None)
    if not (isinstance(kind, type) and issubclass(kind, KappaError)):
        return None
    return kind(found[2].strip())


def refused_by_kafka(error: BaseException) -> InputError | None:
    """What Kafka refuses its clients in Java, a right or a sign-in, in one line; None for any other error."""
    found = REFUSED.search(str(error))
    if found is None:
        return None
    return InputError(
        f"Kafka does not permit it ({found[1]}: {found[2].strip()[:MOST_CHARACTERS]}): give this user the right, see `kappa topics acls`, or "
        "check kafka.sasl_* and kafka.ssl_*"
    )


def is_worker_start_failure(error: BaseException) -> bool:
    """Whether a job ended before it began: the Python process that says what a state is like did not start in ten seconds, or was killed."""
    text = str(error)
    return any(word in text for word in WORKER_START_FAILURES)


def is_state_schema_mismatch(error: BaseException) -> bool:
    """Whether the state in a checkpoint has other columns than the job's: another release has written it."""
    text = str(error)
    return any(word in text for word in STATE_SCHEMA_MISMATCHES)


def is_data_loss(error: BaseException) -> bool:
    """Whether a job ended because records were deleted before it read them."""
    text = str(error)
    return any(word in text for word in DATA_LOSS)


def is_broker_unavailable(error: BaseException) -> bool:
    """Whether a job ended because Kafka did not answer for long."""
    return BROKER_UNAVAILABLE.search(str(error)) is not None


def is_jvm_gone(error: BaseException) -> bool:
    """Whether Spark's JVM has ended, so that nothing answers any more."""
    return isinstance(error, (Py4JNetworkError, ConnectionError, EOFError))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, after which the rest of the process may not work."""
    text = str(error)
    return any(word in text for word in OUT_OF_MEMORY)


def first_line(error: BaseException) -> str:
    """The error as one line of at most 300 characters without control characters: what a task raised, if one did."""
    text = str(error) or type(error).__name__
    task = TASK_RAISED.search(text)
    line = next(filter(None, task.groups())) if task else text.strip().partition("\n")[0]
    if "PythonException" in line:
        line = next(iter(PYTHON_RAISED.findall(text)), line)
    plain = "".join("?" if unicodedata.category(c).startswith("C") else c for c in line.strip())
    return plain if len(plain) <= MOST_CHARACTERS else f"{plain[: MOST_CHARACTERS - 1]}…"
