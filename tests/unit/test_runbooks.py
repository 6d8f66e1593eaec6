"""Which runbook an incident has: in the settings, in notifications, on pages."""

from __future__ import annotations

import dataclasses
import json
from urllib.parse import urljoin, urlsplit

import pytest
from support.incident_records import incident

from app.core.errors import SettingsError
from app.core.settings import Settings, load
from app.notify.links import Links
from app.notify.notification import incident_notification
from app.runtime.dashboard import environment

WIKI = "https://wiki.example.net"


def with_runbooks(*runbooks: dict[str, object], otherwise: str | None = None) -> Settings:
    return load(dashboard={"runbooks": runbooks, "runbook_url": otherwise})


@pytest.mark.parametrize(
    ("selected", "wanted"),
    [
        ({"host": "db-*"}, "/other"),
        ({"host": "web-?"}, "/own"),
        ({"host": "re:web-[0-9]+", "service": "shop"}, "/own"),
        ({"service": "sho"}, "/other"),
        ({"kinds": ["silence", "anomaly"]}, "/own"),
        ({"kinds": ["silence"], "host": "web-1"}, "/other"),
        ({"labels": {"zone": "a"}}, "/own"),
        ({"labels": {"zone": "b"}}, "/other"),
        ({"labels": {"none": "*"}}, "/other"),
        ({}, "/own"),
    ],
)
def test_all_that_a_runbook_names_must_hold_else_the_one_of_all_others_counts(
    selected: dict[str, object], wanted: str
) -> None:
    settings = with_runbooks({"url": f"{WIKI}/own", **selected}, otherwise=f"{WIKI}/other")
    assert incident_notification(incident(), "open", "1", Links.of(settings)).runbook == WIKI + wanted


def test_the_first_one_that_matches_counts_and_without_any_there_is_no_link() -> None:
    settings = with_runbooks({"url": f"{WIKI}/no", "host": "x"}, {"url": f"{WIKI}/1"}, {"url": f"{WIKI}/2"})
    assert Links.of(settings).runbook(incident()) == f"{WIKI}/1"
    assert Links.of(load()).runbook(incident()) == ""


def test_names_of_an_incident_are_quoted_whatever_they_hold() -> None:
    settings = with_runbooks({"url": f"{WIKI}/{{host}}/{{service}}?s={{series}}&i={{incident}}&v={{severity}}"})
    one = incident(hosts=["../a?b#c\n{kind}"], services=["<b>"])
    assert Links.of(settings).runbook(one) == (
        f"{WIKI}/..%2Fa%3Fb%23c%3F%7Bkind%7D/%3Cb%3E?s=gauge%2Fweb-1%2Fshop%2Fcpu%7Bzone%3Da%7D&i={1:024x}&v=major"
    )


@pytest.mark.parametrize("name", [".", ".."])
def test_no_name_leads_out_of_the_path(name: str) -> None:
    settings = with_runbooks({"url": f"{WIKI}/books/{{host}}{{service}}/of?h={{host}}"})
    found = Links.of(settings).runbook(incident(hosts=[name], services=[name]))
    assert found == f"{WIKI}/books/{name}~{name}~/of?h={name}~"
    alone = with_runbooks({"url": f"{WIKI}/books/{{host}}"})
    assert urljoin(WIKI, Links.of(alone).runbook(incident(hosts=[name]))).startswith(f"{WIKI}/books/{name}~")


def test_pages_get_the_same_runbooks() -> None:
    settings = with_runbooks({"url": f"{WIKI}/1", "labels": {"a": "b"}}, otherwise=f"{WIKI}/2")
    found = json.loads(environment(settings)["KAPPA_DASHBOARD_RUNBOOKS"])
    assert found == [json.loads(json.dumps(dataclasses.asdict(one))) for one in settings.dashboard.all_runbooks]
    assert [one["url"] for one in found] == [f"{WIKI}/1", f"{WIKI}/2"]


@pytest.mark.parametrize(
    "wrong", [{"host": "re:("}, {"url": f"{WIKI}/?token=abcdefghijklmnop"}, {"kinds": ["all"]}, {"hosts": "x"}]
)
def test_what_no_runbook_can_have_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(SettingsError, match=r"runbooks"):
        with_runbooks({"url": WIKI, **wrong})


@pytest.mark.parametrize(
    "url",
    [
        "https://{host}",
        "https://{host}.example.net/",
        "https://wiki.{service}?a",
        "https://wiki.example.net:{host}/",
        "http://wiki\\{host}",
    ],
)
def test_no_name_that_a_sender_chooses_says_where_a_runbook_is(url: str) -> None:
    wanted = r"runbook.*(before its path|names a host)"
    with pytest.raises(SettingsError, match=wanted):
        with_runbooks({"url": url})
    with pytest.raises(SettingsError, match=wanted):
        with_runbooks(otherwise=url)


@pytest.mark.parametrize("url", ["https://w.example/{host}", "https://w.example?{host}", "https://w.example#{host}"])
def test_whatever_a_host_is_called_a_runbook_stays_where_it_is(url: str) -> None:
    for host in ("evil.example", "@evil.example", "//evil.example", "\\evil.example", "..", "a:b@c"):
        found = Links.of(with_runbooks(otherwise=url)).runbook(incident(hosts=[host]))
        assert urlsplit(found).netloc == "w.example" and "\\" not in found
