"""The picture of a sine that sums to zero by event time and not by arrival, with the sums that `extract` comes to."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from pyspark.sql import SparkSession
from support.browser_fleet import wait_for_server
from support.sine import chart, exact_sums, samples

from app.core.ports import port_is_free
from app.core.settings import PROJECT

pytestmark = [pytest.mark.browser, pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture
def address(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """A page with the chart, served by Streamlit, which has Vega with it."""
    file = tmp_path / "chart.json"
    file.write_text(json.dumps(chart(exact_sums(spark, {"one": samples()})["one"], samples())))
    port = next(p for p in range(8600, 8700) if port_is_free(p))
    options = ["--server.headless=true", "--server.address=127.0.0.1", f"--server.port={port}"]
    page = [
        str(PROJECT / "tests" / "support" / "sine_page.py"),
        *options,
        "--browser.gatherUsageStats=false",
        "--",
        str(file),
    ]
    with subprocess.Popen([sys.executable, "-m", "streamlit", "run", *page]) as server:
        try:
            wait_for_server(f"http://127.0.0.1:{port}")
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


def test_picture_of_a_sine_by_event_time_and_by_arrival(browser: Browser, address: str, pictures: Path) -> None:
    page = browser.new_page(viewport={"width": 1250, "height": 950}, device_scale_factor=1)
    page.goto(address)
    drawn = page.locator(".vega-embed svg, .vega-embed canvas").first
    expect(drawn).to_be_visible(timeout=60_000)
    file = pictures / "sine.png"
    drawn.screenshot(path=str(file), animations="disabled")
    page.close()
    assert 20_000 < file.stat().st_size < 300_000
