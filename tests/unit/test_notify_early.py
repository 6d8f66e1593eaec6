"""Early alarms as notifications: which channels hear of one, and what becomes of it, as stories without a clock and without Kafka."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.incident_records import alarm, incident

from app.core.settings import load
from app.notify.early_threads import FRESH_MS, READ_MS, SETTLED_MS, EarlyThreads
from app.notify.incident import LogPlace
from app.notify.links import Links
from app.notify.notification import alarm_notification, incident_notification
from app.notify.routes import Routes
from models.records.records import EarlyAlarm

HOOK = {"kind": "webhook", "url": "http://127.0.0.1:1/hook"}
EARLY = HOOK | {"early": True}
PLACE, NOW = LogPlace("early", 0, 3), 10**12


def threads(*routes: dict[str, Any], **more: Any) -> EarlyThreads:
    notify = load(notify={"channels": {"a": EARLY, "b": HOOK}, "routes": list(routes)} | more).notify
    return EarlyThreads(Routes(notify))


def raised(own: EarlyThreads, one: EarlyAlarm, ago: int = 0) -> list[tuple[str, str]]:
    return [(thread.channel, thread.why) for thread in own.on_raised(one, PLACE, NOW - ago, NOW)]


def test_only_channels_that_ask_for_early_alarms_are_told_of_one_and_once() -> None:
    own = threads()
    assert own.wanted and not EarlyThreads(Routes(load(notify={"channels": {"a": HOOK}}).notify)).wanted
    assert raised(own, alarm()) == [("a", "default")]
    assert raised(own, alarm()) == []


@pytest.mark.parametrize(
    ("route", "found"),
    [
        ({"host": "web-*", "channels": ["a", "b"]}, [("a", "route 1")]),
        ({"severity": "critical", "kinds": ["silence"], "channels": ["a"]}, [("a", "route 1")]),
        ({"labels": {"zone": "a"}, "service": "shop", "channels": ["a"]}, [("a", "route 1")]),
        ({"host": "web-*", "channels": ["b"]}, []),
        ({"host": "db-*", "channels": ["b"]}, [("a", "default")]),
    ],
)
def test_an_alarm_goes_where_an_incident_of_its_place_could_go(route: dict[str, Any], found: list[Any]) -> None:
    notify = load(notify={"channels": {"a": EARLY, "b": HOOK}, "routes": [route]}).notify
    assert [(one.channel, one.why) for one in Routes(notify).routed_early(alarm())] == found


def test_an_alarm_that_nobody_settles_ends_where_the_clock_is_set_back() -> None:
    own = threads()
    raised(own, alarm())
    assert own.take_overdue(NOW - 1_000) == [] and own.take_overdue(NOW + SETTLED_MS - 1) == []
    assert len(own.take_overdue(NOW - 86_400_000)) == 1


def test_an_incident_goes_on_under_the_key_of_the_first_alarm_of_its_host_and_the_others_end() -> None:
    own, other = threads(), alarm(1, id="ab", series="gauge/web-1//memory")
    raised(own, alarm())
    raised(own, other)
    elsewhere = alarm(2)
    raised(own, elsewhere)
    (ends,) = own.on_incident(incident(1), incident(1).id, ["a", "b"])
    assert own.key("a", incident(1).id) == alarm().id and own.key("b", incident(1).id) == ""
    assert (ends.alarm.id, ends.alarm.incident) == (other.id, incident(1).id)
    assert own.on_settled(alarm(1, "withdrawn"), NOW) == [], "what has become an incident is no longer withdrawn"
    assert [thread.alarm.status for thread in own.on_settled(alarm(2, "withdrawn"), NOW)] == ["withdrawn"]
    own.on_incident_closed(incident(1).id)
    assert own.key("a", incident(1).id) == ""


def test_an_alarm_ends_where_its_incident_does_not_go_to_the_channel() -> None:
    own = threads()
    raised(own, alarm())
    (ends,) = own.on_incident(incident(1), incident(1).id, ["b"])
    assert (ends.channel, ends.alarm.status) == ("a", "confirmed")


def test_nothing_is_said_of_an_alarm_whose_incident_is_known_or_that_is_old() -> None:
    own = threads()
    own.on_incident(incident(1), incident(1).id, ["a"])
    assert raised(own, alarm()) == []
    own.on_incident(incident(1, "close"), incident(1).id, [])
    assert raised(own, alarm(window_end=NOW + 10**13)) == [("a", "default")]
    assert raised(own, alarm(2), FRESH_MS + 1) == []


def test_nothing_is_sent_of_an_alarm_while_an_incident_of_its_host_is_open_however_long_ago_that_was_published() -> (
    None
):
    own, opened = threads(), incident(1)
    own.on_incident(opened, opened.id, ["a"])
    later = alarm(1, window_end=opened.window_end + 600_000)
    assert raised(own, later) == []
    assert raised(own, alarm(2, window_end=opened.window_end + 600_000)) == [("a", "default")]
    own.forget("other")
    assert raised(own, later) == []
    own.forget("live")
    assert raised(own, later) == [("a", "default")], "nobody would say that it is over"


def test_a_confirmed_alarm_waits_for_its_incident_and_one_that_nobody_settles_ends_by_itself() -> None:
    own = threads()
    raised(own, alarm(1))
    raised(own, alarm(2))
    assert own.on_settled(alarm(1, "confirmed", incident="ab"), NOW) == []
    assert own.take_overdue(NOW + READ_MS - 1) == []
    assert [thread.alarm.incident for thread in own.take_overdue(NOW + READ_MS)] == ["ab"]
    assert [thread.alarm.id for thread in own.take_overdue(NOW + SETTLED_MS)] == [alarm(2).id]


def test_an_incident_before_the_window_of_an_alarm_or_of_another_host_is_not_what_it_was_about() -> None:
    own = threads()
    raised(own, alarm())
    for other in (incident(2), incident(1, window_end=alarm().window_end - 10_000), incident(1, end=1)):
        assert own.on_incident(other, other.id, ["a"]) == []
        assert own.key("a", other.id) == ""


@given(
    st.lists(
        st.tuples(st.sampled_from(["raise", "open", "close", "confirmed", "withdrawn"]), st.integers(1, 3)), max_size=30
    )
)
def test_whatever_comes_in_any_order_each_alarm_that_was_told_of_ends_once(story: list[tuple[str, int]]) -> None:
    own, heard, ended, continued = threads(), set[str](), list[str](), set[str]()
    for what, number in story:
        if what == "raise" and alarm(number).id not in heard:
            heard |= {alarm(number).id for _ in raised(own, alarm(number))}
        elif what in ("open", "close"):
            one = incident(number, what)
            ended += [thread.alarm.id for thread in own.on_incident(one, one.id, ["a"] if what == "open" else [])]
            continued |= {own.key("a", one.id)} - {""}
        elif what != "raise":
            ended += [thread.alarm.id for thread in own.on_settled(alarm(number, what), NOW)]
    ended += [thread.alarm.id for thread in own.take_overdue(NOW + SETTLED_MS)]
    assert sorted(ended) == sorted(heard - continued)


def test_a_message_says_that_an_alarm_is_provisional_and_how_it_ended() -> None:
    links = Links("https://kappa.example.net/")
    opened, over = alarm_notification(alarm(), "open", links), alarm_notification(alarm(1, "withdrawn"), "close", links)
    assert opened.title == "[early] provisional: web-1/shop: latency{zone=a} 74.2, above 61.5"
    assert over.title == opened.title.replace("provisional", "withdrawn") and over.reason.endswith("; withdrawn")
    assert alarm_notification(alarm(), "close", links).title.startswith("[early] over: web-1/shop: ")
    large = alarm(series="gauge/web-1//memory", value=2.0e9 + 1e4, upper=2.0e9)
    assert "memory 2.00001G, above 2G; provisional" in alarm_notification(large, "open", links).text
    assert over and over.key == opened.key and over.end is not None
    assert (
        opened.link
        == "https://kappa.example.net/series?series=gauge%2Fweb-1%2Fshop%2Flatency%7Bzone%3Da%7D&version=live"
    )
    one = incident_notification(incident(1), "open", incident(1).id, links, opened.key)
    assert (one.key, one.incident) == (opened.key, incident(1).id) and f"confirms early alarm {opened.key}" in one.text


def test_an_alarm_and_the_incident_that_confirms_it_are_no_repeat_of_each_other_whatever_its_severity() -> None:
    links, one = Links(), incident(1, severity="info")
    opened = alarm_notification(alarm(), "open", links)
    confirmed = incident_notification(one, "open", one.id, links, opened.key)
    assert opened.identity == f"{alarm().id}/open/info"
    assert confirmed.identity == f"{alarm().id}/{one.id}/open/info"
    assert confirmed.identity == incident_notification(one, "open", one.id, links, opened.key).identity
    assert incident_notification(one, "open", one.id, links).identity == f"{one.id}/open/info"
