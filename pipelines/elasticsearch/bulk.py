"""Writes documents to Elasticsearch in bulk, so that nothing is lost and repeats do no harm.

Tasks send their partition's lines side by side, straight from Arrow's buffers. A task that gets no further for
`patience_seconds` gives up; the driver then waits until the cluster answers and has the batch done again: ids and
versions make that harmless. Documents that the cluster refuses for good are handed back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import structlog
from elastic_transport import TransportError
from elasticsearch import ApiError, Elasticsearch, UnsupportedProductError
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from models.records.records import MAX_REASON
from pipelines.elasticsearch.refusals import describe_no_answer, describe_refusal
from pipelines.errors import ServiceUnavailable

log = structlog.get_logger()

Stopping = Callable[[float], bool]
Prepare = Callable[[Elasticsearch], object]
IsPrepared = Callable[[Elasticsearch], bool]
Rows = NDArray[np.int64]
Result = tuple[int, Mapping[str, Any]]  # of a document: status, error
SOURCE_POSITION = ("topic", "partition", "offset", "timestamp")

ROW = (
    "kind string, count long, topic string, partition int, offset long, timestamp long, document string, reason string"
)
ROW_SCHEMA = pa.schema(
    [
        ("kind", pa.string()),
        ("count", pa.int64()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("document", pa.string()),
        ("reason", pa.string()),
    ]
)

WRITTEN = (200, 201)
CONFLICT = 409  # it is there already, the same or a newer one
# Errors with status 400 that are the cluster's, not the document's: too many shards, a closed index, an index that has the name of an alias.
TROUBLE = (
    *("validation_exception", "index_closed_exception", "process_cluster_event_timeout_exception"),
    "invalid_alias_name_exception",
)
# The same where the type says nothing: an ingest pipeline that is missing, an alias in the place of an index, a template of data streams, a shard
# that is full.
OF_ARGUMENTS = "illegal_argument_exception"
ARGUMENT_TROUBLE = (
    "pipeline with id [",
    "no write index is defined for alias [",
    "only write ops with an op_type of create are allowed in data streams",
    "Number of documents in the shard cannot exceed [",
    "Number of documents in the index can't exceed [",  # the same, of older releases
)
ANSWER_PARTS = "errors,items.*.status,items.*.error.type,items.*.error.reason,items.*.error.caused_by.reason"


@dataclass(frozen=True)
class Elastic:
    """How to reach Elasticsearch. Secrets are left out of `repr`."""

    url: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    api_key: str | None = field(default=None, repr=False)
    ca_certs: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    timeout_seconds: float = 60.0

    def connect(self) -> Elasticsearch:
        """A client that never retries by itself: who waits, and for how long, is decided here."""
        options: dict[str, Any] = {}
        if self.api_key:
            options["api_key"] = self.api_key
        elif self.username:
            options["basic_auth"] = (self.username, self.password or "")
        if self.ca_certs:
            options["ca_certs"] = self.ca_certs
        if self.client_cert:
            options |= {"client_cert": self.client_cert, "client_key": self.client_key}
        return Elasticsearch(self.url, request_timeout=self.timeout_seconds, max_retries=0, **options)


@dataclass(frozen=True)
class BulkParameters:
    """How to send.

    `chunk_bytes`, `chunk_documents`  the most that one request holds; a larger document goes alone.
    `patience_seconds`                how long a task tries without getting further before it gives up.
    `first_delay_seconds`             the first pause after an overload; it doubles up to `longest_delay_seconds`.
    `report_seconds`                  how often waiting for the cluster is logged.
    """

    chunk_bytes: int = 5 * 2**20
    chunk_documents: int = 5_000
    patience_seconds: float = 5.0
    first_delay_seconds: float = 0.1
    longest_delay_seconds: float = 5.0
    report_seconds: float = 5.0


@dataclass(frozen=True)
class Refused:
    """A document that the cluster will never take, where its record is, and why."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    document: str
    reason: str


@dataclass
class Outcome:
    """What became of documents: `written`, `settled` (there already, or newer), `refused`, and how many `retries`.

    `unfinished` says why a task gave up, empty if none did.
    """

    written: int = 0
    settled: int = 0
    retries: int = 0
    refused: list[Refused] = field(default_factory=list)
    unfinished: str = ""


# --- in a task ---------------------------------------------------------------------------------------------------


def bulk_lines(found: DataFrame) -> DataFrame:
    """Put the two lines of the bulk format beside each document: `line`, each ended by a newline."""
    once = F.to_json(F.struct(F.struct(F.col("index").alias("_index"), F.col("id").alias("_id")).alias("create")))
    versioned = F.struct(
        F.col("index").alias("_index"),
        F.col("id").alias("_id"),
        F.col("version").alias("version"),
        F.lit("external_gte").alias("version_type"),
    )
    action = F.when(F.col("version").isNull(), once).otherwise(F.to_json(F.struct(versioned.alias("index"))))
    return found.select(
        F.concat(action, F.lit("\n"), F.col("document"), F.lit("\n")).alias("line"),
        "problem",
        "topic",
        "partition",
        "offset",
        F.unix_millis("timestamp").alias("timestamp"),
    )


def split_into_requests(sizes: NDArray[np.int64], parameters: BulkParameters) -> Iterator[tuple[int, int]]:
    """Split rows of these sizes (bytes, shape `(n_rows,)`) into ranges `(start, stop)` that fit into one request each."""
    ends = np.cumsum(sizes)
    start, before = 0, 0
    while start < len(sizes):
        fits = int(np.searchsorted(ends, before + parameters.chunk_bytes, side="right"))
        stop = min(max(fits, start + 1), start + parameters.chunk_documents)
        yield start, stop
        start, before = stop, int(ends[stop - 1])


def send(batch: pa.RecordBatch, client: Elasticsearch, parameters: BulkParameters) -> Outcome:
    """Send the lines of a batch (columns of `bulk_lines`), chunk by chunk. Rows with a problem are refused unsent."""
    if not len(batch):
        return Outcome()
    sending = _Sending(batch, client, parameters)
    sending.run()
    return sending.outcome


class _Sending:
    """A batch on its way. Rows are numbered from 0; sets of them are arrays of shape `(n,)`, ascending."""

    def __init__(self, batch: pa.RecordBatch, client: Elasticsearch, parameters: BulkParameters) -> None:
        self.outcome = Outcome()
        self._batch, self._parameters = batch, parameters
        self._client = client
        # Row, status and reason of documents that were refused as requests of their own.
        self._alone: list[tuple[int, int, str]] = []
        self._lines = batch.column("line").cast(pa.large_binary())

    def run(self) -> None:
        """Send everything, unless patience ends."""
        problems = self._batch.column("problem")
        sound = problems.is_null().to_numpy(zero_copy_only=False)
        for row in np.flatnonzero(~sound).tolist():
            self._refuse(row, problems[row].as_py())
        for start, stop in split_into_requests(np.diff(offsets_of(self._lines)), self._parameters):
            self._send(np.arange(start, stop)[sound[start:stop]])
            if self.outcome.unfinished:
                break

    def _send(self, rows: Rows) -> None:
        """Send rows until each is settled or refused, or patience ends."""
        first, patience = self._parameters.first_delay_seconds, self._parameters.patience_seconds
        delay, deadline = first, time.monotonic() + patience
        while len(rows):
            left, why = self._attempt(rows)
            if len(left) < len(rows):
                delay, deadline = first, time.monotonic() + patience
            elif time.monotonic() + delay > deadline:
                self.outcome.unfinished = why
                return
            rows = left
            if len(rows):
                self.outcome.retries += 1
                time.sleep(delay)
                delay = min(2 * delay, self._parameters.longest_delay_seconds)

    def _attempt(self, rows: Rows) -> tuple[Rows, str]:
        """Send rows once; answer those that have to be sent again, and why.

        Where each of several is refused as a request of its own, with status 400 and for one and the same reason, that is the cluster's: a
        setting that permits no such requests.
        """
        self._alone = []
        again, why = self._request(rows)
        reasons = {each[1:] for each in self._alone}
        if 1 < len(rows) == len(self._alone) and len(reasons) == 1 and reasons.pop()[0] == 400:
            return rows, f"answers {self._alone[0][2][:MAX_REASON]}"
        for row, _, reason in self._alone:
            self._refuse(row, reason[:MAX_REASON])
        return again, why

    def _request(self, rows: Rows) -> tuple[Rows, str]:
        """Send rows in a request, and in smaller ones where it is refused; answer those that have to be sent again, and why."""
        # The client passes bytes on as they are, whatever its annotations say.
        body: Any = [request_body(self._lines, rows)]
        try:
            answer = self._client.bulk(operations=body, filter_path=ANSWER_PARTS)
        except UnsupportedProductError as error:  # of a 200: what a proxy shows while the cluster is away
            return rows, describe_refusal(error)
        except ApiError as error:
            # A request that is refused as a whole may be so for one of its documents: an id that is too long, as an example.
            about = error_of(error.body)
            if error.status_code == 413:
                return self._halves(rows, 413, f"413 {error.message}")
            if error.status_code == 400 and about is not None and not is_cluster_error(about):
                return self._halves(rows, 400, f"400 {about['type']}: {about.get('reason', '')}")
            return rows, f"answers {error.status_code}"
        except (TransportError, ValueError, RecursionError) as error:  # the last two of the body, which may be anything
            return rows, describe_no_answer(error)
        results = results_of(answer.body, len(rows))
        return (
            (rows, "answers what is no answer to a bulk request") if results is None else self._sort_out(rows, results)
        )

    def _sort_out(self, rows: Rows, results: list[Result]) -> tuple[Rows, str]:
        """Count what was written, refuse what is at fault, answer what has to be sent again, and why."""
        again, why = [], ""
        for row, (status, error) in zip(rows.tolist(), results, strict=True):
            if status == CONFLICT:
                self.outcome.settled += 1
            elif status in WRITTEN:
                self.outcome.written += 1
            elif is_permanent(status, error):
                self._refuse(row, rejection_reason(status, error))
            else:
                again.append(row)
                why = f"answers {rejection_reason(status, error)}"
        return np.array(again, dtype=np.int64), why

    def _halves(self, rows: Rows, status: int, reason: str) -> tuple[Rows, str]:
        """The server takes no such request: send halves. A document that it does not take alone is noted."""
        if len(rows) == 1:
            self._alone.append((int(rows[0]), status, reason))
            return rows[:0], ""
        middle = len(rows) // 2
        first, why_first = self._request(rows[:middle])
        second, why_second = self._request(rows[middle:])
        return np.concatenate([first, second]), why_first or why_second

    def _refuse(self, row: int, reason: str) -> None:
        document = self._lines[row].as_py().split(b"\n", 1)[1].rstrip(b"\n").decode(errors="replace")
        position = {name: self._batch.column(name)[row].as_py() for name in SOURCE_POSITION}
        self.outcome.refused.append(Refused(**position, document=document, reason=reason))


def offsets_of(lines: pa.Array) -> NDArray[np.int64]:
    """Where each line begins in Arrow's buffer, and where the last one ends."""
    return np.frombuffer(lines.buffers()[1], np.int64)[lines.offset : lines.offset + len(lines) + 1]


def request_body(lines: pa.Array, rows: Rows) -> bytes:
    """The lines of rows, one after the other. Arrow keeps neighbours side by side: no loop over them."""
    first, last = int(rows[0]), int(rows[-1])
    if last - first + 1 == len(rows):
        offsets = offsets_of(lines)
        return bytes(memoryview(lines.buffers()[2])[offsets[first] : offsets[last + 1]])
    return b"".join(lines.take(pa.array(rows)).to_pylist())


def results_of(body: Any, count: int) -> list[Result] | None:
    """The status of each of so many documents, and its error, in the answer to a bulk request; None for anything else."""
    if not isinstance(body, Mapping):
        return None
    if body.get("errors") is False:
        return [(WRITTEN[0], {})] * count
    items = body.get("items")
    if not isinstance(items, list) or len(items) != count:
        return None
    found = [result_of(next(iter(item.values()), None) if isinstance(item, Mapping) else None) for item in items]
    return [one for one in found if one is not None] if None not in found else None


def result_of(about: Any) -> Result | None:
    """The status and the error of one document; None for what has no status."""
    status, error = (about.get("status"), about.get("error")) if isinstance(about, Mapping) else (None, None)
    if type(status) is not int:
        return None
    return status, error if isinstance(error, Mapping) else {"reason": "" if error is None else error}


def error_of(body: Any) -> Mapping[str, Any] | None:
    """The error of an answer; None for one that is not of Elasticsearch, but of a proxy."""
    error = body.get("error") if isinstance(body, Mapping) else None
    return error if isinstance(error, Mapping) and isinstance(error.get("type"), str) else None


def is_permanent(status: int, error: Mapping[str, Any]) -> bool:
    """Whether the document itself is at fault, so that sending it again would fail in the same way."""
    return status == 413 or (status == 400 and not is_cluster_error(error))


def is_cluster_error(error: Mapping[str, Any]) -> bool:
    """Whether an error with status 400 is the cluster's, and may pass."""
    if error.get("type") != OF_ARGUMENTS:
        return error.get("type") in TROUBLE
    return str(error.get("reason", "")).startswith(ARGUMENT_TROUBLE)


def rejection_reason(status: int, error: Mapping[str, Any]) -> str:
    """An error in one line: where the cluster names a cause, that says more."""
    caused_by = error.get("caused_by")
    cause = caused_by.get("reason") if isinstance(caused_by, Mapping) else None
    text = f"{status} {error.get('type', '')}: {error.get('reason', '')}" + (f" ({cause})" if cause else "")
    return text[:500]


def make_sender(
    elastic: Elastic, parameters: BulkParameters
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function of a partition's batches, for `mapInArrow`: it answers rows of `ROW`."""

    def send_all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with elastic.connect() as client:
            for batch in batches:
                outcome = send(batch, client, parameters)
                yield outcome_rows(outcome)
                if outcome.unfinished:
                    return

    return send_all


def outcome_rows(outcome: Outcome) -> pa.RecordBatch:
    """An outcome as rows of `ROW`: its counts, what was refused, why it gave up."""
    counts = [{"kind": k, "count": getattr(outcome, k)} for k in ("written", "settled", "retries")]
    given_up = [{"kind": "unfinished", "count": 1, "reason": outcome.unfinished}] if outcome.unfinished else []
    handed_back = [{"kind": "refused", "count": 1, **vars(r)} for r in outcome.refused]
    return pa.RecordBatch.from_pylist([*counts, *given_up, *handed_back], schema=ROW_SCHEMA)


# --- in the driver -----------------------------------------------------------------------------------------------


def write(found: DataFrame, elastic: Elastic, parameters: BulkParameters) -> Outcome:
    """Send documents (`index, id, version, document` and `SOURCE_POSITION`) once, partitions side by side."""
    total = Outcome()
    for row in bulk_lines(found).mapInArrow(make_sender(elastic, parameters), ROW).collect():
        if row["kind"] == "refused":
            position = {name: row[name] for name in SOURCE_POSITION}
            total.refused.append(Refused(**position, document=row["document"], reason=row["reason"]))
        elif row["kind"] == "unfinished":
            total.unfinished = row["reason"]
        else:
            setattr(total, row["kind"], getattr(total, row["kind"]) + row["count"])
    return total


def write_all(
    found: DataFrame,
    elastic: Elastic,
    parameters: BulkParameters,
    stopping: Stopping,
    before: Callable[[], object] = lambda: None,
) -> Outcome:
    """Send documents until all are settled or refused, however long the cluster is away.

    `stopping(seconds)` waits so long, or less when the job stops, and answers whether it was, as `threading.Event.wait`
    does. `before` is called before each attempt: the cluster may come back with nothing in it. Raises ServiceUnavailable when
    the job stops: the batch is not done then and will come again.
    """
    retries, since = 0, time.monotonic()
    while True:
        before()
        outcome = write(found, elastic, parameters)
        outcome.retries += retries
        if not outcome.unfinished:
            return outcome
        retries = outcome.retries
        waited = round(time.monotonic() - since)
        log.warning("waiting for Elasticsearch", url=elastic.url, why=outcome.unfinished, waited_seconds=waited)
        wait_for_cluster(elastic, parameters, stopping)


def prepare_when_available(elastic: Elastic, prepare: Prepare, parameters: BulkParameters, stopping: Stopping) -> None:
    """Have `prepare` do its work on the cluster, however long that is away, or refuses: what is wrong there holds up `index` alone.

    Raises ServiceUnavailable when the job stops.
    """
    delay, began = parameters.first_delay_seconds, time.monotonic()
    while True:
        try:
            with elastic.connect() as client:
                prepare(client)
        except (ApiError, TransportError) as error:
            why = describe_trouble(error)
        except ServiceUnavailable as error:
            why = (
                describe_trouble(error.__cause__)
                if isinstance(error.__cause__, ApiError | TransportError)
                else str(error)
            )
        else:
            return
        waited = round(time.monotonic() - began)
        log.warning("waiting for Elasticsearch", url=elastic.url, why=why, waited_seconds=waited)
        if stopping(delay):
            raise ServiceUnavailable(stopped_while_waiting(elastic))
        wait_for_cluster(elastic, parameters, stopping)
        delay = min(2 * delay, parameters.longest_delay_seconds)


def lacks_preparation(elastic: Elastic, is_prepared: IsPrepared) -> bool:
    """Whether the cluster answers, and no longer has what was prepared. One that is away is waited for where documents are sent."""
    with elastic.connect() as client:
        try:
            return not is_prepared(client)
        except (ApiError, TransportError, ValueError, RecursionError):
            return False


def stopped_while_waiting(elastic: Elastic) -> str:
    """The message for a job that is stopped while the cluster is away."""
    return f"Elasticsearch at {elastic.url}: the job was stopped while it waited; the batch will be done again"


def wait_for_cluster(elastic: Elastic, parameters: BulkParameters, stopping: Stopping) -> None:
    """Wait until the cluster answers. Raises ServiceUnavailable when the job stops."""
    began = reported = time.monotonic()
    delay = parameters.first_delay_seconds
    with elastic.connect() as client:
        while True:
            if stopping(delay):
                raise ServiceUnavailable(stopped_while_waiting(elastic))
            why = cluster_trouble(client)
            if not why:
                return
            now = time.monotonic()
            if now - reported >= parameters.report_seconds:
                reported = now
                log.warning("waiting for Elasticsearch", url=elastic.url, why=why, waited_seconds=round(now - began))
            delay = min(2 * delay, parameters.longest_delay_seconds)


def cluster_trouble(client: Elasticsearch) -> str:
    """Why the cluster does not answer, empty if it does."""
    try:
        client.cluster.health(filter_path="status")
    except (ApiError, TransportError, ValueError, RecursionError) as error:
        return describe_trouble(error)
    return ""


def describe_trouble(error: BaseException | None) -> str:
    """What an error of the client says about the cluster."""
    return describe_refusal(error) if isinstance(error, ApiError) else describe_no_answer(error)
