"""`kappa kibana`: Kibana's saved objects, exported or imported. The work is in `dashboards.kibana` and `app.search.kibana`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from app.cli.connection import Config
from app.cli.output import Json, print_json, print_line, report
from app.core.exposure import is_exposed, warning_of
from app.core.settings import load
from pipelines.errors import InputError

kibana_app = typer.Typer(
    help="Export or import data views, searches and a dashboard for Kibana 9.", no_args_is_help=True
)


@kibana_app.command("export")
def export(
    out_file: Annotated[Path | None, typer.Option("--out", help="Write them here, not on stdout.")] = None,
) -> None:
    """Print the saved objects as NDJSON, for Kibana's own import page or `kappa kibana import`."""
    from app.search.kibana import exported  # loads Elasticsearch's client

    text = exported()
    if out_file is None:
        sys.stdout.write(text)
        return
    try:
        out_file.write_text(text)
    except OSError as error:
        msg = f"kibana export: cannot write {out_file} ({error.strerror}); wanted a file in a folder that is there"
        raise InputError(msg) from error
    report(f"{text.count(chr(10))} saved objects in {out_file}")


@kibana_app.command("import")
def import_into(
    url: Annotated[str, typer.Argument(help="Kibana's address, with /s/NAME for a space.")],
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Import the saved objects into a Kibana and overwrite earlier ones; user and password are those of Elasticsearch."""
    from app.search.kibana import checked, put  # loads Elasticsearch's client

    exposed = warning_of([f"Kibana {url}"] if is_exposed(checked(url)) else [])
    if exposed:
        report(f"warning: {exposed}")
    made = put(url, load(config).elasticsearch)
    if as_json:
        print_json(made)
        return
    kinds = ", ".join(f"{number} {kind}" for kind, number in made["by_type"].items())
    print_line(f"{made['objects']} saved objects at {made['url']}: {kinds}")
