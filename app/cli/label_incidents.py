"""What `kappa label` does, callable from Python: one record in the topic `labels`."""

from __future__ import annotations

import getpass
import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from elastic_transport import TransportError
from elasticsearch import ApiError

from app.core.settings import Settings
from app.kafka.connection import client_options
from app.kafka.producer import Outbox
from app.search.connection import elasticsearch_connection
from models.core.series import parse
from models.detection.labels import LABELS, MOST_AUTHOR, MOST_COMMENT
from pipelines.errors import InputError, ServiceUnavailable


def incident_of(settings: Settings, incident: str) -> dict[str, Any]:
    """Series, hosts, start and end of an incident of the settings' version, from Elasticsearch. Raises InputError if it is not there."""
    client = elasticsearch_connection(settings).connect()
    try:
        found = client.search(
            index=f"incidents-{settings.version}",
            query={"ids": {"values": [incident]}},
            size=1,
            ignore_unavailable=True,
        )
    except (ApiError, TransportError) as error:
        msg = f"Elasticsearch at {settings.elasticsearch.url} does not answer ({type(error).__name__}); start it, or name the series with --series"
        raise ServiceUnavailable(msg) from error
    finally:
        client.close()
    hits = found["hits"]["hits"]
    if not hits:
        msg = (
            f"version {settings.version} has no incident {incident} in Elasticsearch; see its id in the topic incidents or "
            "on the dashboard, name another --version, or name the series with --series"
        )
        raise InputError(msg)
    source = hits[0]["_source"]
    return {
        "series": [one["series"] for one in source["novelty"].get("contributions") or ()],
        "host": (source.get("host") or {}).get("name", []),
        "start": source["event"].get("start"),
        "end": source["event"].get("end"),
    }


def of_series(names: Sequence[str]) -> dict[str, Any]:
    """What a label says of series that are named by hand. Raises InputError for a name that is none."""
    try:
        hosts = sorted({parse(name).host for name in names})
    except ValueError as error:
        raise InputError(str(error)) from error
    return {"series": list(names), "host": hosts, "start": None, "end": None}


def record(
    settings: Settings, incident: str, label: str, comment: str, author: str | None, series: Sequence[str]
) -> dict[str, Any]:
    """The label as it is written. Raises InputError for what no label may say, ServiceUnavailable without Elasticsearch."""
    if label not in LABELS:
        msg = f"label is {label!r}; wanted {', '.join(LABELS)}"
        raise InputError(msg)
    said_by = getpass.getuser() if author is None else author
    for what, text, most in (("comment", comment, MOST_COMMENT), ("author", said_by, MOST_AUTHOR)):
        if len(text) > most:
            msg = f"{what} has {len(text)} characters; wanted at most {most}"
            raise InputError(msg)
    about = of_series(series) if series else incident_of(settings, incident)
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    head = {"@timestamp": now, "label": label, "incident": incident, "version": settings.version}
    return head | about | {"comment": comment, "author": said_by}


def send(settings: Settings, label: dict[str, Any]) -> None:
    """Append a label to the log. Raises ServiceUnavailable if Kafka does not take it."""
    topic = settings.topic("labels")
    with Outbox(client_options(settings)) as outbox:
        outbox.partitions(topic)
        value = json.dumps(label, ensure_ascii=False).encode()
        key = str(label["incident"]).encode()
        outbox.send(topic, value, key=key, partition=0, timestamp_ms=int(time.time() * 1000))
