"""Everything as Kibana's saved objects, one JSON object a line: what Kibana's own export writes and its import takes.

Each object says the form that it is written in (`typeMigrationVersion`): Kibana brings older ones up to its own when it
takes them in, and refuses newer ones. These are the forms of 8.17, which every Kibana 9 has.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dashboards.kibana import contents, lens
from dashboards.kibana.contents import Place
from dashboards.kibana.fields import MappedField, fields_of
from dashboards.kibana.panels import TIME, Panel, Search, kql
from models.records.index_names import alias_of

CORE_FORM = "8.8.0"
FORMS = {"index-pattern": "8.0.0", "search": "10.5.0", "lens": "8.9.0", "dashboard": "10.2.0"}
DASHBOARD_ID = "kappa-dashboard"
REFRESH_MILLISECONDS = 60_000
SEARCH_VIEW = "kibanaSavedObjectMeta.searchSourceJSON.index"

Object = dict[str, Any]


def ndjson(properties: Mapping[str, Mapping[str, Any]]) -> str:
    """All saved objects as text; `properties` are those of each kind's mapping. The same mapping gives the same text.

    Raises ValueError for a panel or search whose fields the mapping lacks.
    """
    return "".join(text(each, sort=True) + "\n" for each in saved_objects(properties))


def saved_objects(properties: Mapping[str, Mapping[str, Any]]) -> list[Object]:
    """Data views, searches, panels and the dashboard, each after what it refers to."""
    fields = {kind: fields_of(properties[kind]) for kind in contents.DATA_VIEWS}
    for shown in (*contents.PANELS, *contents.SEARCHES):
        shown.check(fields[shown.kind])
    views = [data_view(kind, fields[kind]) for kind in contents.DATA_VIEWS]
    return [*views, *map(search, contents.SEARCHES), *map(panel, contents.PANELS), dashboard(contents.DASHBOARD)]


def an_object(kind: str, name: str, attributes: Object, references: list[dict[str, str]]) -> Object:
    """A saved object without what a server adds."""
    return {
        "type": kind,
        "id": name,
        "attributes": attributes,
        "references": references,
        "coreMigrationVersion": CORE_FORM,
        "typeMigrationVersion": FORMS[kind],
        "managed": False,
    }


def view_id(kind: str) -> str:
    """The id of a kind's data view."""
    return f"kappa-{kind}"


def data_view(kind: str, fields: Mapping[str, MappedField]) -> Object:
    """A kind of documents, by the alias of the version that serves. It may be there before the first document."""
    labels = {name: {"customLabel": label} for name, label in contents.LABELS.items() if name in fields}
    scores = [name for name in ("novelty.score", "novelty.evidence") if name in fields]
    formats = {name: {"id": "number", "params": {"pattern": "0,0.0"}} for name in scores}
    return an_object(
        "index-pattern",
        view_id(kind),
        {
            "title": alias_of(kind),
            "name": contents.DATA_VIEWS[kind],
            "timeFieldName": TIME,
            "allowNoIndex": True,
            "fieldAttrs": text(labels),
            "fieldFormatMap": text(formats),
            "fields": "[]",
            "runtimeFieldMap": "{}",
            "sourceFilters": "[]",
        },
        [],
    )


def search(shown: Search) -> Object:
    """A saved search."""
    source = {
        "query": {"query": kql(shown.where), "language": "kuery"},
        "filter": [],
        "indexRefName": SEARCH_VIEW,
    }
    attributes: Object = {
        "title": shown.title,
        "description": shown.description,
        "columns": list(shown.columns),
        "sort": [[name, "desc"] for name in shown.sort],
        "grid": {},
        "hideChart": False,
        "isTextBasedQuery": False,
        "timeRestore": shown.since is not None,
        "kibanaSavedObjectMeta": {"searchSourceJSON": text(source)},
    }
    if shown.since is not None:
        attributes["timeRange"] = span_since(shown.since)
    view = {"type": "index-pattern", "id": view_id(shown.kind), "name": SEARCH_VIEW}
    return an_object("search", shown.id, attributes, [view])


def panel(shown: Panel) -> Object:
    """A Lens visualization."""
    return an_object("lens", shown.id, lens.attributes(shown), lens.references(view_id(shown.kind)))


def dashboard(places: tuple[Place, ...]) -> Object:
    """The dashboard: the last day, looked at again every minute. What it shows are objects of their own."""
    attributes = {
        "title": contents.DASHBOARD_TITLE,
        "description": contents.DASHBOARD_DESCRIPTION,
        "panelsJSON": text([placed(place) for place in places]),
        "optionsJSON": text({"useMargins": True, "syncColors": False, "syncCursor": True, "syncTooltips": False}),
        "timeRestore": True,
        "timeFrom": "now-24h",
        "timeTo": "now",
        "refreshInterval": {"pause": False, "value": REFRESH_MILLISECONDS},
        "kibanaSavedObjectMeta": {
            "searchSourceJSON": text({"query": {"query": "", "language": "kuery"}, "filter": []})
        },
    }
    references = [
        {"type": type_of(p.shown), "id": p.shown.id, "name": f"{p.shown.id}:panel_{p.shown.id}"} for p in places
    ]
    return an_object("dashboard", DASHBOARD_ID, attributes, references)


def placed(place: Place) -> Object:
    """A panel of the dashboard: where it stands, and the name of the reference that says which it is."""
    shown = place.shown
    config: Object = {"enhancements": {}}
    if isinstance(shown, Search) and shown.since is not None:
        config["timeRange"] = span_since(shown.since)
    return {
        "type": type_of(shown),
        "panelIndex": shown.id,
        "gridData": {"i": shown.id, "x": place.x, "y": place.y, "w": place.w, "h": place.h},
        "embeddableConfig": config,
        "panelRefName": f"panel_{shown.id}",
        "title": shown.title,
    }


def type_of(shown: Panel | Search) -> str:
    """The type of the saved object."""
    return "search" if isinstance(shown, Search) else "lens"


def span_since(start: str) -> dict[str, str]:
    """From then until now."""
    return {"from": start, "to": "now"}


def text(value: Any, *, sort: bool = False) -> str:
    """JSON as Kibana keeps it: on one line, without blanks."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=sort)
