"""Checks of Elasticsearch: version, health, disk, clock, templates, and what the user may do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from elastic_transport import TlsError
from elasticsearch import ApiError, Elasticsearch, TransportError, UnsupportedProductError

from app.core.server_files import check_files
from app.core.settings import Settings
from app.core.timestamps import wall_clock
from app.doctor.finding import Finding, danger, ok, warning
from app.search.connection import elasticsearch_connection
from models.records.index_names import PREFIX
from pipelines.elasticsearch.refusals import describe_no_answer, describe_refusal

MAJORS = (8, 9)  # that the client speaks to
LATE_MS = 5_000
FULL, NEARLY_FULL = 95.0, 85.0  # Elasticsearch's own watermarks: no index is written above, no shard placed
WAIT_SECONDS = 5.0


def elasticsearch(settings: Settings) -> list[Finding]:
    """Everything about Elasticsearch; one finding where it does not answer. Raises SettingsError for a file that cannot be read."""
    url = settings.elasticsearch.url
    if not url:
        text = "elasticsearch.url is not set and no embedded stack is running"
        return [danger("Elasticsearch", text, "an address", "`kappa up`, or set elasticsearch.url")]
    check_files(settings, ("elasticsearch",))
    client = elasticsearch_connection(settings).connect().options(request_timeout=WAIT_SECONDS)
    try:
        return [
            version_finding(version_of(client)),
            *cluster(client, settings),
            *disks(client),
            *blocks(client),
            *templates(client),
        ]
    except ApiError as error:
        return [refused(url, error)]
    except TransportError as error:
        todo = "mend that" if isinstance(error, TlsError) else "start it"
        wait = "documents wait in the topics until retention"
        return [danger("Elasticsearch", f"{url} {describe_no_answer(error)}", "an answer", f"{todo}; {wait}")]
    finally:
        client.close()


def refused(url: str, error: ApiError) -> Finding:
    """The finding for a request that was refused: 401 is who one is, 403 what one may do."""
    status = error.meta.status
    if isinstance(error, UnsupportedProductError):
        return danger(
            "Elasticsearch", f"{url} {describe_refusal(error)}", "Elasticsearch", "set elasticsearch.url to it"
        )
    advice = {
        401: "check elasticsearch.api_key, or username and password",
        403: "grant the rights of docs/security.md",
    }.get(status, "look into its log")
    return danger("Elasticsearch", f"{url} answers {status}", "200", advice)


def version_of(client: Elasticsearch) -> str:
    """The oldest release of the nodes. Of their statistics, as `GET /` is a module that embedded servers do not have."""
    nodes = client.nodes.info(filter_path="nodes.*.version").body["nodes"]
    return min(
        (str(node["version"]) for node in nodes.values()),
        key=lambda version: list(map(int, version.split("-")[0].split("."))),
    )


def version_finding(version: str) -> Finding:
    """Whether the release is one that the client speaks to."""
    major = int(version.partition(".")[0])
    if major not in MAJORS:
        return warning("Elasticsearch", f"version {version}", "8.x or 9.x", "use a release that kappa is tested with")
    return ok("Elasticsearch", f"version {version} answers")


def cluster(client: Elasticsearch, settings: Settings) -> list[Finding]:
    """Health of the indices of kappa."""
    health = client.cluster.health(index=f"{PREFIX}*", expand_wildcards="all").body
    return [health_finding(str(health["status"]), int(health["number_of_data_nodes"]), settings.elasticsearch.replicas)]


def health_finding(status: str, nodes: int, replicas: int) -> Finding:
    """What the health of the indices means."""
    text = f"indices are {status}, {nodes} data nodes, elasticsearch.replicas {replicas}"
    if status == "red":
        return danger(
            "indices", text, "green", "a shard is missing: start its node, or see GET _cluster/allocation/explain"
        )
    if nodes > 1 and replicas == 0:
        return warning(
            "indices",
            text,
            "1 or more copies",
            "set elasticsearch.replicas = 1: a node that breaks takes documents with it",
        )
    if status == "yellow":
        return warning("indices", text, "green", "copies have no node: add one, or set elasticsearch.replicas = 0")
    return ok("indices", text)


def disks(client: Elasticsearch) -> list[Finding]:
    """How full the disks of the nodes are, and their clocks."""
    nodes = client.nodes.stats(metric="fs").body["nodes"]
    return [finding for node in nodes.values() for finding in node_findings(node, wall_clock())]


def node_findings(node: Mapping[str, Any], now_ms: int) -> list[Finding]:
    """What a node's statistics say of its disk and clock."""
    check, found = f"node {node['name']}", []
    total = node["fs"]["total"]
    used = 100 * (1 - total["available_in_bytes"] / max(1, total["total_in_bytes"]))
    if used >= NEARLY_FULL:
        make = danger if used >= FULL else warning
        advice = "make room, or set elasticsearch.retention_days: a full node takes no documents"
        found.append(make(check, f"disk {used:.0f} % full", f"below {NEARLY_FULL:.0f} %", advice))
    apart = abs(int(node["timestamp"]) - now_ms)
    if apart > LATE_MS:
        found.append(
            warning(
                "clocks",
                f"{check} is {apart / 1000:.0f} s apart",
                "5 s at most",
                "synchronise the clocks of all machines (NTP)",
            )
        )
    return found or [ok(check, f"disk {used:.0f} % full")]


def blocks(client: Elasticsearch) -> list[Finding]:
    """Indices that take no documents."""
    settings = client.indices.get_settings(index=f"{PREFIX}*", name="index.blocks.*", expand_wildcards="all").body
    return [blocked(sorted(settings))] if any(one.get("settings") for one in settings.values()) else []


def blocked(names: list[str]) -> Finding:
    """The finding for indices that are read-only."""
    advice = "make room on the disks; Elasticsearch takes the block away when there is enough"
    return danger("indices", f"read-only: {names[0]} ({len(names)} in all)", "writable", advice)


def templates(client: Elasticsearch) -> list[Finding]:
    """Whether the templates are there that give indices their mappings."""
    found = client.options(ignore_status=404).indices.get_index_template(name=f"{PREFIX}*").body
    count = len(found.get("index_templates", []))
    if count == 0:
        return [warning("templates", "none", "those of kappa", "start `kappa run index`, which puts them")]
    return [ok("templates", f"{count} of kappa")]
