"""A certificate of Elasticsearch that is not good: the error names it, and not a server that does not run."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest
from support.secured_broker import Authority

from app.core.settings import ElasticsearchSettings, Settings
from app.doctor.search import elasticsearch as examined
from app.search.connection import elasticsearch_connection
from dashboards.queries.search import QueryError, indexed_versions
from pipelines.elasticsearch.bulk import cluster_trouble

ADVICE = "check elasticsearch.url, elasticsearch.ca_certs and the server's certificate"


@contextmanager
def greeting(files: tuple[Path, Path]) -> Iterator[int]:
    """A server with a certificate and its key that speaks TLS and says nothing more; yields its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def greet() -> None:
            with suppress(OSError):  # once it is shut down
                while True:
                    connection, _ = listening.accept()
                    with connection, suppress(OSError):
                        context.wrap_socket(connection, server_side=True).close()

        greeter = threading.Thread(target=greet)
        greeter.start()
        try:
            yield int(listening.getsockname()[1])
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            greeter.join()


@pytest.mark.parametrize(
    ("days", "trusted", "why"),
    [(-1, "signer", "certificate has expired"), (1, "another", "unable to get local issuer certificate")],
)
def test_what_is_wrong_with_a_certificate_is_named(tmp_path: Path, days: int, trusted: str, why: str) -> None:
    authorities = {name: Authority(tmp_path, name) for name in ("signer", "another")}
    with greeting(authorities["signer"].sign("server", timedelta(days=days))) as port:
        own = ElasticsearchSettings(url=f"https://127.0.0.1:{port}", ca_certs=authorities[trusted].file)
        settings = Settings(home=tmp_path, elasticsearch=own)
        client = elasticsearch_connection(settings).connect()
        named = f"cannot be reached by TLS (certificate verify failed: {why}): {ADVICE}"
        assert cluster_trouble(client) == named
        (finding,) = examined(settings)
        assert finding.found == f"https://127.0.0.1:{port} {named}"
        with pytest.raises(QueryError, match=f"cannot be reached by TLS .*{why}.*: {ADVICE}"):
            indexed_versions(client)
        client.close()
