"""What people say of incidents: how it is shown, how it is written, and what it says of a version."""

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from streamlit.testing.v1 import AppTest

from dashboards.chrome import View
from dashboards.judging import Judgement, judge_version
from dashboards.labelling import SAYS, label_text
from dashboards.queries import INCIDENT
from dashboards.queries.frames import frame_of
from dashboards.queries.labels import LabelDocument, of_document
from dashboards.words import plain
from models.records.records import ACKNOWLEDGED, LABELS

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
VIEW = View("live", ["live"], "1h", ZoneInfo("Europe/Berlin"), 5)
# Stands for `kappa`: keeps what it is called with, and answers as it is set up to.
STAND_IN = "import json, sys; open({file!r}, 'w').write(json.dumps(sys.argv[1:])); {then}"


def form(label: str | None, comment: str = "") -> AppTest:
    """The form, sent."""

    def script() -> None:
        from datetime import UTC, datetime
        from zoneinfo import ZoneInfo

        from dashboards import labelling
        from dashboards.chrome import View
        from dashboards.identity import Identity
        from dashboards.queries.frames import frame_of
        from dashboards.queries.incident import CONTRIBUTION, Incident

        noon = datetime(2026, 11, 21, 12, tzinfo=UTC)
        none = frame_of([], CONTRIBUTION)
        who = Identity("Ada", "responder")
        of = Incident("0123", "trial", noon, None, noon, "anomaly", "cpu high", 30.0, 2, ("vm-1",), (), (), none)
        labelling.show_form(View("trial", ["trial"], "1h", ZoneInfo("UTC"), 5, who), of)

    test = AppTest.from_function(script, default_timeout=60).run()
    if label is not None:
        test.radio[0].set_value(label)
    test.text_input[0].set_value(comment)
    test.button[0].click().run()
    assert not test.exception
    return test


@pytest.fixture
def called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a command that succeeds keeps what it was called with."""
    file = tmp_path / "called.json"
    program = STAND_IN.format(file=str(file), then="print('{}')")
    monkeypatch.setenv("KAPPA_DASHBOARD_COMMAND", json.dumps([sys.executable, "-c", program]))
    return file


def test_label_is_written_by_the_command_of_that_name(called: Path) -> None:
    test = form("false-alarm", "--version of the backup")
    assert json.loads(called.read_text()) == [
        "label",
        "0123",
        "false-alarm",
        "--comment=--version of the backup",
        "--author=Ada",
        "--version=trial",
        "--json",
    ]
    assert "It is in the log" in test.success[0].value


def test_a_label_that_does_not_reach_all_of_an_incident_says_so(called: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not form("true").warning
    program = STAND_IN.format(file=str(called), then="""print('{"left_out": 1200}')""")
    monkeypatch.setenv("KAPPA_DASHBOARD_COMMAND", json.dumps([sys.executable, "-c", program]))
    assert "does not reach the series of 1,200 episodes" in form("true").warning[0].value


def test_whoever_acknowledges_is_answered_until_it_is_on_the_page(called: Path) -> None:
    def script(author: str) -> None:
        from datetime import UTC, datetime
        from zoneinfo import ZoneInfo

        from dashboards import acknowledging
        from dashboards.chrome import View
        from dashboards.identity import Identity
        from dashboards.queries.frames import frame_of
        from dashboards.queries.incident import CONTRIBUTION, Incident
        from dashboards.queries.labels import LabelDocument

        noon = datetime(2026, 11, 21, 12, tzinfo=UTC)
        none = frame_of([], CONTRIBUTION)
        of = Incident("0123", "trial", noon, None, noon, "anomaly", "cpu high", 30.0, 2, ("vm-1",), (), (), none)
        label = LabelDocument("0123", "acknowledged", noon, author=author) if author else None
        view = View("trial", ["trial"], "1h", ZoneInfo("UTC"), 5, Identity("Ada", "responder"))
        acknowledging.show_button(view, of, label)

    test = AppTest.from_function(script, default_timeout=60, args=("",)).run()
    test.button[0].click().run()
    assert json.loads(called.read_text())[:3] == ["label", "0123", ACKNOWLEDGED]
    assert "You have it" in test.success[0].value
    assert "You have it" in test.run().success[0].value and not test.button, "the part is read again"
    for author, offered in (("Ada", 0), ("Bob", 1)):
        test.args = (author,)
        assert (len(test.run().success), len(test.button)) == (0, offered)


def test_nothing_is_written_before_a_label_is_chosen(called: Path) -> None:
    assert form(None).error[0].value == "Choose what it was."
    assert not called.exists()


def test_command_that_fails_is_its_own_sentence(called: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = STAND_IN.format(file=str(called), then="sys.exit('Kafka at kafka:9092 does not answer; start it')")
    monkeypatch.setenv("KAPPA_DASHBOARD_COMMAND", json.dumps([sys.executable, "-c", program]))
    test = form("true")
    assert test.error[0].value == f"The label was not written: {plain('Kafka at kafka:9092 does not answer; start it')}"
    assert not test.success


def test_pages_that_cannot_call_commands_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAPPA_DASHBOARD_COMMAND", raising=False)
    assert plain("kappa dashboard") in form("true").error[0].value


def test_label_is_said_in_words_at_the_time_of_the_reader() -> None:
    given_at = LabelDocument("0123", "false-alarm", NOON, comment="the *backup*", author="Ada")
    assert "**False alarm: nothing was wrong or new**, says Ada" in label_text(given_at, VIEW)
    assert label_text(given_at, VIEW).endswith(r"13:00: the \*backup\*")
    assert "says somebody" in label_text(LabelDocument("0123", "true", NOON), VIEW)


def test_document_of_a_label_may_lack_what_is_for_people() -> None:
    least: dict[str, Any] = {"@timestamp": "2026-11-21T12:00:00.000Z", "label": {"label": "true"}}
    assert of_document(least) == LabelDocument("", "true", NOON)


def given_at(
    label: str, identity: str = "a", host: str = "vm-1", begins: int = 60, ends: int | None = 30
) -> LabelDocument:
    """A label on an incident that lasted from and to so many minutes before noon."""
    start, end = (None if m is None else NOON - timedelta(minutes=m) for m in (begins, ends))
    return LabelDocument(identity, label, NOON, start, end, (host,))


@pytest.mark.parametrize("text", ["2026", "2026-11", "1795262400000", "", 1795262400000, "9999-99-99", "now", None])
def test_a_time_that_pages_cannot_read_hides_no_label(text: Any) -> None:
    source = {
        "@timestamp": NOON.isoformat(),
        "label": {"label": "true", "incident": "a"},
        "event": {"start": text, "end": text},
    }
    assert of_document(source) == LabelDocument("a", "true", NOON)


def test_a_time_without_a_zone_can_be_compared() -> None:
    source = {"@timestamp": NOON.isoformat(), "label": {"label": "true"}, "event": {"start": "2026-11-21T12:00:00"}}
    start = of_document(source).start
    assert start is not None and start <= NOON + timedelta(days=400)


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
    found = judge_version(
        [
            given_at("true"),
            given_at("expected-change", host="vm-2"),
            given_at("true", begins=300, ends=200),
            given_at("true", identity="z", host="vm-9"),
            given_at("false-alarm", ends=None),
            given_at("false-alarm", host="vm-2"),
        ],
        incidents,
    )
    assert found == Judgement(worth_knowing=4, found=2, false=2, raised=1)
    assert found.recall == 0.5


def test_nothing_labelled_is_no_recall() -> None:
    assert judge_version([], frame_of([], INCIDENT)).recall is None


def test_every_label_is_explained() -> None:
    assert {*SAYS, ACKNOWLEDGED} == set(LABELS)
