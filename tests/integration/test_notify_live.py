"""People are notified of incidents that are in a real Kafka: once each, in order, also when processes are killed and channels are away."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from structlog.testing import capture_logs
from support.incident_records import alarm, alarm_value, value
from support.receiver import Answer, Post, Receiver, receiving
from typer.testing import CliRunner

from app.cli import main
from app.core.ports import free_port
from app.core.settings import PROJECT, HealthSettings, Settings, load
from app.embedded.stack import Stack, running_stack
from app.embedded.stack_state import Addresses
from app.kafka import topics
from app.kafka.connection import client_options
from app.kafka.producer import BoundedProducer
from app.notify.deliveries import read_deliveries
from app.notify.notifier import Notifier
from app.notify.service import NAME, BesideJobs, run_until_stopped
from app.runtime.metrics import Metrics
from app.runtime.served_health import health_at
from app.supervision.link import Unsupervised
from app.versions import serving
from models.records.records import Delivery
from pipelines.errors import InputError
from pipelines.windowing import WindowingConfig

pytestmark = pytest.mark.stack
JARS = PROJECT / ".kappa" / "jars"


class NotifyLog:
    """Topics of the test's own."""

    def __init__(self, home: Path, kafka: str, prefix: str) -> None:
        self.base: dict[str, Any] = {
            "home": home,
            "kafka": {"bootstrap_servers": kafka},
            "topics": {"prefix": prefix, "partitions": 2},
        }
        topics.create(self.settings())
        self._outbox = BoundedProducer(client_options(self.settings()))

    def settings(self, **notify: Any) -> Settings:
        return load(**self.base, notify=notify)

    def write(self, *values: bytes, topic: str = "incidents", partition: int = 0, key: bytes | None = None) -> None:
        name = f"{self.base['topics']['prefix']}{topic}"
        for one in values:
            own = json.loads(one)["id"].encode() if key is None and one.startswith(b"{") else b"x"
            self._outbox.send(name, one, key=own if key is None else key, partition=partition)
        self._outbox.flush()

    def deliveries(self) -> list[Delivery]:
        return list(read_deliveries(self.settings()).last.values())

    def close(self) -> None:
        self._outbox.close()


@pytest.fixture
def log(folder: Path, stack: Addresses, unique: str) -> Iterator[NotifyLog]:
    made = NotifyLog(folder, stack.kafka or "", f"{unique}-")
    yield made
    made.close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


def webhook(receiver: Receiver, **more: Any) -> dict[str, Any]:
    return {"hook": {"kind": "webhook", "url": receiver.url, **more}}


@contextmanager
def notifying(settings: Settings, look_seconds: float = 60.0, metrics: Metrics | None = None) -> Iterator[Notifier]:
    """A notifier that has read what is there."""
    stopping, turned = threading.Event(), threading.Event()
    made = Notifier(settings, stopping, progress=turned.set, look_seconds=look_seconds, metrics=metrics)
    thread = threading.Thread(target=made.run, daemon=True)
    thread.start()
    try:
        assert turned.wait(30.0)
        yield made
    finally:
        stopping.set()
        thread.join(30.0)
        assert not thread.is_alive()


def until(what: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        threading.Event().wait(0.05)


def test_each_incident_is_told_when_it_opens_gets_worse_and_is_over(log: NotifyLog, receiver: Receiver) -> None:
    metrics = Metrics()
    with notifying(log.settings(channels=webhook(receiver)), metrics=metrics):
        opened = value(1, severity="minor")
        log.write(opened, opened, value(1, "update", severity="minor"))
        receiver.until(lambda r: len(r.posts) == 1)
        log.write(value(1, "update", severity="critical"))
        log.write(b"no incident", b'{"id": "x"}', partition=1)
        receiver.until(lambda r: len(r.posts) == 2)
        log.write(value(1, "close", severity="critical"), opened, value(2, "close"))
        receiver.until(lambda r: len(r.posts) == 3)
        until(lambda: [one.status for one in log.deliveries()] == ["close"])
    numbers = metrics.registry.get_sample_value
    assert {
        outcome: numbers("kappa_notifications_total", {"channel": "hook", "outcome": outcome})
        for outcome in ("delivered", "failed", "held")
    } == {"delivered": 3, "failed": 0, "held": 0}
    assert numbers("kappa_notifications_waiting", {"channel": "hook"}) is not None
    one = f"{1:024x}"
    assert receiver.ids == [f"{one}/open/minor", f"{one}/update/critical", f"{one}/close/critical"]
    assert receiver.posts[0].json["title"].startswith("[minor] new: anomaly on web-1")


def test_what_was_told_is_not_told_again_after_a_restart_and_what_came_meanwhile_is(
    log: NotifyLog, receiver: Receiver
) -> None:
    settings = log.settings(channels=webhook(receiver))
    with notifying(settings):
        log.write(value(1))
        receiver.until(lambda r: len(r.posts) == 1)
    log.write(value(2), value(1, "close"))
    with notifying(settings):
        receiver.until(lambda r: len(r.posts) == 3)
    with notifying(settings):
        log.write(value(3))
        receiver.until(lambda r: len(r.posts) == 4)
    assert [name.split("/")[:2] for name in receiver.ids] == [
        [f"{n:024x}", status] for n, status in ((1, "open"), (2, "open"), (1, "close"), (3, "open"))
    ]


def test_nothing_that_came_meanwhile_is_passed_over_where_what_is_open_is_read_again(
    log: NotifyLog, receiver: Receiver
) -> None:
    """An Alertmanager gets what is open once more at a start, for which its records are read."""
    ops = {"kind": "alertmanager", "url": f"http://127.0.0.1:{receiver.port}", "pipeline": False}
    settings = log.settings(channels=webhook(receiver, pipeline=False) | {"ops": ops})
    with notifying(settings):
        log.write(value(1))
        receiver.until(lambda r: len(hooks(r)) == 1 and firing(r) == {"KappaIncident"})
        until(lambda: len(log.deliveries()) == 2)
        until(lambda: any(offset == 1 for offset in read_deliveries(log.settings()).until.values()))
    log.write(value(2), value(1, "close"))
    with notifying(settings):
        receiver.until(lambda r: len(hooks(r)) == 3)
    assert hooks(receiver)[1:] == [f"{2:024x}/open/major", f"{1:024x}/close/major"]


def hooks(receiver: Receiver) -> list[str]:
    """The ids of what came to the webhook."""
    return [post.headers["webhook-id"] for post in receiver.posts if post.path == "/hook"]


def test_a_slow_channel_holds_up_no_other(log: NotifyLog, receiver: Receiver) -> None:
    with receiving() as slow:
        slow.always = Answer(after_seconds=2.5)
        channels = webhook(receiver) | {"slow": {"kind": "webhook", "url": slow.url}}
        with notifying(log.settings(channels=channels)):
            log.write(*(value(n) for n in range(1, 6)))
            receiver.until(lambda r: len(r.posts) == 5, seconds=2.0)
            assert len(slow.posts) <= 1


def test_a_channel_that_was_away_gets_everything_once_and_in_order(log: NotifyLog) -> None:
    port = free_port(None)
    channels = {"hook": {"kind": "webhook", "url": f"http://127.0.0.1:{port}/hook"}}
    with notifying(log.settings(channels=channels)) as notifier:
        log.write(value(1), value(2), value(1, "close"))
        until(lambda: bool(notifier.outboxes["hook"].problem))
        assert log.deliveries() == []
        with receiving(port) as receiver:
            receiver.until(lambda r: len(r.posts) == 3, seconds=60.0)
            until(lambda: len(log.deliveries()) == 2)
    assert sorted(receiver.ids) == sorted({f"{1:024x}/open/major", f"{2:024x}/open/major", f"{1:024x}/close/major"})
    assert receiver.ids.index(f"{1:024x}/open/major") < receiver.ids.index(f"{1:024x}/close/major")


def test_a_channel_that_refuses_is_recorded_and_the_next_one_is_told(log: NotifyLog, receiver: Receiver) -> None:
    receiver.answers.append(Answer(403, body=b"no\nsuch channel"))
    metrics = Metrics()
    with notifying(log.settings(channels=webhook(receiver)), metrics=metrics):
        log.write(value(1), value(2))
        until(lambda: len(log.deliveries()) == 2)
    first, second = log.deliveries()
    counted = metrics.registry.get_sample_value
    assert [
        counted("kappa_notifications_total", {"channel": "hook", "outcome": o}) for o in ("failed", "delivered")
    ] == [1, 1]
    assert (first.outcome, first.answer, second.outcome) == ("failed", "403 no such channel", "delivered")


def file_of(log: NotifyLog, receiver: Receiver) -> Path:
    """The settings of a process."""
    file = Path(log.base["home"]) / "own.toml"
    base = log.base
    file.write_text(
        f'home = "{base["home"]}"\n[kafka]\nbootstrap_servers = "{base["kafka"]["bootstrap_servers"]}"\n'
        f'[topics]\nprefix = "{base["topics"]["prefix"]}"\npartitions = 2\n'
        f'[notify.channels.hook]\nkind = "webhook"\nurl = "{receiver.url}"\n'
    )
    return file


@contextmanager
def process(file: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`kappa run notify` without its parent, so that nobody starts it again."""
    code = (
        "import sys, threading; from pathlib import Path; from app.core.settings import load\n"
        "from app.notify.service import run_until_stopped; from app.supervision.link import Unsupervised\n"
        "class Parent(Unsupervised):\n"
        "    def progress(self, job, done=False): print('.', flush=True)\n"
        "run_until_stopped(load(Path(sys.argv[1])), threading.Event(), Parent())\n"
    )
    started = subprocess.Popen([sys.executable, "-c", code, str(file)], stdout=subprocess.PIPE)
    try:
        assert started.stdout is not None and started.stdout.readline()
        yield started
    finally:
        started.kill()
        started.wait()


def test_one_that_is_killed_after_sending_sends_again_under_the_same_key(log: NotifyLog, receiver: Receiver) -> None:
    file = file_of(log, receiver)
    with process(file) as first:

        def kill(post: Post) -> None:
            os.kill(first.pid, signal.SIGKILL)

        receiver.on_post = kill
        log.write(value(1))
        receiver.until(lambda r: len(r.posts) == 1)
        first.wait(30.0)
    assert log.deliveries() == []
    receiver.on_post = lambda post: None
    with process(file):
        receiver.until(lambda r: len(r.posts) == 2)
        until(lambda: len(log.deliveries()) == 1)
        log.write(value(2))
        receiver.until(lambda r: len(r.posts) == 3)
    assert receiver.ids == [f"{1:024x}/open/major"] * 2 + [f"{2:024x}/open/major"]


def test_a_process_of_its_own_serves_its_metrics_and_health(log: NotifyLog, receiver: Receiver) -> None:
    settings = log.settings(channels=webhook(receiver)).model_copy(update={"health": HealthSettings(port=0)})
    stopping, turned, reported = threading.Event(), threading.Event(), list[str]()
    parent = Unsupervised()
    parent.progress = lambda job, done=False, waits=False: turned.set()  # type: ignore[method-assign]
    thread = threading.Thread(target=run_until_stopped, args=(settings, stopping, parent, reported.append), daemon=True)
    thread.start()
    try:
        assert turned.wait(30.0)
        (address,) = re.findall(r"http://\S+(?=/metrics)", reported[0])
        health = health_at(address)
        assert health is not None and health["healthy"] and list(health["jobs"]) == [NAME]
        log.write(value(1))
        receiver.until(lambda r: len(r.posts) == 1)
        delivered = 'kappa_notifications_total{channel="hook",outcome="delivered"} 1.0'
        until(lambda: delivered in urlopen(f"{address}/metrics").read().decode())
    finally:
        stopping.set()
        thread.join(30.0)
    assert not thread.is_alive()


def test_other_versions_tell_nobody_and_a_promoted_one_goes_on(log: NotifyLog, receiver: Receiver) -> None:
    settings = log.settings(channels=webhook(receiver))
    other = settings.model_copy(update={"version": "v2"})
    topics.create(other)
    before, after = 1_767_600_000_000, 1_767_600_100_000
    log.write(value(7, version="v2", window_end=before), topic="incidents.v2")
    with notifying(settings):
        log.write(value(1, window_end=before))
        receiver.until(lambda r: len(r.posts) == 1)
        serving.write(settings.home, serving.Serving().then("v2", before + 1))
        log.write(
            value(1, "close", version="v2", window_end=after),
            value(8, version="v2", window_end=after),
            topic="incidents.v2",
        )
        receiver.until(lambda r: len(r.posts) == 3)
    assert receiver.ids[1:] == [f"{1:024x}/close/major", f"{8:024x}/open/major"]


def test_what_came_before_notifications_were_switched_on_is_not_told_of_where_a_version_was_promoted(
    log: NotifyLog, receiver: Receiver
) -> None:
    settings = log.settings(channels=webhook(receiver))
    other = settings.model_copy(update={"version": "v2"})
    topics.create(other)
    serving.write(settings.home, serving.Serving().then("v2", 1_767_600_000_000))
    log.write(value(7, version="v2"), topic="incidents.v2")
    with notifying(settings):
        log.write(value(8, version="v2"), topic="incidents.v2")
        receiver.until(lambda r: len(r.posts) == 1)
    assert receiver.ids == [f"{8:024x}/open/major"]


def test_after_a_restart_what_is_open_of_a_version_that_serves_no_more_is_not_sent_again(
    log: NotifyLog, receiver: Receiver
) -> None:
    ops = {"ops": {"kind": "alertmanager", "url": f"http://127.0.0.1:{receiver.port}", "pipeline": False}}
    settings = log.settings(channels=ops, resend_seconds=1.0)
    other = settings.model_copy(update={"version": "v2"})
    topics.create(other)
    with notifying(settings):
        log.write(value(1))
        receiver.until(lambda r: bool(r.posts))
        until(lambda: len(log.deliveries()) == 1)
    serving.write(settings.home, serving.Serving().then("v2", int(time.time() * 1000) - 3_600_000))
    receiver.posts.clear()
    with notifying(settings):
        log.write(value(2, version="v2"), topic="incidents.v2")
        receiver.until(lambda r: sum(len(post.json) for post in r.posts) >= 3)
    named = {alert["labels"]["incident"] for post in receiver.posts for alert in post.json}
    assert named == {f"{2:024x}"}


def test_what_is_open_in_an_alertmanager_goes_on_where_the_promoted_version_has_published_it_before(
    log: NotifyLog, receiver: Receiver
) -> None:
    ops = {"ops": {"kind": "alertmanager", "url": f"http://127.0.0.1:{receiver.port}", "pipeline": False}}
    settings = log.settings(channels=ops, resend_seconds=1.0)
    topics.create(settings.model_copy(update={"version": "v2"}))
    before = 1_767_600_000_000
    log.write(*(value(n, version="v2", window_end=before) for n in (1, 2)), topic="incidents.v2")
    with notifying(settings):
        log.write(value(1, window_end=before))
        receiver.until(lambda r: bool(r.posts))
        serving.write(settings.home, serving.Serving().then("v2", before + 1))
        until(lambda: [one.version for one in log.deliveries()] == ["v2"])
        receiver.posts.clear()
        receiver.until(lambda r: len(r.posts) >= 2)
    named = {alert["labels"]["incident"] for post in receiver.posts for alert in post.json}
    assert named == {f"{1:024x}"}, "what channels do not know is not opened"


def test_explain_says_who_would_be_told_and_sends_nothing(log: NotifyLog, receiver: Receiver) -> None:
    log.write(value(1), value(1, "update", severity="critical"))
    file = file_of(log, receiver)
    file.write_text(
        file.read_text()
        + '[[notify.routes]]\nname = "night"\nhost = "db-*"\nchannels = ["hook"]\n'
        + '[[notify.routes]]\nseverity = "critical"\nchannels = ["hook"]\n'
        + '[[notify.routes]]\nname = "rest"\nchannels = ["hook"]\n'
    )
    answer = CliRunner().invoke(main.app, ["notify", "explain", f"{1:024x}", "--json", "--config", str(file)])
    found = json.loads(answer.stdout)
    assert [(one["route"], one["mismatch"]) for one in found["routes"]] == [
        ("route night", "no host matches"),
        ("route 2", ""),
        ("route rest", ""),
    ]
    assert [one["counts"] for one in found["routes"]] == [False, True, False], "the first one that matches"
    assert found["channels"] == [{"channel": "hook", "why": "route 2"}] and not receiver.posts
    tried = CliRunner().invoke(main.app, ["notify", "test", "hook", "--config", str(file)])
    assert tried.stdout == "hook: 200 taken\n" and receiver.posts[0].json["alertname"] == "KappaTest"
    unknown = CliRunner().invoke(main.app, ["notify", "explain", "ab", "--config", str(file)])
    assert unknown.exit_code == 1
    topics.create(load(file).model_copy(update={"version": "v2"}))
    log.write(value(2, version="v2"), topic="incidents.v2")
    of_other = ["notify", "explain", f"{2:024x}", "--version", "v2", "--config", str(file)]
    other = json.loads(CliRunner().invoke(main.app, [*of_other, "--json"]).stdout)
    assert (other["serves"], other["channels"], found["serves"]) == (False, [], True), "nobody is notified of it"
    assert "did not serve" in CliRunner().invoke(main.app, of_other).stdout


def test_a_route_that_is_written_into_the_log_leads_where_it_says_also_after_a_restart(
    log: NotifyLog, receiver: Receiver
) -> None:
    """With hostile records beside it, and one that names a channel that is gone."""
    file, rules = file_of(log, receiver), Path(log.base["home"]) / "rules.toml"
    with receiving() as pager:
        file.write_text(f'{file.read_text()}[notify.channels.pager]\nkind = "webhook"\nurl = "{pager.url}"\n')

        def kappa(*arguments: str) -> dict[str, Any]:
            answer = CliRunner().invoke(main.app, [*arguments, "--json", "--config", str(file)])
            assert answer.exit_code == 0, answer.output
            return dict(json.loads(answer.stdout))

        rules.write_text('[[rules]]\nname = "shop"\nservice = "shop"\nchannels = ["pagre"]\n')
        refused = CliRunner().invoke(main.app, ["rules", "apply", str(rules), "--config", str(file)])
        assert refused.exit_code == 1
        assert isinstance(refused.exception, InputError)
        assert "rule 'shop' names channel 'pagre'; the settings have hook, pager" in str(refused.exception)
        settings, later = load(file), int(time.time() * 1000) + 60_000
        settings = settings.model_copy(update={"notify": settings.notify.model_copy(update={"default": ("hook",)})})
        rules.write_text('[[rules]]\nname = "shop"\nservice = "sh?p"\nseverity = "critical"\nchannels = ["pager"]\n')
        assert kappa("rules", "apply", str(rules))["written"] == 1

        def say(under: str = "", **keys: Any) -> None:
            log.write(
                json.dumps({"record": "rule", **keys}).encode(), topic="rules", key=(under or keys["name"]).encode()
            )

        with capture_logs() as lines, notifying(settings):
            log.write(value(2, services=["cart"], window_end=later), value(3))
            receiver.until(lambda r: len(r.posts) == 2)
            log.write(b' {"record": "rule", "channels": [', topic="rules")
            say(name="gone", channels=["fax"])
            say(name="shop", service="sh?p", severity="major", channels=["pager"])
            say(under="other", name="shop", removed=True)
            log.write(value(1, window_end=later))
            pager.until(lambda r: len(r.posts) == 1)
        assert [(one["rule"], one["channel"]) for one in lines if one["log_level"] == "warning"] == [("gone", "fax")]
        found = kappa("notify", "explain", f"{1:024x}")
        assert [(one["route"], one["mismatch"]) for one in found["routes"]] == [
            ("rule gone", "the settings have no channel fax"),
            ("rule shop", ""),
        ]
        assert found["channels"] == [{"channel": "pager", "why": "rule shop"}]
        before = kappa("notify", "explain", f"{3:024x}")
        assert [one["mismatch"] for one in before["routes"]] == ["it was written after the incident's last window"] * 2
        listed = kappa("rules", "list")["rules"]
        assert [(one["series"], one["does"]) for one in listed] == [
            ("incidents", "channels fax"),
            ("incidents service=sh?p severity=major", "channels pager"),
        ]
        assert kappa("rules", "remove", "gone")["written"] == 1
        with capture_logs(), notifying(settings):
            log.write(value(4, window_end=later))
            pager.until(lambda r: len(r.posts) == 2)
            say(name="shop", removed=True)
            log.write(value(5, window_end=later))
            receiver.until(lambda r: len(r.posts) == 3)
    assert [name[:24] for name in pager.ids] == [f"{n:024x}" for n in (1, 4)]
    assert sorted(name[:24] for name in receiver.ids) == [f"{n:024x}" for n in (2, 3, 5)]


def test_a_storm_becomes_one_notification_also_after_a_restart(log: NotifyLog, receiver: Receiver) -> None:
    settings = log.settings(channels=webhook(receiver), storm_incidents=3)
    with notifying(settings):
        log.write(*(value(n) for n in range(1, 8)))
        receiver.until(lambda r: len(r.posts) == 4)
        until(lambda: len(log.deliveries()) == 8)
    with notifying(settings):
        log.write(value(8), value(5, "close"), value(1, "close"))
        receiver.until(lambda r: len(r.posts) == 5)
        until(lambda: len(log.deliveries()) == 9)
    assert [post.json["alertname"] for post in receiver.posts] == ["KappaIncident"] * 3 + [
        "KappaStorm",
        "KappaIncident",
    ]
    assert receiver.posts[-1].json["key"] == f"{1:024x}"
    held = {one.incident for one in log.deliveries() if one.outcome == "held"}
    assert held == {f"{n:024x}" for n in range(4, 9)}


def test_what_nobody_acknowledges_goes_further_and_what_somebody_does_goes_not(
    log: NotifyLog, receiver: Receiver
) -> None:
    with receiving() as pager:
        channels = webhook(receiver) | {"pager": {"kind": "webhook", "url": pager.url}}
        route = {"channels": ["hook"], "escalate_minutes": 4 / 60, "escalate_to": ["pager"]}
        settings = log.settings(channels=channels, routes=[route])
        with notifying(settings):
            log.write(value(1), value(2))
            receiver.until(lambda r: len(r.posts) == 2)
            begun = time.monotonic()
            label = {"label": "acknowledged", "incident": f"{1:024x}", "id": "x", "series": ["host/web-1"]}
            log.write(json.dumps(label).encode(), topic="labels")
        assert not pager.posts
        until(lambda: time.monotonic() > begun + 4.5)  # it is due while nobody looks
        with notifying(settings):  # what waits is remembered, and who has acknowledged
            pager.until(lambda r: len(r.posts) == 1)
        assert pager.ids == [f"{2:024x}/open/major"]
        with notifying(settings):
            log.write(value(2, "close"), value(1, "close"))
            receiver.until(lambda r: len(r.posts) == 4)
            pager.until(lambda r: len(r.posts) == 2)
    assert pager.ids[1] == f"{2:024x}/close/major"


def test_an_early_alarm_is_told_and_becomes_its_incident_or_is_withdrawn_also_after_a_restart(
    log: NotifyLog, receiver: Receiver
) -> None:
    settings = log.settings(channels=webhook(receiver, early=True))
    with notifying(settings):
        log.write(*(alarm_value(alarm(n)) for n in (1, 2)), alarm_value(alarm(3, version="other")), topic="early")
        receiver.until(lambda r: len(r.posts) == 2)
        until(lambda: len(log.deliveries()) == 2)
    with notifying(settings):
        log.write(value(1), value(1, "update"))
        receiver.until(lambda r: len(r.posts) == 3)
        log.write(
            alarm_value(alarm(1, "confirmed", incident=f"{1:024x}")), alarm_value(alarm(2, "withdrawn")), topic="early"
        )
        receiver.until(lambda r: len(r.posts) == 4)
        until(lambda: f"{1:024x}" in {one.incident for one in log.deliveries()})
    with notifying(settings):
        log.write(value(1, "update", severity="critical"), value(1, "close", severity="critical"), value(2))
        receiver.until(lambda r: len(r.posts) == 7)
    first, second, one, two = f"{1:016x}", f"{2:016x}", f"{1:024x}", f"{2:024x}"
    assert receiver.ids[:2] == [f"{first}/open/info", f"{second}/open/info"]
    assert receiver.ids[2:] == [
        *(f"{first}/{one}/open/major", f"{second}/close/info"),
        *(f"{first}/{one}/update/critical", f"{first}/{one}/close/critical", f"{two}/open/major"),
    ]
    assert [post.json["alertname"] for post in receiver.posts[:4]] == [
        "KappaEarly",
        "KappaEarly",
        "KappaIncident",
        "KappaEarly",
    ]
    assert "provisional" in receiver.posts[0].json["title"] and "withdrawn" in receiver.posts[3].json["title"]
    assert {post.json["incident"] for post in receiver.posts if post.json["key"] == first} == {"", one}


def test_early_alarms_count_in_a_storm_and_go_to_no_channel_that_does_not_ask(
    log: NotifyLog, receiver: Receiver
) -> None:
    with receiving() as other:
        channels = webhook(receiver, early=True) | {"other": {"kind": "webhook", "url": other.url}}
        with notifying(log.settings(channels=channels, storm_incidents=2)):
            log.write(*(alarm_value(alarm(n)) for n in range(1, 6)), topic="early")
            receiver.until(lambda r: len(r.posts) == 3)
            log.write(value(1))
            receiver.until(lambda r: len(r.posts) == 4)
            other.until(lambda r: len(r.posts) == 1)
    names = [post.json["alertname"] for post in receiver.posts]
    assert sorted(names) == ["KappaEarly", "KappaEarly", "KappaIncident", "KappaStorm"]
    assert other.ids == [f"{1:024x}/open/major"]


def watermark(log: NotifyLog, seconds_ago: float) -> None:
    message = {"id": "x", "record": "watermark", "shard": 0, "shards": 1}
    message["watermark"] = int(1000 * (time.time() - seconds_ago))
    log.write(json.dumps(message).encode(), topic="novelties")


def test_an_alertmanager_knows_that_the_chain_is_well_and_when_it_is_not(log: NotifyLog, receiver: Receiver) -> None:
    """The requests that a real one takes: see tests/unit/test_notify_channels.py."""
    channels = {"ops": {"kind": "alertmanager", "url": receiver.url}} | webhook(receiver)
    with notifying(log.settings(channels=channels, behind_seconds=1.0), look_seconds=0.1):
        scored = time.monotonic()
        watermark(log, 0.0)
        receiver.until(lambda r: firing(r) == {"KappaAlive"})
        receiver.until(lambda r: firing(r) == {"KappaBehind"})
        assert time.monotonic() - scored > WindowingConfig().window_seconds, "the next window has to end first"
        watermark(log, 0.0)
        receiver.until(lambda r: firing(r) == {"KappaAlive"})
    hooked = [post.json["alertname"] for post in receiver.posts if post.path == "/hook"]
    assert hooked == ["KappaBehind"] * 2, "only an Alertmanager gets the heartbeat"


def firing(receiver: Receiver) -> set[str]:
    """What the Alertmanager has been sent and is not over."""
    found: dict[str, bool] = {}
    for post in receiver.posts:
        if post.path != "/hook":
            for alert in post.json:
                found[alert["labels"]["alertname"]] = alert["endsAt"] > alert["startsAt"] and ends_later(alert)
    return {name for name, fires in found.items() if fires}


def ends_later(alert: dict[str, Any]) -> bool:
    return datetime.fromisoformat(alert["endsAt"]).timestamp() > time.time() + 30.0


@pytest.mark.long
def test_a_broker_that_is_started_again_loses_nothing(folder: Path, receiver: Receiver) -> None:
    servers = Stack(folder / "own", jars=JARS)
    with ExitStack() as beside:
        with running_stack(servers) as addresses:
            log = NotifyLog(folder, addresses.kafka or "", "restarted-")
            beside.callback(log.close)
            settings = log.settings(channels=webhook(receiver))
            with notifying(settings):
                log.write(value(1))
                receiver.until(lambda r: len(r.posts) == 1)
            beside.enter_context(BesideJobs(settings))
            log.write(value(2))
            receiver.until(lambda r: len(r.posts) == 2)
        with running_stack(servers) as again:
            assert again.kafka == addresses.kafka
            log.write(value(3), value(1, "close"))
            receiver.until(lambda r: len(r.posts) == 4, seconds=120.0)
            until(lambda: len(log.deliveries()) == 3)
    assert len(set(receiver.ids)) == 4
