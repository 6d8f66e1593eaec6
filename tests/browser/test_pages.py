"""Every page in a real browser, on what the pipeline found on a simulated fleet: pictures first, while it is news."""

from __future__ import annotations

import getpass
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from elasticsearch import Elasticsearch
from kafka import KafkaProducer
from playwright.sync_api import expect
from pyspark.sql import SparkSession
from support.browser_visit import LAST, ZONE, Visit, first_incident, members_of, written_labels

from app.runtime.run import index_to_end
from dashboards.navigation import PAGES
from models.core.series import quote
from models.records.records import EpisodeEvent

pytestmark = [pytest.mark.browser, pytest.mark.stack, pytest.mark.spark, pytest.mark.timeout(1800)]


def test_from_the_overview_to_an_incident_to_a_series(visit: Visit, pictures: Path) -> None:
    page = visit.open()
    visit.heading(LAST["overview"])
    assert page.locator('[data-testid="stPageLink"] a').count() > 0
    expect(page.locator(".vega-embed").first).to_be_visible()
    visit.picture(pictures, "overview")
    first_incident(page)
    visit.heading(LAST["incident"])
    visit.settle()
    expect(page.locator(".vega-embed")).not_to_have_count(0)
    visit.picture(pictures, "incident")
    page.get_by_role("heading", name=re.compile("^Why:")).scroll_into_view_if_needed()
    page.locator('[data-testid="stPageLink"] a[href*="series="]').first.click()
    visit.heading(LAST["series"])
    visit.settle()
    asked = parse_qs(urlsplit(page.url).query)
    assert asked["series"]
    expect(page.locator(".vega-embed")).to_have_count(2)
    visit.picture(pictures, "series")


@pytest.mark.parametrize("name", LAST)
def test_page_is_of_use_at_night_and_on_a_phone(at_night: Visit, on_a_phone: Visit, pictures: Path, name: str) -> None:
    """The series is the one of the burst whose incident is open."""
    asked = urlencode({"series": "gauge/vm-001/web/service.error.rate"} if name == "series" else {})
    for visit, way in ((at_night, "dark"), (on_a_phone, "phone")):
        page = visit.open(f"{'' if name in ('overview', 'incident') else name}?{asked}")
        if name == "incident":
            first_incident(page)
        visit.heading(LAST[name])
        visit.settle()
        expect(page.locator(".vega-embed, [data-testid='stDataFrame']").first).to_be_visible()
        if name == "overview":
            is_open, number = page.get_by_role("heading", name="Open incidents"), page.get_by_test_id("stMetric").first
            top = "place => place.getBoundingClientRect().top"
            first = is_open.evaluate(top) < number.evaluate(top)
            assert first == (way == "phone"), "on a phone what is open comes first"
        visit.picture(pictures, f"{name}-{way}")


@pytest.mark.parametrize("name", ["logs", "pipeline"])
def test_page_shows_the_fleet(visit: Visit, pictures: Path, name: str) -> None:
    page = visit.open(name)
    visit.heading(LAST[name])
    visit.settle()
    expect(page.locator('[data-testid="stDataFrame"]')).not_to_have_count(0)
    expect(page.locator('[data-testid="stAlertContentError"]')).to_have_count(0)
    visit.picture(pictures, name)


def test_label_given_on_the_page_is_in_the_log_and_then_on_the_page(
    visit: Visit, pictures: Path, spark: SparkSession
) -> None:
    page = visit.open()
    first_incident(page)
    visit.heading("What was it?")
    visit.settle()
    expect(page.get_by_text("Labelling it needs the role responder").first).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("Label this incident"))).to_have_count(0)
    visit.sign_in()
    identity = parse_qs(urlsplit(page.url).query)["incident"][0]
    page.locator('[data-testid="stRadio"]').get_by_text("False alarm").click()
    page.get_by_label("Comment").fill("the backup ran twice")
    page.get_by_role("button", name=re.compile("Label this incident")).click()
    expect(page.get_by_text("It is in the log")).to_be_visible()
    (written,) = written_labels(visit.fleet)
    assert (written["incident"], written["label"], written["version"]) == (identity, "false-alarm", "live")
    assert (written["comment"], written["author"]) == ("the backup ran twice", getpass.getuser())
    assert written["series"]
    assert written["host"]
    index_to_end(spark, visit.fleet.settings)
    expect(page.get_by_text(f"says {getpass.getuser()}").first).to_be_visible()
    page.get_by_text("It is in the log").scroll_into_view_if_needed()
    visit.picture(pictures, "label")


def test_incident_shows_exactly_its_episodes(visit: Visit, pictures: Path, spark: SparkSession) -> None:
    settings = visit.fleet.settings
    identity, document, reasons = members_of(visit.fleet)
    start = int(datetime.fromisoformat(document["event"]["start"]).timestamp() * 1000)
    other = EpisodeEvent(
        series=f"template/{quote(document['host']['name'][0])}/web/error/00000000000000ff",
        kind="new",
        status="open",
        start=start,
        window_end=start + 10_000,
        score=30.0,
        evidence=30.0,
        reason="a message of another story",
        template="another story <*>",
        sample="another story 17",
    )
    producer = KafkaProducer(bootstrap_servers=settings.kafka.bootstrap_servers)
    producer.send(settings.topic("novelties"), json.dumps(other.to_record("live")).encode(), partition=0).get(60)
    producer.close()
    index_to_end(spark, settings)
    with Elasticsearch(settings.elasticsearch.url or "", request_timeout=60) as client:
        client.indices.refresh(index="kappa-novelties-live")
        assert client.exists(
            index=f"kappa-novelties-live-{datetime.fromtimestamp(start / 1000, UTC):%Y.%m.%d}", id=other.id
        )
    page = visit.open(f"incident?incident={identity}")
    visit.heading(LAST["incident"])
    visit.settle()
    grids = page.locator('[data-testid="stDataFrame"] table')
    members = grids.first
    expect(members).to_have_attribute("aria-rowcount", str(1 + len(reasons)))
    cells = [text.strip() for text in members.locator("td").all_text_contents()]
    assert {reason for reason in reasons if reason in cells} == set(reasons)
    written = page.locator("body").text_content() or ""
    assert "another story" not in written + "".join(grids.all_text_contents())
    page.locator('[data-testid="stDataFrame"]').first.scroll_into_view_if_needed()
    visit.picture(pictures, "incident-episodes")


def test_version_and_range_are_switched_and_stay_in_the_address(visit: Visit, pictures: Path) -> None:
    page = visit.open("?range=6h")
    visit.heading(LAST["overview"])
    page.locator('[data-testid="stSelectbox"] input').first.click()
    page.get_by_role("option", name="stricter").click()
    page.wait_for_url(re.compile("version=stricter"))
    visit.settle()
    asked = parse_qs(urlsplit(page.url).query)
    assert (asked["version"], asked["range"]) == (["stricter"], ["6h"])
    page.get_by_role("link", name=re.compile("Versions")).first.click()
    visit.heading("Novelties over time")
    visit.settle()
    assert parse_qs(urlsplit(page.url).query)["version"] == ["stricter"]
    expect(page.get_by_text("Only stricter").first).to_be_visible()
    visit.picture(pictures, "versions")


def test_promotion_asks_and_says_what_it_would_do(visit: Visit) -> None:
    page = visit.open("versions?version=stricter")
    expect(page.get_by_text("This needs the role operator")).to_be_visible()
    visit.sign_in()
    page.get_by_role("button", name=re.compile("Promote stricter")).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("kappa replay promote stricter")
    expect(dialog).to_contain_text("would take over from live", timeout=120_000)
    expect(dialog.get_by_role("button", name=re.compile("Yes, do it"))).to_be_visible()


@pytest.mark.parametrize("name", PAGES)
def test_address_of_every_page_opens_it(visit: Visit, name: str) -> None:
    page = visit.open("" if name == "overview" else name)  # the first page has no path of its own
    expect(page.get_by_role("heading", name=PAGES[name][0], exact=True)).to_be_visible()
    sentences = page.get_by_text(re.compile(f"Times are in {ZONE}|Choose an incident|click one"))
    expect(sentences.first).to_be_visible()
