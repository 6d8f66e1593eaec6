"""`kappa doctor` on real servers that are set up unsafely: all that is unsafe is named, the most dangerous first."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType
from support.live_jobs import settings_file
from typer.testing import CliRunner

from app.cli.main import app
from app.core.settings import Settings, load
from app.embedded.stack_state import Addresses
from app.kafka import topics
from app.kafka.connection import admin_client, client_options
from app.search.connection import elasticsearch_connection

pytestmark = pytest.mark.stack

UNSAFE = {
    "telemetry": {"message.timestamp.type": "LogAppendTime"},  # the settings say that it holds history
    "logs": {"max.message.bytes": "1000", "retention.bytes": "100000"},
    "statistics": {"cleanup.policy": "compact", "retention.ms": "3600000"},
}
READ_ONLY = "index.blocks.read_only_allow_delete"


@pytest.fixture
def file(stack: Addresses, folder: Path, unique: str) -> Iterator[Path]:
    """Settings of a deployment that is set up unsafely, of which `labels` is missing."""
    found = settings_file(folder, stack, unique, "live", 100_000)
    found.write_text(
        found.read_text().replace(
            f'"{stack.elasticsearch}"', f'"{stack.elasticsearch}"\npassword = "secret"\nusername = "kappa"'
        )
    )
    found.chmod(0o644)
    settings = load(found)
    settings.home.mkdir()
    settings.home.chmod(0o755)
    topics.create(settings)
    spoil(settings)
    client = elasticsearch_connection(settings).connect()
    index = f"kappa-scores-{unique}-2026.01.05"
    client.indices.create(index=index)
    client.indices.put_settings(index=index, settings={READ_ONLY: True})
    yield found
    client.indices.put_settings(index=index, settings={READ_ONLY: None})
    client.indices.delete(index=index)
    client.close()


def spoil(settings: Settings) -> None:
    """Give topics settings that lose records or change results."""
    client = admin_client(settings)
    for kind, config in UNSAFE.items():
        client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, settings.topic(kind), config)])
    client.delete_topics([settings.topic("labels")])
    client.close()
    producer = KafkaProducer(**client_options(settings), acks="all")
    producer.send(settings.topic("telemetry"), b"{}", partition=0).get(30)
    producer.close()


def findings(file: Path) -> list[dict[str, Any]]:
    result = CliRunner().invoke(app, ["doctor", "--json", "--config", str(file)])
    assert result.exit_code == 1, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)["findings"]
    return found


def test_every_unsafe_setting_is_named_with_what_to_do_and_dangers_come_first(file: Path, unique: str) -> None:
    found = findings(file)
    order = [one["status"] for one in found]
    assert order == sorted(order, key=("danger", "warning", "ok").index)
    names = [one for one in found if one["status"] != "ok"]
    dangers = {(one["check"], one["found"].split(" ")[0]) for one in found if one["status"] == "danger"}
    assert dangers >= {
        (f"topic {unique}-telemetry", "message.timestamp.type"),
        (f"topic {unique}-logs", "max.message.bytes"),
        (f"topic {unique}-statistics", "cleanup.policy"),
        (f"topic {unique}-labels", "is"),
        ("indices", "read-only:"),
        ("files of secrets", str(file)),
    }, json.dumps(names, indent=1)
    warnings = {(one["check"], one["found"].split(" ")[0]) for one in found if one["status"] == "warning"}
    assert warnings >= {
        ("Kafka", "one"),
        (f"topic {unique}-logs", "retention.bytes"),
        (f"topic {unique}-statistics", "retention.ms"),
        ("home", str(file.with_name("live"))),
    }
    for one in found:
        if one["status"] != "ok":
            assert one["wanted"] and one["advice"], one
