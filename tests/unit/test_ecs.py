"""Fields of documents outside of our own groups are those of the Elastic Common Schema, with its types."""

from __future__ import annotations

import pytest

from app.search.mappings import PROPERTIES
from dashboards.kibana.fields import fields_of
from pipelines.elasticsearch.documents import ECS_VERSION

# Field types of ECS 9.4.0, of its npm package @elastic/ecs, for what is used here; `text` and `match_only_text` are one family.
ECS = {
    "@timestamp": "date",
    "ecs.version": "keyword",
    "event.category": "keyword",
    "event.dataset": "keyword",
    "event.end": "date",
    "event.id": "keyword",
    "event.kind": "keyword",
    "event.module": "keyword",
    "event.reason": "keyword",
    "event.severity": "long",
    "event.start": "date",
    "event.type": "keyword",
    "host.name": "keyword",
    "log.level": "keyword",
    "message": "text",
    "observer.name": "keyword",
    "rule.category": "keyword",
    "rule.id": "keyword",
    "rule.name": "keyword",
    "rule.ruleset": "keyword",
    "service.name": "keyword",
    "tags": "keyword",
}
OWN = ("novelty", "pipeline", "label", "delivery", "alarm")  # groups that ECS does not have
OF_EVERY_EVENT = {"@timestamp", "ecs.version", "event.kind", "event.dataset"}
# What the tables of external alerts and of hosts in Kibana show, and the filters of alerts ask for.
OF_ALERTS = {
    *(
        "event.category",
        "event.type",
        "event.module",
        "event.id",
        "event.severity",
        "event.start",
        "event.end",
        "event.reason",
    ),
    *(
        "rule.id",
        "rule.name",
        "rule.category",
        "rule.ruleset",
        "observer.name",
        "host.name",
        "service.name",
        "message",
        "tags",
    ),
}


@pytest.mark.parametrize("kind", PROPERTIES)
def test_fields_of_ecs_have_its_types(kind: str) -> None:
    found = {name: field.type for name, field in fields_of(PROPERTIES[kind]).items() if name.split(".")[0] not in OWN}
    assert found == {name: ECS[name] for name in found}
    assert found.keys() >= OF_EVERY_EVENT


@pytest.mark.parametrize("kind", ["novelties", "incidents"])
def test_alerts_have_what_kibanas_views_look_for(kind: str) -> None:
    assert fields_of(PROPERTIES[kind]).keys() >= OF_ALERTS


def test_documents_say_which_release_they_follow() -> None:
    assert ECS_VERSION == "9.4.0", "look through ECS and test_documents' allowed values again"
