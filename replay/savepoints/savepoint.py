"""A savepoint: the state of all series after a window, as Parquet that any tool can read, hashed, one row per series.

    home/savepoints/NAME/
        gauges.parquet counts.parquet hosts.parquet contexts.parquet    a column for each number of the state
        hot.parquet cold.parquet                                        the univariate model of each metric
        doubts.parquet                                                  what may be changing, of the metrics in doubt
        challengers.parquet                                             what a challenger knows of each, where there is one
        episodes.parquet trials.parquet texts.parquet                   what is open, on trial, and known of templates
        remembered.parquet                                              what is muted, and what labels have changed
        shards.parquet                                                  where each shard stands, and its rows
        correlator.json                                                 open incidents, and statements that wait
        manifest.json                                                   what it is of, the files' hashes

Rows are in order of shards, and within a shard in the order of the state, on which sums depend. Row group i of every table
is that of row i of `shards.parquet`, so that a shard is loaded without the others. Equal states give equal bytes.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from app.core.atomic_files import sync_to_disk
from models.challengers.memory import PART as CHALLENGERS
from models.challengers.memory import Memories, Memory
from models.core import store
from models.detection import shard_state
from models.detection.change_candidates import KINDS as DOUBTED
from models.detection.change_candidates import PART as DOUBTS
from models.incidents.correlator import FORMAT as INCIDENTS_FORMAT
from models.rules import control_state
from models.univariate import univariate_state
from pipelines.errors import InputError

FORMAT = 4
# That of the statements that wait is set in pipelines/jobs/correlate.py, which cannot be imported without Spark.
FORMATS = {"models": store.FORMAT, "incidents": INCIDENTS_FORMAT, "statements": 2}
MANIFEST, CORRELATOR, SHARDS = "manifest.json", "correlator.json", "shards.parquet"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

LABELS = {"gauges": "series", "counts": "series", "hosts": "host", "contexts": "context"}  # the name beside numbers
EPISODE = ("cause", "kind", "start", "score")  # shown beside the whole episode
TRIAL = {
    "series": pa.string(),
    "surprise": pa.float64(),
    "first": pa.int64(),
    "returns": pa.int64(),
    "windows": pa.int64(),
}
REMEMBERED = {name: pa.type_for_alias(kind) for name, kind in control_state.COLUMNS.items()}
LISTED = {"trials": TRIAL, "remembered": REMEMBERED}  # what the part `episodes` lists beside them
TABLES = (*LABELS, *univariate_state.PARTS, DOUBTS, "episodes", *LISTED, "texts")

Tables = dict[str, pa.Table]


@dataclass(frozen=True)
class ShardParts:
    """The model of a shard after the window that ended at `done`, epoch milliseconds, as `ShardDetector.dump` gives it."""

    shard: int
    done: int
    parts: Mapping[str, bytes]


@dataclass(frozen=True)
class CorrelatorState:
    """The correlator after the window that ended at `done`, and the statements that wait, as `correlate` keeps them."""

    done: int
    model: bytes
    waiting: bytes


@dataclass(frozen=True)
class Provenance:
    """Whose state it is. `topics` are the real names of `telemetry` and `logs`."""

    version: str
    configuration: Mapping[str, Any]
    topics: Mapping[str, str]
    shards: int
    code_version: str


def write(
    folder: Path, provenance: Provenance, shards: Iterable[ShardParts], correlator: CorrelatorState | None
) -> dict[str, Any]:
    """Write a savepoint and answer its manifest. `shards` come in ascending order; one is in memory at a time.

    Raises InputError for a bad name, a folder that exists and a state of another format, ValueError for shards out of
    order. Whatever is raised, no half savepoint is left.
    """
    check_name(folder.name)
    if folder.exists():
        raise InputError(taken(folder))
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".draft", dir=folder.parent))
    try:
        about, rows = write_shards(draft, shards)
        if correlator is not None:
            (draft / CORRELATOR).write_bytes(correlator_json(correlator))
        manifest = manifest_of(draft, folder.name, provenance, about, rows, correlator)
        (draft / MANIFEST).write_bytes(rendered(manifest))
        for path in [*draft.iterdir(), draft]:
            sync_to_disk(path)
        draft.chmod(0o755)
        move(draft, folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    sync_to_disk(folder.parent)
    return manifest


def write_shards(draft: Path, shards: Iterable[ShardParts]) -> tuple[list[dict[str, int]], dict[str, int]]:
    """Write the tables; answer the rows of `shards.parquet` and the number of rows of each table."""
    about: list[dict[str, int]] = []
    rows = dict.fromkeys(TABLES, 0)
    with ExitStack() as stack:
        writers: dict[str, pq.ParquetWriter] = {}
        for shard in shards:
            if about and shard.shard <= about[-1]["shard"]:
                msg = f"shard {shard.shard} comes after {about[-1]['shard']}; wanted ascending order"
                raise ValueError(msg)
            tables, where = tables_of(shard)
            about.append(where)
            for name, table in tables.items():
                if name not in writers:
                    writers[name] = stack.enter_context(writer(draft / f"{name}.parquet", table.schema))
                writers[name].write_table(table, row_group_size=max(1, len(table)))
                rows[name] = rows.get(name, 0) + len(table)
    if not about:
        msg = f"savepoint {draft.name}: no shard to write; wanted at least one"
        raise ValueError(msg)
    table = pa.Table.from_pylist(about, schema=pa.schema([(name, pa.int64()) for name in about[0]]))
    with writer(draft / SHARDS, table.schema) as last:
        last.write_table(table)
    return about, rows | {"shards": len(about)}


def writer(file: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """A writer whose bytes follow from the rows alone.

    No dictionaries: they would take -0.0 for 0.0. Plain pages, because every reader knows them.
    """
    return pq.ParquetWriter(
        file,
        schema,
        compression="zstd",
        compression_level=3,
        use_dictionary=False,
        write_statistics=[name for name in ("shard", "series", "host", "context") if name in schema.names],
        store_schema=False,
        write_page_checksum=True,
        version="2.6",
        data_page_version="1.0",
    )


def tables_of(shard: ShardParts) -> tuple[Tables, dict[str, int]]:
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
        tables[name] = pa.table({"series": column(tables["gauges"], "series"), **read[name][0]})
    tables[DOUBTS] = doubts_table(column(tables["gauges"], "series"), *read[DOUBTS])
    episodes, about = read["episodes"]
    if CHALLENGERS in shard.parts:
        memories, own = store.read_part(shard.parts[CHALLENGERS])
        names = column(tables["gauges"], "series")
        made_by = pa.array([own["made_by"]] * len(names), type=pa.string())
        tables[CHALLENGERS] = pa.table({"series": names, **memories, "made_by": made_by})
    tables["episodes"] = episodes_table(episodes["episode"])
    for name, schema in LISTED.items():
        tables[name] = pa.Table.from_pylist(about[name], schema=pa.schema(schema.items()))
    texts, _ = read["texts"]
    tables["texts"] = pa.table({"template_id": texts["id"], "text": texts["text"]})
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
    columns = store.numbers_of(arrays, about)
    found = len(next(iter(columns.values())))
    if found != len(names):
        msg = f"state of a shard has {found} rows of numbers for {len(names)} names: its parts are not of one dump"
        raise InputError(msg)
    return pa.table({label: names, **columns})


def doubts_table(names: pa.Array, arrays: Mapping[str, pa.Array], about: Mapping[str, Any]) -> pa.Table:
    """Series in doubt, by name, and their numbers as a column each."""
    columns = store.numbers_of(arrays, about)
    return pa.table({"series": names.take(pa.array(columns.pop("row"))), **columns})


def doubts_part(table: pa.Table, names: pa.Array) -> bytes:
    """The inverse of `doubts_table`."""
    rows = {name: row for row, name in enumerate(names.to_pylist())}
    found = np.array([rows[name] for name in column(table, "series").to_pylist()], dtype=np.int32)
    return store.numbers_part({"row": found, **{name: numbers_of(table, name, 1)[0] for name in DOUBTED}})


def episodes_table(episodes: pa.Array) -> pa.Table:
    """Open episodes: what a reader looks for, and the whole, as JSON, in which floats keep every bit."""
    found = [json.loads(text) for text in episodes.to_pylist()]
    shown = {name: [episode[name] for episode in found] for name in ("series", *EPISODE)}
    types = {"start": pa.int64(), "score": pa.float64()}
    columns = {name: pa.array(values, type=types.get(name, pa.string())) for name, values in shown.items()}
    return pa.table({**columns, "episode": episodes})


def correlator_json(state: CorrelatorState) -> bytes:
    """Both are canonical JSON already, so that reading and writing them again gives the same bytes."""
    content = {"done": state.done, "model": json.loads(state.model), "waiting": json.loads(state.waiting)}
    for part, data in (("model", state.model), ("waiting", state.waiting)):
        wanted = FORMATS["incidents" if part == "model" else "statements"]
        if content[part].get("format") != wanted or compact(content[part]) != data:
            msg = f"state of correlate: {part} is not canonical JSON of format {wanted}; take it with the release that wrote it"
            raise InputError(msg)
    return compact(content)


def compact(value: Any) -> bytes:
    """Canonical JSON."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def rendered(manifest: Mapping[str, Any]) -> bytes:
    """The one way to write a manifest: any other bytes are not what was written."""
    return (json.dumps(manifest, indent=2, sort_keys=True) + "\n").encode()


def manifest_of(
    draft: Path,
    name: str,
    provenance: Provenance,
    about: list[dict[str, int]],
    rows: Mapping[str, int],
    correlator: CorrelatorState | None,
) -> dict[str, Any]:
    """What a savepoint says of itself."""
    watermarks = {str(row["shard"]): row["done"] for row in about}
    watermark = min(watermarks.values())
    content = {
        "format": FORMAT,
        "formats": FORMATS,
        "tick": watermark,
        "ticks": watermarks if max(watermarks.values()) > watermark else {},
        "files": {path.name: described(path, rows.get(path.stem)) for path in sorted(draft.iterdir())},
    }
    manifest = {
        **content,
        "hash": hash_of(content),
        "name": name,
        "version": provenance.version,
        "shards": provenance.shards,
        "series": rows["gauges"] + rows["counts"],
        "correlated": correlator.done if correlator else None,
        "topics": dict(provenance.topics),
        "configuration": json.loads(compact(provenance.configuration)),
        "configuration_sha256": hashlib.sha256(compact(provenance.configuration)).hexdigest(),
        "code_version": provenance.code_version,
        "created_at": datetime.now(tz=UTC).isoformat(timespec="seconds"),
    }
    return {**manifest, "checksum": checksum(manifest)}


def described(file: Path, rows: int | None) -> dict[str, Any]:
    """Hash and size of a file."""
    found = {"sha256": sha256(file), "bytes": file.stat().st_size}
    return found if rows is None else {**found, "rows": rows}


def sha256(file: Path) -> str:
    """Hash of a file's bytes."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def hash_of(content: Mapping[str, Any]) -> str:
    """One hash of the state: of files, ticks and formats, whatever it is called and whenever it was taken."""
    files = {name: file["sha256"] for name, file in content["files"].items()}
    kept = {key: content[key] for key in ("format", "formats", "tick", "ticks")}
    return hashlib.sha256(compact({**kept, "files": files})).hexdigest()


def checksum(manifest: Mapping[str, Any]) -> str:
    """A hash of all that the manifest says beside it."""
    return hashlib.sha256(compact({k: v for k, v in manifest.items() if k != "checksum"})).hexdigest()


def move(draft: Path, folder: Path) -> None:
    """Give a finished savepoint its name. Raises InputError if another one has taken it meanwhile."""
    try:
        draft.rename(folder)
    except OSError as error:
        if folder.exists():
            raise InputError(taken(folder)) from error
        raise


def taken(folder: Path) -> str:
    return f"savepoint {folder.name} exists in {folder.parent}; wanted a new name, or drop it first"


def check_name(name: str) -> None:
    """Raise InputError for a name that is none."""
    if not NAME.fullmatch(name):
        msg = (
            f"savepoint name {name[:80]!r}; wanted 1 to 64 letters, digits, '.', '_' and '-', the first a letter or digit, "
            "such as before-upgrade"
        )
        raise InputError(msg)


def read_manifest(folder: str | Path) -> dict[str, Any]:
    """What a savepoint says of itself. Raises InputError where there is none, or one of another format."""
    file = Path(folder) / MANIFEST
    try:
        manifest = json.loads(file.read_bytes())
    except OSError as error:
        msg = f"savepoint {file.parent.name}: cannot read {file} ({type(error).__name__}); wanted a manifest: take another"
        raise InputError(msg) from error
    except ValueError as error:
        msg = f"savepoint {file.parent.name}: {file} is not JSON ({error}); it is damaged: use another savepoint"
        raise InputError(msg) from error
    check_format(file.parent.name, manifest)
    return dict(manifest)


def check_format(name: str, manifest: Any) -> None:
    """Raise InputError for a savepoint that this release does not read."""
    if not isinstance(manifest, dict) or "format" not in manifest:
        msg = f"savepoint {name}: its {MANIFEST} names no format; wanted {FORMAT}: it is damaged, or no savepoint"
        raise InputError(msg)
    found, formats = manifest["format"], manifest.get("formats")
    if found == FORMAT and formats == FORMATS:
        return
    states = {"savepoint": found, **(formats if isinstance(formats, dict) else {})}
    wanted = {"savepoint": FORMAT, **FORMATS}
    what = next((key for key in wanted if states.get(key) != wanted[key]), "savepoint")
    msg = (
        f"savepoint {name} has format {states.get(what)} of {what}, this release reads {wanted.get(what)}: load it with "
        f"release {manifest.get('code_version')}, or replay from the log"
    )
    raise InputError(msg)


def load_shard(folder: str | Path, shard: int) -> ShardParts | None:
    """The model of a shard, as it was given to `write`, to the byte; None for a shard that the savepoint has not.

    Raises InputError for another format and for a file that is damaged or missing.
    """
    folder = Path(folder)
    about = read_table(whole(folder, SHARDS, read_manifest(folder)))
    found = np.flatnonzero(about["shard"].to_numpy() == shard)
    if not len(found):
        return None
    group = int(found[0])
    where = about.slice(group, 1).to_pylist()[0]
    there = [name for name in (*TABLES, CHALLENGERS) if name in TABLES or name in where]
    tables = {name: read_table(folder / f"{name}.parquet", group) for name in there}
    for name, table in tables.items():
        if column(table, "shard").to_pylist() != [shard] * where[name]:
            raise InputError(
                damaged(folder / f"{name}.parquet", f"its rows are not the {where[name]} of shard {shard}")
            )
    return ShardParts(shard, where["done"], parts_of(tables, where))


def whole(folder: Path, name: str, manifest: Mapping[str, Any]) -> Path:
    """A small file whose hash has been seen to be right. Raises InputError if it is not."""
    file = folder / name
    try:
        found = sha256(file)
    except OSError as error:
        raise InputError(damaged(file, type(error).__name__)) from error
    if found != manifest["files"][name]["sha256"]:
        raise InputError(damaged(file, "it is not as it was written"))
    return file


def damaged(file: Path, why: str) -> str:
    return f"savepoint {file.parent.name}: cannot read {file.name}: {why}; look with `kappa savepoint verify`"


def read_table(file: Path, group: int | None = None) -> pa.Table:
    """A table, or one of its row groups, in single chunks. Raises InputError for a file that is not as it was."""
    try:
        with pq.ParquetFile(file, page_checksum_verification=True) as opened:
            table = opened.read() if group is None else opened.read_row_group(group)
    except (OSError, pa.ArrowException) as error:
        why = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise InputError(damaged(file, why)) from error
    return table.combine_chunks()


def parts_of(tables: Tables, where: Mapping[str, int]) -> dict[str, bytes]:
    """The inverse of `tables_of`."""
    parts: dict[str, bytes] = {}
    names = []
    for name, label in LABELS.items():
        table = tables[name].drop_columns(["shard"])
        names += column(table, label).to_pylist()
        others = [other for other in table.column_names if other != label]
        parts[name] = store.numbers_part(
            {other: column(table, other).to_numpy(zero_copy_only=False) for other in others}
        )
    for name, columns_of in univariate_state.PARTS.items():
        arrays = {other: numbers_of(tables[name], other, size) for other, (_, size) in columns_of.items()}
        parts[name] = univariate_state.part_of(name, arrays)
    parts[DOUBTS] = doubts_part(tables[DOUBTS], column(tables["gauges"], "series"))
    if CHALLENGERS in tables:
        parts[CHALLENGERS] = memories_of(tables[CHALLENGERS]).dump()
    lengths = {name: len(tables[name]) for name in LABELS}
    parts["names"] = store.part({"name": pa.array(names, type=pa.string())}, lengths)
    about = {key: where[key] for key in ("steps", "first", "last")}
    listed = {name: tables[name].drop_columns(["shard"]).to_pylist() for name in LISTED}
    parts["episodes"] = store.part({"episode": strings(tables["episodes"], "episode")}, {**about, **listed})
    texts = {"id": strings(tables["texts"], "template_id"), "text": strings(tables["texts"], "text")}
    parts["texts"] = store.part(texts, {})
    return parts


def memories_of(table: pa.Table) -> Memories:
    """What a challenger knows of series; whose it is stands in every row."""
    rows = zip(*(column(table, name).to_pylist() for name in ("values", "scores", "begun", "began")), strict=True)
    names = column(table, "made_by").to_pylist()
    return Memories(names[0] if names else "", [Memory(*row) for row in rows])


def column(table: pa.Table, name: str) -> pa.Array:
    """A column as one array: a table without rows may have none."""
    chunked = table.column(name)
    return chunked.chunk(0) if chunked.num_chunks else pa.array([], type=chunked.type)


def numbers_of(table: pa.Table, name: str, size: int) -> NDArray[Any]:
    """A column with so many numbers in each row, `(size, rows)`."""
    found = column(table, name)
    flat = found if size == 1 else found.flatten()
    return np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(-1, size).T


def strings(table: pa.Table, name: str) -> pa.Array:
    """A column of texts in buffers of its own, as the state makes them."""
    return pa.array(column(table, name).to_pylist(), type=pa.string())


def load_correlator(folder: str | Path) -> CorrelatorState | None:
    """The state of `correlate`; None for a savepoint of a run without it. Raises InputError for what cannot be read."""
    folder = Path(folder)
    manifest = read_manifest(folder)
    if CORRELATOR not in manifest["files"]:
        return None
    content = json.loads(whole(folder, CORRELATOR, manifest).read_bytes())
    return CorrelatorState(content["done"], compact(content["model"]), compact(content["waiting"]))


def verify(folder: str | Path) -> list[str]:
    """What is not as it was written, one sentence each; nothing for a savepoint that is whole."""
    folder = Path(folder)
    try:
        manifest = read_manifest(folder)
        raw = (folder / MANIFEST).read_bytes()
    except (InputError, OSError) as error:
        return [str(error)]
    if raw != rendered(manifest) or manifest.get("checksum") != checksum(manifest):
        return [f"{MANIFEST} is not as it was written"]
    problems = []
    for name, wanted in manifest["files"].items():
        file = folder / name
        if not file.is_file():
            problems.append(f"{name} is missing")
        elif file.stat().st_size != wanted["bytes"]:
            problems.append(f"{name} has {file.stat().st_size} bytes; wanted {wanted['bytes']}")
        elif sha256(file) != wanted["sha256"]:
            problems.append(f"{name} is not as it was written: its hash is another one")
    if hash_of(manifest) != manifest["hash"]:
        problems.append(f"the hash is not that of the files that {MANIFEST} names")
    return problems


def begin_of(folder: str, shard: int) -> tuple[int, Mapping[str, bytes]] | None:
    """Where a shard stands in a savepoint."""
    found = load_shard(folder, shard)
    return None if found is None else (found.done, found.parts)


def correlator_of(folder: str) -> tuple[int, bytes, bytes] | None:
    """The correlator of a savepoint."""
    found = load_correlator(folder)
    return None if found is None else (found.done, found.model, found.waiting)
