"""The tables of a savepoint, made of the state of a shard, and the state made of them again, to the byte.

`parts_to_tables` and `parts_from_tables` are each other's inverse. Rows keep the order of the state, on which floating-point sums depend.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from models.challengers.memory import PART as CHALLENGERS
from models.challengers.memory import ChallengerMemories, ChallengerMemory
from models.core import store
from models.detection import service_templates, shard_state
from models.detection.change_candidates import PART as CHANGE_CANDIDATES
from models.detection.change_candidates import ChangeCandidates
from models.detection.peer_law import PART as PEERS
from models.detection.peer_law import Peers
from models.detection.recurrence import COLUMNS as RECURRENCE_COLUMNS
from models.detection.recurrence import PART as RECURRENCES
from models.detection.service_templates import PART as PATTERNS
from models.detection.shard_state import CONTROL_COLUMNS, REMEMBERED, RULE_COLUMNS, RULES
from models.univariate import univariate_state
from pipelines.errors import InputError

LABELS = {"gauges": "series", "counts": "series", "hosts": "host", "contexts": "context"}  # the name beside numbers
EPISODE = ("cause", "kind", "start", "score")  # shown beside the whole episode
TRIAL = {
    "series": pa.string(),
    "surprise": pa.float64(),
    "first": pa.int64(),
    "returns": pa.int64(),
    "windows": pa.int64(),
}
SPARSE = {CHANGE_CANDIDATES: ChangeCandidates.KINDS, PEERS: Peers.KINDS}
COLUMNS = {REMEMBERED: CONTROL_COLUMNS, RULES: RULE_COLUMNS, RECURRENCES: RECURRENCE_COLUMNS}  # parts that are tables
PRESSED = "pressed"
TABLES = (*LABELS, *univariate_state.PARTS, *SPARSE, "episodes", "trials", "texts", PATTERNS, PRESSED, *COLUMNS)

Tables = dict[str, pa.Table]


@dataclass(frozen=True)
class ShardParts:
    """The model of a shard after the window that ended at `done`, epoch milliseconds, as `ShardDetector.dump` gives it."""

    shard: int
    done: int
    parts: Mapping[str, bytes]


def parts_to_tables(shard: ShardParts) -> tuple[Tables, dict[str, int]]:
    """The parts of a shard as tables by name, and where the shard stands. Raises InputError for another format."""
    try:
        missing = [name for name in shard_state.PARTS if name not in shard.parts]
        if missing:
            msg = f"lacks {', '.join(missing)}; wanted all parts of a dump"
            raise ValueError(msg)
        read = {name: store.read_part(shard.parts[name]) for name in shard_state.PARTS}
    except ValueError as error:
        msg = f"state of shard {shard.shard} cannot be put into a savepoint: {error}"
        raise InputError(msg) from error
    arrays, lengths = read["names"]
    tables: Tables = {}
    at = 0
    for name, label in LABELS.items():
        tables[name] = numbers_table(label, arrays["name"].slice(at, lengths[name]), *read[name])
        at += lengths[name]
    for name in univariate_state.PARTS:
        numbers = univariate_state.columns_of(name, shard.parts[name])
        tables[name] = pa.table(
            {"series": column(tables["gauges"], "series"), **{k: rows_as_lists(v) for k, v in numbers.items()}}
        )
    for name in SPARSE:
        tables[name] = sparse_table(column(tables["gauges"], "series"), *read[name])
    episodes, about = read["episodes"]
    if CHALLENGERS in shard.parts:
        memories, own = store.read_part(shard.parts[CHALLENGERS])
        names = column(tables["gauges"], "series")
        made_by = pa.array([own["made_by"]] * len(names), type=pa.string())
        tables[CHALLENGERS] = pa.table({"series": names, **memories, "made_by": made_by})
    tables["episodes"] = episodes_table(episodes["episode"])
    tables["trials"] = pa.Table.from_pylist(about["trials"], schema=pa.schema(TRIAL.items()))
    pressed = about.get(PRESSED, {})
    tables[PRESSED] = pa.table(
        {"host": pa.array(pressed, type=pa.string()), "last": pa.array(pressed.values(), type=pa.int64())}
    )
    texts, _ = read["texts"]
    tables["texts"] = pa.table({"template_id": texts["id"], "text": texts["text"]})
    tables[PATTERNS] = pa.table(read[PATTERNS][0])
    tables |= {name: pa.table(read[name][0]) for name in COLUMNS}
    where = {
        "shard": shard.shard,
        "done": shard.done,
        "steps": about["steps"],
        "first": about["first"],
        "last": about["last"],
    }
    number = {name: pa.array(np.full(len(table), shard.shard, dtype=np.int32)) for name, table in tables.items()}
    tables = {name: table.add_column(0, "shard", number[name]) for name, table in tables.items()}
    return tables, where | {name: len(table) for name, table in tables.items()}


def numbers_table(label: str, names: pa.Array, arrays: Mapping[str, pa.Array], about: Mapping[str, Any]) -> pa.Table:
    """Numbers with a row per name as a column each."""
    columns = store.read_numbers(arrays, about)
    found = len(next(iter(columns.values())))
    if found != len(names):
        msg = f"state of a shard has {found} rows of numbers for {len(names)} names: its parts are not of one dump"
        raise InputError(msg)
    return pa.table({label: names, **columns})


def sparse_table(names: pa.Array, arrays: Mapping[str, pa.Array], about: Mapping[str, Any]) -> pa.Table:
    """The series of a sparse table, by name, and their numbers as a column each."""
    columns = store.read_numbers(arrays, about)
    return pa.table({"series": names.take(pa.array(columns.pop("row"))), **columns})


def sparse_part(table: pa.Table, names: pa.Array, columns: Iterable[str]) -> bytes:
    """The inverse of `sparse_table`."""
    rows = {name: row for row, name in enumerate(names.to_pylist())}
    found = np.array([rows[name] for name in column(table, "series").to_pylist()], dtype=np.int32)
    return store.write_numbers({"row": found, **{name: column_as_numbers(table, name, 1)[0] for name in columns}})


def episodes_table(episodes: pa.Array) -> pa.Table:
    """Open episodes: columns to search by, and the whole as JSON, in which floats keep every bit."""
    found = [json.loads(text) for text in episodes.to_pylist()]
    shown = {name: [episode[name] for episode in found] for name in ("series", *EPISODE)}
    types = {"start": pa.int64(), "score": pa.float64()}
    columns = {name: pa.array(values, type=types.get(name, pa.string())) for name, values in shown.items()}
    return pa.table({**columns, "episode": episodes})


def parts_from_tables(tables: Tables, where: Mapping[str, int]) -> dict[str, bytes]:
    """The inverse of `parts_to_tables`."""
    parts: dict[str, bytes] = {}
    names = []
    for name, label in LABELS.items():
        table = tables[name].drop_columns(["shard"])
        names += column(table, label).to_pylist()
        others = [other for other in table.column_names if other != label]
        parts[name] = store.write_numbers(
            {other: column(table, other).to_numpy(zero_copy_only=False) for other in others}
        )
    for name, columns_of in univariate_state.PARTS.items():
        arrays = {other: column_as_numbers(tables[name], other, size) for other, (_, size) in columns_of.items()}
        parts[name] = univariate_state.part_of(name, arrays)
    for name, kinds in SPARSE.items():
        parts[name] = sparse_part(tables[name], column(tables["gauges"], "series"), kinds)
    if CHALLENGERS in tables:
        parts[CHALLENGERS] = challengers_of(tables[CHALLENGERS]).dump()
    lengths = {name: len(tables[name]) for name in LABELS}
    parts["names"] = store.write_part({"name": pa.array(names, type=pa.string())}, lengths)
    about = {key: where[key] for key in ("steps", "first", "last")}
    trials = tables["trials"].drop_columns(["shard"]).to_pylist()
    pressed = {row["host"]: row["last"] for row in tables[PRESSED].to_pylist()}
    more = {"trials": trials} | ({PRESSED: pressed} if pressed else {})
    parts["episodes"] = store.write_part({"episode": as_strings(tables["episodes"], "episode")}, {**about, **more})
    texts = {"id": as_strings(tables["texts"], "template_id"), "text": as_strings(tables["texts"], "text")}
    parts["texts"] = store.write_part(texts, {})
    patterns = [column(tables[PATTERNS], name).to_pylist() for name in service_templates.COLUMNS]
    parts[PATTERNS] = service_templates.part_of(zip(*patterns, strict=True))
    for name, kinds in COLUMNS.items():
        rows = list(zip(*(column(tables[name], other).to_pylist() for other in kinds), strict=True))
        parts[name] = shard_state.write_columns(kinds, rows)
    return parts


def challengers_of(table: pa.Table) -> ChallengerMemories:
    """The memories of a challenger; each row names the class that made them."""
    rows = zip(*(column(table, name).to_pylist() for name in ("values", "scores", "begun", "began")), strict=True)
    names = column(table, "made_by").to_pylist()
    return ChallengerMemories(names[0] if names else "", [ChallengerMemory(*row) for row in rows])


def column(table: pa.Table, name: str) -> pa.Array:
    """A column as one array: a table without rows may have none."""
    chunked = table.column(name)
    return chunked.chunk(0) if chunked.num_chunks else pa.array([], type=chunked.type)


def column_as_numbers(table: pa.Table, name: str, size: int) -> NDArray[Any]:
    """A column with `size` numbers in each row, shape `(size, rows)`."""
    found = column(table, name)
    flat = found if size == 1 else found.flatten()
    return np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(-1, size).T


def rows_as_lists(numbers: NDArray[Any]) -> pa.Array:
    """The inverse of `column_as_numbers`: numbers `(size, rows)` as a column."""
    flat = pa.array(numbers.T.ravel())
    return flat if len(numbers) == 1 else pa.FixedSizeListArray.from_arrays(flat, len(numbers))


def as_strings(table: pa.Table, name: str) -> pa.Array:
    """A column of texts in new buffers, byte for byte as the state has them."""
    return pa.array(column(table, name).to_pylist(), type=pa.string())
