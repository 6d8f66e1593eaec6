"""What a broker answers, and what it means: an answer is not called none, and a topic that is not shown to us is not one that was deleted."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from kafka.errors import (
    InvalidReplicationFactorError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    LeaderNotAvailableError,
    NotEnoughReplicasError,
    PolicyViolationError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from kafka.protocol.metadata import MetadataResponse
from pydantic import SecretStr
from structlog.testing import capture_logs

from app.core.settings import KafkaSettings, Settings
from app.kafka.connection import connection_error, translate_errors
from app.kafka.data_loss import LogWatch
from app.kafka.heartbeats import Heartbeats
from app.kafka.log_marks import existing_topics
from app.kafka.oauth_token import OAuthToken
from app.kafka.producer import BoundedProducer
from app.runtime.health import Health
from pipelines.errors import InputError, KappaError, ServiceUnavailable
from pipelines.windowing import WindowingConfig

OPTIONS = {"bootstrap_servers": "kafka-1:9093"}
ONE_BROKER = "Unable to replicate the partition 3 time(s): only 1 broker(s) are registered."


@pytest.mark.parametrize(
    "error", [InvalidReplicationFactorError(ONE_BROKER), PolicyViolationError("retention.ms must be set")]
)
def test_a_topic_that_brokers_do_not_make_is_refused_with_their_words_and_not_waited_for(error: KafkaError) -> None:
    found = connection_error(OPTIONS, error)
    assert isinstance(found, InputError)
    assert str(error) in str(found) and "topics.replication" in str(found)
    assert "answer" not in str(found) and "kappa up" not in str(found)


@pytest.mark.parametrize("error", [NotEnoughReplicasError("2 of 3"), LeaderNotAvailableError("telemetry")])
def test_an_answer_with_an_error_is_not_called_no_answer(error: KafkaError) -> None:
    found = connection_error(OPTIONS, error)
    assert isinstance(found, ServiceUnavailable)
    assert str(error) in str(found) and type(error).__name__ in str(found)
    assert "not answer" not in str(found) and "kappa up" not in str(found)
    assert "does not answer (KafkaTimeoutError); start it" in str(connection_error(OPTIONS, KafkaTimeoutError()))


def test_a_brokers_answer_is_not_replaced_by_a_connection_to_another_one_that_failed_before() -> None:
    with pytest.raises(InputError, match="only 1 broker"), translate_errors(OPTIONS):
        logging.getLogger("kafka.net.manager").error("Connection failed: %s", KafkaConnectionError("refused"))
        raise InvalidReplicationFactorError(ONE_BROKER)
    with pytest.raises(ServiceUnavailable, match="KafkaConnectionError"), translate_errors(OPTIONS):
        logging.getLogger("kafka.net.manager").error("Connection failed: %s", KafkaConnectionError("refused"))
        raise KafkaTimeoutError


def test_a_topic_that_we_may_not_describe_is_not_one_that_was_deleted() -> None:
    """Deleted means `kappa recover`, which lets a version begin again."""
    one = MetadataResponse.MetadataResponseTopic

    def described(name: str, error: type[KafkaError] | None = None) -> dict[str, object]:
        partitions = [] if error else [one.MetadataResponsePartition(partition_index=0, leader_id=1)]
        found: dict[str, object] = one(
            error_code=getattr(error, "errno", 0), name=name, partitions=partitions
        ).to_dict()
        return found

    assert existing_topics([described("logs"), described("scores", UnknownTopicOrPartitionError)]).keys() == {"logs"}
    with pytest.raises(TopicAuthorizationFailedError, match="topic telemetry"):
        existing_topics([described("logs"), described("telemetry", TopicAuthorizationFailedError)])


def test_a_watch_of_the_log_goes_on_while_certificates_are_replaced(tmp_path: Path) -> None:
    kafka = KafkaSettings(bootstrap_servers="127.0.0.1:1", security_protocol="SSL", ssl_cafile=tmp_path / "ca.pem")
    watch, waiting = LogWatch(Settings(home=tmp_path, kafka=kafka), "extract", every_seconds=0.01), threading.Event()
    with capture_logs() as lines, watch:
        while len(lines) < 2 and watch._thread.is_alive():
            waiting.wait(0.01)
    assert len(lines) > 1 and "ca.pem" in lines[0]["error"]


class Refusing(BoundedProducer):
    """A producer whose records a broker refuses, until it takes them."""

    def __init__(self) -> None:
        self.refuses = True

    def settle(self) -> int:
        if self.refuses:
            raise self._unavailable(TopicAuthorizationFailedError("telemetry"))
        return 0

    def _unavailable(self, error: Exception) -> KappaError:
        return connection_error(OPTIONS, error, "did not take records")


def test_heartbeats_that_are_refused_are_said_once_and_so_is_their_end() -> None:
    """No window closes without them, and nothing else fails: agents write, and jobs are idle."""
    health, outbox, shown = Health(120.0, clock=lambda: 1_767_571_200.0), Refusing(), []
    beats = Heartbeats(OPTIONS, ["telemetry"], WindowingConfig(), on_problem=health.heartbeats)
    with capture_logs() as lines:
        for refuses in (True, True, False, False):
            outbox.refuses = refuses
            beats._beat(outbox, None, [], 0)  # no partition: nobody asks where they end
            shown.append(health.summary().get("heartbeats"))
    assert [line["event"] for line in lines] == [
        "heartbeats are not written, and no window closes without them",
        "heartbeats are written again",
    ]
    assert "TopicAuthorizationFailedError" in lines[0]["why"] and "kappa topics acls" in lines[0]["why"]
    known = {"not_written_since": "2026-01-05T00:00:00Z", "problem": lines[0]["why"]}
    assert shown == [known, known, None, None]


class Failing(BoundedProducer):
    """A producer with an error that nobody foresaw."""

    def __init__(self) -> None:
        pass

    def settle(self) -> int:
        msg = "not a number"
        raise ValueError(msg)


def test_an_error_that_nobody_foresaw_ends_no_heartbeats() -> None:
    beats = Heartbeats(OPTIONS, ["telemetry"], WindowingConfig())
    beats._beat(Failing(), None, [], 0)
    assert beats.problem == "ValueError: not a number"


def test_an_error_that_nobody_foresaw_ends_no_watch_of_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch, looks = LogWatch(Settings(home=tmp_path), "extract", every_seconds=0.01), threading.Semaphore(0)

    def look() -> None:
        looks.release()
        msg = "not a number"
        raise ValueError(msg)

    monkeypatch.setattr(watch, "_look", look)
    with capture_logs() as lines, watch:
        assert all(looks.acquire(timeout=10) for _ in range(3))
    assert "ValueError: not a number" in {line["error"] for line in lines}


class TokenEndpoint(BaseHTTPRequestHandler):
    """Answers with the number in its path."""

    def do_POST(self) -> None:
        self.send_response(int(self.path.strip("/")))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), TokenEndpoint) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def asked_for_a_token(url: str) -> KappaError:
    own = KafkaSettings(
        bootstrap_servers="kafka-1:9093",
        security_protocol="SASL_SSL",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_url=url,
        sasl_oauth_client_id="jobs",
        sasl_oauth_client_secret=SecretStr("secret"),
    )
    with pytest.raises(KappaError) as found, translate_errors({**OPTIONS, "sasl_mechanism": "OAUTHBEARER"}):
        OAuthToken(own).token()
    return found.value


@pytest.mark.parametrize("answer", [429, 500, 503])
def test_a_token_endpoint_that_is_away_is_waited_for(endpoint: str, answer: int) -> None:
    """An outage of it ends connections of all jobs: those that are started again must not end for good."""
    found = asked_for_a_token(f"{endpoint}/{answer}")
    assert isinstance(found, ServiceUnavailable)
    assert f"token endpoint {endpoint}/{answer} answers {answer}" in str(found)
    assert isinstance(asked_for_a_token("http://127.0.0.1:1/"), ServiceUnavailable)


@pytest.mark.parametrize("answer", [400, 401, 403, 404])
def test_a_token_that_is_refused_is_not_waited_for(endpoint: str, answer: int) -> None:
    found = asked_for_a_token(f"{endpoint}/{answer}")
    assert isinstance(found, InputError)
    assert f"answers {answer}" in str(found) and "sasl_oauth_client_id" in str(found)
