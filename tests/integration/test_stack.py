"""The embedded stack: it serves, it ends with its owner, and it loses nothing."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from elasticsearch import Elasticsearch
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic

from app.core.errors import StackError
from app.core.ports import LOOPBACK, free_port, port_is_free
from app.embedded.jars import PROJECT
from app.embedded.stack import Stack, down, running_stack, status, up
from app.embedded.stack_state import Addresses, ProcessId, StackState, addresses, read_state, write_state

pytestmark = pytest.mark.stack
JARS = PROJECT / ".kappa" / "jars"

# Another process with a stack of its own, tied to it; it says when it is ready, then waits for ever.
OWNER = """
import sys, signal
from pathlib import Path
from app.embedded.stack import Stack, running_stack
with running_stack(Stack(Path(sys.argv[1]), jars=Path(sys.argv[2]))):
    print("ready", flush=True)
    signal.pause()
"""


def until(holds: Callable[[], bool], seconds: float, what: str) -> None:
    """Poll with a deadline: what is waited for happens in other processes."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        psutil.cpu_percent(interval=0.05)  # lets others run


@contextmanager
def owner(home: Path) -> Iterator["subprocess.Popen[str]"]:
    """A process that owns a running stack in `home`."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(home), str(JARS)], stdout=subprocess.PIPE, text=True, cwd=PROJECT
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def running(home: Path) -> StackState:
    """The state of the stack that runs in `home`."""
    state = read_state(home)
    assert state is not None
    assert state.supervised()
    return state


def gone(state: StackState) -> bool:
    """No process of it runs, and all its ports can be listened on."""
    ports = [port for service in state.services.values() for port in (service.port, service.internal_port)]
    return not any(process.alive() for process in state.processes()) and all(map(port_is_free, ports))


def produce(found: Addresses, topic: str, value: bytes) -> None:
    """One record to a topic of one partition, created for it."""
    admin = KafkaAdminClient(bootstrap_servers=found.kafka)
    admin.create_topics([NewTopic(topic, 1, 1)])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=found.kafka)
    producer.send(topic, value).get(10)
    producer.close()


def consume(found: Addresses, topic: str) -> bytes:
    """The first record of the topic, through a group that commits nothing."""
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=found.kafka,
        auto_offset_reset="earliest",
        consumer_timeout_ms=30_000,
        group_id="readers",
        enable_auto_commit=False,
    )
    try:
        return bytes(next(consumer).value)
    finally:
        consumer.close()


def index(found: Addresses, name: str, text: str) -> None:
    """One document, searchable at once."""
    assert found.elasticsearch is not None
    with Elasticsearch(found.elasticsearch) as client:
        client.index(index=name, id="1", document={"text": text}, refresh=True)


def search(found: Addresses, name: str, word: str) -> list[str]:
    """Texts of documents that have the word."""
    assert found.elasticsearch is not None
    with Elasticsearch(found.elasticsearch) as client:
        hits = client.search(index=name, query={"match": {"text": word}})["hits"]["hits"]
        return [hit["_source"]["text"] for hit in hits]


@pytest.mark.long
def test_data_survive_a_killed_owner_a_killed_supervisor_and_a_clean_stop(tmp_path: Path) -> None:
    home = tmp_path / "a home with spaces and ümlaut"
    with owner(home) as process:
        first = running(home)
        found = addresses(home)
        assert found is not None
        produce(found, "events", b"before the kill")
        index(found, "notes", "written before the kill")
        assert consume(found, "events") == b"before the kill"
        assert search(found, "notes", "written") == ["written before the kill"]
        assert status(home).healthy
        with pytest.raises(StackError, match=f"belongs to process {process.pid}"):
            up(Stack(home, jars=JARS))
        os.kill(process.pid, signal.SIGKILL)
        until(lambda: gone(first), 20, "the stack of a killed owner ended and let go of its ports")
    assert addresses(home) is None

    stack = Stack(home, jars=JARS)
    again = up(stack)
    assert again == found, "a restart keeps its addresses"
    assert up(stack) == again, "a second start finds the first"
    second = running(home)
    assert second.supervisor is not None
    os.kill(second.supervisor.pid, signal.SIGKILL)
    until(lambda: gone(second), 10, "the servers of a killed supervisor ended and let go of their ports")
    assert not status(home).running

    with running_stack(stack) as third:
        assert third == found
        assert consume(third, "events") == b"before the kill"
        assert search(third, "notes", "kill") == ["written before the kill"]
        last = running(home)
    assert gone(last)
    assert not down(home), "nothing is left to stop"


def test_nothing_listens_beyond_loopback_and_a_dead_server_is_started_again_with_its_data(tmp_path: Path) -> None:
    with running_stack(Stack(tmp_path, elasticsearch=False, jars=JARS)) as found:
        assert found.elasticsearch is None
        assert status(tmp_path).elasticsearch is None
        state = running(tmp_path)
        listening = [
            connection.laddr.ip
            for process in state.processes()
            for connection in psutil.Process(process.pid).net_connections("inet")
            if connection.status == psutil.CONN_LISTEN
        ]
        assert listening
        assert {address.removeprefix("::ffff:") for address in listening} == {LOOPBACK}
        broker = state.services["kafka"].process
        assert broker is not None
        produce(found, "events", b"before the kill")
        os.kill(broker.pid, signal.SIGKILL)
        log = tmp_path / "logs" / "supervisor.log"
        until(lambda: "is up again" in log.read_text(), 90, "the broker to run again")
        assert "ended with code -9" in log.read_text()
        assert addresses(tmp_path) == found
        assert consume(found, "events") == b"before the kill"
        assert running(tmp_path).services["kafka"].process != broker


def test_port_in_use_is_an_error_that_names_port_and_setting(tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StackError, match=rf"port {port} .* stack\.kafka_port"):
            up(Stack(tmp_path, kafka_port=port, jars=JARS))
    assert not status(tmp_path).running


def test_server_that_cannot_start_is_one_line_with_its_reason_and_log(tmp_path: Path) -> None:
    with (
        pytest.raises(StackError, match=r"Kafka: Java did not start: .*heap.*kafka\.log") as raised,
        running_stack(Stack(tmp_path, kafka_heap_mib=1, elasticsearch=False, jars=JARS)),
    ):
        pass
    assert "\n" not in str(raised.value)
    assert not status(tmp_path).running


def test_status_of_a_home_without_a_stack_is_stopped(tmp_path: Path) -> None:
    found = status(tmp_path)
    assert (found.running, found.healthy, found.phase, found.kafka) == (False, False, "stopped", None)
    assert not down(tmp_path)
    assert addresses(tmp_path) is None


def test_pid_that_was_given_to_another_process_is_not_the_stack(tmp_path: Path) -> None:
    me = ProcessId.of(os.getpid())
    write_state(tmp_path, StackState("ready", supervisor=replace(me, started=me.started - 60)))
    assert addresses(tmp_path) is None
    assert not down(tmp_path)
    assert me.alive()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"phase": "ready"}', json.dumps({"services": {"kafka": 1}})])
def test_unreadable_state_is_no_stack(tmp_path: Path, content: str) -> None:
    (tmp_path / "stack.json").write_text(content)
    assert addresses(tmp_path) is None
    assert not status(tmp_path).running


def test_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    state = StackState("starting", supervisor=ProcessId.of(os.getpid()), owner=ProcessId(1, 2.5))
    write_state(tmp_path, state)
    assert read_state(tmp_path) == state


def test_earlier_port_is_kept_only_if_it_is_free() -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        assert free_port(port) != port
    assert free_port(port) == port
    assert free_port(port, taken=[port]) != port
