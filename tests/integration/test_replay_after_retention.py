"""An interrupted replay goes on though retention has deleted what only its finished slices needed, and not if it lacks more."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from kafka import TopicPartition
from pyspark.sql import SparkSession
from structlog.testing import capture_logs
from support.live_jobs import beat, feed, settings_file
from support.replays import broken_off, named, same, values
from support.waiting import wait_until

from app.core.settings import INPUTS, Settings, load
from app.core.timestamps import iso
from app.embedded.stack_state import Addresses
from app.kafka import log_marks, topics
from app.kafka.connection import open_admin
from app.kafka.partitions import Offsets
from app.simulator import SimulatorSettings
from app.versions import lost_checkpoints, replay_manifest
from app.versions.pinned_configuration import configuration_of
from app.versions.replay_manifest import RESULT_KINDS, ReplayManifest, SliceResult
from pipelines.errors import InputError
from replay import run
from replay.slices import RequestedRange
from replay.start import ReplayRequest, make_plan

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

START, MINUTE = SimulatorSettings().start, 60_000
END = START + 120 * MINUTE
SLICE = 500  # records
DONE = 2  # slices
RESULT = SliceResult({}, {kind: {"records": 0, "digest": "00"} for kind in RESULT_KINDS}, 1.0)


def created(folder: Path, stack: Addresses, prefix: str) -> Settings:
    """Settings of a deployment whose topics are there, empty."""
    settings = load(settings_file(folder, stack, prefix, "live", 20_000))
    topics.create(settings)
    return settings


def delete(settings: Settings, before: Offsets) -> None:
    """What retention does; of `rules`, which is compacted, it deletes nothing."""
    wanted = {TopicPartition(*key): offset for key, offset in before.items() if key[0] != settings.topic("rules")}
    with open_admin(settings) as admin:
        admin.delete_records(wanted)


def requests(settings: Settings) -> dict[str, RequestedRange]:
    """By the names of versions, the ways in which a replay may be asked for."""
    return {
        "all": RequestedRange(),
        "to": RequestedRange(to_ms=END - 10 * MINUTE),
        "from": RequestedRange(from_ms=START + 5 * MINUTE),
        "offsets": RequestedRange(from_offsets={(settings.topic("telemetry"), 0): 20}),
        "ends": RequestedRange(to_offsets={(settings.topic("telemetry"), 0): 700}),
    }


NAMES = ("all", "to", "from", "offsets", "ends")


@pytest.fixture(scope="module")
def log(stack: Addresses, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A log of heartbeats, a replay of it for each request, two slices of each done, and then what these needed was deleted."""
    folder = tmp_path_factory.mktemp("retention")
    settings = created(folder, stack, folder.name)
    beat(settings, range(START, END, 10_000))
    needed: list[Offsets] = []
    for name, asked in requests(settings).items():
        own = named(settings, name)
        manifest = run.plan(own, asked, None, SLICE).manifest
        assert len(manifest.slices) > DONE
        replay_manifest.write(own, dataclasses.replace(manifest, results=(RESULT,) * DONE))
        needed.append(manifest.slices[DONE].begins)
    delete(settings, {key: min(begins[key] for begins in needed) for key in needed[0]})
    return settings


def kept(settings: Settings) -> ReplayManifest:
    found = replay_manifest.read(settings)
    assert found is not None
    return found


@pytest.fixture
def interrupted(log: Settings, request: pytest.FixtureRequest) -> Settings:
    """The version of a request, as it was interrupted."""
    own = named(log, request.param)
    before = kept(own)
    request.addfinalizer(lambda: replay_manifest.write(own, before))
    return own


def altered(settings: Settings, **fields: Any) -> ReplayManifest:
    """Write another manifest in the place of the one that is there."""
    changed = dataclasses.replace(kept(settings), **fields)
    replay_manifest.write(settings, changed)
    return changed


def asked(settings: Settings) -> RequestedRange:
    return requests(settings)[settings.version]


def test_jobs_that_begin_where_retention_has_cut_partitions_apart_say_so(
    stack: Addresses, unique: str, tmp_path: Path
) -> None:
    settings = created(tmp_path, stack, unique)
    beat(settings, range(START, END, MINUTE))
    extract = {"extract": settings.checkpoint("extract")}

    def warned() -> list[str]:
        with capture_logs() as found:
            lost_checkpoints.warn_of_uneven_beginning(settings, extract)
        return [one["event"] for one in found if one["log_level"] == "warning"]

    assert warned() == [], "nothing is deleted"
    delete(settings, {(settings.topic("telemetry"), 0): 5})
    assert warned() == [], "five minutes are within detection.grace_minutes"
    delete(settings, {(settings.topic("telemetry"), 0): 60})
    [line] = warned()
    assert "up to 60 min apart: hosts whose records begin later are reported as new" in line
    assert f"--from-time {iso(START + 61 * MINUTE + 10_000)}`" in line, "and a minute in which records may be early"
    extract["extract"].mkdir(parents=True)
    (extract["extract"] / "metadata").write_text("{}")
    assert warned() == [], "a job that goes on knows the hosts"


@pytest.mark.parametrize("interrupted", NAMES, indirect=True)
def test_it_goes_on_with_the_range_that_it_began_with(interrupted: Settings) -> None:
    before = kept(interrupted)
    what = run.plan(interrupted, asked(interrupted), None, SLICE)
    assert (what.earlier, what.whole, what.manifest.slices) == (before, before.whole, before.slices)
    assert what.unreadable is None


@pytest.mark.parametrize("interrupted", ("all", "from", "offsets"), indirect=True)
def test_one_of_a_release_that_did_not_keep_what_was_asked_for_goes_on_too(interrupted: Settings) -> None:
    before = altered(interrupted, asked=None)
    what = run.plan(interrupted, asked(interrupted), None, SLICE)
    assert (what.earlier, what.whole) == (before, before.whole)


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize(
    ("interrupted", "other"),
    [
        ("all", RequestedRange(from_ms=START + 5 * MINUTE)),
        ("all", RequestedRange(from_ms=END - 50 * MINUTE)),
        ("all", RequestedRange(to_ms=END - 10 * MINUTE)),
        ("to", RequestedRange(to_ms=END - 20 * MINUTE)),
        ("from", RequestedRange()),
        ("from", RequestedRange(from_ms=START + 6 * MINUTE)),
        ("offsets", "later"),
    ],
    indirect=["interrupted"],
)
def test_another_request_is_refused(interrupted: Settings, other: RequestedRange | str, recorded: bool) -> None:
    if not recorded:
        altered(interrupted, asked=None)
    if isinstance(other, str):
        other = RequestedRange(from_offsets={(interrupted.topic("telemetry"), 0): 21})
    with pytest.raises(InputError, match=r"has a replay of another range|the log no longer reaches back"):
        run.plan(interrupted, other, None, SLICE)


@pytest.mark.parametrize("interrupted", ["all"], indirect=True)
def test_another_configuration_is_refused(interrupted: Settings) -> None:
    detection = dataclasses.replace(interrupted.detection, spike_nats=9.0)
    with pytest.raises(InputError, match="has a replay of another configuration hash"):
        run.plan(interrupted.model_copy(update={"detection": detection}), asked(interrupted), None, SLICE)
    with pytest.raises(InputError, match="has a replay of another configuration hash"):
        run.plan(interrupted, asked(interrupted), None, SLICE, lateness=lambda whole: 77)


@pytest.mark.parametrize("interrupted", ["all"], indirect=True)
def test_where_every_late_record_was_admitted_the_lateness_of_the_first_time_counts(interrupted: Settings) -> None:
    patient = run.with_lateness(interrupted, 77)
    before = altered(
        interrupted,
        asked=asked(interrupted).record(include_late=True),
        configuration=configuration_of(patient),
    )

    def lateness(whole: object) -> int:
        pytest.fail("the records that are left do not say how late those were that are deleted")

    what = run.plan(interrupted, asked(interrupted), None, SLICE, lateness=lateness)
    assert what.earlier == before
    assert what.settings.windowing.lateness_seconds == 77


@pytest.mark.parametrize("interrupted", NAMES, indirect=True)
def test_it_is_refused_where_records_of_an_unfinished_slice_are_deleted(interrupted: Settings) -> None:
    altered(interrupted, results=(RESULT,) * (DONE - 1))
    with pytest.raises(InputError, match=r"the log no longer reaches back: .* begins at offset") as refused:
        run.plan(interrupted, asked(interrupted), None, SLICE)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("interrupted", ["all"], indirect=True)
def test_where_only_documents_are_left_to_write_nothing_of_the_input_is_needed(interrupted: Settings) -> None:
    whole = kept(interrupted)
    complete = altered(interrupted, results=(RESULT,) * len(whole.slices))
    what = make_plan(interrupted, ReplayRequest(asked(interrupted)))
    reported: list[str] = []
    spark: Any = None  # it is not asked for anything
    assert run.replay(spark, what, report=reported.append) == complete.record()
    assert len(reported) == 1 and "cannot be run again to compare: the log no longer reaches back" in reported[0]
    with pytest.raises(InputError, match="the log no longer reaches back"):
        make_plan(interrupted, ReplayRequest(asked(interrupted), index=False))
    altered(interrupted, indexed=True)
    with pytest.raises(InputError, match="the log no longer reaches back"):
        make_plan(interrupted, ReplayRequest(asked(interrupted)))


@pytest.mark.spark
def test_what_is_deleted_while_it_runs_ends_it_in_a_line_with_from_when_it_can_run(
    stack: Addresses, spark: SparkSession, unique: str, tmp_path: Path
) -> None:
    settings = created(tmp_path, stack, unique)
    beat(settings, range(START, START + 10 * MINUTE, 10_000))
    own = named(settings, "overtaken")
    what = run.plan(own, RequestedRange(), None)
    delete(settings, {(settings.topic("telemetry"), 0): 7})
    with pytest.raises(
        InputError, match=r"no longer reaches back: .*telemetry/0 begins at offset 7, .*can run from 20"
    ) as refused:
        run.replay(spark, what)
    assert "\n" not in str(refused.value)
    with pytest.raises(InputError, match="no longer reaches back"):
        run.plan(own, RequestedRange(), None)


@pytest.mark.long
@pytest.mark.spark
def test_it_comes_to_what_an_unbroken_one_comes_to(
    stack: Addresses, spark: SparkSession, unique: str, tmp_path: Path
) -> None:
    settings = created(tmp_path, stack, unique)
    assert feed(settings) > 10_000
    unbroken, broken = named(settings, "unbroken"), named(settings, "broken")
    run.replay(spark, run.plan(unbroken, RequestedRange(), None))
    first = run.plan(broken, RequestedRange(), None, 4_000)
    broken_off(spark, first)
    needed = first.manifest.slices[1].begins
    assert any(
        needed[key] > begin for key, begin in first.whole.begins.items() if key[0] in map(settings.topic, INPUTS)
    )
    delete(settings, needed)
    made = run.replay(spark, run.plan(broken, RequestedRange(), None, 4_000))
    assert made["whole"] == first.whole.record()
    assert len(values(broken, "scores")) > 10_000
    assert same(unbroken, broken)


def test_an_interrupted_replay_does_not_go_on_in_a_topic_that_was_made_anew(
    stack: Addresses, unique: str, tmp_path: Path
) -> None:
    """The other records have the same offsets, and more of them."""
    settings = named(created(tmp_path, stack, unique), "again")
    beat(settings, range(START, END, 10_000))
    manifest = run.plan(settings, RequestedRange(), None, SLICE).manifest
    replay_manifest.write(settings, dataclasses.replace(manifest, results=(RESULT,) * DONE))
    assert run.plan(settings, RequestedRange()).manifest.results == (RESULT,) * DONE
    beat(settings, range(END, END + 10 * MINUTE, 10_000))  # what comes after the range is no other log
    assert run.plan(settings, RequestedRange()).manifest.results == (RESULT,) * DONE
    with open_admin(settings) as admin:
        admin.delete_topics([settings.topic("telemetry")])
    wait_until(lambda: settings.topic("telemetry") not in log_marks.mark_now(settings))
    wait_until(lambda: topics.create(settings)[settings.topic("telemetry")] in ("created", "there already"))
    beat(settings, range(START, END + 20 * MINUTE, 10_000))
    with pytest.raises(InputError, match=r"telemetry was deleted, and is another one now.* `kappa replay drop again`"):
        run.plan(settings, RequestedRange())
