"""Channels against real servers on loopback: an Alertmanager, a mail server, and a server that fails, is slow, or asks for a pause."""

from __future__ import annotations

import base64
import email
import gzip
import hashlib
import hmac
import html
import json
import resource
import threading
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email import policy
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apprise
import pytest
from aiosmtpd.controller import Controller
from structlog.testing import capture_logs
from support.incident_records import alarm, incident
from support.prometheus_servers import alertmanager, alerts, until
from support.receiver import Answer, Post, Receiver, receiving
from typer.testing import CliRunner

from app.cli import main
from app.cli.demo_receiver import DemoReceiver
from app.core.errors import SettingsError
from app.core.exposure import warning
from app.core.ports import LOOPBACK, free_port
from app.core.settings import load
from app.core.timestamps import wall_clock
from app.notify.channels.alertmanager import labels_of
from app.notify.channels.apprise_process import last_words
from app.notify.channels.apprise_service import AppriseService
from app.notify.channels.channel import Channel, ChannelRefused, Unreachable
from app.notify.channels.http_client import retry_after
from app.notify.channels.kinds import open_channel
from app.notify.incident import LogPlace
from app.notify.links import Links
from app.notify.notification import LONGEST_TITLE, Notification, alarm_notification, channel_test, incident_notification
from app.notify.outbox import MOST_WAITING, Outbox, QueuedNotification
from models.records.records import Delivery
from models.rules.runbook import Runbook

CANARY = "c4nary-in-a-c0al-mine"


def channel(kind: str, url: str, **more: Any) -> Channel:
    return open_channel(load(notify={"channels": {"own": {"kind": kind, "url": url, **more}}}).notify, "own")


def note(number: int = 1, status: str = "open", **more: Any) -> Notification:
    one = incident(number, "close" if status == "close" else "open", **more)
    return incident_notification(one, status, one.id, Links(runbooks=(Runbook("https://wiki.example.net/{kind}"),)))


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


# --- webhook


def test_a_webhook_is_signed_as_standard_webhooks_has_it(receiver: Receiver) -> None:
    secret = base64.b64encode(b"k" * 24).decode()
    sent = note()
    assert channel("webhook", receiver.url, secret=f"whsec_{secret}").send(sent, 1_767_600_000_999) == "200 taken"
    (post,) = receiver.posts
    signed = f"{sent.identity}.1767600000.".encode() + post.body
    expected = base64.b64encode(hmac.new(b"k" * 24, signed, hashlib.sha256).digest()).decode()
    assert post.headers["webhook-signature"] == f"v1,{expected}"
    assert post.json["identity"] == sent.identity and post.json["hosts"] == ["web-1"]


def test_a_template_makes_the_body_and_quotes_what_it_is_told_to(receiver: Receiver) -> None:
    text = '{"routing_key": "k", "dedup_key": {{ key|tojson }}, "summary": {{ title|tojson }}}'
    channel("webhook", receiver.url, template=text).send(note(reason='"},\n{{ 7*7 }}'), 0)
    found = receiver.posts[0].json
    assert found["dedup_key"] == f"{1:024x}" and '"},?{{ 7*7 }}' in found["summary"]


@pytest.mark.parametrize(
    "template", ["{{ title.__class__.__mro__ }}", "{{ 1/0 }}", "{{ 'x' * 300000 }}", "{{ title() }}"]
)
def test_a_template_that_fails_is_refused_and_sends_nothing(receiver: Receiver, template: str) -> None:
    with pytest.raises(ChannelRefused):
        channel("webhook", receiver.url, template=template).send(note(), 0)
    assert not receiver.posts


@pytest.mark.parametrize(
    ("answer", "error", "pause"),
    [
        (Answer(500), Unreachable, None),
        (Answer(503, {"Retry-After": "7"}), Unreachable, 7.0),
        (Answer(429, {"Retry-After": "999999"}), Unreachable, 3_600.0),
        (Answer(408), Unreachable, None),
        (Answer(400), ChannelRefused, None),
        (Answer(302, {"Location": "http://127.0.0.1:1/"}), ChannelRefused, None),
    ],
)
def test_what_may_pass_is_tried_again_and_what_may_not_is_not(
    receiver: Receiver, answer: Answer, error: type[Exception], pause: float | None
) -> None:
    receiver.answers.append(answer)
    with pytest.raises(error) as found:
        channel("webhook", receiver.url).send(note(), 0)
    assert getattr(found.value, "after_seconds", None) == pause and str(answer.status) in str(found.value)
    assert len(receiver.posts) == 1


def test_a_server_that_is_slow_or_away_or_no_server_is_tried_again_and_the_address_is_not_said(
    receiver: Receiver,
) -> None:
    receiver.answers.append(Answer(after_seconds=1.0))
    for url, seconds in ((receiver.url, 0.2), (f"http://127.0.0.1:{free_port(None)}/{CANARY}", 2.0)):
        with pytest.raises(Unreachable) as error:
            channel("webhook", url, timeout_seconds=seconds).send(note(), 0)
        assert CANARY not in str(error.value) and url not in str(error.value)


@pytest.mark.parametrize("status", [200, 404, 500])
@pytest.mark.parametrize(
    "form",
    [
        '{"path": "PATH"}',
        "<pre>Cannot POST PATH</pre>",
        "no route for /services/T0001/CANARY",
        "token CANARY is not known",
        '{"key": "k3y-CANARY"}',
    ],
)
@pytest.mark.parametrize("written", [str, html.escape, quote, lambda text: json.dumps(text).replace("/", "\\/")])
def test_a_server_that_repeats_what_it_was_asked_does_not_publish_what_is_secret(
    receiver: Receiver, status: int, form: str, written: Callable[[str], str]
) -> None:
    path = f"/services/T0001/{CANARY}?key=a%2Fb"
    text = form.replace("PATH", path).replace("CANARY", CANARY)
    receiver.always = Answer(status, body=written(text).encode())
    template = f'{{"routing_key": "k3y-{CANARY}"}}'
    headers = {"Authorization": f"Bearer {CANARY}"}
    own = channel("webhook", f"http://{LOOPBACK}:{receiver.port}{path}", headers=headers, template=template)
    try:
        shown = own.send(note(), 0)
    except (Unreachable, ChannelRefused) as error:
        shown = str(error)
    assert shown.startswith(f"{status} ") and len(shown) > 10
    assert CANARY not in shown and "T0001" not in shown and "a%2Fb" not in shown


def test_what_apprise_writes_at_its_end_does_not_hold_the_address() -> None:
    for url in (f"slack://{CANARY}/A-token-of-it/x", f"mailto://me:{CANARY}@example.net?to=b@example.net"):
        end = f"Traceback ...\nValueError: {url} of {CANARY} is none".encode()
        assert CANARY not in last_words(end, url) and "ValueError" in last_words(end, url)


def test_an_answer_that_grows_when_it_is_unpacked_is_not_unpacked(receiver: Receiver) -> None:
    body = gzip.compress(gzip.compress(bytes(50_000_000), 1))
    assert len(body) < 10_000
    receiver.answers.append(Answer(body=body, headers={"Content-Encoding": "gzip, gzip"}))
    own = channel("webhook", receiver.url)
    tracemalloc.start()
    try:
        assert own.send(note(), 0).startswith("200 ")
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()
    assert receiver.posts[0].headers["accept-encoding"] == "identity"


def test_an_answer_without_an_end_is_read_for_a_time(receiver: Receiver) -> None:
    receiver.answers.append(Answer(endless=True))
    began = time.monotonic()
    assert channel("webhook", receiver.url, timeout_seconds=0.5).send(note(), 0).startswith("200 taken..")
    assert time.monotonic() - began < 5.0


def test_an_answer_that_never_begins_ends_with_the_time_of_a_try(receiver: Receiver) -> None:
    receiver.always = Answer(endless_headers=True)
    began = time.monotonic()
    with pytest.raises(Unreachable, match=r"no answer within 0\.5 s"):
        channel("webhook", receiver.url, timeout_seconds=0.5).send(note(), 0)
    assert time.monotonic() - began < 5.0


def test_a_header_that_cannot_be_read_asks_for_nothing() -> None:
    now = datetime(2026, 1, 5, tzinfo=UTC)
    assert retry_after("Mon, 05 Jan 2026 00:00:10 GMT", now) == 10.0
    assert [retry_after(text, now) for text in (None, "soon", "-5", "Mon, 05 Jan 2025", "9" * 400)] == [
        None, None, None, None, 3_600.0,
    ]  # fmt: skip


# --- the queue of a channel


class Box:
    """An outbox whose deliveries are kept."""

    def __init__(self, url: str, patience_hours: float = 1.0, clock: Callable[[], int] = wall_clock) -> None:
        self.deliveries, self.places = list[Delivery](), list[LogPlace]()
        self.stopping = threading.Event()
        self.box = Outbox("own", channel("webhook", url), self.stopping, clock, patience_hours, 60.0)

    def keep(self, item: QueuedNotification, delivery: Delivery) -> bool:
        self.places += item.places
        self.deliveries.append(delivery)
        return True

    def __enter__(self) -> Box:
        self.box.start(self.keep)
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self.box.join(10.0)

    def until(self, count: int) -> list[Delivery]:
        end = time.monotonic() + 30.0
        while len(self.deliveries) < count:
            assert time.monotonic() < end
            threading.Event().wait(0.02)
        return self.deliveries


def waiting(one: Notification, offset: int = 0) -> QueuedNotification:
    return QueuedNotification(one, "default", [LogPlace("incidents", 0, offset)])


def test_a_server_that_fails_gets_it_in_the_end_under_one_id(receiver: Receiver) -> None:
    receiver.answers.extend([Answer(500), Answer(502)])
    with Box(receiver.url) as own:
        own.box.put(waiting(note(), 7))
        (found,) = own.until(1)
    assert (found.outcome, found.attempts, found.offset, found.answer) == ("delivered", 3, 7, "200 taken")
    assert len(set(receiver.ids)) == 1


def test_what_is_to_be_tried_again_waits_no_longer_where_the_clock_is_set_back(receiver: Receiver) -> None:
    ahead, item = [86_400_000], waiting(note())
    receiver.answers.append(Answer(503, {"Retry-After": "300"}))
    with Box(receiver.url, clock=lambda: wall_clock() + ahead[0]) as own:
        own.box.put(item)
        while not item.not_before_ms:
            threading.Event().wait(0.02)
        ahead[0] = 0
        (found,) = own.until(1)
    assert (found.outcome, found.attempts) == ("delivered", 2)


def test_a_pause_that_is_asked_for_is_kept(receiver: Receiver) -> None:
    receiver.answers.append(Answer(429, {"Retry-After": "1"}))
    with Box(receiver.url) as own:
        own.box.put(waiting(note()))
        own.until(1)
    first, second = receiver.posts
    assert second.at - first.at >= 1.0


def test_one_notification_that_is_never_taken_holds_up_no_other_and_is_given_up_in_the_end(receiver: Receiver) -> None:
    with Box(receiver.url, patience_hours=1.5 / 3600) as own:
        setattr(own.box.channel, "send", fails_for(1, own.box.channel.send))  # noqa: B010
        own.box.put(waiting(note(1)))
        own.box.put(waiting(note(2)))
        first, second = own.until(2)
    assert (first.incident, first.outcome) == (f"{2:024x}", "delivered")
    assert (second.incident, second.outcome) == (f"{1:024x}", "failed") and second.answer.startswith("given up: ")


def test_an_error_that_nobody_expects_is_tried_again_and_ends_nothing(receiver: Receiver) -> None:
    errors = [OSError(24, f"Too many open files: {CANARY}"), RuntimeError(CANARY)]
    with Box(receiver.url) as own:
        setattr(own.box.channel, "send", raising(errors, own.box.channel.send))  # noqa: B010
        own.box.put(waiting(note(1)))
        (found,) = own.until(1)
        assert own.box.thread.is_alive()
    assert (found.outcome, found.attempts) == ("delivered", 3)


def test_what_is_open_is_sent_again_after_an_error_that_nobody_expects(receiver: Receiver) -> None:
    receiver.answers.append(Answer(500))
    own, stopping = channel("alertmanager", f"http://{LOOPBACK}:{receiver.port}"), threading.Event()
    setattr(own, "resend", raising([RuntimeError(CANARY)], own.resend))  # noqa: B010
    box = Outbox("own", own, stopping, wall_clock, 1.0, 0.2)
    box.start(lambda item, delivery: True, [note(1)])
    try:
        receiver.until(lambda r: len(r.posts) == 2)
        assert box.thread.is_alive()
    finally:
        stopping.set()
        box.join(10.0)


def test_an_error_that_nobody_expects_is_named_without_what_it_says_that_may_be_a_secret(receiver: Receiver) -> None:
    own = Box(receiver.url)
    setattr(own.box.channel, "send", raising([RuntimeError(CANARY)] * 3, own.box.channel.send))  # noqa: B010
    with capture_logs() as lines, own:
        own.box.put(waiting(note(1)))
        own.until(1)
    assert "RuntimeError" in lines[0]["answer"] and CANARY not in str(lines)


def raising(errors: list[Exception], send: Callable[..., str]) -> Callable[..., str]:
    def sending(*arguments: Any) -> str:
        if errors:
            raise errors.pop(0)
        return send(*arguments)

    return sending


def fails_for(number: int, send: Callable[[Notification, int], str]) -> Callable[[Notification, int], str]:
    def sending(one: Notification, now_ms: int) -> str:
        if one.key == f"{number:024x}":
            msg = "503"
            raise Unreachable(msg)
        return send(one, now_ms)

    return sending


def test_what_becomes_worse_while_it_waits_is_told_once_and_a_queue_is_bounded(receiver: Receiver) -> None:
    own = Box(receiver.url)
    own.box.put(waiting(note(1, severity="minor"), 1))
    own.box.put(waiting(note(1, "update", severity="critical"), 2))
    own.box.put(waiting(note(1, "close", severity="critical"), 3))
    taken = [own.box.put(waiting(note(n))) for n in range(2, MOST_WAITING + 5)]
    assert own.box.waiting == MOST_WAITING and taken.count(False) == 5 and not any(taken[-5:])
    with own:
        opening, closing = own.until(2)[:2]
    assert [(one.status, one.severity, one.offset) for one in (opening, closing)] == [
        ("open", "critical", 2),
        ("close", "critical", 3),
    ]
    assert opening.title.startswith("[critical] new: anomaly on web-1")


def worsening(receiver: Receiver) -> Box:
    """A queue with an incident that becomes worse while it is sent."""
    own = Box(receiver.url)

    def worsen(post: Post) -> None:
        if len(receiver.posts) == 1:
            own.box.put(waiting(note(1, "update", severity="critical"), 2))

    receiver.on_post = worsen
    own.box.put(waiting(note(1, severity="minor"), 1))
    return own


def test_what_becomes_worse_while_it_is_sent_is_worse_in_its_title_too(receiver: Receiver) -> None:
    own = worsening(receiver)
    with own:
        own.until(2)
    assert [post.json["title"].split(":")[0] for post in receiver.posts] == ["[minor] new", "[critical] worse"]


def test_hosts_that_a_record_does_not_name_are_counted() -> None:
    hosts = [f"web-{n}" for n in range(500)]
    sent = note(1, hosts=hosts, affected=812)
    assert "web-2 and 809 more: " in sent.title and "hosts: web-0" in sent.text and "804 more" in sent.text
    assert labels_of(sent)["host"].endswith("web-9,+802") and sent.affected == 812
    for affected in (None, "812", True, -1, 3, 10**30, 2.5):
        assert note(1, hosts=hosts, affected=affected).affected == 500


def test_a_title_shows_its_reason_however_long_names_are_and_where_it_was_cut() -> None:
    hosts = [f"{'x' * 240}-{n}" for n in range(9)]
    sent = note(1, hosts=hosts, affected=12_345, reason="too full")
    assert sent.title.endswith(f"{'x' * 39}…, {'x' * 39}… and 12,342 more: too full")
    long = note(1, reason="y" * 500).title
    assert len(long) == LONGEST_TITLE and long.endswith("yyy…")


def test_the_end_of_what_a_channel_refused_is_not_sent_to_it(receiver: Receiver) -> None:
    receiver.answers.append(Answer(403))
    own = Box(receiver.url)
    own.box.put(waiting(note(1), 1))
    own.box.put(waiting(note(1, "close"), 2))
    own.box.put(waiting(note(2), 3))
    with own:
        own.until(2)
    assert [(one.incident, one.outcome) for one in own.deliveries] == [
        (f"{1:024x}", "failed"),
        (f"{2:024x}", "delivered"),
    ]
    assert [place.offset for place in own.places] == [1, 2, 3] and len(receiver.posts) == 2


def test_the_incident_that_confirms_an_early_alarm_is_sent_where_the_alarm_was_refused(receiver: Receiver) -> None:
    receiver.answers.append(Answer(403))
    own, raised, one = Box(receiver.url), alarm_notification(alarm(), "open", Links()), incident(1)
    own.box.put(waiting(raised, 1))
    own.box.put(waiting(incident_notification(one, "open", one.id, Links(), raised.key), 2))
    own.box.put(waiting(incident_notification(one, "close", one.id, Links(), raised.key), 3))
    with own:
        own.until(3)
    assert [(one.status, one.outcome) for one in own.deliveries] == [
        ("open", "failed"),
        ("open", "delivered"),
        ("close", "delivered"),
    ]


def test_what_becomes_worse_while_a_channel_refuses_it_opens_the_incident(receiver: Receiver) -> None:
    receiver.answers.append(Answer(403))
    own = worsening(receiver)
    with own:
        (found,) = own.until(1)
    assert (found.status, found.severity, found.outcome) == ("open", "critical", "delivered")
    assert [place.offset for place in own.places] == [1, 2]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("kind", ["webhook", "apprise"])
def test_a_redirect_is_not_followed_as_it_may_lead_to_loopback(receiver: Receiver, kind: str, status: int) -> None:
    with receiving() as inside:
        receiver.always = Answer(status, {"Location": inside.url})
        url = receiver.url if kind == "webhook" else f"json://{LOOPBACK}:{receiver.port}/hook"
        with pytest.raises((ChannelRefused, Unreachable)):
            channel(kind, url).send(note(), 1_767_600_000_000)
        assert len(receiver.posts) == 1 and inside.posts == []


# --- mail, by apprise


class Mailbox:
    """A mail server that keeps what comes."""

    def __init__(self) -> None:
        self.mails: list[Any] = []

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        self.mails.append((envelope.rcpt_tos, email.message_from_bytes(envelope.content, policy=policy.default)))
        return "250 OK"


@contextmanager
def mail_server() -> Iterator[tuple[Mailbox, str]]:
    box, port = Mailbox(), free_port(None)
    server = Controller(box, hostname=LOOPBACK, port=port)
    server.start()
    try:
        yield box, f"mailto://{LOOPBACK}:{port}?to=ops@example.net&from=kappa@example.net&mode=insecure"
    finally:
        server.stop()


def test_mail_about_an_incident_is_a_thread_of_plain_text_without_anything_of_the_incidents_own() -> None:
    hostile = "<b>@here</b> [x](http://evil)\r\nBcc: a@example.net\r\n\r\nbody"
    with mail_server() as (box, url):
        own = channel("apprise", url)
        for status in ("open", "close"):
            assert own.send(note(1, status, reason=hostile, hosts=[hostile]), 0) == "taken"
    assert [to for to, _ in box.mails] == [["ops@example.net"]] * 2
    threads = {mail["References"] for _, mail in box.mails}
    assert threads == {f"<{1:024x}@kappa>"}
    for _, mail in box.mails:
        assert mail.get_content_type() == "text/plain" and mail["Bcc"] is None
        text = mail["Subject"] + mail.get_content()
        assert "<b>" not in text and "@here" not in text and "http://" not in text and "b@h" not in text


def test_an_answer_that_grows_when_apprise_unpacks_it_takes_no_memory_of_ours(receiver: Receiver) -> None:
    squeezed = zlib.compressobj()
    head, block = squeezed.compress(b"") + squeezed.flush(zlib.Z_FULL_FLUSH), bytes(1 << 23)
    again = squeezed.compress(block) + squeezed.flush(zlib.Z_FULL_FLUSH)
    receiver.always = Answer(body=head + again * 128, headers={"Content-Encoding": "deflate"})  # 1 GiB
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(Unreachable):
        channel("apprise", f"json://{LOOPBACK}:{receiver.port}/hook", timeout_seconds=20.0).send(note(), 0)
    assert len(receiver.posts) == 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10  # KiB


def test_a_mail_server_that_is_away_is_tried_again() -> None:
    with pytest.raises(Unreachable):
        channel("apprise", f"mailto://{LOOPBACK}:{free_port(None)}?to=a@b.net&from=k@b.net&mode=insecure").send(
            note(), 0
        )


# --- Alertmanager


def test_an_alertmanager_fires_while_an_incident_is_open_whatever_is_sent_twice(tmp_path: Path) -> None:
    with alertmanager(tmp_path) as url:
        own, now = channel("alertmanager", url), wall_clock()
        opening = note(1, severity="minor", reason='a "quoted" reason \\ {{ .Labels }}')
        assert own.send(opening, now).startswith("200") and own.send(opening, now + 1).startswith("200")
        (one,) = alerts(url)
        assert one["labels"] == {
            "alertname": "KappaIncident", "severity": "minor", "kind": "anomaly", "incident": f"{1:024x}",
            "host": "web-1", "service": "shop",
        }  # fmt: skip
        assert one["annotations"]["summary"] == opening.title
        assert one["annotations"]["runbook_url"] == "https://wiki.example.net/anomaly"
        before = one["endsAt"]
        own.resend([opening], now + 60_000)
        assert alerts(url)[0]["endsAt"] > before
        own.send(note(1, "update", severity="critical"), now)
        assert [each["labels"]["severity"] for each in alerts(url)] == ["critical"], "the one of before is over"
        own.send(note(1, "close", severity="critical"), wall_clock() - 1)
        assert alerts(url) == []


def test_in_an_alertmanager_an_early_alarm_becomes_its_incident(tmp_path: Path) -> None:
    with alertmanager(tmp_path) as url:
        own, now = channel("alertmanager", url), wall_clock()
        raised, one = alarm_notification(alarm(), "open", Links()), incident(1)
        own.send(raised, now)
        (early,) = alerts(url)
        assert early["labels"] == {
            "alertname": "KappaEarly", "severity": "info", "kind": "early", "incident": raised.key, "host": "web-1",
            "service": "shop",
        }  # fmt: skip
        assert early["annotations"]["summary"].startswith("[early] provisional: ")
        own.send(incident_notification(one, "open", one.id, Links(), raised.key), now)
        (found,) = alerts(url)
        assert (found["labels"]["alertname"], found["labels"]["incident"]) == ("KappaIncident", one.id)
        own.send(incident_notification(incident(1, "close"), "close", one.id, Links(), raised.key), wall_clock() - 1)
        assert alerts(url) == []


def test_the_trial_of_an_alertmanager_fires_and_ends_by_itself(tmp_path: Path) -> None:
    with alertmanager(tmp_path) as url:
        file = tmp_path / "kappa.toml"
        file.write_text(f'[notify]\nresend_seconds = 1\n[notify.channels.ops]\nkind = "alertmanager"\nurl = "{url}"\n')
        tried = CliRunner().invoke(main.app, ["notify", "test", "ops", "--config", str(file)])
        assert tried.output == "ops: 200\n"
        (one,) = alerts(url)
        assert (one["labels"]["alertname"], one["status"]["state"]) == ("KappaTest", "active")
        until(lambda: not alerts(url), lambda: "it did not end")


def test_an_alertmanager_that_refuses_is_not_asked_again(tmp_path: Path) -> None:
    with alertmanager(tmp_path) as url:
        own = channel("alertmanager", f"{url}/no/such/place")
        with pytest.raises(ChannelRefused, match="404"):
            own.send(note(), wall_clock())


# --- secrets


def test_the_address_of_a_channel_is_shown_by_no_command_and_in_no_error(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    text = f'[notify.channels.own]\nkind = "webhook"\nurl = "http://h.example.net/{CANARY}"\nsecret = "{CANARY}"\n'
    text += f'headers = {{ Authorization = "Bearer {CANARY}" }}\n'
    file.write_text(text)
    settings, shown = load(file), []
    shown += [repr(settings), json.dumps(settings.shown()), str(warning(settings))]
    for command in (["config", "show"], ["config", "show", "--json"], ["config", "check"]):
        answer = CliRunner().invoke(main.app, [*command, "--config", str(file)])
        shown += [answer.stdout, answer.stderr]
    for more in ("unknown = 1\n", "timeout_seconds = -1\n", '[[notify.routes]]\nchannels = ["x"]\n'):
        file.write_text(text + more)
        with pytest.raises(SettingsError) as error:
            load(file)
        shown.append(str(error.value))
    with pytest.raises(SettingsError) as error:
        channel("apprise", f"nonsense://{CANARY}")
    shown.append(str(error.value))
    assert not [each for each in shown if CANARY in each]
    assert "notify.channels.own" in shown[2], "it is not encrypted"


def test_a_channel_may_be_set_by_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('[notify.channels.own]\nkind = "webhook"\n')
    monkeypatch.setenv("KAPPA_NOTIFY__CHANNELS__OWN__URL", "https://h.example.net/x")
    assert load(tmp_path / "own.toml").notify.channels["own"].url.get_secret_value() == "https://h.example.net/x"


def test_a_test_message_is_for_a_channel_that_there_is(receiver: Receiver) -> None:
    with pytest.raises(SettingsError, match="there is no channel 'x'"):
        open_channel(load().notify, "x")
    channel("webhook", receiver.url).send(channel_test(1_000), 1_000)
    assert receiver.posts[0].json["status"] == "close"


def test_the_receiver_of_the_demonstration_takes_what_is_signed_once_and_nothing_else() -> None:
    lines: list[str] = []
    with DemoReceiver(lines.append) as receiver:
        notify = receiver.settings
        own = open_channel(notify, "demo")
        for _ in range(2):
            assert own.send(note(), wall_clock()) == "204"
        with pytest.raises(ChannelRefused, match="401"):
            channel("webhook", notify.channels["demo"].url.get_secret_value(), secret="x").send(note(2), 0)
    assert lines == [f"notified: {note().title}"] and len(receiver.taken) == 1


def test_messages_of_one_incident_are_a_thread_in_google_chat_unless_the_address_names_one() -> None:
    keys = []
    for more in ("", "?format=text", "?thread=ours", "/ours?x=thread"):
        own = channel("apprise", f"gchat://workspace/webhook-key/webhook-token{more}")
        assert isinstance(own, AppriseService)
        made = apprise.Apprise.instantiate(own.address(note(2)))
        assert made is not None
        keys.append(vars(made)["thread_key"])
    assert keys == [f"{2:024x}", f"{2:024x}", "ours", "ours"]


def test_neither_addresses_nor_templates_are_shown_with_the_settings() -> None:
    """Keys of pagers are part of the body."""
    own = {"kind": "webhook", "url": "https://hush.example/", "template": "hush {{ title }}", "secret": "hush"}
    settings = load(notify={"channels": {"pager": own}})
    for shown in (json.dumps(settings.shown()), repr(settings)):
        assert "pager" in shown and "hush" not in shown


def test_a_trial_that_fails_names_the_channel(tmp_path: Path, receiver: Receiver) -> None:
    file = tmp_path / "kappa.toml"
    for status, kind, words in ((500, Unreachable, "did not take it"), (400, ChannelRefused, "refuses it")):
        receiver.always = Answer(status)
        file.write_text(f'[notify.channels.hook]\nkind = "webhook"\nurl = "{receiver.url}"\n')
        tried = CliRunner().invoke(main.app, ["notify", "test", "hook", "--config", str(file)])
        assert isinstance(tried.exception, kind)
        assert f"channel hook {words}" in str(tried.exception)
