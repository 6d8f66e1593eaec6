"""What `/metrics` gives, and what an expression of PromQL asks for."""

from __future__ import annotations

import re
from typing import Any

from app.core.settings import Settings
from app.early.metrics import LaneHealth

OF_A_HISTOGRAM = ("_bucket", "_sum", "_count")


def metrics() -> dict[str, set[str]]:
    """Every name that can be asked for, with its labels: of the jobs' processes, and of the early lane's."""
    found: dict[str, set[str]] = {}
    for metric in LaneHealth(Settings()).health.metrics.registry._collector_to_names:
        own: Any = metric
        labels = {*own._labelnames, *({"version", "python", "spark"} if own._type == "info" else ())}
        match own._type:
            case "histogram":
                found |= {own._name + end: labels | {"le"} for end in OF_A_HISTOGRAM}
            case "counter" | "info":
                found[f"{own._name}_{'total' if own._type == 'counter' else 'info'}"] = labels
            case _:
                found[own._name] = labels
    return found


def named(expression: str) -> set[str]:
    """Names of our metrics in an expression of PromQL; recorded ones have colons."""
    return set(re.findall(r"(?<![\w:])kappa_[a-z_]+(?![\w:=]|\s*=)", re.sub(r"by \([^)]*\)", "", expression)))
