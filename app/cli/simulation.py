"""A simulated fleet, written into a folder or sent to the input topics, with the truth about it."""

from __future__ import annotations

import json
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from app.cli.output import progress_bar
from app.core.atomic_files import atomic_text
from app.core.settings import Settings
from app.core.timestamps import milliseconds
from app.kafka import topics
from app.kafka.connection import client_options
from app.simulator import SimulatorSettings, document, simulate, write
from app.simulator.publish import Target, to_kafka
from models.core.wording import counted
from pipelines.errors import InputError


def settings_of(hosts: int, hours: float, seed: int, scenario: str, start: str | None) -> SimulatorSettings:
    """The simulator's settings. Raises SettingsError or InputError for what cannot be simulated."""
    known: dict[str, Any] = {"hosts": hosts, "hours": hours, "seed": seed, "scenario": scenario}
    if start is not None:
        known["start"] = milliseconds("simulate: --start", start)
    return SimulatorSettings(**known)


def to_folder(settings: SimulatorSettings, folder: Path, overwrite: bool) -> dict[str, Any]:
    """Write a simulation into a folder."""
    began = time.monotonic()
    with progress_bar() as progress:
        task = progress.add_task("simulating", total=None)
        made = write(
            simulate(settings),
            folder,
            overwrite=overwrite,
            on_progress=lambda done, total: progress.update(task, completed=done, total=max(done, total)),
        )
    return answer(made, time.monotonic() - began, str(folder))


def to_log(settings: SimulatorSettings, deployment: Settings, truth: Path | None) -> dict[str, Any]:
    """Send a simulation to the input topics as history: records carry the time of their arrival.

    Raises InputError where topics stamp records themselves: everything in the past would be late.
    """
    if deployment.topics.timestamps != "create":
        msg = (
            "simulate: the settings say that input topics stamp records when they are appended (topics.timestamps = "
            "append), so a simulated past would be late; set topics.timestamps = create for a log that holds history"
        )
        raise InputError(msg)
    began = time.monotonic()
    target = Target(client_options(deployment), {kind: deployment.topic(kind) for kind in topics.INPUTS})
    # A place that cannot be written is refused before anything is sent.
    with nullcontext() if truth is None else atomic_text(truth, "simulate") as out:
        topics.create(deployment)
        made = sent(settings, target)
        if out is not None:
            out.write(json.dumps(made, indent=2, ensure_ascii=False) + "\n")
    return answer(made, time.monotonic() - began, ", ".join(target.topics.values()))


def sent(settings: SimulatorSettings, target: Target) -> dict[str, Any]:
    """Send a simulation; returns the truth about it."""
    simulation = simulate(settings)
    with progress_bar() as progress:
        task = progress.add_task("sending", total=None)
        to_kafka(
            simulation,
            target,
            on_progress=lambda done, total: progress.update(task, completed=done, total=max(done, total)),
        )
    return document(simulation)


def answer(made: dict[str, Any], seconds: float, where: str) -> dict[str, Any]:
    """The object that `--json` prints; `summary` is a sentence for people."""
    counts = made["counts"]
    events = counts["telemetry"] + counts["logs"]
    episodes = len(made["records"])
    return {
        "summary": f"{counted(events, 'event')}, {counted(episodes, 'labelled episode')} in {seconds:.1f} s -> {where}",
        "events": events,
        "episodes": episodes,
        "seconds": round(seconds, 2),
        "counts": counts,
        "where": where,
    }
