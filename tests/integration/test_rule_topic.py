"""`kappa rules` on a real Kafka: what is written is what is listed, whatever else is in the topic."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from support.live_jobs import settings_file
from typer.testing import CliRunner

from app.cli.main import app
from app.core.settings import load
from app.core.timestamps import wall_clock
from app.embedded.stack_state import Addresses
from app.kafka import rule_topic, topics
from app.kafka.connection import client_options
from app.kafka.heartbeats import HEARTBEAT_KEY, heartbeat

pytestmark = [pytest.mark.stack]

CODECS = ("uncompressed", "gzip", "snappy", "lz4", "zstd")
RULES = '[[rules]]\nname = "night"\nhost = "db-*"\nmute = true\n[[rules]]\nname = "rack"\nhost = "web-1"\nreset = 2126-03-03T09:00:00Z\n'


def test_rules_are_written_listed_changed_and_ended(stack: Addresses, unique: str, tmp_path: Path) -> None:
    config, file = settings_file(tmp_path, stack, unique, unique, 1000), tmp_path / "rules.toml"
    settings = load(config)
    topics.create(settings)

    def kappa(*arguments: str) -> dict[str, Any]:
        answer = CliRunner().invoke(
            app, ["rules", *arguments, "--config", str(config), "--json"], catch_exceptions=False
        )
        assert answer.exit_code == 0, answer.output
        found: dict[str, Any] = json.loads(answer.stdout)
        return found

    file.write_text(RULES)
    assert kappa("apply", str(file), "--dry-run")["written"] == 0
    assert kappa("list")["rules"] == []
    assert kappa("apply", str(file), "--comment", "why", "--author", "me")["written"] == 2
    with KafkaProducer(**client_options(settings)) as producer:
        for key, value in (
            (HEARTBEAT_KEY, heartbeat(0)),
            (b"any", b"junk"),
            (b"bad", b'{"record":"rule","name":"bad"}'),
            (b"any", b'{"record":"rule","name":"any"' + b" " * 5_000 + b"}"),
            (b"any", b'{"record":"rule","name":"other","mute":true}'),
            (b"rack", b'{"record":"rule","name":"night","removed":true}'),
            (b"heartbeat", b'{"record":"rule","name":"heartbeat","host":"a","mute":true}'),
            (b"heartbeat", b'{"record":"rule","name":"heartbeat","removed":true}'),
        ):
            producer.send(settings.topic("rules"), value, key=key, partition=0).get(10.0)
    listed = kappa("list")["rules"]
    assert [(one["name"], one["series"], one["does"], one["author"]) for one in listed] == [
        ("night", "host=db-*", "mute", "me")
    ], "what is no rule has ended the one whose name is its key"
    assert [one["record"] is None for one in kappa("show", "rack")["records"]] == [False, True]
    ended = CliRunner().invoke(app, ["rules", "show", "rack", "--config", str(config)], catch_exceptions=False)
    assert "rack: not in effect" in ended.stdout and "no rule, which ends the one of this name" in ended.stdout
    assert [(one["rule"], one["is"]) for one in kappa("apply", str(file))["rules"]] == [
        ("night", "unchanged"),
        ("rack", "new"),
    ]
    assert kappa("apply", str(file))["written"] == 0
    assert kappa("apply", str(file), "--again")["written"] == 2
    file.write_text(RULES.replace("db-*", "db-1"))
    assert [(one["rule"], one["is"]) for one in kappa("apply", str(file))["rules"]] == [
        ("night", "changed"),
        ("rack", "unchanged"),
    ]
    assert kappa("remove", "rack", "--since", "2026-03-01T00:00:00Z")["written"] == 1
    assert [one["name"] for one in kappa("list")["rules"]] == ["night"]
    records = [one["record"] for one in kappa("show", "rack")["records"]]
    assert [one and one.get("removed", False) for one in records] == [False, None, False, False, True]
    begin = datetime.now(UTC) + timedelta(days=1)
    event = f"BEGIN:VEVENT\nUID:1\nDTSTART:{begin:%Y%m%dT%H%M%SZ}\nDURATION:PT1H\nEND:VEVENT"
    whole = tmp_path / "rack.ics"
    whole.write_text(f"BEGIN:VCALENDAR\n{event}\nEND:VCALENDAR\n")
    options = ("calendar", str(whole), "--host", "web-1")
    assert [kappa(*options)["written"], kappa(*options)["written"]] == [1, 0]
    assert sorted(one["does"] for one in kappa("list")["rules"]) == ["mute", "planned"]
    whole.write_text("BEGIN:VCALENDAR\nEND:VCALENDAR\n")
    assert [one["is"] for one in kappa(*options)["rules"]] == ["removed"]
    file.write_text(RULES.replace("2126", "2026"))
    assert [kappa("apply", str(file))["written"] for _ in range(2)] == [2, 0]
    assert rule_topic.read(settings, until=1).in_effect(wall_clock()).known.keys() == {"night"}


@pytest.mark.parametrize("codec", CODECS)
def test_rules_are_read_in_every_compression_that_the_settings_allow(
    stack: Addresses, unique: str, tmp_path: Path, codec: str
) -> None:
    found = load(settings_file(tmp_path, stack, unique, unique, 1000))
    settings = found.model_copy(update={"topics": found.topics.model_copy(update={"compression": codec})})
    topics.create(settings)
    names = [f"night {number}" for number in range(200)]
    rule_topic.write(settings, [{"record": "rule", "name": name, "host": "db-*", "mute": True} for name in names])
    assert [one.name for one in rule_topic.read(settings).records] == names
