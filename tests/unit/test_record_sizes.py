"""Every record that detect and correlate write fits into the log at its largest legal value, and so does every letter."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from models.core.parameters import DetectorParameters
from models.core.series import Series, build
from models.core.windows import Windows
from models.detection.detector import ShardDetector
from models.incidents.correlator import Correlator
from models.incidents.parameters import CorrelationParameters
from models.records.records import (
    CALL_BYTES,
    MOST_CALLS,
    MOST_SERVICES,
    CallSeen,
    EpisodeEvent,
    RefusedRecord,
    Watched,
    WatermarkMessage,
    fit_into_bytes,
    largest_services,
)
from pipelines import letters
from pipelines.jobs import detect
from pipelines.jobs.correlate import incident_json

T = 1_700_000_000_000
NAME, LABEL, LABELS, TEMPLATE, LINE = 256, 128, 16, 1_024, 8_192  # characters, as docs/inputs.md has them
# Characters that are long in UTF-8, in JSON or in a series' name. Names have no control characters; texts may.
IN_NAMES = ("\U0001f600", '"', "\\", "/", "%", "\u0800")
IN_TEXTS = (*IN_NAMES, "\x01", "\x1f")


def longest(name: str, number: int = 0) -> str:
    """The longest name that is made of a character, and is not that of another number."""
    return f"{number:06d}" + name * (NAME - 6)


def metric(name: str) -> str:
    labels = ",".join(f"{name * LABEL}={name * LABEL}" for _ in range(LABELS))
    return f"{name * NAME}{{{labels}}}"


def event(name: str, text: str, number: int = 0, **changes: Any) -> EpisodeEvent:
    """An event with all of its texts at their bounds."""
    own = Series("gauge", longest(name, number), longest(name, number), metric=metric(name))
    about: dict[str, Any] = {"kind": "anomaly", "status": "open", "start": T, "window_end": T + 10_000, "score": 1e3}
    about |= {"evidence": 1e3, "reason": text * 100_000, "template": f"{number:06d}" + text * (TEMPLATE - 6)}
    return EpisodeEvent(series=build(own), **(about | {"sample": text * LINE, "part": "level"} | changes))


def size(record: dict[str, Any]) -> int:
    return len(json.dumps(record, ensure_ascii=False).encode())


@pytest.mark.parametrize("name", IN_NAMES)
@pytest.mark.parametrize("text", IN_TEXTS)
def test_an_episode_event_fits(name: str, text: str) -> None:
    found = event(name, text)
    assert size(found.to_record("v" * 64)) + len(found.series.encode()) < letters.MOST_BYTES


@pytest.mark.parametrize("name", IN_NAMES)
def test_a_watermark_message_of_any_number_of_services_and_calls_fits(name: str) -> None:
    hosts = {longest(name, i): 10**6 for i in range(17_000)}
    services, omitted = largest_services(hosts)
    assert (len(services), omitted) == (MOST_SERVICES, 17_000 - MOST_SERVICES)
    calls = fit_into_bytes([CallSeen(longest(name, i), longest(name, i)) for i in range(MOST_CALLS)], CALL_BYTES)
    watched = Watched(10**9, 10**9, 86_400.0, services, omitted, calls)
    found = WatermarkMessage(watermark=T, shard=4_095, shards=4_096, watched=watched)
    assert size(detect.watermark_record(found)) < letters.MOST_BYTES


def test_the_services_with_the_most_hosts_are_listed_then_by_name() -> None:
    hosts = {f"s{i:04d}": 1 for i in range(1_000)} | {"z": 7}
    services, omitted = largest_services(hosts)
    assert list(services) == ["z", *(f"s{i:04d}" for i in range(MOST_SERVICES - 1))]
    assert omitted == 1_001 - MOST_SERVICES
    assert largest_services({"b": 1, "a": 1}) == ({"b": 1, "a": 1}, 0)


def test_a_shard_says_how_many_services_it_leaves_out() -> None:
    series = np.array([f"gauge/web-1/s{i:03d}/load" for i in range(600)], dtype=object)
    ones, none = np.ones(600), np.full(600, None, dtype=object)
    detector = ShardDetector(DetectorParameters())
    detector.step(T, Windows(series, ones.astype(np.int64), ones, 0 * ones, ones, ones, ones, none, none))
    found = detector.watched
    assert (len(found.services), found.services_omitted) == (MOST_SERVICES, 100)


@pytest.mark.parametrize("name", IN_NAMES)
def test_an_incident_of_as_many_hosts_and_services_as_it_may_have_fits(name: str) -> None:
    limits = CorrelationParameters(max_members=5_000, max_shown=500, max_episodes=100_000, fleet_hosts=10_000)
    linked = []
    for i in range(150):
        for service in (0, i):  # all hosts do the same, and each does something of its own
            of = build(Series("gauge", longest(name, i), longest(name, service), metric=metric(name)))
            linked.append(replace(event(name, "\x01", i, sample=None), series=of, id=""))
    (found,) = Correlator(limits).step(T + 10_000, linked, Watched(10, 200, 10.0, {longest(name): 150}))
    assert found.novelties > 1
    text = incident_json(found, "v" * 64)
    assert len(text.encode()) < letters.MOST_BYTES
    assert 1 < len(found.hosts) <= 150
    assert 1 < len(found.services) <= 150
    assert found.episodes_omitted == found.novelties - len(found.episodes)


def test_a_list_is_cut_where_it_would_be_too_large() -> None:
    assert fit_into_bytes(["a", "b"]) == ["a", "b"]
    assert fit_into_bytes(["a" * 6, "b" * 6, "c"], 20) == ["a" * 6, "b" * 6]
    assert fit_into_bytes(["\U0001f600" * 5], 20) == []


@pytest.mark.parametrize("text", IN_TEXTS)
def test_a_letter_and_its_headers_fit(text: str) -> None:
    value = text.encode() * 3_000_000
    source = {"topic": "t" * 249, "partition": 2**31, "offset": 2**63, "timestamp": 2**63, "stage": "correlate"}
    found = RefusedRecord.about(value, **source, reason=text * 100_000)
    assert sum(len(k) + len(v) for k, v in found.headers()) < 10_000
    on_its_way = json.loads(letters.dead_letter_text(value, **source, reason=text * 100_000))
    assert len(on_its_way["value"]) < 90_000
