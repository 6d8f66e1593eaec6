"""What a shard remembers of the templates of each service of a host, and its form as an Arrow part."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from models.core.store import read_part, write_part
from models.templates.merging import TemplateMerger

PART = "patterns"
COLUMNS = ("context", "pattern", "text", "template_id")

Row = tuple[str, str, str, str]  # by COLUMNS


@dataclass
class ServiceTemplates:
    """The templates of a service of a host: `ids` by the text of each template of the `merger`."""

    merger: TemplateMerger = field(default_factory=TemplateMerger)
    ids: dict[str, str] = field(default_factory=dict)

    def keep(self, ids: Iterable[str]) -> None:
        """Forget the templates without one of these ids."""
        kept = set(ids)
        self.ids = {text: own for text, own in self.ids.items() if own in kept}
        self.merger.keep(self.ids)


Services = dict[str, ServiceTemplates]  # by context, HOST/SERVICE


def rows_of(services: Mapping[str, ServiceTemplates]) -> Iterable[Row]:
    """All of it by `COLUMNS`: by context, and in it in the merger's order."""
    for context in sorted(services):
        own = services[context]
        for pattern, text in own.merger.patterns:
            yield context, pattern, text, own.ids[text]


def part_of(rows: Iterable[Row]) -> bytes:
    """The rows of `rows_of` as a part."""
    columns = zip(*rows, strict=True)
    found = dict(zip(COLUMNS, columns, strict=False)) or dict.fromkeys(COLUMNS, ())
    return write_part({name: pa.array(found[name], type=pa.string()) for name in COLUMNS}, {})


def read(data: bytes) -> Services:
    """The inverse of `part_of`. Raises ValueError for another format."""
    arrays, _ = read_part(data)
    patterns: dict[str, list[tuple[str, str]]] = {}
    services: Services = {}
    for context, pattern, text, own in zip(*(arrays[name].to_pylist() for name in COLUMNS), strict=True):
        services.setdefault(context, ServiceTemplates()).ids[sys.intern(text)] = sys.intern(own)
        patterns.setdefault(context, []).append((pattern, text))
    for context, found in patterns.items():
        services[context].merger = TemplateMerger(found)
    return services
