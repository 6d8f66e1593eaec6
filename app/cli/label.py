"""`kappa label`: one record in the topic `labels`. `record` and `send` do it from Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from app.cli.change import DryRun
from app.cli.connection import Config, connected
from app.cli.output import Json, print_json, print_line
from app.core.settings import Settings
from app.core.user_name import user_name
from app.versions import serving
from models.core.series import parse
from models.records.index_names import alias_of
from models.records.labels import MOST_SERIES, is_name
from models.records.records import LABELS, MOST_AUTHOR, MOST_COMMENT, Label, fit_into_bytes
from models.records.schema import parsed, plain
from pipelines.errors import InputError, ServiceUnavailable

SERIES_BYTES = 98_304  # of JSON of the names in a label: with its hosts it has to be one that `extract` reads


def label(
    incident: Annotated[
        str, typer.Argument(help="Id of the incident, as in the topic incidents and on the dashboard.")
    ],
    label: Annotated[str, typer.Argument(metavar="LABEL", help="true, false-alarm, expected-change or acknowledged.")],
    comment: Annotated[str, typer.Option(help="Comment for people.")] = "",
    author: Annotated[str | None, typer.Option(help="Author. Default: the user who runs this.")] = None,
    series: Annotated[
        list[str] | None, typer.Option(help="Series to use instead of the incident's; can be repeated.")
    ] = None,
    dry_run: DryRun = False,
    version: Annotated[
        str | None, typer.Option(help="Version of the incident. Default: the version that serves.")
    ] = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Say what an incident was: it goes into the log, and the models take it in."""
    needed = ("kafka",) if series else ("kafka", "elasticsearch")
    check_label(label)
    settings = connected(serving.of_version(config, version), needed)
    about, left_out = (about_series(series), 0) if series else whole_incident(settings, incident)
    made = record(settings, incident, label, comment, author, about)
    if not dry_run:
        send(settings, made)
    if as_json:
        print_json(made | {"left_out": left_out, "written": not dry_run})
        return
    rest = f"; not of {left_out} of its episodes: name their series with --series" if left_out else ""
    print_line(f"{'would write ' if dry_run else ''}{label}: {len(made['series'])} series of incident {incident}{rest}")


def whole_incident(settings: Settings, incident: str) -> tuple[dict[str, Any], int]:
    """Series, hosts, start and end of an incident of the settings' version, from Elasticsearch, and how many episodes have no series there.

    The series are those of all its episodes, as far as it lists them and a label has room. Raises InputError if the incident is not there, or no
    label can be about it.
    """
    try:
        source = incident_document(settings, incident)
    except (InputError, ServiceUnavailable) as error:
        msg = f"{error}; or name the series with --series"
        raise type(error)(msg) from error
    listed = source["novelty"].get("episodes") or []
    asked = listed[:MOST_SERIES]
    found = documents(settings, "novelties", asked, ["novelty.series"]) if asked else {}
    about = about_incident(source)
    members = [found[name]["novelty"]["series"] for name in asked if name in found]
    about["series"], cut = series_of(about["series"], members)
    if not about["series"]:
        msg = f"incident {incident} is about no series of a host, so no label can be about it"
        raise InputError(msg)
    gone = max(len(listed) - len(members) - len(set(about["series"]) - set(members)), 0)  # with no document any more
    return about, omitted(source) + gone + cut


def series_of(shown: Iterable[str], members: Sequence[str]) -> tuple[list[str], int]:
    """Names for a label: of the series that an incident shows and of those of its episodes, each once; and how many episodes have no place."""
    names = fit_into_bytes(
        [name for name in dict.fromkeys([*shown, *members]) if is_name(name)][:MOST_SERIES], SERIES_BYTES
    )
    known = set(names)
    return names, sum(name not in known for name in members)


def omitted(source: Mapping[str, Any]) -> int:
    """How many episodes an incident's document does not list."""
    return int(source["novelty"].get("episodes_omitted") or 0)


def unshown(source: Mapping[str, Any]) -> int:
    """How many episodes an incident has beside those whose series it shows."""
    novelty = source["novelty"]
    return max(len(novelty.get("episodes") or ()) + omitted(source) - len(novelty.get("contributions") or ()), 0)


def about_incident(source: Mapping[str, Any]) -> dict[str, Any]:
    """What a label says of an incident, from its document: the series that it shows, hosts, start and end."""
    return {
        "series": [one["series"] for one in source["novelty"].get("contributions") or ()],
        "host": (source.get("host") or {}).get("name", []),
        "start": source["event"].get("start"),
        "end": source["event"].get("end"),
    }


def incident_document(settings: Settings, incident: str) -> Mapping[str, Any]:
    """An incident of the settings' version as Elasticsearch has it. Raises InputError if it is not there."""
    found = documents(settings, "incidents", [incident])
    if incident not in found:
        msg = (
            f"version {settings.version} has no incident {incident} in Elasticsearch; see its id in `kappa watch --lines` or "
            "on the dashboard, or name another --version"
        )
        raise InputError(msg)
    return found[incident]


def documents(
    settings: Settings, kind: str, ids: Sequence[str], fields: Sequence[str] | None = None
) -> dict[str, Mapping[str, Any]]:
    """Those of these documents of the settings' version that are there, with all fields or some, by id.

    Raises ServiceUnavailable if Elasticsearch does not answer.
    """
    from elastic_transport import TlsError, TransportError
    from elasticsearch import ApiError

    from app.search.connection import elasticsearch_connection  # loads Elasticsearch's client

    client = elasticsearch_connection(settings).connect()
    try:
        found = client.search(
            index=alias_of(kind, settings.version),
            query={"ids": {"values": list(ids)}},
            size=len(ids),
            source_includes=fields,
            ignore_unavailable=True,
        )
    except (ApiError, TransportError) as error:
        from pipelines.elasticsearch.refusals import (  # loads Elasticsearch's client
            describe_no_answer,
            describe_refusal,
        )

        what = describe_refusal(error) if isinstance(error, ApiError) else describe_no_answer(error)
        what += "" if isinstance(error, ApiError | TlsError) else ": see whether it runs, and check elasticsearch.url"
        msg = f"Elasticsearch at {settings.elasticsearch.url} {what}"
        raise ServiceUnavailable(msg) from error
    finally:
        client.close()
    return {hit["_id"]: hit["_source"] for hit in found["hits"]["hits"]}


def about_series(names: Sequence[str]) -> dict[str, Any]:
    """The part of a label that names series given by hand. Raises InputError for a malformed name."""
    try:
        hosts = sorted({parse(name).host for name in names})
    except ValueError as error:
        raise InputError(str(error)) from error
    return {"series": list(names), "host": hosts, "start": None, "end": None}


def check_label(label: str) -> None:
    """Raise InputError for an unknown label."""
    if label not in LABELS:
        msg = f"label is {label!r}; wanted {', '.join(LABELS)}"
        raise InputError(msg)


def record(
    settings: Settings, incident: str, label: str, comment: str, author: str | None, about: Mapping[str, Any]
) -> dict[str, Any]:
    """The label as a record; `about` has series, hosts, start and end. Raises InputError for an unknown label or a text that is too long."""
    check_label(label)
    author_name = user_name() if author is None else author
    for field, text, most in (("comment", comment, MOST_COMMENT), ("author", author_name, MOST_AUTHOR)):
        if len(text) > most:
            msg = f"{field} has {len(text)} characters; wanted at most {most}"
            raise InputError(msg)
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    own = {"label": label, "incident": incident, "version": settings.version, "comment": comment, "author": author_name}
    return {"@timestamp": now, **plain(parsed(Label, own | dict(about)))}


def send(settings: Settings, label: dict[str, Any]) -> None:
    """Append a label to the log. Raises ServiceUnavailable if Kafka does not take it."""
    from app.kafka.append import append  # loads Kafka's client

    append(settings, "labels", [(str(label["incident"]), label)])
