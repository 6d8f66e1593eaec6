"""`kappa quarantine`: records that a job does not read, because each time it did they ended it. The work is in `app.kafka.quarantine`."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.connection import Config, connected
from app.cli.output import Json, print_json, print_line, print_table
from app.core.settings import Settings
from app.core.timestamps import LAST_MS, iso
from app.versions import serving
from models.core.printable import printable
from models.core.wording import counted
from models.records.records import QuarantinedRecord
from models.records.schema import plain
from pipelines.errors import InputError

if TYPE_CHECKING:
    from app.kafka.quarantine import QuarantineLog
    from app.kafka.quarantine_retry import Retry

quarantine_app = typer.Typer(
    help="Records that a job skips, because each time it read them they ended it.", no_args_is_help=True
)

Place = Annotated[str, typer.Argument(metavar="TOPIC/PARTITION/OFFSET", help="As `kappa quarantine list` names it.")]
COLUMNS = ["record", "appended", "found", "job", "bytes", "state", "reason"]
SHOWN_BYTES = 1024


@quarantine_app.command("list")
def list_all(config: Config = None, as_json: Json = False) -> None:
    """List all records in quarantine, in the order in which they were found."""
    known = known_to(settings_of(config))
    found = known.found.records
    if as_json:
        print_json({"quarantine": [described(known, one) for one in found], "kept": known.kept})
        return
    title = (
        f"quarantine: {counted(len(found), 'record')}, {known.kept} of them not appended again"
        if found
        else "quarantine: empty"
    )
    print_table(title, COLUMNS, [row(known, one) for one in found])


@quarantine_app.command()
def show(
    place: Place,
    raw: Annotated[Path | None, typer.Option(help="Write the bytes of its value to this file.")] = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Show why a record is in quarantine, its headers and its first bytes, escaped."""
    from app.kafka import quarantine, quarantine_retry, record_range  # loads Kafka's client

    settings = settings_of(config)
    known = quarantine.read(settings)
    wanted = parsed_place(place)
    last = known.last_at(wanted)
    if last is None:
        raise InputError(unknown(place))
    of_jobs = [one for one in known.found.records if one.identity == last.identity]
    record = quarantine_retry.unless_replaced(last, record_range.fetch_record(settings, *wanted))
    if raw is not None:
        save(place, None if record is None else record.value or b"", raw)
    answer = described(known, of_jobs[0]) | in_log(record, last) | {"jobs": [one.job for one in of_jobs]}
    if as_json:
        print_json(answer)
        return
    for name, value in answer.items():
        print_line(f"{name:12} {line_of(value)}")


@quarantine_app.command()
def retry(
    place: Place,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Append a record to its topic again; a release that can read it takes it as one that arrives now."""
    from app.kafka import quarantine, quarantine_retry  # loads Kafka's client

    settings = settings_of(config)
    planned = quarantine_retry.plan_retry(settings, quarantine.read(settings), parsed_place(place))
    answer = {"record": planned.original.name, "dry_run": dry_run, "bytes": len(planned.record.value or b"")}
    answer["warning"] = warning(settings, planned)
    if not dry_run:
        answer["released_as"] = quarantine_retry.retry(settings, planned).released_as
    if as_json:
        print_json(answer)
        return
    copy = "would be appended again" if dry_run else f"was appended again, at offset {answer['released_as']}"
    print_line(f"{place} {copy}: {answer['bytes']:,} bytes. {answer['warning']}")


def settings_of(config: Path | None) -> Settings:
    """The settings of the version that serves, with the broker's address."""
    return connected(serving.of_version(config, None), ("kafka",))


def known_to(settings: Settings) -> QuarantineLog:
    """What the topic says."""
    from app.kafka import quarantine  # loads Kafka's client

    return quarantine.read(settings)


def parsed_place(text: str) -> tuple[str, int, int]:
    """Topic, partition and offset. Raises InputError for anything else."""
    parts = text.rsplit("/", 2)
    if len(parts) != 3 or not parts[0] or not all(part.isascii() and part.isdigit() for part in parts[1:]):
        msg = f"quarantine: got {text!r}, wanted TOPIC/PARTITION/OFFSET such as telemetry/0/1234"
        raise InputError(msg)
    return parts[0], int(parts[1]), int(parts[2])


def unknown(place: str) -> str:
    return f"{place} is not in quarantine; `kappa quarantine list` names those that are"


def state_of(known: QuarantineLog, one: QuarantinedRecord) -> str:
    """Whether a record waits, or has been appended again."""
    released = known.release_of(one)
    return "quarantined" if released is None else f"released as {released.released_as}"


def described(known: QuarantineLog, one: QuarantinedRecord) -> dict[str, Any]:
    """A record in quarantine as JSON types."""
    facts = {"name": one.name, **plain(one), "state": state_of(known, one)}
    return {name: value for name, value in facts.items() if name not in ("record", "status", "released_as", "head")}


def row(known: QuarantineLog, one: QuarantinedRecord) -> list[str]:
    """A record in the list."""
    return [
        escaped(one.name.encode()),
        time_of(one.timestamp),
        time_of(one.found),
        one.job,
        f"{one.length:,}",
        state_of(known, one),
        escaped(one.reason.encode()),
    ]


def in_log(record: Any, one: QuarantinedRecord) -> dict[str, Any]:
    """What the log holds of a record, and where that no longer has it the first bytes that the quarantine keeps."""
    if record is None:
        return {"in_log": False, "headers": {}, "begins": escaped(base64.b64decode(one.head))}
    headers = {escaped(str(key).encode()): escaped(value or b"") for key, value in record.headers or ()}
    key = {} if record.key is None else {"key": escaped(record.key[:SHOWN_BYTES])}
    return {"in_log": True, **key, "headers": headers, "begins": escaped((record.value or b"")[:SHOWN_BYTES])}


def line_of(value: Any) -> str:
    """A value of `show` as a line."""
    return printable(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=True)


def time_of(at_ms: int) -> str:
    """A time that anybody may have written, to the second; the number where it is none."""
    return iso(at_ms) if 0 <= at_ms < LAST_MS else f"{at_ms} ms"


def escaped(raw: bytes) -> str:
    """Bytes as text that a terminal shows and never obeys: printable ASCII, and `\\\\xNN` for all others."""
    return "".join(chr(byte) if 0x20 <= byte < 0x7F and byte != 0x5C else f"\\x{byte:02x}" for byte in raw)


def save(place: str, value: bytes | None, file: Path) -> None:
    """Write the bytes of a record. Raises InputError where the log no longer has it, or the file cannot be written."""
    if value is None:
        msg = (
            f"{place} is no longer in the log: retention has deleted it, or its topic was made again, and only its "
            "first bytes are known"
        )
        raise InputError(msg)
    try:
        with file.open("xb") as out:
            out.write(value)
    except OSError as error:
        msg = f"quarantine show: cannot write {file}: {error.strerror}; wanted a file that is not there yet, in a folder that is"
        raise InputError(msg) from error


def warning(settings: Settings, planned: Retry) -> str:
    """What becomes of a record that is appended again."""
    seconds = settings.windowing.lateness_seconds
    when = (
        "with the append time of its partition's last record"
        if planned.at_ms is not None
        else "with the append time of now"
    )
    return (
        f"It stands there {when}: more than {seconds} s after its event time it goes to `late`, which a replay with "
        "--include-late counts all the same. If it ends the job again, it comes into quarantine again"
    )
