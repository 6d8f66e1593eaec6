"""The manifest of an earlier replay gives all that the run depended on, or is refused in one line."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession
from support.small_savepoints import NOON, save

from app.cli.replay import list_all
from app.cli.replay_request import range_given, requested, saying_what_is_left
from app.core.report import Report
from app.core.settings import ControlSettings, Settings
from app.core.timestamps import wall_clock
from app.kafka import topics
from app.kafka.input_offsets import input_topics
from app.versions import locks, replay_manifest
from app.versions.pinned_configuration import configuration_of
from app.versions.replay_manifest import RESULT_KINDS, ReplayManifest, SavepointReference, Slice, SliceResult
from app.versions.start_position import check_savepoint
from models.core.parameters import DetectorParameters
from models.incidents.parameters import CorrelationParameters
from models.rules.rule import rules_of
from pipelines.errors import InputError, OfAnotherRelease
from pipelines.state import savepoint_format
from pipelines.windowing import WindowingConfig
from replay import run
from replay.from_manifest import read_request, requested_range
from replay.savepoints import savepoint_folder, savepoint_writer
from replay.slice_run import SliceContext
from replay.slices import RequestedRange

MUTED = ControlSettings(rules=rules_of([{"host": "db-*", "mute": True}]))
BEGINS, ENDS = ({("telemetry", 0): a, ("logs", 0): b} for a, b in ((3, 0), (9, 4)))
WHOLE = Slice(None, 20_000, BEGINS, ENDS)
RESULT = SliceResult({"events": 10, "scores": 3}, {kind: {"records": 1, "digest": "a"} for kind in RESULT_KINDS}, 1.5)


def manifest_of(settings: Settings) -> ReplayManifest:
    """That of a run with these settings, in two slices."""
    parts = Slice(None, 10_000, BEGINS, ENDS), Slice(10_000, 20_000, BEGINS, ENDS)
    return ReplayManifest(
        version=settings.version,
        code_version="0.1.0",
        state_formats=savepoint_format.FORMATS,
        configuration=configuration_of(settings),
        topics={"telemetry": "telemetry", "logs": "logs"},
        savepoint=SavepointReference("before", "ab12", 5_000),
        whole=WHOLE,
        slices=parts,
    )


def record_of(settings: Settings) -> dict[str, Any]:
    """As a file has it."""
    found: dict[str, Any] = json.loads(json.dumps(manifest_of(settings).record()))
    return found


def test_a_time_back_from_now_is_that_of_the_first_start_when_a_replay_is_gone_on_with(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, version="again")
    given = dict.fromkeys(("from_time", "to_time", "from_offsets", "to_offsets")) | {"from_time": "2h"}
    first = range_given(settings, given)
    assert first.asked_ms == pytest.approx(wall_clock(), abs=60_000)
    yesterday = wall_clock() - 86_400_000
    replay_manifest.write(settings, replace(manifest_of(settings), asked_ms=yesterday))
    again = range_given(settings, given)
    assert again == range_given(settings, given)
    assert again.from_ms is not None
    assert 0 <= again.from_ms - (yesterday - 7_200_000) < 10_000
    assert again.asked_ms == yesterday


@pytest.mark.parametrize(
    ("done", "indexed", "wanted"),
    [
        (1, False, "has the results of 1 of 2 slices; the same command goes on from there"),
        (2, False, "has all its results, which are not indexed yet; the same command goes on from there"),
    ],
)
def test_a_replay_that_is_stopped_says_how_to_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], done: int, indexed: bool, wanted: str
) -> None:
    settings = Settings(home=tmp_path, version="again")
    replay_manifest.write(settings, replace(manifest_of(settings), results=(RESULT,) * done, indexed=indexed))
    with pytest.raises(SystemExit), saying_what_is_left(settings):
        raise SystemExit(130)
    assert f"stopped: version again {wanted}\n" == capsys.readouterr().err


def test_a_complete_replay_of_a_release_that_did_not_say_so_counts_as_indexed(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, version="again")
    for results, wanted in (((RESULT,), False), ((RESULT,) * 2, True)):
        record = replace(manifest_of(settings), results=results).record()
        del record["indexed"]
        assert ReplayManifest.of(record).indexed == wanted


def test_a_manifest_comes_back_as_it_was_written(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, version="again")
    assert replay_manifest.read(settings) is None
    manifest = manifest_of(settings)
    for _ in range(3):
        replay_manifest.write(settings, manifest)
        assert replay_manifest.read(settings) == manifest
        if not manifest.complete:
            manifest = manifest.with_result(RESULT)
    assert replay_manifest.listing(tmp_path) == [manifest]


def test_the_list_says_which_of_the_unfinished_replays_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for version in ("a", "b"):
        settings = Settings(home=tmp_path, version=version)
        replay_manifest.write(settings, manifest_of(settings))
    monkeypatch.setenv("KAPPA_HOME", str(tmp_path))
    with locks.only_here(settings, [locks.REPLAY]):
        list_all()
    first, second = (line for line in capsys.readouterr().out.splitlines() if " of 2 " in line)
    assert "unfinished" in first and "running" in second


def test_a_manifest_says_up_to_where_the_quarantine_was_read(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, version="again")
    manifest = replace(manifest_of(settings), quarantine=7)
    replay_manifest.write(settings, manifest)
    assert replay_manifest.read(settings) == manifest
    earlier = record_of(settings)
    del earlier["quarantine"]  # as releases before it wrote it
    assert ReplayManifest.of(earlier).quarantine == 0


def test_what_is_left_to_read_begins_with_the_first_slice_that_is_not_done(tmp_path: Path) -> None:
    later = {key: begin + 2 for key, begin in BEGINS.items()}
    first, second = (Slice(None, 10_000, BEGINS, ENDS), Slice(10_000, 20_000, later, ENDS))
    manifest = replace(manifest_of(Settings(home=tmp_path)), slices=(first, second))
    assert manifest.left == WHOLE
    assert manifest.with_result(RESULT).left == Slice(10_000, 20_000, later, ENDS)
    assert manifest.with_result(RESULT).with_result(RESULT).left == WHOLE, "a complete run is compared as a whole"


REQUESTS = [
    RequestedRange(),
    RequestedRange(from_ms=5),
    RequestedRange(to_ms=5),
    RequestedRange(from_offsets=BEGINS),
    RequestedRange(from_offsets=ENDS),
    RequestedRange(to_offsets=ENDS),
]


def test_a_manifest_keeps_what_was_asked_for_so_that_the_same_request_is_known_again(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, version="again")
    for asked in REQUESTS:
        replay_manifest.write(settings, replace(manifest_of(settings), asked=asked.record(include_late=False)))
        kept = replay_manifest.read(settings)
        assert kept is not None
        same = [other for other in REQUESTS if other.record(include_late=False) == kept.asked]
        assert same == [asked]
        assert kept.asked == replace(asked, asked_ms=7, quarantine_until=8).record(include_late=False)
        assert kept.asked != asked.record(include_late=True)


def test_a_manifest_of_a_release_that_did_not_keep_it_does_not_say_what_was_asked_for(tmp_path: Path) -> None:
    record = record_of(Settings(home=tmp_path))
    del record["asked"]
    assert ReplayManifest.of(record).asked is None


def test_totals_are_those_of_all_slices(tmp_path: Path) -> None:
    manifest = manifest_of(Settings(home=tmp_path)).with_result(RESULT)
    assert (manifest.record()["status"], "counts" in manifest.record()) == ("running", False)
    whole = manifest.with_result(RESULT).record()
    assert (whole["status"], whole["seconds"]) == ("complete", 3.0)
    assert whole["counts"] == {"events": 10, "scores": 6}
    assert whole["digests"].keys() == set(RESULT_KINDS)


def test_the_state_at_the_end_is_that_of_a_complete_run(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, version="again")
    with pytest.raises(InputError, match="no replay of version 'again'; there are none"):
        replay_manifest.last_savepoint(settings)
    manifest = manifest_of(settings).with_result(RESULT)
    replay_manifest.write(settings, manifest)
    with pytest.raises(InputError, match="replay of version again is unfinished"):
        replay_manifest.last_savepoint(settings)
    replay_manifest.write(settings, manifest.with_result(RESULT))
    assert replay_manifest.last_savepoint(settings) == tmp_path / "replays" / "again" / "state" / "0001"


def test_a_run_of_something_else_under_the_same_name_is_refused(tmp_path: Path) -> None:
    manifest = manifest_of(Settings(home=tmp_path, version="again"))
    manifest.check_same_run(manifest.with_result(RESULT))
    others = {
        "range": dataclasses.replace(manifest, whole=dataclasses.replace(WHOLE, until=30_000)),
        "savepoint": dataclasses.replace(manifest, savepoint=None),
        "configuration hash": dataclasses.replace(manifest, configuration={}),
        "log": dataclasses.replace(manifest, topics={"telemetry": "other-telemetry", "logs": "other-logs"}),
    }
    for what, other in others.items():
        with pytest.raises(InputError, match=f"version again has a replay of another {what} .running."):
            manifest.check_same_run(other)


@pytest.mark.parametrize(
    ("text", "says"),
    [("{", "is not JSON"), ('{"format": 99}', "format 99, wanted"), ('{"format": 1}', "not the manifest")],
)
def test_a_file_that_is_no_manifest_is_refused(tmp_path: Path, text: str, says: str) -> None:
    settings = Settings(home=tmp_path, version="again")
    file = replay_manifest.folder_of(settings) / "manifest.json"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    with pytest.raises(InputError, match=says):
        replay_manifest.read(settings)


def test_a_run_by_a_manifest_depends_on_what_the_earlier_one_did(tmp_path: Path) -> None:
    earlier = Settings(
        home=tmp_path,
        windowing=WindowingConfig(window_seconds=20, shards=3),
        control=MUTED,
        detection=DetectorParameters(warm_up_minutes=7),
        correlation=CorrelationParameters(join_seconds=5),
    )
    made, manifest = read_request(Settings(home=tmp_path, version="again"), tmp_path / "m", record_of(earlier))
    assert configuration_of(made) == configuration_of(earlier)
    assert made.version == "again"
    assert manifest == manifest_of(earlier)


def test_the_range_is_that_of_the_earlier_run(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    assert requested_range(settings, WHOLE) == RequestedRange(None, 20_000, BEGINS, ENDS)
    later = dataclasses.replace(WHOLE, after=10_000)
    assert requested_range(settings, later) == RequestedRange(10_000, 20_000, None, ENDS)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"format": 99}, "format 99, wanted"),
        ({"whole": {"until": 1}}, "it has no 'offsets'"),
        ({"whole": 3}, "not subscriptable"),
        ({"configuration": {}}, "it has no 'detection'"),
        ({"savepoint": {"name": "x"}}, "it has no 'hash'"),
        ({"log": {"telemetry": {"id": "x"}}}, "it has no 'ends'"),
    ],
)
def test_what_is_no_manifest_is_refused_in_one_line(tmp_path: Path, changed: dict[str, Any], says: str) -> None:
    settings = Settings(home=tmp_path)
    with pytest.raises(InputError, match=says) as refused:
        read_request(settings, tmp_path / "m.json", record_of(settings) | changed)
    assert "\n" not in str(refused.value)
    with pytest.raises(InputError, match="it has no 'format'"):
        read_request(settings, tmp_path / "m.json", {})


def test_a_replay_that_is_checked_keeps_the_state_of_two_slices_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the first run does: of a year there are hundreds, each of all series."""
    settings = Settings(home=tmp_path, version="again")
    made = replace(manifest_of(settings), slices=(WHOLE,) * 5, results=(RESULT,) * 5)
    provenance = savepoint_writer.Provenance("again", {}, {}, 1, "0.1.0")
    context = SliceContext(cast(SparkSession, None), settings, provenance, 1, write=False)
    kept: list[int] = []

    def slice_of_nothing(
        own: SliceContext, part: Slice, before: Path | None, after: Path, report: Report
    ) -> SliceResult:
        assert before is None or before.is_dir()
        after.mkdir(parents=True)
        kept.append(len(list(after.parent.iterdir())))
        return RESULT

    monkeypatch.setattr(run, "run_slice", slice_of_nothing)
    run.verify_complete_run(context, made, None, lambda progress: None)
    assert kept == [1, 2, 2, 2, 2]
    assert list(replay_manifest.folder_of(settings).iterdir()) == []


@pytest.mark.parametrize("done", [0, 1, 2])
def test_what_a_killed_replay_has_left_beside_its_last_state_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: int
) -> None:
    """The state of the slice before, what was half written, and what a comparison has made."""
    settings = Settings(home=tmp_path, version="again")
    made = replace(manifest_of(settings), results=(RESULT,) * done)
    replay_manifest.write(settings, made)
    folder = replay_manifest.folder_of(settings)
    for name in ("state/0000", "state/0001", "state/.0001.ab12_xyz.draft", "state/0001.scratch", "again/0000"):
        (folder / name).mkdir(parents=True)
    spark, seen = cast(SparkSession, None), []

    def run_nothing(*_: object) -> ReplayManifest:
        seen.extend(sorted(str(path.relative_to(folder)) for path in folder.glob("*/*")))
        return made

    monkeypatch.setattr(run, "run_slices", run_nothing)
    monkeypatch.setattr(run, "verify_complete_run", run_nothing)
    monkeypatch.setattr(run, "make_context", lambda *_: SliceContext(spark, settings, cast(Any, None), 1))
    monkeypatch.setattr(topics, "create", lambda _: {})
    run.replay(spark, run.ReplayPlan(settings, None, made, made))
    assert seen == [f"state/{done - 1:04d}"] * min(done, 1)


def test_a_replay_keeps_the_state_after_its_last_slice_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(home=tmp_path, version="again")
    made = replace(manifest_of(settings), slices=(WHOLE,) * 5)

    def slice_of_nothing(
        own: SliceContext, part: Slice, before: Path | None, after: Path, report: Report
    ) -> SliceResult:
        assert before is None or before.is_dir()
        after.mkdir(parents=True)
        return RESULT

    monkeypatch.setattr(run, "run_slice", slice_of_nothing)
    context = SliceContext(cast(SparkSession, None), settings, cast(Any, None), 1)
    assert run.run_slices(context, made, None, lambda progress: None).complete
    assert [path.name for path in (replay_manifest.folder_of(settings) / "state").iterdir()] == ["0004"]


def test_a_replay_goes_on_with_its_savepoint_when_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that a process takes by itself is removed after a day."""
    settings = Settings(home=tmp_path, version="again")
    name = "auto-live-20260105T120000Z"
    taken = save(tmp_path / "savepoints" / name, settings)
    reference = check_savepoint(settings, taken)
    asked = RequestedRange(asked_ms=0).record(include_late=False)
    made = replace(manifest_of(settings), topics=input_topics(settings), savepoint=reference, asked=asked)
    begun: list[Path | None] = []

    def killed(context: SliceContext, manifest: ReplayManifest, savepoint: Path | None, *_: object) -> ReplayManifest:
        begun.append(savepoint)
        return manifest

    monkeypatch.setattr(run, "run_slices", killed)
    monkeypatch.setattr(run, "make_context", lambda *_: None)
    monkeypatch.setattr(topics, "create", lambda _: {})
    for check in ("check_same_log", "check_readable", "check_new"):
        monkeypatch.setattr(run, check, lambda *_: None)
    spark = cast(SparkSession, None)
    nothing: dict[str, str | None] = dict.fromkeys(("from_time", "to_time", "from_offsets", "to_offsets", "manifest"))
    run.replay(spark, run.ReplayPlan(settings, taken, made, None))

    savepoint_folder.drop(tmp_path, name)
    file = replay_manifest.folder_of(settings) / "manifest.json"
    for given in ({"savepoint": name}, {"savepoint": None, "manifest": str(file)}):
        own, request = requested(settings, nothing | given)
        if "manifest" in given:
            request = replace(request, range=RequestedRange())
        what = run.plan(own, request.range, request.savepoint)
        assert what.manifest.savepoint == reference
        run.replay(spark, what)
    _, request = requested(Settings(home=tmp_path, version="b"), nothing | {"savepoint": None, "manifest": str(file)})
    assert request.savepoint is not None
    assert savepoint_format.verify(request.savepoint) == []
    folder = replay_manifest.folder_of(settings) / "begin"
    assert begun == [folder] * 3
    assert savepoint_format.verify(folder) == []
    with pytest.raises(InputError, match=f"no savepoint {name}"):
        requested(Settings(home=tmp_path, version="b"), nothing | {"savepoint": name})


def test_a_new_replay_does_not_begin_from_what_one_that_never_began_has_linked(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, version="again")
    first, second = (
        save(tmp_path / "savepoints" / name, settings, NOON + at) for name, at in (("a", 0), ("b", 10_000))
    )
    for taken in (first, second):
        kept = run.keep_savepoint(settings, taken, new=True)
        assert kept is not None
        assert savepoint_format.read_manifest(kept)["name"] == taken.name
    again = run.keep_savepoint(settings, first, new=False)
    assert again is not None
    assert savepoint_format.read_manifest(again)["name"] == "b"
    assert run.keep_savepoint(settings, None, new=True) is None


@pytest.mark.parametrize("results", [0, 1, 2])
@pytest.mark.parametrize("indexed", [False, True])
def test_a_replay_of_another_release_is_not_gone_on_with_and_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, results: int, indexed: bool
) -> None:
    """Part of its results would be of one release, part of the other. The documents of a complete one can be written all the same."""
    settings, requested = Settings(home=tmp_path, version="again"), RequestedRange(asked_ms=0)
    for check in ("check_same_log", "check_readable", "check_new"):
        monkeypatch.setattr(run, check, lambda *_: None)
    made = replace(
        manifest_of(settings),
        topics=input_topics(settings),
        savepoint=None,
        asked=requested.record(include_late=False),
        results=(RESULT,) * results,
        indexed=indexed,
    )
    replay_manifest.write(settings, made)
    assert run.plan(settings, requested).unreadable is None
    replay_manifest.write(settings, replace(made, state_formats=savepoint_format.FORMATS | {"models": 1}))
    if results == len(made.slices) and not indexed:
        found = run.plan(settings, requested).unreadable
        assert found is not None and "state of models has format 1; wanted" in found
        return
    with pytest.raises(
        OfAnotherRelease, match=r"again was begun by another release \(state of models .*`kappa replay drop again`"
    ):
        run.plan(settings, requested)
