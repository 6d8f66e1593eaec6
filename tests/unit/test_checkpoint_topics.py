"""A setting changes the topics that a job reads: `index` goes on where it was, jobs with a state are refused before anything is changed."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from app.core.settings import Settings
from app.kafka import changed_topics
from app.kafka.changed_topics import adapt_checkpoints
from app.kafka.checkpoint_damage import find_damage
from app.kafka.checkpoints import consumed_offsets, planned_batch
from app.runtime import run
from app.runtime.health import Health
from app.runtime.jobs import selected
from app.runtime.supervise import run_until_stopped
from app.versions import locks
from pipelines.errors import InputError

KINDS = ("novelties", "incidents", "late", "dead-letters", "deliveries", "early")
ABOUT = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": {}})
LABELS = {"labels": {"0": 3}}


def own(offset: int, *more: str, prefix: str = "") -> dict[str, Any]:
    """What `index` has read beside labels."""
    return {f"{prefix}{kind}": {"0": offset, "1": offset} for kind in (*KINDS, *more)}


def write(checkpoint: Path, number: int | None, *sources: dict[str, Any], committed: bool = True) -> None:
    """A batch as Spark writes it; without a number, where the sources began."""
    if number is None:
        for n, source in enumerate(sources):
            file = checkpoint / f"sources/{n}/0"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"\0v1\n{json.dumps(source)}")
        return
    for part in ("offsets", "commits"):
        (checkpoint / part).mkdir(parents=True, exist_ok=True)
    (checkpoint / "metadata").write_text('{"id":"x"}')
    (checkpoint / f"offsets/{number}").write_text("\n".join(["v1", ABOUT, *map(json.dumps, sources)]))
    (checkpoint / f"offsets/.{number}.crc").write_bytes(b"that of Spark")
    if committed:
        (checkpoint / f"commits/{number}").write_text("v1\n{}")


@pytest.fixture
def begins(monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """Every partition begins at offset 7000; holds what was asked."""
    asked: list[set[str]] = []

    def beginnings(settings: Settings, names: set[str]) -> dict[str, dict[str, int]]:
        asked.append(names)
        return {name: {"0": 7000, "1": 7000} for name in names}

    monkeypatch.setattr(changed_topics, "first_offsets", beginnings)
    return asked


def settings_of(home: Path, **more: Any) -> Settings:
    return Settings(home=home, **more)


def content(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("tried", [False, True])
def test_index_goes_on_without_scores_that_are_switched_off(
    tmp_path: Path, begins: list[set[str]], tried: bool
) -> None:
    settings = settings_of(tmp_path)
    checkpoint = settings.checkpoint("index")
    write(checkpoint, 5, own(40, "scores"), LABELS)
    if tried:  # Spark writes this batch before it fails
        write(checkpoint, 6, own(50), LABELS, committed=False)
    lines: list[str] = []
    adapt_checkpoints(settings, {"index": checkpoint}, lines.append)
    found = consumed_offsets(checkpoint)
    assert found is not None
    assert found.offsets == {(kind, p): 40 for kind in KINDS for p in (0, 1)} | {("labels", 0): 3}
    assert planned_batch(checkpoint) is None
    assert find_damage(checkpoint) is None
    assert begins == []
    assert any("topic scores is read no longer" in line for line in lines)


@pytest.mark.parametrize("tried", [False, True])
def test_index_reads_scores_that_are_switched_on_from_where_they_begin(
    tmp_path: Path, begins: list[set[str]], tried: bool
) -> None:
    settings = settings_of(tmp_path, index={"scores": True})
    checkpoint = settings.checkpoint("index")
    write(checkpoint, 5, own(40), LABELS)
    if tried:
        write(checkpoint, 6, own(50, "scores"), LABELS, committed=False)
    adapt_checkpoints(settings, {"index": checkpoint})
    found = consumed_offsets(checkpoint)
    assert found is not None
    assert {found.offsets["scores", p] for p in (0, 1)} == {7000}
    assert found.offsets["novelties", 0] == 40
    assert begins == [{"scores"}]
    adapt_checkpoints(settings, {"index": checkpoint})
    assert begins == [{"scores"}], "it is done once"


def test_what_was_planned_with_other_topics_is_planned_anew_once_the_setting_is_back(
    tmp_path: Path, begins: list[set[str]]
) -> None:
    settings = settings_of(tmp_path, index={"scores": True})
    checkpoint = settings.checkpoint("index")
    write(checkpoint, 5, own(40, "scores"), LABELS)
    before = (checkpoint / "offsets/5").read_bytes()
    write(checkpoint, 6, own(50), LABELS, committed=False)
    adapt_checkpoints(settings, {"index": checkpoint})
    assert planned_batch(checkpoint) is None
    assert (checkpoint / "offsets/5").read_bytes() == before


def test_index_that_has_never_ended_a_batch_begins_with_the_topics_of_now(
    tmp_path: Path, begins: list[set[str]]
) -> None:
    settings = settings_of(tmp_path)
    checkpoint = settings.checkpoint("index")
    write(checkpoint, 0, own(50, "scores"), LABELS, committed=False)
    write(checkpoint, None, own(2, "scores"), LABELS)
    adapt_checkpoints(settings, {"index": checkpoint})
    found = consumed_offsets(checkpoint)
    assert found is not None
    assert found.offsets == {(kind, p): 2 for kind in KINDS for p in (0, 1)} | {("labels", 0): 3}
    assert planned_batch(checkpoint) is None
    assert (checkpoint / "sources/0/0").read_bytes().startswith(b"\0v1\n{")


def test_a_checkpoint_of_the_same_topics_is_left_as_it_is(tmp_path: Path, begins: list[set[str]]) -> None:
    settings = settings_of(tmp_path)
    jobs = {job: settings.checkpoint(job) for job in ("extract", "detect", "correlate", "index")}
    write(jobs["extract"], 5, {"telemetry": {"0": 1}}, {"telemetry": {"1": 1}}, {"logs": {"0": 4}})
    write(jobs["extract"], 6, {"telemetry": {"0": 2}}, {"telemetry": {"1": 1}}, {"logs": {"0": 4}}, committed=False)
    write(jobs["detect"], None, {"statistics": {"0": 0}})
    write(jobs["index"], 5, own(40), LABELS)
    write(jobs["index"], 6, own(50), LABELS, committed=False)
    before = content(tmp_path)
    adapt_checkpoints(settings, jobs)
    assert content(tmp_path) == before
    assert begins == []


@pytest.mark.parametrize(
    ("job", "topic"), [("extract", "telemetry"), ("detect", "statistics"), ("index", "dead-letters")]
)
def test_another_prefix_is_refused_and_changes_nothing(
    tmp_path: Path, begins: list[set[str]], job: str, topic: str
) -> None:
    settings = settings_of(tmp_path, topics={"prefix": "kappa."})
    checkpoint = settings.checkpoint(job)
    write(checkpoint, 5, own(40) if job == "index" else {topic: {"0": 1}})
    write(checkpoint, 6, own(50) if job == "index" else {topic: {"0": 2}}, committed=False)
    before = content(tmp_path)
    with pytest.raises(
        InputError, match=rf"began with topic {topic}, and would now read kappa\..*set topics.prefix back"
    ):
        adapt_checkpoints(settings, {job: checkpoint})
    assert content(tmp_path) == before


def test_a_prefix_that_is_set_back_is_taken_also_after_a_batch_was_planned_with_the_other_one(
    tmp_path: Path, begins: list[set[str]]
) -> None:
    settings = settings_of(tmp_path)
    checkpoint = settings.checkpoint("detect")
    write(checkpoint, 5, {"statistics": {"0": 40}})
    write(checkpoint, 6, {"kappa.statistics": {"0": 0}}, committed=False)
    adapt_checkpoints(settings, {"detect": checkpoint})
    found = consumed_offsets(checkpoint)
    assert found is not None
    assert found.offsets == {("statistics", 0): 40}
    assert planned_batch(checkpoint) is None


def test_another_prefix_is_refused_before_its_topics_are_created(
    tmp_path: Path, begins: list[set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(tmp_path, topics={"prefix": "kappa."})
    write(settings.checkpoint("correlate"), 5, {"novelties": {"0": 40}})
    write(settings.checkpoint("index"), 5, own(40), LABELS)
    for name in ("prepare", "prepare_log"):
        monkeypatch.setattr(run, name, lambda *_: pytest.fail("topics are created"))
    jobs = run.started_jobs(settings, selected(["correlate"]), Health(settings.health.stale_seconds))
    with pytest.raises(InputError, match=r"set topics\.prefix back"), jobs:
        pass
    with pytest.raises(InputError, match=r"set topics\.prefix back"):
        run.index_to_end(None, settings)  # type: ignore[arg-type]


def test_another_prefix_is_refused_while_another_process_runs_the_jobs(tmp_path: Path) -> None:
    """No broker answers there: an error about Kafka would show that topics were to be created."""
    nowhere = {"bootstrap_servers": "127.0.0.1:1"}
    settings = settings_of(tmp_path, topics={"prefix": "kappa."}, kafka=nowhere)
    write(settings.checkpoint("correlate"), 5, {"novelties": {"0": 40}})
    with locks.only_here(settings, ["correlate"]), pytest.raises(InputError, match=r"set topics\.prefix back"):
        run_until_stopped(settings, selected(["correlate"]), threading.Event(), follow=True)
