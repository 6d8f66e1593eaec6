"""Members of a record that forms of input read: by paths, each found in the one pass over a record that looks at its limits.

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
    """What has a text by name: null where there is none."""

    def __getitem__(self, name: str) -> Column: ...


class Members:
    """The members of a record, by path."""

    def __init__(self, found: Column) -> None:
        """`found` is a struct with the fields `field_of` the paths."""
        self._found = found

    def __getitem__(self, path: str) -> Column:
        return self._found[field_of(path)]


def field_of(path: str) -> str:
    """The name of a path as Spark needs it, for which small letters and capitals are the same."""
    return "".join(f"^{c}" if c.isupper() else c for c in path)


def all_of(kind: str, paths: Iterable[str]) -> dict[str, str]:
    """Paths of members of one kind."""
    return dict.fromkeys(paths, kind)


def paths_text(paths: Paths) -> str:
    """Paths as `MemberPaths.java` reads them; the members of a record are in this order."""
    return "\n".join(f"{kind} {path}" for path, kind in paths.items())


def parsed(text: Column, kind: str) -> Column:
    """A member of the kind `OBJECT` or `LIST` as a value of a SQL type; null where it is none."""
    whole = F.concat(F.lit('{"m":'), text, F.lit("}"))
    return F.from_json(whole, f"struct<m:{kind}>")["m"]
