"""Curves from a real topic `scores`: found by bisection, bounded in time, and only for who has the token."""

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from kafka import KafkaProducer

from app.cli import series_metrics
from app.cli.series_metrics import exposition
from app.core.settings import KafkaSettings, Settings
from app.embedded.stack_state import Addresses
from app.kafka import score_log, topics
from app.kafka.connection import client_options
from app.kafka.score_log import Question, ScoreLog, shard_of
from app.runtime.score_server import serving_scores
from models.core.series import parse
from models.records.records import Score
from models.records.schema import plain
from pipelines.errors import InputError

pytestmark = pytest.mark.stack

NOON = 1_795_262_400_000  # 2026-11-21 12:00:00 UTC
WINDOW = 10_000
SHARDS, PARTITIONS, WINDOWS = 8, 2, 1_500
NAMES = [f"gauge/vm-{host}/web/metric.{metric}" for host in range(6) for metric in range(4)]


@pytest.fixture(scope="module")
def settings(stack: Addresses, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A deployment whose topic `scores` has four hours of 24 series, written in batches of 50 windows of each shard."""
    home: Path = tmp_path_factory.mktemp("scores")
    own = Settings(home=home, kafka=KafkaSettings(bootstrap_servers=stack.kafka))
    update = {"prefix": "score_log.", "partitions": PARTITIONS, "telemetry_partitions": 1, "logs_partitions": 1}
    own = own.model_copy(update={"topics": own.topics.model_copy(update=update)})
    topics.create(own)
    producer = KafkaProducer(**client_options(own), linger_ms=50, batch_size=200_000, compression_type="lz4")
    in_shards = sorted(NAMES, key=lambda name: shard_of(parse(name).host, SHARDS))
    for first in range(0, WINDOWS, 50):
        for name in in_shards:
            part = shard_of(parse(name).host, SHARDS) % PARTITIONS
            for window in range(first, first + 50):
                producer.send(own.topic("scores"), key=name.encode(), value=score(name, window), partition=part)
    producer.flush()
    producer.close()
    return own


def score(name: str, window: int) -> bytes:
    """The score of a window, as `detect` writes it."""
    kind = "anomaly" if window == 700 else "normal"
    found = Score(
        series=name, window_end=NOON + WINDOW * window, score=1.0, value=float(window), typical=5.0, kind=kind
    )
    return json.dumps(plain(found)).encode()


@pytest.fixture
def log(settings: Settings) -> Iterator[ScoreLog]:
    found = ScoreLog(settings, SHARDS)
    yield found
    found.close()


def asked(names: list[str], first: int, last: int, **own: Any) -> Question:
    """A question about windows by their numbers, with time enough."""
    since, until = NOON + WINDOW * first, NOON + WINDOW * last
    return Question(tuple(names), since, until, own.pop("focus", until), **({"seconds": 60.0} | own))


def windows(points: list[dict[str, Any]]) -> list[int]:
    return [(point["time"] - NOON) // WINDOW for point in points]


def test_series_of_several_partitions_have_each_window_once(log: ScoreLog) -> None:
    chosen = [NAMES[0], NAMES[-1], "gauge/vm-0/web/unknown"]
    assert len({shard_of(parse(name).host, SHARDS) % PARTITIONS for name in NAMES}) == PARTITIONS
    found = log.answer(asked(chosen, 650, 750))
    assert list(found.series) == chosen[:2]
    for points in found.series.values():
        assert windows(points) == list(range(650, 751))
        assert [point["value"] for point in points] == [float(n) for n in range(650, 751)]
        assert [n for n, point in zip(range(650, 751), points, strict=True) if point["kind"] == "anomaly"] == [700]
        assert points[0]["lower"] is None
    assert found.records >= found.wanted


def test_a_reading_is_far_less_than_the_log(log: ScoreLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_log, "MARGIN", 1_200)
    found = log.answer(asked([NAMES[0]], 1_000, 1_010))
    assert windows(found.series[NAMES[0]]) == list(range(1_000, 1_011))
    assert found.wanted < WINDOWS * len(NAMES) / PARTITIONS / 2


def test_a_long_time_is_thinned_to_means_and_extremes(log: ScoreLog) -> None:
    (points,) = log.answer(asked([NAMES[3]], 0, WINDOWS - 1, points=10)).series.values()
    assert len(points) <= 11
    assert (min(point["least"] for point in points), max(point["most"] for point in points)) == (0.0, WINDOWS - 1.0)
    assert sum(point["kind"] == "anomaly" for point in points) == 1


def test_what_cannot_be_read_in_time_is_left_out_far_from_the_focus_and_said(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(score_log, "FIRST_RATE", 1_000.0)
    slow = ScoreLog(settings, SHARDS)
    found = slow.answer(asked([NAMES[0]], 0, WINDOWS - 1, seconds=5.0))
    slow.close()
    assert 0 < found.records < found.wanted
    assert found.seconds > 5
    seen = windows(found.series[NAMES[0]])
    assert (seen[0] > WINDOWS / 2, seen[-1]) == (True, WINDOWS - 1)


def test_the_newest_window_of_the_last_quarter_of_an_hour_is_exported(settings: Settings) -> None:
    own = settings.model_copy(update={"windowing": settings.windowing.__class__(shards=SHARDS)})
    chosen, last = [NAMES[0], NAMES[-1], "gauge/vm-0/web/unknown"], NOON + WINDOW * (WINDOWS - 1)
    found = series_metrics.newest(own, chosen, last + 60_000)
    assert {name: (point["time"], point["value"], point["score"]) for name, point in found.items()} == dict.fromkeys(
        chosen[:2], (last, WINDOWS - 1.0, 1.0)
    )
    assert f'kappa_series_value{{host="vm-0",kind="gauge",name="metric.0",series="{NAMES[0]}"' in exposition(found)
    assert series_metrics.newest(own, chosen, last + series_metrics.LOOK_BACK_MS + 1) == {}


def test_a_version_without_the_topic_is_said(settings: Settings) -> None:
    with pytest.raises(InputError, match=r"there is no topic score_log\.scores\.nobody"):
        ScoreLog(settings.model_copy(update={"version": "nobody"}), SHARDS)


def post(where: str, body: bytes, token: str = "") -> tuple[int, dict[str, Any]]:
    """Status and answer of the server."""
    request = urllib.request.Request(where, body, {"X-Kappa-Token": token})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        with error:
            text = error.read()
            return error.code, json.loads(text) if text.startswith(b"{") else {}


def test_the_server_answers_who_has_the_token_and_refuses_what_is_no_question(settings: Settings) -> None:
    own = settings.model_copy(update={"windowing": settings.windowing.__class__(shards=SHARDS)})
    question = {"version": "live", "series": [NAMES[0]], "since": NOON, "until": NOON + WINDOW, "focus": NOON}
    with serving_scores(own) as served:
        where, token = served["SCORES_URL"], served["SCORES_TOKEN"]
        status, found = post(where, json.dumps(question).encode(), token)
        assert (status, windows(found["series"][NAMES[0]])) == (200, [0, 1])
        assert post(where, json.dumps(question).encode())[0] == 403
        assert post(where, b"x" * 70_000, token)[0] == 413
        wrong: list[dict[str, Any]] = [
            {"version": "../x"},
            {"series": []},
            {"series": ["nonsense"]},
            {"until": 0},
            {"more": 1},
        ]
        for change in wrong:
            status, found = post(where, json.dumps(question | change).encode(), token)
            assert (status, "not a question about scores" in found["error"]) == (400, True), change
        status, found = post(where, json.dumps(question | {"version": "nobody"}).encode(), token)
        assert (status, "there is no topic" in found["error"]) == (400, True)
