"""Pages for everybody: axe-core finds no violation on any, in both themes, and none is wider than a phone.

It takes minutes, so its name is the last one: pictures of other tests are of what is news.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from axe_playwright_python.sync_playwright import Axe
from elasticsearch import Elasticsearch
from playwright.sync_api import Browser, Page, expect
from support.browser_fleet import BrowserFleet

from dashboards.navigation import PAGES
from models.records.index_names import alias_of

pytestmark = [pytest.mark.browser, pytest.mark.stack, pytest.mark.spark, pytest.mark.timeout(1800)]

PHONE, DESK = (390, 844), (1440, 1300)
WAYS = [("light", DESK), ("dark", DESK), ("light", PHONE), ("dark", PHONE)]
MILLISECONDS = 60_000
expect.set_options(timeout=MILLISECONDS)
WIDTH = """() => Math.max(document.documentElement.scrollWidth, document.querySelector('[data-testid="stMain"]').scrollWidth)"""


@pytest.fixture(params=WAYS, ids=lambda way: f"{way[0]}-{way[1][0]}")
def page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A tab with a theme and a size."""
    scheme, (width, height) = request.param
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    found = context.new_page()
    found.set_default_timeout(MILLISECONDS)
    yield found
    context.close()


def addresses(fleet: BrowserFleet) -> dict[str, str]:
    """Each page; an incident and a series that there are. Nothing is read again while it is looked at."""
    with Elasticsearch(str(fleet.settings.elasticsearch.url)) as client:
        found = client.search(index=alias_of("incidents", "live"), size=1, sort=[{"novelty.score": "desc"}])
    hit = found["hits"]["hits"][0]
    own = {
        "incident": {"incident": hit["_id"]},
        "series": {"series": hit["_source"]["novelty"]["contributions"][0]["series"]},
    }
    return {name: f"{fleet.address}/{name}?{urlencode({'refresh': 'off', **own.get(name, {})})}" for name in PAGES}


def test_no_page_has_a_violation_or_is_wider_than_the_window(fleet: BrowserFleet, page: Page) -> None:
    found: list[str] = []
    assert page.viewport_size is not None
    for name, address in addresses(fleet).items():
        page.goto(address)
        page.wait_for_selector('[data-testid="stApp"][data-test-script-state="notRunning"]', state="attached")
        expect(
            page.locator('[data-testid="stAppSkeleton"], [data-testid="stSkeleton"], [data-testid="stSpinner"]')
        ).to_have_count(0)
        expect(page.get_by_role("heading").nth(1)).to_be_visible()
        wide = page.evaluate(WIDTH)
        found += [f"{name}: {wide} pixels wide"] if wide > page.viewport_size["width"] else []
        for violation in Axe().run(page).response["violations"]:
            nodes = [node["html"][:200] for node in violation["nodes"][:5]]
            found.append(f"{name}: {violation['id']}, {violation['help']}: {nodes}")
    assert not found, "\n".join(found)
