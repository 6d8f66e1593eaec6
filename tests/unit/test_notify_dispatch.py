"""What becomes of incidents between the log and the channels, without Kafka: escalations, and channels that go on while it is away."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog
from support.incident_records import alarm, incident
from support.receiver import Receiver, receiving

from app.core.settings import Settings, load
from app.core.timestamps import wall_clock
from app.notify import service
from app.notify.chain import ALERTS, LOOKS, PASSED, QUARANTINE, ChainAlerts, ChainState, ChainVerdict
from app.notify.channels.kinds import open_channel
from app.notify.deliveries import DeliveryHistory, DeliveryLog
from app.notify.dispatch import Dispatch
from app.notify.incident import LogPlace, ReadIncident
from app.notify.incidents_reader import PolledRecord, key_with_version
from app.notify.links import Links
from app.notify.notification import incident_notification
from app.notify.notifier import check_alive
from app.notify.outbox import MOST_WAITING, Outbox, QueuedNotification
from app.notify.positions import Positions
from app.notify.routes import Routes
from models.records.records import Delivery
from pipelines.errors import KappaError

MINUTE, PLACE = 60_000, LogPlace("incidents", 0, 0)
NOWHERE = {"bootstrap_servers": "127.0.0.1:1"}


class Channels:
    """Channels whose queues nobody empties, and a clock that is set. Nothing is recorded: no Kafka is there."""

    def __init__(
        self,
        folder: Path,
        *routes: dict[str, Any],
        url: str = "http://127.0.0.1:1",
        storm_incidents: int = 20,
        early: Collection[str] = (),
        **kinds: str,
    ) -> None:
        channels = {
            name: {"kind": kinds.get(name, "webhook"), "url": url, "early": name in early}
            for name in ("chat", "mail", "pager", "lead")
        }
        notify = {"channels": channels, "routes": routes, "default": ["chat"], "storm_incidents": storm_incidents}
        settings = load(home=folder, notify=notify, kafka=NOWHERE)
        self.now, self.ending, self.positions = 0, threading.Event(), Positions()
        self.log = DeliveryLog(settings, self.ending)
        self.boxes = {
            name: Outbox(name, open_channel(settings.notify, name), self.ending, wall_clock, 1.0, 60.0)
            for name in channels
        }
        self.dispatch = Dispatch(
            settings, Routes(settings.notify), self.boxes, self.positions, self.log, lambda: self.now
        )

    def take(self, one: ReadIncident, offset: int = 0) -> None:
        self.dispatch.process(PolledRecord(LogPlace("incidents", 0, offset), one, one.id))

    def called(self, minutes: float) -> set[str]:
        """The channels for which something waits after so many minutes."""
        self.now = int(minutes * MINUTE)
        self.dispatch.process_due(escalates=True)
        return {name for name, box in self.boxes.items() if box.waiting}

    def queued(self, name: str) -> list[QueuedNotification]:
        """What waits for a channel."""
        return [one for waiting in self.boxes[name]._queue.values() for one in waiting]


def delivery(channel: str, key: str, why: str, at: int, **more: Any) -> Delivery:
    own: dict[str, Any] = {"status": "open", "severity": "major", "outcome": "delivered", "topic": "incidents"}
    return Delivery(channel=channel, incident=key, why=why, at=at, **own | more)


JOBS: dict[str, Any] = {"jobs": {"detect": {"healthy": True}}}
CRITICAL = {"severity": "critical", "channels": ["chat"], "escalate_minutes": 15, "escalate_to": ["pager"]}
MAJOR = {"severity": "major", "channels": ["mail"], "escalate_minutes": 60, "escalate_to": ["lead"]}


def test_an_incident_that_becomes_critical_is_escalated_by_the_route_that_led_it_then(tmp_path: Path) -> None:
    own = Channels(tmp_path, CRITICAL)
    own.take(incident(1, severity="major"), 1)
    assert own.called(20) == {"chat"}
    own.take(incident(1, "update", severity="critical"), 2)
    assert own.called(34.9) == {"chat"}
    assert own.called(35) == {"chat", "pager"}


def test_the_pager_is_called_with_what_has_become_of_an_incident_meanwhile_and_not_again(tmp_path: Path) -> None:
    own = Channels(tmp_path, MAJOR)
    own.take(incident(1, severity="major"), 1)
    own.take(incident(1, "update", severity="critical"), 2)
    assert own.called(60) == {"mail", "lead"}
    (called,) = own.queued("lead")
    assert (called.note.severity, called.places[-1].offset) == ("critical", 2)
    own.take(incident(1, "update", severity="critical"), 3)
    assert len(own.queued("lead")) == 1


@pytest.mark.parametrize("restarts", [False, True])
def test_each_route_that_led_an_incident_somewhere_escalates_it_in_its_own_time(tmp_path: Path, restarts: bool) -> None:
    own = Channels(tmp_path, CRITICAL, MAJOR)
    own.take(incident(1, severity="major"), 1)
    assert own.called(2) == {"mail"}
    own.take(incident(1, "update", severity="critical"), 2)
    if restarts:
        last, one = DeliveryHistory(), incident(1).id
        last.add(delivery("mail", one, "route 2", 0))
        last.add(delivery("mail", one, "route 2", MINUTE))
        last.add(delivery("chat", one, "route 1", 2 * MINUTE))
        own = Channels(tmp_path, CRITICAL, MAJOR)
        for place, known in last.routed_at.items():
            own.dispatch.restore(last.last[place], incident(1), known)
    assert own.called(16.9) & {"pager", "lead"} == set()
    assert own.called(17) & {"pager", "lead"} == {"pager"}
    assert own.called(60) & {"pager", "lead"} == {"pager", "lead"}


@pytest.mark.parametrize("restarts", [False, True])
def test_an_incident_that_is_held_back_in_a_storm_is_escalated_from_when_it_is_sent(
    tmp_path: Path, restarts: bool
) -> None:
    own = Channels(tmp_path, MAJOR, storm_incidents=1, lead="alertmanager")
    own.take(incident(1), 1)
    own.take(incident(2), 2)
    assert own.called(90) == {"mail", "lead"}
    assert {one.note.key for one in own.queued("lead")} == {incident(1).id}
    own.take(incident(2, "update", severity="critical"), 3)
    if restarts:
        last, key = DeliveryHistory(), incident(2).id
        last.add(delivery("mail", key, "route 1", 0, outcome="held"))
        last.add(delivery("mail", key, "route 1", 90 * MINUTE))
        own = Channels(tmp_path, MAJOR)
        own.dispatch.restore(last.last["mail", key], incident(2), last.routed_at["mail", key])
    own.called(149.9)
    assert incident(2).id not in {one.note.key for one in own.queued("lead")}
    own.called(150)
    assert incident(2).id in {one.note.key for one in own.queued("lead")}


def test_an_incident_ends_under_the_key_by_which_channels_know_it_from_before_its_version_served(
    tmp_path: Path,
) -> None:
    """Of a version that `notify.versions` names, and that was promoted while the incident was open."""
    own = Channels(tmp_path, CRITICAL)
    opened_then, over = (incident(1, status, version="v2", severity="critical") for status in ("open", "close"))
    own.dispatch.process(PolledRecord(PLACE, opened_then, key_with_version(opened_then)))
    own.dispatch.process(PolledRecord(PLACE, over, over.id))
    assert [(one.note.key, one.note.status) for one in own.queued("chat")] == [
        (f"{over.id}-v2", "open"),
        (f"{over.id}-v2", "close"),
    ]
    assert own.called(20) == {"chat"}, "what is over is not escalated"


@pytest.mark.parametrize("goes_on", [False, True])
def test_an_incident_ends_under_the_key_by_which_channels_know_it_from_when_its_version_served(
    tmp_path: Path, goes_on: bool
) -> None:
    """Of a version that `notify.versions` names, after a rollback or promotion; what goes on in the version that serves now does not end."""
    own = Channels(tmp_path, CRITICAL, chat="alertmanager")
    opened_then, over = (incident(1, status, version="v2", severity="critical") for status in ("open", "close"))
    own.dispatch.process(PolledRecord(PLACE, opened_then, opened_then.id))
    if goes_on:
        own.dispatch.process(
            PolledRecord(PLACE, incident(1, "update", severity="critical"), incident(1).id, news=False)
        )
    own.dispatch.process(PolledRecord(PLACE, over, key_with_version(over)))
    closed = [one.note.key for one in own.queued("chat") if one.note.status == "close"]
    assert closed == ([] if goes_on else [over.id])
    assert ("pager" in own.called(20)) is goes_on


@pytest.mark.parametrize("kind", ["webhook", "alertmanager"])
def test_a_version_that_goes_on_with_an_incident_keeps_it_open_for_channels_of_all_kinds(
    tmp_path: Path, kind: str
) -> None:
    own = Channels(tmp_path, chat=kind)
    own.dispatch.process(PolledRecord(PLACE, incident(1, version="v2"), incident(1).id))
    own.dispatch.process(PolledRecord(PLACE, incident(1, "update"), incident(1).id, news=False))
    own.dispatch.process(PolledRecord(PLACE, incident(1, "close", version="v2"), f"{incident(1).id}-v2"))
    assert {one.note.status for one in own.queued("chat")} == {"open"}
    own.take(incident(1, "close"))
    assert own.queued("chat")[-1].note.status == "close"


@pytest.mark.parametrize("status", ["open", "close"])
def test_of_what_a_version_published_before_it_served_only_what_channels_know_goes_on(
    tmp_path: Path, status: str
) -> None:
    own = Channels(tmp_path, chat="alertmanager")
    own.take(incident(1))
    for number in (1, 2):
        one = incident(number, status, version="v2")
        own.dispatch.process(PolledRecord(PLACE, one, one.id, news=False))
    last = own.queued("chat")[-1].note
    assert (last.key, last.version, last.status) == (incident(1).id, "v2", status)
    assert {one.note.key for one in own.queued("chat")} == {incident(1).id}


def test_an_incident_that_an_earlier_process_has_sent_keeps_early_alarms_of_its_host_away(tmp_path: Path) -> None:
    for version, found in (("", 0), ("-other", 1)):
        own = Channels(tmp_path, early=("chat",))
        own.dispatch.restore(delivery("chat", f"{incident(1).id}{version}", "default", 0), incident(1), {})
        own.dispatch.process(PolledRecord(LogPlace("early", 0, 0), alarm=alarm(1), appended=0))
        assert len(own.queued("chat")) == found


def test_what_comes_of_an_incident_that_a_channel_knows_is_taken_however_many_wait(tmp_path: Path) -> None:
    own, known = Channels(tmp_path, chat="alertmanager"), DeliveryHistory()
    known.add(delivery("chat", incident(0).id, "default", 0))
    own.dispatch.remember(known)
    box = own.boxes["chat"]
    for number in range(1, MOST_WAITING + 3):
        own.take(incident(number), number)
    assert box.waiting == MOST_WAITING
    own.take(incident(0, "close"), MOST_WAITING + 3)
    assert box.waiting == MOST_WAITING + 1


def test_the_end_of_an_incident_for_which_the_queue_was_full_is_not_sent(tmp_path: Path) -> None:
    own = Channels(tmp_path)
    for number in range(MOST_WAITING):
        own.boxes["chat"].put(
            QueuedNotification(
                incident_notification(incident(number), "open", str(number), Links()), "default", [PLACE]
            )
        )
    own.take(incident(1), 1)
    own.take(incident(1, "close"), 2)
    assert incident(1).id not in {one.note.key for one in own.queued("chat")}, "nobody knows that it began"


@pytest.mark.parametrize(("refused", "ends"), [("open", []), ("update", ["close"])])
def test_the_end_of_an_incident_is_sent_where_the_channel_has_taken_that_it_opened(
    tmp_path: Path, refused: str, ends: list[str]
) -> None:
    own, key = Channels(tmp_path), incident(1).id
    own.take(incident(1), 1)
    (item,) = own.queued("chat")
    own.boxes["chat"]._queue.clear()
    own.dispatch.on_settled(item, delivery("chat", key, "default", 0, status=refused, outcome="failed"))
    own.take(incident(1, "close"), 2)
    assert [one.note.status for one in own.queued("chat")] == ends


def test_of_notifications_that_are_tried_again_the_one_that_is_due_first_goes_first(tmp_path: Path) -> None:
    box = Channels(tmp_path).boxes["chat"]
    for key, not_before in (("a", 3_000), ("b", 1_000), ("c", 2_000)):
        note = incident_notification(incident(1), "open", key, Links())
        box.put(QueuedNotification(note, "default", [PLACE], not_before_ms=not_before))
    assert (found := box._next()) is not None and found.note.key == "b"


def test_a_channel_that_is_away_is_one_warning_a_minute_however_many_notifications_wait(tmp_path: Path) -> None:
    own = Channels(tmp_path)
    box, now = own.boxes["chat"], [7 * MINUTE]
    box._clock = lambda: now[0]
    own.ending.set()  # each is tried once
    for number in range(5):
        box.put(
            QueuedNotification(
                incident_notification(incident(number), "open", str(number), Links()), "default", [PLACE]
            )
        )
    with structlog.testing.capture_logs() as logged:
        for item in own.queued("chat"):
            box._deliver(item)
        assert [one["waiting"] for one in logged] == [5]
        now[0] += MINUTE
        for item in own.queued("chat"):
            box._deliver(item)
    assert [one["event"] for one in logged] == ["a channel does not take notifications"] * 2


def test_an_alert_about_kappa_that_still_holds_is_neither_over_nor_new_after_a_restart(tmp_path: Path) -> None:
    own, known, alerts = Channels(tmp_path), DeliveryHistory(), ChainAlerts(300.0)
    known.add(replace(delivery("chat", f"pipeline-{QUARANTINE}-7", "pipeline", 7), topic=""))
    own.dispatch.remember(known)
    for _ in range(LOOKS + 1):
        own.dispatch.on_chain_verdict(alerts.update(ChainState(1.0, [JOBS | {"quarantined": 2}]), 0))
    assert own.boxes["chat"].waiting == 0 and own.boxes["mail"].waiting == 1
    for _ in range(LOOKS):
        own.dispatch.on_chain_verdict(alerts.update(ChainState(1.0, [JOBS]), 0))
    (over,) = own.queued("chat")
    assert over.note.title == "[major] kappa, over: no records are in quarantine any more"


def test_the_end_of_each_alert_about_kappa_says_which_one_has_ended() -> None:
    assert PASSED.keys() == set(ALERTS)
    assert len(set(PASSED.values())) == len(ALERTS)


def test_alerts_about_kappa_and_about_storms_are_queued_however_many_incidents_wait(tmp_path: Path) -> None:
    own = Channels(tmp_path)
    for number in range(MOST_WAITING):
        own.boxes["chat"].put(
            QueuedNotification(
                incident_notification(incident(number), "open", str(number), Links()), "default", [PLACE]
            )
        )
    for number in range(21):
        own.take(incident(number), number)
    own.dispatch.on_chain_verdict(ChainVerdict({QUARANTINE: "2 records"}, frozenset()))
    assert own.boxes["chat"].waiting == MOST_WAITING + 2


@contextmanager
def emptied(own: Channels) -> Iterator[None]:
    """Its channels and its log at work."""
    own.log.start()
    for box in own.boxes.values():
        box.start(own.dispatch.on_settled)
    try:
        yield
    finally:
        own.ending.set()
        for box in own.boxes.values():
            box.join(10.0)
        own.log.close(10.0)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


def test_deliveries_that_cannot_be_recorded_wait_whatever_the_error_is(tmp_path: Path) -> None:
    own = Channels(tmp_path)

    def failing(records: list[tuple[bytes, bytes]]) -> None:
        raise RuntimeError("can't start new thread")

    setattr(own.log, "_append", failing)  # noqa: B010
    assert not own.log.append(delivery("chat", "a", "default", 0))


def test_a_thread_that_has_ended_ends_the_notifier_so_that_it_begins_again() -> None:
    waiting, over, unused = threading.Event(), threading.Thread(target=int, name="notify chat"), threading.Thread()
    alive = threading.Thread(target=waiting.wait)
    alive.start()
    over.start()
    over.join()
    check_alive(alive, unused)
    with pytest.raises(KappaError, match="'notify chat' has ended"):
        check_alive(alive, over)
    waiting.set()
    alive.join()


def test_channels_go_on_while_kafka_is_away_and_nothing_counts_as_dealt_with(
    tmp_path: Path, receiver: Receiver
) -> None:
    own = Channels(tmp_path, url=receiver.url)
    with emptied(own):
        for number in range(3):
            own.take(incident(number), number)
        receiver.until(lambda r: len(r.posts) == 3)
    assert set(own.positions.until().values()) == {0}, "at the next start all three are sent again"


def test_notifications_beside_jobs_begin_again_after_an_error_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = threading.Semaphore(0)

    def full(_: Path, __: float) -> None:
        tries.release()
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(service, "file_lock", full)
    monkeypatch.setattr(service, "AGAIN_SECONDS", 0.01)
    channels = {"chat": {"kind": "webhook", "url": "http://127.0.0.1:9/"}}
    with service.BesideJobs(Settings.model_validate({"home": tmp_path, "notify": {"channels": channels}})):
        assert all(tries.acquire(timeout=10) for _ in range(2))
