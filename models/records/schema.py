"""The schemas of a record, derived from its class: Arrow, Spark, Elasticsearch and JSON Schema say the same of each field."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import pyarrow as pa

KEYWORD: dict[str, Any] = {"type": "keyword", "ignore_above": 8191}
NOT_INDEXED: dict[str, Any] = {"index": False}
SEARCH_TYPES: dict[type, dict[str, Any]] = {
    str: KEYWORD,
    int: {"type": "long"},
    float: {"type": "double"},
    bool: {"type": "boolean"},
}
ARROW_TYPES: dict[type, pa.DataType] = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
SPARK_TYPES: dict[type, str] = {str: "string", int: "long", float: "double", bool: "boolean"}
R = TypeVar("R")
LARGEST = 2**63  # integers are of 64 bits, with a sign
SHOWN = 200
WORDS: dict[type, str] = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
JSON_TYPES: dict[type, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}
ALREADY_PLAIN = (str, int, bool, type(None))


@dataclass(frozen=True)
class Doc:
    """What a field means.

    Parameters
    ----------
    meaning : str
        One sentence for a reader of the topic.
    unit : str
        Unit of a number; `epoch ms` makes it a date in Elasticsearch.
    values : tuple of str
        All values that the field may have; empty where any text may stand.
    search : mapping
        Options of the Elasticsearch mapping beside the type, such as `{"index": False}` for what is read but never searched for.
    """

    meaning: str
    unit: str = ""
    values: tuple[str, ...] = ()
    search: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Field:
    """A field of a record: its name, its type without None, whether it may be missing, its default, and what it means."""

    name: str
    type: Any
    optional: bool
    default: Any
    doc: Doc

    @property
    def item(self) -> Any:
        """The type of a list's items; None for what is no list."""
        return get_args(self.type)[0] if get_origin(self.type) is list else None


def fields_of(record: type) -> dict[str, Field]:
    """The fields of a record class, by name, in the order in which they are written. Raises TypeError for one without a `Doc`."""
    return _fields_of(record)


@cache
def _fields_of(record: Any) -> dict[str, Field]:
    hints = get_type_hints(record, include_extras=True)
    found = {}
    for field in fields(record):
        hint = hints[field.name]
        docs = [doc for doc in get_args(hint)[1:] if isinstance(doc, Doc)] if get_origin(hint) is Annotated else []
        if not docs:
            msg = f"{record.__name__}.{field.name} has no Doc; wanted Annotated[type, Doc(...)]"
            raise TypeError(msg)
        kind, default = get_args(hint)[0], field.default
        optional = default is not MISSING or field.default_factory is not MISSING
        if get_origin(kind) in (Union, UnionType):
            (kind,) = (option for option in get_args(kind) if option is not NoneType)
            optional, default = True, None if default is MISSING else default
        found[field.name] = Field(field.name, kind, optional, default, docs[0])
    return found


def arrow_schema(record: type, names: tuple[str, ...] = ()) -> pa.Schema:
    """The record as an Arrow schema: all fields, or those of `names`; nested records are no columns of tables and raise KeyError."""
    chosen = fields_of(record)
    return pa.schema([(name, ARROW_TYPES[chosen[name].type]) for name in names or tuple(chosen)])


def spark_type(kind: Any) -> str:
    """The Spark type of a field's type."""
    if get_origin(kind) is list:
        return f"array<{spark_type(get_args(kind)[0])}>"
    if get_origin(kind) is not None:
        key, value = get_args(kind)
        return f"map<{spark_type(key)},{spark_type(value)}>"
    if is_dataclass(kind):
        return (
            "struct<"
            + ",".join(f"`{f.name}`:{spark_type(f.type)}" for f in fields_of(cast("type", kind)).values())
            + ">"
        )
    return SPARK_TYPES[kind]


def spark_ddl(*records: type) -> str:
    """The fields of one or more records as a schema for `from_json`.

    A field that several records have with unlike types comes as its JSON text, which Spark gives for a string.
    """
    types: dict[str, str] = {}
    for record in records:
        for field in fields_of(record).values():
            own = spark_type(field.type)
            types[field.name] = own if types.get(field.name, own) == own else "string"
    return ", ".join(f"`{name}` {kind}" for name, kind in types.items())


def search_type(record: type, name: str) -> dict[str, Any]:
    """The Elasticsearch mapping of a field; that of its items for a list, as Elasticsearch has no lists."""
    field = fields_of(record)[name]
    kind = field.item or field.type
    if is_dataclass(kind):
        inner = {f.name: search_type(cast("type", kind), f.name) for f in fields_of(cast("type", kind)).values()}
        return {"type": "nested", "properties": inner}
    found = {"type": "date"} if field.doc.unit == "epoch ms" else SEARCH_TYPES[kind]
    return {**found, **(field.doc.search or {})}


def search_types(record: type, *names: str) -> dict[str, dict[str, Any]]:
    """The Elasticsearch mappings of some fields, by name."""
    return {name: search_type(record, name) for name in names}


def json_schema(record: type) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a record. Unknown members are allowed: a later release may add fields."""
    doc = (record.__doc__ or "").strip().partition("\n\n")[0].replace("\n", " ")
    found = fields_of(record)
    properties = {name: _json_type(field) for name, field in found.items()}
    if "record" in found:  # has a default, and is written always
        properties["record"] = {"description": found["record"].doc.meaning, "const": found["record"].default}
    return {
        "description": " ".join(doc.split()),
        "type": "object",
        "properties": properties,
        "required": [name for name, field in found.items() if name == "record" or not field.optional],
    }


def _json_type(field: Field) -> dict[str, Any]:
    kind: Any = field.type
    found: dict[str, Any]
    if field.item is not None:
        found = {"type": "array", "items": _json_of(field.item)}
    elif get_origin(kind) is not None:
        found = {"type": "object", "additionalProperties": _json_of(get_args(kind)[1])}
    else:
        found = _json_of(kind)
    if field.doc.values:
        found = {"enum": [*field.doc.values, *([None] if field.optional else [])]}
    elif field.optional and isinstance(found.get("type"), str):
        found = {**found, "type": [found["type"], "null"]}
    unit = f" Unit: {field.doc.unit}." if field.doc.unit else ""
    return {"description": field.doc.meaning + unit, **found}


def _json_of(kind: Any) -> dict[str, Any]:
    return json_schema(cast("type", kind)) if is_dataclass(kind) else {"type": JSON_TYPES[kind]}


def plain(record: Any) -> dict[str, Any]:
    """A record as JSON types, field by field in order; a number that is not finite is None, as JSON has none."""
    return {name: _plain(getattr(record, name)) for name in fields_of(type(record))}


def _plain(value: Any) -> Any:
    if type(value) in ALREADY_PLAIN:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if is_dataclass(value) and not isinstance(value, type):
        return plain(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _plain(value[key]) for key in sorted(value)}
    return value


def parsed(record: type[R], source: Mapping[str, Any]) -> R:
    """The inverse of `plain`: a record from JSON types; what is null or missing has the field's default.

    Members that the class does not know are ignored. Raises ValueError where a field is missing that has no default, or
    something is not of its type.
    """
    found = {}
    for name, field in fields_of(record).items():
        value = source.get(name)
        if value is not None:
            found[name] = _parsed(record, field, value)
        elif field.optional:
            found |= {name: None} if field.default is None else {}
        else:
            msg = f"{record.__name__}: {name} is missing in {shown(dict(source))}"
            raise ValueError(msg)
    return record(**found)


def _parsed(record: type, field: Field, value: Any) -> Any:
    try:
        if field.item is not None:
            return [_typed(field.item, item) for item in _typed(list, value)]
        if get_origin(field.type) is not None:
            of_key, of_value = get_args(field.type)
            return {_typed(of_key, key): _typed(of_value, one) for key, one in _typed(dict, value).items()}
        return _typed(field.type, value)
    except (TypeError, AttributeError, ValueError) as error:
        msg = f"{record.__name__}: {field.name} is {shown(value)}; wanted {in_words(field)}"
        raise ValueError(msg) from error


def in_words(field: Field) -> str:
    """What a field may hold, for people."""
    if field.item is not None:
        return f"a list of {WORDS.get(field.item, 'objects')}"
    return WORDS.get(field.type, "an object")


def _typed(kind: Any, value: Any) -> Any:
    """A value of JSON as this type. Raises ValueError or AttributeError for one of another type, or out of its range."""
    if is_dataclass(kind):
        return parsed(cast("type", kind), value)
    if isinstance(value, int) and abs(value) >= LARGEST:
        msg = "is out of range"
        raise ValueError(msg)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, kind) or isinstance(value, bool) != (kind is bool):
        msg = f"is a {type(value).__name__}"
        raise ValueError(msg)
    if kind is str:
        value.encode()  # half of a pair is legal in JSON, and a ValueError here: nothing that is written could hold it
    return value


def shown(value: Any) -> str:
    """A value for a message, at most 200 characters of it."""
    text = repr(value) if not isinstance(value, str | bytes) else repr(value[:SHOWN])
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."
