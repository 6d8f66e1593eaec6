"""What the pages ask of Kafka and of `home`: a small server on loopback, within `kappa dashboard`, that knows them so that pages need not.

A question is JSON with the header `X-Kappa-Token`; who does not know the token, which only the pages' process gets, is refused.

`POST /scores`    `version`, `series`, and `since`, `until`, `focus` in epoch ms; the answer is that of `ScoreLog`
`POST /judged`    `version`; the answer is `until`, the end of the last window that has been judged, epoch ms, or null
`POST /serving`   anything; the answer is `version`, which the settings name, or else the one that serves now
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from typing import Any

import structlog

from app.core.ports import LOOPBACK
from app.core.settings import Settings
from app.core.timestamps import LAST_MS
from app.core.version_name import VERSION_PATTERN
from app.kafka.judged_windows import JudgedWindows
from app.kafka.score_log import Question, ScoreLog
from app.runtime.bounded_server import BoundedHandler, BoundedServer
from app.versions import serving
from app.versions.pinned_configuration import as_begun
from models.core.series import parse
from pipelines.errors import InputError, KappaError, ServiceUnavailable

log = structlog.get_logger()

MOST_BODY = 65_536  # bytes of a question
MOST_SERIES = 50
MOST_SECONDS = 60.0
WAIT_SECONDS = 5.0  # for those who have asked before
FIELDS = {"version", "series", "since", "until", "focus", "seconds"}
Answer = Callable[[bytes], dict[str, Any]]  # of a question's body, as JSON types


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


def version_of(body: bytes) -> str:
    """The version that a question is about which names nothing else. Raises InputError for anything else."""
    try:
        given = json.loads(body)
        (name,) = given.values()
        if given.keys() != {"version"} or not re.fullmatch(VERSION_PATTERN, name):
            msg = "wanted the name of one as version, and nothing else"
            raise ValueError(msg)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        msg = f"not a question about a version: {error}"
        raise InputError(msg) from error
    return str(name)


@contextmanager
def serving_scores(settings: Settings) -> Iterator[Mapping[str, str]]:
    """The server, while the block runs; answers its addresses and token, by the names of the variables that the pages read."""
    token, serves = secrets.token_urlsafe(24), serving.ServingVersionWatch(settings.home)
    with closing(ScoreReader(settings)) as reader, closing(JudgedWindows(settings)) as judged:
        answers: dict[str, Answer] = {
            "/scores": lambda body: reader.answer(*question_of(body)),
            "/judged": lambda body: {"until": judged.until(version_of(body))},
            "/serving": lambda _: {
                "version": serves.version() if settings.version == serving.FIRST else settings.version
            },
        }
        server = BoundedServer((LOOPBACK, 0), handler(answers, token))
        thread = threading.Thread(target=server.serve_forever, name="scores", daemon=True)
        thread.start()
        where = f"http://{LOOPBACK}:{server.server_address[1]}"
        try:
            yield {f"{path[1:].upper()}_URL": where + path for path in answers} | {"SCORES_TOKEN": token}
        finally:
            server.shutdown()
            server.server_close()


def handler(answers: Mapping[str, Answer], token: str) -> type[BoundedHandler]:
    """Gives the answers of these paths to who has the token."""

    class Handler(BoundedHandler):
        def answer(self, path: str, query: str) -> tuple[int, str, bytes]:
            return 405, "text/plain", b"wanted POST\n"

        def do_POST(self) -> None:  # noqa: N802 - the name that http.server calls
            """Answer a question."""
            length = self.headers.get("Content-Length", "")
            known = hmac.compare_digest(self.headers.get("X-Kappa-Token", "").encode(), token.encode())
            if not known or self.path not in answers:
                self.reply(403, "text/plain", b"refused\n")
            elif not length.isdecimal() or int(length) > MOST_BODY:
                self.reply(413, "text/plain", b"a question has at most 65,536 bytes\n")
            else:
                body = self.rfile.read(int(length))
                self.heard()
                status, found = answer_question(answers[self.path], body)
                self.reply(status, "application/json", found)

    return Handler


def answer_question(answer: Answer, body: bytes) -> tuple[int, bytes]:
    """Status and JSON: 200, 400 for what cannot be answered, 503 where another try may help."""
    try:
        return 200, json.dumps(answer(body)).encode()
    except InputError as error:
        return 400, json.dumps({"error": str(error)}).encode()
    except KappaError as error:
        return 503, json.dumps({"error": str(error)}).encode()
    except Exception as error:  # whatever it is, the pages get an answer
        log.warning("the pages cannot be answered", error=str(error)[:500])
        return 503, json.dumps({"error": f"this cannot be read now ({type(error).__name__}): ask again"}).encode()
