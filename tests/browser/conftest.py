"""The browser, and what it looks at."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright
from pyspark.sql import SparkSession
from support.browser_fleet import BrowserFleet, running_fleet
from support.browser_visit import PHONE, Visit

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where pictures of the pages go."""
    parser.addoption("--pictures", default=None, help="folder for pictures of the pages; default: the test's own")


@pytest.fixture(scope="session")
def pictures(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder for pictures."""
    given = request.config.getoption("--pictures")
    folder = Path(given) if given else tmp_path_factory.mktemp("pictures")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Headless Chromium, of this machine."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium on this machine: install it (Debian: apt-get install chromium) and run this again")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=list(FLAGS))
        yield started
        started.close()


@pytest.fixture(scope="session")
def fleet(browser: Browser, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserFleet]:
    """The fleet, what was found on it, and the pages, whose user is Ada. Without a browser nothing is started."""
    assert browser.is_connected()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOGNAME", "Ada")
        with running_fleet(spark, tmp_path_factory.mktemp("fleet")) as found:
            yield found


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


@pytest.fixture
def on_a_phone(browser: Browser, fleet: BrowserFleet) -> Iterator[Visit]:
    """A tab of a phone's width."""
    made = Visit(browser, fleet, "light", PHONE)
    yield made
    made.close()
