"""Whatever is believed of the topic `novelties`, `correlate` can publish, save and load."""

from __future__ import annotations

import json
import random
from types import SimpleNamespace
from typing import Any

import pytest

from models.incidents.correlator import Correlator
from models.incidents.parameters import CorrelationParameters
from models.records.records import (
    EPISODE_KINDS,
    MOST_WATCHED,
    STATUSES,
    AnnouncedCall,
    EpisodeEvent,
    Watched,
    episode_id,
)
from models.records.schema import fields_of
from pipelines.jobs.correlate import (
    LARGEST,
    EpisodeEventBuffer,
    NoveltiesTopic,
    ValidRecord,
    add_valid_records,
    advance,
    incident_json,
)
from pipelines.windowing import WindowingConfig

W = 10_000
TOPIC = NoveltiesTopic("novelties", partitions=1, shards=2, window_ms=W, ahead_ms=0)
NUMBERS = (None, 0, -0.0, 1, -1, 5e-324, 1e-300, 13.8, 700.0, 1e15, LARGEST, -LARGEST, 2**62, -(2**62))
TEXTS = ("", "x", "\x00", "a/b", "\u00e9", "h" * 256, "{", "strange", "level", "limit", "new host", "mix", "peers")
SERIES = (
    *("gauge/h-1/web/cpu", "counter/h%2F/db/x{client=a,server=b}", "logs/../web/error", "template/__proto__/web/info/00aa"),
    *("host/h-1", "service/h-2/", "fleet///hosts in shard 1"),
)  # fmt: skip


def test_a_window_is_closed_by_what_was_appended_its_lateness_later_by_a_clock_that_is_the_skew_behind_at_most() -> (
    None
):
    windowing = WindowingConfig(lateness_seconds=15, skew_seconds=60)
    assert windowing.most_ahead_ms(history=False) == 45_000
    assert windowing.most_ahead_ms(history=True) == 3_660_000, "brokers take what is an hour ahead of them"


def checked(record: dict[str, Any], at: int, offset: int = 0) -> ValidRecord:
    """A record as it stands in the topic, held against what `detect` writes."""
    row = {
        "series": record.get("series", ""),
        "shard": 0 if "series" in record else -1,
        "partition": 0,
        "offset": offset,
    }
    return TOPIC.check(SimpleNamespace(value=json.dumps(record).encode(), timestamp=at, **row))


def episode(source: random.Random, known: dict[str, tuple[str, int]], end: int) -> dict[str, Any]:
    """An event with anything that its fields can hold, often of an episode that is known."""
    series, start = source.choice(SERIES), source.choice((0, end, max(0, end - W * source.randrange(50))))
    identity = episode_id(series, start)
    if known and source.random() < 0.6:
        identity, (series, start) = source.choice(list(known.items()))
    known[identity] = series, start
    values = {float: NUMBERS, int: (0, 1, -1, 2**62), bool: (True, False), str: TEXTS}
    own = {
        name: source.choice(values[field.type])
        for name, field in fields_of(EpisodeEvent).items()
        if source.random() < 0.5
    }
    about = {"id": identity, "series": series, "start": start, "window_end": end, "version": "live"}
    kinds = {"record": "episode", "kind": source.choice(EPISODE_KINDS), "status": source.choice(STATUSES)}
    return own | about | kinds


def message(source: random.Random, end: int, shard: int) -> dict[str, Any]:
    """A watermark message with anything that its fields can hold."""
    series, hosts, of_web = source.choices((0, 1, 50, MOST_WATCHED), k=3)
    at, changed = source.choice((0, end, 2**62, -(2**62))), source.choice(("web", ""))
    watched: dict[str, Any] = {
        "series": series,
        "hosts": hosts,
        "window_seconds": source.choice((0, W / 1000)),
        "services": {"web": of_web},
        "calls": [{"client": "web", "server": source.choice(("db", "web"))}],
        "changes": [{"at": at, "change": "deployment", "service": changed}],
        "topology": [{"client": "db", "server": "web", "removed": source.random() < 0.5}],
    }
    return {"record": "watermark", "watermark": end, "shard": shard, "shards": TOPIC.shards, "watched": watched}


@pytest.mark.parametrize("seed", range(3))
def test_what_is_believed_is_never_fatal(seed: int) -> None:
    source, known = random.Random(seed), dict[str, tuple[str, int]]()
    buffer, correlator, published = EpisodeEventBuffer(), Correlator(CorrelationParameters()), 0
    for end in range(W, 120 * W, W):
        records = [episode(source, known, end) for _ in range(source.randrange(12))]
        records += [message(source, end, shard) for shard in range(TOPIC.shards)]
        add_valid_records(buffer, [checked(record, end, offset) for offset, record in enumerate(records)])
        for incident in advance(buffer, correlator):
            incident_json(incident, "live").encode()
            published += 1
        buffer = EpisodeEventBuffer.load(buffer.dump())
        correlator = Correlator.load(correlator.dump(), CorrelationParameters())
    assert published > 50


@pytest.mark.parametrize(
    "change",
    [
        *({name: text} for name in ("reason", "part", "unit", "sample") for text in ("\ud800", "\udc00\ud800")),
        *({name: number} for name in ("score", "evidence", "value", "lower") for number in (1e101, 2**63, -(10**400))),
        {"score": float("nan")},
        {"start": 2**63},
    ],
)
def test_an_event_that_could_not_be_written_again_is_not_believed(change: dict[str, Any]) -> None:
    source = random.Random(1)
    good = episode(source, {}, W)
    checked(good, W)
    with pytest.raises(ValueError, match=r".+"):
        checked(good | change, W)


@pytest.mark.parametrize(
    "change",
    [
        *({"window_seconds": seconds} for seconds in (1e99, 5e-324, -10.0, 20.0)),
        *({name: count} for name in ("series", "hosts", "services_omitted") for count in (MOST_WATCHED + 1, 2**62, -1)),
        *({"services": services} for services in ({"\ud800": 1}, {"web": 2**62})),
        {"calls": [{"client": "\ud800", "server": "b"}]},
    ],
)
def test_numbers_that_nobody_watches_are_not_believed(change: dict[str, Any]) -> None:
    good = message(random.Random(1), W, 0)
    checked(good, W)
    with pytest.raises(ValueError, match=r".+"):
        checked(good | {"watched": good["watched"] | change}, W)


def test_calls_that_are_announced_in_window_after_window_are_learnt_in_each_whatever_the_batches() -> None:
    """The latest stay where there are too many, so it matters when they came."""

    def watched(*calls: tuple[str, str]) -> Watched:
        return Watched(series=5, hosts=1, topology=[AnnouncedCall(client=one, server=other) for one, other in calls])

    own, other = watched(("a", "b")), watched(("c", "d"))
    messages = [(1, 0, own), (1, 1, watched()), (2, 0, own), (2, 1, other), (3, 0, own), (3, 1, watched())]
    messages += [(4, 0, watched()), (4, 1, watched())]
    states = []
    for size in (1, 2, 3, len(messages)):
        buffer, correlator = EpisodeEventBuffer(shards=TOPIC.shards), Correlator(CorrelationParameters())
        for first in range(0, len(messages), size):
            for window, shard, seen in messages[first : first + size]:
                buffer.add_watermark(shard, window * W, seen)
            assert advance(buffer, correlator) == []
        states.append(json.loads(correlator.dump()))
    assert all(state == states[0] for state in states)
    assert states[0]["announced"]["calls"] == [["c", "d"], ["a", "b"]]
