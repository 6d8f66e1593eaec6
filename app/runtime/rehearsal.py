"""Reads records as a job does, in a process of its own: whatever ends that process, or never ends, is an answer about the records.

The process has a Spark session with the settings of the jobs. It ends with the one that started it, however that ends.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Self

from app.core.settings import Settings
from app.kafka.connection import kafka_connection
from app.runtime import jobs
from app.runtime.halving import OffsetSpan, Spans, size
from app.runtime.jobs import JobSelection
from app.runtime.spark import session
from pipelines import failures, spark_internals
from pipelines.quarantine import NO_QUARANTINE, Quarantine
from pipelines.runner import Job, dry_run

POLL_SECONDS = 0.2
STARTING_SECONDS = 300.0
LEAST_SECONDS = 30.0
TIMES_AS_LONG = 10  # as reading nothing takes, on a machine that has other work
RECORDS_A_SECOND = 10_000  # the least at which a job reads


Request = tuple[Spans, Quarantine, bool]


class RehearsalError(Exception):
    """Nothing is known of the records: the process that reads them does not start, or was asked to stop."""


@dataclass(frozen=True)
class Rehearsed:
    """Whose reading it is: the version's settings, which jobs the process runs, and which of them this is."""

    settings: Settings
    selection: JobSelection
    job: str  # extract, detect, correlate or index

    def made(self, quarantine: Quarantine) -> Job:
        """The job, with records that it does not read."""
        match self.job:
            case "extract":
                return jobs.extract_job(self.settings, quarantine=quarantine)
            case "detect":
                return jobs.detect_job(self.settings, quarantine)
            case "correlate":
                return jobs.correlate_job(self.settings, quarantine)
        return jobs.index_job(self.settings, threading.Event().wait, quarantine=quarantine)


class Rehearsal:
    """A process that reads records. It is started when it is needed, and again after it has ended."""

    def __init__(self, what: Rehearsed, stopping: Callable[[], bool]) -> None:
        self._what, self._stopping = what, stopping
        self._process: Any = None
        self._requests: Connection | None = None
        self._lifeline: Connection | None = None
        self._idle_seconds = 0.0
        self.started = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._end()

    @property
    def job(self) -> str:
        """Whose reading it is: extract, detect, correlate or index."""
        return self._what.job

    @property
    def has_readers(self) -> bool:
        """Whether what looks into single records can be done by itself."""
        return bool(self._what.made(NO_QUARANTINE).readers)

    def read(
        self, spans: Spans, quarantine: Quarantine = NO_QUARANTINE, *, whole: bool = False, patience: int = 1
    ) -> str | None:
        """Read spans as the job does.

        Parameters
        ----------
        spans
            The records.
        quarantine
            Those among them that the job does not read.
        whole
            Do all that the job does, not only what looks into single records.
        patience
            How many times the usual limit it may take.

        Returns
        -------
        str or None
            Why it cannot be done, one line; None where it can.

        Raises
        ------
        RehearsalError
            The process does not start, or the search is to stop.
        """
        if self._process is None:
            self._start()
        idle = max(LEAST_SECONDS, TIMES_AS_LONG * self._idle_seconds)
        limit = patience * (idle + size(spans) / RECORDS_A_SECOND)
        answer = self._ask((spans, quarantine, whole), limit)
        if answer is None:
            self._end()
            return f"reading it took more than {limit:.0f} s"
        kind, text = answer
        if kind == "ended":
            return f"reading it ended the process ({text})"
        return None if kind == "read" else text

    def _start(self) -> None:
        """Start the process, and wait until it has read nothing twice: the first time all is loaded and compiled."""
        context = multiprocessing.get_context("spawn")
        self._requests, theirs = context.Pipe()
        alive, self._lifeline = context.Pipe(duplex=False)
        self._process = context.Process(target=serve, args=(self._what, theirs, alive), name="rehearsal")
        self._process.start()
        theirs.close()
        alive.close()
        self.started += 1
        answer = self._ask(None, STARTING_SECONDS)
        began = time.monotonic()
        if answer is not None and answer[0] == "read":
            answer = self._ask(((), NO_QUARANTINE, False), STARTING_SECONDS)
        self._idle_seconds = time.monotonic() - began
        if answer is None or answer[0] != "read":
            self._end()
            why = f"did not start within {STARTING_SECONDS:.0f} s" if answer is None else answer[1]
            msg = f"{self._what.job}: the process that reads the batch by itself failed ({why})"
            raise RehearsalError(msg)

    def _ask(self, request: Request | None, seconds: float) -> tuple[str, str] | None:
        """Send a request, unless it is None, and wait for the answer; None where it does not come in time."""
        connection, deadline = self._requests, time.monotonic() + seconds
        if connection is None:
            msg = "the process has not been started"
            raise RehearsalError(msg)
        try:
            if request is not None:
                connection.send(request)
            while not connection.poll(POLL_SECONDS):
                if self._stopping():
                    msg = f"{self._what.job}: the search was stopped"
                    raise RehearsalError(msg)
                if time.monotonic() > deadline:
                    return None
            kind, text = connection.recv()
        except (EOFError, ConnectionError):
            return "ended", self._end()
        if kind == "broken":
            self._end()
        return kind, text

    def _end(self) -> str:
        """End the process and all that it has started; says how it ended."""
        process, self._process = self._process, None
        if process is None:
            return ""
        for connection in (self._requests, self._lifeline):
            if connection is not None:
                connection.close()
        process.join(1.0)
        # Its JVM may live on where it has ended itself. It may not have come to make its group.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.join()
        code = process.exitcode or 0
        process.close()
        return f"signal {-code}" if code < 0 else f"exit code {code}"


def serve(what: Rehearsed, requests: Connection, lifeline: Connection) -> None:
    """The process: answers each request with `read`, or with `failed` or `broken` (it ends) and why."""
    os.setpgrp()  # of the same session, so that whoever ends that ends this too
    threading.Thread(target=end_with_parent, args=(lifeline,), name="lifeline", daemon=True).start()
    spark, kafka = session(what.settings, f"kappa-rehearsal-{what.job}"), kafka_connection(what.settings)
    spark_internals.prepare_state_reader(spark)
    spark.conf.set("spark.sql.shuffle.partitions", str(what.settings.spark.shuffle_partitions))
    request: Request = (), NO_QUARANTINE, False
    with suppress(EOFError):
        while True:
            spans, quarantine, whole = request
            try:
                job = what.made(quarantine)
                # Where nothing is to be read, nothing of every input.
                begins, ends = offsets_of_spans(
                    spans or tuple(OffsetSpan(one.topics[0], 0, 0, 0) for one in job.inputs)
                )
                dry_run(spark, kafka, job, begins, ends, whole=whole)
                requests.send(("read", ""))
            except Exception as error:  # whatever it is, it is about these records
                if not spark_internals.is_session_alive(spark):
                    requests.send(("broken", "reading it ended Spark's JVM: it left, or had no memory left"))
                    return
                broken = failures.is_out_of_memory(error)
                requests.send(("broken" if broken else "failed", failures.first_line(error)))
                if broken:
                    return
            request = requests.recv()


def end_with_parent(lifeline: Connection) -> None:
    """End this process, and the JVM and the workers that it has started, when the one that started it has ended."""
    with suppress(EOFError, OSError):
        lifeline.recv()
    os.killpg(0, signal.SIGKILL)


def offsets_of_spans(spans: Spans) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, int]]]:
    """First offsets and ends of spans, as Spark's options have them."""
    begins: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for span in spans:
        begins.setdefault(span.topic, {})[str(span.partition)] = span.begin
        ends.setdefault(span.topic, {})[str(span.partition)] = span.end
    return begins, ends
