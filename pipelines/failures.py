"""What ended a job, in our words: Spark wraps an error in the traces of every process that it passed through."""

from __future__ import annotations

import re

from py4j.protocol import Py4JNetworkError

from pipelines import errors
from pipelines.errors import KappaError

# A traceback ends in the exception's name and message. Spark indents traces that it quotes in others.
RAISED = re.compile(r"^\s*(?:\w+: )*pipelines\.errors\.(\w+): (.+)$", re.M)
DELETED = ("KAFKA_DATA_LOSS", "Some data may have been lost", "OffsetOutOfRange", "UnknownTopicOrPartition")


def of_ours(error: BaseException) -> KappaError | None:
    """The error of ours that a task raised, if that is what ended a job: one line. None for any other."""
    found = RAISED.search(str(error))
    if found is None:
        return None
    kind = getattr(errors, found[1], None)
    if not (isinstance(kind, type) and issubclass(kind, KappaError)):
        return None
    return kind(found[2].strip())


def is_of_a_late_worker(error: BaseException) -> bool:
    """Whether a job ended before it began, as Spark waits ten seconds for the Python process that says what a state is like."""
    return "Python worker failed to connect back" in str(error)


def is_of_deleted_records(error: BaseException) -> bool:
    """Whether a job ended because the log no longer has what it wanted to read."""
    text = str(error)
    return any(word in text for word in DELETED)


def is_of_a_dead_jvm(error: BaseException) -> bool:
    """Whether Spark's JVM has ended, so that nothing answers any more."""
    return isinstance(error, (Py4JNetworkError, ConnectionError, EOFError))
