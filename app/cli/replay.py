"""`kappa replay`: bounded runs over the log, and what can be done with their versions. The work is in `replay`."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.connection import Config, connected
from app.cli.output import Json, print_json, print_line, print_table, progress_bar, report
from app.cli.replay_diff import diff
from app.cli.replay_promote import promote, rollback
from app.core.settings import Settings, load
from app.core.timestamps import iso, milliseconds
from pipelines.errors import InputError

if TYPE_CHECKING:
    from replay.slices import Asked

replay_app = typer.Typer(
    help="Run the past again, under a version of its own; compare versions, and move from one to another.",
    invoke_without_command=True,
)
replay_app.command("diff")(diff)
replay_app.command("promote")(promote)
replay_app.command("rollback")(rollback)

Version = Annotated[str, typer.Argument(help="The version's name.")]

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


@replay_app.callback()
def replay(
    context: typer.Context,
    version: Annotated[
        str | None, typer.Option(help="The name of what is made: its topics and indices carry it.")
    ] = None,
    from_time: Annotated[
        str | None, typer.Option(help="First moment: ISO 8601, or back from now such as 14d, 2h.")
    ] = None,
    to_time: Annotated[str | None, typer.Option(help="Last moment, likewise. Default: the end of the log.")] = None,
    from_offsets: Annotated[str | None, typer.Option(help="First offsets: JSON, or a file of JSON.")] = None,
    to_offsets: Annotated[str | None, typer.Option(help="Offsets to stop before, likewise.")] = None,
    savepoint: Annotated[str | None, typer.Option(help="Begin with this state, after its last window.")] = None,
    manifest: Annotated[
        Path | None, typer.Option(help="Range and configuration of an earlier run's manifest.json.")
    ] = None,
    lateness: Annotated[int | None, typer.Option(help="Admit records up to so many seconds late.", min=0)] = None,
    include_late: Annotated[bool, typer.Option("--include-late", help="Admit every late record of the range.")] = False,
    partitions: Annotated[
        int | None, typer.Option(help="Spark's partitions; results do not depend on them.", min=1)
    ] = None,
    index: Annotated[bool, typer.Option(help="Write documents to Elasticsearch as well.")] = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be read, and stop.")] = False,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """A bounded run over the log. The same arguments again go on with it, or check it where it is complete."""
    if context.invoked_subcommand is not None:
        return
    if version is None:
        msg = "replay: give --version NAME, under which the results are written"
        raise typer.BadParameter(msg)
    settings = load(config, version=version)
    earlier = None
    if manifest is not None:
        from replay.from_manifest import settings_by

        earlier = read_json("--manifest", str(manifest))
        settings = settings_by(settings, manifest, earlier)
    settings = connected(settings, ("kafka", "elasticsearch") if index else ("kafka",))
    asked = {
        "from_time": from_time,
        "to_time": to_time,
        "from_offsets": from_offsets,
        "to_offsets": to_offsets,
        "savepoint": savepoint,
        "manifest": earlier,
    }
    check_asked(asked)
    made = replayed(settings, asked, lateness, include_late, partitions, index, dry_run, report)
    if as_json:
        print_json(made)
        return
    print_line(summary(made))


def check_asked(asked: Mapping[str, Any]) -> None:
    """Raise InputError for two beginnings or two ends."""
    begins = [name for name in ("from_time", "from_offsets", "savepoint", "manifest") if asked[name] is not None]
    ends = [name for name in ("to_time", "to_offsets", "manifest") if asked[name] is not None]
    for names in (begins, ends):
        if len(names) > 1:
            both = " and ".join(option(name) for name in names)
            msg = f"replay: {both} cannot be given together; wanted one of them"
            raise InputError(msg)


def replayed(
    settings: Settings,
    asked: Mapping[str, Any],
    lateness: int | None,
    include_late: bool,
    partitions: int | None,
    index: bool,
    dry_run: bool,
    report: Callable[[str], None],
) -> dict[str, Any]:
    """Resolve, run, index. Raises InputError for what cannot be run."""
    from app.runtime.run import index_to_end
    from app.runtime.spark import own_session
    from app.versions import locks
    from replay import input_lateness, run
    from replay.from_manifest import savepoint_by
    from replay.savepoints import savepoint_folder
    from replay.slices import Slice

    begin = None if asked["savepoint"] is None else savepoint_folder.find(settings.home, asked["savepoint"])
    if begin is None and asked["manifest"] is not None:
        begin = savepoint_by(settings, asked["manifest"])
    span = range_of(settings, asked)
    kept = run.read_manifest(run.folder_of(settings))
    if kept is not None and asked["to_time"] is None and asked["to_offsets"] is None:
        # the log has grown since: what "to its end" meant is in the manifest
        span = dataclasses.replace(span, to_ms=None, to_offsets=Slice.of(kept["whole"]).ends)
    if lateness is not None:
        settings = with_lateness(settings, lateness)
    what = run.plan(settings, span, begin)
    with ExitStack() as ending:
        spark = None
        if include_late:
            spark = ending.enter_context(own_session(settings, "kappa-replay", report))
            settings = with_lateness(settings, input_lateness.largest(spark, settings, what.whole))
            report(f"late records are up to {settings.windowing.lateness_seconds} s late")
            what = run.plan(settings, span, begin)
        if dry_run:
            return {"version": settings.version, "dry_run": True, "events": what.whole.events, **what.whole.record()}
        spark = spark or ending.enter_context(own_session(settings, "kappa-replay", report))
        if partitions is not None:
            spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
        with progress() as watching:
            made = run.replay(spark, what, partitions, watching, report)
        if index and not made.get("same"):
            report("indexing")
            with locks.only_here(settings, ["index"]):
                index_to_end(spark, settings)
        return made


def range_of(settings: Settings, asked: Mapping[str, Any]) -> Asked:
    """What was asked for, as times and offsets."""
    from replay.from_manifest import range_by
    from replay.slices import Asked, offsets_given

    if asked["manifest"] is not None:
        return range_by(settings, asked["manifest"])
    offsets = {
        name: None
        if asked[name] is None
        else offsets_given(settings, read_json(option(name), asked[name]), f"replay: {option(name)}")
        for name in ("from_offsets", "to_offsets")
    }
    times = {
        name: None if asked[name] is None else moment_of(option(name), asked[name]) for name in ("from_time", "to_time")
    }
    length = settings.windowing.window_seconds * 1000
    first_window = None if times["from_time"] is None else -(-times["from_time"] // length) * length
    return Asked(first_window, times["to_time"], offsets["from_offsets"], offsets["to_offsets"])


def option(name: str) -> str:
    """How an option is written."""
    return "--" + name.replace("_", "-")


def with_lateness(settings: Settings, seconds: int) -> Settings:
    """Settings that admit what is so late."""
    return settings.model_copy(update={"windowing": dataclasses.replace(settings.windowing, lateness_seconds=seconds)})


def read_json(option: str, text: str) -> dict[str, Any]:
    """JSON given as such, or in a file. Raises InputError."""
    given = text
    if not text.lstrip().startswith("{"):
        try:
            given = Path(text).read_text()
        except OSError as error:
            msg = f"replay: {option}: no file {text!r} ({error.strerror}); wanted JSON, or a file of JSON"
            raise InputError(msg) from error
    try:
        found = json.loads(given)
    except ValueError as error:
        msg = f"replay: {option}: {error}; wanted a JSON object"
        raise InputError(msg) from error
    if not isinstance(found, dict):
        msg = f"replay: {option}: got {type(found).__name__}, wanted a JSON object"
        raise InputError(msg)
    return found


def moment_of(option: str, text: str) -> int:
    """Epoch milliseconds of ISO 8601 with a zone, or of a time back from now such as `14d`."""
    back = re.fullmatch(r"-?(\d+)([smhd])", text)
    if back:
        return round((datetime.now(tz=UTC) - timedelta(**{UNITS[back[2]]: int(back[1])})).timestamp() * 1000)
    return milliseconds(f"replay: {option}", text, ", or 14d, 2h, 30m back from now")


@contextmanager
def progress() -> Iterator[Callable[[Any], None]]:
    """A bar on stderr where that is a terminal: slices, events, events a second, event time reached, time left."""
    from rich.progress import TextColumn

    rate = TextColumn("events {task.fields[rate]} {task.fields[reached]}")
    began = datetime.now(tz=UTC)
    with progress_bar(rate) as bar:
        task = bar.add_task("replay", total=None, rate="", reached="")

        def watching(step: Any) -> None:
            seconds = max(0.001, (datetime.now(tz=UTC) - began).total_seconds())
            bar.update(
                task,
                description=f"slice {min(step.done + 1, step.slices)} of {step.slices}: {step.doing}",
                total=step.all_events,
                completed=step.events,
                rate=f"{step.events / seconds:,.0f}/s" if step.events else "",
                reached=f"to {iso(step.reached)}" if step.reached else "",
            )

        yield watching


def summary(made: Mapping[str, Any]) -> str:
    """One line about a run."""
    if made.get("dry_run"):
        since = iso(made["after"]) if made["after"] is not None else "the beginning"
        return f"would read {made['events']:,} events: windows after {since} up to {iso(made['until'])}"
    counts = made["counts"]
    same = "; run again: the same bytes" if made.get("same") else ""
    rate = counts["events"] / made["seconds"] if made["seconds"] else 0
    return (
        f"version {made['version']}: {counts['events']:,} events in {made['seconds']:.1f} s ({rate:,.0f}/s), "
        f"{counts['scores']:,} scores, {counts['novelties']:,} episode events, {counts['incidents']:,} incident "
        f"events, windows up to {iso(made['whole']['until'])}{same}"
    )


@replay_app.command("list")
def list_all(config: Config = None, as_json: Json = False) -> None:
    """All replays: their ranges, whether they are complete, and which versions serve or served."""
    from app.versions import serving
    from replay import run

    settings = load(config)
    found = [run.read_manifest(file.parent) for file in sorted((settings.home / "replays").glob("*/manifest.json"))]
    rows = [made for made in found if made is not None]
    terms = serving.read(settings.home)
    if as_json:
        print_json({"replays": rows, "serving": serving.record(terms)["terms"]})
        return
    shown = [
        [
            made["version"],
            made["status"],
            iso(made["whole"]["after"]) if made["whole"]["after"] is not None else "the beginning",
            iso(made["whole"]["until"]),
            f"{sum(part['done'] for part in made['slices'])} of {len(made['slices'])}",
            made["configuration_hash"][:12],
            "; ".join(span_of(span) for span in terms.spans(made["version"])),
        ]
        for made in rows
    ]
    print_table(
        "replays" if shown else "replays: none",
        ["version", "", "after", "up to", "slices", "configuration", "serves"],
        shown,
    )
    served = [f"{name} {', '.join(span_of(span) for span in terms.spans(name))}" for name in terms.versions]
    print_line(f"serving: {'; '.join(served)}")


def span_of(span: tuple[int | None, int | None]) -> str:
    """A term for people."""
    after, until = (None if at is None else iso(at) for at in span)
    return f"after {after or 'the beginning'} up to {until or 'now'}"


@replay_app.command()
def drop(
    version: Version,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without, say what would be removed.")] = False,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Remove a version: its topics, indices, checkpoints and manifest."""
    from replay import versions

    settings = connected(load(config, version=version))
    gone = versions.drop(settings, yes=yes)
    if as_json:
        print_json({"version": version, "removed": yes, **gone})
        return
    for kind, names in gone.items():
        print_line(f"{'removed' if yes else 'would remove'} {kind}: {', '.join(names) or 'none'}")
    if not yes:
        print_line("nothing was removed; add --yes to do it")
