"""What the two processes of `kappa run` say to each other: JSON lines through a pair of connected sockets.

The parent sends one line when it starts the child: how often that has been started again, and why. The child sends its
progress, and what ended it. When the child finds the connection closed, the parent is gone: it ends at once, with its JVM and
its Python workers, because a new `kappa run` may start any moment.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from app.supervision.processes import end_session

GOODBYE_SECONDS = 2.0


@dataclass(frozen=True)
class RestartHistory:
    """How often the child has been started again, and the last time: why, and when (ISO 8601; empty where it never was).

    `killed`: it was ended by a signal from outside, or with the machine, or waited for a server: that says nothing about its work.
    """

    restarts: int = 0
    last_error: str = ""
    last_at: str = ""
    killed: bool = True


@dataclass(frozen=True)
class ChildError:
    """What ended the child.

    `lasting`  a restart cannot mend it: settings, arguments, a violation of determinism.
    `waits`    a server cannot be reached.
    `killed`   a signal from outside has ended its JVM.
    """

    text: str
    lasting: bool = False
    waits: bool = False
    killed: bool = False


class Unsupervised:
    """What a process of jobs tells its parent where it has none: nothing."""

    history = RestartHistory(killed=False)
    progressed = False

    def alive(self) -> None:
        """The process works although no job runs."""
        self._send({"event": "alive"})

    def expect(self, job: str) -> None:
        """A job has been started."""
        self._send({"event": "expect", "job": job})

    def progress(self, job: str, done: bool = False, waits: bool = False) -> None:
        """A job makes progress; `done`: it has ended a batch, or found that there is nothing to do; `waits`: for a server that is away."""
        self.progressed |= done
        self._send({"event": "progress", "job": job, "done": done, "waits": waits})

    def hindered(self, why: str) -> None:
        """What keeps all jobs from their work from now on, in words; empty once nothing does."""
        self._send({"event": "hindered", "why": why})

    def forget(self) -> None:
        """All jobs have been stopped."""
        self._send({"event": "forget"})

    def positioned(self) -> None:
        """Checkpoints have been set as arguments asked for: the next start must not do so again."""
        self._send({"event": "positioned"})

    def failed(self, error: ChildError) -> None:
        """What is about to end this process."""
        self._send({"event": "failed", **asdict(error)}, GOODBYE_SECONDS)

    def _send(self, message: dict[str, Any], patience_seconds: float = 0.0) -> None:
        """There is nobody to send it to."""


class ParentLink(Unsupervised):
    """The child's end of the connection. Sending never blocks: progress that the parent has no room for is left out."""

    def __init__(self, descriptor: int, on_parent_gone: Callable[[], None] | None = None) -> None:
        os.set_inheritable(descriptor, False)
        self._socket = socket.socket(fileno=descriptor)
        self._gone = on_parent_gone or end_own_session
        self._lines = self._socket.makefile("r", encoding="utf-8")
        self._lock = threading.Lock()
        self.history = RestartHistory(**json.loads(self._lines.readline() or "{}"))
        threading.Thread(target=self._await_end, name="parent", daemon=True).start()

    def _await_end(self) -> None:
        with suppress(OSError):
            while self._lines.readline():
                pass
        self._gone()

    def _send(self, message: dict[str, Any], patience_seconds: float = 0.0) -> None:
        line = json.dumps(message).encode() + b"\n"
        with self._lock, suppress(OSError):
            self._socket.settimeout(patience_seconds or None)
            if patience_seconds:
                self._socket.sendall(line)
            else:
                self._socket.send(line, socket.MSG_DONTWAIT)


def end_own_session() -> None:
    """End this process and all others of its session, at once."""
    end_session(os.getsid(0), but=os.getpid())
    os.kill(os.getpid(), signal.SIGKILL)
