"""The fields that a mapping has, and what each can be used for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

GROUPED = frozenset({"keyword", "date", "long", "integer", "double", "boolean"})
COUNTED = frozenset({"date", "long", "integer", "double"})


@dataclass(frozen=True)
class MappedField:
    """A field of a document: its type, and whether it can be filtered by (`searchable`) and grouped by (`aggregatable`)."""

    name: str
    type: str
    searchable: bool
    aggregatable: bool

    @property
    def is_number(self) -> bool:
        """Whether a largest value of it can be asked for."""
        return self.type in COUNTED and self.aggregatable


def fields_of(properties: Mapping[str, Any]) -> dict[str, MappedField]:
    """All fields of a mapping's `properties` by their full names.

    Members of a nested field are left out: neither Kibana's bars nor its tables look into them.
    """
    return {field.name: field for field in flat(properties)}


def flat(properties: Mapping[str, Any], prefix: str = "") -> Iterator[MappedField]:
    """Fields in the order of the mapping, objects before what is in them left out."""
    for name, mapping in properties.items():
        if mapping.get("type") == "nested":
            continue
        if "properties" in mapping:
            yield from flat(mapping["properties"], f"{prefix}{name}.")
            continue
        kind = mapping["type"]
        stored = mapping.get("doc_values", True)
        yield MappedField(f"{prefix}{name}", kind, mapping.get("index", True), stored and kind in GROUPED)
