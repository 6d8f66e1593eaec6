"""A panel or a saved search as a value: its contents, and the Elasticsearch search for them.

`lens` and `saved_objects` give what Kibana makes of the same value. On construction of the saved objects each is held
against the mapping (`check`): a field that is not there, or cannot be used so, is a ValueError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from dashboards.kibana.fields import MappedField

TIME = "@timestamp"
Query = dict[str, Any]
Chart = Literal["heat map", "bars", "line", "table"]


@dataclass(frozen=True)
class Is:
    """Documents whose field has one of these values; `negated`: those whose field has none of them."""

    field: str
    values: tuple[str, ...]
    negated: bool = False

    @property
    def query(self) -> Query:
        """As a clause of a search; whether it is negated is for the search around it."""
        return {"terms": {self.field: list(self.values)}}

    @property
    def kql(self) -> str:
        """In the language of Kibana's query bar."""
        values = " or ".join(f'"{value}"' for value in self.values)
        positive = f"{self.field} : ({values})"
        return f"not {positive}" if self.negated else positive


@dataclass(frozen=True)
class Terms:
    """A group for each value of a field: at most `size`, those with the largest first measure."""

    field: str
    label: str
    size: int


@dataclass(frozen=True)
class OverTime:
    """A group for each interval of time; how long those are is chosen by who asks."""

    label: str
    field: str = TIME


@dataclass(frozen=True)
class Largest:
    """The largest value of a number, with `decimals` behind the point."""

    field: str
    label: str
    decimals: int = 1


@dataclass(frozen=True)
class Count:
    """How many documents."""

    label: str


Group = Terms | OverTime
Measure = Largest | Count


@dataclass(frozen=True)
class Panel:
    """Groups, outermost first, and what is measured of each, over one kind of documents."""

    id: str
    title: str
    description: str
    kind: str
    chart: Chart
    groups: tuple[Group, ...]
    measures: tuple[Measure, ...]
    where: tuple[Is, ...] = ()

    def group_id(self, number: int) -> str:
        """The name of a group in Kibana and in the answer of a search."""
        return f"group-{number}"

    def measure_id(self, number: int) -> str:
        """The name of a measure in both."""
        return f"measure-{number}"

    def request(self, start: datetime, end: datetime, interval: str) -> dict[str, Any]:
        """The body of the search behind the panel; `interval` as in `30m`, where time is one of the groups."""
        aggs = {self.measure_id(i): aggregation(m) for i, m in enumerate(self.measures) if isinstance(m, Largest)}
        for number, group in reversed(list(enumerate(self.groups))):
            aggs = {self.group_id(number): {**self.grouping(group, interval), "aggs": aggs | self.order(group)}}
        return {"size": 0, "query": matching(self.where, start, end), "aggs": aggs}

    def grouping(self, group: Group, interval: str) -> dict[str, Any]:
        """A group as an aggregation."""
        if isinstance(group, OverTime):
            return {"date_histogram": {"field": group.field, "fixed_interval": interval, "min_doc_count": 1}}
        by = self.measure_id(0) if isinstance(self.measures[0], Largest) else "_count"
        return {"terms": {"field": group.field, "size": group.size, "order": [{by: "desc"}, {"_key": "asc"}]}}

    def order(self, group: Group) -> dict[str, Any]:
        """What the groups of a field's values are ordered by must be measured of each of them."""
        first = self.measures[0]
        return (
            {self.measure_id(0): aggregation(first)} if isinstance(group, Terms) and isinstance(first, Largest) else {}
        )

    def check(self, fields: Mapping[str, MappedField]) -> None:
        """Raise ValueError for a field that the mapping lacks or that cannot be used so."""
        check_all(self.id, fields, "filtered by", [condition.field for condition in self.where])
        check_all(self.id, fields, "grouped by", [group.field for group in self.groups])
        check_all(self.id, fields, "measured", [m.field for m in self.measures if isinstance(m, Largest)])


@dataclass(frozen=True)
class Search:
    """Documents of one kind as a table: these columns, the largest of `sort` first."""

    id: str
    title: str
    description: str
    kind: str
    columns: tuple[str, ...]
    sort: tuple[str, ...]
    where: tuple[Is, ...] = ()
    # How far back it looks whatever the dashboard shows, such as `now-30d`; None for what the dashboard shows.
    since: str | None = None

    def request(self, start: datetime, end: datetime, size: int) -> dict[str, Any]:
        """The body of the search behind the table."""
        return {
            "size": size,
            "query": matching(self.where, start, end),
            "sort": [{name: {"order": "desc"}} for name in self.sort],
            "fields": list(self.columns),
            "_source": False,
        }

    def check(self, fields: Mapping[str, MappedField]) -> None:
        """Raise ValueError for a field that the mapping lacks or that cannot be used so."""
        check_all(self.id, fields, "filtered by", [condition.field for condition in self.where])
        check_all(self.id, fields, "sorted by", self.sort)
        check_all(self.id, fields, "shown", self.columns)


def aggregation(measure: Largest) -> dict[str, Any]:
    """A measure as an aggregation."""
    return {"max": {"field": measure.field}}


def matching(where: Sequence[Is], start: datetime, end: datetime) -> Query:
    """Documents of a span of time that meet all conditions."""
    span = {"range": {TIME: {"gte": start.isoformat(), "lt": end.isoformat()}}}
    return {
        "bool": {
            "filter": [span, *(c.query for c in where if not c.negated)],
            "must_not": [c.query for c in where if c.negated],
        }
    }


def kql(where: Sequence[Is]) -> str:
    """All conditions in the language of Kibana's query bar."""
    return " and ".join(condition.kql for condition in where)


USABLE: dict[str, Callable[[MappedField], bool]] = {
    "filtered by": lambda field: field.searchable and field.type != "text",
    "grouped by": lambda field: field.aggregatable,
    "sorted by": lambda field: field.aggregatable,
    "measured": lambda field: field.is_number,
    "shown": lambda field: True,
}


def check_all(where: str, fields: Mapping[str, MappedField], how: str, names: Sequence[str]) -> None:
    """Raise ValueError where one of the names is no field that can be used so."""
    for name in names:
        if name not in fields or not USABLE[how](fields[name]):
            found = f"it is a {fields[name].type} that cannot be" if name in fields else "there is no such field"
            msg = f"{where}: {name} cannot be {how}: in the mapping of the documents {found}"
            raise ValueError(msg)
