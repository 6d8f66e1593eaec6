"""`kappa up`, `down` and `status`: the embedded Kafka and Elasticsearch."""

from __future__ import annotations

import dataclasses

from app.cli.connection import Config
from app.cli.output import Json, print_json, print_line, print_table, report
from app.core.settings import load


def up(config: Config = None, as_json: Json = False) -> None:
    """Start the embedded Kafka and Elasticsearch, and leave them running."""
    from app.embedded import stack  # loads Kafka's client

    settings = load(config)
    ports = settings.stack
    wanted = stack.Stack(settings.home, ports.kafka_port, ports.elasticsearch_port, jars=settings.jars)
    addresses = stack.up(wanted, report=report)
    if as_json:
        print_json(dataclasses.asdict(addresses))
        return
    print_line(f"Kafka at {addresses.kafka}, Elasticsearch at {addresses.elasticsearch}; `kappa down` stops them")


def down(config: Config = None, as_json: Json = False) -> None:
    """Stop the embedded Kafka and Elasticsearch; their data are kept."""
    from app.embedded import stack  # loads Kafka's client

    was_running = stack.down(load(config).home, report=report)
    if as_json:
        print_json({"stopped": was_running})
        return
    print_line("stopped" if was_running else "nothing was running")


def status(config: Config = None, as_json: Json = False) -> None:
    """Show which embedded servers run, where, and whether they answer; why one ended that nobody stopped."""
    from app.embedded import stack  # loads Kafka's client

    found = stack.status(load(config).home)
    if as_json:
        print_json(dataclasses.asdict(found))
        return
    servers = {"kafka": found.kafka, "elasticsearch": found.elasticsearch}
    rows = [
        [
            name,
            server.address,
            server.version,
            "healthy" if server.healthy else "running" if server.running else "stopped",
            f"{server.data_bytes / 2**20:.1f} MiB",
        ]
        for name, server in servers.items()
        if server is not None
    ]
    why = f": {found.reason}" if found.reason else ""
    print_table(
        f"embedded stack in {found.home}: {found.phase}{why}", ["server", "address", "version", "", "data"], rows
    )
