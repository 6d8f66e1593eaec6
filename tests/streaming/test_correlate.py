"""correlate: complete windows in order, whatever the batches."""

import json
import random
from collections.abc import Iterable
from typing import Any

import pandas as pd
import pytest
from pyspark.sql.streaming.tws_tester import TwsTester

from models.incidents.parameters import CorrelationParameters
from models.records.records import Watched
from pipelines.errors import DeterminismViolation
from pipelines.jobs.correlate import CorrelateProcessor, EpisodeEventBuffer

SHARDS = 3
T = 1_700_000_000_000


def at(window: int) -> int:
    return T + 10_000 * window


def event(host: str, window: int, status: str = "open", start: int | None = None) -> dict[str, Any]:
    start = window if start is None else start
    return {
        "record": "episode",
        "id": f"{host}{start}",
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


def frame(records: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """As `one_group` gives them."""
    rows = [{"everything": 0, "value": json.dumps(r)} for r in records]
    return pd.DataFrame(rows, columns=["everything", "value"])


class CorrelateTester:
    """The processor on batches of records."""

    def __init__(self) -> None:
        self.tester = TwsTester(CorrelateProcessor(CorrelationParameters(), "live"))

    def batch(self, records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        answers = self.tester.testInPandas(0, frame(records))
        return [json.loads(value) for value in answers["value"]] if len(answers) else []


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


def test_ticks_of_each_window_or_of_the_last_only_give_the_same_incidents() -> None:
    sparse = [r for r in whole_story() if r["record"] != "watermark" or r["watermark"] == at(13)]
    assert CorrelateTester().batch(sparse) == CorrelateTester().batch(whole_story())


def test_repeats_are_ignored() -> None:
    story = whole_story()
    job = CorrelateTester()
    first = job.batch(story[:30] + story[:30])
    assert first + job.batch(story[20:]) + job.batch(story) == CorrelateTester().batch(story)


def test_order_within_a_batch_changes_nothing() -> None:
    story = whole_story()
    shuffled = random.Random(1).sample(story, len(story))
    assert CorrelateTester().batch(shuffled) == CorrelateTester().batch(story)


def test_a_record_that_is_neither_event_nor_tick_stops_the_job() -> None:
    with pytest.raises(DeterminismViolation, match="neither"):
        CorrelateTester().batch([{"id": "a"}])


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
    assert CorrelateTester().batch(random.Random(1).sample(story, len(story))) == wanted


def test_the_buffer_keeps_what_is_watched_only_where_it_changes() -> None:
    buffer = EpisodeEventBuffer(shards=1)
    for window in range(100):
        buffer.add_watermark(0, at(window), Watched(series=1 + window // 50))
    assert [watermark for watermark, _ in buffer.watched[0]] == [at(0), at(50)]
    assert [buffer.watched_at(at(w)).series for w in (0, 49, 50, 99)] == [1, 1, 2, 2]
    assert EpisodeEventBuffer.load(buffer.dump()).watched == buffer.watched
    assert list(buffer.take()) == [(at(99), [], Watched(series=2))]
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
