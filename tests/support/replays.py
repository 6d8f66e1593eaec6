"""Results of versions, held against each other."""

from __future__ import annotations

import json

from support.live_jobs import records

from app.core.settings import Settings


def named(settings: Settings, version: str) -> Settings:
    return settings.model_copy(update={"version": version, "jar_folder": settings.jars})


def values(settings: Settings, kind: str, after: int = -1) -> set[bytes]:
    """Distinct results of the windows after one, without what names the version."""
    found = set()
    for _, value, _ in records(settings, kind):
        record = json.loads(value)
        if record["record"] != "watermark" and record["window_end"] > after:
            record.pop("version", None)
            found.add(value if kind == "scores" else json.dumps(record, sort_keys=True).encode())
    return found


def same(one: Settings, other: Settings, after: int = -1) -> bool:
    return all(values(one, kind, after) == values(other, kind, after) for kind in ("scores", "novelties", "incidents"))
