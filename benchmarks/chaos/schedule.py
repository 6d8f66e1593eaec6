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
    "kill broker": 4,
    "kill elasticsearch": 3,
    "kill broker and jvm": 2,
    "kill everything": 1,
    "kill savepoint": 1,
    "kill promotion": 1,
    "kill rollback": 1,
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


def schedule(seed: int, kinds: Mapping[str, int] = EVERYTHING, longest: float = 12.0) -> Iterator[PlannedFault]:
    """Faults without end.

    Half of them come without looking at the jobs, so that some fall into a start; the others come after some batches, so
    that the jobs get on.

    Parameters
    ----------
    seed
        The same seed gives the same schedule.
    kinds
        The kinds and their weights.
    longest
        The longest usual time that a fault lasts, seconds; one in ten lasts ten times as long.
    """
    chance = random.Random(seed)
    names, weights = list(kinds), list(kinds.values())
    number = 0
    while True:
        number += 1
        aimed = chance.random() < 0.5
        long = chance.random() < LONG_SHARE
        yield PlannedFault(
            number=number,
            kind=chance.choices(names, weights)[0],
            batches=chance.randint(1, MOST_BATCHES) if aimed else 0,
            wait=round(chance.uniform(0.0, 3.0 if aimed else LONGEST_BLIND_WAIT), 2),
            lasts=round(chance.uniform(1.0, longest) * (10 if long else 1), 1),
        )
