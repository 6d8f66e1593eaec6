"""What is needed of the sums of a bucket of hosts: a function of all of its series, however they are cut into blocks and merged."""

from __future__ import annotations

import random
import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SEED = 42  # of Spark's xxhash64
UNIT = 256
Sums = Mapping[bytes, int]  # name of a series -> how many points


def hashed(name: bytes) -> int:
    """Spark's xxhash64."""
    unsigned = xxhash.xxh64_intdigest(name, SEED)
    return unsigned - (1 << 64) if unsigned >> 63 else unsigned


def host_of(name: bytes) -> bytes:
    return name.split(b"/")[1]


def units(name: bytes) -> int:
    return -(-len(name) // UNIT)


def in_order(names: Iterable[bytes]) -> list[bytes]:
    return sorted(names, key=lambda name: (hashed(name), name))


def block_of(sums: Sums, most: int) -> bytes:
    """A block as `SumsBlock.java` has it; all values are 1."""
    parts = [struct.pack("<ii", len(sums), most)]
    for name in in_order(sums):
        points = sums[name]
        parts.append(struct.pack("<qi", hashed(name), len(name) << 1 | (points == 1)) + name)
        value = struct.unpack("<q", struct.pack("<d", 1.0))[0]
        wholes = [0, points, 0, 0, 0, 0, points, 0, 0]
        numbers = [7, value] if points == 1 else [points, 7, value, value, value, *wholes]
        parts.append(struct.pack(f"<{len(numbers)}q", *numbers))
    return b"".join(parts)


def series_of(block: bytes) -> dict[bytes, int]:
    """The series of a block, in its order, and their points."""
    found: dict[bytes, int] = {}
    at = 8
    while at < len(block):
        _, about = struct.unpack_from("<qi", block, at)
        name = block[at + 12 : at + 12 + (about >> 1)]
        at += 12 + len(name)
        found[name] = 1 if about & 1 else struct.unpack_from("<q", block, at)[0]
        at += 8 * (2 if about & 1 else 14)
    assert len(found) == struct.unpack_from("<i", block)[0]
    return found


def needed(sums: Sums, most: int, capacity: int) -> dict[bytes, int]:
    """The definition: the largest share of a host with which there is room for all, and of each host the first series up to one more."""
    own: dict[bytes, list[bytes]] = defaultdict(list)
    for name in in_order(sums):
        own[host_of(name)].append(name)
    total = {host: min(sum(map(units, names)), most) for host, names in own.items()}
    share = max(k for k in range(most + 1) if sum(min(n, k) for n in total.values()) <= capacity)
    hosts = in_order(own)[: capacity + 1] if len(own) > capacity else list(own)
    kept = []
    for host in hosts:
        before = 0
        for name in own[host]:
            if before < min(most, share + 1):
                kept.append(name)
            before += units(name)
    return {name: sums[name] for name in in_order(kept)}


def name_of(host: int, metric: int, long: int) -> bytes:
    name = f"{('gauge', 'counter')[metric % 2]}/host-{host}/s/m{metric}{{k={'x' * (UNIT * long)}}}".encode()
    return name.replace(b"{k=}", b"")


@dataclass(frozen=True)
class HostParts:
    most: int
    capacity: int
    parts: list[dict[bytes, int]]  # sums of each batch and partition


@st.composite
def cases(draw: st.DrawFn) -> HostParts:
    source = random.Random(draw(st.integers(0, 2**32)))
    hosts, long = draw(st.integers(1, 40)), draw(st.sampled_from((0, 0, 1, 7)))
    names = [
        name_of(host, metric, source.randrange(long + 1))
        for host in range(hosts)
        for metric in range(min(int(source.paretovariate(0.5)), 60))
    ]
    parts = [
        {name: source.choice((1, 1, 2)) for name in source.sample(names, source.randint(0, len(names)))}
        for _ in range(draw(st.integers(1, 8)))
    ]
    return HostParts(draw(st.integers(1, 30)), draw(st.integers(1, 120)), parts)


def together(parts: Iterable[Sums]) -> dict[bytes, int]:
    found: dict[bytes, int] = defaultdict(int)
    for part in parts:
        for name, points in part.items():
            found[name] += points
    return dict(found)


def merged(spark: SparkSession, case: HostParts, source: random.Random) -> bytes:
    """All parts in some order, grouped in some way."""
    java: Any = spark
    aggregator = java._jvm.kappa.MergedSums(case.capacity)
    blocks = [block_of(part, case.most) for part in case.parts]
    while len(blocks) > 1:
        one, other = (blocks.pop(source.randrange(len(blocks))) for _ in range(2))
        found = bytes(aggregator.merge(one, other))
        if source.random() < 0.3:  # as of a group that is made whole early
            found = bytes(aggregator.finish(found))
        blocks.append(found)
    return bytes(aggregator.finish(blocks[0]))


@settings(max_examples=150, deadline=None)
@given(case=cases(), seed=st.integers(0, 2**32))
def test_what_is_needed_is_the_same_in_every_order_and_grouping_of_merges(
    spark: SparkSession, case: HostParts, seed: int
) -> None:
    found = series_of(merged(spark, case, random.Random(seed)))
    wanted = needed(together(case.parts), case.most, case.capacity)
    assert list(found.items()) == list(wanted.items())


@pytest.mark.parametrize("hosts", [50, 51, 52, 400])
def test_of_more_hosts_than_there_is_room_for_one_more_is_left_of_those_with_the_least_hashes(
    spark: SparkSession, hosts: int
) -> None:
    sums = [{name_of(host, metric, 0): 1 for host in range(hosts)} for metric in range(4)]
    found = series_of(merged(spark, HostParts(10, 50, sums), random.Random(1)))
    assert found == needed(together(sums), 10, 50)
    left = 51 if hosts > 50 else 50
    assert {host_of(name) for name in found} == set(in_order({b"host-%d" % h for h in range(hosts)})[:left])


def test_a_host_below_the_share_loses_nothing_and_blocks_stay_small_whatever_comes(spark: SparkSession) -> None:
    java: Any = spark
    most, capacity = 100, 300
    aggregator = java._jvm.kappa.MergedSums(capacity)
    few = {name_of(0, metric, 0): 1 for metric in range(5)}
    state, largest = block_of(few, most), 0
    for batch in range(30):
        sums = {name_of(1 + host, 100 * batch + metric, 7): 1 for host in range(20) for metric in range(50)}
        state = bytes(aggregator.merge(state, block_of(sums, most)))
        largest = max(largest, len(state))
    assert few.items() <= series_of(bytes(aggregator.finish(state))).items()
    # what was within its bounds, and a batch that came; a host has a name more than its share
    assert largest < (capacity + 20 * 8 + 2 * most + 20 * 50 * 8) * (UNIT + 28)
