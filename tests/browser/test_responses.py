"""What people answer to an incident, from its page: take it in hand, send it to others, mute it. The last changes what is found, so it comes last."""

from __future__ import annotations

import getpass
import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from zoneinfo import ZoneInfo

import pytest
from elasticsearch import Elasticsearch
from kafka import KafkaProducer
from playwright.sync_api import Locator, Page, expect
from pyspark.sql import SparkSession
from support.browser_fleet import BrowserFleet, now, run_to_end
from support.browser_visit import LAST, ZONE, Visit, first_incident, members_of, written_labels
from support.live_jobs import records
from support.malformed import iso
from support.replays import named, values

from app.core.settings import Settings
from app.core.timestamps import wall_clock
from app.kafka import rule_topic
from app.kafka.connection import client_options
from app.kafka.early_records import parse_alarm
from app.kafka.producer import BoundedProducer
from app.runtime.run import index_to_end
from dashboards.words import local_text, one_line, plain
from models.core.series import parse
from models.records.records import EarlyAlarm, early_id
from models.records.schema import plain as record_of
from replay import run
from replay.slices import RequestedRange

pytestmark = [pytest.mark.browser, pytest.mark.stack, pytest.mark.spark, pytest.mark.timeout(1800)]

WINDOW = 10_000
FAR_OFF = 1e6
MOST_TABS = 200


def test_who_acknowledges_has_it_in_the_log_and_then_on_the_pages(
    visit: Visit, pictures: Path, spark: SparkSession
) -> None:
    page = visit.open()
    first_incident(page)
    visit.heading("What was done")
    visit.settle()
    expect(page.get_by_text("has it, since")).to_have_count(0)
    expect(page.get_by_role("button", name=re.compile("Acknowledge"))).to_have_count(0)
    visit.sign_in()
    identity = parse_qs(urlsplit(page.url).query)["incident"][0]
    page.get_by_role("button", name=re.compile("Acknowledge")).click()
    expect(page.get_by_text("You have it: that is in the log")).to_be_visible()
    given = [one for one in written_labels(visit.fleet) if one["label"] == "acknowledged"]
    assert [(one["incident"], one["author"]) for one in given] == [(identity, getpass.getuser())]
    index_to_end(spark, visit.fleet.settings)
    expect(page.get_by_text(f"{getpass.getuser()} has it, since").first).to_be_visible()
    visit.picture(pictures, "acknowledged")
    visit.open()
    visit.heading(LAST["overview"])
    expect(page.get_by_text(re.compile(f"{getpass.getuser()} has it")).first).to_be_visible()
    expect(page.get_by_text(re.compile("1 acknowledged, ")).first).to_be_visible()


def test_who_has_no_mouse_opens_an_incident_acknowledges_and_mutes_it(visit: Visit) -> None:
    page, settings = visit.open(), visit.fleet.settings
    visit.heading(LAST["overview"])
    taken = {one["incident"] for one in written_labels(visit.fleet)}
    links = page.locator('[data-testid="stPageLink"] a[href*="incident="]').all()
    found = {parse_qs(urlsplit(link.get_attribute("href") or "").query)["incident"][0]: link for link in links}
    identity = next(name for name in found if name not in taken)
    press(found[identity])
    visit.heading("What was done")
    visit.settle()
    press(page.get_by_role("button", name=re.compile("Sign in")))
    reach(page.get_by_label(re.compile("Code that")))
    page.keyboard.type(visit.fleet.code)
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("stPopover").get_by_text(getpass.getuser())).to_be_visible()
    page.keyboard.press("Escape")
    visit.settle()
    press(page.get_by_role("button", name=re.compile("Acknowledge")))
    expect(page.get_by_text("You have it: that is in the log")).to_be_visible()
    assert identity in {one["incident"] for one in written_labels(visit.fleet) if one["label"] == "acknowledged"}
    press(page.get_by_role("button", name=re.compile("Mute this until")))
    press(page.get_by_test_id("stPopoverBody").get_by_role("button", name="a day from now"))
    expect(page.get_by_text(re.compile("Written: mute"))).to_be_visible()
    known = rule_topic.read(settings).in_effect(wall_clock()).known
    assert {json.loads(one.rule).get("mute") for one in known.values()} == {True}
    answers = [one["comment"] for one in written_labels(visit.fleet) if one["incident"] == identity]
    assert answers == ["", "muted"]
    assert all(identity.startswith(name.split()[1]) for name in known)
    rule_topic.write(settings, [{"record": "rule", "name": name, "removed": True} for name in known])


def reach(place: Locator) -> None:
    """Go there with the key Tab."""
    expect(place).to_be_visible()
    for _ in range(MOST_TABS):
        if place.evaluate("place => place === document.activeElement"):
            return
        place.page.keyboard.press("Tab")
    pytest.fail(f"{place} is not reached by {MOST_TABS} times Tab")


def press(place: Locator) -> None:
    """Go there with the key Tab, and press Enter."""
    reach(place)
    place.page.keyboard.press("Enter")


def test_share_gives_a_link_a_summary_in_plain_text_and_files(visit: Visit, pictures: Path) -> None:
    identity, document, reasons = members_of(visit.fleet)
    page = visit.open(f"incident?incident={identity}")
    visit.heading(LAST["incident"])
    visit.settle()
    page.get_by_text("Share", exact=True).click()
    blocks = page.get_by_test_id("stExpander").filter(has_text="Its address").get_by_test_id("stCode")
    expect(blocks).to_have_count(2)
    address, summary = (text.strip() for text in blocks.all_inner_texts())
    lines = dict(line.split(": ", 1) for line in summary.splitlines())
    novelty, began = document["novelty"], datetime.fromisoformat(document["event"]["start"])
    assert list(lines)[:4] == ["What", "Where", "Since", "How bad"] and lines["Page"] == address
    assert lines["What"] == f"{novelty['kind']}: {one_line(document['event']['reason'])}"
    assert lines["Where"].startswith(document["host"]["name"][0])
    assert lines["Since"].startswith(local_text(began, ZoneInfo(ZONE)))
    assert lines["How bad"].startswith(novelty["severity"])
    assert address.startswith(visit.fleet.address) and identity in address
    visit.picture(pictures, "share")

    markdown, whole = downloaded(page, "As Markdown"), json.loads(downloaded(page, "As JSON"))
    assert markdown.startswith(f"# Incident {identity}\n") and plain(lines["What"]) in markdown
    episodes = markdown.partition("## Episodes\n\n")[2].splitlines()
    assert len(episodes) == len(reasons) and all(any(plain(r) in line for line in episodes) for r in reasons)
    assert (whole["id"], whole["severity"], whole["hosts"]) == (identity, novelty["severity"], document["host"]["name"])
    assert sorted(one["reason"] for one in whole["episodes"]) == sorted(reasons)
    page.goto(address)
    visit.settle()
    expect(page.get_by_role("heading", name=document["event"]["reason"][:40]).first).to_be_visible()


def downloaded(page: Page, button: str) -> str:
    """The file that a button gives."""
    with page.expect_download() as found:
        page.get_by_role("button", name=button).click()
    return Path(found.value.path()).read_text()


def test_an_early_alarm_is_shown_as_provisional(visit: Visit, pictures: Path, spark: SparkSession) -> None:
    settings = visit.fleet.settings
    series, at = "gauge/vm-002//system.cpu.utilization", visit.fleet.fed
    end = at - at % WINDOW
    own = EarlyAlarm(
        id=early_id(series, end),
        version="live",
        series=series,
        window_end=end,
        status="raised",
        event_time=end - 4_000,
        value=97.2,
        upper=71.5,
        typical=34.0,
        chance=2.6e-7,
        bound_window_end=end - 3 * WINDOW,
    )
    value = json.dumps(record_of(own)).encode()
    assert parse_alarm(value) == own
    with BoundedProducer(client_options(settings)) as outbox:
        outbox.send(settings.topic("early"), value, key=own.id.encode(), partition=0, timestamp_ms=at)
    index_to_end(spark, settings)
    page = visit.open()
    visit.heading("Early alarms, provisional")
    expect(page.get_by_text(re.compile("system.cpu.utilization · vm-002: 97.2, above 71.5")).first).to_be_visible()
    page.get_by_role("heading", name="Early alarms, provisional").scroll_into_view_if_needed()
    visit.picture(pictures, "early")


def of_a_gauge(fleet: BrowserFleet) -> tuple[str, str]:
    """The latest incident of one host that is over and has a metric without labels: its id, and the name of that series."""
    with Elasticsearch(fleet.settings.elasticsearch.url or "", request_timeout=60) as client:
        query = {"bool": {"filter": [{"term": {"novelty.scope": "host"}}, {"term": {"novelty.status": "close"}}]}}
        found = client.search(index="kappa-incidents-live", query=query, size=50, sort=[{"@timestamp": "desc"}])
    for hit in found["hits"]["hits"]:
        for one in hit["_source"]["novelty"]["contributions"]:
            if one["series"].startswith("gauge/") and "{" not in one["series"]:
                return hit["_id"], one["series"]
    raise AssertionError("no incident that is over has a metric")


def inject(fleet: BrowserFleet, series: str, at: int) -> None:
    """A value far off, of a moment in the window that ends then."""
    of = parse(series)
    point: dict[str, Any] = {"@timestamp": iso(at - 2_000), "host.name": of.host, "metric.name": of.metric}
    point |= {"metric.value": FAR_OFF} | ({"service.name": of.service} if of.service else {})
    producer = KafkaProducer(**client_options(fleet.settings), acks="all")
    producer.send(fleet.settings.topic("telemetry"), json.dumps(point).encode(), partition=0, timestamp_ms=at)
    producer.close()


def test_what_is_muted_on_the_page_is_muted_from_the_next_window_on_and_in_a_replay(
    visit: Visit, pictures: Path, spark: SparkSession
) -> None:
    fleet, settings = visit.fleet, visit.fleet.settings
    identity, series = of_a_gauge(fleet)
    other = next(f"gauge/{host}//system.cpu.utilization" for host in ("vm-005", "vm-003") if host != parse(series).host)
    page = visit.open(f"incident?incident={identity}")
    visit.heading("What was it?")
    visit.settle()
    visit.sign_in()
    fleet.goes_on(now())
    page.get_by_test_id("stPopover").filter(has_text="Mute this until").get_by_role("button").click()
    choice = page.get_by_test_id("stPopoverBody").get_by_role("button", name="an hour from now")
    expect(choice).to_be_visible()
    visit.picture(pictures, "mute")
    choice.click()
    expect(page.get_by_text(re.compile("Written: mute"))).to_be_visible()
    at = now() + 2 * WINDOW  # the window after the one in which the rule was appended
    fleet.goes_on(at)
    for _ in range(4):
        for one in (series, other):
            inject(fleet, one, fleet.fed)
        fleet.goes_on(fleet.fed + WINDOW)
    fleet.goes_on(fleet.fed + 60_000 + 30 * WINDOW)
    run_to_end(spark, settings, fleet.health)
    assert other in opened(settings, at), "what is not muted is news"
    assert series not in opened(settings, at)
    judged = judged_of(values(settings, "scores"), series, at)
    kinds = {one["kind"] for one in judged}
    assert "muted" in kinds and "anomaly" not in kinds, f"nothing strange was held back: {judged[:8]}"

    again = named(settings, "again")
    run.replay(spark, run.plan(again, RequestedRange(), None), 2)
    assert values(again, "scores") == values(settings, "scores")
    assert opened(again, at) == opened(settings, at)


def opened(settings: Settings, begin: int) -> set[str]:
    """Series whose episodes a version has opened in a window that ends then, or later."""
    found = [json.loads(value) for _, value, _ in records(settings, "novelties")]
    return {
        one["series"]
        for one in found
        if one["record"] == "episode" and one["status"] == "open" and one["window_end"] >= begin
    }


def judged_of(scores: set[bytes], series: str, begin: int) -> list[dict[str, Any]]:
    """The scores of a series in the windows that end then, or later, in their order."""
    found = [json.loads(value) for value in scores if series.encode() in value]
    own = [one for one in found if one["series"] == series and one["window_end"] >= begin]
    return sorted(own, key=lambda one: one["window_end"])
