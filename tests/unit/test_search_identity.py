"""Who we are for an Elasticsearch that asks for a client certificate and an API key, wherever one is connected to."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from elasticsearch import ConnectionError as NotConnected
from elasticsearch import Elasticsearch
from pydantic import SecretStr
from support.recording_server import Asked, server_that
from support.secured_broker import Authority

from app.core.settings import ElasticsearchSettings, Settings
from app.runtime.dashboard import environment
from app.search.connection import elasticsearch_connection
from app.search.kibana import tls_context
from dashboards.queries.search import Connection

KEY = "an-id-and-a-key"
ANSWER = {"X_Elastic_Product": "Elasticsearch", "Content_Type": "application/json"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, Authority, list[Asked]]]:
    """A server that knows the clients of one authority alone."""
    own = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*own.sign("server"))
    context.load_verify_locations(own.file)
    context.verify_mode = ssl.CERT_REQUIRED
    with server_that(200, b"{}", context, **ANSWER) as (url, asked):
        yield url, own, asked


def settings(url: str, authority: Path, files: tuple[Path, Path] | None) -> Settings:
    certificate, key = files or (None, None)
    own = ElasticsearchSettings(
        url=url, ca_certs=authority, client_cert=certificate, client_key=key, api_key=SecretStr(KEY)
    )
    return Settings(elasticsearch=own)


def clients(own: Settings) -> list[Elasticsearch]:
    """The jobs' and the dashboard's."""
    return [elasticsearch_connection(own).connect(), Connection.of(environment(own)).connect()]


def test_certificate_and_key_are_shown_by_jobs_dashboard_and_kibana(
    cluster: tuple[str, Authority, list[Asked]],
) -> None:
    url, authority, asked = cluster
    own = settings(url, authority.file, authority.sign("jobs"))
    for client in clients(own):
        client.info()
    assert [each.headers["Authorization"] for each in asked] == [f"ApiKey {KEY}"] * 2
    with urlopen(url, context=tls_context(own.elasticsearch)) as answer:
        assert answer.status == 200


@pytest.mark.parametrize("whose", ["nobody", "another"])
def test_without_a_certificate_that_the_server_knows_nothing_is_sent(
    cluster: tuple[str, Authority, list[Asked]], tmp_path: Path, whose: str
) -> None:
    url, authority, asked = cluster
    files = None if whose == "nobody" else Authority(tmp_path / "other", "other").sign("jobs")
    for client in clients(settings(url, authority.file, files)):
        with pytest.raises(NotConnected):
            client.info()
    assert asked == []
