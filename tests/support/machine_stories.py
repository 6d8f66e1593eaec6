"""A machine with metrics and log lines, window by window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from functools import cache

import numpy as np
from support.fleet_story import DetectorRun, Row

from models.core.parameters import DetectorParameters
from models.detection.detector import ShardDetector

CPU, LINES, LEVEL = "gauge/vm-1//cpu", "template/vm-1/web/info/aa", "logs/vm-1/web/info"


class Machine:
    """A host that lives on: processor, requests, lines. Each call of `windows` goes on where the last one ended."""

    def __init__(self, seed: int = 0, host: str = "vm-1") -> None:
        self.rng, self.host, self.total = np.random.default_rng(seed), host, 1e9

    def window(self) -> dict[str, Row]:
        self.total += 10 * self.rng.normal(5000, 200)
        rows: dict[str, Row] = {
            f"gauge/{self.host}//cpu": round(30 + self.rng.normal(0, 1.5), 2),
            f"gauge/{self.host}/web/latency": round(float(np.exp(self.rng.normal(3, 0.1))), 2),
            f"counter/{self.host}//bytes": self.total,
        }
        if lines := int(self.rng.poisson(7)):
            rows |= {f"logs/{self.host}/web/info": lines, f"template/{self.host}/web/info/aa": (lines, "took <num> ms")}
        return rows

    def windows(self, count: int, **changed: float | None) -> Iterator[dict[str, Row]]:
        """Windows in which some series are replaced (by the last word of their names), or absent where None."""
        for _ in range(count):
            rows = self.window()
            for name in list(rows):
                word = name.rsplit("/", 1)[1]
                if word in changed:
                    value = changed[word]
                    if value is None:
                        del rows[name]
                    else:
                        rows[name] = value
            yield rows


def beside_another_log(windows: Iterable[dict[str, Row]]) -> Iterator[dict[str, Row]]:
    """Windows in which another service of the host logs too."""
    return (rows | {"logs/vm-1/db/info": 3} for rows in windows)


def after_an_hour() -> tuple[Machine, DetectorRun]:
    """A machine, and a detector that has known it for an hour and has reported nothing."""
    machine, parts, now = _hour()
    return deepcopy(machine), DetectorRun(ShardDetector.load(parts, DetectorParameters()), now)


@cache
def _hour() -> tuple[Machine, dict[str, bytes], int]:
    machine, found = Machine(), DetectorRun(ShardDetector(DetectorParameters()))
    assert found.play(machine.windows(360)) == []
    return machine, found.detector.dump(), found.now
