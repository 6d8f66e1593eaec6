"""A version's findings against the truth, on a case made by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.simulator.ground_truth import iso
from pipelines.errors import InputError
from replay.compare.ground_truth import Truth, compare_with_truth, finding, read

T = 1_700_000_000_000
MINUTE = 60_000
DELAY = 15_000
ALL = (T, T + 1_000 * MINUTE)


def at(minute: float) -> int:
    return T + round(MINUTE * minute)


def episode(kind: str, category: str, span: tuple[float, float | None], host: str) -> dict[str, Any]:
    begin, end = span
    return {
        "id": f"{kind}-{begin}",
        "kind": kind,
        "category": category,
        "from": iso(at(begin)),
        "to": None if end is None else iso(at(end)),
        "hosts": [host],
        "related_hosts": [],
        "services": [],
        "series": [],
        "templates": [],
    }


def event(host: str, minute: float, kind: str = "anomaly", status: str = "open") -> dict[str, Any]:
    common = {"start": at(minute), "window_end": at(minute), "kind": kind, "status": status}
    return {"id": f"{host}{minute}", "host": host, "series": f"gauge/{host}//cpu", **common}


def incident(host: str, minute: float) -> dict[str, Any]:
    return {**event(host, minute), "hosts": [host], "series": []}


EPISODES = (
    episode("cpu_contention", "fault", (100, 105), "a"),
    episode("memory_leak", "fault", (200, 230), "b"),
    episode("deployment", "change", (300, None), "c"),
    episode("traffic_moved", "change", (400, None), "d"),
)
TRUTH = Truth(frozenset("abcd"), EPISODES)


def test_faults_and_changes_are_judged_by_novelties_and_false_alarms_by_incidents() -> None:
    events = [event("a", 102), event("c", 303, "change", "close"), event("d", 402), event("b", 500)]
    opened = [incident("a", 102), incident("b", 500), incident("not simulated", 500)]
    assert compare_with_truth(TRUTH, [*events, events[0]], [*opened, opened[1]], DELAY, ALL) == {
        "faults": 2,
        "found": 1,
        "missed": 1,
        "changes": 2,
        "changes_announced": 1,
        "false_alarms": 1,
        "median_seconds_to_detect": 135.0,
    }


def test_episodes_that_begin_outside_the_windows_are_not_counted_but_excuse_alarms() -> None:
    found = compare_with_truth(TRUTH, [event("b", 201)], [incident("a", 104)], DELAY, (at(101), at(250)))
    assert (found["faults"], found["found"], found["changes"], found["false_alarms"]) == (1, 1, 0, 0)


def test_truth_is_read_as_the_simulator_writes_it(tmp_path: Path) -> None:
    file = tmp_path / "truth.json"
    file.write_text(json.dumps({"generator": "kappa simulate", "hosts": list("abcd"), "records": EPISODES}))
    assert read(file) == TRUTH


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not JSON"),
        ("[]", "lacks"),
        ('{"hosts": ["a"]}', "lacks"),
        ('{"hosts": ["a"], "records": [1]}', "record 0: 1 is no object"),
        (json.dumps({"hosts": ["a"], "records": [{**EPISODES[0], "from": "noon"}]}), "record 0: 'noon' is not a time"),
        (json.dumps({"hosts": ["a"], "records": [{**EPISODES[0], "hosts": "a"}]}), "record 0: hosts is 'a'"),
        (json.dumps({"hosts": ["a"], "records": [{"id": "x"}]}), "record 0: no kind"),
    ],
)
def test_a_file_that_is_no_truth_is_refused_in_one_line(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "truth.json"
    file.write_text(text)
    with pytest.raises(InputError, match=r"^truth [^\n]+; check --truth$") as error:
        read(file)
    assert says in str(error.value)


def test_a_truth_that_is_not_there_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^truth .*missing\.json: No such file or directory; wanted [^\n]+$"):
        read(tmp_path / "missing.json")


@pytest.mark.parametrize(
    ("changed", "is_one"),
    [
        ({}, True),
        ({"series": [{"series": "gauge/a//cpu", "share": 1.0}], "hosts": ["a"]}, True),
        ({"host": None}, False),
        ({"hosts": "a"}, False),
        ({"series": None}, False),
        ({"series": [{"share": 1.0}]}, False),
        ({"start": "noon"}, False),
        ({"window_end": None}, False),
    ],
)
def test_a_record_that_lacks_what_is_judged_is_no_finding(changed: dict[str, Any], is_one: bool) -> None:
    record = event("a", 101) | changed
    assert finding(json.dumps(record)) == (record if is_one else None)


@pytest.mark.parametrize("text", ["", "not JSON", "5", "[]", "null", "{'window_end': 5}", "[" * 100_000])
def test_what_is_no_record_is_no_finding(text: str) -> None:
    assert finding(text) is None
