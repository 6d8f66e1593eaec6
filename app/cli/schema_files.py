"""Writes docs/schemas from the classes of the records: `python -m app.cli.schema_files`, or `make docs`.

One JSON Schema (draft 2020-12) for each topic that other programs may read.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from app.core.settings import PROJECT
from models.records.records import HEADER, PUBLIC, RefusedRecord
from models.records.schema import json_schema

FOLDER = PROJECT / "docs" / "schemas"
REFUSED = (
    "The value is that of the refused record, byte for byte; this is the schema of the Kafka headers, all of them text."
)


def schema_of(topic: str) -> dict[str, Any]:
    """The JSON Schema of the records of a topic."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"Records of the topic {topic}"}
    records = PUBLIC[topic]
    if records == (RefusedRecord,):
        found = json_schema(RefusedRecord)
        texts = {f"{HEADER}{name}": {**of, "type": "string"} for name, of in found["properties"].items()}
        required = list(texts)
        return {
            **head,
            **found,
            "description": f"{found['description']} {REFUSED}",
            "properties": texts,
            "required": required,
        }
    if len(records) == 1:
        return {**head, **json_schema(records[0])}
    return {**head, "oneOf": [{"title": record.__name__, **json_schema(record)} for record in records]}


def files() -> dict[Path, str]:
    """The text of each file."""
    return {
        FOLDER / f"{topic}.schema.json": json.dumps(schema_of(topic), indent=2, ensure_ascii=False) + "\n"
        for topic in PUBLIC
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for path, text in files().items():
        path.write_text(text)
