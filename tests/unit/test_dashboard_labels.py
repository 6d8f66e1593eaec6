"""What people say of incidents: the record, its limits, and what it says of a version."""

import json
import socket
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dashboards import labels
from dashboards.judging import Judgement, judged
from dashboards.labels import LABELS, LabelError, Log
from dashboards.queries import INCIDENT
from dashboards.queries.frames import frame_of
from dashboards.queries.incident import CONTRIBUTION, Incident

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def incident(until: datetime | None = None) -> Incident:
    """An incident of two hosts."""
    return Incident(
        id="0123",
        version="live",
        since=NOON - timedelta(hours=1),
        until=until,
        latest=NOON,
        kind="anomaly",
        reason="cpu high",
        score=30.0,
        novelties=2,
        hosts=("vm-1", "vm-2"),
        services=("web",),
        templates=(),
        contributions=frame_of([{"series": "gauge/vm-1/web/cpu", "share": 1.0, "score": 30.0}], CONTRIBUTION),
    )


def test_record_has_what_the_pipeline_reads() -> None:
    said = labels.record(incident(), "false-alarm", "backup ran", "Ada", NOON)
    assert json.loads(json.dumps(said)) == {
        "@timestamp": "2026-11-21T12:00:00.000Z",
        "label": "false-alarm",
        "incident": "0123",
        "version": "live",
        "series": ["gauge/vm-1/web/cpu"],
        "host": ["vm-1", "vm-2"],
        "start": "2026-11-21T11:00:00.000Z",
        "end": None,
        "comment": "backup ran",
        "author": "Ada",
    }
    assert labels.record(incident(NOON), "true", "", "", NOON)["end"] == "2026-11-21T12:00:00.000Z"


@pytest.mark.parametrize(
    ("label", "comment", "author", "named"),
    [("maybe", "", "", "maybe"), ("true", "x" * 1001, "", "1,001"), ("true", "", "y" * 101, "101")],
)
def test_record_that_breaks_a_limit_is_refused_by_name(label: str, comment: str, author: str, named: str) -> None:
    with pytest.raises(LabelError, match=named):
        labels.record(incident(), label, comment, author, NOON)


@pytest.mark.parametrize("environment", [{}, {"KAPPA_DASHBOARD_KAFKA": "", "KAPPA_DASHBOARD_LABELS": "labels"}])
def test_pages_without_a_broker_say_what_to_set(environment: dict[str, str]) -> None:
    with pytest.raises(LabelError, match=r"kafka\.bootstrap_servers"):
        Log.of(environment)


def test_secrets_are_in_no_repr() -> None:
    options = {"bootstrap_servers": "kafka:9092", "sasl_plain_password": "secret"}
    log = Log.of({"KAPPA_DASHBOARD_KAFKA": json.dumps(options), "KAPPA_DASHBOARD_LABELS": "labels"})
    assert log.options == options
    assert "secret" not in repr(log)


def test_broker_that_is_away_is_a_sentence_for_writing_and_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels, "TIMEOUT_MS", 300)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    log = Log("labels", {"bootstrap_servers": address})
    with pytest.raises(LabelError, match="not written"):
        labels.write(log, labels.record(incident(), "true", "", "", NOON))
    with pytest.raises(LabelError, match="cannot be read"):
        labels.recent(log)


def said(
    label: str, identity: str = "a", host: str = "vm-1", begins: int = 60, ends: int | None = 30
) -> dict[str, Any]:
    """A label on an incident that lasted from and to so many minutes before noon."""
    start, end = (None if m is None else (NOON - timedelta(minutes=m)).isoformat() for m in (begins, ends))
    at = NOON.isoformat()
    return {"label": label, "incident": identity, "host": [host], "start": start, "end": end, "@timestamp": at}


def test_what_is_no_label_is_left_out_and_the_last_word_counts() -> None:
    values = [
        said("true"),
        {"heartbeat": True},
        {"label": "maybe", "incident": "a"},
        said("false-alarm"),
        said("true", "b"),
    ]
    raw = [json.dumps(value).encode() for value in values] + [b"{broken", b"[1]"]
    found = labels.latest(labels.labels_in(raw))
    assert {name: one["label"] for name, one in found.items()} == {"a": "false-alarm", "b": "true"}


def test_version_is_judged_by_host_and_time_or_the_incident_itself() -> None:
    incidents = frame_of(
        [
            dict.fromkeys(INCIDENT)
            | {
                "id": "z",
                "hosts": ["vm-1"],
                "since": (NOON - timedelta(minutes=50)).isoformat(),
                "latest": (NOON - timedelta(minutes=40)).isoformat(),
            }
        ],
        INCIDENT,
    )
    found = judged(
        [
            said("true"),
            said("expected-change", host="vm-2"),
            said("true", begins=300, ends=200),
            said("true", identity="z", host="vm-9"),
            said("false-alarm", ends=None),
            said("false-alarm", host="vm-2"),
        ],
        incidents,
    )
    assert found == Judgement(worth_knowing=4, found=2, false=2, raised=1)
    assert found.recall == 0.5


def test_nothing_labelled_is_no_recall() -> None:
    assert judged([], frame_of([], INCIDENT)).recall is None


def test_every_label_is_explained() -> None:
    assert set(LABELS) == {"true", "false-alarm", "expected-change"}
