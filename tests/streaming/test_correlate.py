"""correlate: complete windows in order, whatever the batches."""

import json
import math
import random
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.tws_tester import TwsTester

from app.core.settings import Settings
from app.kafka import score_log
from models.detection.limits import CHANGES, LABELS, RULES, series_of
from models.detection.shard_state import ALL_SERIES
from models.incidents import correlator
from models.incidents.parameters import CorrelationParameters
from models.records.records import Watched, episode_id
from pipelines.errors import OfAnotherRelease
from pipelines.jobs import correlate
from pipelines.jobs.correlate import (
    CorrelateProcessor,
    EpisodeEventBuffer,
    NoveltiesTopic,
    as_one_group,
    shard_of_series,
)
from pipelines.windowing import WindowingConfig
from replay.savepoints import create_savepoint

SHARDS = 3
T = 1_700_000_000_000


def at(window: int) -> int:
    return T + 10_000 * window


def event(host: str, window: int, status: str = "open", start: int | None = None) -> dict[str, Any]:
    start = window if start is None else start
    return {
        "record": "episode",
        "version": "live",
        "series": f"gauge/{host}/web/{host}-latency",
        "kind": "anomaly",
        "status": status,
        "start": at(start),
        "window_end": at(window),
        "score": 20.0,
        "evidence": 30.0,
        "reason": "slow",
        "host": host,
        "service": "web",
        "metric": f"{host}-latency",
        "level": "",
        "template": None,
    }


def watermark(window: int, shard: int) -> dict[str, Any]:
    return {"record": "watermark", "watermark": at(window), "shard": shard, "shards": SHARDS}


def watermarks(window: int) -> list[dict[str, Any]]:
    return [watermark(window, shard) for shard in range(SHARDS)]


SOURCE = NoveltiesTopic("novelties", partitions=1, shards=SHARDS, window_ms=10_000, ahead_ms=0)
COLUMNS = ["everything", "value", "series", "shard", "partition", "offset", "timestamp"]


def row(value: bytes | None, series: str | None, offset: int) -> tuple[Any, ...]:
    """A row of `as_one_group`, appended after all windows."""
    shard = ord(series.split("/")[1][0]) % SHARDS if series else -1
    return 0, value, series, shard, 0, offset, at(20)


def frame(records: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """As `as_one_group` gives them; a record may say its place in the log."""
    rows = [
        row(json.dumps({k: v for k, v in r.items() if k != "offset"}).encode(), r.get("series"), r.get("offset", i))
        for i, r in enumerate(records)
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def placed(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records with their places in the log."""
    return [r | {"offset": i} for i, r in enumerate(records)]


class CorrelateTester:
    """The processor on batches of records."""

    def __init__(self) -> None:
        self.tester = TwsTester(CorrelateProcessor(CorrelationParameters(), "live", SOURCE))

    def batch(self, records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        answers = self.tester.testInPandas(0, frame(records))
        (self.summary,) = [json.loads(text) for text in answers["summary"].dropna()]
        return [json.loads(value) for value in answers["value"].dropna()] if len(answers) else []


STORY = [event("a", 1), event("b", 2), event("a", 4, "close", 1), event("b", 5, "close", 2)]


def whole_story() -> list[dict[str, Any]]:
    """Events and watermarks as detect writes them: a window's watermark after its events."""
    found: list[dict[str, Any]] = []
    for window in range(14):
        found += [s for s in STORY if s["window_end"] == at(window)]
        found += watermarks(window)
    return found


def brief(incidents: Iterable[dict[str, Any]]) -> list[tuple[str, list[str], int]]:
    return [(i["status"], i["hosts"], (i["window_end"] - T) // 10_000) for i in incidents]


def test_a_window_waits_until_every_shard_has_ticked_it() -> None:
    job = CorrelateTester()
    assert job.batch([event("a", 1), watermark(1, 0), watermark(1, 1)]) == []
    assert brief(job.batch([watermark(1, 2)])) == [("open", ["a"], 1)]


def test_batches_of_any_size_give_the_same_incidents() -> None:
    story = whole_story()
    wanted = CorrelateTester().batch(story)
    assert brief(wanted) == [("open", ["a"], 1), ("open", ["b"], 2), ("close", ["a"], 10), ("close", ["b"], 11)]
    for size in (1, 2, 7, 20):
        job = CorrelateTester()
        assert [i for n in range(0, len(story), size) for i in job.batch(story[n : n + size])] == wanted


def test_a_summary_says_what_a_batch_has_published_and_what_is_open() -> None:
    job, story = CorrelateTester(), whole_story()
    job.batch([event("a", 1), watermark(1, 0), watermark(1, 1)])
    assert job.summary == {"oldest_window": None, "events": [], "open": {}}
    opened = job.batch(story[: story.index(watermark(5, 0))])
    severities = [one["severity"] for one in opened]
    assert [tuple(one) for one in job.summary["events"]] == [(severity, "open") for severity in severities]
    assert job.summary["oldest_window"] == at(1) and sum(job.summary["open"].values()) == 2
    job.batch(watermarks(6))
    assert job.summary["oldest_window"] == at(6) and job.summary["events"] == []
    job.batch(watermarks(13))
    assert [status for _, status in job.summary["events"]] == ["close", "close"]
    assert job.summary["open"] == {}


def test_ticks_of_each_window_or_of_the_last_only_give_the_same_incidents() -> None:
    sparse = [r for r in whole_story() if r["record"] != "watermark" or r["watermark"] == at(13)]
    assert CorrelateTester().batch(sparse) == CorrelateTester().batch(whole_story())


def test_repeats_are_ignored() -> None:
    story = whole_story()
    job = CorrelateTester()
    first = job.batch(story[:30] + story[:30])
    assert first + job.batch(story[20:]) + job.batch(story) == CorrelateTester().batch(story)


def test_order_within_a_batch_changes_nothing() -> None:
    story = placed(whole_story())
    shuffled = random.Random(1).sample(story, len(story))
    assert CorrelateTester().batch(shuffled) == CorrelateTester().batch(story)


EVENT = event("a", 1)
EVENTS: list[dict[str, Any]] = [
    {"series": "gauge/other/web/x"},
    {"series": "what/ever"},
    {"status": "ajar"},
    {"kind": "odd"},
    {"score": "high"},
    {"score": math.inf},
    {"start": -1},
    {"start": at(2)},
    {"window_end": at(21)},
    {"window_end": at(1) + 5},
    {"id": "x" * 600},
    {"reason": ["a"]},
    {"template": {"a": 1}},
    {"sample": "x" * 1_000_000},
]
MESSAGES: list[dict[str, Any]] = [
    {"watermark": 9 * 10**15},
    {"watermark": 10**400},
    {"watermark": at(21)},
    {"watermark": at(1) + 1},
    {"watermark": -10_000},
    {"watermark": float(at(1))},
    {"watermark": True},
    {"shard": SHARDS},
    {"shard": -1},
    {"shards": SHARDS + 1},
    {"shards": None},
    {"watched": []},
    {"watched": {"services": {"a": "many"}}},
    {"watched": {"hosts": -1}},
    {"watched": {"services": {f"s{i}": 1 for i in range(501)}}},
    {"watched": {"window_seconds": math.nan}},
    {"watched": {"calls": [{"client": "web"}]}},
    {"watched": {"calls": [{"client": f"s{i}", "server": "t"} for i in range(501)]}},
]
JUNK: list[tuple[bytes | None, str | None]] = [
    (None, None),
    (b"", None),
    (b"\xff\x00", None),
    (b"[]", None),
    (b"[" * 100_000, None),
    (b'{"record":"watermark"}', None),
    (b'{"id":"a"}', None),
    *((json.dumps(watermark(1, 0) | change).encode(), None) for change in MESSAGES),
    *((json.dumps(EVENT | change).encode(), EVENT["series"]) for change in EVENTS),
    (json.dumps(EVENT).encode(), None),
    (json.dumps(EVENT).encode()[:-3], EVENT["series"]),
]


def test_what_detect_has_not_written_is_a_letter_and_changes_nothing() -> None:
    story = frame(whole_story())
    junk = [row(value, series, 10_000 + i) for i, (value, series) in enumerate(JUNK)]
    rows = [tuple(r) for r in story.itertuples(index=False)]
    for size in (1, 3, 1_000):
        source = random.Random(size)
        mixed = sorted([*rows, *junk], key=lambda r: r[5] if r[5] < 10_000 else source.randrange(len(rows)))
        tester = TwsTester(CorrelateProcessor(CorrelationParameters(), "live", SOURCE))
        found: list[Any] = []
        for n in range(0, len(mixed), size):
            answers = tester.testInPandas(0, pd.DataFrame(mixed[n : n + size], columns=COLUMNS))
            found += answers.to_dict("records") if len(answers) else []
        letters = [json.loads(one["letter"]) for one in found if isinstance(one["letter"], str)]
        assert sorted(one["offset"] for one in letters) == list(range(10_000, 10_000 + len(JUNK)))
        assert all(one["stage"] == "correlate" and 0 < len(one["reason"]) <= 1_000 for one in letters)
        answered = [json.loads(one["value"]) for one in found if isinstance(one["value"], str)]
        assert answered == CorrelateTester().batch(whole_story())


def test_an_event_behind_the_watermark_message_of_its_window_is_ignored_whatever_the_batches() -> None:
    forged = [*whole_story(), event("d", 3), event("a", 1) | {"score": 99.0}]
    wanted = CorrelateTester().batch(whole_story())
    assert CorrelateTester().batch(forged) == wanted
    job = CorrelateTester()
    assert [i for record in forged for i in job.batch([record])] == wanted


def test_the_state_holds_the_last_complete_window_and_the_correlator_after_it() -> None:
    job = CorrelateTester()
    job.batch([event("a", 1), *watermarks(1), event("b", 2)])
    done, model, waiting = job.tester.peekValueState("correlator", 0) or (None, b"", b"")
    assert done == at(1)
    assert json.loads(model)["last"] == at(1)
    assert EpisodeEventBuffer.load(waiting).dump() == waiting
    assert len(json.loads(waiting)["waiting"]) == 1


def watched(series: int) -> dict[str, Any]:
    return {"series": series, "hosts": 2, "window_seconds": 10.0, "services": {"web": 2}}


def watched_story() -> list[dict[str, Any]]:
    """As the whole story, but so much is watched until window 2 that its events may be chance."""
    return [
        {**r, "watched": watched(10**9 if r["watermark"] < at(2) else 10)} if r["record"] == "watermark" else r
        for r in whole_story()
    ]


def test_what_is_watched_in_its_window_decides_whether_an_incident_is_told() -> None:
    assert brief(CorrelateTester().batch(watched_story())) == [("open", ["b"], 2), ("close", ["b"], 11)]


def test_what_is_watched_is_known_whatever_the_batches() -> None:
    story = watched_story()
    wanted = CorrelateTester().batch(story)
    for size in (1, 2, 7, 20):
        job = CorrelateTester()
        assert [i for n in range(0, len(story), size) for i in job.batch(story[n : n + size])] == wanted
    assert CorrelateTester().batch(random.Random(1).sample(placed(story), len(story))) == wanted


CALLS = {"series": 0, "calls": [{"client": "web", "server": "cart"}]}


def test_calls_that_one_shard_knows_rank_causes_whatever_the_batches() -> None:
    both = [event("a", 1) | {"strength": 8.0}, event("a", 1) | {"series": "gauge/a/cart/l", "strength": 3.0}]
    quiet = [*both, *(message for window in range(14) for message in watermarks(window))]
    known = [r | {"watched": CALLS} if r.get("shard") == 1 else r for r in quiet]
    firsts = [[incident["causes"][0]["service"] for incident in CorrelateTester().batch(s)] for s in (quiet, known)]
    assert firsts == [["web"], ["cart"]]
    for size in (1, 7):
        job = CorrelateTester()
        answers = [i for n in range(0, len(known), size) for i in job.batch(known[n : n + size])]
        assert answers == CorrelateTester().batch(known)


def test_the_buffer_keeps_what_is_watched_only_where_it_changes() -> None:
    buffer = EpisodeEventBuffer(shards=1)
    for window in range(100):
        buffer.add_watermark(0, at(window), Watched(series=1 + window // 50))
    assert [watermark for watermark, _ in buffer.watched[0]] == [at(0), at(50)]
    assert [buffer.watched_at(at(w)).series for w in (0, 49, 50, 99)] == [1, 1, 2, 2]
    assert EpisodeEventBuffer.load(buffer.dump()).watched == buffer.watched
    assert list(buffer.take()) == [(at(99), [], Watched(series=2, tests=2))]
    assert [watermark for watermark, _ in buffer.watched[0]] == [at(50)]
    buffer.add_watermark(0, at(98), Watched(series=7))  # a repeat
    assert buffer.watched_at(at(99)).series == 2


def test_a_buffer_that_is_cut_knows_what_was_watched_then() -> None:
    buffer = EpisodeEventBuffer(shards=2)
    for shard in range(2):
        for window in range(10):
            buffer.add_watermark(shard, at(window), Watched(series=window))
    kept = buffer.cut({0: at(3), 1: at(5)}, {})
    assert (kept.latest, kept.limit) == ({0: at(3), 1: at(5)}, at(3))
    assert kept.watched_at(at(3)).series == 6
    assert max(watermark for watermark, _ in kept.watched[1]) == at(5)


def test_a_buffer_of_another_format_is_refused() -> None:
    with pytest.raises(ValueError, match="format"):
        EpisodeEventBuffer.load(b'{"format": 99}')


@pytest.mark.parametrize(("writes", "name"), [(correlate, "FORMAT"), (correlator, "STATE_FORMAT")])
def test_correlate_says_which_format_its_state_has_and_which_it_writes(
    writes: ModuleType, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = CorrelateTester()
    job.batch(whole_story())
    monkeypatch.setattr(writes, name, 99)
    with pytest.raises(
        OfAnotherRelease, match=r"the state was written by another release \(.* has format \d+; wanted 99\)"
    ):
        job.batch([watermark(20, 0)])


def test_of_many_windows_that_are_taken_at_once_each_has_what_was_watched_then() -> None:
    buffer, windows = EpisodeEventBuffer(shards=4), 600
    for window in range(windows):
        for shard in range(4):
            buffer.add_watermark(shard, at(window), Watched(series=1_000 + window, hosts=10, window_seconds=10.0))
        buffer.add_event(json.dumps(event("a", window)))
    found = [watched.series for _, _, watched in buffer.take()]
    assert found == [4 * (1_000 + window) for window in range(windows)]


def test_episodes_about_the_whole_fleet_are_those_of_the_shard_that_opened_them(spark: SparkSession) -> None:
    """They have no host: each full shard has one of its own, in the partition of that shard."""
    source = NoveltiesTopic("novelties", partitions=4, shards=16, window_ms=10_000, ahead_ms=0)
    owners = ("", *(f"/{limit}" for limit in (ALL_SERIES, CHANGES, LABELS, RULES)))
    rows = []
    for shard in range(source.shards):
        for owner in owners:
            series = series_of(owner, shard)
            about = {"series": series, "id": episode_id(series, at(1)), "host": "", "metric": series.split("/")[3]}
            value = json.dumps(event("", 1) | about).encode()
            rows.append(
                (series.encode(), value, shard % source.partitions, shard, datetime.fromtimestamp(at(2) / 1000, UTC))
            )
    raw = spark.createDataFrame(rows, "key binary, value binary, partition int, offset long, timestamp timestamp")
    found = [(source.check(row), row) for row in as_one_group(raw, source.shards).collect()]
    assert len(found) == len(rows)
    assert all(one.shard == row.offset for one, row in found)  # here the offset says the shard
    odd = [("fleet///hosts in shard 99999999999",), ("fleet///hosts",), ("gauge/a",)]
    names = spark.createDataFrame(odd, "series string").select(shard_of_series(F.col("series"), source.shards))
    assert [row[0] for row in names.collect()] == [None, None, score_log.shard_of("a", source.shards)]


def test_a_savepoint_believes_of_novelties_what_correlate_does(spark: SparkSession, tmp_path: Path) -> None:
    """Of what correlate has not read yet: one stray record would end each savepoint, or be an event in it that no run has."""
    settings = Settings(home=tmp_path, windowing=WindowingConfig(shards=SHARDS))
    name, partitions = "gauge/a/web/a-latency", 2
    shard = score_log.shard_of("a", SHARDS)
    own = event("a", 1) | {"id": episode_id(name, at(1))}
    fleet = series_of("", 1)
    full = own | {"series": fleet, "id": episode_id(fleet, at(1)), "host": ""}
    closed = watermark(1, 1) | {"watched": None}

    def written(value: bytes | None, key: str | None, partition: int, offset: int) -> SimpleNamespace:
        about = {"partition": partition, "offset": offset, "timestamp": at(2)}
        return SimpleNamespace(value=value, key=None if key is None else key.encode(), **about)

    texts = [json.dumps(one).encode() for one in (own, full, closed)]
    ours = [
        written(texts[0], name, shard % partitions, 0),
        written(texts[1], fleet, 1, 1),
        written(texts[2], None, 1, 2),
    ]
    strays = [written(value, name, 0, 7) for value in (b"stray", b"{}", b"\xff", None)]
    strays += [written(texts[0], name, 1 - shard % partitions, 8), written(texts[0], "gauge/b/web/x", 0, 9)]
    strays += [written(texts[2], None, 0, 10), written(texts[1], "fleet///hosts", 1, 11)]
    found = list(create_savepoint.valid_records(spark, settings, [*strays, *ours], partitions))
    assert [(one.offset, one.shard) for one in found] == [(0, shard), (1, 1), (2, 1)]
