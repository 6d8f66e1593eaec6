"""Faults of simulated fleets, and the alarms of a rule without a model, are judged by when and where they are."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.fleet import START, InjectedFault, SimulatedFleet
from benchmarks.fleet_kinds import HOUR_MS, Incident, incidents_of, judged, naive_incidents, rates
from benchmarks.fleets import FLEETS
from benchmarks.log_fleets import LOG_FLEETS
from benchmarks.metric_fleets import METRIC_FLEETS
from benchmarks.microservices import MINUTE, joined_alerts
from benchmarks.naive import repeated
from models.core.series import parse

FAULT = InjectedFault("silent", "a", 10, 30)


def incident(hour: float, *hosts: str) -> Incident:
    return {"published": START + round(hour * HOUR_MS), "hosts": hosts}


@pytest.mark.parametrize(
    ("one", "minutes"),
    [
        (incident(10.1, "b", "a"), 6),
        (incident(12 + 9 / 60, "a"), 129),  # ten minutes after its first two hours
        (incident(12 + 11 / 60, "a"), None),
        (incident(10, "a"), None),  # of the window before it
        (incident(10.1, "b"), None),
    ],
)
def test_a_fault_is_found_by_an_incident_of_its_time_and_host_alone(one: Incident, minutes: float | None) -> None:
    assert judged([FAULT], [one]).minutes == [minutes]


def test_the_first_incident_in_a_fault_counts_and_the_others_are_incidents_too() -> None:
    found = judged([FAULT, InjectedFault("x", "c", 1, 2)], [incident(130, "a"), incident(11, "a"), incident(10.5, "a")])
    assert found.minutes == [30, None]
    assert (found.first, found.after, found.found) == (2, 1, "1 of 2")


def test_an_alarm_of_the_rule_takes_two_values_in_a_row() -> None:
    values = np.random.default_rng(1).standard_normal(100)
    values[[50, 52, 70, 71]] = 30.0, 30.0, 60.0, 90.0
    assert np.flatnonzero(repeated(values, 40)).tolist() == [71]


def test_alarms_within_the_time_apart_are_one_incident_with_all_their_hosts() -> None:
    found = joined_alerts([(9 * MINUTE, "c"), (MINUTE, "a"), (3 * MINUTE, "b")], 2 * MINUTE)
    assert [(one["published"], one["hosts"]) for one in found] == [(MINUTE, ["a", "b"]), (9 * MINUTE, ["c"])]


@pytest.mark.parametrize("name", [*METRIC_FLEETS, *LOG_FLEETS])
def test_faults_of_a_fleet_are_on_its_hosts_and_in_its_time_and_its_values_are_always_the_same(name: str) -> None:
    fleet, again = FLEETS[name](), FLEETS[name]()
    assert {fault.host for fault in fleet.faults} <= {parse(series).host for series in fleet.values}
    assert all(24 < fault.begin < fault.end <= 24 * fleet.days for fault in fleet.faults)
    for series, values in fleet.values.items():
        assert values.shape == (fleet.windows,) and not np.isinf(values).any()
        np.testing.assert_array_equal(values, again.values[series])


def test_the_rule_judges_a_counter_by_its_increase() -> None:
    increase, times = rates(np.array([5.0, 8.0, 1.0, 13.0]), 1000 * np.array([10, 11, 12, 16]))
    assert (increase.tolist(), times.tolist()) == ([3, 3], [11_000, 16_000])
    fleet = SimulatedFleet(days=2, seconds=300)
    rate = fleet.around(1e6, 0.1)
    rate[fleet.fault("rate x9", "a", 40, 41)] *= 9
    fleet.values["counter/a/web/bytes"] = np.cumsum(rate)
    assert judged(fleet.faults, naive_incidents(fleet)).minutes == [10]


def test_what_detector_and_rule_find_in_a_fleet_of_two_days() -> None:
    fleet = SimulatedFleet(days=2, seconds=300)
    for host in ("a", "b", "c"):
        fleet.values[f"gauge/{host}/web/cpu"] = fleet.around(10, 0.1)
        fleet.values[f"counter/{host}/web/bytes"] = np.cumsum(fleet.around(1e6, 0.1)) % 1e8  # starts again
        fleet.lines(host, "web", "info", "request <*> done", fleet.rng.poisson(30, fleet.windows))
    fleet.multiply("gauge/a/web/cpu", 40, hours=1, factor=9)
    fleet.end("b", 30, 3)
    fleet.fault("of which nothing is seen", "c", 44, 45)
    kappa, rule = (judged(fleet.faults, found) for found in (incidents_of(fleet), naive_incidents(fleet)))
    assert [one is not None for one in kappa.minutes] == [True, True, False]
    assert [one is not None for one in rule.minutes] == [True, False, False]
    assert rule.first == 1
