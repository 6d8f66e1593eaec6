"""Writing and loading a savepoint of many series, without Spark or Kafka: seconds, and bytes against the state's own.

python -m benchmarks.savepoints [--series 1000000] [--shards 64]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from models.core.parameters import DetectorParameters
from models.core.windows import Windows
from models.detection.detector import ShardDetector
from pipelines.state.savepoint_format import load_shard, verify
from pipelines.state.savepoint_tables import ShardParts
from replay.savepoints.savepoint_writer import Provenance, write

START, WINDOW, WINDOWS = 1_767_571_200_000, 10_000, 12
PER_HOST = 50


def shard_of(shard: int, gauges: int) -> ShardParts:
    """The state of a real detector that has seen noise of so many gauges for a few windows."""
    rng = np.random.default_rng(shard)
    names = sorted(f"gauge/host-{shard}-{i // PER_HOST}/service/metric.{i % PER_HOST}" for i in range(gauges))
    series, none = np.array(names, dtype=object), np.full(gauges, None, dtype=object)
    levels, ones, zeros = rng.uniform(1, 100, gauges), np.ones(gauges, dtype=np.int64), np.zeros(gauges)
    detector, now = ShardDetector(DetectorParameters()), START
    for _ in range(WINDOWS):
        now += WINDOW
        values = levels * (1 + 0.05 * rng.normal(size=gauges))
        detector.step(now, Windows(series, ones, values, zeros, values, values, values, none, none))
    return ShardParts(shard, now, detector.dump())


def measure(series: int, shards: int = 64) -> dict[str, float]:
    """Seconds to write, verify, load, and make detectors again; bytes of the files and of the state."""
    each = series // shards
    states = [shard_of(shard, each) for shard in range(shards)]
    provenance = Provenance("bench", {}, {"telemetry": "telemetry", "logs": "logs"}, shards, "bench")
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "savepoint"
        began = time.perf_counter()
        manifest = write(folder, provenance, iter(states), None)
        written = time.perf_counter()
        problems = verify(folder)
        verified = time.perf_counter()
        seconds = list(loads(folder, states))
        size = sum(file.stat().st_size for file in folder.iterdir())
    own = sum(len(part) for state in states for part in state.parts.values())
    return {
        "series": float(manifest["series"]),
        "problems": float(len(problems)),
        "write_seconds": written - began,
        "verify_seconds": verified - written,
        "load_seconds": sum(read for read, _ in seconds),
        "load_with_detectors_seconds": sum(read + made for read, made in seconds),
        "savepoint_bytes": float(size),
        "state_bytes": float(own),
        "bytes_to_state": size / own,
    }


def loads(folder: Path, states: list[ShardParts]) -> Iterator[tuple[float, float]]:
    """Seconds to load the parts of each shard, and to make its detector of them. Raises ValueError if they differ."""
    for state in states:
        began = time.perf_counter()
        loaded = load_shard(folder, state.shard)
        read = time.perf_counter()
        if loaded != state:
            msg = f"shard {state.shard} was not loaded as it was written"
            raise ValueError(msg)
        compared = time.perf_counter()
        ShardDetector.load(state.parts, DetectorParameters())
        yield read - began, time.perf_counter() - compared


def main() -> None:
    """Measure and print JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.savepoints", description=__doc__)
    parser.add_argument("--series", type=int, default=1_000_000)
    parser.add_argument("--shards", type=int, default=64)
    chosen = parser.parse_args()
    print(json.dumps(measure(chosen.series, chosen.shards), indent=2))


if __name__ == "__main__":
    main()
