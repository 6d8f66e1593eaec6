"""How surprising is it that chance makes an incident, and is that within the budget of false alarms?

The surprise s_i of an incident's series, nats, each a p-value e^-s_i, is combined to

    1/p = sum_i w_i e^s_i                         w_i = 1 / (2 N) for each of N series, 1 / (2 H) for each of H hosts

the weighted harmonic mean of p over *all* that is watched: the tail of the Cauchy combination (Liu and Xie, 2020; Wilson, 2019). A
series without an episode adds nothing. Twenty series that agree add at most ln 20 nats. -ln p is the *score* of the incident,
the surprise that anything of this size is anywhere in the fleet in a window. With W windows a day

    expected false alarms a day <= W e^-score         and an incident is published when that is at most the budget.

The bound is Bonferroni's, by the number of series that are judged in a window on average, of one with a row in six windows a
sixth: it holds however series and windows depend on one another, as far as e^-s is a probability. s is the strongest moment of an
episode, or what a run of silence or of lines has come to when it was published. What an episode gathers by lasting is no
probability, and counts for 4 nats at most (`Member.surprise`): all of it let through what is weak, lasts, and is normal. A new
level is weighed as an anomaly is: it is no less a matter of chance. That something is there that has never been, a host,
service, metric or template, is a fact (`EpisodeEvent.is_fact`), and published at once.

Hosts that begin at once are evidence, too, however weak each is: chance brings so many together with the probability of
`Onsets.coincidence`, which is one test a window, and the score is at least its surprise.

It fails where a model is miscalibrated: what it calls one in a million may be one in a thousand. Therefore s of a metric goes by the
calibration of its own series (`models.stats.per_series_calibration`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from models.records.records import Watched

DAY_SECONDS = 86_400.0
WHOLE = ("host", "service")  # about a whole host or service: one test for each host


def joint_surprise(surprise: Mapping[str, float], watched: Watched) -> float:
    """-ln of the probability that chance makes so much of what is watched, nats; `surprise` is by series.

    Where it is not known what is watched, the series with episodes count as all there are.
    """
    if not surprise:
        return 0.0
    terms = [nats - math.log(tests_of_series(series, watched, len(surprise))) for series, nats in surprise.items()]
    most = max(terms)
    return max(most + math.log(math.fsum(math.exp(term - most) for term in terms)), 0.0)


def tests_of_series(series: str, watched: Watched, known: int) -> float:
    """How many tests a series is one of: 1 / w."""
    if not watched.series:
        return known
    hosts = watched.hosts_lately or watched.hosts
    return 2.0 * max(hosts if series.partition("/")[0] in WHOLE else watched.tests or watched.series, 1)


def publication_threshold(watched: Watched, false_alarms_per_day: float) -> float:
    """The score from which on an incident is published, nats; 0 where it is not known what is watched."""
    at_all = expected_false_alarms(0.0, watched)
    return 0.0 if at_all is None else max(math.log(at_all / false_alarms_per_day), 0.0)


def expected_false_alarms(score: float, watched: Watched) -> float | None:
    """How many incidents of at least this score chance makes a day, at most; None where it is not known what is watched."""
    if not watched.series or not watched.window_seconds:
        return None
    return DAY_SECONDS / watched.window_seconds * math.exp(-score)
