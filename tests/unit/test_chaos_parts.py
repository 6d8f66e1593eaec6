"""The parts of `make chaos` that need no servers: the schedule, the proxy's faults, what counts as a difference."""

from __future__ import annotations

import json
from http.client import HTTPConnection, RemoteDisconnected
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from support.recording_server import server_that

from benchmarks.chaos import faults
from benchmarks.chaos.comparison import SideBySide, Written, held_against
from benchmarks.chaos.http_faults import CUT, ERRORS, MOST_BYTES, TOO_LARGE, FaultyProxy
from benchmarks.chaos.outcome import ChaosOutcome, FaultRecord
from benchmarks.chaos.page import BEGIN, END, PAGE, publish
from benchmarks.chaos.schedule import EVERYTHING, KILLS, schedule


def test_a_seed_gives_one_schedule() -> None:
    one, again, other = (list(islice(schedule(seed), 200)) for seed in (7, 7, 8))
    assert one == again != other
    assert [fault.number for fault in one] == list(range(1, 201))


def test_a_schedule_has_every_kind_and_waits_for_batches_half_of_the_time() -> None:
    planned = list(islice(schedule(7), 1000))
    assert {fault.kind for fault in planned} == set(EVERYTHING)
    assert 400 < sum(fault.batches > 0 for fault in planned) < 600
    assert {fault.kind for fault in islice(schedule(7, KILLS), 500)} == set(KILLS)


def asked(url: str, body: bytes = b"x" * (MOST_BYTES + 1)) -> tuple[int, bytes]:
    where = urlsplit(url)
    connection = HTTPConnection(where.hostname or "", where.port or 80, timeout=10)
    connection.request("POST", "/_bulk", body)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def test_the_proxy_passes_on_refuses_and_cuts() -> None:
    with server_that(200, b'{"errors":false}') as (url, requests), FaultyProxy(url) as proxy:
        assert asked(proxy.url) == (200, b'{"errors":false}')
        for status, name in ERRORS.items():
            proxy.fault = status
            found, body = asked(proxy.url)
            assert (found, json.loads(body)["error"]["type"]) == (status, name)
        proxy.fault = TOO_LARGE
        assert asked(proxy.url, b"{}")[0] == 200
        proxy.fault = CUT
        with pytest.raises(RemoteDisconnected):
            asked(proxy.url)
        proxy.fault = None
        assert asked(proxy.url)[0] == 200
        assert len(requests) == 3
        assert proxy.refused == len(ERRORS) + 1


def test_every_status_of_the_schedule_has_an_answer() -> None:
    statuses = {int(kind.split()[-1]) for kind in EVERYTHING if kind.startswith("elasticsearch answers")}
    assert statuses == set(ERRORS)
    assert faults.READ_ONLY.startswith("index.blocks")


def test_repeats_count_once_and_contradictions_are_differences() -> None:
    fault_free, chaos = Written(), Written()
    for text in (b"a", b"b"):
        fault_free.add(text)
    for text in (b"a", b"a", b"b", b"other b"):
        chaos.add(text)
    found = held_against(fault_free, chaos)
    assert (found.fault_free, found.chaos, found.only_fault_free, found.only_chaos, found.repeats) == (2, 3, 0, 1, 1)
    assert found.differences == 1


def test_an_outcome_passes_only_with_something_compared_and_nothing_different() -> None:
    outcome = ChaosOutcome(1, {})
    assert not outcome.passed
    outcome.records["scores"] = SideBySide(10, 10, 0, 0)
    assert outcome.passed
    outcome.topics_and_documents["scores"] = {"topics": 10, "documents": 9}
    assert not outcome.passed
    outcome.topics_and_documents = {}
    outcome.failure = "the jobs refuse to go on"
    assert not outcome.passed


def test_only_kills_that_hit_something_are_counted() -> None:
    outcome = ChaosOutcome(1, {})
    for number, (kind, hit) in enumerate((("kill jvm", "jvm 1"), ("kill worker", ""), ("hang jvm", "for 3 s"))):
        outcome.faults.append(FaultRecord(number, kind, "", hit, 0, 0.0))
    assert outcome.kills == 1
    assert outcome.by_kind() == {"hang jvm": 1, "kill jvm": 1}


def test_figures_are_written_between_their_marks(tmp_path: Path) -> None:
    outcome = ChaosOutcome(7, {}, events=12_345, chaos_seconds=600.0)
    outcome.records["scores"] = SideBySide(10_000, 10_000, 0, 0)
    outcome.faults = [FaultRecord(number, "kill jvm", "", "jvm 1", 0, 0.0) for number in range(20)]
    report, page = tmp_path / "report.json", tmp_path / "page.md"
    report.write_text(json.dumps(outcome.record()))
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    publish([report], page)
    publish([report], page)
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    assert "| 7 | 10 | 20 | 20 | 120 | 12,345 | 10,000 | 0 |" in text
    assert BEGIN in PAGE.read_text() and END in PAGE.read_text()
