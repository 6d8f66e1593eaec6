"""A bounded run over the log gives what the live jobs gave, from anywhere, in any pieces, as often as one likes."""

from __future__ import annotations

import dataclasses
import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.live_jobs import append_rule, feed, records, run_to_end, settings_file
from support.replays import broken_off, named, same, values

from app.core.settings import Settings, load
from app.embedded.stack_state import Addresses
from app.kafka import topics
from app.search.connection import elasticsearch_connection
from app.simulator import SimulatorSettings
from app.versions import replay_manifest, start_position
from pipelines.errors import InputError
from pipelines.state import savepoint_format
from replay import input_lateness, run
from replay.run import ReplayProgress
from replay.slices import RequestedRange
from replay.start import ReplayRequest, start

pytestmark = [pytest.mark.stack, pytest.mark.spark, pytest.mark.timeout(900)]

WHOLE = RequestedRange()
MINUTE = 60_000


@pytest.fixture(scope="module")
def live(stack: Addresses, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A log, and what the live jobs made of it."""
    folder = tmp_path_factory.mktemp("replay")
    settings = load(settings_file(folder, stack, folder.name, "live", 20_000))
    topics.create(settings)
    assert feed(settings) > 10_000
    assert run_to_end(spark, settings) == 0
    return settings


@pytest.mark.parametrize(("partitions", "slice_records"), [(1, 10**9), pytest.param(8, 4_000, marks=pytest.mark.long)])
def test_a_replay_of_the_whole_log_is_what_ran_live(
    spark: SparkSession, live: Settings, partitions: int, slice_records: int
) -> None:
    again = named(live, f"again-{partitions}")
    made = run.replay(spark, run.plan(again, WHOLE, None, slice_records), partitions)
    assert (len(made["slices"]) > 1) == (slice_records < 10**9)
    assert len(values(again, "scores")) == made["counts"]["scores"] > 10_000
    assert any(b'"gauge/' in value and b'"score":' in value for value in values(again, "scores"))
    assert same(live, again)
    for kind in ("late", "dead-letters"):
        assert sorted(set(records(again, kind))) == sorted(set(records(live, kind)))
    assert any(", expected" in json.loads(value)["reason"] for value in values(again, "novelties"))
    refused = {header for _, _, headers in records(again, "dead-letters") for header in headers}
    assert ("kappa.reason", b"label is nonsense; wanted true, false-alarm, expected-change, acknowledged") in refused
    assert ("kappa.reason", b"a label with something that is not the name of a series") in refused


def test_a_replay_from_a_savepoint_in_the_middle_is_what_ran_live_from_there(
    spark: SparkSession, live: Settings
) -> None:
    first = named(live, "first-half")
    whole = run.plan(first, WHOLE, None).whole
    middle = whole.until - 8 * MINUTE
    made = run.replay(spark, run.plan(first, RequestedRange(to_ms=middle), None))
    assert made["whole"]["until"] == middle
    state = replay_manifest.last_savepoint(first)
    assert savepoint_format.verify(state) == []
    second = named(live, "second-half")
    run.replay(spark, run.plan(second, WHOLE, state))
    found = values(second, "scores")
    assert found and found == values(live, "scores", middle)
    assert same(live, second, middle)
    # and the live jobs go on from there as well, with other partitions of Spark
    more = first.model_copy(update={"spark": first.spark.model_copy(update={"shuffle_partitions": 3})})
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    start_position.start_from(more, state)
    assert run_to_end(spark, more) == 0
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    assert same(live, first)


def test_a_replay_from_a_time_obeys_the_rules_that_were_written_before(
    spark: SparkSession, stack: Addresses, folder: Path, unique: str
) -> None:
    """This one an hour before the rest of the log: it holds until it ends."""
    settings = load(settings_file(folder, stack, unique, "live", 20_000))
    topics.create(settings)
    work = {"name": "work", "host": "*", "planned": True, "until": "2100-01-01T00:00:00Z"}
    append_rule(settings, SimulatorSettings().start - 60 * MINUTE, work)
    feed(settings)
    later = named(settings, "later")
    until = run.plan(later, WHOLE, None).whole.until
    made = run.replay(spark, run.plan(later, RequestedRange(from_ms=until - 5 * MINUTE), None))
    assert made["counts"]["windows"] == 30
    scores = [json.loads(value) for value in values(later, "scores")]
    assert scores and {one["kind"] for one in scores} == {"planned"}
    assert not values(later, "novelties")


@pytest.mark.long
def test_a_replay_that_is_broken_off_while_it_indexes_goes_on_with_that(spark: SparkSession, live: Settings) -> None:
    """It is complete then, and is compared when it is run again: its documents must be written all the same."""
    broken = named(live, "half-indexed")
    request = ReplayRequest(RequestedRange(to_ms=run.plan(broken, WHOLE, None).whole.until - 15 * MINUTE))
    steps: list[str] = []

    def breaks(step: str) -> None:
        steps.append(step)
        if step == "indexing" and steps.count(step) == 1:
            raise SystemExit(130)

    for again in (False, True):
        with nullcontext() if again else pytest.raises(SystemExit):
            made = start(broken, request, nullcontext(lambda progress: None), breaks)
    assert made["same"] and made["indexed"]
    assert steps.count("indexing") == 2, "once broken off, once done"
    client = elasticsearch_connection(broken).connect()
    client.indices.refresh(index=f"kappa-*-{broken.version}-*")
    assert client.count(index=f"kappa-*-{broken.version}-*")["count"] > 0
    client.close()


@pytest.mark.long
def test_a_replay_that_is_broken_off_goes_on_and_comes_to_the_same(spark: SparkSession, live: Settings) -> None:
    broken = named(live, "broken")
    broken_off(spark, run.plan(broken, WHOLE, None, 4_000))
    with pytest.raises(InputError, match="unfinished"):
        replay_manifest.last_savepoint(broken)
    steps: list[ReplayProgress] = []
    run.replay(spark, run.plan(broken, WHOLE, None, 4_000), on_progress=steps.append)
    assert steps[0].done == 1
    assert same(live, broken)


@pytest.mark.long
def test_a_complete_replay_run_again_says_that_its_bytes_are_the_same(spark: SparkSession, live: Settings) -> None:
    twice = named(live, "twice")
    asked = RequestedRange(to_ms=run.plan(twice, WHOLE, None).whole.until - 15 * MINUTE)
    first = run.replay(spark, run.plan(twice, asked, None))
    written = len(records(twice, "scores"))
    again = run.replay(spark, run.plan(twice, asked, None))
    assert again == {**first, "same": True}
    assert len(records(twice, "scores")) == written


@pytest.mark.long
def test_late_records_that_are_let_in_count_as_if_they_had_been_in_time(spark: SparkSession, live: Settings) -> None:
    patient = named(live, "patient")
    seconds = input_lateness.largest_lateness(spark, patient, run.plan(patient, WHOLE, None).whole)
    assert seconds > patient.windowing.lateness_seconds
    patient = patient.model_copy(update={"windowing": dataclasses.replace(patient.windowing, lateness_seconds=seconds)})
    made = run.replay(spark, run.plan(patient, WHOLE, None))
    before = [json.loads(v) for _, v, _ in records(live, "statistics")]
    assert before
    # what was late and within the windows that are made has become part of them
    assert made["counts"]["late"] < len(set(records(live, "late")))


@pytest.mark.long
def test_a_challenger_runs_as_a_version_of_its_own_in_any_pieces(spark: SparkSession, live: Settings) -> None:
    trees = {"n_trees": 5, "height": 5, "window_size": 30}
    judged = dataclasses.replace(
        live.detection, challenger="river.anomaly.HalfSpaceTrees", challenger_options=trees, challenger_rows=100
    )
    plain = named(live, "no-trees")
    whole, pieces = (named(live, name).model_copy(update={"detection": judged}) for name in ("trees", "trees-pieces"))
    run.replay(spark, run.plan(plain, WHOLE, None))
    run.replay(spark, run.plan(whole, WHOLE, None))
    made = run.replay(spark, run.plan(pieces, WHOLE, None, 4_000), 8)
    assert len(made["slices"]) > 1
    assert same(whole, pieces)
    own, other = (scores_by_row(settings) for settings in (plain, whole))
    assert own.keys() == other.keys()
    different = {series for series, window_end in own if own[series, window_end] != other[series, window_end]}
    assert different
    assert all(series.startswith(("gauge/", "counter/")) for series in different)


def scores_by_row(settings: Settings) -> dict[tuple[str, int], float | None]:
    """The score of each row; None while warming up."""
    found = [json.loads(value) for _, value, _ in records(settings, "scores")]
    return {(row["series"], row["window_end"]): row.get("score") for row in found}


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (RequestedRange(from_offsets={("telemetry", 0): 0}), "no partition"),
        (RequestedRange(from_ms=4_000_000_000_000), "no window after|no record"),
        (RequestedRange(to_ms=1_000), "no record|no window"),
    ],
)
def test_what_cannot_be_replayed_is_refused_and_changes_nothing(live: Settings, asked: Any, says: str) -> None:
    none = named(live, "none")
    with pytest.raises(InputError, match=says):
        run.plan(none, asked, None)
    assert not replay_manifest.folder_of(none).exists()


def test_a_savepoint_of_other_topics_is_refused(spark: SparkSession, live: Settings, tmp_path: Path) -> None:
    short = named(live, "short")
    run.replay(
        spark, run.plan(short, RequestedRange(to_ms=run.plan(short, WHOLE, None).whole.until - 20 * MINUTE), None)
    )
    other = named(live, "other").model_copy(update={"topics": live.topics.model_copy(update={"prefix": "other-"})})
    with pytest.raises(InputError, match="is of topics"):
        run.plan(other, WHOLE, replay_manifest.last_savepoint(short))
