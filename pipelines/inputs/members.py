"""Members of a JSON record by path. All paths that any form of input reads are extracted in one pass, the one that checks a record's limits.

A dot in a key means the same as an object in an object: `host.name` is `{"host.name": ...}` and `{"host": {"name": ...}}`. Where a
record has both, the key counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from pyspark.sql import Column
from pyspark.sql import functions as F

# What a member has to be, as pipelines/jvm/MemberPaths.java calls it. All but a scalar may be its JSON.
SCALAR, ANY, OBJECT, LIST = "s", "a", "o", "l"
Paths = Mapping[str, str]  # path -> what it has to be


class Named(Protocol):
    """A mapping from names to columns of text, null where a record has no such member."""

    def __getitem__(self, name: str) -> Column: ...


class Members:
    """The members of a record, by path."""

    def __init__(self, found: Column) -> None:
        """`found` is a struct with a field `field_name(path)` for each path."""
        self._found = found

    def __getitem__(self, path: str) -> Column:
        return self._found[field_name(path)]


def field_name(path: str) -> str:
    """The field of a struct for a path. Spark ignores case in names, so capitals are marked."""
    return "".join(f"^{c}" if c.isupper() else c for c in path)


def paths_of_kind(kind: str, paths: Iterable[str]) -> dict[str, str]:
    """Paths of members of one kind."""
    return dict.fromkeys(paths, kind)


def paths_text(paths: Paths) -> str:
    """Paths as `MemberPaths.java` reads them; the members of a record are in this order."""
    return "\n".join(f"{kind} {path}" for path, kind in paths.items())


def parse_member(text: Column, kind: str) -> Column:
    """The JSON of a member of the kind `OBJECT` or `LIST`, parsed as a SQL type; null where it does not fit."""
    whole = F.concat(F.lit('{"m":'), text, F.lit("}"))
    return F.from_json(whole, f"struct<m:{kind}>")["m"]
