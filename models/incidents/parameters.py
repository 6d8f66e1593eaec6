"""The settings of `correlate`: what is joined, and how many false alarms there may be."""

from __future__ import annotations

from dataclasses import dataclass

STATE_FORMAT = 16  # of the correlator's state, in checkpoints and savepoints


@dataclass(frozen=True)
class CorrelationParameters:
    """How episodes are joined into incidents, and which incidents are published.

    Parameters
    ----------
    join_seconds
        Longest time between two episodes that still belong together, and between the beginnings of two incidents that
        do. Raising it joins what lies further apart.
    close_seconds
        Event time after the end of the last episode at which an incident closes. Raising it makes incidents fewer and
        longer.
    stale_seconds
        An episode without an event for this long counts as ended. It bounds the life of an incident.
    growth
        An update is published when the score has grown by this factor since the last one. Raising it makes fewer
        updates.
    max_members
        Episodes that an incident remembers, about 400 bytes each. Of more, ended ones with the least evidence are
        dropped first; of those that go on the ids are kept, for as many as `max_hosts`.
    max_shown
        Contributions and templates that a record of an incident lists.
    max_episodes
        Ids of episodes that a record of an incident lists, 23 bytes each.
    max_hosts
        Hosts that an incident counts, about 20 bytes each. Further hosts are not counted.
    fleet_hosts
        Number of hosts on which the same must begin at once for one incident of the fleet. Raising it makes fewer of
        them.
    false_alarms_per_day
        Number of incidents a day that chance may cause in the whole fleet. Raising it publishes weaker and shorter
        anomalies as incidents, and publishes them sooner; what is weaker still stays an episode without an incident.
    """

    join_seconds: int = 60
    close_seconds: int = 60
    stale_seconds: int = 7 * 86_400
    growth: float = 1.5
    max_members: int = 500
    max_shown: int = 20
    max_episodes: int = 200
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
            ("max_episodes", 1),
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
