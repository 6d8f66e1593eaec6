"""Peers: a host against the other hosts of its role, from its first window on, and by its own usual offset once it has one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from benchmarks.offline import quantiles_of_others
from models.core.arrays import Floats
from models.core.parameters import DetectorParameters
from models.core.sparse_table import Table
from models.core.windows import Windows
from models.detection import peer_law
from models.detection.controlled_parameters import ControlledParameters
from models.detection.detector import ShardDetector
from models.detection.peer_detector import CONFIRMED
from models.incidents.correlator import Correlator
from models.incidents.parameters import CorrelationParameters
from models.records.records import EpisodeEvent, IncidentEvent

START, WINDOW = 1_767_571_200_000, 60_000  # windows of a minute: all of them are compared
HOSTS = 20
P = DetectorParameters(window_seconds=60.0)
RNG = np.random.default_rng


def window_of(values: Floats, peers: bool = True, chosen: Iterable[int] | None = None) -> Windows:
    """Rows of the hosts that report, NaN for those that do not; `chosen` of them are those of the shard."""
    there = [i for i in range(len(values)) if np.isfinite(values[i])]
    others = quantiles_of_others(values[there]) if peers and len(there) > 5 else np.full((4, len(there)), np.nan)
    own = [place for place, i in enumerate(there) if chosen is None or i in set(chosen)]
    names = np.array([f"gauge/vm-{i:03}/web/latency" for i in there], dtype=object)[own]
    x, none = values[there][own], np.full(len(own), None, dtype=object)
    zeros = np.zeros(len(own))
    return Windows(names, np.ones(len(own), dtype=np.int64), x, zeros, x, x, x, none, none, others[:, own].T)


SOON = DetectorParameters(
    window_seconds=60.0, grace_minutes=5.0
)  # what is new in the first half hour of all is no news


def reported(
    values: Floats, parameters: DetectorParameters = SOON, detector: ShardDetector | None = None, **how: Any
) -> list[EpisodeEvent]:
    """What is reported of values, `(windows, hosts)`, apart from what is new."""
    detector, found = detector or ShardDetector(parameters), []
    for t, row in enumerate(values):
        found += detector.step(START + WINDOW * (t + 1), window_of(row, **how))[1]
    return [event for event in found if not event.part.startswith("new ")]


def fleet(windows: int, seed: int = 1, hosts: int = HOSTS) -> Floats:
    """Latencies of hosts that differ by a quarter, move by 5 %, and have an hour's rhythm in common."""
    rng = RNG(seed)
    own = 100 * np.exp(0.25 * rng.standard_normal(hosts))
    rhythm = 1 + 0.3 * np.sin(np.arange(windows) / 60 * 2 * np.pi)
    out: Floats = own * rhythm[:, None] * np.exp(0.05 * rng.standard_normal((windows, hosts)))
    return out


def table(series: int) -> Table:
    return {name: np.zeros(series) for name in peer_law.Peers.KINDS}


def alarms(values: Floats) -> set[tuple[str, int]]:
    """Hosts, and the first window of each, that have an alarm by the law of peers alone: it is much quicker."""
    hosts = values.shape[1]
    s, found, last = table(hosts), dict[str, int](), np.full(hosts, -1)
    for t, row in enumerate(values):
        at = np.flatnonzero(np.isfinite(row))
        peers, own = quantiles_of_others(row[at]), {name: column[at] for name, column in s.items()}
        scored = peer_law.score(own, row[at], peers)
        above = (scored.surprise >= P.alert_nats) & (t >= 30)
        own["run"] = np.where(above, own["run"] + 1, 0)
        seconds = np.where(last[at] < 0, 60.0, 60.0 * (t - last[at]))
        peer_law.learn(own, scored, peers, seconds, above, own["run"] >= CONFIRMED, trusted=t < 30)
        for name, column in s.items():
            column[at] = own[name].astype(peer_law.Peers.KINDS[name])
        last[at] = t
        for i in at[own["run"] >= CONFIRMED].tolist():
            found.setdefault(f"vm-{i:03}", t)
    return set(found.items())


def by_peers(events: list[EpisodeEvent]) -> list[tuple[str, str]]:
    return [(event.host, event.status) for event in events if event.part == "peers"]


def test_a_host_that_is_bad_from_its_birth_is_found_by_its_peers_and_not_by_its_past() -> None:
    values = fleet(100)
    values[:60, 7] = np.nan
    values[60:, 7] *= 8
    found = [event for event in reported(values) if event.host == "vm-007"]
    assert (found[0].part, found[0].status) == ("peers", "open")
    assert found[0].window_end == START + 63 * WINDOW  # the third in a row
    assert found[0].start == START + 60 * WINDOW
    assert found[0].reason.startswith("web latency 1025, the other 19 hosts with web have 108.3 (")
    assert reported(values, peers=False) == []


def published(values: Floats) -> list[IncidentEvent]:
    """What is published of incidents, as `detect` and `correlate` do, apart from incidents of what is new alone."""
    detector, correlator, found = ShardDetector(SOON), Correlator(CorrelationParameters()), list[IncidentEvent]()
    for t, row in enumerate(values):
        end = START + WINDOW * (t + 1)
        events = [event for event in detector.step(end, window_of(row))[1] if not event.part.startswith("new ")]
        found += correlator.step(end, events, detector.watched)
    return found


def test_a_host_that_is_other_than_its_peers_is_an_incident_of_that_host_alone() -> None:
    values = fleet(100)
    values[:60, 7] = np.nan
    values[60:, 7] *= 30
    first, *more = published(values)
    assert (first.status, first.scope, first.hosts) == ("open", "host", ["vm-007"])
    assert first.start == START + 60 * WINDOW
    assert "the other 19 hosts with web have" in first.reason
    assert [cause.host for cause in first.causes] == ["vm-007"]
    assert {incident.id for incident in more} <= {first.id}


def test_what_all_hosts_do_alike_is_no_incident_of_single_hosts() -> None:
    values = fleet(200)
    values[150:] *= 30
    found = published(values)
    assert [incident.scope for incident in found if incident.status == "open"] == ["fleet"]
    assert len(found[-1].hosts) == HOSTS


def test_a_fault_in_the_first_half_hour_of_a_host_is_found() -> None:
    values = fleet(200)
    values[:60, 7] = np.nan
    values[75:95, 7] *= 3.5
    assert by_peers(reported(values))[:1] == [("vm-007", "open")]
    assert reported(values, peers=False) == []


def test_a_host_that_diverges_for_hours_is_found() -> None:
    values = fleet(5_000)
    values[2_000:, 3] *= 1 + 2.5 * np.arange(3_000) / 3_000
    ((host, first),) = alarms(values)
    assert host == "vm-003"
    assert 2_000 < first < 4_500


def test_hosts_that_are_different_when_a_fleet_is_first_seen_are_no_news() -> None:
    values = fleet(250)
    values[:, 7] *= 8
    assert reported(values, P) == []


def test_what_all_hosts_do_alike_is_not_one_host_s_fault() -> None:
    values = fleet(1_500)
    values[1_000:] *= 4
    assert alarms(values) == set()


def test_a_host_that_always_was_different_is_not_reported() -> None:
    values = fleet(1_500)
    values[:, 5] *= 2.5
    assert alarms(values) == set()


def test_machines_that_join_or_leave_are_no_fault_of_the_others() -> None:
    values = fleet(3_000, hosts=30)
    values[:1_000, 16:] = np.nan
    values[:, 16:20] *= 2.0  # a larger kind
    values[2_000:, :5] = np.nan
    assert alarms(values) == set()


def test_errors_among_hosts_that_hardly_have_any_are_left_to_the_model_of_the_series() -> None:
    values = RNG(3).poisson(0.05, (3_000, HOSTS)) / 10.0
    assert alarms(values) == set()


def test_where_nine_in_ten_peers_have_one_value_nothing_is_surprising_and_nothing_is_learnt() -> None:
    s, peers = table(1), np.array([[19.0], [0.0], [0.0], [0.0]])
    found = peer_law.score(s, np.array([5.0]), peers)
    assert found.surprise == 0
    nothing = np.zeros(1, dtype=bool)
    peer_law.learn(s, found, peers, np.array([60.0]), nothing, nothing)
    assert s["weight"] == 0


def test_an_episode_ends_when_the_host_is_like_its_peers_again() -> None:
    values = fleet(190)
    values[:60, 7] = np.nan
    values[60:120, 7] *= 8
    last = [event for event in reported(values) if event.host == "vm-007"][-1]
    assert (last.status, last.kind, last.part) == ("close", "anomaly", "peers")


def test_a_host_that_stays_different_is_a_change_and_then_normal() -> None:
    values = fleet(500)
    values[:60, 7] = np.nan
    values[60:, 7] *= 8
    found = [event for event in reported(values) if event.host == "vm-007"]
    assert [event.kind for event in found if event.status == "close"] == ["change"]
    assert found[-1].status == "close"
    assert found[-1].window_end - found[0].start == 1000 * P.adoption_seconds(P.patience_minutes) + WINDOW


def test_rows_of_a_muted_or_ignored_direction_are_not_reported() -> None:
    values = fleet(100)
    values[:60, 7] = np.nan
    values[60:, 7] *= 8
    for rule in ({"mute": True}, {"direction": "down"}):
        rules = ({"metric": "latency", **rule},)
        assert reported(values, ControlledParameters(window_seconds=60.0, grace_minutes=5.0, rules=rules)) == []  # type: ignore[arg-type]


def test_what_is_reported_does_not_depend_on_the_other_hosts_of_the_shard_but_on_their_values() -> None:
    values = fleet(100)
    values[:60, 7] = np.nan
    values[60:, 7] *= 8
    together = reported(values)
    apart = reported(values, chosen=range(10)) + reported(values, chosen=range(10, 20))
    assert sorted(apart, key=lambda e: (e.window_end, e.series)) == together


def test_a_detector_that_is_saved_and_loaded_goes_on_bit_for_bit() -> None:
    values = fleet(120)
    values[:40, 7] = np.nan
    values[70:, 7] *= 8
    one, other = ShardDetector(P), ShardDetector(P)
    for t, row in enumerate(values):
        end, rows = START + WINDOW * (t + 1), window_of(row)
        a, b = one.step(end, rows), other.step(end, rows)
        assert repr(a[1]) == repr(b[1])
        np.testing.assert_array_equal(a[0].score, b[0].score)
        if t % 40 == 7:
            other = ShardDetector.load(other.dump(), P)
    assert one.dump() == other.dump()


@pytest.mark.parametrize("peers", [5, 9, 19, 99])
@pytest.mark.parametrize("shape", ["normal", "lognormal", "heavy"])
def test_new_hosts_that_are_like_the_others_are_not_more_surprising_than_promised(peers: int, shape: str) -> None:
    rng, trials = RNG(peers), 20_000
    draws = {
        "normal": rng.standard_normal((trials, peers + 1)),
        "lognormal": np.exp(0.4 * rng.standard_normal((trials, peers + 1))),
        "heavy": rng.standard_t(5, (trials, peers + 1)),
    }[shape]
    ordered = np.sort(draws[:, 1:], axis=1)
    places = [max(0.1 * (peers - 1), 1.0), 0.5 * (peers - 1), min(0.9 * (peers - 1), peers - 2.0)]
    quantiles = [
        ordered[:, int(at)] + (ordered[:, min(int(at) + 1, peers - 1)] - ordered[:, int(at)]) * (at % 1)
        for at in places
    ]
    found = peer_law.score(table(trials), draws[:, 0], np.array([np.full(trials, float(peers)), *quantiles]))
    for nats in (5.0, 7.0, 9.0):
        assert (found.surprise >= nats).mean() <= 1.5 * np.exp(-nats) + 3 / trials


def test_a_host_as_restless_as_its_peers_is_not_more_surprising_than_promised() -> None:
    values, s, seen = fleet(3_000, seed=9), table(HOSTS), []
    for row in values:
        peers = quantiles_of_others(row)
        found = peer_law.score(s, row, peers)
        nothing = np.zeros(HOSTS, dtype=bool)
        peer_law.learn(s, found, peers, np.full(HOSTS, 60.0), found.surprise >= 10.5, nothing)
        seen.append(found.surprise)
    for nats in (3.0, 5.0, 7.0, 9.0):
        assert (np.concatenate(seen) >= nats).mean() <= 1.5 * np.exp(-nats)
