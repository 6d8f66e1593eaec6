"""How bad is an incident, for who is on call? A number from 0 to 100, and a word for it.

    points = 25 + 25 rarity + 35 reach + 15 duration            of an anomaly or silence
    points = (25 rarity + 35 reach + 15 duration) / 2           of what is new, and of a change

    rarity    -log10(false alarms a day) / 4, between 0 and 1        1: chance makes one in 10,000 days
    reach     the larger of log10(hosts) / log10(30), and of the share of the hosts that could do the same
    duration  ln(minutes) / ln(60), between 0 and 1                  1: an hour or longer

so that what may have to be repaired is minor from its first moment, one host of many is never critical, and most hosts of a service at
once are so from the beginning. Something new, or a new level that has become the normal one, is more to know than to repair.

It fails where one host matters more than all others: the records do not say which.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from models.records.records import CRITICAL, INFO, LASTING_KINDS, MAJOR, MINOR

BEGUN, RARITY, REACH, DURATION = 25.0, 25.0, 35.0, 15.0
RAREST = 4.0  # powers of ten of days
MANY_HOSTS = 30
LONG_MINUTES = 60.0
# The least points of each word, the worst first.
LEAST = ((CRITICAL, 80), (MAJOR, 50), (MINOR, 25), (INFO, 0))


@dataclass(frozen=True)
class Severity:
    """The severity of an incident: a word and points from 0 to 100."""

    word: str
    points: int


def severity(kind: str, false_alarms_per_day: float | None, hosts: int, share: float, seconds: float) -> Severity:
    """The severity of an incident.

    Parameters
    ----------
    kind
        What its episodes make it.
    false_alarms_per_day
        Incidents of at least its score that chance makes; None where that is not known, which counts as one a day.
    hosts
        How many hosts it touches.
    share
        Of the hosts that could do the same as the strongest in it, how many do, 0 to 1; 0 where that is not known, or there is one alone.
    seconds
        How long it has lasted in event time.
    """
    often = 1.0 if false_alarms_per_day is None else false_alarms_per_day
    rarity = RAREST if often <= 0 else -math.log10(often)
    many = math.log10(max(hosts, 1)) / math.log10(MANY_HOSTS)
    lasting = math.log(max(seconds / 60, 1.0)) / math.log(LONG_MINUTES)
    more = RARITY * clip(rarity / RAREST) + REACH * clip(max(many, share)) + DURATION * clip(lasting)
    whole = round(BEGUN + more if kind in LASTING_KINDS else more / 2)
    return Severity(next(word for word, least in LEAST if whole >= least), whole)


def clip(value: float) -> float:
    """The number, but 0 below 0 and 1 above 1."""
    return min(max(value, 0.0), 1.0)
