"""A real Kafka broker in a JVM of its own: KRaft, broker and controller in one, on loopback only."""

import socket
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from app.core.ports import LOOPBACK
from app.embedded.jars import Jars
from app.embedded.jvm import Jvm, JvmCommand, pyspark_jar
from app.embedded.server_options import server_options

_LARGEST_MESSAGE_BYTES = 2 * 1024 * 1024
_CLUSTER_ID = "a2FwcGEta2FwcGEta2FwcA"  # any 16 bytes in base64: there is one broker only
_API_VERSIONS = 18
_REPLACED = ("log4j-", "slf4j-api-")


def kafka_version(jars: Jars) -> str:
    """The version in the name of its jar."""
    return next(jar.stem.rpartition("-")[2] for jar in jars.kafka if jar.name.startswith("kafka_"))


def kafka_command(home: Path, jars: Jars, heap_mib: int) -> JvmCommand:
    """The command of its JVM."""
    # Kafka's own jars have no binding for slf4j, so it would log nothing; pyspark's log4j has one.
    logging = [
        pyspark_jar(f"{name}-[0-9]*.jar") for name in ("slf4j-api", "log4j-slf4j2-impl", "log4j-api", "log4j-core")
    ]
    own = [jar for jar in jars.kafka if not jar.name.startswith(_REPLACED)]
    log = home / "logs" / "kafka.log"
    return JvmCommand(
        "Kafka", [*logging, *own], server_options(home, "kafka", log, heap_mib), log, killed_with_launcher=True
    )


def kafka_properties(home: Path, port: int, controller_port: int) -> dict[str, str]:
    """The broker's settings; topics have more of their own."""
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{LOOPBACK}:{port},CONTROLLER://{LOOPBACK}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{port}",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(home / "kafka"),
        "num.partitions": "1",
        "auto.create.topics.enable": "false",
        "message.max.bytes": str(_LARGEST_MESSAGE_BYTES),
        "replica.fetch.max.bytes": str(_LARGEST_MESSAGE_BYTES),
        "default.replication.factor": "1",
        "offsets.topic.replication.factor": "1",
        # Fifty partitions, Kafka's default, cost a second at the first consumer and files for nothing.
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        # Everything can be computed again from the log: only the retention of a topic deletes records.
        "log.retention.ms": "-1",
        # A stop waits for no other broker to take over.
        "controlled.shutdown.enable": "false",
    }


def start_kafka(
    jvm: Jvm,
    home: Path,
    port: int,
    controller_port: int,
    more: Mapping[str, str] | None = None,
    users: Sequence[str] = (),
) -> Any:
    """Start it and return the server, once it serves; py4j's Py4JError or StackError if it does not.

    `more` are further settings, and `users` SCRAM's as Kafka's formatter takes them: of brokers that ask who one is.
    """
    java = jvm.connect()
    folder = str(home / "kafka")
    formatter = java.org.apache.kafka.metadata.storage.Formatter()
    formatter.setNodeId(1).setClusterId(_CLUSTER_ID).addDirectory(folder).setMetadataLogDirectory(folder)
    formatter.setControllerListenerName("CONTROLLER").setIgnoreFormatted(True)
    formatter.setScramArguments(list(users))
    formatter.run()
    properties = java.java.util.Properties()
    for key, value in (kafka_properties(home, port, controller_port) | dict(more or {})).items():
        properties.setProperty(key, value)
    config = java.kafka.server.KafkaConfig.fromProps(properties, False)
    server = java.kafka.server.KafkaRaftServer(config, java.org.apache.kafka.common.utils.Time.SYSTEM)
    server.startup()
    return server


def kafka_answers(port: int, wait_seconds: float) -> bool:
    """Whether it says which requests it knows, the first question of every client."""
    try:
        with socket.create_connection((LOOPBACK, port), wait_seconds) as connection:
            # Length of what follows, key of the request, its version, its number, no name of a client
            connection.sendall(struct.pack(">ihhih", 10, _API_VERSIONS, 0, 1, -1))
            return len(connection.recv(4)) > 0
    except OSError:
        return False


def stop_kafka(server: Any) -> None:
    """Flush and close; returns when the data are at rest."""
    server.shutdown()
