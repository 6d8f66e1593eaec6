"""Storms: many incidents that began within minutes, which are one thing to read."""

from __future__ import annotations

from datetime import timedelta

import pandas as pd

WITHIN = timedelta(minutes=5)
LEAST = 6  # incidents


def storms(incidents: pd.DataFrame) -> list[pd.DataFrame]:
    """Groups of incidents, each in the order given: LEAST or more that began within WITHIN are one, any other is a group of its own.

    `incidents` has the columns of INCIDENT, the worst first; groups are in the order of their worst ones. A group begins with the earliest
    incident that is in none yet.
    """
    group_of: dict[int, int] = {}
    begun: pd.Timestamp | None = None
    times = list(incidents["since"])
    for place in sorted(range(len(times)), key=times.__getitem__):
        if begun is None or times[place] - begun > WITHIN:
            begun, number = times[place], place
        group_of[place] = number
    members: dict[int, list[int]] = {}
    for place in range(len(times)):
        members.setdefault(group_of[place], []).append(place)
    groups = [
        g for group in members.values() for g in ([group] if len(group) >= LEAST else [[place] for place in group])
    ]
    return [incidents.iloc[group] for group in sorted(groups)]
