"""Waiting for what a server does in its own time."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from kafka.errors import KafkaError

from pipelines.errors import ServiceUnavailable


def wait_until(ready: Callable[[], bool], seconds: float = 60.0) -> None:
    """Ask until something is so; what is not there yet may fail."""
    waiting = threading.Event()
    for _ in range(int(seconds / 0.1)):
        try:
            if ready():
                return
        except (ServiceUnavailable, KafkaError):
            pass
        waiting.wait(0.1)
    pytest.fail(f"waited {seconds:.0f} s in vain")
