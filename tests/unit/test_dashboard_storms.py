"""What people read of open incidents: storms in one line, who has each, what to send to others, where the runbook is."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import pytest
import streamlit
from hypothesis import given
from hypothesis import strategies as st
from streamlit.proto.WidgetStates_pb2 import WidgetStates
from streamlit.testing.v1 import AppTest
from support.markdown import HOSTILE, as_read

from dashboards import open_incidents, runbook, sharing, storms, tables
from dashboards.acknowledging import short_status_text
from dashboards.chrome import View
from dashboards.queries.frames import Listing, frame_of
from dashboards.queries.incident import CAUSE, CONTRIBUTION, Incident
from dashboards.queries.labels import Answers, LabelDocument
from dashboards.words import JOINER

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
VIENNA = ZoneInfo("Europe/Vienna")
HARM = "<script>&/?{kind} [x](http://evil)\n# top"


def incidents(minutes: list[float]) -> pd.DataFrame:
    """Open incidents that began so many minutes after noon, the worst first."""
    return pd.DataFrame(
        [{"id": f"{n}", "since": NOON + timedelta(minutes=m)} for n, m in enumerate(minutes)], columns=["id", "since"]
    )


@given(st.lists(st.floats(0, 60), max_size=40))
def test_each_incident_is_in_one_group_and_groups_are_storms_or_alone(minutes: list[float]) -> None:
    found = storms.storms(incidents(minutes))
    assert sorted(name for group in found for name in group["id"]) == sorted(f"{n}" for n in range(len(minutes)))
    for group in found:
        assert len(group) == 1 or len(group) >= storms.LEAST
        assert group["since"].max() - group["since"].min() <= storms.WITHIN
        assert list(group.index) == sorted(group.index)
    firsts = [group.index[0] for group in found]
    assert firsts == sorted(firsts)


def test_many_within_minutes_are_a_storm_where_its_worst_would_be() -> None:
    found = storms.storms(incidents([40, 3, 1, 2, 4, 0, 2.5, 50]))
    assert [list(group["id"]) for group in found] == [["0"], ["1", "2", "3", "4", "5", "6"], ["7"]]
    assert len(storms.storms(incidents([1, 2, 3, 4, 5]))) == 5


def test_what_is_open_is_counted_by_severity_and_by_who_has_it() -> None:
    rows = pd.DataFrame({"id": ["a", "b", "c"], "severity": ["major", "minor", "minor"]})
    has, judged = LabelDocument("b", "acknowledged", NOON, author="Ada"), LabelDocument("c", "false-alarm", NOON)
    text = open_incidents.by_severity(Listing(rows, 3), {"b": Answers(has)})
    assert text.index("[major]") < text.index("[minor]")
    assert text.endswith("**2** · 1 acknowledged, 2 not")
    both = {"b": Answers(has, judged), "c": Answers(judged=judged)}
    assert open_incidents.by_severity(Listing(rows, 3), both).endswith("1 acknowledged, 1 labelled, 1 not")
    assert open_incidents.by_severity(Listing(rows, 300), {}).startswith("Of the 3 worst:")


def test_what_somebody_labelled_is_not_said_to_wait_for_somebody() -> None:
    has = LabelDocument("b", "acknowledged", NOON, author="Ada")
    for label, words in {
        "false-alarm": "false alarm",
        "expected-change": "expected change",
        "true": "worth knowing",
    }.items():
        judged = LabelDocument("b", label, NOON, author="Bob")
        assert short_status_text(Answers(judged=judged)) == f"Bob: {words}"
        assert short_status_text(Answers(has, judged)) == f"Ada has it · Bob: {words}"
    assert short_status_text(Answers()) == "nobody has it"


def incident(text: str = "cpu 99") -> Incident:
    cause = dict.fromkeys(CAUSE, "") | {"host": text, "why": text, "onset": NOON.isoformat(), "score": 1.0}
    share = {"series": "gauge/vm-1/web/cpu", "share": 1.0, "score": 20.0, "kind": "anomaly", "reason": text}
    return Incident(
        id="3f2a", version="live", since=NOON, until=None, latest=NOON, kind="anomaly", reason=text, score=20.0, novelties=1,
        hosts=(text,), services=("web",), templates=(), contributions=frame_of([share], CONTRIBUTION), severity="major", points=67,
        causes=frame_of([cause], CAUSE),
    )  # fmt: skip


EPISODES = pd.DataFrame({"since": [pd.Timestamp(NOON)], "kind": ["anomaly"], "reason": [HARM], "value": [float("nan")]})
SAID = {"label": None, "acknowledged": LabelDocument("3f2a", "acknowledged", NOON, comment=HARM, author="Ada")}


def test_a_summary_says_in_order_what_where_since_how_bad_and_why_in_the_zone_of_who_shares_it() -> None:
    lines = sharing.summary(incident(), "http://x/incident?incident=3f2a", VIENNA).splitlines()
    assert [line.split(":", 1)[0] for line in lines] == ["What", "Where", "Since", "How bad", "Probably why", "Page"]
    assert "2026-11-21 13:00:00 CET, not over yet" in lines[2]
    assert lines[3] == "How bad: major, 67 of 100"


@pytest.mark.parametrize("text", [HARM, *HOSTILE])
def test_files_hold_hostile_text_as_text(text: str) -> None:
    found = sharing.markdown(incident(text), EPISODES, SAID, VIENNA)
    assert "<script>" not in found
    assert "](http" not in found
    assert sum(line.startswith("# ") for line in found.splitlines()) == 1
    assert len(sharing.summary(incident(text), "http://x", VIENNA).splitlines()) == 6
    own = json.loads(sharing.incident_json(incident(text), EPISODES, SAID))
    assert (own["reason"], own["since"], own["labels"]["acknowledged"]["author"]) == (text, NOON.isoformat(), "Ada")
    assert own["episodes"] == [{"since": NOON.isoformat(), "kind": "anomaly", "reason": HARM}]
    assert as_read(found).startswith("# Incident 3f2a")


def test_what_is_shared_says_how_many_hosts_it_is_about() -> None:
    of = replace(incident("vm-1"), about={"affected": 2_000})
    assert "Where: vm-1 and 1,999 more; services web" in sharing.summary(of, "http://x", VIENNA)
    assert json.loads(sharing.incident_json(of, EPISODES, SAID))["affected"] == 2_000


def test_names_in_the_address_of_a_runbook_are_quoted() -> None:
    set_to = runbooks({"url": "https://wiki.example.net/{service}/{kind}?host={host}"})
    assert runbook.address(incident("a/b?c=../{kind}"), set_to) == (
        "https://wiki.example.net/web/anomaly?host=a%2Fb%3Fc%3D..%2F%7Bkind%7D"
    )
    assert runbook.address(incident(), {}) is None


def runbooks(*found: dict[str, Any]) -> dict[str, str]:
    """What the pages get of the settings."""
    return {"KAPPA_DASHBOARD_RUNBOOKS": json.dumps(found)}


def test_the_first_runbook_that_is_for_an_incident_is_linked_to() -> None:
    silent, other = {"url": "https://x/silent", "kinds": ["silence"]}, {"url": "https://x/{kind}", "service": "w*"}
    assert runbook.address(incident(), runbooks(silent, other)) == "https://x/anomaly"
    assert runbook.address(incident(), runbooks(silent)) is None


def test_no_text_of_a_table_is_a_formula_for_a_spreadsheet() -> None:
    rows = frame_of(
        [{"since": NOON, "reason": text, "hosts": [text], "value": -1.5, "n": 3} for text in ("=cmd", "a=b", "-")],
        ("since", "reason", "hosts", "value", "n"),
    )
    found = tables.visible_cells(rows)
    assert list(found["reason"]) == [f"{JOINER}=cmd", "a=b", f"{JOINER}-"]
    assert list(found["hosts"]) == [[one] for one in found["reason"]]
    assert rows["reason"].iloc[0] == "=cmd", "what a click leads to is as it was"
    assert all(found[name].equals(rows[name]) for name in ("since", "value", "n"))
    assert list(tables.visible_cells(rows[:0]).columns) == list(rows.columns)


def test_a_click_is_about_what_was_drawn_though_other_rows_are_read_by_then() -> None:
    def script() -> None:
        import pandas as pd
        import streamlit as st

        from dashboards.queries.frames import Listing
        from dashboards.tables import show_selectable_table, text_column

        reads = st.session_state["reads"] = st.session_state.get("reads", 0) + 1
        names = [f"incident {n}" for n in range(reads, 0, -1)]  # the newest is the first
        chosen = show_selectable_table(Listing(pd.DataFrame({"id": names}), reads), {"id": text_column("id")}, "table")
        st.text(None if chosen is None else chosen["id"])

    test = AppTest.from_function(script, default_timeout=60).run()
    test.run()
    assert list(test.dataframe[0].value["id"]) == ["incident 2", "incident 1"]
    click = WidgetStates()
    click.widgets.add(
        id=test.dataframe[0].proto.id,
        string_value=json.dumps({"selection": {"rows": [], "columns": [], "cells": [[0, "id"]]}}),
    )
    test._run(click)
    assert not test.exception
    assert test.text[0].value == "incident 2"
    test._run(click)
    assert test.text[0].value == "None", "what stays selected is no click"


def test_a_storm_counts_all_of_its_incidents_though_few_are_spelled_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(View, "link", lambda *_, **more: streamlit.text(more["incident"]))

    def script(total: int) -> None:
        from datetime import UTC, datetime, timedelta
        from zoneinfo import ZoneInfo

        from dashboards import open_incidents
        from dashboards.chrome import View
        from dashboards.queries.episodes import INCIDENT
        from dashboards.queries.frames import Listing, frame_of

        noon = datetime(2026, 11, 21, 12, tzinfo=UTC)
        row: dict[str, object] = {**dict.fromkeys(INCIDENT, "")} | {
            "until": None,
            "latest": None,
            "score": 1.0,
            "hosts": [],
        }
        rows = [row | {"id": f"{n}", "since": noon + timedelta(seconds=n), "hosts": [f"vm-{n}"]} for n in range(40)]
        view = View("live", ["live"], "1h", ZoneInfo("UTC"), 5)
        open_incidents.show_lines(Listing(frame_of(rows, INCIDENT), total), 30, {}, view, noon)

    for total, words in ((40, "**40 incidents** began"), (400, "**40 incidents or more** began")):
        test = AppTest.from_function(script, default_timeout=60, args=(total,)).run()
        assert not test.exception
        (storm,) = test.expander
        assert words in storm.label
        assert storm.label.endswith("40 hosts; the worst: ")
        assert [one.value for one in storm.text] == [f"{n}" for n in range(30)]
        assert [one.value for one in storm.caption] == ["10 more of them are in the table below."]


def test_more_open_incidents_than_are_listed_ask_for_no_shorter_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(View, "link", lambda *_, **more: streamlit.text(more["incident"]))

    def script() -> None:
        from datetime import UTC, datetime
        from types import SimpleNamespace
        from zoneinfo import ZoneInfo

        from dashboards import overview
        from dashboards.chrome import View
        from dashboards.queries.episodes import INCIDENT
        from dashboards.queries.frames import Listing, frame_of

        noon = datetime(2026, 11, 21, 12, tzinfo=UTC)
        own = {"since": noon, "latest": None, "until": None, "hosts": ["vm-1"], "affected": 2_000}
        row: dict[str, object] = {**dict.fromkeys(INCIDENT, ""), **own}
        listing = Listing(frame_of([row | {"id": f"{n}"} for n in range(40)], INCIDENT), 400)
        view = View("live", ["live"], "1h", ZoneInfo("UTC"), 5)
        found = SimpleNamespace(open_incidents=listing, answers={}, read=noon)
        overview.show_open(found, view)  # type: ignore[arg-type]

    test = AppTest.from_function(script, default_timeout=60).run()
    assert not test.exception
    captions = [one.value for one in test.caption]
    assert "Shown: the first 10 of 370 incidents." in captions, "they are open however long ago they began"
    assert test.expander[0].label.endswith("2,000 hosts; the worst: "), "as many as the document says"


@pytest.mark.parametrize("unseen", ["\u202e", "\u200b", "\u2066", "\ufe0f", "\x1b"])
def test_characters_that_are_not_seen_are_shown_in_tables_and_charts(unseen: str) -> None:
    text = f"vm-1{unseen}exe.log"
    rows = frame_of([{"since": NOON, "host": text, "hosts": [text], "value": 1.5}], ("since", "host", "hosts", "value"))
    found = tables.visible_cells(rows)
    assert [found["host"].iloc[0], *found["hosts"].iloc[0]] == ["vm-1\N{REPLACEMENT CHARACTER}exe.log"] * 2
    assert rows["host"].iloc[0] == text, "what a click leads to is as it was"

    def script(text: str) -> None:
        import pandas as pd

        from dashboards.theme import Chart, nominal

        y = nominal("host", title=text, sort=[text])
        Chart(pd.DataFrame({"host": [text], "value": [1.5]}), {"mark": "bar", "encoding": {"y": y}}).show("chart")

    test = AppTest.from_function(script, default_timeout=60, args=(text,)).run()
    assert not test.exception
    (chart,) = test.get("vega_lite_chart")
    drawn = chart.proto.SerializeToString()
    assert unseen.encode() not in chart.proto.spec.encode() and text.encode() not in drawn
    assert json.loads(chart.proto.spec)["encoding"]["y"]["sort"] == ["vm-1\N{REPLACEMENT CHARACTER}exe.log"]
