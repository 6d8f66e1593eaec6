"""A channel's queue and the thread that empties it: a channel that is slow or away holds up no other.

A notification is tried a few times at once, and then again and again behind the others, for `notify.patience_hours`. Notifications of
one incident are sent in order.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import takewhile

import structlog
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    sleep_using_event,
    stop_after_attempt,
    stop_when_event_set,
    wait_random_exponential,
)
from tenacity.stop import stop_base

from app.core.timestamps import is_due
from app.notify.channels.channel import Channel, ChannelRefused, Unreachable
from app.notify.channels.http_client import LONGEST_WAIT
from app.notify.incident import LogPlace
from app.notify.notification import Notification, set_status
from models.records.records import DELIVERED, FAILED, Delivery

log = structlog.get_logger()

TRIES = 3  # at once
LONGEST_PAUSE = 60.0  # seconds between two tries, unless the channel asks for more
HOUR_MS = 3_600_000
MOST_WAITING = 1_000  # notifications

OnSettled = Callable[["QueuedNotification", Delivery], bool]


@dataclass
class QueuedNotification:
    """A notification in a queue; `places` are the records that it comes from."""

    note: Notification
    why: str
    places: list[LogPlace] = field(default_factory=list)
    since_ms: int = 0
    not_before_ms: int = 0
    attempts: int = 0


class Outbox:
    """The queue of one channel, by the key of what is sent."""

    def __init__(
        self,
        name: str,
        channel: Channel,
        stopping: threading.Event,
        clock: Callable[[], int],
        patience_hours: float,
        resend_seconds: float,
    ) -> None:
        """`patience_hours`: how long a notification is tried; `resend_seconds`: how often what is open is sent again."""
        self.name, self.channel, self._clock = name, channel, clock
        self._patience_ms, self._resend_ms = int(patience_hours * HOUR_MS), int(1000 * resend_seconds)
        self._stopping = stopping
        self._changed = threading.Condition()
        self._queue: dict[str, list[QueuedNotification]] = {}  # the first of each is tried first
        self._open: dict[str, Notification] = {}
        self._forgotten: set[str] = set()
        self._settled: OnSettled
        self._resend_at = self._warn_at = 0
        self.thread = threading.Thread(target=self._run, name=f"notify {name}", daemon=True)
        self.problem = ""

    def start(self, settled: OnSettled, still_open: Iterable[Notification] = ()) -> None:
        """Begin.

        `settled` is called with what became of a notification; it answers False where that could not be recorded. `still_open`: what
        an earlier process has sent and is not over.
        """
        self._settled = settled
        self._open = {note.key: note for note in still_open} if self.channel.resends else {}
        self.thread.start()

    def put(self, item: QueuedNotification) -> bool:
        """Queue a notification. An update replaces a waiting notification with the same key, unless that one closes.

        Returns False where MOST_WAITING notifications wait and this one opens an incident. Updates and ends of what the channel knows are always
        queued, or it would stay open there; so are the few notifications about kappa itself and about storms.
        """
        with self._changed:
            waiting, opens = self._queue.get(item.note.key, []), item.note.status == "open" and bool(item.places)
            if waiting and item.note.status == "update" and waiting[-1].note.status != "close":
                last = waiting[-1]
                last.note = set_status(item.note, last.note.status)
                last.places += item.places
            elif opens and not waiting and sum(map(len, self._queue.values())) >= MOST_WAITING:
                return False
            else:
                self._queue.setdefault(item.note.key, []).append(item)
            self._changed.notify()
        return True

    @property
    def waiting(self) -> int:
        """How many notifications wait."""
        with self._changed:
            return sum(map(len, self._queue.values()))

    def forget(self, version: str) -> None:
        """Do not resend open incidents of a version that is no longer read."""
        with self._changed:
            self._forgotten.add(version)

    def join(self, seconds: float) -> None:
        """Wait for the thread, after `stopping` has been set."""
        with self._changed:
            self._changed.notify()
        if self.thread.is_alive():
            self.thread.join(seconds)
        self.channel.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            item = self._next()
            if item is not None:
                self._deliver(item)
            elif self._resends_now(self._clock()):
                self._resend()

    def _resends_now(self, now: int) -> bool:
        return self.channel.resends and is_due(self._resend_at, now, self._resend_ms)

    def _next(self) -> QueuedNotification | None:
        """The first notification that may be tried now; waits a moment where there is none."""
        with self._changed:
            now = self._clock()
            if self._resends_now(now):
                return None
            firsts = [waiting[0] for waiting in self._queue.values()]
            ready = [item for item in firsts if is_due(item.not_before_ms, now, 1000 * LONGEST_WAIT)]
            if not ready:
                self._changed.wait(0.2)
                return None
            return min(ready, key=lambda item: item.not_before_ms)

    def _deliver(self, item: QueuedNotification) -> None:
        """Try a notification and record the outcome; it stays in the queue if it is to be tried again."""
        with self._changed:
            note, places = item.note, len(item.places)
        try:
            outcome, answer = DELIVERED, self._attempt(item, note)
        except ChannelRefused as error:
            outcome, answer = FAILED, str(error)
        except Unreachable as error:
            self.problem = str(error)
            now = self._clock()
            item.since_ms = item.since_ms or now
            if now - item.since_ms < self._patience_ms or self._stopping.is_set():
                pause = error.after_seconds or min(LONGEST_PAUSE, 2.0 ** min(item.attempts - TRIES, 10))
                item.not_before_ms = now + int(1000 * pause)
                self._warn(str(error), pause, now)
                return
            outcome, answer = FAILED, f"given up: {error}"
        lost: list[QueuedNotification] = []
        if outcome == FAILED:
            with self._changed:
                if item.note is not note:  # it has become worse in the meantime, and that may be taken
                    reset_attempts(item)
                    return
                lost = self._lost(note)
            log.error("a notification was not delivered", channel=self.name, incident=note.key, answer=answer)
        else:
            self.problem = ""
        sent = replace(item, note=note, places=item.places[:places])
        delivery = make_delivery(self.name, sent, outcome, answer, self._clock())
        sent.places += [place for one in lost for place in one.places]
        if self._settled(sent, delivery):
            self._remove(item, note, places, len(lost))
            if outcome == DELIVERED and self.channel.resends:
                self._open.pop(note.key, None)
                self._open |= {} if note.status == "close" else {note.key: note}

    def _warn(self, answer: str, pause: float, now: int) -> None:
        """Log that the channel takes nothing: at most once a minute, however many notifications wait for it and are tried."""
        if is_due(self._warn_at, now, 1000 * LONGEST_PAUSE):
            self._warn_at = now + int(1000 * LONGEST_PAUSE)
            log.warning(
                "a channel does not take notifications",
                channel=self.name,
                answer=answer,
                waiting=self.waiting,
                again_in=pause,
            )

    def _lost(self, note: Notification) -> list[QueuedNotification]:
        """Notifications to drop behind one that was not delivered: all up to the next opening, as the channel does not know what they are about."""
        behind = self._queue[note.key][1:] if note.status == "open" else []
        return list(takewhile(lambda one: one.note.status != "open", behind))

    def _remove(self, item: QueuedNotification, note: Notification, places: int, lost: int) -> None:
        """Remove a recorded notification and the `lost` ones behind it. If an update has replaced it in the meantime, that one is sent next."""
        with self._changed:
            waiting = self._queue[note.key]
            if item.note is note:
                del waiting[: 1 + lost]
            else:
                item.note, item.places = set_status(item.note, "update"), item.places[places:]
                reset_attempts(item)
            if not waiting:
                del self._queue[note.key]

    def _attempt(self, item: QueuedNotification, note: Notification) -> str:
        """The channel's answer. Raises ChannelRefused, or Unreachable after a few tries, or one that asks for a pause."""

        def counted() -> str:
            item.attempts += 1
            return ask_channel(lambda: self.channel.send(note, self._clock()))

        trying = Retrying(
            retry=retry_if_exception_type(Unreachable),
            stop=stop_after_attempt(TRIES) | stop_when_event_set(self._stopping) | StopWhereAsked(),
            wait=wait_random_exponential(multiplier=0.2, max=2.0),
            sleep=sleep_using_event(self._stopping),
            reraise=True,
        )
        return trying(counted)

    def _resend(self) -> None:
        self._resend_at = self._clock() + self._resend_ms
        with self._changed:
            forgotten, self._forgotten = self._forgotten, set()
        self._open = {key: note for key, note in self._open.items() if note.version not in forgotten}
        try:
            ask_channel(lambda: self.channel.resend(self._open.values(), self._clock()))
        except (Unreachable, ChannelRefused) as error:
            self.problem = str(error)
            log.warning("what is open could not be sent again", channel=self.name, answer=str(error))


def reset_attempts(item: QueuedNotification) -> None:
    """Reset the attempts of a notification, as if it had just been queued."""
    item.since_ms = item.not_before_ms = item.attempts = 0


def ask_channel(asked: Callable[[], str]) -> str:
    """Call a channel; returns its answer. Raises ChannelRefused or Unreachable; any other error becomes Unreachable, because it may pass."""
    try:
        return asked()
    except (Unreachable, ChannelRefused):
        raise
    except Exception as error:  # what it says may be a secret
        reason = f": {os.strerror(error.errno)}" if isinstance(error, OSError) and error.errno else ""
        msg = f"{type(error).__name__}{reason}"
        raise Unreachable(msg) from error


def make_delivery(channel: str, item: QueuedNotification, outcome: str, answer: str, at_ms: int) -> Delivery:
    """The record of what became of a notification."""
    note, place = item.note, item.places[-1] if item.places else LogPlace("", 0, 0)
    return Delivery(
        channel=channel,
        incident=note.incident or note.key,
        version=note.version,
        status=note.status,
        severity=note.severity,
        outcome=outcome,
        why=item.why,
        answer=answer,
        title=note.title,
        attempts=item.attempts,
        at=at_ms,
        topic=place.topic,
        partition=place.partition,
        offset=place.offset,
        key=note.key if note.incident else "",
    )


class StopWhereAsked(stop_base):
    """No further try at once where the channel asks for a pause, which is spent on other notifications."""

    def __call__(self, retry_state: RetryCallState) -> bool:
        """Whether it asks."""
        error = retry_state.outcome.exception() if retry_state.outcome is not None else None
        return isinstance(error, Unreachable) and error.after_seconds is not None
