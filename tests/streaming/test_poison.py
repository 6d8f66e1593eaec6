"""Records that are made to stop the chain are refused, cost little, and change nothing of what others sent."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.attacks import ATTACKS
from support.poison import POISON, Poison
from support.raw_records import WINDOWING, Raw, at, frame, line, point, raw

from pipelines.inputs.fields import HEARTBEAT
from pipelines.jobs import extract

pytestmark = pytest.mark.spark

TOPICS = ("telemetry", "logs", "labels", "changes", "rules")


def good(topic: str, number: int) -> bytes:
    """What somebody else sends."""
    if topic == "telemetry":
        return point(number + 0.5, at(1), host=f"good-{number % 5}")
    if topic == "logs":
        return line(f"request {number} is done", at(1), host=f"good-{number % 5}")
    if topic == "changes":
        return b'{"change":"other","service":"good"}'
    if topic == "rules":
        return b'{"record":"rule","name":"good","host":"good","mute":true}'
    return b'{"label":"true","series":["host/good"]}'


def closed(spark: SparkSession, poison: Sequence[Poison], *, sent: bool) -> list[Any]:
    """What comes of good records with poison between them, or with nothing at these offsets."""
    inputs = []
    for topic in TOPICS:
        rows: list[Raw] = []
        for i, each in enumerate(p for p in poison if p.topic == topic):
            rows.append(raw(good(topic, i), 2 * i, at(2), topic=topic, key=b"good"))
            rows += [raw(each.value, 2 * i + 1, at(2), topic=topic, key=each.key)] if sent else []
        inputs.append(frame(spark, rows).repartition(2))
    telemetry, logs, labels, changes, rules = inputs
    return extract.closed_windows(telemetry, logs, WINDOWING, labels=labels, changes=changes, rules=rules).collect()


@pytest.mark.parametrize("tried", [POISON, ATTACKS], ids=["poison", "attacks"])
def test_what_is_sent_is_read_or_refused_with_its_reason_and_changes_nothing_of_what_others_sent(
    spark: SparkSession, tried: Sequence[Poison]
) -> None:
    rows = closed(spark, tried, sent=True)
    refused = {(r["refused"]["topic"], r["refused"]["offset"]): r["refused"] for r in rows if r["refused"]}
    # a name may begin before the host's and go on behind it; that ends in a number
    named = re.compile(r"poison-[^/]*?-\d+(?!\d)")
    read = {host for r in rows if r["series"] for host in named.findall(r["series"])}
    wrong = []
    for topic in TOPICS:
        for i, each in enumerate(p for p in tried if p.topic == topic):
            letter = refused.pop((topic, 2 * i + 1), None)
            reason = None if letter is None else letter["reason"]
            good = reason is None if each.reason is None else (reason or "").startswith(each.reason)
            # what is no letter has been read: it is a series of its host
            if not good or (reason is None and each.host and each.host not in read):
                wrong.append((topic, each.name, each.reason, reason))
    assert wrong == [], wrong
    assert refused == {}
    # what is of a known form and no change counts as a heartbeat
    own = [r for r in rows if r["refused"] is None and r["series"] != HEARTBEAT]
    # what is no rule ends the one whose name is its key; what others sent has even offsets
    ended = [r for r in own if r["series"].startswith("rule//") and int(r["series"][-1]) % 2]
    assert {r["sample"] for r in ended} <= {None}
    others = [str(r) for r in own if "poison" not in r["series"] and r not in ended]
    assert sorted(others) == sorted(str(r) for r in closed(spark, tried, sent=False))
