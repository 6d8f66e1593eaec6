"""What is known of a series from the state of its shard, without Spark."""

from __future__ import annotations

import json
import os
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.error import HTTPError

import numpy as np
import pytest
from support.recording_server import server_that

from app.core.settings import Settings, load
from app.embedded.stack_state import ProcessId
from app.runtime import state_query, state_server
from app.runtime.health import Health, HealthServer
from app.runtime.served_health import addresses
from models.core import store
from models.core.parameters import DetectorParameters
from models.core.windows import Scores, Windows
from models.detection.detector import ShardDetector
from pipelines.errors import InputError, OfAnotherRelease
from pipelines.state.state_packing import BUFFER, pack_parts
from pipelines.state.window_buffer import WindowBuffer
from replay.savepoints.create_savepoint import read_spooled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START, WINDOW = 1_767_614_400_000, 10_000
GAUGE, COUNTER, LINES = "gauge/web-1/web/load", "counter/web-1//bytes", "logs/web-1/web/info"
QUICK = DetectorParameters(warm_up_minutes=5, grace_minutes=5, persistence_minutes=3, patience_minutes=10)


def windows(values: Mapping[str, float]) -> Windows:
    """A window: values of metrics, numbers of lines, by series."""
    names = sorted(values)
    numbers = np.array([float(values[name]) for name in names])
    nothing = np.full(len(names), None, dtype=object)
    n = np.where([name.startswith("logs/") for name in names], numbers, 1).astype(np.int64)
    zeros = np.zeros(len(names))
    return Windows(np.array(names, dtype=object), n, numbers, zeros, numbers, numbers, numbers, nothing, nothing)


class WatchedHost:
    """A detector that watches a gauge, a counter and log lines of one host."""

    def __init__(self) -> None:
        self.detector, self.rng, self.total, self.k = ShardDetector(QUICK), np.random.default_rng(1), 1e6, 0

    def step(self, load: float | None = None) -> Scores:
        self.k += 1
        self.total += self.rng.uniform(900, 1100)
        value = round(20 + self.rng.normal(), 2) if load is None else load
        row = {GAUGE: value, COUNTER: self.total, LINES: float(self.rng.poisson(6) + 1)}
        scores, _ = self.detector.step(START + self.k * WINDOW, windows(row))
        return scores

    @property
    def shard(self) -> state_query.Shard:
        buffer = WindowBuffer(done=START + self.k * WINDOW)
        copy = ShardDetector.load(self.detector.dump(), QUICK)  # a dump changes what the next one holds
        return state_query.Shard(3, {**pack_parts(copy.dump()), "buffer": buffer.dump()})

    def answer(self, series: str) -> dict[str, Any]:
        own = load(home=Path("nowhere"), version="again", detection=QUICK)
        detector = self.shard.detector(own.detector)
        assert detector is not None
        return state_query.answer(own, series, self.shard, detector)


@pytest.fixture
def story() -> WatchedHost:
    played = WatchedHost()
    for _ in range(60):
        played.step()
    return played


@pytest.mark.parametrize("series", [GAUGE, COUNTER, LINES])
def test_what_is_typical_is_what_the_detector_says_in_the_next_window(story: WatchedHost, series: str) -> None:
    answer = story.answer(series)
    scores = story.step()
    row = scores.series.tolist().index(series)
    expected = {"typical": scores.typical[row], "lower": scores.lower[row], "upper": scores.upper[row]}
    assert {name: answer[name] for name in expected} == pytest.approx(expected)
    assert expected["lower"] < expected["typical"] < expected["upper"]
    assert 0 < answer["spread"] < expected["upper"] - expected["lower"]
    assert not answer["warming"]


@pytest.mark.parametrize("series", [GAUGE, COUNTER, LINES])
def test_numbers_are_those_of_the_detector_and_the_time_is_that_of_the_shard(story: WatchedHost, series: str) -> None:
    answer, believed = story.answer(series), story.detector.describe_state(series)
    assert answer["numbers"] | {"episode": answer["episode"]} == state_query.known(believed)
    assert sum(value is None for value in answer["numbers"].values()) == (1 if series == GAUGE else 0)
    assert answer["as_of_ms"] == START + 60 * WINDOW
    assert answer["as_of"] == "2026-01-05T12:10:00.000Z"
    assert (answer["series"], answer["shard"], answer["version"]) == (series, 3, "again")
    assert answer["windows"] == int(believed["rows"])
    assert answer["kind"] == series.partition("/")[0]
    json.dumps(answer, allow_nan=False)


def test_a_series_that_is_warming_up_has_no_interval_yet() -> None:
    story = WatchedHost()
    for _ in range(10):
        story.step()
    answer = story.answer(GAUGE)
    assert answer["warming"]
    assert (answer["lower"], answer["upper"], answer["windows_to_go"]) == (None, None, 20)
    assert ["interval", "not known"] in state_server.rows(answer)


def test_an_open_episode_is_told_with_its_reason(story: WatchedHost) -> None:
    assert story.answer(GAUGE)["episode"] is None
    for k in range(12):
        story.step(load=500.0 + k)
    answer = story.answer(GAUGE)
    assert answer["episode"]["kind"] == "anomaly"
    assert not answer["frozen"]
    shown = dict(state_server.rows(answer))
    assert answer["episode"]["reason"] in shown["open episode"]


def test_a_name_that_cannot_be_one_says_what_is_wanted() -> None:
    with pytest.raises(InputError, match="wanted kind/host/service"):
        state_query.host_in("web-1 load")
    assert state_query.host_in("gauge/a%2Fb/web/load") == "a%2Fb", "as extract hashes it"


def test_a_short_name_of_a_host_finds_its_long_one_and_the_other_way() -> None:
    long = [f"web-{number:03d}.eu-west.example.net" for number in range(300)]
    assert state_query.nearest("web-017", [*long, "web-0171.example.net"])[0] == long[17]
    assert state_query.nearest(long[17], ["web-01", "web-017", "db"])[0] == "web-017"


def test_a_metric_without_its_labels_finds_those_with_labels() -> None:
    disks = [f"gauge/web-1/web/disk.used{{device=sd{letter},mount=/a/long/way/down}}" for letter in "abcd"]
    assert state_query.nearest("gauge/web-1/web/disk.used", [*disks, "gauge/web-1/web/disk.free"])[:2] == disks[:2]


def test_the_nearest_names_are_the_most_alike_first() -> None:
    known = [f"gauge/web-1/web/load.{i}" for i in range(50)] + ["gauge/web-1/db/rows", "logs/web-1/web/info"]
    near = state_query.nearest("gauge/web-1/db/row", known)
    assert near[0] == "gauge/web-1/db/rows"
    assert len(near) <= 3
    assert state_query.nearest("?", known) == []


def test_names_that_a_sender_makes_long_are_compared_in_little_time() -> None:
    labels = ",".join(f"k{i}={'ab' * 60}{i}" for i in range(14))
    known = [f"gauge/web-1/shop/m{i}{{{labels}}}" for i in range(10_000)]
    began = time.process_time()
    near = state_query.nearest(known[4711][:-9] + "a}", known)
    assert time.process_time() - began < 5, "it took 26 s"
    assert near[0] == known[4711]


# --- how a question finds its answer


def answering(series: str) -> dict[str, Any]:
    """A process that knows one series."""
    if series != GAUGE:
        msg = f"version live knows no series {series!r}"
        raise InputError(msg)
    return {"series": series}


def test_a_running_process_is_asked_where_it_says_that_it_answers(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    with HealthServer(Health(60), "127.0.0.1", 0, answering) as server:
        with state_server.announced(settings, server.address):
            assert state_server.address_of(settings) == server.address
            assert state_server.address_of(Settings(home=tmp_path, version="other")) is None
            assert state_server.ask(settings, GAUGE) == {"series": GAUGE}
            with pytest.raises(InputError, match="knows no series"):
                state_server.ask(settings, "gauge/a b/c&series=x/ä%2F?#")
        assert state_server.address_of(settings) is None
        assert not state_server.place(settings).exists()


def test_each_process_says_which_jobs_it_runs_and_where_it_answers(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    with (
        HealthServer(Health(60), "127.0.0.1", 0) as first,
        HealthServer(Health(60), "127.0.0.1", 0) as second,
        state_server.announced(settings, first.address, ["extract", "detect"]),
    ):
        with state_server.announced(settings, second.address, ["correlate"]):
            assert addresses(settings) == [first.address, second.address]
        assert addresses(settings) == [first.address]
    assert addresses(settings) == []


def test_a_process_that_is_gone_is_not_asked(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    me = ProcessId.of(os.getpid())
    file = state_server.place(settings)
    file.parent.mkdir(parents=True)
    for process in ({"pid": me.pid, "started": me.started - 1000}, {"pid": 2**22 + 1, "started": 1.0}, None):
        file.write_text(json.dumps({"address": "http://127.0.0.1:1", "process": process}))
        assert state_server.address_of(settings) is None
    file.write_text("{")
    assert state_server.address_of(settings) is None


@pytest.mark.parametrize("name", ["gauge/web-1/web/" + "ü" * 1_000, "gauge/web-1/web/" + "x" * 70_000])
def test_a_name_that_is_too_long_for_the_process_is_looked_for_without_it(tmp_path: Path, name: str) -> None:
    settings, expected = Settings(home=tmp_path), list[str]()
    with (
        HealthServer(Health(60), "127.0.0.1", 0, answering) as server,
        state_server.announced(settings, server.address),
        pytest.raises(InputError, match="version live has never run"),
    ):
        state_server.ask(settings, name, expected.append)
    assert expected == [f"{server.address} does not answer (414 Request-URI Too Long)"]


@pytest.mark.parametrize(("status", "body"), [(200, b"<h1>"), (404, b"<h1>"), (404, b"[]"), (500, b"{}"), (502, b"")])
def test_what_is_no_answer_of_ours_is_none(tmp_path: Path, status: int, body: bytes) -> None:
    settings, expected = Settings(home=tmp_path), list[str]()
    with (
        server_that(status, body) as (address, _),
        state_server.announced(settings, address),
        pytest.raises(InputError, match="version live has never run"),
    ):
        state_server.ask(settings, GAUGE, expected.append)
    assert len(expected) == 1 and expected[0].startswith(f"{address} does not answer ({status} ")


def test_a_version_that_never_ran_is_one_line_without_starting_spark(tmp_path: Path) -> None:
    expected: list[str] = []
    with pytest.raises(InputError, match="version live has never run"):
        state_server.ask(Settings(home=tmp_path), GAUGE, expected.append)
    assert expected == []


def test_the_server_says_why_it_has_no_answer() -> None:
    def failing(series: str) -> dict[str, Any]:
        raise RuntimeError("\n".join(["trace"] * 1000))

    def get(address: str) -> tuple[int, dict[str, Any]]:
        try:
            with urllib.request.urlopen(address) as found:
                return found.status, json.load(found)
        except HTTPError as error:
            with error:
                return error.code, json.load(error)

    with HealthServer(Health(60), "127.0.0.1", 0, answering) as server:
        assert get(f"{server.address}/state?series={GAUGE}") == (200, {"series": GAUGE})
        assert get(f"{server.address}/state?series=gauge%2Fother")[0] == 404
        assert get(f"{server.address}/state")[0] == 400
        assert get(f"{server.address}/healthz")[0] == 200
    with HealthServer(Health(60), "127.0.0.1", 0, failing) as server:
        status, body = get(f"{server.address}/state?series=x")
        assert status == 500
        assert "RuntimeError" in body["error"] and "\n" not in body["error"]


def test_the_state_of_another_release_is_one_line_that_says_so(
    story: WatchedHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard = story.shard
    monkeypatch.setattr(state_query, "read_shard", lambda *_: shard)
    monkeypatch.setattr(store, "FORMAT", 99)
    with pytest.raises(
        OfAnotherRelease, match=r"^the state of version live was written by another release \(.* wanted 99\)[^\n]*$"
    ):
        state_query.describe_state(cast("SparkSession", None), Settings(home=tmp_path), GAUGE)


def test_of_the_state_of_another_release_no_savepoint_is_taken(
    story: WatchedHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard = story.shard
    for name, data in shard.stored.items() - {(BUFFER, shard.stored[BUFFER])}:
        (tmp_path / str(shard.number)).mkdir(exist_ok=True)
        (tmp_path / str(shard.number) / name).write_bytes(data)
    monkeypatch.setattr(store, "FORMAT", 99)
    with pytest.raises(OfAnotherRelease, match=r"has format \d+; wanted 99"):
        list(read_spooled(tmp_path, {shard.number: shard.done}, DetectorParameters()))
