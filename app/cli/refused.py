"""`kappa refused`: which records were refused, and why. The search is that of the page Pipeline."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from app.cli.connection import Config, connected
from app.cli.output import Json, print_json, print_line, print_table
from app.core.settings import Settings
from app.core.timestamps import iso
from app.versions import serving
from models.core.wording import counted
from pipelines.errors import ServiceUnavailable

SHOWN_CHARACTERS = 100  # of a sample: a row is a line or two
COLUMNS = ["kind", "records", "reason", "newest", "from", "sample"]


def refused(
    hours: Annotated[float, typer.Option(min=0.01, max=100_000, help="How many hours to look back.")] = 24.0,
    version: Annotated[str | None, typer.Option(help="Version. Default: the one that serves.")] = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Show why records were refused: the most frequent reasons, each with its count and its newest record."""
    settings = connected(serving.of_version(config, version), ("elasticsearch",))
    total, reasons = reasons_of(settings, timedelta(hours=hours))
    if as_json:
        print_json({"version": settings.version, "refused": total, "reasons": reasons})
        return
    show(f"version {settings.version}: {counted(total, 'record')} refused in {counted(hours, 'hour')}", total, reasons)


def reasons_of(settings: Settings, length: timedelta) -> tuple[int, list[dict[str, Any]]]:
    """How many records were refused, and the most frequent reasons. Raises ServiceUnavailable if Elasticsearch does not answer."""
    from app.search.connection import elasticsearch_connection  # loads Elasticsearch's client and Spark
    from dashboards.queries.pipeline import refused as search_refused
    from dashboards.queries.search import QueryError, Span

    now = datetime.now(UTC)
    client = elasticsearch_connection(settings).connect()
    try:
        found = search_refused(client, settings.version, Span(now - length, now))
    except QueryError as error:
        raise ServiceUnavailable(str(error)) from error
    finally:
        client.close()
    rows: Any = found.rows.to_dict("records")
    return found.total, [one | {"latest": iso(1000 * one["latest"].timestamp())} for one in rows]


def show(title: str, total: int, reasons: list[dict[str, Any]]) -> None:
    """Print the reasons as a table, and of how many of all records they are where these are not all."""
    print_table(title, COLUMNS, [row(one) for one in reasons])
    listed = sum(one["count"] for one in reasons)
    if listed < total:
        print_line(f"these are the most frequent reasons: those of {listed:,} of {counted(total, 'record')}")


def row(one: dict[str, Any]) -> list[str]:
    """A reason in the table."""
    sample = one["sample"] or ""
    shown = sample if len(sample) <= SHOWN_CHARACTERS else f"{sample[: SHOWN_CHARACTERS - 1]}…"
    return [one["dataset"], f"{one['count']:,}", one["reason"], one["latest"], one["source_position"], shown]
