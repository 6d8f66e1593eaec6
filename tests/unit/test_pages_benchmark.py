"""The documents that the benchmark of the pages makes are those that Elasticsearch takes: `index` writes no others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from app.search.mappings import PROPERTIES
from benchmarks.pages import made


def unknown(document: Mapping[str, Any], properties: Mapping[str, Any], of: str = "") -> Iterator[str]:
    """Fields that are not mapped, with those that they are within."""
    for name, value in document.items():
        if name not in properties:
            yield of + name
            continue
        fields = properties[name].get("properties")
        for one in value if isinstance(value, list) else [value]:
            if fields is not None and isinstance(one, Mapping):
                yield from unknown(one, fields, f"{of}{name}.")


def test_its_documents_have_no_field_that_is_not_mapped() -> None:
    found: dict[str, set[str]] = {kind: set() for kind in ("scores", "novelties", "incidents", "pipeline")}
    for action in made("live", 2_000, datetime(2026, 11, 21, tzinfo=UTC)):
        kind = action["_index"].split("-")[1]
        found[kind].update(unknown(action["_source"], PROPERTIES[kind]))
    assert found == {kind: set() for kind in found}
