"""How many hosts could do the same: those that are there or were lately, not all that are remembered."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

import pytest
from support.fleet_story import START, Row, windows
from support.incident_stories import episode_event, incidents_of

from models.core.parameters import DetectorParameters
from models.detection.detector import ShardDetector
from models.records.records import Watched, total

FAST = DetectorParameters(window_seconds=60.0)
SLOW = DetectorParameters(window_seconds=300.0)  # few windows a day
HOUR, DAY = 12, 288  # windows


def rows_of(*hosts: str) -> dict[str, Row]:
    return {f"gauge/{host}/shop/load": 1.0 for host in hosts}


def pods(window: int) -> list[str]:
    """The pods of a minute: each has its own name and lives for 20 minutes, and they do not end together."""
    return [f"shop-{slot}-{(window + 4 * slot) // 20}" for slot in range(5)]


def watched(story: Iterable[Mapping[str, Row]], p: DetectorParameters = SLOW) -> list[Watched]:
    """What is watched after each window."""
    detector, found = ShardDetector(p), []
    for k, rows in enumerate(story):
        detector.step(START + (k + 1) * round(1000 * p.window_seconds), windows(rows))
        found.append(detector.watched)
    return found


def numbers(found: list[Watched]) -> list[tuple[int, int]]:
    return [(one.hosts_lately, one.services.get("shop", 0)) for one in found]


def test_pods_that_have_ended_are_no_part_of_the_population() -> None:
    found = [
        one.population(("gauge", "shop", "load")) for one in watched([rows_of(*pods(k)) for k in range(600)], FAST)
    ]
    assert set(found) == {5, 6}, "and who ended within three minutes"
    assert found.count(5) > found.count(6) / 4


def test_all_pods_of_a_service_that_fail_together_are_all_of_it() -> None:
    """Not 5 of some hundred: what the incident says of its reach, and how bad it is."""
    about = watched([rows_of(*pods(k)) for k in range(600)], FAST)[-1]
    failing = [
        episode_event(f"gauge/{host}/shop/load", window, status, start=1, score=60.0)
        for host in pods(599)
        for window, status in ((1, "open"), (4, "update"))
    ]
    found = [one for one in incidents_of(failing, watched=about) if one.status == "open"]
    assert [(one.affected, one.population, one.severity) for one in found] == [(5, 5, "critical")]
    assert found[0].reason.startswith("5 of 5 hosts with shop at once: ")
    assert about.population(("host", "silence")) == 5 < about.hosts


@pytest.mark.parametrize("before", [HOUR, 2 * DAY])
def test_an_outage_of_most_hosts_leaves_them_in_the_population_for_a_day(before: int) -> None:
    """However long they were there before: since the shard began, or for a day."""
    hosts = [f"web-{i}" for i in range(20)]
    story = [rows_of("node", *(hosts if 0 < k < before else hosts[:2])) for k in range(before + DAY + 2 * HOUR)]
    found = numbers(watched(story))
    assert set(found[1 : before + DAY]) == {(21, 21)}, "also in the window in which their silence is given up"
    assert found[-1] == (3, 3)


def test_hosts_that_came_later_are_in_an_outage_for_a_day_if_they_were_there_for_one() -> None:
    late, grown = 2 * HOUR, 2 * HOUR + DAY + 1
    story = [rows_of("node", *(["new"] if late <= k < grown else [])) for k in range(grown + DAY + 2 * HOUR)]
    found = [one for one, _ in numbers(watched(story))]
    assert (set(found[late : grown + DAY]), found[-1]) == ({2}, 1)


def test_a_host_that_was_there_for_a_while_counts_for_a_tenth_of_that() -> None:
    begin, end = 3 * HOUR, 13 * HOUR  # ten hours
    story = [rows_of("node", *(["worker"] if begin <= k < end else [])) for k in range(end + 2 * HOUR)]
    found = [one for one, _ in numbers(watched(story))]
    assert set(found[begin : end + HOUR - 1]) == {2} and set(found[end + HOUR :]) == {1}


def test_patience_for_silence_is_patience_for_the_population() -> None:
    hosts, p = [f"web-{i}" for i in range(9)], dataclasses.replace(SLOW, silence_patience_hours=48.0)
    story = [rows_of(*(hosts if k < HOUR else hosts[:1])) for k in range(HOUR + 2 * DAY + 2 * HOUR)]
    found = numbers(watched(story, p))
    assert set(found[: HOUR + 2 * DAY]) == {(9, 9)}
    assert found[-1] == (1, 1)


@pytest.mark.parametrize("begin", [0, 2 * HOUR])
def test_hosts_that_report_now_and_then_are_counted(begin: int) -> None:
    hosts = [f"web-{i}" for i in range(12)]
    story = [rows_of("node", *(h for i, h in enumerate(hosts) if k >= begin and (k + i) % 6 == 0)) for k in range(DAY)]
    assert set(numbers(watched(story))[begin + 12 :]) == {(13, 13)}


def test_a_service_counts_with_its_host_for_a_day() -> None:
    story = [rows_of("a") | ({"logs/a/backup/info": 1} if k < HOUR else {}) for k in range(DAY + 3 * HOUR)]
    found = [one.services.get("backup", 0) for one in watched(story)]
    assert (set(found[: HOUR + DAY]), found[-1]) == ({1}, 0)


def test_a_detector_that_goes_on_from_its_state_counts_the_same() -> None:
    story = [rows_of(*pods(k), *(["db"] if k % 7 else [])) for k in range(40)]
    whole, detector = watched(story, FAST), ShardDetector(FAST)
    for k, rows in enumerate(story):
        detector = ShardDetector.load(detector.dump(), FAST)
        detector.step(START + (k + 1) * 60_000, windows(rows))
        assert detector.watched == whole[k]


def test_it_does_not_matter_which_hosts_a_shard_has() -> None:
    story = [rows_of("node", *(pods(k) if k > HOUR else [])) for k in range(5 * HOUR)]
    shards = [
        watched([{name: row for name, row in rows.items() if len(name) % 2 == i} for rows in story]) for i in (0, 1)
    ]
    for whole, *parts in zip(watched(story), *shards, strict=True):
        found = total(parts)
        assert (found.hosts_lately, found.services) == (whole.hosts_lately, whole.services)
