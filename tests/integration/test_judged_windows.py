"""Up to when a version has been judged, by a real topic `novelties`: the last window of the shard that is least far."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaProducer

from app.core.settings import KafkaSettings, Settings
from app.embedded.stack_state import Addresses
from app.kafka import judged_windows, topics
from app.kafka.connection import client_options
from app.kafka.judged_windows import JudgedWindows
from app.runtime.score_server import serving_scores
from dashboards.queries.deployment import judged_in_log
from models.records.records import WatermarkMessage
from models.records.schema import plain

pytestmark = pytest.mark.stack

NOON = 1_795_262_400_000  # 2026-11-21 12:00:00 UTC
WINDOW, SHARDS, PARTITIONS = 10_000, 4, 2


@pytest.fixture
def settings(stack: Addresses, tmp_path: Path, unique: str) -> Settings:
    """A deployment without any record."""
    own = Settings(home=tmp_path, kafka=KafkaSettings(bootstrap_servers=stack.kafka))
    update = {"prefix": f"{unique}.", "partitions": PARTITIONS, "telemetry_partitions": 1, "logs_partitions": 1}
    own = own.model_copy(update={"topics": own.topics.model_copy(update=update)})
    topics.create(own)
    return own


@pytest.fixture
def judged(settings: Settings) -> Iterator[JudgedWindows]:
    with closing(JudgedWindows(settings)) as found:
        yield found


def write(settings: Settings, window: int, shards: int = SHARDS, events: int = 0) -> None:
    """The watermark messages of a window, and behind them so many other records in each partition."""
    producer = KafkaProducer(**client_options(settings))
    for shard in range(shards):
        message = WatermarkMessage(watermark=NOON + WINDOW * window, shard=shard, shards=SHARDS)
        value = json.dumps({name: value for name, value in plain(message).items() if value is not None})
        producer.send(settings.topic("novelties"), value=value.encode(), partition=shard % PARTITIONS)
    for number in range(events):
        for partition in range(PARTITIONS):
            producer.send(settings.topic("novelties"), value=b'{"record": "%d"}' % number, partition=partition)
    producer.close()


def test_it_is_the_window_that_every_shard_has_judged(
    settings: Settings, judged: JudgedWindows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judged_windows, "KEPT_SECONDS", 0.0)
    assert judged.until("live") is None, "nothing has been judged"
    assert judged.until("nobody") is None, "a version that has never run"
    write(settings, 1, shards=SHARDS - 1)
    assert judged.until("live") is None, "one shard has judged nothing yet"
    write(settings, 1)
    write(settings, 2, shards=1)
    assert judged.until("live") == NOON + WINDOW
    write(settings, 2)
    assert judged.until("live") == NOON + 2 * WINDOW, "what has come since"


def test_watermark_messages_are_found_behind_a_flood_of_episode_events(
    settings: Settings, judged: JudgedWindows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judged_windows, "BACK", (2, 8, 5_000))
    write(settings, 7, events=300)
    assert judged.until("live") == NOON + 7 * WINDOW


def test_a_first_look_that_was_cut_short_is_begun_anew(
    settings: Settings, judged: JudgedWindows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judged_windows, "KEPT_SECONDS", 0.0)
    monkeypatch.setattr(judged_windows, "BACK", (2, 8, 5_000))
    write(settings, 7, events=300)
    with monkeypatch.context() as hurried:
        hurried.setattr(judged_windows, "READ_SECONDS", 0.0)
        assert judged.until("live") is None
    assert judged.until("live") == NOON + 7 * WINDOW


def test_a_topic_that_was_made_anew_is_read_from_its_end(
    settings: Settings, judged: JudgedWindows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judged_windows, "KEPT_SECONDS", 0.0)
    write(settings, 7, events=10)
    assert judged.until("live") == NOON + 7 * WINDOW
    known = judged._known["live"]
    known.read_to = {part: offset + 100 for part, offset in known.read_to.items()}  # of the topic before
    known.watermarks.latest = dict.fromkeys(range(SHARDS), NOON + 99 * WINDOW)
    assert judged.until("live") == NOON + 7 * WINDOW


def test_an_answer_is_kept_for_a_while_and_the_last_one_while_kafka_is_away(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(settings, 1)
    nobody = settings.model_copy(
        update={"kafka": settings.kafka.model_copy(update={"bootstrap_servers": "127.0.0.1:1"})}
    )
    with closing(JudgedWindows(settings)) as judged:
        monkeypatch.setattr(judged_windows, "KEPT_SECONDS", 60.0)
        assert judged.until("live") == NOON + WINDOW
        write(settings, 2)
        assert judged.until("live") == NOON + WINDOW
        judged._known["live"].due = 0.0
        judged.close()
        judged._settings = nobody.model_copy(update={"kafka": nobody.kafka.model_copy(update={"connect_seconds": 0.5})})
        assert judged.until("live") == NOON + WINDOW, "that much at any rate"


def test_pages_are_answered_by_the_server(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    write(settings, 3)
    with serving_scores(settings) as served:
        for name, text in served.items():
            monkeypatch.setenv(f"KAPPA_DASHBOARD_{name}", text)
        found = judged_in_log("live")
        assert found is not None and found.timestamp() * 1000 == NOON + 3 * WINDOW
        assert judged_in_log("nobody") is None
