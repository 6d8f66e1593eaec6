"""The command `kappa`: parses, calls, prints. Whatever it does can be done from Python as well."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from app import logs, stack
from app.errors import InputError, KappaError
from app.settings import Settings, load

app = typer.Typer(
    name="kappa",
    help="Finds what is novel in the telemetry and logs of a fleet: anomalies and changes of state.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
topics_app = typer.Typer(help="Topics of the log.", no_args_is_help=True)
config_app = typer.Typer(help="Settings.", no_args_is_help=True)
app.add_typer(topics_app, name="topics")
app.add_typer(config_app, name="config")

out = Console()
err = Console(stderr=True)

Config = Annotated[Path | None, typer.Option("--config", "-c", help="Settings as TOML. Default: kappa.toml, if there.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, nothing else there.")]


def main() -> None:
    """Run the command line: errors of ours are one line on stderr, exit 1."""
    try:
        app()
    except KappaError as error:
        err.print(f"kappa: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(1)


def report(line: str) -> None:
    """Say what is going on, on stderr."""
    err.print(line, style="dim", markup=False, highlight=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """The one object that a reporting command prints."""
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")


def connected(settings: Settings) -> Settings:
    """Settings with the embedded stack's addresses where the user named no servers of their own."""
    if settings.kafka.bootstrap_servers and settings.elasticsearch.url:
        return settings
    found = stack.addresses(settings.home)
    if found is None:
        msg = "no Kafka is set and the embedded one is not running; run `kappa up`, or set kafka.bootstrap_servers"
        raise InputError(msg)
    return with_addresses(settings, found.kafka, found.elasticsearch)


def with_addresses(settings: Settings, kafka: str | None, elasticsearch: str | None) -> Settings:
    """Settings that name these servers where they named none."""
    own_kafka, own_search = settings.kafka, settings.elasticsearch
    return settings.model_copy(
        update={
            "kafka": own_kafka.model_copy(update={"bootstrap_servers": own_kafka.bootstrap_servers or kafka}),
            "elasticsearch": own_search.model_copy(update={"url": own_search.url or elasticsearch}),
        }
    )


@contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """An event that SIGTERM and Ctrl-C set, so that work in hand is finished."""
    stopping = threading.Event()

    def stop(number: int, frame: Any) -> None:
        stopping.set()

    before = {n: signal.signal(n, stop) for n in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """Print a table."""
    view = Table(title=title, title_justify="left")
    for column in columns:
        view.add_column(column)
    for row in rows:
        view.add_row(*row)
    out.print(view)


@app.callback()
def start() -> None:
    """Finds what is novel in the telemetry and logs of a fleet."""
    logs.configure()


@config_app.command("show")
def config_show(config: Config = None, as_json: Json = False) -> None:
    """Effective settings: defaults, file, environment. Secrets are masked."""
    shown = load(config).shown()
    if as_json:
        print_json(shown)
        return
    for key, value in flat(shown):
        out.print(f"{key} = {json.dumps(value)}", markup=False, highlight=False, soft_wrap=True)


def flat(value: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested settings as dotted names."""
    for key, inner in value.items():
        if isinstance(inner, dict) and inner:
            yield from flat(inner, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", inner


@topics_app.command("create")
def topics_create(config: Config = None, as_json: Json = False) -> None:
    """Create the topics that are missing, with the settings that the results depend on."""
    from app import topics

    made = topics.create(connected(load(config)))
    if as_json:
        print_json(made)
        return
    table("topics", ["topic", ""], [[name, what] for name, what in made.items()])


if __name__ == "__main__":
    main()
