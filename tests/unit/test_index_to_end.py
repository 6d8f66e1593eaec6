"""What indexes a version to its end is stopped by a signal as other jobs are: after the batch in hand."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from app.core.settings import Settings
from app.kafka import quarantine
from app.runtime import run
from app.runtime.run import index_to_end
from app.versions.serving import Serving
from pipelines.errors import InputError
from pipelines.quarantine import NO_QUARANTINE
from pipelines.runner import Job
from replay import promote
from replay.promote import PromotionPlan

SPARK: Any = None  # it is not asked for anything


class Query:
    """A query that lasts until it is stopped, or for some looks at it."""

    def __init__(self, looks: int, on_look: Any = None) -> None:
        self.left, self.on_look, self.stopped = looks, on_look, False
        self.status, self.lastProgress = {"isTriggerActive": False}, None

    @property
    def isActive(self) -> bool:  # noqa: N802  # Spark's name
        self.left -= 1
        if self.on_look is not None:
            self.on_look()
        return self.left >= 0 and not self.stopped

    def stop(self) -> None:
        self.stopped = True


class Checks:
    """A runner that is asked whether a query has failed."""

    def __init__(self, *_: object) -> None:
        pass

    def check(self, query: Query) -> None:
        pass

    def stop(self) -> None:
        pass


def indexing(monkeypatch: pytest.MonkeyPatch, query: Query) -> list[Job]:
    """Let `index_to_end` run a query; answers the jobs that it has started."""
    started: list[Job] = []

    def start(spark: object, kafka: object, job: Job, trigger: object) -> Query:
        started.append(job)
        return query

    for name, found in (
        ("start", start),
        ("Runner", Checks),
        ("prepare", lambda *_: None),
        ("QUERY_SECONDS", 0.0),
    ):
        monkeypatch.setattr(run, name, found)
    monkeypatch.setattr(quarantine, "read", lambda _: SimpleNamespace(found=NO_QUARANTINE))
    return started


def test_it_ends_with_its_topics(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    query = Query(5)
    started = indexing(monkeypatch, query)
    index_to_end(SPARK, Settings(home=tmp_path))
    assert [job.name for job in started] == ["index"]
    assert query.left < 0


def test_a_signal_ends_it_after_the_batch_in_hand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stopping = threading.Event()
    query = Query(1_000_000, stopping.set)
    indexing(monkeypatch, query)
    index_to_end(SPARK, Settings(home=tmp_path), stopping)
    assert query.stopped


def test_a_promotion_that_is_stopped_while_the_old_version_is_indexed_starts_no_candidate(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    old, stopping = Settings(home=tmp_path), threading.Event()
    new = old.model_copy(update={"version": "v2"})

    def signalled(settings: Settings, given: threading.Event, report: object) -> None:
        assert given is stopping
        given.set()

    monkeypatch.setattr(promote, "finish_index", signalled)
    monkeypatch.setattr(promote, "running_candidate", lambda *_: pytest.fail("the candidate has been started"))
    what = PromotionPlan(old, new, Serving(), None, first=False)
    with pytest.raises(InputError, match="stopped before version v2 had caught up: nothing has changed"):
        promote.take_over(what, stopping)
