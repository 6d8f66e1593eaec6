"""The command `kappa`: parses, calls, prints. Whatever it does can be done from Python as well."""

from __future__ import annotations

import dataclasses
import errno
import json
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from app.cli.kibana_commands import kibana_app
from app.cli.options import Config, Json
from app.cli.replay_commands import replay_app
from app.cli.savepoint_commands import savepoint_app
from app.core import logs
from app.core.settings import Settings, load
from app.embedded import stack
from app.kafka.connection import client_options
from app.versions import serving
from pipelines.errors import InputError, KappaError

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
app.add_typer(savepoint_app, name="savepoint")
app.add_typer(replay_app, name="replay")
app.add_typer(kibana_app, name="kibana")

DISTRIBUTION = "kappa-novelty"
# What a folder may have against being written to, wherever that shows.
UNUSABLE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENOTDIR}
out = Console()
err = Console(stderr=True)


def main() -> None:
    """Run the command line: errors of ours are one line on stderr, exit 1."""
    try:
        app()
    except KappaError as error:
        fail(str(error))
    except OSError as error:
        if error.errno not in UNUSABLE or error.filename is None:
            raise
        fail(
            f"cannot use {error.filename}: {error.strerror}; make room there or see to its rights, or change the setting home"
        )


def fail(line: str) -> NoReturn:
    """End with an error, in one line."""
    err.print(f"kappa: {line}", style="red", markup=False, highlight=False, soft_wrap=True)
    sys.exit(1)


def report(line: str) -> None:
    """Say what is going on, on stderr."""
    err.print(line, style="dim", markup=False, highlight=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """The one object that a reporting command prints."""
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")


def connected(settings: Settings, needed: tuple[str, ...] = ("kafka", "elasticsearch")) -> Settings:
    """Settings with the embedded stack's addresses where the user named no servers of their own."""
    known = {
        "kafka.bootstrap_servers": settings.kafka.bootstrap_servers,
        "elasticsearch.url": settings.elasticsearch.url,
    }
    unset = [name for name, value in known.items() if not value and name.startswith(needed)]
    if not unset:
        return settings
    found = stack.addresses(settings.home)
    if found is None:
        msg = f"{unset[0]} is not set and no embedded stack is running; run `kappa up`, or set {' and '.join(unset)}"
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
    """Print a title, and a table unless it has no rows."""
    # A title of the table's own is broken to the width of its columns.
    out.print(title, style="table.title", markup=False, highlight=False, soft_wrap=True)
    if not rows:
        return
    view = Table()
    for column in columns:
        view.add_column(column)
    for row in rows:
        view.add_row(*row)
    out.print(view)


def say_version(wanted: bool) -> None:
    """Print the version of the programme, and end."""
    if wanted:
        typer.echo(f"kappa {metadata.version(DISTRIBUTION)}")
        raise typer.Exit


@app.callback()
def start(
    version: Annotated[
        bool, typer.Option("--version", callback=say_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Finds what is novel in the telemetry and logs of a fleet."""
    logs.configure()


@config_app.command("show")
def config_show(config: Config = None, as_json: Json = False) -> None:
    """Effective settings: defaults, file, environment. Secrets are masked."""
    from app.runtime.run import flat

    shown = load(config).shown()
    if as_json:
        print_json(shown)
        return
    for key, value in flat(shown):
        out.print(f"{key} = {json.dumps(value)}", markup=False, highlight=False, soft_wrap=True)


@config_app.command("check")
def config_check(
    config: Config = None,
    series: Annotated[
        Path | None, typer.Option(help="File with a series' name on each line. Default: what `statistics` has.")
    ] = None,
    as_json: Json = False,
) -> None:
    """What each rule of the settings matches and when it holds; what contradicts, what does nothing. Wrong settings: exit 1."""
    from app.cli import rules_check

    try:
        settings = rules_check.settings_of(config)
    except rules_check.RulesRefused as error:
        for line in error.lines:
            err.print(f"kappa: {line}", style="red", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(1) from error
    answer = rules_check.check(settings, series, lambda: connected(settings, ("kafka",)), report)
    if as_json:
        print_json(answer)
        return
    columns = ["rule", "does", "when", "series", "such as"]
    table(
        f"{len(answer['rules'])} rules, {answer['series']} series ({answer['from']})",
        columns,
        rules_check.rows(answer),
    )
    for line in answer["warnings"]:
        report(f"warning: {line}")


@config_app.command("spark")
def config_spark(config: Config = None) -> None:
    """Spark's configuration as a properties file, for `spark-submit --properties-file`."""
    from app.runtime.spark import configuration, properties

    sys.stdout.write(properties(configuration(load(config), report)))


@topics_app.command("create")
def topics_create(config: Config = None, as_json: Json = False) -> None:
    """Create the topics that are missing, with the settings that the results depend on."""
    from app.kafka import topics

    made = topics.create(connected(load(config), ("kafka",)))
    if as_json:
        print_json(made)
        return
    table("topics", ["topic", ""], [[name, what] for name, what in made.items()])


def own_stack(settings: Settings) -> stack.Stack:
    """The embedded stack of the settings."""
    ports = settings.stack
    return stack.Stack(settings.home, ports.kafka_port, ports.elasticsearch_port, jars=settings.jars)


@app.command()
def up(config: Config = None, as_json: Json = False) -> None:
    """Start the embedded Kafka and Elasticsearch, and leave them running."""
    settings = load(config)
    found = stack.up(own_stack(settings), report=report)
    if as_json:
        print_json(dataclasses.asdict(found))
        return
    line = f"Kafka at {found.kafka}, Elasticsearch at {found.elasticsearch}; `kappa down` stops them"
    out.print(line, highlight=False, soft_wrap=True)


@app.command()
def down(config: Config = None, as_json: Json = False) -> None:
    """Stop the embedded Kafka and Elasticsearch. Their data stay."""
    was_running = stack.down(load(config).home, report=report)
    if as_json:
        print_json({"stopped": was_running})
        return
    out.print("stopped" if was_running else "nothing was running")


@app.command()
def status(config: Config = None, as_json: Json = False) -> None:
    """What of the embedded stack runs, where, and whether it answers."""
    found = stack.status(load(config).home)
    if as_json:
        print_json(dataclasses.asdict(found))
        return
    services = {"kafka": found.kafka, "elasticsearch": found.elasticsearch}
    rows = [
        [name, s.address, s.version, "healthy" if s.healthy else "running" if s.running else "stopped", megabytes(s)]
        for name, s in services.items()
        if s is not None
    ]
    table(f"embedded stack in {found.home}: {found.phase}", ["server", "address", "version", "", "data"], rows)


def megabytes(service: stack.ServiceStatus) -> str:
    """The size of a server's data."""
    return f"{service.data_bytes / 2**20:.1f} MiB"


@app.command()
def run(
    names: Annotated[list[str], typer.Argument(help="extract, detect, correlate, index, or all")],
    config: Config = None,
    instance: Annotated[int, typer.Option(help="Which of several extract jobs this one is, from 0.")] = 0,
    instances: Annotated[int, typer.Option(help="How many extract jobs share the input partitions.")] = 1,
    heartbeats: Annotated[bool, typer.Option(help="Append two heartbeats a second to every input partition.")] = True,
    accept_gap: Annotated[
        bool, typer.Option("--accept-gap", help="Go on where records were deleted unread; a record says which.")
    ] = False,
    version: Annotated[
        str | None, typer.Option(help="Whose jobs, and no other's. Default: whichever version serves.")
    ] = None,
    savepoint: Annotated[
        str | None, typer.Option(help="Begin after this savepoint: its name, or REPLAY:VERSION for a replay's end.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="With --savepoint: set checkpoints that are there aside.")
    ] = False,
) -> None:
    """Run jobs until SIGTERM or Ctrl-C; the batch in hand is finished first."""
    from app.runtime.run import chosen
    from app.runtime.supervise import run_until_stopped

    if not 0 <= instance < instances:
        msg = f"--origin is {instance}; wanted 0 to {instances - 1}, one of --origins {instances}"
        raise InputError(msg)
    wanted = chosen(names)
    own, follow = serving.chosen(config, version)
    settings = connected(own, ("kafka", "elasticsearch") if "index" in wanted else ("kafka",))
    begin(serving.to_run(settings) if follow else settings, savepoint, replace=replace)
    with stopped_by_signals() as stopping:
        beats = heartbeats and "extract" in wanted
        run_until_stopped(
            settings, wanted, stopping, instance, instances, beats, report, accept_gap=accept_gap, follow=follow
        )


def begin(settings: Settings, savepoint: str | None, *, replace: bool) -> None:
    """See to where jobs begin: after a savepoint; a version that was replayed and never ran, where its replay ended."""
    from app.versions import start_position
    from replay import run as replays
    from replay.savepoints.savepoint_folder import find

    if savepoint is not None:
        kind, _, name = savepoint.partition(":")
        folder = replays.end_of(settings.model_copy(update={"version": name})) if name else find(settings.home, kind)
        start_position.begin_from(settings, folder, replace=replace)
        report(f"beginning after savepoint {savepoint}")
    elif replace:
        msg = "--replace is for --savepoint, which is not given"
        raise InputError(msg)
    else:
        start_position.go_on_after_replay(settings, report)


@app.command()
def label(
    incident: Annotated[str, typer.Argument(help="Its id, as in the topic incidents and on the dashboard.")],
    label: Annotated[str, typer.Argument(help="true, false-alarm or expected-change.")],
    comment: Annotated[str, typer.Option(help="For people.")] = "",
    author: Annotated[str | None, typer.Option(help="Who says so. Default: who runs this.")] = None,
    series: Annotated[
        list[str] | None, typer.Option(help="Whose series, instead of the incident's; several times.")
    ] = None,
    version: Annotated[str | None, typer.Option(help="Whose incident. Default: the version that serves.")] = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Say what an incident was: it goes into the log, and the models take it in."""
    from app.cli import label_incidents

    needed = ("kafka",) if series else ("kafka", "elasticsearch")
    settings = connected(serving.of_version(config, version), needed)
    said = label_incidents.record(settings, incident, label, comment, author, series or ())
    label_incidents.send(settings, said)
    if as_json:
        print_json(said)
        return
    line = f"{label}: {len(said['series'])} series of incident {incident}"
    out.print(line, markup=False, highlight=False, soft_wrap=True)


@app.command()
def state(
    series: Annotated[str, typer.Argument(help="Its name: kind/host/service/rest, as in scores and novelties.")],
    version: Annotated[str | None, typer.Option(help="Whose model. Default: the version that serves.")] = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """What the model believes about a series now."""
    from app.runtime import state_server

    settings = serving.of_version(config, version)
    answer = state_server.ask(settings, series, report)
    if as_json:
        print_json(answer)
        return
    table(series, ["", ""], state_server.rows(answer))


@app.command()
def collect(
    files: Annotated[
        list[str] | None, typer.Option("--file", "-f", help="Log files to follow; patterns are fine.")
    ] = None,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between readings.")] = 10.0,
    host: Annotated[str | None, typer.Option(help="The host's name. Default: this machine's.")] = None,
    from_start: Annotated[bool, typer.Option(help="Read files from their start, not only what comes.")] = False,
    config: Config = None,
) -> None:
    """Send this machine's metrics, and the lines of log files, to Kafka until stopped."""
    from app.collector import collector
    from app.kafka import topics

    settings = connected(load(config), ("kafka",))
    names = {kind: settings.topic(kind) for kind in topics.INPUTS}
    with stopped_by_signals() as stopping:
        report(f"collecting every {interval:g} s; Ctrl-C stops")
        sent = collector.collect(
            client_options(settings),
            names,
            stopping,
            interval=interval,
            files=files or [],
            host=host,
            from_start=from_start,
        )
    out.print(f"sent {sent.telemetry} measurements and {sent.logs} log lines")


@app.command()
def templates(
    file: Annotated[Path, typer.Argument(help="A log file, with or without headers before the messages.")],
    out_file: Annotated[Path | None, typer.Option("--out", help="Write line, template_id, template as CSV.")] = None,
    as_json: Json = False,
) -> None:
    """The templates of a log file: the same as the chain gives to the same lines. CSV on stdout without --out or --json."""
    from app.cli import template_files as commands

    if out_file is None and not as_json:
        commands.mine_to_stdout(file, err)
        return
    found = commands.mine_to_file(file, out_file, err)
    if as_json:
        print_json(commands.summary(file, found, out_file))
        return
    shown = found.templates()
    rows = [[f"{t['lines']:,}", t["template_id"], escape(t["template"])] for t in shown[: commands.SHOWN]]
    table(f"{len(shown):,} templates in {found.lines:,} lines of {file}", ["lines", "id", "template"], rows)


@app.command()
def score(
    files: Annotated[
        list[Path], typer.Argument(help="CSV or Parquet, one after the other; all but the last only teach.")
    ],
    value: Annotated[str | None, typer.Option(help="The column of one metric.")] = None,
    values: Annotated[str | None, typer.Option(help="A pattern such as 'm*': columns of one host's metrics.")] = None,
    timestamp: Annotated[
        str | None, typer.Option(help="The column of times. Default: `timestamp` or the like.")
    ] = None,
    period: Annotated[float | None, typer.Option(help="Seconds between two rows that have no times.")] = None,
    out_file: Annotated[Path | None, typer.Option("--out", help="Write a row for each row as CSV.")] = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """The detector on the rows of files, without Kafka. CSV on stdout without --out or --json."""
    from app.cli import score_files as commands
    from app.cli.table_files import Wanted

    if (value is None) == (values is None):
        msg = "give either --value COLUMN or --values PATTERN"
        raise typer.BadParameter(msg)
    to_stdout = out_file is None and not as_json
    wanted = Wanted(value, values, timestamp)
    settings = load(config)
    if settings.control.rules:
        report("the rules of the settings are not followed: files have no hosts to select")
    made = commands.run(files, wanted, period, settings.detection, out_file, err, report, to_stdout=to_stdout)
    if as_json:
        print_json(made)
    elif out_file is not None:
        rows = [
            [str(n["file"]), str(n["row"]), n["time"], n["kind"], f"{n['score']:.1f}", commands.words(n)]
            for n in made["first_novelties"]
        ]
        table(commands.title(made), ["file", "row", "time", "kind", "nats", "why"], rows)


@app.command()
def simulate(
    hosts: Annotated[int, typer.Option(help="Machines, physical and virtual.")] = 20,
    hours: Annotated[float, typer.Option(help="Length of the simulation.")] = 4.0,
    seed: Annotated[int, typer.Option(help="Same seed, same bytes.")] = 1,
    to_kafka: Annotated[bool, typer.Option("--to-kafka", help="Send it to the input topics.")] = False,
    out_dir: Annotated[Path | None, typer.Option("--out", help="Write it into this folder.")] = None,
    start: Annotated[str | None, typer.Option(help="First moment, ISO 8601. Default: 2026-01-05T00:00:00Z.")] = None,
    scenario: Annotated[str, typer.Option(help="standard, faults, changes or clean.")] = "standard",
    truth: Annotated[Path | None, typer.Option(help="Where to write the truth with --to-kafka.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace what is in the folder.")] = False,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """A labelled fleet: telemetry and logs with faults and changes of state, and the truth about them."""
    from app.cli import simulation

    if to_kafka == (out_dir is not None):
        msg = "simulate: give either --to-kafka or --out DIR"
        raise typer.BadParameter(msg)
    if truth is not None and not to_kafka:
        msg = "simulate: --truth is for --to-kafka; with --out DIR the truth is DIR/truth.json"
        raise typer.BadParameter(msg)
    settings = simulation.settings_of(hosts, hours, seed, scenario, start)
    if out_dir is not None:
        made = simulation.to_folder(settings, out_dir, overwrite, err)
    else:
        made = simulation.to_log(settings, connected(load(config), ("kafka",)), truth, err)
    if as_json:
        print_json(made)
        return
    out.print(made["summary"], highlight=False, soft_wrap=True)


@app.command()
def demo(
    minutes: Annotated[float, typer.Option(min=3, max=120, help="How long it takes, from start to table.")] = 5.0,
    seed: Annotated[int, typer.Option(help="Which fleet.")] = 1,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """The whole of it: Kafka, Elasticsearch, a simulated fleet with faults, all jobs, and what they found."""
    from app.cli.demo import run_demo

    with stopped_by_signals() as stopping:
        result = run_demo(load(config), minutes, seed, stopping, as_json, err if as_json else out)
    if as_json:
        print_json(result)


@app.command()
def dashboard(
    config: Config = None,
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8501,
    host: Annotated[str, typer.Option(help="Address to listen on. The pages ask nobody for a password.")] = "127.0.0.1",
) -> None:
    """The monitoring pages, in the browser."""
    from app.runtime.dashboard import serve

    with stopped_by_signals() as stopping:
        serve(connected(serving.current(load(config)), ("elasticsearch",)), port, stopping, report, host)


@app.command()
def watch(
    days: Annotated[
        float, typer.Option(min=0.01, help="How long ago an incident that is shown may have had its last word.")
    ] = 7.0,
    version: Annotated[
        str | None, typer.Option(help="Whose incidents. Default: those of whichever version serves.")
    ] = None,
    lines: Annotated[bool, typer.Option("--lines", help="A line for each event, on a terminal as well.")] = False,
    config: Config = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a line for each event, nothing else.")
    ] = False,
) -> None:
    """Incidents as they open and close, and the pipeline's health, until Ctrl-C. A line for each event on a pipe."""
    from app.cli import watch_commands

    own, follow = serving.chosen(config, version)
    settings = connected(own, ("kafka",))
    with stopped_by_signals() as stopping:
        watch_commands.run(settings, stopping, out, days, follow=follow, as_json=as_json, lines=lines)
