"""Windows between a phone's width and a desk's: nothing that can be chosen is cut off, nor what a number is of. The log is made up."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from elasticsearch import Elasticsearch
from playwright.sync_api import Browser, expect
from support.browser_fleet import served
from support.page_documents import Documents

from app.core.settings import PROJECT, Settings
from app.embedded.stack import Stack, running_stack

pytestmark = pytest.mark.browser

WIDTHS = (660, 900, 1100, 1230, 1250, 1440)
CUT = """() => [...document.querySelectorAll('.st-key-head *, .st-key-figures *')]
    .filter(one => one.clientWidth && one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).overflowX !== 'visible')
    .map(one => one.innerText)"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The pages, with a score in Elasticsearch."""
    home = tmp_path_factory.mktemp("narrow")
    with running_stack(Stack(home, jars=PROJECT / ".kappa" / "jars", kafka=False)) as servers:
        base = Settings(home=home)
        with Elasticsearch(servers.elasticsearch or "", request_timeout=60) as client:
            documents = Documents(client, "live", datetime.now(tz=UTC))
            documents.score(0)
            documents.write()
        url = {"url": servers.elasticsearch}
        own = base.model_copy(update={"elasticsearch": base.elasticsearch.model_copy(update=url)})
        with served(own) as (found, _):
            yield found


def test_nothing_of_the_head_or_the_figures_is_cut_off(browser: Browser, address: str, tmp_path: Path) -> None:
    context = browser.new_context(viewport={"width": WIDTHS[0], "height": 800})
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.goto(f"{address}/?refresh=off", wait_until="commit")
    expect(page.get_by_test_id("stMetric")).to_have_count(5, timeout=60_000)
    cut = {}
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        expect(page.get_by_role("button", name="Sign in")).to_be_visible()
        page.screenshot(path=str(tmp_path / f"{width}.png"), animations="disabled")  # when it has been laid out
        cut[width] = page.evaluate(CUT)
    context.close()
    assert not {width: texts for width, texts in cut.items() if texts}
