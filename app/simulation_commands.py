"""What `kappa simulate` does, callable from Python."""

from __future__ import annotations

import json
import time
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from app import topics
from app.errors import InputError
from app.settings import Settings
from app.simulator import SimulatorSettings, document, simulate, write
from app.simulator.publish import Target, to_kafka


def settings_of(hosts: int, hours: float, seed: int, scenario: str, start: str | None) -> SimulatorSettings:
    """The simulator's settings. Raises SettingsError or InputError for what cannot be simulated."""
    known: dict[str, Any] = {"hosts": hosts, "hours": hours, "seed": seed, "scenario": scenario}
    if start is not None:
        known["start"] = milliseconds(start)
    return SimulatorSettings(**known)


def milliseconds(text: str) -> int:
    """Epoch milliseconds of an ISO 8601 time with its zone."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        msg = f"simulate: --start is {text!r}; wanted ISO 8601 such as 2026-01-05T00:00:00Z"
        raise InputError(msg) from error
    if at.tzinfo is None:
        msg = f"simulate: --start {text!r} has no zone; append Z or an offset"
        raise InputError(msg)
    return int(at.timestamp() * 1000)


def progress_bar(console: Console) -> Progress:
    """Progress on stderr, where that is a terminal."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )


def to_folder(settings: SimulatorSettings, folder: Path, overwrite: bool, console: Console) -> dict[str, Any]:
    """Write a simulation into a folder."""
    began = time.monotonic()
    with progress_bar(console) as progress:
        task = progress.add_task("simulating", total=None)
        made = write(
            simulate(settings),
            folder,
            overwrite=overwrite,
            on_progress=lambda done, total: progress.update(task, completed=done, total=max(done, total)),
        )
    return answer(made, time.monotonic() - began, str(folder))


def to_log(settings: SimulatorSettings, deployment: Settings, truth: Path | None, console: Console) -> dict[str, Any]:
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
    topics.create(deployment)
    simulation = simulate(settings)
    target = Target(topics.client_options(deployment), {kind: deployment.topic(kind) for kind in topics.INPUTS})
    with progress_bar(console) as progress:
        task = progress.add_task("sending", total=None)
        to_kafka(
            simulation,
            target,
            on_progress=lambda done, total: progress.update(task, completed=done, total=max(done, total)),
        )
    made = document(simulation)
    if truth is not None:
        truth.write_text(json.dumps(made, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return answer(made, time.monotonic() - began, ", ".join(target.topics.values()))


def answer(made: dict[str, Any], seconds: float, where: str) -> dict[str, Any]:
    """What is printed: counts, seconds, a sentence."""
    counts = made["counts"]
    events = counts["telemetry"] + counts["logs"]
    episodes = len(made["records"])
    return {
        "summary": f"{events} events, {episodes} labelled episodes in {seconds:.1f} s -> {where}",
        "events": events,
        "episodes": episodes,
        "seconds": round(seconds, 2),
        "counts": counts,
        "where": where,
    }
