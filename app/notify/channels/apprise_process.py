"""Sends one message by apprise, in a process that ends: `python -m app.notify.channels.apprise_process`, the message as JSON on stdin.

apprise reads what a server answers in whole, and unpacks it, and a service that is not ready in time goes on in a thread. Both end with the
process, of whose memory there is a bound. It exits with TAKEN where the service took the message. The address, a secret, is on no command line.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from typing import Any

import apprise
import structlog

from app.core.secrets import masking
from app.supervision.parent import PYTHON
from app.supervision.processes import python_path
from models.core.printable import printable

log = structlog.get_logger()

TAKEN, NOT_TAKEN = 0, 3
MOST_MEMORY = 512 << 20  # bytes, of which Python and apprise are 60 MiB
MOST_OUTPUT, MOST_SHOWN = 65_536, 500  # of its own last words: bytes that are read, and characters
START_SECONDS = 20.0  # of a busy machine, until Python and apprise are there


def asset() -> apprise.AppriseAsset:
    """What apprise may do: nothing but send what it is given."""
    return apprise.AppriseAsset(
        app_id="kappa",
        app_desc="kappa",
        app_url="",
        image_url_mask="",
        image_url_logo="",
        plugin_paths=[],
        storage_mode="memory",
        async_mode=False,
        secure_logging=True,
        allow_templates=False,
        http_redirects=False,
    )


def is_taken(message: dict[str, Any], seconds: float) -> bool:
    """Send a message: `url`, `body`, `title` and `notify_type`. Whether the service took it in that time."""
    try:
        done = subprocess.run(
            [*PYTHON, "app.notify.channels.apprise_process"],
            input=json.dumps(message | {"timeout": seconds}).encode(),
            capture_output=True,
            timeout=seconds + START_SECONDS,
            check=False,
            env=os.environ | {"PYTHONPATH": python_path()},
        )
    except (subprocess.TimeoutExpired, OSError):
        return False
    output = last_words(done.stderr, message["url"])
    if output:
        log.warning("apprise could not send a message", output=printable(output))
    return done.returncode == TAKEN


def last_words(stderr: bytes, address: str) -> str:
    """The end of what it wrote on stderr, without the address, in which also the place of the host can be a secret."""
    masked = masking(address, address.partition("://")[2])
    return masked(stderr[-MOST_OUTPUT:].decode(errors="replace")).strip()[-MOST_SHOWN:]


def main() -> int:
    """Send what is on stdin."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who has started this waits for it
    if sys.platform.startswith("linux"):
        resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
    message = json.load(sys.stdin)
    sender = apprise.Apprise(asset=asset())
    sender.add(message.pop("url"))
    return TAKEN if sender.notify(**message, body_format="text", interpret_escapes=False) else NOT_TAKEN


if __name__ == "__main__":
    os._exit(main())  # without waiting for a service that is not ready
