"""Indices of early builds of kappa, whose names had no prefix: found before `index` starts, and copied to their new names by one command.

A document keeps its id and its version, so that copying again changes nothing, and what `index` has written under the new name
meanwhile is not replaced by something older. An old index is deleted when all that it holds is under the new name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from elasticsearch import ApiError, Elasticsearch, TransportError
from elasticsearch.helpers import BulkIndexError, scan, streaming_bulk

from app.core.report import Report
from app.core.settings import Settings
from app.search import aliases
from app.search.mappings import ensure_templates, unavailable_error
from app.versions import serving
from models.records.index_names import INDEX_KINDS, LABELS, PREFIX
from pipelines.errors import InputError, ServiceUnavailable

OLD_ALIASES = (
    *(f"{kind}-*" for kind in INDEX_KINDS),
    f"{LABELS}*",
)  # a name without * that is missing would be an error
OLD_INDEX = re.compile(rf"((?:{'|'.join(INDEX_KINDS)})-.+)-\d{{4}}\.\d\d\.\d\d|({LABELS})-\d{{4}}\.\d\d")
OWN_OBJECTS = {"novelty", "pipeline", "label"}
CONFLICT = 409
SHOWN_NAMES = 3


def old_indices(client: Elasticsearch) -> list[str]:
    """Indices that an early build made: by name, alias and mapping, so that another program's index is never taken for one."""
    found = client.options(ignore_status=404).indices.get_alias(name=list(OLD_ALIASES))
    if found.meta.status == 404:
        return []
    named = [
        name for name, held in found.items() if (m := OLD_INDEX.fullmatch(name)) and (m[1] or m[2]) in held["aliases"]
    ]
    if not named:
        return []
    mappings = client.indices.get_mapping(index=named)
    return sorted(name for name in named if is_own(mappings[name]["mappings"]))


def is_own(mapping: dict[str, Any]) -> bool:
    """Whether a mapping is one of ours."""
    return mapping.get("dynamic") == "strict" and bool(OWN_OBJECTS & mapping.get("properties", {}).keys())


def refuse_old_names(client: Elasticsearch) -> None:
    """Raises InputError where the cluster holds indices of an early build, which nothing reads any more."""
    try:
        old = old_indices(client)
    except (ApiError, TransportError) as error:
        what = "look for indices of early builds"
        raise unavailable_error(what, "", error) from error
    if old:
        names = ", ".join(old[:SHOWN_NAMES]) + (", ..." if len(old) > SHOWN_NAMES else "")
        msg = (
            f"Elasticsearch holds {len(old)} indices of an early build of kappa ({names}), and names begin with {PREFIX!r} now: "
            "run `kappa indices rename` once, or delete them"
        )
        raise InputError(msg)


def count_old_documents(client: Elasticsearch) -> dict[str, int]:
    """How many documents each index of an early build holds, by its new name. Raises ServiceUnavailable if Elasticsearch does not answer."""
    try:
        return {PREFIX + name: int(client.count(index=name)["count"]) for name in old_indices(client)}
    except (ApiError, TransportError) as error:
        what = "look for indices of early builds"
        raise unavailable_error(what, "", error) from error


def rename_indices(client: Elasticsearch, settings: Settings, report: Report) -> dict[str, int]:
    """Copy each index of an early build to its new name, and delete the old one; the number of documents by new name.

    Raises ServiceUnavailable where Elasticsearch refuses a document or does not answer: what is copied stays, so run it again.
    """
    try:
        old = old_indices(client)
        versions = {match[1].partition("-")[2] for name in old if (match := OLD_INDEX.fullmatch(name)) and match[1]}
        served = serving.read(settings.home)
        for version in sorted(versions - set(served.versions)):
            ensure_templates(client, version, live=False, settings=settings.elasticsearch)
        aliases.point_live_aliases(client, served, settings.elasticsearch)
        return {PREFIX + name: copy_index(client, name, report) for name in old}
    except (ApiError, TransportError) as error:
        what = "rename the indices"
        raise unavailable_error(what, "", error) from error


def copy_index(client: Elasticsearch, name: str, report: Report) -> int:
    """Copy an index to its new name and delete it; the number of documents."""
    copied = 0
    try:
        for done, answer in streaming_bulk(client, index_actions(client, name), raise_on_error=False, max_retries=5):
            if not done and answer["index"]["status"] != CONFLICT:
                msg = f"Elasticsearch did not take a document of {name} as {PREFIX + name}: {answer['index'].get('error')}"
                raise ServiceUnavailable(" ".join(msg.split()))
            copied += 1
    except BulkIndexError as error:
        raise ServiceUnavailable(str(error)) from error
    client.indices.refresh(index=name)
    wanted = int(client.count(index=name)["count"])
    if copied < wanted:
        msg = f"{name} holds {wanted} documents and {copied} were copied: something still writes it; stop it, and run this again"
        raise ServiceUnavailable(msg)
    client.indices.delete(index=name)
    report(f"{name}: {copied} documents are in {PREFIX + name}")
    return copied


def index_actions(client: Elasticsearch, name: str) -> Iterator[dict[str, Any]]:
    """What to write: each document under its id and version, where no newer one is."""
    for hit in scan(client, index=name, version=True, size=1000):
        yield {
            "_op_type": "index",
            "_index": PREFIX + name,
            "_id": hit["_id"],
            "_version": hit["_version"],
            "_version_type": "external",
            "_source": hit["_source"],
        }
