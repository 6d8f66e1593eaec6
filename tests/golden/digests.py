"""What golden runs come to: digests of their results, held against those that are kept in `digests.json`.

A kind of result has its number of records and two SHA-256: `bytes` over the records as they were written, and `fields` over
the same as JSON with members in alphabetical order: where only `bytes` differ, records say the same and are written otherwise.

    KAPPA_GOLDEN_UPDATE=1   keep what a run comes to, instead of comparing
    KAPPA_GOLDEN_OUT=DIR    write the sorted records to DIR/RUN.KIND.bytes.txt and DIR/RUN.KIND.fields.txt, for `diff`
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]

FILE = Path(__file__).with_name("digests.json")
UPDATE, OUT = "KAPPA_GOLDEN_UPDATE", "KAPPA_GOLDEN_OUT"


@dataclass(frozen=True)
class Record:
    """One result: what stands beside its value (key, headers, index, id), and the value. `is_json` is off where it may be any bytes."""

    beside: tuple[Any, ...]
    value: bytes
    is_json: bool = True

    def as_written(self) -> bytes:
        """A line of what it is, byte for byte."""
        head = json.dumps(self.beside, ensure_ascii=False).encode()
        shown = self.value if self.is_json else json.dumps(self.value.decode("latin-1")).encode()
        return head + b"\t" + shown + b"\n"

    def by_fields(self) -> bytes:
        """A line of what it says."""
        if not self.is_json:
            return self.as_written()
        head = json.dumps(self.beside, ensure_ascii=False)
        return f"{head}\t{json.dumps(json.loads(self.value), ensure_ascii=False, sort_keys=True)}\n".encode()


def check(run: str, results: Mapping[str, Sequence[Record]]) -> None:
    """Hold all kinds of results of a run against what is kept, or keep them. Raises AssertionError that names what differs."""
    found = {kind: digest(run, kind, records) for kind, records in sorted(results.items())}
    kept: dict[str, dict[str, Json]] = json.loads(FILE.read_text()) if FILE.exists() else {}
    if os.environ.get(UPDATE) == "1":
        FILE.write_text(json.dumps({**kept, run: found}, indent=2, sort_keys=True) + "\n")
        return
    problems = list(differences(kept.get(run, {}), found))
    if problems:
        msg = "\n".join(
            [
                f"golden run {run!r} came to other results:",
                *(f"  {line}" for line in problems),
                f"set {OUT}=FOLDER here and where it was right to write the records and diff them; {UPDATE}=1 keeps these",
            ]
        )
        raise AssertionError(msg)


def digest(run: str, kind: str, records: Sequence[Record]) -> Json:
    """How many records, and their digests, whatever their order."""
    lines = {
        "bytes": sorted(record.as_written() for record in records),
        "fields": sorted(record.by_fields() for record in records),
    }
    folder = os.environ.get(OUT)
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for name, of_kind in lines.items():
            Path(folder, f"{run}.{kind}.{name}.txt").write_bytes(b"".join(of_kind))
    return {"records": len(records), **{name: hashed(of_kind) for name, of_kind in lines.items()}}


def hashed(lines: Iterable[bytes]) -> str:
    """SHA-256 of lines."""
    whole = hashlib.sha256()
    for line in lines:
        whole.update(line)
    return whole.hexdigest()


def differences(kept: Mapping[str, Json], found: Mapping[str, Json]) -> Iterable[str]:
    """A sentence for each kind that is not what was kept."""
    for kind in sorted(kept.keys() | found.keys()):
        old, new = kept.get(kind), found.get(kind)
        if old is None or new is None:
            yield f"{kind}: {'not kept' if old is None else 'no longer there'}"
        elif old["fields"] != new["fields"]:
            yield f"{kind}: {new['records']} records, kept are {old['records']}; what they say differs"
        elif old["bytes"] != new["bytes"]:
            yield f"{kind}: {new['records']} records say the same and are written otherwise"
