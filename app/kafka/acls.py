"""The least rights in Kafka of each kind of user, as commands of Kafka's own `kafka-acls.sh`.

A user is a principal of the brokers: `User:agents` with SASL, `User:CN=agents` with a client certificate. A topic of a version is
called as that of `live`, with a dot and the version behind it, so rights to what jobs write are for the name, and for names that begin with
the name and a dot: `late` and `late.v2`, and nobody else's `late-payments`.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.core.settings import FEW, INPUTS, Settings
from app.kafka.topics import CREDENTIALS, DELIVERIES, EARLY, OUTPUTS, QUARANTINE

RULES = "rules"


@dataclass(frozen=True)
class Right:
    """Operations on topics: on one of this name, or on those whose names begin so."""

    operations: tuple[str, ...]
    topic: str
    prefixed: bool = False


def of_versions(operations: tuple[str, ...], names: Sequence[str]) -> list[Right]:
    """The same operations on topics of `live` and of all other versions."""
    return [
        right for name in names for right in (Right(operations, name), Right(operations, f"{name}.", prefixed=True))
    ]


def rights(settings: Settings) -> dict[str, list[Right]]:
    """By kind of user what it needs, and nothing else. `Read` and `Write` permit `Describe` as well."""
    prefix = settings.topics.prefix
    inputs, outputs = (
        [f"{prefix}{kind}" for kind in INPUTS],
        [f"{prefix}{kind}" for kind in (*OUTPUTS, QUARANTINE, DELIVERIES, EARLY)],
    )
    return {
        "agents": [Right(("Write",), f"{prefix}{kind}") for kind in INPUTS if kind not in FEW],
        "people": [Right(("Write",), f"{prefix}{kind}") for kind in FEW if kind != RULES],
        # Who writes rules can silence alarms; what is in effect is read before, without what jobs leave unread.
        "responders": [
            *(Right(("Write",), f"{prefix}{kind}") for kind in FEW if kind != RULES),
            Right(("Read", "Write"), f"{prefix}{RULES}"),
            Right(("Read",), f"{prefix}{QUARANTINE}"),
        ],
        # Heartbeats are written to the inputs; how a topic stamps its records is checked before a job starts.
        "jobs": [
            *(Right(("Read", "Write", "DescribeConfigs"), name) for name in inputs),
            *of_versions(("Read", "Write", "DescribeConfigs"), outputs),
        ],
        "readers": of_versions(("Read",), outputs),
        # `kappa run notify` as a process of its own.
        "notifiers": [
            *of_versions(("Read",), [f"{prefix}{kind}" for kind in ("incidents", "novelties")]),
            *(Right(("Read",), f"{prefix}{kind}") for kind in ("labels", RULES, EARLY, QUARANTINE)),
            Right(("Read", "Write"), f"{prefix}{DELIVERIES}"),
        ],
        # `kappa run early`: what agents write, the jobs' bounds and what settles alarms.
        "lanes": [
            *(Right(("Read",), f"{prefix}{kind}") for kind in ("telemetry", "logs")),
            *of_versions(("Read",), [f"{prefix}{kind}" for kind in ("bounds", "incidents", "novelties")]),
            Right(("Read", "Write"), f"{prefix}{EARLY}"),
        ],
        "operators": [
            *(Right(("Create", "Describe", "DescribeConfigs"), name) for name in inputs),
            *of_versions(("Create", "Describe", "DescribeConfigs"), outputs),
        ]
        + [Right(("Delete",), f"{name}.", prefixed=True) for name in outputs]
        # `kappa quarantine retry` appends a record once more to its topic, and notes that.
        + [Right(("Read", "Write"), name) for name in (*inputs, f"{prefix}{QUARANTINE}")],
    }


def commands(settings: Settings, users: Mapping[str, Sequence[str]]) -> list[str]:
    """A line of shell for each right of each user; `users` are principals by kind, or names: `agents` is `User:agents`."""
    servers = settings.kafka.bootstrap_servers or "HOST:9092"
    wanted = rights(settings)
    return [
        command(servers, name if ":" in name else f"User:{name}", right)
        for kind, names in users.items()
        for name in names
        for right in wanted[kind]
    ]


def command(servers: str, principal: str, right: Right) -> str:
    """The command that gives one right."""
    operations = " ".join(f"--operation {name}" for name in right.operations)
    pattern = " --resource-pattern-type prefixed" if right.prefixed else ""
    return (
        f"kafka-acls.sh --bootstrap-server {shlex.quote(servers)} {CREDENTIALS} --add --allow-principal {shlex.quote(principal)} "
        f"{operations} --topic {shlex.quote(right.topic)}{pattern}"
    )
