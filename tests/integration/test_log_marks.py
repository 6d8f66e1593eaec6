"""A log that is not the one that was marked: a topic made again, and a broker that has lost the end of a partition."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewPartitions
from support.lost_records import marked_beyond
from support.waiting import wait_until

from app.core.settings import PROJECT, Settings
from app.embedded import stack_state
from app.embedded.stack import Stack, running_stack
from app.embedded.stack_state import Addresses
from app.kafka import data_loss, topics
from app.kafka.connection import admin_client, client_options
from app.kafka.log_marks import LogChange, changes_since, mark_now, read_marks, write_marks
from app.kafka.producer import BoundedProducer
from pipelines.errors import DeterminismViolation, InputError

pytestmark = pytest.mark.stack


def settings_of(folder: Path, kafka: str | None, prefix: str) -> Settings:
    made = Settings(home=folder)
    return made.model_copy(
        update={
            "kafka": made.kafka.model_copy(update={"bootstrap_servers": kafka}),
            "topics": made.topics.model_copy(update={"prefix": prefix, "partitions": 1}),
        }
    )


def append(settings: Settings, kind: str, count: int) -> None:
    with BoundedProducer(client_options(settings)) as outbox:
        for number in range(count):
            outbox.send(settings.topic(kind), json.dumps({"n": number}).encode() * 40, key=b"", partition=0)
            outbox.flush()


def test_a_topic_that_was_made_again_is_found_although_it_has_grown(
    folder: Path, stack: Addresses, unique: str
) -> None:
    settings = settings_of(folder, stack.kafka, f"{unique}-")
    topics.create(settings)
    append(settings, "telemetry", 3)
    marks = mark_now(settings)
    assert set(marks) == {topic.name for topic in topics.required_topics(settings)}
    assert marks[settings.topic("telemetry")].ends[0][0] == 3
    append(settings, "telemetry", 2)
    assert changes_since(settings, [marks]) == []
    assert changes_since(settings, []) == []
    client = admin_client(settings)
    client.delete_topics([settings.topic("telemetry"), settings.topic("labels")])
    client.close()
    wait_until(lambda: settings.topic("telemetry") not in mark_now(settings))
    made = settings.model_copy(update={"topics": settings.topics.model_copy(update={"prefix": f"{unique}-"})})
    wait_until(lambda: topics.create(made)[settings.topic("telemetry")] in ("created", "there already"))
    append(settings, "telemetry", 9)
    found = changes_since(settings, [marks])
    assert found == [LogChange(settings.topic("labels")), LogChange(settings.topic("telemetry"))]


def test_other_times_and_more_partitions_of_any_topic_stop_running_jobs_and_the_next_start(
    folder: Path, stack: Addresses, unique: str
) -> None:
    settings = settings_of(folder, stack.kafka, f"{unique}-")
    topics.create(settings)
    telemetry, incidents = settings.topic("telemetry"), settings.topic("incidents")
    with data_loss.LogWatch(settings, "extract", every_seconds=0.2) as watch:
        watch.check()
        set_times(settings, telemetry, "CreateTime")
        found = [raised_by(watch)]
    wanted = f"topic {telemetry} has message.timestamp.type=CreateTime, wanted LogAppendTime: .*--entity-name {telemetry} --add-config message"
    assert re.match(wanted, found[0])
    for _ in range(2):
        with pytest.raises(InputError, match=wanted):
            topics.create(settings)
    set_times(settings, telemetry, "LogAppendTime")
    assert topics.create(settings)[telemetry] == "there already"
    with data_loss.LogWatch(settings, "detect", every_seconds=0.2) as watch:
        watch.check()
        client = admin_client(settings)
        client.create_partitions({incidents: NewPartitions(3)})
        client.close()
        found.append(raised_by(watch))
    assert re.match(f"topic {incidents} has 3 partitions, the version began with 1: .*`kappa recover`", found[1])
    with pytest.raises(DeterminismViolation, match="has 3 partitions"):
        data_loss.check_partitions(settings, mark_now(settings), inputs=False)


def test_a_loss_between_the_check_at_the_start_and_the_first_look_is_found_and_not_marked(
    folder: Path, stack: Addresses, unique: str
) -> None:
    """The broker may lose power while Spark starts."""
    settings = settings_of(folder, stack.kafka, f"{unique}-")
    topics.create(settings)
    append(settings, "telemetry", 3)
    topic = settings.topic("telemetry")
    marked = marked_beyond(mark_now(settings), topic, 2)
    write_marks(settings, "extract", marked)
    with data_loss.LogWatch(settings, "extract", every_seconds=0.2) as watch:
        found = raised_by(watch)
    assert f"{topic}/0 has lost its end: offsets 3 to 4 are gone" in found
    assert read_marks(settings) == [marked], "`kappa recover` asks them what is lost"


def test_a_look_asks_once_where_the_log_ends(
    folder: Path, stack: Addresses, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(folder, stack.kafka, f"{unique}-")
    topics.create(settings)
    append(settings, "telemetry", 3)
    write_marks(settings, "extract", mark_now(settings))
    asked: list[int] = []
    own = KafkaAdminClient.list_partition_offsets

    def counted(client: KafkaAdminClient, wanted: Mapping[Any, Any], *rest: Any, **more: Any) -> Any:
        asked.append(len(wanted))
        return own(client, wanted, *rest, **more)

    monkeypatch.setattr(KafkaAdminClient, "list_partition_offsets", counted)
    append(settings, "telemetry", 2)
    data_loss.LogWatch(settings, "extract")._look()
    (marked,) = read_marks(settings)
    assert marked[settings.topic("telemetry")].ends[0][0] == 5
    assert asked == [sum(len(mark.ends) for mark in marked.values())]


def raised_by(watch: data_loss.LogWatch) -> str:
    """What a watch says has changed."""
    found: list[str] = []

    def ready() -> bool:
        try:
            watch.check()
        except DeterminismViolation as error:
            found.append(str(error))
        return bool(found)

    wait_until(ready)
    return found[0]


def set_times(settings: Settings, topic: str, kind: str) -> None:
    """Change whose times the records of a topic get."""
    client = admin_client(settings)
    resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs={"message.timestamp.type": kind})
    client.alter_configs([resource])
    client.close()


@pytest.mark.long
def test_a_partition_that_has_lost_its_end_is_found_although_it_has_grown(folder: Path, unique: str) -> None:
    """A broker without power loses what it had not yet written to its disk; here the end of a segment is cut off."""
    stack = Stack(folder / "stack", jars=PROJECT / ".kappa" / "jars", elasticsearch=False)
    with running_stack(stack) as addresses:
        settings = settings_of(folder, addresses.kafka, f"{unique}-")
        topics.create(settings)
        append(settings, "telemetry", 20)
        marks = mark_now(settings)
        append(settings, "telemetry", 5)
        state = stack_state.read_state(stack.home)
        assert state is not None
        broker = state.services["kafka"].process
        assert broker is not None
        process = psutil.Process(broker.pid)
        os.kill(broker.pid, signal.SIGKILL)
        psutil.wait_procs([process], timeout=30)
    segment = stack.home / "kafka" / f"{unique}-telemetry-0" / f"{0:020d}.log"
    content = segment.read_bytes()
    segment.write_bytes(content[: len(content) // 2])
    with running_stack(stack) as addresses:
        settings = settings_of(folder, addresses.kafka, f"{unique}-")
        wait_until(lambda: bool(mark_now(settings)))
        lost = changes_since(settings, [marks])
        append(settings, "telemetry", 60)
        grown = changes_since(settings, [marks])
    assert [(one.topic, one.partition, one.marked) for one in lost] == [(f"{unique}-telemetry", 0, 20)]
    assert 5 <= lost[0].end < 20
    assert grown == lost, "found by the leader epoch, as the offsets have been given again"
