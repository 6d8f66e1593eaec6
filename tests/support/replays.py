"""Replays that are broken off, and results of versions, held against each other."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import SparkSession
from support.live_jobs import records

from app.core.settings import Settings
from replay import run
from replay.run import ReplayPlan, ReplayProgress


def named(settings: Settings, version: str) -> Settings:
    return settings.model_copy(update={"version": version, "jar_folder": settings.jars})


def broken_off(spark: SparkSession, what: ReplayPlan) -> None:
    """Run a replay of two slices, and break it off while it writes the second one."""
    assert len(what.manifest.slices) == 2

    def breaks(at: ReplayProgress) -> None:
        if at.done == 1 and at.doing == "writing":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.replay(spark, what, on_progress=breaks)


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
