"""The settings of `correlate`: what is joined, and how many false alarms there may be."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CorrelationParameters:
    """How novelties are joined.

    `join_seconds`    how far apart episodes may lie and still touch. Raising it joins more.
    `close_seconds`   quiet event time after the last episode's end that closes an incident. Raising it makes incidents
                      fewer and longer.
    `stale_seconds`   an episode without a word for so long counts as ended: bounds the life of an incident.
    `growth`          an update is worth saying when the score has grown by this factor.
    `max_members`     episodes an incident remembers, about 400 bytes each; ended ones with the least evidence go first.
    `max_shown`       contributions and templates that a statement lists.
    `max_hosts`       hosts an incident tells apart, about 20 bytes each: it counts no further.
    `fleet_hosts`     hosts that begin the same at once before it is one novelty of the fleet. Raising it joins less.
    `false_alarms_per_day`  what chance may make of the whole fleet's series: incidents a day. Raising it tells of weaker
                      and shorter anomalies as incidents.
    """

    join_seconds: int = 60
    close_seconds: int = 60
    stale_seconds: int = 7 * 86_400
    growth: float = 1.5
    max_members: int = 500
    max_shown: int = 20
    max_hosts: int = 10_000
    fleet_hosts: int = 3
    false_alarms_per_day: float = 1.0

    def __post_init__(self) -> None:
        """Raise ValueError for a number that is out of range."""
        for name, least in (
            ("join_seconds", 0),
            ("close_seconds", 0),
            ("stale_seconds", 1),
            ("growth", 1),
            ("max_members", 1),
            ("max_shown", 1),
            ("max_hosts", 1),
            ("fleet_hosts", 2),
        ):
            value = getattr(self, name)
            if not value >= least:
                msg = f"{name} is {value}; wanted at least {least}"
                raise ValueError(msg)
        if not self.false_alarms_per_day > 0:
            msg = f"false_alarms_per_day is {self.false_alarms_per_day}; wanted a number above 0"
            raise ValueError(msg)
