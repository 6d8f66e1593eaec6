"""Vector, `encoding.codec = "json"`: one metric a record. Distributions, sets and changes of a gauge are refused: they hold no value."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipelines.inputs.fields import LABELS, let, name_labels, part, point, truncate, without_port
from pipelines.inputs.members import ANY, OBJECT, Members, parse_member, paths_of_kind

_ONE, _BOTH = ("counter", "gauge"), ("aggregated_histogram", "aggregated_summary")
MEMBERS = (
    paths_of_kind(ANY, ("kind", "namespace", "name", "timestamp"))
    | paths_of_kind(OBJECT, ("tags", *_ONE, *_BOTH))
    | paths_of_kind(
        ANY, (*(f"{form}.value" for form in _ONE), *(f"{form}.{of}" for form in _BOTH for of in ("count", "sum")))
    )
)
KINDS = ("absolute", "incremental")
_OWN, _OF_TARGET = ("host", "service"), ("instance", "job")


def points(members: Members) -> Column:
    """A record's `MEMBERS` -> points; `.count` and `.sum` of a histogram or summary."""

    def of_labels(labels: Column, tags: Column) -> Column:
        none = F.slice(F.array(part("", F.lit(None).cast("string"))), 1, 0)
        one = F.array(part("", _first(members, _ONE, "value")))
        two = F.array(*(part(f".{of}", _first(members, _BOTH, of)) for of in ("count", "sum")))
        change = members["gauge"].isNotNull() & _incremental(members)  # and no value
        found = F.when(_any(members, _ONE) & ~change, one).when(_any(members, _BOTH), two).otherwise(none)
        return F.transform(found, lambda p: of_part(p, labels, tags))

    def of_part(p: Column, labels: Column, tags: Column) -> Column:
        return point(
            at=members["timestamp"],
            host=F.coalesce(tags["host"], without_port(tags["instance"])),
            service=F.coalesce(tags["service"], tags["job"]),
            metric=F.concat(F.concat_ws("_", truncate(members["namespace"]), truncate(members["name"])), p["suffix"]),
            labels=labels,
            value=p["value"],
            counter=members["gauge"].isNull() & ~_incremental(members),
        )

    def of_tags(tags: Column) -> Column:
        # what the receiver of Prometheus' metrics says of a target where the metric has no host
        own = F.map_filter(tags, lambda k, _: ~(k.isin(*_OWN) | (k.isin(*_OF_TARGET) & tags["host"].isNull())))
        return let(name_labels(own), lambda labels: of_labels(labels, tags))

    tags = parse_member(members["tags"], LABELS)
    return let(let(tags, lambda given: F.transform_values(given, lambda _, value: _last(value))), of_tags)


def _incremental(members: Members) -> Column:
    return members["kind"] != KINDS[0]


def _any(members: Members, forms: tuple[str, ...]) -> Column:
    return F.coalesce(*(members[form] for form in forms)).isNotNull()


def _first(members: Members, forms: tuple[str, ...], of: str) -> Column:
    """What the first of the forms that is there has."""
    given = (F.when(members[form].isNotNull(), F.struct(members[f"{form}.{of}"].alias("v"))) for form in forms)
    return F.coalesce(*given)["v"]


def _last(value: Column) -> Column:
    """The last value of a tag that has several."""
    listed = F.when(value.startswith("["), F.from_json(value, "array<string>"))
    return F.coalesce(F.try_element_at(listed, F.lit(-1)), value)
