"""The format of a savepoint: the state of all series after a window, as Parquet files with hashes, one row per series.

    home/savepoints/NAME/
        gauges.parquet counts.parquet hosts.parquet contexts.parquet    a column for each number of the state
        hot.parquet cold.parquet                                        the univariate model of each metric
        change_candidates.parquet                                       what may be changing, of the metrics undecided
        peers.parquet                                                   what is known of the metrics that have peers
        challengers.parquet                                             the challenger's memory of each metric, if there is one
        episodes.parquet trials.parquet texts.parquet                   open episodes, changes on trial, texts of templates
        patterns.parquet                                                the templates of each service, to merge others
        pressed.parquet                                                 hosts of which series were left out lately
        rules.parquet remembered.parquet                                rules of the log; what is muted, and what labels have changed
        recurrences.parquet                                             how the episodes of each series have come back
        shards.parquet                                                  the last window of each shard, and its numbers of rows
        correlator.json                                                 open incidents, and episode events that wait
        manifest.json                                                   where the state comes from, the files' hashes

Row group i of every table is that of row i of `shards.parquet`, so that a shard is loaded without the others. Equal states
give equal bytes. This module reads savepoints, as jobs that start from one do; `replay.savepoints` writes them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from models.core import state_format, store
from models.incidents.parameters import STATE_FORMAT
from pipelines.errors import InputError, OfAnotherRelease

if TYPE_CHECKING:
    from pipelines.state.savepoint_tables import ShardParts

FORMAT = 5
# That of the episode events that wait is set in pipelines/jobs/correlate.py, which cannot be imported without Spark.
FORMATS = {"models": store.FORMAT, "incidents": STATE_FORMAT, "events": 4}
MANIFEST, CORRELATOR, SHARDS = "manifest.json", "correlator.json", "shards.parquet"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class CorrelatorState:
    """The correlator after the window that ended at `done`, and the episode events that wait, as `correlate` keeps them."""

    done: int
    model: bytes
    waiting: bytes


def check_name(name: str) -> None:
    """Raise InputError for a name that cannot be that of a savepoint."""
    if not NAME.fullmatch(name):
        msg = (
            f"savepoint name {name[:80]!r}; wanted 1 to 64 letters, digits, '.', '_' and '-', the first a letter or digit, "
            "such as before-upgrade"
        )
        raise InputError(msg)


def read_manifest(folder: str | Path) -> dict[str, Any]:
    """The manifest of a savepoint. Raises InputError where there is none, or one of another format."""
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
    """Raise OfAnotherRelease for a savepoint that this release does not read, InputError for what is none."""
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
    raise OfAnotherRelease(msg)


def other_format(found: Mapping[str, Any]) -> str | None:
    """Which of the formats of states that somebody has written, by name as in `FORMATS`, is another one than today, in words."""
    try:
        for name, wanted in FORMATS.items():
            state_format.check_format(f"state of {name}", found.get(name, wanted), wanted)
    except state_format.OtherFormat as error:
        return str(error)
    return None


def load_shard(folder: str | Path, shard: int) -> ShardParts | None:
    """The model of a shard, byte for byte as it was written.

    Parameters
    ----------
    folder
        The savepoint.
    shard
        The shard's number.

    Returns
    -------
    ShardParts or None
        None for a shard that the savepoint does not have.

    Raises
    ------
    InputError
        The savepoint has another format, or a file is damaged or missing.
    """
    from models.challengers.memory import PART as CHALLENGERS  # loads numba and scipy
    from pipelines.state.savepoint_tables import TABLES, ShardParts, column, parts_from_tables

    folder = Path(folder)
    about = read_table(verified_file(folder, SHARDS, read_manifest(folder)))
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
                damaged_message(folder / f"{name}.parquet", f"its rows are not the {where[name]} of shard {shard}")
            )
    return ShardParts(shard, where["done"], parts_from_tables(tables, where))


def load_correlator(folder: str | Path) -> CorrelatorState | None:
    """The state of `correlate`; None for a savepoint of a run without it. Raises InputError for what cannot be read."""
    folder = Path(folder)
    manifest = read_manifest(folder)
    if CORRELATOR not in manifest["files"]:
        return None
    content = json.loads(verified_file(folder, CORRELATOR, manifest).read_bytes())
    return CorrelatorState(content["done"], canonical_json(content["model"]), canonical_json(content["waiting"]))


def verified_file(folder: Path, name: str, manifest: Mapping[str, Any]) -> Path:
    """The path of a small file whose hash was checked. Raises InputError if it differs from the manifest's."""
    file = folder / name
    try:
        found = sha256(file)
    except OSError as error:
        raise InputError(damaged_message(file, type(error).__name__)) from error
    if found != manifest["files"][name]["sha256"]:
        raise InputError(damaged_message(file, "it is not as it was written"))
    return file


def damaged_message(file: Path, why: str) -> str:
    """The message for a file of a savepoint that cannot be read."""
    return f"savepoint {file.parent.name}: cannot read {file.name}: {why}; look with `kappa savepoint verify`"


def read_table(file: Path, group: int | None = None) -> pa.Table:
    """A table, or one of its row groups, in single chunks. Raises InputError for a file that is not as it was."""
    try:
        with pq.ParquetFile(file, page_checksum_verification=True) as opened:
            table = opened.read() if group is None else opened.read_row_group(group)
    except (OSError, pa.ArrowException) as error:
        why = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise InputError(damaged_message(file, why)) from error
    return table.combine_chunks()


def verify(folder: str | Path) -> list[str]:
    """Compare every file with its hash; returns a sentence for each that differs or is missing."""
    folder = Path(folder)
    try:
        manifest = read_manifest(folder)
        raw = (folder / MANIFEST).read_bytes()
    except (InputError, OSError) as error:
        return [str(error)]
    if raw != manifest_bytes(manifest) or manifest.get("checksum") != manifest_checksum(manifest):
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
    if state_hash(manifest) != manifest["hash"]:
        problems.append(f"the hash is not that of the files that {MANIFEST} names")
    return problems


def shard_start(folder: str, shard: int) -> tuple[int, Mapping[str, bytes]] | None:
    """What `detect` begins a shard with: the last window (epoch ms), and the parts of its model; None if the savepoint lacks the shard."""
    found = load_shard(folder, shard)
    return None if found is None else (found.done, found.parts)


def correlator_start(folder: str) -> tuple[int, bytes, bytes] | None:
    """What `correlate` begins with: the last window (epoch ms), the model and the waiting events; None for a savepoint without them."""
    found = load_correlator(folder)
    return None if found is None else (found.done, found.model, found.waiting)


def canonical_json(value: Any) -> bytes:
    """Canonical JSON."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def manifest_bytes(manifest: Mapping[str, Any]) -> bytes:
    """The bytes of a manifest file: equal manifests give equal bytes."""
    return (json.dumps(manifest, indent=2, sort_keys=True) + "\n").encode()


def sha256(file: Path) -> str:
    """Hash of a file's bytes."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def state_hash(content: Mapping[str, Any]) -> str:
    """A hash of the state: of files, watermarks and formats. Equal states have equal hashes, whatever their name and time of creation."""
    files = {name: file["sha256"] for name, file in content["files"].items()}
    kept = {key: content[key] for key in ("format", "formats", "watermark", "watermarks")}
    return hashlib.sha256(canonical_json({**kept, "files": files})).hexdigest()


def manifest_checksum(manifest: Mapping[str, Any]) -> str:
    """A hash of all members of the manifest but `checksum`."""
    return hashlib.sha256(canonical_json({k: v for k, v in manifest.items() if k != "checksum"})).hexdigest()
