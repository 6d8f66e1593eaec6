"""Savepoints without state, and a log without a broker: enough for what decides from where a version begins."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from app.core.settings import Settings
from app.kafka import topics
from app.kafka.input_offsets import input_partitions, input_topics
from app.kafka.offset_ranges import OffsetRange
from app.versions import start_position
from app.versions.pinned_configuration import configuration_of
from pipelines.state import savepoint_format

NOON = 1_767_614_400_000


def save(
    folder: Path,
    settings: Settings,
    watermark: int = NOON,
    configuration: Mapping[str, Any] | None = None,
    created_at: str = "2026-01-05T12:00:20+00:00",
) -> Path:
    """Write a savepoint of a version that verifies as whole; its only table holds nothing."""
    folder.mkdir(parents=True)
    table = folder / "gauges.parquet"
    table.write_bytes(b"x" * 100)
    content = {
        "format": savepoint_format.FORMAT,
        "formats": savepoint_format.FORMATS,
        "watermark": watermark,
        "watermarks": {},
        "files": {table.name: {"sha256": savepoint_format.sha256(table), "bytes": 100}},
    }
    manifest = {
        **content,
        "hash": savepoint_format.state_hash(content),
        "name": folder.name,
        "version": settings.version,
        "shards": settings.windowing.shards,
        "series": 0,
        "correlated": None,
        "topics": input_topics(settings),
        "configuration": configuration_of(settings) if configuration is None else configuration,
        "configuration_sha256": "",
        "code_version": "0.1.0",
        "log": {},
        "created_at": created_at,
    }
    whole = {**manifest, "checksum": savepoint_format.manifest_checksum(manifest)}
    (folder / savepoint_format.MANIFEST).write_bytes(savepoint_format.manifest_bytes(whole))
    return folder


def without_broker(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    """Let `start_position` find a log of ten records in each partition, which reaches back as far as is wanted."""
    held = {part: OffsetRange(0, 10) for part in input_partitions(settings)}
    monkeypatch.setattr(topics, "create", lambda _: {})
    monkeypatch.setattr(start_position, "open_consumer", lambda _: nullcontext(None))
    monkeypatch.setattr(start_position, "offset_ranges", lambda consumer, wanted: held)
    monkeypatch.setattr(start_position, "offsets_at_time", lambda consumer, ranges, at: dict.fromkeys(held, 0))
    monkeypatch.setattr(start_position, "first_offsets_after", lambda own, watermark: dict.fromkeys(held, 7))
    monkeypatch.setattr(start_position, "own_ends", lambda own: {})
