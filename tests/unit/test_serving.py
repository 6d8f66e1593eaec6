"""Which version serves: intervals never overlap nor leave a gap, and every document is shown by exactly one version."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.cli.run import set_start_position
from app.core.settings import PROJECT, Settings, toml_text
from app.search import aliases
from app.search.mappings import index_template
from app.versions import locks, replay_manifest, serving, start_position
from app.versions.pinned_configuration import as_begun, configuration_of, pin_configuration, with_pinned_models
from app.versions.replay_manifest import RESULT_KINDS, ReplayManifest, Slice, SliceResult
from app.versions.serving import Serving, ServingInterval, TimeRange
from models.core.parameters import DetectorParameters
from models.records.index_names import INDEX_KINDS
from pipelines.errors import InputError
from pipelines.windowing import WindowingConfig
from replay import promote, run
from replay.drop import drop
from replay.other_homes import has_open_interval
from replay.slice_run import SliceContext
from replay.slices import RequestedRange

VERSIONS = ("live", "v2", "v3")
WINDOW = 10_000

promotions = st.lists(st.tuples(st.sampled_from(VERSIONS), st.integers(0, 6)), max_size=6)
moments = st.integers(0, 14).map(lambda half: half * WINDOW // 2)


def after(steps: list[tuple[str, int]]) -> Serving:
    """The intervals after promotions at watermarks that never go back; one of the version that serves changes nothing."""
    found = Serving()
    for version, watermark in sorted(steps, key=lambda step: step[1]):
        if version != found.version:
            found = found.then(version, watermark * WINDOW)
    return found


def holds(query: Any, document: dict[str, Any]) -> bool:
    """What Elasticsearch would say, for the few queries that filters are made of."""
    if query is None:
        return True
    ((kind, body),) = query.items()
    if kind == "term":
        ((field, value),) = body.items()
        return bool(document.get(field) == value)
    if kind == "range":
        ((field, ends),) = body.items()
        compare = {
            "gt": lambda a, b: a > b,
            "gte": lambda a, b: a >= b,
            "lt": lambda a, b: a < b,
            "lte": lambda a, b: a <= b,
        }
        return field in document and all(
            compare[name](document[field], end) for name, end in ends.items() if name != "format"
        )
    assert kind == "bool"
    assert body.keys() <= {"filter", "must_not", "should", "minimum_should_match"}
    return (
        all(holds(q, document) for q in body.get("filter", []))
        and not any(holds(q, document) for q in body.get("must_not", []))
        and ("should" not in body or any(holds(q, document) for q in body["should"]))
    )


def documents(kind: str, at: int, status: str) -> dict[str, Any]:
    if kind in ("scores", "pipeline"):
        return {"@timestamp": at}
    return {"@timestamp": 0, "novelty.window_end": at, "novelty.status": status}


def test_without_a_file_live_serves_everything(tmp_path: Path) -> None:
    found = serving.read(tmp_path)
    assert found.ranges("live") == [(None, None)]
    assert found.version == "live" and found.previous is None and found.aliased


@given(promotions, moments)
def test_every_moment_belongs_to_exactly_one_interval(steps: list[tuple[str, int]], at: int) -> None:
    def within(span: TimeRange) -> bool:
        return (span[0] is None or at > span[0]) and (span[1] is None or at <= span[1])

    served = after(steps)
    assert sum(within(span) for version in served.versions for span in served.ranges(version)) == 1
    assert sum(span[1] is None for version in served.versions for span in served.ranges(version)) == 1
    assert all(one.version != other.version for one, other in zip(served.intervals, served.intervals[1:], strict=False))


@given(promotions, moments, st.sampled_from(INDEX_KINDS), st.sampled_from(["open", "update", "close"]))
def test_every_document_is_shown_by_exactly_one_version(
    steps: list[tuple[str, int]], at: int, kind: str, status: str
) -> None:
    served = after(steps)
    shown = [
        v
        for v in served.versions
        if holds(aliases.version_filters(served.ranges(v))[kind], documents(kind, at, status))
    ]
    assert len(shown) == 1
    if kind in ("novelties", "incidents") and status != "close":
        assert shown == [served.version]


@given(promotions)
def test_the_filter_of_the_version_that_serves_has_no_end_and_those_of_all_others_have(
    steps: list[tuple[str, int]],
) -> None:
    served = after(steps)
    for version in served.versions:
        for kind, query in aliases.version_filters(served.ranges(version)).items():
            assert has_open_interval(query) == (version == served.version), kind


def test_a_version_that_serves_alone_needs_no_filter() -> None:
    assert set(aliases.version_filters(Serving().ranges("live")).values()) == {None}
    assert index_template("scores", "live", True, {})["template"]["aliases"] == {
        "kappa-scores-live": {},
        "kappa-scores": {},
    }
    query = aliases.version_filters(after([("v2", 3)]).ranges("v2"))["scores"]
    assert index_template("scores", "v2", True, {}, query)["template"]["aliases"]["kappa-scores"] == {"filter": query}
    assert index_template("scores", "v3", False, {})["template"]["aliases"] == {"kappa-scores-v3": {}}


@given(promotions)
def test_intervals_come_back_as_they_were_written(steps: list[tuple[str, int]]) -> None:
    served = after(steps)
    assert serving.of_record(json.loads(json.dumps(serving.record(served)))) == served


def test_a_rollback_at_the_watermark_of_the_promotion_leaves_what_was_before() -> None:
    assert Serving().then("v2", 20_000).then("live", 20_000).intervals == (ServingInterval("live"),)
    assert Serving().then("v2", 20_000).then("v3", 20_000).intervals == (
        ServingInterval("live"),
        ServingInterval("v3", 20_000),
    )
    back = Serving().then("v2", 20_000).then("live", 40_000)
    assert back.ranges("live") == [(None, 20_000), (40_000, None)]
    assert back.previous == "v2"


def test_the_version_before_is_the_last_of_several() -> None:
    assert Serving().then("v2", 20_000).then("v3", 40_000).previous == "v2"


@given(promotions)
def test_the_version_before_is_that_of_the_last_interval_of_another_one(steps: list[tuple[str, int]]) -> None:
    served = after(steps)
    others = {version: served.ranges(version)[-1][1] for version in served.versions if version != served.version}
    assert served.previous == max(others, key=lambda version: others[version] or 0, default=None)


def test_an_interval_never_begins_before_the_last_one() -> None:
    with pytest.raises(InputError, match="cannot begin at 10000"):
        Serving().then("v2", 20_000).then("live", 10_000)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"format": 2, "terms": [], "aliased": true}',
        '{"format": 1, "terms": [], "aliased": true}',
        '{"format": 1, "terms": [{"version": "a", "after": 5}], "aliased": true}',
        '{"format": 1, "terms": [{"version": "a", "after": null}, {"version": "b", "after": null}], "aliased": true}',
        '{"format": 1, "aliased": true, "terms": [{"version": "a", "after": null}, {"version": "b", "after": 9}, '
        '{"version": "a", "after": 9}]}',
    ],
)
def test_a_file_that_is_something_else_is_refused(tmp_path: Path, text: str) -> None:
    serving.file_of(tmp_path).parent.mkdir()
    serving.file_of(tmp_path).write_text(text)
    with pytest.raises(InputError, match="not a list of serving intervals"):
        serving.read(tmp_path)


def test_who_watches_sees_the_version_that_serves(tmp_path: Path) -> None:
    watch = serving.ServingVersionWatch(tmp_path)
    assert watch.version() == "live"
    serving.write(tmp_path, Serving().then("v2", 20_000))
    assert watch.version() == "v2"
    assert serving.read(tmp_path).aliased is False
    serving.mark_aliased(tmp_path)
    assert serving.read(tmp_path).aliased is True
    assert watch.version() == "v2"


def test_a_job_runs_once_at_a_time(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    other = settings.model_copy(update={"version": "v2"})
    with locks.only_here(settings, ["extract", "detect"]):
        assert locks.busy(settings, ["extract", "detect", "index"]) == ["extract", "detect"]
        with locks.only_here(other, ["detect"]), locks.only_here(settings, ["index"]):
            assert locks.busy(settings, ["index"]) == ["index"]
        with pytest.raises(InputError, match="detect of version live is run by another process"):
            locks.only_here(settings, ["detect", "index"]).__enter__()
        assert locks.busy(settings, ["index"]) == []
    assert locks.busy(settings, ["extract", "detect", "index"]) == []


HOLDER = """
import sys
from pathlib import Path
from app.versions import locks
from app.cli.run import set_start_position
from app.core.settings import PROJECT, Settings
with locks.only_here(Settings(home=Path(sys.argv[1])), ["detect"]):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_lock_goes_with_its_holder(tmp_path: Path) -> None:
    settings, pipe = Settings(home=tmp_path), subprocess.PIPE
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=PROJECT) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert locks.busy(settings, ["detect", "index"]) == ["detect"]
        holder.kill()
    assert locks.busy(settings, ["detect", "index"]) == []


# --- whose configuration


@pytest.fixture
def home(tmp_path: Path) -> Settings:
    """A home in which `live` and `v2`, with another threshold, have begun."""
    settings = Settings(home=tmp_path)
    pin_configuration(settings)
    pin_configuration(tuned(settings, "v2"))
    return settings


def tuned(settings: Settings, version: str, **windowing: Any) -> Settings:
    return settings.model_copy(
        update={
            "version": version,
            "detection": DetectorParameters(spike_nats=9.0),
            "windowing": dataclasses.replace(settings.windowing, **windowing),
        }
    )


def test_a_version_goes_on_with_the_configuration_that_it_began_with(home: Settings) -> None:
    reported: list[str] = []
    found = with_pinned_models(home, "v2", reported.append)
    assert found.version == "v2" and found.detector.spike_nats == 9.0
    assert reported == [
        "version v2 goes on with what it began with: detection.spike_nats = 9.0, the settings say "
        f"{home.detector.spike_nats}"
    ]
    assert pin_configuration(found).parent.name == "v2"
    assert with_pinned_models(home, "live", reported.append).detector == home.detector
    assert len(reported) == 1


def test_what_differs_is_reported_as_the_file_has_it(home: Settings) -> None:
    reported: list[str] = []
    rule = {"host": "web-1", "planned": True, "since": "2026-01-05T00:00:00Z", "until": "2026-01-06T00:00:00Z"}
    ruled = Settings.model_validate({"home": home.home, "control": {"rules": [rule]}})
    with_pinned_models(ruled, "live", reported.append)
    [line] = reported
    head, _, text = line.partition(", the settings say ")
    assert head == "version live goes on with what it began with: control.rules = []"
    assert tomllib.loads(f"rules = {text}") == {"rules": [rule]}
    values = {"text": 'a "b" \\ é\n', "on": True, "number": 1e-6, "list": [1, "x"], "empty": {}}
    assert tomllib.loads(f"all = {toml_text({**values, 'absent': None})}")["all"] == values


def of_another_release(home: Settings, version: str) -> None:
    """Let a version have begun with a parameter that this release does not have."""
    file = home.model_copy(update={"version": version}).configuration_file
    kept = json.loads(file.read_text())
    kept["detection"]["metric_clear_hours"] = 4.0
    file.write_text(json.dumps(kept))


def test_a_version_of_a_release_with_other_parameters_is_refused_in_a_line(home: Settings) -> None:
    of_another_release(home, "live")
    serving.write(home.home, Serving().then("v2", 20_000).then("live", 40_000))
    for begin in (serving.to_run, as_begun, lambda settings: with_pinned_models(settings, "live")):
        with pytest.raises(
            InputError,
            match=r"version live began with .*'metric_clear_hours'.*go on with the release that began it, or",
        ):
            begin(home)


def test_a_version_is_promoted_in_the_place_of_one_of_a_release_with_other_parameters(home: Settings) -> None:
    of_another_release(home, "live")
    old = promote.serving_settings(home, "live")
    assert (old.version, old.detector) == ("live", home.detector)
    promote.check_same(old, with_pinned_models(home, "v2"))
    assert promote.serving_settings(home, "v2").detector.spike_nats == 9.0


def test_the_configuration_of_its_replay_counts_while_that_of_its_jobs_is_made_anew(home: Settings) -> None:
    replayed(home, "v2", "complete")
    (home.checkpoint("configuration.json").parent.parent / "v2" / "configuration.json").unlink()
    assert with_pinned_models(home, "v2").detector.spike_nats == 9.0


def test_before_a_promotion_the_settings_decide_and_after_it_the_version(home: Settings) -> None:
    other = home.model_copy(update={"detection": DetectorParameters(spike_nats=8.0)})
    assert serving.to_run(other) is other
    serving.write(home.home, Serving().then("v2", 20_000))
    assert serving.to_run(other).detector.spike_nats == 9.0
    assert serving.current(other).version == "v2"
    assert serving.current(other.model_copy(update={"version": "b"})).version == "b"
    serving.write(home.home, Serving().then("v2", 20_000).then("live", 30_000))
    assert serving.to_run(other).detector == home.detector


# --- what is refused, and changes nothing


def refused(settings: Settings, version: str, says: str) -> None:
    before = sorted(settings.home.rglob("*"))
    with pytest.raises(InputError, match=says) as error:
        promote.plan(settings, version)
    assert "\n" not in str(error.value)
    assert sorted(settings.home.rglob("*")) == before


def replayed(settings: Settings, version: str, status: str) -> None:
    own = settings.model_copy(update={"version": version})
    part, result = Slice(None, WINDOW, {}, {}), SliceResult({}, {kind: {"digest": ""} for kind in RESULT_KINDS}, 1.0)
    manifest = ReplayManifest(
        version=version,
        code_version="0.1.0",
        state_formats={},
        configuration=configuration_of(tuned(settings, version)),
        topics={},
        savepoint=None,
        whole=part,
        slices=(part,),
        results=(result,) if status == "complete" else (),
    )
    replay_manifest.write(own, manifest)


def test_a_version_that_is_not_known_is_refused(home: Settings) -> None:
    refused(home, "gone", "no version 'gone'.*live, v2")


def test_an_unfinished_replay_is_refused(home: Settings) -> None:
    replayed(home, "v2", "running")
    refused(home, "v2", "unfinished")


def test_a_version_of_another_windowing_is_refused(home: Settings) -> None:
    pin_configuration(tuned(home, "v3", lateness_seconds=30))
    replayed(home, "v3", "complete")
    refused(home, "v3", "windowing.lateness_seconds")
    late = home.model_copy(update={"windowing": WindowingConfig(lateness_seconds=30)})
    refused(late, "v3", "windowing.lateness_seconds = 30, live has 15")


def test_there_must_be_one_to_go_back_to(home: Settings) -> None:
    for to, says in ((None, "none to go back to"), ("live", "serves now"), ("v2", "has never served")):
        with pytest.raises(InputError, match=says):
            promote.plan_back(home, to)
    serving.write(home.home, dataclasses.replace(Serving().then("v2", 20_000), aliased=True))
    with pytest.raises(InputError, match="checkpoints of version live are gone"):
        promote.plan_back(home, None)


def test_a_version_that_served_is_not_dropped(home: Settings) -> None:
    serving.write(home.home, Serving().then("v2", 20_000).then("v3", 30_000))
    for version, says in (("v2", "served for a time"), ("v3", "serves")):
        with pytest.raises(InputError, match=says):
            drop(home.model_copy(update={"version": version}), yes=True)


def test_a_version_whose_jobs_run_is_not_dropped(home: Settings) -> None:
    own = home.model_copy(update={"version": "v2"})
    with (
        locks.only_here(own, ["detect"]),
        pytest.raises(InputError, match="detect of version v2 is run by another process"),
    ):
        drop(own, yes=True)


def test_a_version_that_is_replayed_or_run_elsewhere_is_not_replayed_here(home: Settings) -> None:
    replayed(home, "v2", "running")
    own = tuned(home, "v2")
    kept = replay_manifest.read(own)
    assert kept is not None
    spark: Any = None  # it is not asked for anything
    what = run.ReplayPlan(own, None, kept, kept)
    with locks.only_here(own, ["extract"]), pytest.raises(InputError, match="extract of version v2 is run by another"):
        run.replay(spark, what)
    replayed(home, "v2", "complete")
    with pytest.raises(InputError, match="another process has replayed version v2 meanwhile"):
        run.replay(spark, what)


def test_a_complete_replay_is_compared_by_one_process_at_a_time_and_not_dropped_meanwhile(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While its jobs run it is compared all the same."""
    replayed(home, "v2", "complete")
    own = tuned(home, "v2")
    kept = replay_manifest.read(own)
    assert kept is not None
    spark: Any = None  # it is not asked for anything
    nothing: Any = None
    what, compared = run.ReplayPlan(own, None, kept, kept), []

    def compare(context: object, manifest: ReplayManifest, *_: object) -> None:
        compared.append(manifest.version)
        with pytest.raises(InputError, match="replay of version v2 is run by another process"):
            run.replay(spark, what)
        with pytest.raises(InputError, match="replay of version v2 is run by another process"):
            drop(own, yes=True)

    monkeypatch.setattr(run, "make_context", lambda *_: SliceContext(spark, own, nothing, 1))
    monkeypatch.setattr(run, "verify_complete_run", compare)
    with locks.only_here(own, ["extract", "detect", "correlate", "index"]):
        assert run.replay(spark, what)["same"]
    assert compared == ["v2"]


def test_a_version_that_was_run_and_never_replayed_is_not_replayed(home: Settings) -> None:
    own = tuned(home, "v2")
    own.checkpoint("detect").mkdir(parents=True)
    with pytest.raises(InputError, match="version v2 was made by `kappa run`"):
        run.plan(own, RequestedRange())
    replayed(home, "v2", "running")  # and was interrupted before `kappa run --savepoint`
    with pytest.raises(InputError, match="version v2 was made by `kappa run`"):
        run.plan(own, RequestedRange())


def test_jobs_do_not_begin_after_a_savepoint_among_the_results_of_an_unfinished_replay(home: Settings) -> None:
    own = tuned(home, "v2")
    replayed(home, "v2", "running")
    (own.home / "savepoints" / "before").mkdir(parents=True)
    with pytest.raises(InputError, match=r"the replay of version v2 is unfinished; run the same `kappa replay` again"):
        set_start_position(own, "before", replace=False)


def test_checkpoints_of_jobs_that_run_are_not_set_aside_for_a_savepoint(home: Settings) -> None:
    own = tuned(home, "v2")
    own.checkpoint("detect").mkdir(parents=True)
    (own.home / "savepoints" / "before").mkdir(parents=True)
    with locks.only_here(own, ["detect"]), pytest.raises(InputError, match="detect of version v2 is run by another"):
        set_start_position(own, "before", replace=True)


@pytest.mark.parametrize(("watermark", "covers"), [(start_position.NO_WINDOW, None), (WINDOW, WINDOW)])
def test_a_version_that_was_brought_back_to_the_beginning_of_the_log_has_results_of_all_of_it(
    home: Settings, watermark: int, covers: int | None
) -> None:
    own = tuned(home, "v2")
    begin = own.checkpoint("begin.json")
    begin.parent.mkdir(parents=True, exist_ok=True)
    begin.write_text(json.dumps({"watermark": watermark, "savepoint": None, "offsets": {}}))
    assert promote.covered_since(own, None) == covers


def test_looking_whether_a_version_can_be_promoted_writes_nothing(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replayed one whose configuration is only in its manifest."""
    monkeypatch.setattr(promote, "check_reach", lambda *_: None)
    monkeypatch.setattr(promote, "nothing_has_served", lambda *_: False)
    replayed(home, "v3", "complete")
    before = sorted(home.home.rglob("*"))
    found = promote.plan(home, "v3")
    assert found.new.detector.spike_nats == 9.0
    assert sorted(home.home.rglob("*")) == before
    narrow = home.model_copy(update={"topics": home.topics.model_copy(update={"logs_partitions": 7})})
    with pytest.raises(InputError, match=r"version v3 began with topics.logs_partitions = 2, the settings say 7"):
        promote.plan(narrow, "v3")


def test_the_jobs_of_a_replayed_version_start_with_its_configuration_or_not_at_all(home: Settings) -> None:
    replayed(home, "v3", "complete")
    own = home.model_copy(update={"version": "v3"})
    with pytest.raises(InputError, match=r"version v3 began with detection.spike_nats = 9.0"):
        pin_configuration(own)
    assert not own.configuration_file.exists()
    pin_configuration(tuned(home, "v3"))
    assert own.configuration_file.exists()
