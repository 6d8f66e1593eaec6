"""`kappa replay`: bounded runs over the log, and what can be done with their versions. The work is in `replay`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.connection import Config, connected
from app.cli.output import Json, print_json, print_line, print_table, with_json_keys
from app.cli.replay_diff import diff
from app.cli.replay_promote import promote, rollback
from app.core.settings import load
from app.core.timestamps import iso
from app.versions import locks, replay_manifest, serving
from app.versions.serving import TimeRange

replay_app = typer.Typer(
    help="Process a range of the log again as a version of its own; compare, promote and drop versions.",
    invoke_without_command=True,
)
replay_app.command("diff")(diff)
replay_app.command("promote")(promote)
replay_app.command("rollback")(rollback)

Version = Annotated[str, typer.Argument(help="The version's name.")]


@replay_app.callback()
def replay(
    context: typer.Context,
    version: Annotated[
        str | None, typer.Option(help="Name of the new version: its topics and indices carry it.")
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
    rules_as_known_now: Annotated[
        bool,
        typer.Option(
            "--rules-as-known-now",
            help="Apply the rules of the log as if all of them had been known since they were true.",
        ),
    ] = False,
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
    from app.cli import replay_request  # loads Spark

    given = {
        "from_time": from_time,
        "to_time": to_time,
        "from_offsets": from_offsets,
        "to_offsets": to_offsets,
        "savepoint": savepoint,
        "manifest": None if manifest is None else str(manifest),
    }
    made = replay_request.run(
        config,
        version,
        given,
        lateness=lateness,
        include_late=include_late,
        rules_as_known_now=rules_as_known_now,
        partitions=partitions,
        index=index,
        dry_run=dry_run,
    )
    if as_json:
        print_json(with_json_keys(made))
        return
    print_line(summary(made))


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
    """List all replays: their ranges, whether they are complete, and which versions serve or served."""
    home = load(config).home
    found, intervals = replay_manifest.listing(home), serving.read(home)
    if as_json:
        print_json(
            {
                "replays": [with_json_keys(made.record()) for made in found],
                "serving": serving.record(intervals)["terms"],
            }
        )
        return
    shown = [
        [
            made.version,
            "complete" if made.complete else "running" if locks.is_replayed(home, made.version) else "unfinished",
            iso(made.whole.after) if made.whole.after is not None else "the beginning",
            iso(made.whole.until),
            f"{len(made.results)} of {len(made.slices)}",
            made.configuration_hash[:12],
            "; ".join(map(shown_range, intervals.ranges(made.version))),
        ]
        for made in found
    ]
    print_table(
        "replays" if shown else "replays: none",
        ["version", "", "after", "up to", "slices", "configuration", "serves"],
        shown,
    )
    served = [f"{name} {', '.join(map(shown_range, intervals.ranges(name)))}" for name in intervals.versions]
    print_line(f"serving: {'; '.join(served)}")


def shown_range(served: TimeRange) -> str:
    """An interval in which a version served, for people."""
    after, until = (None if at is None else iso(at) for at in served)
    return f"after {after or 'the beginning'} up to {until or 'now'}"


@replay_app.command()
def drop(
    version: Version,
    yes: Annotated[bool, typer.Option("--yes", help="Do it. Without this, only show what would be removed.")] = False,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Remove a version: its topics, indices, checkpoints, manifest, and savepoints of its own."""
    from replay.drop import drop as drop_version  # loads Spark

    settings = connected(load(config, version=version))
    gone = drop_version(settings, yes=yes)
    if as_json:
        print_json({"version": version, "removed": yes, **gone})
        return
    for kind, names in gone.items():
        print_line(f"{'removed' if yes else 'would remove'} {kind}: {', '.join(names) or 'none'}")
    if not yes:
        print_line("nothing was removed; add --yes to do it")
