"""`kappa savepoint`: creates, lists, shows, verifies and drops savepoints. The work is in `replay.savepoints`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from app.cli.connection import Config, connected
from app.cli.output import Json, print_json, print_table, report, with_json_keys
from app.core.settings import Settings, load
from app.core.timestamps import iso
from app.versions import serving
from pipelines.errors import InputError
from pipelines.state import savepoint_format
from replay.savepoints import savepoint_folder

savepoint_app = typer.Typer(
    help="Savepoints: the state of all series after a window, to start from, return to, or inspect.",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(help="Letters, digits, '.', '_' and '-'; at most 64.")]


@savepoint_app.command()
def create(
    name: Name,
    version: Annotated[str | None, typer.Option(help="Version of the state. Default: the version that serves.")] = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Take a savepoint of a version, without stopping its jobs."""
    savepoint_format.check_name(name)
    settings = serving.of_version(config, version)
    manifest = create_in_session(connected(settings, ("kafka",)), name)
    if as_json:
        print_json(with_json_keys(manifest))
        return
    show_manifest(settings, manifest)


def create_in_session(settings: Settings, name: str, *, changed_log: bool = False) -> dict[str, Any]:
    """Create a savepoint, in a Spark session of its own; `changed_log` as for `create_savepoint.create`."""
    from app.runtime.spark import own_session  # loads Spark
    from replay.savepoints import create_savepoint

    create_savepoint.check_has_state(settings)  # refused before Spark starts, which takes a while
    with own_session(settings, "kappa-savepoint", report) as spark:
        return create_savepoint.create(spark, settings, name, report, changed_log=changed_log)


@savepoint_app.command("list")
def list_all(config: Config = None, as_json: Json = False) -> None:
    """List all savepoints, oldest first."""
    settings = load(config)
    folder = savepoint_folder.savepoints_folder(settings.home)
    savepoint_folder.remove_stale_drafts(folder)
    found = savepoint_folder.list_manifests(settings.home)
    if as_json:
        print_json({"home": str(folder), "savepoints": with_json_keys(found)})
        return
    columns = ["name", "version", "state after", "series", "size", "taken", "hash"]
    print_table(f"savepoints in {folder}{'' if found else ': none'}", columns, [row(manifest) for manifest in found])


def row(manifest: dict[str, Any]) -> list[str]:
    """A savepoint in the list."""
    if "problem" in manifest:
        return [manifest["name"], "", manifest["problem"], "", "", "", ""]
    return [
        manifest["name"],
        manifest["version"],
        iso(manifest["watermark"]),
        f"{manifest['series']:,}",
        size(manifest),
        manifest["created_at"],
        manifest["hash"][:12],
    ]


def size(manifest: dict[str, Any]) -> str:
    """What the files of a savepoint take."""
    return f"{sum(file['bytes'] for file in manifest['files'].values()) / 2**20:.1f} MiB"


@savepoint_app.command()
def show(name: Name, config: Config = None, as_json: Json = False) -> None:
    """Show the manifest of a savepoint: which version, window and configuration it is of."""
    settings = load(config)
    manifest = savepoint_format.read_manifest(savepoint_folder.find(settings.home, name)) | {"name": name}
    if as_json:
        print_json(with_json_keys(manifest))
        return
    show_manifest(settings, manifest)


def show_manifest(settings: Settings, manifest: dict[str, Any]) -> None:
    """Print what matters of a manifest."""
    watermarks = sorted(set(manifest["watermarks"].values()))
    apart = f" ({len(watermarks)} different windows of shards, up to {iso(watermarks[-1])})" if watermarks else ""
    correlated = manifest["correlated"]
    rows = {
        "version": manifest["version"],
        "state after": iso(manifest["watermark"]) + apart,
        "incidents after": iso(correlated) if correlated is not None and correlated > 0 else "no window",
        "shards": str(manifest["shards"]),
        "series": f"{manifest['series']:,}",
        "size": size(manifest),
        "topics": ", ".join(manifest["topics"].values()),
        "configuration": manifest["configuration_sha256"][:12],
        "hash": manifest["hash"],
        "code version": manifest["code_version"],
        "taken": manifest["created_at"],
        "folder": str(savepoint_folder.savepoints_folder(settings.home) / manifest["name"]),
    }
    print_table(f"savepoint {manifest['name']}", ["", ""], [[key, value] for key, value in rows.items()])


@savepoint_app.command()
def verify(name: Name, config: Config = None, as_json: Json = False) -> None:
    """Check every file of a savepoint against its hash. Exit 1 if one is not as it was written."""
    problems = savepoint_format.verify(savepoint_folder.find(load(config).home, name))
    if as_json:
        print_json({"name": name, "whole": not problems, "problems": problems})
    elif not problems:
        print_table(f"savepoint {name}", [""], [["is as it was written"]])
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        msg = f"savepoint {name} is damaged: {problems[0]}{more}; use another savepoint, or replay from the log"
        raise InputError(msg)


@savepoint_app.command()
def drop(
    name: Name,
    yes: Annotated[
        bool, typer.Option("--yes", help="Remove it. Without this, only show what would be removed.")
    ] = False,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Remove a savepoint."""
    home = load(config).home
    folder = savepoint_folder.find(home, name)
    files = {file.name: file.stat().st_size for file in sorted(folder.iterdir())}
    if yes:
        savepoint_folder.drop(home, name)
    if as_json:
        print_json({"name": name, "folder": str(folder), "removed": yes, "files": files})
        return
    what = "removed" if yes else "would be removed"
    print_table(f"{what}: {folder}", ["file", "bytes"], [[file, f"{count:,}"] for file, count in files.items()])
    if not yes:
        report("nothing was removed; add --yes to remove it")
