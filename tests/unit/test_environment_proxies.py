"""Proxies of the environment get nothing that is asked of this machine."""

from __future__ import annotations

import os
import urllib.request

import httpx
import pytest
from support.recording_server import server_that
from typer.testing import CliRunner

from app.cli.main import app
from app.core.ports import LOOPBACK
from app.core.proxies import HERE, NAMES, spare_loopback
from app.runtime.served_health import health_at


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*NAMES, "http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "")  # set, so that it is as before after the test


def test_what_is_asked_of_this_machine_goes_to_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with server_that(200, b'{"jobs": {}}') as (proxy, asked), server_that(200, b'{"jobs": {}}') as (own, own_asked):
        monkeypatch.setenv("http_proxy", proxy)
        monkeypatch.setenv("no_proxy", " .example.net ,10.0.0.7")
        assert CliRunner().invoke(app, ["templates", "nowhere.log"]).exit_code == 1, "as each command begins"
        assert os.environ["no_proxy"] == os.environ["NO_PROXY"] == ",".join([".example.net", "10.0.0.7", *HERE])
        local = own.replace(LOOPBACK, "localhost")
        for address in (own, local):
            assert health_at(address) == {"jobs": {}}
            httpx.get(f"{address}/healthz").raise_for_status()
            urllib.request.urlopen(
                urllib.request.Request(f"{address}/scores", b"", {"X-Kappa-Token": "secret"})
            ).close()
        assert (len(asked), len(own_asked)) == (0, 6)
        httpx.get("http://search.example.org/")
        assert [one.path for one in asked] == ["http://search.example.org/"], "others are reached as before"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, ",".join(HERE)),
        ({"no_proxy": "*"}, "*"),
        ({"no_proxy": f"{LOOPBACK},a"}, f"{LOOPBACK},a,localhost,::1"),
        ({"NO_PROXY": "b"}, f"b,{','.join(HERE)}"),
        ({"no_proxy": "a", "NO_PROXY": "b"}, f"a,{','.join(HERE)}"),
    ],
)
def test_what_was_named_before_stays(monkeypatch: pytest.MonkeyPatch, before: dict[str, str], after: str) -> None:
    for name, text in before.items():
        monkeypatch.setenv(name, text)
    for _ in range(2):
        spare_loopback()
        assert os.environ["no_proxy"] == after
