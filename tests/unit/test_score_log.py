"""What pages ask of Kafka: which part of a range of `scores` is read, how windows become points, up to when a version was judged."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.settings import Settings
from app.kafka.judged_windows import JudgedWindows
from app.kafka.score_log import NEAR, CurvePoint, Question, add_score, later_start, score_of, window_around_focus
from app.runtime.bounded_server import BoundedServer
from app.runtime.score_server import MOST_SECONDS, handler, question_of, version_of
from dashboards.queries.deployment import judged_in_log
from pipelines.errors import InputError, ServiceUnavailable

QUESTION = {"version": "live", "series": ["gauge/vm-1//cpu"], "since": 0, "until": 60_000, "focus": 30_000}


@given(st.integers(0, 10_000), st.integers(0, 10_000), st.integers(0, 10_000), st.integers(1, 5_000))
def test_a_cut_is_within_its_range_has_the_focus_and_is_as_long_as_it_may_be(a: int, b: int, c: int, most: int) -> None:
    start, focus, end = sorted((a, b, c))
    first, last = window_around_focus(start, focus, end, most=most)
    assert start <= first <= focus <= last <= end or first == last == end
    assert last - first == min(most, end - start)


@given(st.integers(0, 99_000), st.integers(0, 99_000), st.integers(0, 99_000), st.integers(0, 50_000))
def test_a_slow_reading_goes_on_where_it_still_reaches_the_focus(a: int, b: int, focus: int, most: int) -> None:
    at, end = sorted((a, b))
    first = later_start(at, min(focus, end), end, most=most)
    assert first >= at, "what was read is not read again"
    assert first <= max(at, focus), "the focus is not left out"
    assert first + max(most, NEAR) >= min(focus, end) or first == at >= focus


def test_windows_become_one_point_of_means_and_extremes() -> None:
    point = CurvePoint()
    for at, value, kind in ((10, 1.0, "normal"), (20, 5.0, "anomaly"), (30, None, "warming")):
        point.add({"window_end": at, "value": value, "score": value, "kind": kind, "typical": 2.0})
    assert point.to_json() == {
        "time": 30, "value": 3.0, "least": 1.0, "most": 5.0, "score": 5.0, "kind": "anomaly", "typical": 2.0, "lower": None, "upper": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    "value", [None, b"", b"\xff", b"[" * 100_000, b"[]", b"{}", b'{"window_end": "x"}', b'{"window_end": 1.5}']
)
def test_what_is_no_score_is_none(value: bytes | None) -> None:
    assert score_of(value) is None


def test_scores_of_another_time_are_left_out() -> None:
    points: dict[int, CurvePoint] = {}
    asked = Question(("gauge/vm-1//cpu",), 10, 20, 20)
    for at in (9, 10, 20, 21):
        add_score(points, {"window_end": at}, asked, 1)
    assert sorted(points) == [10, 20]


def test_a_question_has_bounds() -> None:
    version, found = question_of(json.dumps(QUESTION | {"seconds": 1e9}).encode())
    assert (version, found.seconds) == ("live", MOST_SECONDS)
    many = [f"gauge/vm-{n}//cpu" for n in range(51)]
    for wrong in (
        {"series": many},
        {"focus": 70_000},
        {"since": -1},
        {"until": 1e12},
        {"seconds": "x"},
        {"series": [1]},
        {"version": 1},
    ):
        with pytest.raises(InputError, match="not a question about scores"):
            question_of(json.dumps(QUESTION | wrong).encode())
    for junk in (b"", b"[]", b"\xff", b"[" * 50_000):
        with pytest.raises(InputError, match="not a question about scores"):
            question_of(junk)


def test_a_question_about_a_version_names_it_alone() -> None:
    assert version_of(b'{"version": "v2"}') == "v2"
    for junk in (
        b"",
        b"[]",
        b"{}",
        b"[" * 50_000,
        b'{"version": 1}',
        b'{"version": "../x"}',
        b'{"version": "v2", "x": 1}',
    ):
        with pytest.raises(InputError, match="not a question about a version"):
            version_of(junk)


@contextmanager
def answering(monkeypatch: pytest.MonkeyPatch, **answers: Any) -> Iterator[None]:
    """Pages whose `kappa dashboard` gives these answers: an object, or the error that it raises."""

    def answer(found: Any) -> dict[str, Any]:
        if isinstance(found, Exception):
            raise found
        return dict(found)

    paths = {f"/{name}": lambda body, found=found: answer(found) for name, found in answers.items()}
    server = BoundedServer(("127.0.0.1", 0), handler(paths, "token"))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("KAPPA_DASHBOARD_SCORES_TOKEN", "token")
    for path in paths:
        where = f"http://127.0.0.1:{server.server_address[1]}{path}"
        monkeypatch.setenv(f"KAPPA_DASHBOARD_{path[1:].upper()}_URL", where)
    yield
    server.shutdown()
    server.server_close()
    thread.join()


def test_pages_ask_the_log_up_to_when_a_version_was_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(monkeypatch, judged={"until": 1_795_262_400_000}):
        assert judged_in_log("live") == datetime(2026, 11, 21, 12, tzinfo=UTC)
    for nothing in ({"until": None}, ServiceUnavailable("Kafka is away"), InputError("no right"), RuntimeError("?")):
        with answering(monkeypatch, judged=nothing):
            assert judged_in_log("live") is None
    assert judged_in_log("live") is None, "nobody listens there any more"
    monkeypatch.delenv("KAPPA_DASHBOARD_JUDGED_URL")
    assert judged_in_log("live") is None


def test_without_a_broker_nothing_is_known_of_what_was_judged(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="bootstrap_servers"):
        JudgedWindows(Settings(home=tmp_path)).until("live")
