"""Every page in a real browser, on what the pipeline found on a simulated fleet."""

from __future__ import annotations

import getpass
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from elasticsearch import Elasticsearch
from kafka import KafkaConsumer, KafkaProducer
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, ViewportSize, expect
from pyspark.sql import SparkSession
from support.browser_fleet import BrowserFleet

from app.runtime.run import index_to_end
from dashboards.navigation import PAGES
from models.core.series import quote
from models.records.records import EpisodeEvent

pytestmark = [pytest.mark.browser, pytest.mark.stack, pytest.mark.spark, pytest.mark.timeout(1800)]

SIZE: ViewportSize = {"width": 1440, "height": 1300}
MAX_PICTURE_BYTES = 300_000
SECONDS = 60
expect.set_options(timeout=1000 * SECONDS)
ZONE = "Europe/Berlin"
# What stands on a page when it has read: the heading of its last part.
LAST = {
    "overview": "Closed incidents",
    "incident": "Seen before?",
    "series": "State of its model",
    "logs": "Messages by rate: most lines",
    "versions": "Who serves",
    "pipeline": "Savepoints",
}


class Visit:
    """A tab of the browser, and everything that went wrong in it."""

    def __init__(self, browser: Browser, fleet: BrowserFleet, scheme: str) -> None:
        self._context = browser.new_context(
            viewport=SIZE,
            color_scheme="dark" if scheme == "dark" else "light",
            timezone_id=ZONE,
            locale="en-GB",
        )
        self.fleet, self.errors = fleet, list[str]()
        self.page: Page = self._context.new_page()
        self.page.set_default_timeout(1000 * SECONDS)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self.keep)
        self.page.on("request", self.watch)

    def watch(self, request: Request) -> None:
        """Keep a request that leaves for anywhere but the pages."""
        if not request.url.startswith((self.fleet.address, self.fleet.address.replace("http", "ws"), "data:", "blob:")):
            self.errors.append(f"a request to {request.url}")

    def sign_in(self) -> None:
        """With the code."""
        self.page.get_by_test_id("stPopover").get_by_role("button").click()
        self.page.get_by_label(re.compile("Code that")).fill(self.fleet.code)
        self.page.keyboard.press("Enter")
        expect(self.page.get_by_test_id("stPopover").get_by_text(getpass.getuser())).to_be_visible()
        self.page.keyboard.press("Escape")
        self.settle()

    def keep(self, message: ConsoleMessage) -> None:
        """Keep an error of the console.

        Not ours are two of Streamlit's own: below the path of a page it first looks for the server where none is, and it
        asks for a file on its makers' host, which a machine without a way out cannot reach.
        """
        where = message.location.get("url", "")
        own = where.startswith(self.fleet.address) or not where
        if message.type == "error" and own and not re.search(r"/[a-z]+/_stcore/", where):
            self.errors.append(f"{message.text} ({where})")

    def open(self, path: str = "") -> Page:
        """Go to a page, by its address, and wait until it has read."""
        self.page.goto(f"{self.fleet.address}/{path}")
        self.settle()
        return self.page

    def settle(self) -> None:
        """Wait until the page has run, has no skeleton left, and shows no error."""
        done = '[data-testid="stApp"][data-test-script-state="notRunning"]'
        self.page.wait_for_selector(done, state="attached")
        expect(self.page.locator('[data-testid="stAppSkeleton"], [data-testid="stSkeleton"]')).to_have_count(0)
        expect(self.page.locator('[data-testid="stSpinner"]')).to_have_count(0)
        expect(self.page.locator('[data-testid="stException"]')).to_have_count(0)

    def heading(self, text: str) -> None:
        """Wait for a heading."""
        expect(self.page.get_by_role("heading", name=re.compile(re.escape(text))).first).to_be_visible()

    def picture(self, folder: Path, name: str) -> None:
        """Take a picture of what is seen."""
        self.page.mouse.move(0, 0)
        file = folder / f"{name}.png"
        self.page.screenshot(path=str(file), animations="disabled")
        assert 10_000 < file.stat().st_size < MAX_PICTURE_BYTES

    def close(self) -> None:
        """Leave. Nothing may have gone wrong."""
        self._context.close()
        assert self.errors == []


@pytest.fixture
def visit(browser: Browser, fleet: BrowserFleet) -> Iterator[Visit]:
    """A tab in the light theme."""
    made = Visit(browser, fleet, "light")
    yield made
    made.close()


@pytest.fixture
def at_night(browser: Browser, fleet: BrowserFleet) -> Iterator[Visit]:
    """A tab in the dark theme."""
    made = Visit(browser, fleet, "dark")
    yield made
    made.close()


def first_incident(page: Page) -> None:
    """Open the first of the open incidents to which several series contribute, by a click."""
    page.locator('[data-testid="stPageLink"] a[href*="incident="]').filter(has_text="series)").first.click()


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


def written_labels(fleet: BrowserFleet) -> list[dict[str, Any]]:
    """What is in the topic of labels, without heartbeats."""
    own = fleet.settings
    consumer = KafkaConsumer(
        own.topic("labels"),
        bootstrap_servers=own.kafka.bootstrap_servers,
        auto_offset_reset="earliest",
        consumer_timeout_ms=5_000,
    )
    try:
        return [message for record in consumer if "label" in (message := json.loads(record.value))]
    finally:
        consumer.close()


def test_label_given_on_the_page_is_in_the_log_and_then_on_the_page(
    visit: Visit, pictures: Path, spark: SparkSession
) -> None:
    page = visit.open()
    first_incident(page)
    visit.heading("What was it?")
    visit.settle()
    expect(page.get_by_text("This needs the role responder").first).to_be_visible()
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


def members_of(fleet: BrowserFleet) -> tuple[str, dict[str, Any], list[str]]:
    """The incident of one host with the most episodes: its id, its document, and the reasons of its episodes."""
    with Elasticsearch(fleet.settings.elasticsearch.url or "", request_timeout=60) as client:
        one_host = {"term": {"novelty.scope": "host"}}
        order = [{"novelty.novelties": "desc"}, {"novelty.score": "desc"}]
        (hit,) = client.search(index="kappa-incidents-live", query=one_host, sort=order, size=1)["hits"]["hits"]
        ids = hit["_source"]["novelty"]["episodes"]
        found = client.search(index="kappa-novelties-live", query={"ids": {"values": ids}}, size=len(ids))["hits"][
            "hits"
        ]
    assert len(found) == len(ids) >= 2
    return hit["_id"], hit["_source"], [one["_source"]["event"]["reason"] for one in found]


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


@pytest.mark.parametrize("name", ["logs", "pipeline"])
def test_page_shows_the_fleet(visit: Visit, pictures: Path, name: str) -> None:
    page = visit.open(name)
    visit.heading(LAST[name])
    visit.settle()
    expect(page.locator('[data-testid="stDataFrame"]')).not_to_have_count(0)
    expect(page.locator('[data-testid="stAlertContentError"]')).to_have_count(0)
    visit.picture(pictures, name)


def test_pages_are_of_use_at_night(at_night: Visit, pictures: Path) -> None:
    page = at_night.open()
    at_night.heading(LAST["overview"])
    expect(page.locator(".vega-embed").first).to_be_visible()
    at_night.picture(pictures, "overview-dark")
    first_incident(page)
    at_night.heading(LAST["incident"])
    at_night.settle()
    at_night.picture(pictures, "incident-dark")


@pytest.mark.parametrize("name", PAGES)
def test_address_of_every_page_opens_it(visit: Visit, name: str) -> None:
    page = visit.open("" if name == "overview" else name)  # the first page has no path of its own
    expect(page.get_by_role("heading", name=PAGES[name][0], exact=True)).to_be_visible()
    sentences = page.get_by_text(re.compile(f"Times are in {ZONE}|Choose an incident|click one"))
    expect(sentences.first).to_be_visible()
