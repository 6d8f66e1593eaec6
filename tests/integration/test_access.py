"""A real broker with TLS, SASL and its authorizer: who is let in, who may do what, and what a run with a password shows to others."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kafka import TopicPartition
from pyspark.sql import SparkSession
from support.commands import Running, get
from support.exposed import family, files_with, named_on_command_lines, open_files, open_to_others
from support.malformed import iso
from support.secured_broker import KEY_PASSWORD, PASSWORDS, Authority, SecuredBroker, acls, kappa_with, secured_broker

from app.cli.watch_log import LogReader
from app.core.errors import SettingsError
from app.core.notify_settings import NotifySettings
from app.core.settings import Settings
from app.kafka import rule_topic, topics
from app.kafka.connection import ALLOWED_URLS, client_options, kafka_connection, open_consumer
from app.kafka.producer import BoundedProducer
from app.notify.notifier import Notifier
from pipelines.errors import InputError

pytestmark = [pytest.mark.stack, pytest.mark.timeout(400)]

CLIENT_SECRETS = {"jobs": "client-secret", "agents": "agents-secret"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """With the rights of the table, and the topics of version live."""
    with secured_broker(tmp_path_factory.mktemp("secured")) as made:
        settings = made.settings("operators")
        for principal, kind in (
            ("User:operators", "operators"),
            ("User:jobs", "jobs"),
            ("User:agents", "agents"),
            ("User:CN=agents", "agents"),
            *((f"User:{kind}", kind) for kind in ("people", "readers", "responders", "notifiers")),
        ):
            made.grant(principal, kind, settings)
        assert set(topics.create(settings).values()) == {"created"}
        yield made


def send(settings: Settings, topic: str, value: bytes = b"{}") -> None:
    with BoundedProducer(client_options(settings)) as producer:
        producer.partitions(topic)
        producer.send(topic, value, key=b"key")


def clients(broker: SecuredBroker, user: str) -> dict[str, Settings]:
    """The same user by password and by token, and agents by certificate as well."""
    own = {
        "SCRAM-SHA-512": broker.settings(user),
        "PLAIN": broker.settings(user, sasl_mechanism="PLAIN"),
        "OAUTHBEARER": broker.as_client(user, CLIENT_SECRETS[user]),
    }
    if user == "agents":
        files = broker.authority.sign(user, password=KEY_PASSWORD)
        own["certificate"] = broker.with_certificate(files, ssl_key_password=KEY_PASSWORD)
    return own


def test_agents_write_inputs_and_nothing_that_jobs_write(broker: SecuredBroker) -> None:
    for settings in clients(broker, "agents").values():
        send(settings, "telemetry")
        send(settings, "logs")
        for topic in topics.OUTPUTS:
            with pytest.raises(InputError, match=rf"does not permit it .*{topic}.*kappa topics acls"):
                send(settings, topic)
        with pytest.raises(InputError, match="does not permit it"), open_consumer(settings) as consumer:
            consumer.partitions_for_topic("statistics")
            topics.create(settings)


def test_readers_watch_without_a_right_to_the_inputs(broker: SecuredBroker) -> None:
    with closing(LogReader(broker.settings("readers"), 1.0)) as reader:
        assert list(reader.past(lambda: False)) == []
        activity = reader.activity(60.0)
    assert activity is not None and activity.stalled == ("extract has written nothing",)


def test_people_label_and_responders_write_rules_as_well(broker: SecuredBroker) -> None:
    settings = broker.settings("responders")
    for own in (settings, broker.settings("people")):
        send(own, "labels")
        send(own, "changes")
    rule_topic.write(settings, [{"record": "rule", "name": "quiet", "host": "db-*", "mute": True}])
    assert [one.name for one in rule_topic.read(settings).records] == ["quiet"]
    with open_consumer(settings) as consumer:
        assert consumer.partitions_for_topic(settings.topic("quarantine")), "what jobs leave unread counts for nobody"


def test_notifiers_go_on_with_the_rights_of_the_table(broker: SecuredBroker, tmp_path: Path) -> None:
    channels = {"hook": {"kind": "webhook", "url": "http://127.0.0.1:1/"}}
    own = broker.settings("notifiers", home=tmp_path)
    own = own.model_copy(update={"notify": NotifySettings.model_validate({"channels": channels})})
    stopping, turned = threading.Event(), threading.Event()
    thread = threading.Thread(target=Notifier(own, stopping, progress=turned.set).run, daemon=True)
    thread.start()
    assert turned.wait(60.0)
    stopping.set()
    thread.join(30.0)
    assert not thread.is_alive()


def refused(broker: SecuredBroker, folder: Path) -> dict[str, tuple[Settings, str]]:
    """Clients that are not let in, and the error that they get."""
    other = Authority(folder / "other", "other")
    late = broker.authority.sign("late", timedelta(days=-1))
    unnamed: dict[str, Any] = {
        "bootstrap_servers": broker.by_certificate,
        "security_protocol": "SSL",
        "sasl_mechanism": None,
    }
    return {
        "password": (
            broker.settings("agents", sasl_password="wrong"),
            "does not let us in by SCRAM-SHA-512.*sasl_password",
        ),
        "plain password": (
            broker.settings("agents", sasl_mechanism="PLAIN", sasl_password="wrong"),
            "does not let us in by PLAIN.*sasl_password",
        ),
        "mechanism": (
            broker.settings("agents", sasl_mechanism="SCRAM-SHA-256"),
            "no sign-in by SCRAM-SHA-256.*sasl_mechanism",
        ),
        "client secret": (broker.as_client("agents", "wrong"), "token endpoint .* answers 401.*sasl_oauth_client_id"),
        "expired": (broker.with_certificate(late), "no trust between.*certificate.*dates"),
        "signed by others": (broker.with_certificate(other.sign("agents")), "no trust between.*ssl_certfile"),
        "no certificate": (broker.settings(**unnamed), "certificate required.*ssl_certfile"),
        "broker of others": (
            broker.settings("agents", ssl_cafile=other.file),
            "unable to get local issuer.*ssl_cafile",
        ),
    }


def test_who_is_not_let_in_is_told_why_in_one_line_at_once(broker: SecuredBroker, tmp_path: Path) -> None:
    for name, (settings, words) in refused(broker, tmp_path).items():
        asked = len(broker.tokens.asked)
        with pytest.raises(InputError, match=words) as error:
            topics.create(settings)
        line = str(error.value)
        assert "\n" not in line and len(line) < 600, name
        assert not any(secret in line for secret in (*PASSWORDS.values(), "wrong")), name
        assert len(broker.tokens.asked) <= asked + 1, "asked again for what was refused"


def test_files_that_cannot_be_used_are_named(broker: SecuredBroker, tmp_path: Path) -> None:
    files = broker.authority.sign("agents", password=KEY_PASSWORD)
    with pytest.raises(SettingsError, match=r"agents\.key.*ssl_key_password"):
        client_options(broker.with_certificate(files, ssl_key_password="wrong"))
    with pytest.raises(SettingsError, match=r"none\.crt.*can be read"):
        client_options(broker.with_certificate((tmp_path / "none.crt", files[1])))


@pytest.mark.spark
@pytest.mark.long
def test_spark_reads_and_writes_by_password_certificate_and_token(broker: SecuredBroker, spark: SparkSession) -> None:
    spark._jvm.java.lang.System.setProperty(ALLOWED_URLS, f"{broker.tokens.url}/token")  # type: ignore[union-attr]
    broker.grant("User:CN=jobs", "jobs", broker.settings("jobs"))
    files = broker.authority.sign("jobs", password=KEY_PASSWORD)
    own = clients(broker, "jobs") | {"certificate": broker.with_certificate(files, ssl_key_password=KEY_PASSWORD)}
    for name, settings in own.items():
        options = kafka_connection(settings).prefixed()
        rows = spark.createDataFrame([(f"by {name}",)], "value string")
        rows.write.format("kafka").options(**options, topic="late").save()
        found = spark.read.format("kafka").options(**options, subscribe="late").load()
        assert f"by {name}" in {bytes(row.value).decode() for row in found.collect()}


@pytest.mark.spark
@pytest.mark.long
def test_jobs_run_with_the_rights_of_the_table_and_show_others_nothing(broker: SecuredBroker, tmp_path: Path) -> None:
    settings = broker.settings("jobs", home=tmp_path / "home")
    with Running(kappa_with(settings, "run", "extract", "detect", KAPPA_WINDOWING__WINDOW_SECONDS="1")) as running:
        address = running.address()
        with BoundedProducer(client_options(broker.settings("agents"))) as producer:

            def scored() -> bool:
                now = int(time.time() * 1000)
                point = {"@timestamp": iso(now), "host.name": "web-1", "metric.name": "load", "metric.value": 1.5}
                producer.send("telemetry", json.dumps(point).encode(), key=b"web-1")
                producer.flush()
                return ends(settings, "novelties") > 0

            running.wait(scored, 120, "detect's first watermark message")
        processes = family(running.process.pid)
        secrets = (PASSWORDS["jobs"], "c4nary-of-spark", "c4nary-of-elasticsearch")
        shown = [running.output, get(address + "/healthz")[1], get(address + "/metrics")[1]]
        assert open_to_others(processes) == []
        for secret in secrets:
            assert named_on_command_lines(processes, secret) == []
            assert files_with(settings.home, secret) == []
            assert not [text for text in shown if secret in text]
        assert open_files(settings.home) == []
        running.stop()


def ends(settings: Settings, kind: str) -> int:
    """How many records a topic has had."""
    topic = settings.topic(kind)
    with open_consumer(settings) as consumer:
        parts = [TopicPartition(topic, p) for p in consumer.partitions_for_topic(topic) or ()]
        return sum(consumer.end_offsets(parts).values())


@pytest.mark.long
def test_each_right_of_an_agent_is_needed(broker: SecuredBroker) -> None:
    settings = broker.settings("nobody")
    for right in acls("User:nobody", "agents", settings):
        topic = right.resource_pattern.resource_name
        with pytest.raises(InputError):
            send(settings, topic)
    broker.grant("User:nobody", "agents", settings)
    send(settings, "telemetry")
