"""The score of an incident as a probability, and the promise about false alarms."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
from scipy import stats
from support.incident_stories import CPU, DISK, WINDOW, T, at, episode_event, incidents_of

from models.incidents.budget import joint_surprise, publication_threshold
from models.incidents.correlator import Correlator
from models.incidents.parameters import CorrelationParameters
from models.records.records import NOTHING, EpisodeEvent, Watched

FLEET = Watched(series=1_000, hosts=50, window_seconds=10, services={"web": 40})


def test_one_series_of_many_pays_for_being_one_of_them() -> None:
    assert joint_surprise({CPU: 25.0}, FLEET) == pytest.approx(25 - math.log(2 * 1_000))
    assert joint_surprise({"host/a": 25.0}, FLEET) == pytest.approx(25 - math.log(2 * 50))


@pytest.mark.parametrize("number", [2, 20, 300])
def test_series_that_say_the_same_add_the_logarithm_of_their_number(number: int) -> None:
    alike = {f"gauge/a//m{n}": 20.0 for n in range(number)}
    assert joint_surprise(alike, FLEET) == pytest.approx(20 + math.log(number) - math.log(2 * 1_000))
    assert joint_surprise(alike, NOTHING) == pytest.approx(20)


def test_more_evidence_never_lowers_the_score_and_none_is_none() -> None:
    assert joint_surprise({CPU: 25.0, DISK: 3.0}, FLEET) > joint_surprise({CPU: 25.0}, FLEET)
    assert joint_surprise({}, FLEET) == joint_surprise({CPU: 2.0}, FLEET) == 0.0
    assert joint_surprise({CPU: 5_000.0}, FLEET) == pytest.approx(5_000 - math.log(2_000))


@pytest.mark.slow
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.95])
def test_the_joint_score_of_correlated_series_is_a_probability(correlation: float) -> None:
    rng, series, runs = np.random.default_rng(7), 20, 20_000
    common = rng.normal(size=(runs, 1))
    z = math.sqrt(correlation) * common + math.sqrt(1 - correlation) * rng.normal(size=(runs, series))
    nats = -stats.norm.logsf(z)
    names = [f"gauge/a//m{n}" for n in range(series)]
    scores = np.array([joint_surprise(dict(zip(names, row, strict=True)), NOTHING) for row in nats.tolist()])
    for share in (0.02, 0.01):  # a harmonic mean is exact in the limit of small ones
        assert 0.7 * share < np.mean(scores > -math.log(share)) < 1.4 * share
    fisher = stats.chi2.sf(2 * nats.sum(axis=1), 2 * series)
    assert (np.mean(fisher < 0.01) > 0.05) == (correlation > 0), "adding up counts what is correlated as if it were new"


def test_the_bar_is_one_alarm_in_the_windows_of_a_budget() -> None:
    assert publication_threshold(FLEET, 1.0) == pytest.approx(math.log(8_640))
    assert publication_threshold(FLEET, 0.1) == pytest.approx(math.log(86_400))
    assert publication_threshold(FLEET, 1e9) == publication_threshold(NOTHING, 1.0) == 0.0


def test_what_chance_may_make_stays_a_novelty_until_its_evidence_is_enough() -> None:
    weak = math.log(2_000) + math.log(8_640)
    under = episode_event(CPU, 1, evidence=weak - 0.1, score=10.0)
    assert (
        incidents_of([under, episode_event(CPU, 5, "close", start=1, evidence=weak - 0.1, score=10.0)], watched=FLEET)
        == []
    )
    grown = [under, episode_event(CPU, 4, "update", start=1, evidence=weak + 0.1, score=10.0)]
    (incident,) = incidents_of(grown, until=5, watched=FLEET)
    assert (incident.status, incident.window_end, incident.start) == ("open", at(4), at(1))
    assert incident.score == pytest.approx(math.log(8_640) + 0.1)
    assert incident.false_alarms_per_day == pytest.approx(math.exp(-0.1))


def test_what_an_episode_gathers_by_lasting_is_no_proof() -> None:
    weak = math.log(2_000) + math.log(8_640)
    story = [episode_event(CPU, 1, evidence=weak - 5, score=weak - 5)]
    story.append(episode_event(CPU, 4, "update", start=1, evidence=500.0, score=weak - 5))
    assert incidents_of(story, until=5, watched=FLEET) == []
    story.append(episode_event(CPU, 5, "update", start=1, evidence=500.0, score=weak - 3.9))
    assert [i.status for i in incidents_of(story, until=5, watched=FLEET)] == ["open"]


def test_two_novelties_of_a_host_are_told_together_sooner_than_alone() -> None:
    weak = math.log(2_000) + math.log(8_640) - 0.5
    assert incidents_of([episode_event(CPU, 1, evidence=weak, score=weak)], until=3, watched=FLEET) == []
    both = incidents_of(
        [episode_event(CPU, 1, evidence=weak, score=weak), episode_event(DISK, 2, evidence=weak, score=weak)],
        until=3,
        watched=FLEET,
    )
    assert [(i.status, i.novelties) for i in both] == [("open", 2)]


@pytest.mark.parametrize(("kind", "part"), [("change", "new host"), ("change", "new metric"), ("new", "new template")])
def test_that_something_is_there_is_no_matter_of_chance(kind: str, part: str) -> None:
    assert [
        i.status
        for i in incidents_of([episode_event(CPU, 1, kind=kind, evidence=5.0, part=part)], until=1, watched=FLEET)
    ] == ["open"]


def test_a_new_level_is_a_matter_of_chance_as_an_anomaly_is() -> None:
    weak = math.log(2_000) + math.log(8_640)
    for nats, statuses in ((weak - 5, []), (weak + 1, ["open"])):
        adopted = episode_event(CPU, 9, "update", start=1, kind="change", part="level", evidence=500.0, score=nats)
        story = [episode_event(CPU, 1, evidence=nats - 4, score=nats - 4), adopted]
        assert [i.status for i in incidents_of(story, until=9, watched=FLEET)] == statuses


def chance(
    days: int, hosts: int, metrics: int, correlated: bool, kind: str
) -> Iterator[tuple[int, list[EpisodeEvent]]]:
    """Windows of a fleet in which nothing happens: every p-value below 1e-4 becomes an episode of one window, of this kind."""
    rng, threshold = np.random.default_rng(11), 1e-4
    tests = days * 8_640 * hosts * (1 if correlated else metrics)
    windows = np.sort(rng.integers(0, days * 8_640, rng.binomial(tests, threshold)))
    for window, count in zip(*np.unique(windows, return_counts=True), strict=True):
        found = []
        for _ in range(count):
            host, nats = rng.integers(hosts), -math.log(threshold * rng.uniform())
            for metric in range(metrics) if correlated else [rng.integers(metrics)]:
                found += [
                    episode_event(
                        f"gauge/h{host}//m{metric}", int(window), status, kind=kind, evidence=nats, score=nats
                    )
                    for status in ("open", "close")
                ]
        yield T + int(window) * WINDOW, list({(s.id, s.status): s for s in found}.values())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["anomaly", "change"])
@pytest.mark.parametrize("correlated", [False, True])
def test_chance_makes_no_more_incidents_than_the_budget(correlated: bool, kind: str) -> None:
    days, hosts, metrics, budget = 30, 20, 10, 4.0
    watched = Watched(series=hosts * metrics, hosts=hosts, window_seconds=10)
    correlator = Correlator(CorrelationParameters(false_alarms_per_day=budget))
    found = [
        incident
        for end, events in chance(days, hosts, metrics, correlated, kind)
        for incident in correlator.step(end, events, watched)
        if incident.status == "open"
    ]
    # Half of the budget is kept for what is published about whole hosts.
    assert len(found) < days * budget / 2 + 3 * math.sqrt(days * budget / 2)
    assert len(found) > 0.5 * days * budget / 2, "the bound is not only kept, it is used"
