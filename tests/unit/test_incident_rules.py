"""Rules about an incident: which series and times they are about, and the form that writes them."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest
from support.rule_stories import keyed

from app.cli.rule_files import checked
from app.cli.rule_incident import MAINTENANCE, MUTE, answer_of, rules_of_incident, writable
from models.core.series import quote
from models.records.records import MOST_COMMENT
from models.rules.rule import Rule
from models.rules.rule_log import RuleLog
from pipelines.errors import InputError

INCIDENT: dict[str, Any] = {
    "series": ["gauge/web-1/shop/disk.used{device=sda}", "gauge/web.2/shop/disk.used{device=sdb}", "logs/a[1]//error"],
    "host": ["web-1", "web.2", "a[1]"],
    "start": "2026-01-05T10:00:00Z",
    "end": "2026-01-05T11:00:00Z",
}


def rules(what: str, incident: dict[str, Any] = INCIDENT, *span: str | None) -> tuple[Rule, ...]:
    """As they are after the log has taken them."""
    since, until = span or (None, None)
    log = RuleLog()
    for offset, record in enumerate(rules_of_incident("0123", incident, what, since, until, author="me")):
        log.take(*keyed(checked("", record)), offset, 1_767_571_200_000)
    return log.rules()


def test_a_mute_is_of_what_is_strange_on_its_hosts_with_any_labels_and_of_nothing_else() -> None:
    found = rules(MUTE)

    def muted(name: str) -> bool:
        return any(rule.selector.matches(name) for rule in found)

    assert all(map(muted, INCIDENT["series"]))
    assert muted("gauge/web-1/shop/disk.used{device=sdx}")
    others = [
        "gauge/web-1/shop/disk.free",
        "gauge/web-3/shop/disk.used",
        "gauge/webx2/shop/disk.used",
        "logs/a1//error",
        "host/web-1",
    ]
    assert not any(map(muted, others))
    assert all(rule.given_effects == {"mute": True} for rule in found)
    assert len(found) == 2


@pytest.mark.parametrize("name", ["re:.+", "re:", "re:[a]*", "*", "[a-z]*", "a?", "Re:x"])
def test_a_name_is_never_a_pattern(name: str) -> None:
    """Names are what senders choose: one that looks like a pattern is about itself alone."""
    own = {"/".join(["gauge", *[quote(name)] * 3]), f"logs/{quote(name)}//error"}
    others = {"gauge/a/a/a", "gauge/ab/ab/ab", "logs/ab//error", "gauge/x/re:/re:", "host/ab", "host/x"}
    for what in (MUTE, MAINTENANCE):
        found = rules(what, INCIDENT | {"series": sorted(own), "host": [name]})
        assert {one for one in own | others if any(rule.selector.matches(one) for rule in found)} == own


@pytest.mark.parametrize("part", ["host", "service", "metric"])
@pytest.mark.parametrize("what", [MUTE, MAINTENANCE])
def test_a_name_that_has_no_pattern_keeps_no_other_rule_from_being_written(part: str, what: str) -> None:
    names = {"host": "web-1", "service": "shop", "metric": "cpu"}
    series = ["/".join(["gauge", *map(quote, own.values())]) for own in (names, names | {part: "*" * 200})]
    records = rules_of_incident("0123", INCIDENT | {"series": series, "host": []}, what, None, None)
    found, left_out = writable(records)
    assert [one["host"] for one in found] == ["web-1"]
    assert left_out == len(records) - 1 == (1 if part == "host" or what == MUTE else 0)


def test_a_rule_about_a_name_that_has_no_pattern_alone_is_refused() -> None:
    incident = INCIDENT | {"series": [], "host": ["*" * 200]}
    with pytest.raises(InputError, match="host has 600 characters"):
        writable(rules_of_incident("0123", incident, MAINTENANCE, None, None))


EVERY = [
    "gauge/h-1//cpu",
    "gauge/h-1/web/cpu",
    "gauge/h-2//cpu",
    "counter/h-1//cpu",
    "gauge/h-1//{a=b}",
    "logs/h-1//",
    "logs/h-1//info",
    "logs/h-1/web/info",
    "template/h-1//info/aa",
    "template/h-1/web/info/aa",
    "service/h-1/",
    "service/h-1/web",
    "host/h-1",
    "host/h-2",
    "fleet///hosts in shard 3",
    "fleet///hosts in shard 4",
]


@pytest.mark.parametrize("name", EVERY)
def test_a_mute_is_of_the_series_alone_whatever_parts_it_lacks(name: str) -> None:
    (found,) = rules(MUTE, INCIDENT | {"series": [name], "host": []})
    assert list(filter(found.selector.matches, EVERY)) == [name]


def test_a_mute_of_several_series_is_of_each_of_them_and_of_nothing_else() -> None:
    for chosen in (EVERY[::2], EVERY[1::2], EVERY):
        found = rules(MUTE, INCIDENT | {"series": chosen, "host": []})
        assert [name for name in EVERY if any(rule.selector.matches(name) for rule in found)] == chosen


def test_a_mute_may_have_an_end() -> None:
    assert {rule.until for rule in rules(MUTE, INCIDENT, None, "2026-02-05T10:00:00Z")} == {"2026-02-05T10:00:00Z"}


def test_maintenance_is_of_whole_hosts_as_long_as_the_incident_or_as_it_is_given() -> None:
    found = rules(MAINTENANCE)
    assert [rule.host for rule in found] == ["a[[]1]", "web-1", "web.2"]
    assert {(rule.since, rule.until) for rule in found} == {(INCIDENT["start"], INCIDENT["end"])}
    assert all(
        rule.selector.matches(f"host/{host}") for rule, host in zip(found, ("a[1]", "web-1", "web.2"), strict=True)
    )
    (given,) = rules(
        MAINTENANCE, INCIDENT | {"series": [], "host": ["h"]}, "2026-01-05T09:00:00Z", "2026-01-05T12:00:00Z"
    )
    assert (given.since, given.until) == ("2026-01-05T09:00:00Z", "2026-01-05T12:00:00Z")


def test_the_answer_says_what_was_done_and_why() -> None:
    assert (answer_of(MUTE, ""), answer_of(MAINTENANCE, "a new disk")) == ("muted", "in maintenance: a new disk")
    assert len(answer_of(MUTE, "x" * MOST_COMMENT)) == MOST_COMMENT


def test_what_has_no_end_or_too_many_hosts_is_refused() -> None:
    with pytest.raises(InputError, match="give --until"):
        rules(MAINTENANCE, INCIDENT | {"end": None})
    with pytest.raises(InputError, match="wanted 1 to 50"):
        rules(MAINTENANCE, INCIDENT | {"host": [f"h{i}" for i in range(51)]})
    many = [f"gauge/a-long-name-of-a-host-{i}//cpu" for i in range(51)]
    with pytest.raises(InputError, match="wanted at most 50"):
        rules(MUTE, INCIDENT | {"series": many})
    assert len(rules(MUTE, INCIDENT | {"series": many[:20]})) == 20


@pytest.fixture
def called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the arguments are of the command that the form runs: of a program that only keeps them."""
    file = tmp_path / "called.json"
    answer = json.dumps({"written": 1, "rules": [{"rule": "x"}], "left_out": 2})
    program = f"import json, sys; open({str(file)!r}, 'w').write(json.dumps(sys.argv[1:])); print({answer!r})"
    monkeypatch.setenv("KAPPA_DASHBOARD_COMMAND", json.dumps([sys.executable, "-c", program]))
    return file


def form(button: int, role: str = "responder", over: bool = False) -> AppTest:
    """The form, of an incident that is open or over, with a button pressed."""

    def script(role: str, over: bool) -> None:
        from datetime import UTC, datetime
        from zoneinfo import ZoneInfo

        from dashboards import ruling
        from dashboards.chrome import View
        from dashboards.identity import Identity
        from dashboards.queries.frames import frame_of
        from dashboards.queries.incident import CONTRIBUTION, Incident

        noon = datetime(2026, 11, 21, 12, tzinfo=UTC)
        none = frame_of([], CONTRIBUTION)
        end = noon if over else None
        of = Incident("0123", "trial", noon, end, noon, "anomaly", "cpu high", 30.0, 2, ("vm-1",), (), (), none)
        ruling.show_form(View("trial", ["trial"], "1h", ZoneInfo("UTC"), 5, Identity("Ada", role)), of)

    test = AppTest.from_function(script, default_timeout=60, args=(role, over)).run()
    if test.button:
        test.button[button].click().run()
    assert not test.exception
    return test


@pytest.mark.parametrize(
    ("button", "over", "what", "hours"),
    [
        (0, False, "mute", 1),
        (0, True, "mute", 1),
        (3, True, "mute", 168),
        (4, False, "maintenance", 1),
        (5, True, "maintenance", 1),
    ],
)
def test_a_button_writes_rules_for_the_time_that_it_names(
    button: int, over: bool, what: str, hours: int, called: Path
) -> None:
    test = form(button, over=over)
    arguments = json.loads(called.read_text())
    assert arguments[:4] == ["rules", "incident", "0123", what]
    assert arguments[5:] == ["--comment=", "--author=Ada", "--version=trial", "--json"]
    until = datetime.fromisoformat(arguments[4].removeprefix("--until="))
    assert timedelta(hours=hours, minutes=-1) < until - datetime.now(UTC) <= timedelta(hours=hours)
    assert "`kappa rules remove`" in test.success[0].value and "You have the incident" in test.success[0].value
    assert test.warning[0].value.startswith("Left out: 2 rules")


def test_maintenance_of_an_incident_that_is_over_ends_with_it(called: Path) -> None:
    assert form(4, over=True).success
    arguments = json.loads(called.read_text())
    assert arguments[3:] == ["maintenance", "--comment=", "--author=Ada", "--version=trial", "--json"]


def test_who_is_no_responder_has_no_form() -> None:
    assert not form(0, "viewer").button
