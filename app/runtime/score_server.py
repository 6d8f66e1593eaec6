"""What the pages ask of the topic `scores`: a small server on loopback, within `kappa dashboard`, that knows Kafka so that pages need not.

`POST /scores` with the header `X-Kappa-Token` and a question as JSON: `version`, `series`, and `since`, `until`, `focus` in epoch ms; the
answer is that of `ScoreLog`. Who does not know the token, which only the pages' process gets, is refused.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

import structlog

from app.core.ports import LOOPBACK
from app.core.settings import Settings
from app.core.timestamps import LAST_MS
from app.core.version_name import VERSION_PATTERN
from app.kafka.score_log import Question, ScoreLog
from app.runtime.bounded_server import BoundedHandler, BoundedServer
from app.versions.pinned_configuration import as_begun
from models.core.series import parse
from pipelines.errors import InputError, KappaError, ServiceUnavailable

log = structlog.get_logger()

MOST_BODY = 65_536  # bytes of a question
MOST_SERIES = 50
MOST_SECONDS = 60.0
WAIT_SECONDS = 5.0  # for those who have asked before
FIELDS = {"version", "series", "since", "until", "focus", "seconds"}


class ScoreReader:
    """Answers questions one after another; the connection to Kafka stays open for the next one about the same version."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._lock = settings, threading.Lock()
        self._version, self._log = "", None  # type: str, ScoreLog | None

    def answer(self, version: str, asked: Question) -> dict[str, Any]:
        """The answer as JSON types. Raises ServiceUnavailable while others are answered or Kafka is away, InputError if it refuses."""
        if not self._settings.kafka.bootstrap_servers:
            msg = "the dashboard was started without kafka.bootstrap_servers, and no embedded Kafka runs: set it to have curves"
            raise InputError(msg)
        if not self._lock.acquire(timeout=WAIT_SECONDS):
            msg = "others are reading scores: ask again"
            raise ServiceUnavailable(msg)
        try:
            return asdict(self._opened(version).answer(asked))
        except KappaError:
            self.close()
            raise
        finally:
            self._lock.release()

    def _opened(self, version: str) -> ScoreLog:
        if self._log is None or version != self._version:
            self.close()
            own = self._settings.model_copy(update={"version": version})
            self._log, self._version = ScoreLog(own, as_begun(own).windowing.shards), version
        return self._log

    def close(self) -> None:
        """Close the connection."""
        if self._log is not None:
            self._log.close()
            self._log = None


def question_of(body: bytes) -> tuple[str, Question]:
    """The version and the question in a request. Raises InputError for anything else."""
    try:
        given = json.loads(body)
        if (
            not isinstance(given, dict)
            or not given.keys() <= FIELDS
            or not re.fullmatch(VERSION_PATTERN, given["version"])
        ):
            msg = f"got other fields; wanted {', '.join(sorted(FIELDS))}"
            raise ValueError(msg)
        found = Question(tuple(given["series"]), *(given[name] for name in ("since", "until", "focus")))
        found = replace(found, seconds=min(max(float(given.get("seconds", found.seconds)), 0.1), MOST_SECONDS))
        for name in found.series:
            parse(name)
        times = (found.since, found.focus, found.until)
        if not all(type(at) is int for at in times) or not 0 <= times[0] <= times[1] <= times[2] < LAST_MS:
            msg = f"got times {times}; wanted since <= focus <= until, epoch ms"
            raise ValueError(msg)
        if not 0 < len(found.series) <= MOST_SERIES:
            msg = f"got {len(found.series)} series; wanted 1 to {MOST_SERIES}"
            raise ValueError(msg)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        msg = f"not a question about scores: {error}"
        raise InputError(msg) from error
    return given["version"], found


@contextmanager
def serving_scores(settings: Settings) -> Iterator[Mapping[str, str]]:
    """The server, while the block runs; answers its address and token, by the names of the variables that the pages read."""
    reader, token = ScoreReader(settings), secrets.token_urlsafe(24)
    server = BoundedServer((LOOPBACK, 0), handler(reader, token))
    thread = threading.Thread(target=server.serve_forever, name="scores", daemon=True)
    thread.start()
    try:
        yield {"SCORES_URL": f"http://{LOOPBACK}:{server.server_address[1]}/scores", "SCORES_TOKEN": token}
    finally:
        server.shutdown()
        server.server_close()
        reader.close()


def handler(reader: ScoreReader, token: str) -> type[BoundedHandler]:
    """Answers for a reader, to who has the token."""

    class Handler(BoundedHandler):
        def answer(self, path: str, query: str) -> tuple[int, str, bytes]:
            return 405, "text/plain", b"wanted POST /scores\n"

        def do_POST(self) -> None:  # noqa: N802 - the name that http.server calls
            """Answer a question."""
            length = self.headers.get("Content-Length", "")
            known = hmac.compare_digest(self.headers.get("X-Kappa-Token", "").encode(), token.encode())
            if not known or self.path != "/scores":
                self.reply(403, "text/plain", b"refused\n")
            elif not length.isdecimal() or int(length) > MOST_BODY:
                self.reply(413, "text/plain", b"a question has at most 65,536 bytes\n")
            else:
                body = self.rfile.read(int(length))
                self.heard()
                status, found = answer(reader, body)
                self.reply(status, "application/json", found)

    return Handler


def answer(reader: ScoreReader, body: bytes) -> tuple[int, bytes]:
    """Status and JSON: 200, 400 for what cannot be answered, 503 where another try may help."""
    try:
        return 200, json.dumps(reader.answer(*question_of(body))).encode()
    except InputError as error:
        return 400, json.dumps({"error": str(error)}).encode()
    except KappaError as error:
        return 503, json.dumps({"error": str(error)}).encode()
    except Exception as error:  # whatever it is, the pages get an answer
        log.warning("scores cannot be read", error=str(error)[:500])
        return 503, json.dumps({"error": f"the scores cannot be read now ({type(error).__name__}): ask again"}).encode()
