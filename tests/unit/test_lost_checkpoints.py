"""Jobs that have written before and have no checkpoint: the warning at their start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from app.core.atomic_files import write_json_durably
from app.core.settings import Settings
from app.kafka.offset_ranges import OffsetRange
from app.kafka.partitions import Partition
from app.runtime import poison, run
from app.runtime.health import Health
from app.runtime.jobs import NAMES, selected
from app.versions import lost_checkpoints
from app.versions.pinned_configuration import pin_configuration
from app.versions.start_position import checkpoint_home

NOON = 1_767_614_400_000  # 2026-01-05T12:00:00Z
Warned = Callable[[Mapping[Partition, OffsetRange]], list[str]]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path)


@pytest.fixture
def warned(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Warned:
    """The warnings at a start of all jobs, over a log that holds given offsets."""

    @contextmanager
    def no_broker(_: Settings) -> Iterator[None]:
        yield

    def of(held: Mapping[Partition, OffsetRange]) -> list[str]:
        monkeypatch.setattr(lost_checkpoints, "open_consumer", no_broker)
        monkeypatch.setattr(
            lost_checkpoints, "offset_ranges", lambda _, wanted: {part: held[part] for part in wanted if part in held}
        )
        with capture_logs() as found:
            lost_checkpoints.warn_before_start(settings, selected(NAMES).checkpoints(settings))
        assert all(one["log_level"] == "warning" for one in found)
        return [one["event"] for one in found]

    return of


def begin(settings: Settings, job: str) -> None:
    """A checkpoint, as of a job that has been started."""
    settings.checkpoint(job).mkdir(parents=True)
    (settings.checkpoint(job) / "metadata").write_text("{}")


def test_the_first_start_of_a_version_is_no_loss(warned: Warned) -> None:
    assert warned({("telemetry", 0): OffsetRange(0, 900), ("statistics", 0): OffsetRange(0, 0)}) == []


def test_jobs_with_results_and_no_checkpoint_are_named_in_one_line_with_what_comes_of_it(
    settings: Settings, warned: Warned
) -> None:
    begin(settings, "extract")
    begin(settings, "correlate")
    held = {
        ("telemetry", 0): OffsetRange(0, 70_000),
        ("statistics", 0): OffsetRange(0, 1000),
        ("statistics", 3): OffsetRange(0, 234),
        ("scores", 1): OffsetRange(0, 5),
        ("incidents", 0): OffsetRange(0, 5),
    }
    [line] = warned(held)
    assert line == (
        "no checkpoint of detect, although there are results: reading begins again at the beginning of the log, 1,234 "
        "records; results are written again under the same identities"
    )
    begin(settings, "detect")
    assert warned(held) == []


def test_the_warning_comes_before_anything_is_read(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Settings] = []

    def read(*_: object, **__: object) -> None:
        assert asked == [settings]
        raise KeyboardInterrupt

    pin_configuration(settings)  # the version is one of this home
    monkeypatch.setattr(run, "prepare_log", lambda _: None)
    monkeypatch.setattr(lost_checkpoints, "warn_before_start", lambda settings, _: asked.append(settings))
    monkeypatch.setattr(lost_checkpoints, "warn_of_uneven_beginning", lambda *_: None)
    monkeypatch.setattr(poison, "quarantine_before_start", read)
    with (
        pytest.raises(KeyboardInterrupt),
        run.started_jobs(settings, selected(["extract"]), Health(settings.health.stale_seconds)),
    ):
        pass
    assert asked


def test_all_jobs_that_are_lost_are_one_line_which_names_savepoints_where_there_are_any(
    settings: Settings, warned: Warned
) -> None:
    write_json_durably(settings.home / "savepoints" / "friday" / "manifest.json", {"watermark": NOON, "topics": {}})
    held = {
        (topic, 0): OffsetRange(0, 10)
        for topic in ("telemetry", "logs", "rules", "statistics", "scores", "novelties", "incidents")
    }
    [line] = warned(held)
    assert "no checkpoint of extract, detect, correlate," in line
    assert ", 50 records;" in line, "telemetry, logs, rules, statistics and novelties"
    assert "`kappa run all --savepoint NAME --replace`" in line


def test_what_was_learnt_from_records_that_retention_has_deleted_is_forgotten(
    settings: Settings, warned: Warned
) -> None:
    begin(settings, "extract")
    [line] = warned({("statistics", 0): OffsetRange(400, 1000), ("scores", 0): OffsetRange(300, 300)})
    assert ", 600 records;" in line
    assert "older records have been deleted" in line


def test_a_version_that_was_set_back_begins_without_a_warning_until_it_has_written_again(
    settings: Settings, warned: Warned
) -> None:
    """As `kappa recover`, `--savepoint` and a promotion leave it: results of before are there, and no checkpoint."""
    offsets = {"statistics": {"0": 800}, "scores": {"0": 500}}
    write_json_durably(
        checkpoint_home(settings) / "begin.json", {"savepoint": "friday", "watermark": NOON, "offsets": offsets}
    )
    before = {("statistics", 0): OffsetRange(0, 800), ("scores", 0): OffsetRange(0, 500)}
    assert warned(before) == []
    begin(settings, "extract")
    [line] = warned({("statistics", 0): OffsetRange(0, 900), ("scores", 0): OffsetRange(0, 501)})
    assert "no checkpoint of detect, " in line
    assert "reading begins again at the savepoint of 2026-01-05T12:00:00Z, 100 records;" in line
