"""Answers to bulk requests that no Elasticsearch gives: a proxy, or a release to come, may give any."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from elasticsearch import Elasticsearch
from structlog.testing import capture_logs
from support.recording_server import server_that

from app.core.settings import Settings
from app.search import aliases
from app.search.mappings import ensure_templates
from app.versions import serving
from pipelines.elasticsearch.bulk import BulkParameters, Elastic, Outcome, prepare_when_available, send
from pipelines.errors import InputError, ServiceUnavailable

ONCE = BulkParameters(patience_seconds=0.0)
PRODUCT = {"X_Elastic_Product": "Elasticsearch"}
JSON = "application/vnd.elasticsearch+json; compatible-with=9"


def batch_of(documents: int) -> pa.RecordBatch:
    """Documents on their way."""
    numbers = range(1, documents + 1)
    return pa.RecordBatch.from_pydict(
        {
            "line": pa.array([b'{"create":{}}\n{"a":%d}\n' % number for number in numbers], pa.large_binary()),
            "problem": pa.array([None] * documents, pa.string()),
            "topic": ["t"] * documents,
            "partition": pa.array([0] * documents, pa.int32()),
            "offset": list(numbers),
            "timestamp": [3] * documents,
        }
    )


def outcome_of(answer: bytes, content_type: str = JSON, product: dict[str, str] = PRODUCT) -> Outcome:
    """What becomes of two documents."""
    with server_that(200, answer, Content_Type=content_type, **product) as (url, _), Elastic(url).connect() as client:
        return send(batch_of(2), client, ONCE)


def item(**about: Any) -> dict[str, Any]:
    return {"create": about}


@pytest.mark.parametrize(
    "answer",
    [
        *({}, {"errors": None}, {"errors": True}, {"errors": "no"}, {"errors": True, "items": {}}),
        *({"errors": True, "items": [item(status=201)]}, {"errors": True, "items": [None, 1]}),
        *({"errors": True, "items": [{}, {}]}, {"errors": True, "items": [item(status="201"), item(status=201)]}),
        *({"errors": True, "items": [item(), item()]}, {"errors": True, "items": [item(status=True)] * 2}),
        *([], [1], "text", 1, None),
    ],
    ids=str,
)
def test_what_is_no_answer_settles_nothing_and_is_asked_for_again(answer: Any) -> None:
    found = outcome_of(json.dumps(answer).encode())
    assert (found.written, found.settled, found.refused) == (0, 0, []) and found.unfinished


@pytest.mark.parametrize("body", [b"{", b"", b"\xff", b"[" * 100_000, b'{"errors":' + b"1" * 5_000 + b"}"], ids=len)
@pytest.mark.parametrize("content_type", [JSON, "application/json", "text/html", "application/x-ndjson", "a/b", ""])
def test_garbage_settles_nothing_and_is_asked_for_again(body: bytes, content_type: str) -> None:
    found = outcome_of(body, content_type)
    assert (found.written, found.settled, found.refused) == (0, 0, []) and found.unfinished


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ({"type": "a", "reason": "b", "caused_by": {"reason": "c"}}, "400 a: b (c)"),
        ({"type": "a", "reason": "b", "caused_by": None}, "400 a: b"),
        ({"type": ["a"], "reason": {"b": 1}, "caused_by": "c"}, "400 ['a']: {'b': 1}"),
        ("words", "400 : words"),
        (None, "400 : "),
    ],
)
def test_an_error_of_any_form_refuses_its_document_alone(error: Any, reason: str) -> None:
    answer = {"errors": True, "items": [item(status=400, error=error), item(status=201)]}
    found = outcome_of(json.dumps(answer).encode())
    assert (found.written, [(one.offset, one.reason) for one in found.refused]) == (1, [(1, reason)])


@pytest.mark.parametrize(
    "reason",
    [
        "pipeline with id [ours] does not exist",
        "no write index is defined for alias [kappa-novelties-live-2026.01.05]. The write index may be explicitly disabled",
        "only write ops with an op_type of create are allowed in data streams",
        "Number of documents in the shard cannot exceed [2147483519]",
        "Number of documents in the index can't exceed [2147483519]",
    ],
)
def test_an_index_that_takes_no_document_refuses_none_for_good(reason: str) -> None:
    """A pipeline, alias or template of others, a full shard: what is refused has nothing to do with the document."""
    error = {"type": "illegal_argument_exception", "reason": reason}
    found = outcome_of(json.dumps({"errors": True, "items": [item(status=400, error=error)] * 2}).encode())
    assert (found.written, found.refused) == (0, [])
    assert reason in found.unfinished


def test_an_argument_that_a_document_has_wrong_refuses_it_for_good() -> None:
    error = {"type": "illegal_argument_exception", "reason": "Document contains at least one immense term in field"}
    answer = {"errors": True, "items": [item(status=400, error=error), item(status=201)]}
    found = outcome_of(json.dumps(answer).encode())
    assert (found.written, len(found.refused), found.unfinished) == (1, 1, "")


@contextmanager
def cluster_that_refuses_requests(reason_of: Callable[[list[str]], str]) -> Iterator[str]:
    """A cluster that answers 400 to a request as a whole where there is a reason, from its documents, and takes all others; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            reason = reason_of(body.splitlines()[1::2])
            error = {"error": {"type": "illegal_argument_exception", "reason": reason}, "status": 400}
            answer = json.dumps(error if reason else {"errors": False}).encode()
            self.send_response(400 if reason else 200)
            for name, value in (("Content-Length", str(len(answer))), ("Content-Type", JSON), *PRODUCT.items()):
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(answer)

        do_POST = do_PUT  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            """Requests are not news."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


EXPLICIT = "explicit index in bulk is not allowed"


@pytest.mark.parametrize(
    ("reason_of", "documents", "written", "refused"),
    [
        (lambda documents: EXPLICIT, 5, 0, 0),  # as with rest.action.multi.allow_explicit_index: false
        (lambda documents: EXPLICIT, 1, 0, 1),
        (lambda documents: EXPLICIT if '{"a":3}' in documents else "", 5, 4, 1),
        (lambda documents: EXPLICIT if len(documents) > 1 else "", 5, 5, 0),
        (lambda documents: f"id [{'x' * 1000}{documents[0]}] is too long", 5, 0, 5),
    ],
)  # fmt: skip
def test_a_request_that_is_refused_whatever_it_holds_refuses_no_document(
    reason_of: Callable[[list[str]], str], documents: int, written: int, refused: int
) -> None:
    with cluster_that_refuses_requests(reason_of) as url, Elastic(url).connect() as client:
        found = send(batch_of(documents), client, ONCE)
    assert (found.written, len(found.refused)) == (written, refused)
    assert found.unfinished == ("" if written + refused else f"answers 400 illegal_argument_exception: {EXPLICIT}")


def test_what_says_200_and_is_no_elasticsearch_is_waited_for() -> None:
    found = outcome_of(b"<h1>back soon</h1>", "text/html", {})
    assert (found.written, found.settled, found.refused) == (0, 0, [])
    assert found.unfinished.startswith("answers 200 and is no Elasticsearch")


@pytest.mark.parametrize(
    ("status", "answer", "content_type", "product", "why"),
    [
        (200, b"<h1>back soon</h1>", "text/html", {}, "answers 200 and is no Elasticsearch"),
        (200, b"{}", JSON, {}, "answers 200 and is no Elasticsearch"),
        (400, json.dumps({"error": {"reason": "same priority as [other]"}}).encode(), JSON, PRODUCT, "answers 400 (same priority as [other])"),
    ],
)  # fmt: skip
def test_templates_that_cannot_be_put_hold_up_index_and_end_nothing(
    status: int, answer: bytes, content_type: str, product: dict[str, str], why: str
) -> None:
    def prepare(client: Elasticsearch) -> None:
        ensure_templates(client, "live", live=True)

    waits = iter([False, False, False, True])
    with (
        server_that(status, answer, Content_Type=content_type, **product) as (url, _),
        capture_logs() as logged,
        pytest.raises(ServiceUnavailable, match="the job was stopped while it waited"),
    ):
        prepare_when_available(Elastic(url), prepare, ONCE, lambda seconds: next(waits))
    assert logged[0]["event"] == "waiting for Elasticsearch" and logged[0]["why"].startswith(why)


def test_a_lock_of_aliases_that_another_process_holds_holds_up_index_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a process that waits for Elasticsearch meanwhile does."""
    monkeypatch.setattr(serving, "LOCK_SECONDS", 0.0)
    settings, held = Settings(home=tmp_path), ExitStack()
    held.enter_context(serving.locked(tmp_path))
    answer = json.dumps({"status": "green"}).encode()

    def stopping(seconds: float) -> bool:
        held.close()
        return False

    with server_that(200, answer, Content_Type=JSON, **PRODUCT) as (url, _), capture_logs() as logged, held:
        prepared: list[int] = []

        def prepare(client: Elasticsearch) -> None:
            aliases.prepare_indices(client, settings)
            prepared.append(1)

        monkeypatch.setattr(aliases, "ensure_templates", lambda *_, **__: None)
        prepare_when_available(Elastic(url), prepare, ONCE, stopping)
    assert prepared == [1]
    assert logged[0]["event"] == "waiting for Elasticsearch"
    assert "serving.lock is held by another process" in logged[0]["why"]


def test_a_file_of_serving_versions_that_is_none_is_an_error_at_once(tmp_path: Path) -> None:
    serving.file_of(tmp_path).parent.mkdir()
    serving.file_of(tmp_path).write_text("{")
    with pytest.raises(InputError, match="not a list of serving intervals"):
        aliases.prepare_indices(Elastic("http://127.0.0.1:1").connect(), Settings(home=tmp_path))
