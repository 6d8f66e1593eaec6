"""When heartbeats are due: where a window can be closed, and never long after the last one."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.kafka.heartbeats import HEARTBEAT_KEY, STEP_SECONDS, next_heartbeat_ms
from models.rules.rule_log import record_of
from pipelines.inputs.fields import CONTROL
from pipelines.windowing import WindowingConfig

TIMES = st.integers(0, 4_102_444_800_000)
WINDOWS = st.builds(
    WindowingConfig,
    window_seconds=st.integers(1, 86_400),
    lateness_seconds=st.integers(0, 100_000),
    disorder_seconds=st.integers(0, 3_600),
)


@given(TIMES, WINDOWS)
def test_the_next_heartbeat_is_later_and_soon(now: int, windows: WindowingConfig) -> None:
    assert now < next_heartbeat_ms(now, windows) <= now + STEP_SECONDS * 1000


@given(st.integers(100_000, 40_000_000), WINDOWS)
def test_there_is_one_when_a_window_can_be_closed(number: int, windows: WindowingConfig) -> None:
    """A window can be closed the lateness and disorder after its end."""
    closable = 1000 * (number * windows.window_seconds + windows.watermark_delay_seconds)
    assert next_heartbeat_ms(closable - 1, windows) == closable


@given(TIMES, WINDOWS)
def test_no_window_is_without_one(now: int, windows: WindowingConfig) -> None:
    """Otherwise a window in which nothing was written would not exist, and nobody would count as silent in it."""
    length = 1000 * windows.window_seconds
    begin = now // length * length
    assert next_heartbeat_ms(begin - 1, windows) < begin + length


def test_with_the_defaults_there_are_two_a_window() -> None:
    beats: list[int] = []
    at = 1_000_000_000
    while len(beats) < 4:
        at = next_heartbeat_ms(at, WindowingConfig())
        beats.append(at - 1_000_000_000)
    assert beats == [5_000, 10_000, 15_000, 20_000], "windows end at multiples of 10 s and can be closed 15 s later"


def test_no_rule_can_have_the_key_of_heartbeats_by_which_compaction_would_take_it_away() -> None:
    name = HEARTBEAT_KEY.decode()
    assert re.search(CONTROL, name)  # refused by `extract`
    kinds: tuple[dict[str, Any], ...] = ({"mute": True}, {"removed": True}, {"channels": []})
    for rule in kinds:
        assert record_of(json.dumps({"record": "rule", "name": "heartbeat", **rule}))
        with pytest.raises(ValueError, match="printable"):
            record_of(json.dumps({"record": "rule", "name": name, **rule}))
