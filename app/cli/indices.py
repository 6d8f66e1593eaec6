"""`kappa indices`: what is in Elasticsearch. The work is in `app.search.old_names`."""

from __future__ import annotations

import typer

from app.cli.connection import Config, connected
from app.cli.output import DryRun, Json, print_json, print_line, report
from app.core.settings import load
from models.core.wording import counted

indices_app = typer.Typer(help="Indices in Elasticsearch.", no_args_is_help=True)


@indices_app.command("rename")
def rename_indices(
    dry_run: DryRun = False,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Copy indices of early builds, whose names do not begin with kappa-, to today's names, and delete the old ones. Needed once."""
    from app.search.connection import elasticsearch_connection  # loads Elasticsearch's client
    from app.search.old_names import count_old_documents, rename_indices

    settings = connected(load(config), ("elasticsearch",))
    client = elasticsearch_connection(settings).connect()
    try:
        made = count_old_documents(client) if dry_run else rename_indices(client, settings, report)
    finally:
        client.close()
    if as_json:
        print_json(made)
        return
    word = "would rename" if dry_run else "renamed"
    print_line(f"{word}: {counted(len(made), 'index', 'indices')} with {counted(sum(made.values()), 'document')}")
