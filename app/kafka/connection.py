"""Connections to Kafka: options and clients of kafka-python, and what Spark's source and sink need."""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from kafka import KafkaConsumer
from kafka.admin import KafkaAdminClient
from kafka.errors import (
    AuthorizationError,
    BrokerResponseError,
    IllegalSaslStateError,
    InvalidConfigurationError,
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    KafkaError,
    KafkaTimeoutError,
    PolicyViolationError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)

from app.core.errors import SettingsError
from app.core.settings import KafkaSettings, Settings
from app.kafka.last_answers import keep_last_answers
from app.kafka.oauth_token import OAuthToken, TokenEndpointAway
from app.kafka.record_batches import use_bounded_batches
from pipelines.errors import InputError, KappaError, ServiceUnavailable
from pipelines.runner import Kafka

ASK_SECONDS = 2.0
NO_SASL = IllegalSaslStateError | UnsupportedSaslMechanismError  # the listener knows no SASL, or not this mechanism
# What brokers say of a topic that they do not make, however often they are asked.
NO_SUCH_TOPIC = (
    InvalidReplicationFactorError
    | InvalidPartitionsError
    | InvalidConfigurationError
    | InvalidTopicError
    | PolicyViolationError
)
MOST_TEXT = 500  # characters of what a broker says
LOGIN = "org.apache.kafka.common.security"
ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
MODULES = {"PLAIN": "plain.PlainLoginModule", "OAUTHBEARER": "oauthbearer.OAuthBearerLoginModule"}
SCRAM_MODULE = "scram.ScramLoginModule"

use_bounded_batches()  # before anybody has a consumer
keep_last_answers()


def client_options(settings: Settings) -> dict[str, Any]:
    """Arguments for kafka-python's clients.

    Raises SettingsError for a file of a certificate or key that cannot be used, ServiceUnavailable without an address.
    """
    kafka = settings.kafka
    if kafka.bootstrap_servers is None:
        msg = "kafka.bootstrap_servers is not set and no embedded stack is running"
        raise ServiceUnavailable(msg)
    options: dict[str, Any] = {
        "bootstrap_servers": kafka.bootstrap_servers,
        "security_protocol": kafka.security_protocol,
        "bootstrap_timeout_ms": int(1000 * kafka.connect_seconds),
    }
    if kafka.security_protocol.endswith("SSL"):
        options["ssl_context"] = tls_context(kafka)
    if kafka.security_protocol.startswith("SASL"):
        options["sasl_mechanism"] = kafka.sasl_mechanism
        if kafka.sasl_mechanism == "OAUTHBEARER":
            options["sasl_oauth_token_provider"] = OAuthToken(kafka)
        else:
            options["sasl_plain_username"] = kafka.sasl_username
            options["sasl_plain_password"] = kafka.sasl_password.get_secret_value() if kafka.sasl_password else None
    return options


def tls_context(kafka: KafkaSettings) -> ssl.SSLContext:
    """What kafka-python encrypts with: the authorities that are trusted, and who we are. Raises SettingsError for a bad file."""
    with name_settings(kafka, "ssl_cafile"):
        context = ssl.create_default_context(cafile=kafka.ssl_cafile)
    if kafka.ssl_certfile and kafka.ssl_keyfile:
        key_password = kafka.ssl_key_password.get_secret_value() if kafka.ssl_key_password else ""
        with name_settings(kafka, "ssl_certfile", "ssl_keyfile"):
            # Without a function OpenSSL would ask at the terminal for the password of a key.
            context.load_cert_chain(kafka.ssl_certfile, kafka.ssl_keyfile, lambda: key_password)
    return context


@contextmanager
def name_settings(kafka: KafkaSettings, *names: str) -> Iterator[None]:
    """Replace errors of OpenSSL and of the system about files by a SettingsError that names these settings and the files."""
    try:
        yield
    except (OSError, ssl.SSLError) as error:
        given = " and ".join(f"kafka.{name} = {getattr(kafka, name)}" for name in names)
        msg = (
            f"settings: {given} cannot be used ({error.strerror or error}): wanted PEM files that can be read, a key that "
            "belongs to its certificate, and the key's password in kafka.ssl_key_password if it has one"
        )
        raise SettingsError(msg) from error


def admin_client(settings: Settings) -> KafkaAdminClient:
    """An admin client. Raises ServiceUnavailable if the broker does not answer, InputError if it refuses us."""
    options = client_options(settings)
    with translate_errors(options):
        return KafkaAdminClient(**options)


@contextmanager
def open_admin(settings: Settings) -> Iterator[KafkaAdminClient]:
    """An admin client. Raises ServiceUnavailable if the broker does not answer, InputError if it refuses us or what we ask."""
    client = admin_client(settings)
    try:
        with translate_errors(client_options(settings)):
            yield client
    finally:
        client.close()


@contextmanager
def open_consumer(settings: Settings, **more: Any) -> Iterator[KafkaConsumer]:
    """A consumer without a group. Raises ServiceUnavailable if the broker does not answer, InputError if it refuses us."""
    options = client_options(settings) | more
    with translate_errors(options):
        consumer = KafkaConsumer(**options, allow_auto_create_topics=False)
    try:
        with translate_errors(options):
            yield consumer
    finally:
        consumer.close()


class ConnectionLog(logging.Handler):
    """Reads why kafka-python cannot connect: it says so in its log alone, tries on, and raises a timeout in the end.

    Where another try would end in the same, the error is raised from here, into the client's first connection.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(logging.WARNING)
        self._options = options
        self._asked = False
        self.error: Exception | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the error that a line is about. Raises it where it is final."""
        arguments = record.args if isinstance(record.args, tuple) else ()
        found = next((each for each in arguments if isinstance(each, Exception)), None)
        if found is None or isinstance(found, KafkaTimeoutError):
            return
        self.error = found
        if str(record.msg).startswith("Bootstrap connection"):
            if not self._asked and not is_final(found):
                self._asked, self.error = True, ask_tls_refusal(self._options) or found
            if is_final(self.error):
                raise self.error


def ask_tls_refusal(options: Mapping[str, Any]) -> ssl.SSLError | None:
    """Ask the brokers why they refuse our certificate: with TLS 1.3 the answer follows the handshake, where kafka-python sees a closed connection."""
    context: ssl.SSLContext | None = options.get("ssl_context")
    if context is None:
        return None
    for server in str(options["bootstrap_servers"]).split(","):
        host, _, port = server.strip().rpartition(":")
        name = host.strip("[]")
        try:
            with (
                socket.create_connection((name, int(port)), ASK_SECONDS) as plain,
                context.wrap_socket(plain, server_hostname=name) as encrypted,
            ):
                encrypted.recv(1)
        except ssl.SSLEOFError:
            continue
        except ssl.SSLError as error:
            return error
        except (OSError, ValueError):
            continue
    return None


def is_final(error: BaseException) -> bool:
    """Whether another try would end in the same: the broker, or we, refuse."""
    return isinstance(error, AuthorizationError | SaslAuthenticationFailedError | NO_SASL) or is_tls_failure(error)


def is_tls_failure(error: BaseException) -> bool:
    """Whether a TLS connection failed because of a certificate, or of the version of TLS."""
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
        return True
    return "Handshake failed" in str(error) and any(
        word in str(error) for word in ("certificate", "alert", "wrong version")
    )


@contextmanager
def translate_errors(options: Mapping[str, Any]) -> Iterator[None]:
    """Replace errors of kafka-python in the block by a KappaError, with the reason, which kafka-python only logs."""
    log, handler = logging.getLogger("kafka.net.manager"), ConnectionLog(options)
    before = log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.WARNING)
    log.propagate = False
    try:
        yield
    except (KafkaError, OSError) as error:
        # A broker's answer says more than a connection that failed before it, to another broker.
        why = error if isinstance(error, BrokerResponseError) else handler.error or error
        raise connection_error(options, why) from error
    finally:
        log.removeHandler(handler)
        log.level, log.propagate = before


def unavailable_error(settings: Settings, error: BaseException) -> KappaError:
    """The error for a broker that does not answer, or refuses us."""
    return connection_error({"bootstrap_servers": settings.kafka.bootstrap_servers}, error)


def connection_error(options: Mapping[str, Any], error: BaseException, what: str = "") -> KappaError:
    """The KappaError for an error of a client with these options: InputError where another try would fail alike, else ServiceUnavailable.

    `what` is what the broker did not do; empty: it does not answer.
    """
    where, kind = f"Kafka at {options['bootstrap_servers']}", type(error).__name__
    text = " ".join(str(error).split())[:MOST_TEXT]
    refused = refusal_reason(options, error, kind, text)
    if refused is not None:
        return InputError(where + refused)
    if isinstance(error, TokenEndpointAway):
        return ServiceUnavailable(
            f"{where} cannot be asked ({text}); see whether it runs, or check kafka.sasl_oauth_token_url"
        )
    if isinstance(error, BrokerResponseError):
        return ServiceUnavailable(
            f"{where} {what or 'answers with an error'} ({kind}: {text}); see the log of the brokers, and try again"
        )
    return ServiceUnavailable(
        f"{where} {what or 'does not answer'} ({kind}); start it, or run `kappa up` for the embedded one, or set "
        "kafka.bootstrap_servers and kafka.security_protocol to what it is"
    )


def refusal_reason(options: Mapping[str, Any], error: BaseException, kind: str, text: str) -> str | None:
    """Why the broker, or this client, refuses, and what to do: the end of a sentence that begins with its address. None where a retry may succeed."""
    if isinstance(error, SaslAuthenticationFailedError):
        mechanism = options.get("sasl_mechanism", "SASL")
        names = (
            "sasl_oauth_client_id and its secret" if mechanism == "OAUTHBEARER" else "sasl_username and sasl_password"
        )
        return f" does not let us in by {mechanism} ({text}): check kafka.{names}"
    if isinstance(error, NO_SASL):
        return (
            f" has no sign-in by {options.get('sasl_mechanism', 'SASL')} at this address ({kind}): check "
            "kafka.security_protocol and kafka.sasl_mechanism"
        )
    if isinstance(error, AuthorizationError):
        return f" does not permit it ({kind}: {text}): give this user the right, see `kappa topics acls`"
    if isinstance(error, NO_SUCH_TOPIC):
        return (
            f" makes no such topic ({kind}: {text}): set topics.* to what these brokers can have and permit, topics.replication "
            "to at most their number"
        )
    if is_tls_failure(error):
        return (
            f": no trust between the broker and us ({text}): check kafka.security_protocol, ssl_cafile and "
            "ssl_certfile, and the names and dates in both certificates"
        )
    return None


def kafka_connection(settings: Settings) -> Kafka:
    """The connection of Spark's Kafka source and sink to the broker of the settings.

    Raises SettingsError for a file of a certificate or key that cannot be used.
    """
    own = settings.kafka
    options: dict[str, str] = {}
    if own.security_protocol != "PLAINTEXT":
        options["security.protocol"] = own.security_protocol
    if own.security_protocol.startswith("SASL"):
        options |= java_sasl_options(own)
    if own.ssl_cafile:
        # Executors have another working directory.
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(own.ssl_cafile.absolute())}
    if own.ssl_certfile and own.ssl_keyfile:
        tls_context(own)  # says which file is wrong
        options |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": own.ssl_certfile.read_text(),
            "ssl.keystore.key": key_for_java(own, own.ssl_keyfile),
        }
    return Kafka(own.bootstrap_servers or "", options)


def key_for_java(own: KafkaSettings, file: Path) -> str:
    """The private key in the one form that Kafka's Java client reads everywhere: PKCS#8 without a password, in memory alone."""
    password = own.ssl_key_password.get_secret_value().encode() if own.ssl_key_password else None
    key = load_pem_private_key(file.read_bytes(), password)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def java_sasl_options(own: KafkaSettings) -> dict[str, str]:
    """The SASL options of the Java client."""
    module = f"{LOGIN}.{MODULES.get(own.sasl_mechanism, SCRAM_MODULE)}"
    if own.sasl_mechanism == "OAUTHBEARER":
        secret = own.sasl_oauth_client_secret.get_secret_value() if own.sasl_oauth_client_secret else ""
        given = {"clientId": own.sasl_oauth_client_id, "clientSecret": secret, "scope": own.sasl_oauth_scope}
        more = {
            "sasl.oauthbearer.token.endpoint.url": own.sasl_oauth_token_url or "",
            "sasl.login.callback.handler.class": f"{LOGIN}.oauthbearer.OAuthBearerLoginCallbackHandler",
        }
    else:
        password = own.sasl_password.get_secret_value() if own.sasl_password else ""
        given, more = {"username": own.sasl_username, "password": password}, {}
    login = " ".join(f"{name}={jaas_quoted(text)}" for name, text in given.items() if text is not None)
    return {"sasl.mechanism": own.sasl_mechanism, "sasl.jaas.config": f"{module} required {login};"} | more


def java_properties(settings: Settings) -> list[str]:
    """System properties that Kafka's Java client needs: from which addresses it may fetch tokens."""
    url = settings.kafka.sasl_oauth_token_url
    return [f"-D{ALLOWED_URLS}={url}"] if url else []


def jaas_quoted(text: str) -> str:
    """A quoted value of Kafka's JAAS configuration."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
