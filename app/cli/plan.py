"""`kappa plan`: memory, cores and disk that a load needs, beforehand."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from app.cli.connection import Config
from app.cli.output import Json, print_json, print_table
from app.core.settings import load
from models.core.wording import counted

WORDS = {
    "memory": "memory in all, without Kafka and Elasticsearch",
    "heap": "heap of the JVM: spark.driver_memory",
    "jvm": "memory of the JVM, its heap included",
    "python": "memory of the Python workers",
    "driver": "memory of kappa run itself",
    "state": "state of the models",
    "checkpoints": "disk below home",
    "broker": "disk of Kafka, full: all that its retention keeps",
    "documents": "disk of Elasticsearch, each day: scores, where index.scores is on",
}


def plan(
    series: Annotated[int, typer.Option(help="Metric series of all hosts.", min=1)],
    hosts: Annotated[int, typer.Option(help="Number of hosts.", min=1)],
    window: Annotated[
        int | None, typer.Option(help="Seconds of a window; the setting's without it.", min=1, max=86_400)
    ] = None,
    templates: Annotated[int, typer.Option(help="Log templates of all hosts.", min=0)] = 0,
    log_lines: Annotated[float, typer.Option(help="Log lines a second of all hosts.", min=0, max=1e9)] = 0.0,
    line_bytes: Annotated[int, typer.Option(help="Bytes of a log line's message.", min=1, max=1_000_000)] = 120,
    canonical: Annotated[
        bool,
        typer.Option(
            "--canonical",
            help="Records are in the canonical, flat form: a point costs a tenth of one that an agent writes.",
        ),
    ] = False,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Estimate memory, cores and disk for a number of series and hosts; docs/limits.md has the measurements."""
    from app.runtime.plan import GIB, Load  # loads Spark
    from app.runtime.plan import plan as planned

    settings = load(config)
    if window is not None:
        settings = settings.model_copy(update={"windowing": replace(settings.windowing, window_seconds=window)})
    found = planned(Load(series, hosts, templates, log_lines, line_bytes, canonical), settings)
    if as_json:
        print_json(found.shown())
        return
    rows = [[words, f"{getattr(found, name) / GIB:,.2f} GiB"] for name, words in WORDS.items()]
    print_table(
        f"{series:,} series of {counted(hosts, 'host')}",
        ["what", "how much"],
        [*rows, ["cores", f"{found.cores:,.1f}"]],
    )
    for warning in found.warnings:
        typer.echo(f"over a limit: {warning}", err=True)
