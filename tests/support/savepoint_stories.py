"""A small detector whose state fills a savepoint."""

from __future__ import annotations

import numpy as np

from models.core.parameters import DetectorParameters
from models.core.windows import Windows

QUICK = DetectorParameters(warm_up_minutes=5, grace_minutes=5, persistence_minutes=5, patience_minutes=10)


START, WINDOW = 1_767_571_200_000, 10_000


CUT = 100  # windows before the savepoint


WHOLE = 150


def story(shard: int) -> list[Windows]:
    """Windows of a host with noise, a shift, a counter, lines, templates, one of them new, and rows that are missing."""
    rng, total, made = np.random.default_rng(shard), 1e6, []
    host = f"h{shard}"
    for k in range(WHOLE):
        total += rng.uniform(900, 1100)
        values = {
            f"gauge/{host}/web/load.{i}": (60.0 if i == 0 and 80 <= k < 120 else 20.0 + i) + rng.normal()
            for i in (2, 0, 1)
            if rng.random() < 0.97
        }
        values[f"counter/{host}//bytes"] = total
        if k > 70:  # comes later, and sorts before the others: rows are not in order of names
            values[f"gauge/{host}/db/size"] = float(k)
        lines = {f"logs/{host}/web/info": 3, f"template/{host}/web/info/aa": 3} if rng.random() < 0.9 else {}
        if k == CUT - 2:
            lines[f"template/{host}/web/info/bb"] = 1
        made.append(windows(values, lines))
    return made


def windows(values: dict[str, float], lines: dict[str, int]) -> Windows:
    names = sorted(values | lines)
    n = np.array([lines.get(name, 1) for name in names], dtype=np.int64)
    mean = np.array([values.get(name, np.nan) for name in names])
    text = np.array(["took <num> ms" if name.startswith("template/") else None for name in names], dtype=object)
    return Windows(np.array(names, dtype=object), n, mean, np.zeros(len(n)), mean, mean, mean, text, text)
