"""The topic `rules`, read further again and again: the same as read from its beginning."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from app.core.settings import Settings
from app.embedded.stack_state import Addresses
from app.kafka import quarantine, record_range, rule_topic, topics
from app.kafka.rule_topic import RuleTail
from app.notify.routes import Routes
from models.records.records import RuleRecord

pytestmark = pytest.mark.stack
LATER = 2**52  # the end of a window after all records


def settings_of(folder: Path, kafka: str | None, prefix: str) -> Settings:
    made = Settings(home=folder)
    return made.model_copy(
        update={
            "kafka": made.kafka.model_copy(update={"bootstrap_servers": kafka}),
            "topics": made.topics.model_copy(update={"prefix": prefix}),
        }
    )


def say(settings: Settings, name: str, host: str) -> None:
    rule_topic.write(settings, [{"record": RuleRecord.KIND, "name": name, "host": host, "channels": []}])


def seen(routes: Routes) -> list[tuple[str, str | None]]:
    return [(one.route.name, one.route.host) for one in routes.at(LATER)]


def test_a_route_in_quarantine_is_none_for_who_has_read_it_before_and_for_who_begins_from_scratch(
    folder: Path, stack: Addresses, unique: str
) -> None:
    settings = settings_of(folder, stack.kafka, f"{unique}-")
    topics.create(settings)
    tail, routes = RuleTail(settings), Routes(settings.notify)

    def read(tail: RuleTail, routes: Routes) -> list[tuple[str, str | None]]:
        found = tail.read()
        routes.take(found.records, tail.window_ms, anew=found.anew)
        return seen(routes)

    for name, host in (("a", "web-*"), ("b", "db-*"), ("a", "app-*")):
        say(settings, name, host)
        read(tail, routes)
    assert seen(routes) == [("a", "app-*"), ("b", "db-*")]
    assert tail.read().records == (), "each is read once"
    record = record_range.fetch_record(settings, settings.topic("rules"), 0, 1)
    named = quarantine.quarantine_entry(record, job="extract", reason="killed", version="live", software="x")
    others = [replace(named, job="index", offset=0), replace(named, topic="other", offset=2)]
    quarantine.append(settings, [*others, named])
    say(settings, "c", "ph-*")
    assert read(tail, routes) == [("a", "app-*"), ("c", "ph-*")]
    assert read(RuleTail(settings), Routes(settings.notify)) == seen(routes)
    say(settings, "d", "x")
    found = tail.read()
    assert not found.anew and len(found.records) == 1, "it is read again once"
