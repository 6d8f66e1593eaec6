"""Writes savepoints, whole or not at all. What is in them: `pipelines.state.savepoint_format`."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from app.core.atomic_files import sync_to_disk, write_durably
from app.core.settings import Settings
from app.kafka.input_offsets import input_topics
from pipelines.errors import InputError
from pipelines.state.savepoint_format import (
    CORRELATOR,
    FORMAT,
    FORMATS,
    MANIFEST,
    SHARDS,
    CorrelatorState,
    canonical_json,
    check_name,
    manifest_bytes,
    manifest_checksum,
    sha256,
    state_hash,
)
from pipelines.state.savepoint_tables import TABLES, ShardParts, parts_to_tables


@dataclass(frozen=True)
class Provenance:
    """Whose state it is. `topics` are the names of the input topics by kind.

    `log` says where the version's topics ended after the state was read (`app.kafka.log_marks`); empty: not known.
    """

    version: str
    configuration: Mapping[str, Any]
    topics: Mapping[str, str]
    shards: int
    code_version: str
    log: Mapping[str, Any] = field(default_factory=dict)


def provenance_of(settings: Settings, configuration: Mapping[str, Any]) -> Provenance:
    """The provenance of a version's state. `configuration` is what the version began with."""
    return Provenance(
        version=settings.version,
        configuration=configuration,
        topics=input_topics(settings),
        shards=int(configuration["windowing"]["shards"]),
        code_version=code_version(),
    )


def code_version() -> str:
    """The release of this code."""
    return metadata.version("kappa-novelty")


def write(
    folder: Path, provenance: Provenance, shards: Iterable[ShardParts], correlator: CorrelatorState | None
) -> dict[str, Any]:
    """Write a savepoint. Whatever is raised, nothing of it is left.

    Parameters
    ----------
    folder
        Where to write it; its name is that of the savepoint.
    provenance
        Whose state it is.
    shards
        In ascending order; one is in memory at a time.
    correlator
        The state of `correlate`; None for a run without it.

    Returns
    -------
    dict
        The manifest.

    Raises
    ------
    InputError
        The name is bad, the folder exists, or the state has another format.
    ValueError
        The shards are out of order, or there is none.
    """
    check_name(folder.name)
    if folder.exists():
        raise InputError(name_taken_message(folder))
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".draft", dir=folder.parent))
    try:
        about, rows = write_shards(draft, shards)
        if correlator is not None:
            (draft / CORRELATOR).write_bytes(encode_correlator(correlator))
        manifest = make_manifest(draft, folder.name, provenance, about, rows, correlator)
        for path in draft.iterdir():
            sync_to_disk(path)
        write_durably(
            draft / MANIFEST, manifest_bytes(manifest)
        )  # the last file: without it the folder is no savepoint
        draft.chmod(0o755)
        rename_into_place(draft, folder)
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
            tables, where = parts_to_tables(shard)
            about.append(where)
            for name, table in tables.items():
                if name not in writers:
                    writers[name] = stack.enter_context(open_writer(draft / f"{name}.parquet", table.schema))
                writers[name].write_table(table, row_group_size=max(1, len(table)))
                rows[name] = rows.get(name, 0) + len(table)
    if not about:
        msg = f"savepoint {draft.name}: no shard to write; wanted at least one"
        raise ValueError(msg)
    table = pa.Table.from_pylist(about, schema=pa.schema([(name, pa.int64()) for name in about[0]]))
    with open_writer(draft / SHARDS, table.schema) as last:
        last.write_table(table)
    return about, rows | {"shards": len(about)}


def open_writer(file: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """A writer that makes equal bytes of equal rows.

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


def encode_correlator(state: CorrelatorState) -> bytes:
    """The file of the correlator. Both parts are canonical JSON already: reading and writing them again gives the same bytes."""
    content = {"done": state.done, "model": json.loads(state.model), "waiting": json.loads(state.waiting)}
    for part, data in (("model", state.model), ("waiting", state.waiting)):
        wanted = FORMATS["incidents" if part == "model" else "events"]
        if content[part].get("format") != wanted or canonical_json(content[part]) != data:
            msg = f"state of correlate: {part} is not canonical JSON of format {wanted}; take it with the release that wrote it"
            raise InputError(msg)
    return canonical_json(content)


def make_manifest(
    draft: Path,
    name: str,
    provenance: Provenance,
    about: list[dict[str, int]],
    rows: Mapping[str, int],
    correlator: CorrelatorState | None,
) -> dict[str, Any]:
    """The manifest: formats, watermarks, files with their hashes, and provenance."""
    watermarks = {str(row["shard"]): row["done"] for row in about}
    watermark = min(watermarks.values())
    content = {
        "format": FORMAT,
        "formats": FORMATS,
        "watermark": watermark,
        "watermarks": watermarks if max(watermarks.values()) > watermark else {},
        "files": {path.name: file_entry(path, rows.get(path.stem)) for path in sorted(draft.iterdir())},
    }
    manifest = {
        **content,
        "hash": state_hash(content),
        "name": name,
        "version": provenance.version,
        "shards": provenance.shards,
        "series": rows["gauges"] + rows["counts"],
        "correlated": correlator.done if correlator else None,
        "topics": dict(provenance.topics),
        "configuration": json.loads(canonical_json(provenance.configuration)),
        "configuration_sha256": hashlib.sha256(canonical_json(provenance.configuration)).hexdigest(),
        "code_version": provenance.code_version,
        "log": dict(provenance.log),
        "created_at": datetime.now(tz=UTC).isoformat(timespec="seconds"),
    }
    return {**manifest, "checksum": manifest_checksum(manifest)}


def file_entry(file: Path, rows: int | None) -> dict[str, Any]:
    """Hash and size of a file."""
    found = {"sha256": sha256(file), "bytes": file.stat().st_size}
    return found if rows is None else {**found, "rows": rows}


def rename_into_place(draft: Path, folder: Path) -> None:
    """Give a finished savepoint its name. Raises InputError if another one has taken it meanwhile."""
    try:
        draft.rename(folder)
    except OSError as error:
        if folder.exists():
            raise InputError(name_taken_message(folder)) from error
        raise


def name_taken_message(folder: Path) -> str:
    return f"savepoint {folder.name} exists in {folder.parent}; wanted a new name, or drop it first"
