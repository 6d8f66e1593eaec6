"""Signing in with a real OpenID Connect provider and behind a proxy, and text that tries to be more than text, in a real browser."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import quote as quoted
from urllib.request import urlopen

import pytest
from elasticsearch import Elasticsearch
from playwright.sync_api import Browser, Dialog, Page, Request, expect
from pydantic import SecretStr
from support.markdown import HOSTILE
from support.page_documents import Documents

from app.core.ports import free_port
from app.core.report import silent
from app.core.settings import PROJECT, DashboardSettings, Settings
from app.embedded.stack import Stack, running_stack
from app.runtime import dashboard
from models.core.series import quote

pytestmark = pytest.mark.browser

SECONDS = 60
DONE = '[data-testid="stApp"][data-test-script-state="notRunning"]'
USERS = {
    "ada": {"sub": "1", "email": "ada@example.net", "email_verified": True, "groups": ["platform"]},
    "bob": {"sub": "2", "email": "bob@example.net", "email_verified": True, "groups": []},
    "mallory": {"sub": "3", "email": "ada@example.net", "email_verified": False, "groups": []},
}
ROLES: dict[str, Any] = {"viewers": ("*",), "operators": ("ada@example.net",)}
TEXT = " ".join(HOSTILE)


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings with an Elasticsearch in which version `live` has an incident whose texts are hostile."""
    home = tmp_path_factory.mktemp("sign-in")
    with running_stack(Stack(home, jars=PROJECT / ".kappa" / "jars", kafka=False)) as servers:
        base = Settings(home=home)
        url = {"url": servers.elasticsearch}
        with Elasticsearch(servers.elasticsearch or "", request_timeout=60) as client:
            hostile_documents(Documents(client, "live", datetime.now(tz=UTC), reason=TEXT))
        yield base.model_copy(update={"elasticsearch": base.elasticsearch.model_copy(update=url)})


def hostile_documents(documents: Documents) -> None:
    """An incident, its episodes, a label and a refused record."""
    series = f"gauge/{quote(TEXT)}/{quote(TEXT)}/{quote(TEXT)}"
    documents.score(0, series)
    for status, identity in (("update", "open"), ("close", "closed")):
        documents.incident([TEXT, TEXT], "anomaly", status, (30, 1), 20.0, identity, episodes=["e1"])
    texts = {"metric": TEXT, "unit": TEXT, "part": TEXT, "value": 9.0, "lower": 1.0, "upper": 2.0, "certainty": 0.9}
    documents.novelty(TEXT, "anomaly", "update", (30, 1), 20.0, "e1", series=series, **texts)
    line = f"template/{quote(TEXT)}/{quote(TEXT)}/error/00ff"
    documents.novelty(TEXT, "new", "open", (20, 1), 30.0, "e2", series=line, template=TEXT, sample=TEXT)
    documents.refused("dead-letters", TEXT, 5, TEXT)
    documents.label("open", TEXT, 3, TEXT, (30, None), comment=TEXT)
    documents.write()


@contextmanager
def pages(searched: Settings, port: int, **own: Any) -> Iterator[str]:
    """The address of pages with these ways to sign in."""
    settings = searched.model_copy(update={"dashboard": DashboardSettings(**own)})
    with dashboard.served(settings, port, silent):
        address = f"http://127.0.0.1:{port}"
        answers(f"{address}/_stcore/health")
        yield address


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    """The address of an OpenID Connect provider, a process of its own, that knows USERS."""
    port = free_port(None)
    users = [argument for claims in USERS.values() for argument in ("--user-claims", json.dumps(claims))]
    command = [sys.executable, "-W", "ignore", "-m", "oidc_provider_mock", "--port", str(port), *users]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        address = f"http://127.0.0.1:{port}"
        answers(f"{address}/.well-known/openid-configuration")
        yield address
    finally:
        process.terminate()
        process.wait(10)


def answers(url: str) -> None:
    """Wait until a server does."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            with urlopen(url, timeout=1) as answer:
                assert answer.status == 200
                return
        except (URLError, ConnectionError):
            assert time.monotonic() < deadline, f"{url} does not answer"


@contextmanager
def tab(browser: Browser, **options: Any) -> Iterator[Page]:
    """A page of a browser without a memory."""
    context = browser.new_context(viewport={"width": 1400, "height": 1000}, **options)
    page = context.new_page()
    page.set_default_timeout(1000 * SECONDS)
    yield page
    context.close()


def settled(page: Page) -> None:
    """Wait until the page has run and shows no error of its own."""
    page.wait_for_selector(DONE, state="attached")
    expect(page.locator('[data-testid="stSpinner"]')).to_have_count(0)
    expect(page.locator('[data-testid="stException"]')).to_have_count(0)


def menu(page: Page) -> None:
    """Open the menu of who has signed in."""
    page.get_by_test_id("stPopover").get_by_role("button").first.click()


def signed_in(page: Page, address: str, sub: str) -> None:
    """Go through the provider's form as somebody."""
    page.goto(f"{address}/versions")
    settled(page)
    menu(page)
    page.get_by_test_id("stPopoverBody").get_by_role("button", name=re.compile("Sign in")).click()
    page.wait_for_url(re.compile("/oauth2/authorize"), wait_until="commit")  # it has a style sheet from elsewhere
    page.locator('input[name="sub"]').fill(sub)
    page.locator('button[type="submit"], input[type="submit"]').first.click()
    page.wait_for_url(re.compile(re.escape(address)), wait_until="commit")
    settled(page)


def signed_in_as(who: str) -> re.Pattern[str]:
    """How the menu says it: a character in an address keeps it from being a link."""
    return re.compile(f"Signed in as {re.escape(who)}".replace("@", r"\W?@"))


def test_a_provider_says_who_it_is_and_the_settings_what_they_may(
    browser: Browser, searched: Settings, provider: str, pictures: Path
) -> None:
    port = free_port(None)
    own = {
        "sign_in": "oidc",
        "oidc_metadata_url": f"{provider}/.well-known/openid-configuration",
        "oidc_client_id": "kappa",
        "oidc_client_secret": SecretStr("of-the-client"),
        "oidc_redirect_url": f"http://127.0.0.1:{port}/oauth2callback",
        **ROLES,
    }
    with pages(searched, port, **own) as address:
        with tab(browser) as page:  # somebody who has not signed in may not even read
            page.goto(f"{address}/versions")
            settled(page)
            expect(page.get_by_text("for people who have signed in")).to_be_visible()
            assert "evil" not in (page.locator("body").text_content() or "")
        with tab(browser) as page:
            signed_in(page, address, "1")
            page.goto(f"{address}/versions")
            settled(page)
            expect(page.get_by_role("button", name=re.compile("Roll back"))).to_be_visible()
            menu(page)
            expect(page.get_by_text(signed_in_as("ada@example.net"))).to_be_visible()
            page.screenshot(path=str(pictures / "signed-in.png"))
            page.get_by_role("button", name=re.compile("Sign out")).click()
            page.get_by_role("button", name="End session").click()  # the provider's own page
            expect(page.get_by_text("for people who have signed in")).to_be_visible()
        for sub, name in (("2", "bob@example.net"), ("3", "3")):  # the third has an address that is not verified
            with tab(browser) as page:
                signed_in(page, address, sub)
                page.goto(f"{address}/versions")
                settled(page)
                expect(page.get_by_text("This needs the role operator")).to_be_visible()
                menu(page)
                expect(page.get_by_text(signed_in_as(f"{name}, viewer"))).to_be_visible()


def test_a_proxy_says_who_it_is_only_with_its_secret(browser: Browser, searched: Settings) -> None:
    port = free_port(None)
    with pages(searched, port, sign_in="proxy", proxy_secret=SecretStr("of-the-proxy"), **ROLES) as address:
        for secret, sentence in (("of-the-proxy", "Roll back"), ("guessed", "for people who have signed in")):
            headers = {"X-Forwarded-User": "ada@example.net", "X-Kappa-Proxy-Secret": secret}
            with tab(browser, extra_http_headers=headers) as page:
                page.goto(f"{address}/versions")
                settled(page)
                expect(page.get_by_text(re.compile(sentence)).first).to_be_visible()


def test_hostile_text_stays_text_and_no_request_leaves_the_pages(
    browser: Browser, searched: Settings, pictures: Path
) -> None:
    foreign: list[str] = []
    dialogs: list[str] = []
    port = free_port(None)

    def watch(request: Request) -> None:
        if not request.url.startswith((f"http://127.0.0.1:{port}", f"ws://127.0.0.1:{port}", "data:", "blob:")):
            foreign.append(request.url)

    def dismiss(dialog: Dialog) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    with pages(searched, port) as address, tab(browser) as page:
        page.on("request", watch)
        page.on("dialog", dismiss)
        series = quoted(f"gauge/{quote(TEXT)}/{quote(TEXT)}/{quote(TEXT)}", safe="")
        for name in (
            *("", "incident?incident=open", f"incident?incident={quoted(TEXT)}", f"series?series={series}"),
            *(
                f"series?series={quoted(TEXT)}",
                f"series?find={quoted(TEXT)}",
                f"?version={quoted(TEXT)}",
                "logs",
                "pipeline",
            ),
            f"versions?with={quoted(TEXT)}",
        ):
            page.goto(f"{address}/{name}")
            settled(page)
            main = page.get_by_test_id("stMain")
            assert main.locator("img, script, iframe, .katex, del").count() == 0, name
            links = main.locator("a[href]").evaluate_all("all => all.map(one => one.href)")
            assert [link for link in links if not link.startswith(f"{address}/")] == [], name
            assert main.get_by_text("\N{SMILING FACE WITH OPEN MOUTH AND SMILING EYES}").count() == 0, name
            for tag in ("strong", "em", "h1", "blockquote", "li"):
                written = main.locator(f'{tag}:text-is("evil")')
                assert written.count() == 0, (name, tag)
            assert main.locator('[style*="color"]:text-is("evil")').count() == 0, name
            if name in ("", "incident?incident=open"):
                # An address has a character in it that keeps it from being a link.
                text = re.compile(r"!\[evil\]\(http:\W*//evil\.invalid")
                expect(page.get_by_text(text).filter(visible=True).first).to_be_visible()
        page.goto(f"{address}/incident?incident=open")
        settled(page)
        page.screenshot(path=str(pictures / "hostile.png"))
    assert foreign == []
    assert dialogs == []
