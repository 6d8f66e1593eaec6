"""Answers of Elasticsearch as data frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pandas as pd

TIMES = ("since", "until", "latest", "time", "onset")
NUMBERS = ("score", "value", "typical", "lower", "upper", "certainty", "before", "after", "affected")


@dataclass(frozen=True)
class Listing:
    """The first rows of an answer, and how many there are in all."""

    rows: pd.DataFrame
    total: int


def listing_of(found: Mapping[str, Any], columns: Mapping[str, str]) -> Listing:
    """Hits as a frame: a column for each field; `_id` is the document's id."""
    sources = [{**hit["_source"], "_id": hit["_id"]} for hit in found["hits"]["hits"]]
    rows = [{column: pick(source, name) for column, name in columns.items()} for source in sources]
    return Listing(frame_of(rows, columns), found["hits"]["total"]["value"])


def frame_of(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | Mapping[str, str]) -> pd.DataFrame:
    """A frame with these columns, even without rows; times are times, numbers numbers, and what is none of these is not known."""
    frame = pd.DataFrame(list(rows), columns=list(columns))
    for name in TIMES:
        if name in frame:
            frame[name] = pd.to_datetime(frame[name], utc=True, format="ISO8601", errors="coerce")
    for name in NUMBERS:
        if name in frame:
            frame[name] = pd.to_numeric(frame[name], errors="coerce").astype(float)
    return frame


def pick(source: Mapping[str, Any], path: str) -> Any:
    """A field of a document by its full name, None where it is absent; through a list, the values of its members."""
    value: Any = source
    for name in path.split("."):
        if isinstance(value, list):
            value = [member.get(name) for member in value]
        elif isinstance(value, Mapping):
            value = value.get(name)
        else:
            return None
    return value


def as_list(value: Any) -> list[Any]:
    """Elasticsearch lets a field hold one value or several."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def moment(millis: float) -> datetime:
    """Epoch milliseconds as a time."""
    return datetime.fromtimestamp(millis / 1000, tz=UTC)
