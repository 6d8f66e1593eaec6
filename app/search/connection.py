"""The connection to Elasticsearch."""

from __future__ import annotations

from app.core.settings import Settings
from pipelines.elasticsearch.bulk import Elastic


def elasticsearch_connection(settings: Settings) -> Elastic:
    """The connection to the Elasticsearch of the settings; `connect` opens a client, on executors too, which have another working directory."""
    own = settings.elasticsearch
    return Elastic(
        url=own.url or "",
        username=own.username,
        password=own.password.get_secret_value() if own.password else None,
        api_key=own.api_key.get_secret_value() if own.api_key else None,
        ca_certs=str(own.ca_certs.absolute()) if own.ca_certs else None,
        client_cert=str(own.client_cert.absolute()) if own.client_cert else None,
        client_key=str(own.client_key.absolute()) if own.client_key else None,
    )
