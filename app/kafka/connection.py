"""Connections to Kafka: options and clients of kafka-python, and what Spark's source and sink need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafka import KafkaConsumer
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from app.core.settings import Settings
from pipelines.errors import ServiceUnavailable
from pipelines.runner import Kafka


def client_options(settings: Settings) -> dict[str, Any]:
    """Arguments for kafka-python's clients."""
    kafka = settings.kafka
    options: dict[str, Any] = {
        "bootstrap_servers": kafka.bootstrap_servers,
        "security_protocol": kafka.security_protocol,
    }
    if kafka.security_protocol.startswith("SASL"):
        options["sasl_mechanism"] = kafka.sasl_mechanism
        options["sasl_plain_username"] = kafka.sasl_username
        options["sasl_plain_password"] = kafka.sasl_password.get_secret_value() if kafka.sasl_password else None
    if kafka.ssl_cafile:
        options["ssl_cafile"] = str(kafka.ssl_cafile)
    return options


def admin_client(settings: Settings) -> KafkaAdminClient:
    """An admin client. Raises ServiceUnavailable if the broker does not answer."""
    try:
        return KafkaAdminClient(**client_options(settings))
    except (KafkaError, OSError) as error:
        raise unavailable(settings, error) from error


@contextmanager
def open_consumer(settings: Settings) -> Iterator[KafkaConsumer]:
    """A consumer without a group. Raises ServiceUnavailable if the broker does not answer."""
    try:
        consumer = KafkaConsumer(**client_options(settings))
    except (KafkaError, OSError) as error:
        raise unavailable(settings, error) from error
    try:
        yield consumer
    except KafkaError as error:
        raise unavailable(settings, error) from error
    finally:
        consumer.close()


def unavailable(settings: Settings, error: Exception) -> ServiceUnavailable:
    """The error for a broker that does not answer."""
    return ServiceUnavailable(
        f"Kafka at {settings.kafka.bootstrap_servers} does not answer ({type(error).__name__}); start it, or run "
        "`kappa up` for the embedded one, or set kafka.bootstrap_servers"
    )


def kafka_connection(settings: Settings) -> Kafka:
    """The connection of Spark's Kafka source and sink to the broker of the settings."""
    own = settings.kafka
    options: dict[str, str] = {}
    if own.security_protocol != "PLAINTEXT":
        options["security.protocol"] = own.security_protocol
    if own.security_protocol.startswith("SASL"):
        module = "plain.PlainLoginModule" if own.sasl_mechanism == "PLAIN" else "scram.ScramLoginModule"
        password = own.sasl_password.get_secret_value() if own.sasl_password else ""
        options["sasl.mechanism"] = own.sasl_mechanism
        options["sasl.jaas.config"] = (
            f"org.apache.kafka.common.security.{module} required "
            f"username={quoted(own.sasl_username or '')} password={quoted(password)};"
        )
    if own.ssl_cafile:
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(own.ssl_cafile)}
    return Kafka(own.bootstrap_servers or "", options)


def quoted(text: str) -> str:
    """A quoted value of Kafka's JAAS configuration."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
