"""A simulation as files: one event a line in order of arrival, times of arrival beside it, and the truth."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from app.simulator.ground_truth import header
from app.simulator.settings import GENERATOR_VERSION
from app.simulator.simulation import TOPICS, Simulation
from pipelines.errors import InputError

if TYPE_CHECKING:
    from app.simulator.simulation import Block
    from models.core.arrays import Ints

OnEventCount = Callable[[int, int], None]  # events so far, and about how many there will be


def write(
    simulation: Simulation, folder: Path | str, *, overwrite: bool = False, on_progress: OnEventCount | None = None
) -> dict[str, Any]:
    """Write `telemetry.jsonl`, `logs.jsonl`, both with `.arrival.npy` (int64, epoch ms per line), and `truth.json`.

    Returns what `truth.json` holds. Equal settings give equal bytes in every file. Raises InputError when the folder
    is not empty and `overwrite` is not set.
    """
    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())) and not overwrite:
        msg = f"simulate: {target} is not an empty folder; give another --out, or --overwrite"
        raise InputError(msg)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"simulate: cannot make {target}: {error.strerror}; wanted a folder that can be written"
        raise InputError(msg) from error
    files = {topic: (target / f"{topic}.jsonl").open("wb") for topic in TOPICS}
    arrivals: dict[str, list[Ints]] = {topic: [] for topic in TOPICS}
    try:
        for block in simulation.blocks():
            _append(block, files, arrivals)
            if on_progress is not None:
                on_progress(sum(simulation.counts.events.values()), simulation.expected_events)
    finally:
        for file in files.values():
            file.close()
    for topic in TOPICS:
        np.save(target / f"{topic}.arrival.npy", np.concatenate(arrivals[topic]))
    truth = document(simulation)
    (target / "truth.json").write_text(json.dumps(truth, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return truth


def _append(block: Block, files: Mapping[str, BinaryIO], arrivals: dict[str, list[Ints]]) -> None:
    for topic, batch in block.topics.items():
        arrivals[topic].append(batch.arrival)
        if batch.values:
            files[topic].write(b"\n".join(batch.values) + b"\n")


def document(simulation: Simulation) -> dict[str, Any]:
    """The truth with its header; the counts are of what has been generated so far."""
    counts = simulation.counts
    return {
        **header(simulation.settings, GENERATOR_VERSION),
        "counts": {**counts.events, "late": counts.late, "wrong_clock": counts.wrong_clock},
        "hosts": list(simulation.fleet.hosts),
        "records": simulation.truth,
    }
