"""Two versions side by side: stories of a few records, without Kafka."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

from app.simulator.ground_truth import iso
from models.detection.episodes import Episode
from pipelines.errors import InputError
from replay.compare.diff import compare
from replay.compare.ground_truth import Truth
from replay.compare.version_results import MARGIN_SECONDS, VersionResults

pytestmark = pytest.mark.spark

SHARDS = 2
T = 1_700_000_000_000
NONE = {"left": 0, "right": 0, "only_left": 0, "only_right": 0, "different": 0}
Record = dict[str, Any]


def at(window: int) -> int:
    return T + 10_000 * window


def score(window: int, series: str, nats: float | None = 1.0, kind: str = "") -> Record:
    found = {
        "record": "score",
        "series": series,
        "window_end": at(window),
        "score": nats,
        "value": 5.0,
        "typical": 4.0,
        "kind": kind,
    }
    return {name: value for name, value in found.items() if value is not None}


def watermarks(windows: Iterable[int], shards: Iterable[int] = range(SHARDS)) -> list[Record]:
    return [{"record": "watermark", "watermark": at(w), "shard": s, "shards": SHARDS} for s in shards for w in windows]


def event(version: str, window: int, host: str, nats: float = 20.0) -> Record:
    episode = Episode(
        f"gauge/{host}//cpu",
        "level",
        "anomaly",
        at(window) - 10_000,
        nats,
        nats,
        9.0,
        1.0,
        0.0,
        2.0,
        "%",
        "ü: too high",
    )
    return episode.event("open", at(window)).to_record(version)


def incident(version: str, window: int, hosts: list[str], nats: float = 20.0) -> Record:
    about = {"status": "open", "kind": "anomaly", "start": at(window) - 10_000, "end": None, "window_end": at(window)}
    series = [{"series": f"gauge/{hosts[0]}//cpu", "share": 1.0, "score": nats, "kind": "anomaly", "reason": "high"}]
    rest = {"score": nats, "hosts": hosts, "services": [], "templates": [], "series": series, "novelties": 1}
    return {"record": "incident", "id": f"{window}|{hosts[0]}", "version": version, **about, **rest, "reason": "high"}


def results(
    spark: SparkSession,
    version: str,
    scores: Iterable[Record],
    novelties: Iterable[Record | str],
    incidents: Iterable[Record] = (),
    **more: Any,
) -> VersionResults:
    """A version whose topics hold these records, all in one partition, appended a second apart."""

    def frame(records: Iterable[Record | str]) -> Any:
        rows = [
            (0, datetime.fromtimestamp(T / 1000 + n, tz=UTC), json.dumps(r, ensure_ascii=False).encode())
            for n, r in enumerate(records)
        ]
        return spark.createDataFrame(rows, "partition int, timestamp timestamp, value binary").coalesce(1)

    return VersionResults(version, frame(scores), frame(novelties), frame(incidents), **more)


def shuffled(records: list[Record], seed: int) -> list[Record]:
    """In another order, some of them twice."""
    chosen = random.Random(seed)
    return chosen.sample([*records, *records[: len(records) // 2]], k=len(records) + len(records) // 2)


def test_results_that_differ_only_in_order_repeats_and_the_versions_name_are_equal(spark: SparkSession) -> None:
    scores = [score(w, f"gauge/{host}//cpu", None if w == 1 else float(w)) for w in range(1, 6) for host in "abc"]

    def of(version: str, seed: int) -> VersionResults:
        novel = [*watermarks(range(1, 6)), event(version, 2, "a"), event(version, 3, "b")]
        incidents = [incident(version, 2, ["a"]), incident(version, 2, ["b", "c"])]
        return results(spark, version, shuffled(scores, seed), shuffled(novel, seed), shuffled(incidents, seed))

    found = compare(of("live", 1), of("again", 2))
    assert found["windows"] == {"from": at(1), "to": at(5), "compared": 5, "left_outside": 0, "right_outside": 0}
    assert {name: found[name] for name in NONE} == {**NONE, "left": 15, "right": 15}
    assert found["novelties"] == {**NONE, "left": 2, "right": 2}
    assert found["incidents"] == {**NONE, "left": 2, "right": 2}
    assert found["conflicts"] == {"left": 0, "right": 0}
    assert found["differences"] == found["novelties_differences"] == found["incidents_differences"] == []
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_what_differs_is_counted_and_sized_and_a_second_value_under_one_key_is_a_conflict(spark: SparkSession) -> None:
    common = [score(w, "gauge/a//cpu") for w in (1, 2, 3, 4)]
    left = results(
        spark,
        "one",
        [*common, score(1, "gauge/b//cpu"), score(2, "gauge/b//cpu", 2.0), score(3, "gauge/b//cpu", None)],
        [*watermarks((1, 2, 3, 4)), event("one", 2, "a"), event("one", 3, "b")],
        [incident("one", 2, ["a"]), incident("one", 3, ["b"]), {**incident("one", 3, ["b"]), "kind": "change"}],
    )
    right = results(
        spark,
        "two",
        [*common, {**common[0], "value": 6.0}, score(2, "gauge/b//cpu", 5.5, "anomaly"), score(3, "gauge/b//cpu")],
        [*watermarks((1, 2, 3, 4)), event("two", 2, "a", 30.0), event("two", 4, "b"), "not a record"],
        [incident("two", 2, ["a", "c"]), incident("two", 3, ["b"])],
    )
    found = compare(left, right, most=3)
    # The key with a conflict differs as well: one side has a value that the other has not.
    assert {name: found[name] for name in NONE} == {
        "left": 7,
        "right": 6,
        "only_left": 1,
        "only_right": 0,
        "different": 3,
    }
    assert found["by_how_much"]["score"] == {"largest": 3.5, "median": 1.75, "unknown": 1}
    assert found["by_how_much"]["typical"] == {"largest": 0.0, "median": 0.0, "unknown": 0}
    assert found["by_how_much"]["kind"] == 1
    shown = [(d["window_end"], d["series"], d["what"]) for d in found["differences"]]
    assert shown == [
        (at(1), "gauge/a//cpu", "different"),
        (at(1), "gauge/b//cpu", "only_left"),
        (at(2), "gauge/b//cpu", "different"),
    ]
    assert found["differences"][2]["left"] == score(2, "gauge/b//cpu", 2.0)
    assert found["differences"][2]["right"] == score(2, "gauge/b//cpu", 5.5, "anomaly")
    assert found["differences"][1]["right"] is None
    # What cannot be read is not passed over.
    assert found["novelties_differences"][0]["right"] == "not a record"
    assert found["novelties_differences"][1]["right"] == event("two", 2, "a", 30.0)
    assert found["incidents_differences"][0]["left"] == incident("one", 2, ["a"])
    assert found["novelties"] == {"left": 2, "right": 3, "only_left": 1, "only_right": 2, "different": 1}
    assert found["incidents"] == {"left": 2, "right": 2, "only_left": 0, "only_right": 0, "different": 2}
    assert found["conflicts"] == {"left": 1, "right": 1}


def test_windows_that_one_side_has_not_closed_in_full_are_not_compared(spark: SparkSession) -> None:
    left = results(
        spark,
        "live",
        [score(w, "gauge/a//cpu") for w in range(1, 9)],
        # Shard 1 has not spoken for window 8 yet.
        [*watermarks(range(1, 8)), *watermarks([8], [0]), event("live", 2, "a")],
        [incident("live", 2, ["a"])],
    )
    right = results(
        spark, "later", [score(w, "gauge/a//cpu", float(w)) for w in range(5, 12)], watermarks(range(5, 12))
    )
    found = compare(left, right)
    assert found["windows"] == {"from": at(5), "to": at(7), "compared": 3, "left_outside": 5, "right_outside": 4}
    assert {name: found[name] for name in NONE} == {**NONE, "left": 3, "right": 3, "different": 3}
    assert found["novelties"] == found["incidents"] == NONE
    narrowed = compare(left, right, windows=(None, at(6)))
    assert narrowed["windows"] == {"from": at(5), "to": at(6), "compared": 2, "left_outside": 6, "right_outside": 5}
    with pytest.raises(InputError, match=r"live and later have no window in common: live has [^\n]+; replay [^\n]+$"):
        compare(left, right, windows=(at(9), None))
    with pytest.raises(InputError, match=r"version 'new' has no window that all its shards have closed"):
        compare(left, results(spark, "new", [], watermarks([1], [0])))


def test_what_retention_has_begun_to_delete_is_not_compared(spark: SparkSession) -> None:
    spoken = [watermark for window in range(1, 400) for watermark in watermarks([window])]
    right = results(spark, "again", [], spoken)
    # The first score that is left is as old as the first watermark message; then one a second, one for each shard.
    left = results(spark, "live", [score(350, "gauge/a//cpu")], spoken, deleted={"scores": (0,)})
    safe = 1 + MARGIN_SECONDS // SHARDS
    assert compare(left, right)["windows"]["from"] == at(safe + 1)
    assert compare(right, right)["windows"]["from"] == at(1)
    # Nothing is left of partition 1 of scores: no window can be compared.
    emptied = results(spark, "live", [score(350, "gauge/a//cpu")], spoken, deleted={"scores": (0, 1)})
    with pytest.raises(InputError, match="retention has deleted what was before"):
        compare(emptied, right)


def test_truth_judges_each_version_on_the_windows_that_both_have(spark: SparkSession) -> None:
    fault = {"id": "1", "kind": "x", "category": "fault", "from": iso(at(2)), "to": iso(at(9)), "hosts": ["a"]}
    early = {**fault, "id": "0", "from": iso(at(-50)), "to": iso(at(-40))}
    truth = Truth(frozenset("ab"), ({**fault, "series": []}, {**early, "series": []}))
    empty: list[Record] = []
    left = results(spark, "l", empty, [*watermarks(range(1, 9)), event("l", 4, "a")], [incident("l", 4, ["a"])])
    junk: list[Record | str] = ["not a record", {"window_end": at(4)}, {**event("r", 4, "a"), "host": None}]
    right = results(spark, "r", empty, [*watermarks(range(1, 9)), *junk], [incident("r", 5, ["b"])])
    found = compare(left, right, truth=truth, delays=(15_000, 15_000))["truth"]
    assert (found["left"].pop("unreadable"), found["right"].pop("unreadable")) == (0, len(junk))
    nothing = {"changes": 0, "changes_announced": 0, "faults": 1}
    assert found["left"] == {**nothing, "found": 1, "missed": 0, "false_alarms": 0, "median_seconds_to_detect": 35.0}
    assert found["right"] == {**nothing, "found": 0, "missed": 1, "false_alarms": 1, "median_seconds_to_detect": None}
