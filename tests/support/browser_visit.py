"""A visit of the pages by a real browser: a tab, and everything that went wrong in it."""

from __future__ import annotations

import getpass
import json
import re
from pathlib import Path
from typing import Any

from elasticsearch import Elasticsearch
from kafka import KafkaConsumer
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, ViewportSize, expect
from support.browser_fleet import BrowserFleet

SIZE: ViewportSize = {"width": 1440, "height": 1300}
PHONE: ViewportSize = {"width": 390, "height": 1300}
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

    def __init__(self, browser: Browser, fleet: BrowserFleet, scheme: str, size: ViewportSize = SIZE) -> None:
        self._context = browser.new_context(
            viewport=size,
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


def first_incident(page: Page) -> None:
    """Open the first of the open incidents to which several series contribute, by a click."""
    page.locator('[data-testid="stPageLink"] a[href*="incident="]').filter(has_text="series)").first.click()


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
