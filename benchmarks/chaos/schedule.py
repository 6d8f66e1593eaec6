"""Which fault comes when: a pure function of a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

# How often each kind comes, relative to the others. A kill costs a start of the JVM at most; what lasts costs its seconds.
KILLS: Mapping[str, int] = {
    "kill run": 3,
    "kill child": 3,
    "kill jvm": 4,
    "kill worker": 3,
    "kill one worker": 3,
    "kill broker": 4,
    "kill elasticsearch": 3,
    "kill broker and jvm": 2,
    "kill everything": 1,
    "kill savepoint": 1,
    "kill promotion": 1,
    "kill rollback": 1,
}
# Mostly those after which Spark's JVM lives on: many times as many fit into an hour.
MANY_KILLS: Mapping[str, int] = {
    "kill one worker": 200,
    "kill worker": 40,
    "kill broker": 8,
    "kill elasticsearch": 6,
    "kill run": 1,
    "kill child": 1,
    "kill jvm": 2,
    "kill broker and jvm": 1,
    "kill everything": 1,
    "kill savepoint": 1,
}
TROUBLES: Mapping[str, int] = {
    "restart broker": 2,
    "broker away": 2,
    "hang broker": 2,
    "hang jvm": 2,
    "hang worker": 1,
    "hang elasticsearch": 1,
    "elasticsearch away": 2,
    "elasticsearch answers 401": 1,
    "elasticsearch answers 403": 1,
    "elasticsearch answers 413": 1,
    "elasticsearch answers 429": 1,
    "elasticsearch answers 503": 1,
    "elasticsearch cuts connections": 1,
    "elasticsearch read-only": 1,
}
FULL_DISKS: Mapping[str, int] = {"disk full checkpoint": 1, "disk full broker": 1, "disk full elasticsearch": 1}
# These end in a refusal that is written down, survives a restart and names the command that brings the version back. What the jobs
# have made is taken, so that the command brings back all of it.
REFUSALS: Mapping[str, int] = {"topic made again": 1, "log cut": 1, "records deleted unread": 1}
# The same of what agents have written, and of the clock: what is lost stays lost, so each has a test of its own.
LOSSES = ("input topic made again", "input log cut", "input records deleted unread", "clock back")
EVERYTHING: Mapping[str, int] = {**KILLS, **TROUBLES, **FULL_DISKS, **REFUSALS}
LONGEST_BLIND_WAIT = 25.0  # seconds: about twice a start, so that some faults fall into it
BLIND_SHARE = 0.5
LONGEST_AIMED_WAIT = 3.0
MOST_BATCHES = 3
LONG_SHARE = 0.1  # of the faults that last, so many last ten times as long


@dataclass(frozen=True)
class PlannedFault:
    """One fault of a schedule.

    Parameters
    ----------
    number
        From 1.
    kind
        A key of `EVERYTHING`.
    batches
        Wait until `extract` has committed so many batches more; 0: do not look.
    wait
        Then wait so many seconds.
    lasts
        Seconds after which a fault that lasts is ended.
    """

    number: int
    kind: str
    batches: int
    wait: float
    lasts: float


def schedule(
    seed: int,
    kinds: Mapping[str, int] = EVERYTHING,
    longest: float = 12.0,
    blind: float = BLIND_SHARE,
    longest_wait: float = LONGEST_BLIND_WAIT,
) -> Iterator[PlannedFault]:
    """Faults without end.

    Some come without looking at the jobs, so that they may fall into a start; the others come after some batches, so that the
    jobs get on.

    Parameters
    ----------
    seed
        The same seed gives the same schedule.
    kinds
        The kinds and their weights.
    longest
        The longest usual time that a fault lasts, seconds; one in ten lasts ten times as long.
    blind
        The share of faults that do not look at the jobs.
    longest_wait
        The longest wait before one of these, seconds.
    """
    chance = random.Random(seed)
    names, weights = list(kinds), list(kinds.values())
    number = 0
    while True:
        number += 1
        aimed = chance.random() < 1.0 - blind
        long = chance.random() < LONG_SHARE
        yield PlannedFault(
            number=number,
            kind=chance.choices(names, weights)[0],
            batches=chance.randint(1, MOST_BATCHES) if aimed else 0,
            wait=round(chance.uniform(0.0, min(longest_wait, LONGEST_AIMED_WAIT) if aimed else longest_wait), 2),
            lasts=round(chance.uniform(1.0, longest) * (10 if long else 1), 1),
        )
