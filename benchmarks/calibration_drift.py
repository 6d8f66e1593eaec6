"""The check for calibration drift beside river's ADWIN on the same p-values: false alarms, and hours until drift is detected.

    python -m benchmarks.calibration_drift [--series 50] [--seed 1] [--json]

Streams of p-values of rows five minutes apart: thirty days of correct p-values, then ten of wrong ones. `noise` has independent rows; in
`minutes` and `hours` neighbouring rows are correlated by 0.8 and 0.97, as those of real series are, and p is uniform all the
same. After the change p is u^k: its mean is 0.2 or 0.35 (too sure) or 0.8 (too wary). ADWIN reads every row, or the means of
hours, with its default `delta` of 0.002 and with 1e-6.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table
from river.drift import ADWIN
from scipy import special

from models.core.arrays import Floats
from models.stats import calibration_drift

AN_HOUR = 12
RIGHT_DAYS, OFF_DAYS = 30, 10
KINDS = {"noise": 0.0, "minutes": 0.8, "hours": 0.97}
MEANS = (0.2, 0.35, 0.8)
Check = Callable[[Floats], list[int]]  # p-values of a series, `(rows,)`: the hours at whose ends drift is reported


def stream(rng: np.random.Generator, related: float, mean: float) -> Floats:
    """P-values of one series, uniform and then with another mean."""
    rows = 24 * AN_HOUR * (RIGHT_DAYS + OFF_DAYS)
    z, steps = np.empty(rows), np.sqrt(1 - related**2) * rng.normal(size=rows)
    last = rng.normal()
    for row in range(rows):
        last = z[row] = related * last + steps[row]
    p = np.asarray(special.ndtr(z))
    wrong = slice(24 * AN_HOUR * RIGHT_DAYS, None)
    p[wrong] = p[wrong] ** (1 / mean - 1)
    return p


def ours(p: Floats) -> list[int]:
    """Hours at which the check begins to report drift."""
    state, found, before = calibration_drift.begin(1), [], False
    for hour, mean in enumerate(p.reshape(-1, AN_HOUR).mean(axis=1)):
        state = calibration_drift.check(state, np.array([mean]), np.array([float(hour)]))
        off = bool(calibration_drift.is_off(state)[0])
        if off and not before:
            found.append(hour + 1)
        before = off
    return found


def adwin(delta: float, rows: int) -> Check:
    """Hours at which ADWIN, fed with means of so many rows, reports a change."""

    def check(p: Floats) -> list[int]:
        detector = ADWIN(delta=delta, clock=32 if rows == 1 else 1)  # type: ignore[no-untyped-call]
        found: list[int] = []
        for at, mean in enumerate(p.reshape(-1, rows).mean(axis=1).tolist()):
            detector.update(mean)  # type: ignore[no-untyped-call]
            if detector.drift_detected:
                found.append((at + 1) * rows // AN_HOUR)
        return found

    return check


CHECKS: dict[str, Check] = {
    "calibration_drift": ours,
    "ADWIN, rows": adwin(2e-3, 1),
    "ADWIN 1e-6, rows": adwin(1e-6, 1),
    "ADWIN, hours": adwin(2e-3, AN_HOUR),
    "ADWIN 1e-6, hours": adwin(1e-6, AN_HOUR),
}


def measure(check: Check, streams: list[Floats]) -> tuple[float, float, float]:
    """False alarms of a series in a year, the share of series that are seen to be off, and the median hours until then."""
    right = 24 * RIGHT_DAYS
    reported = [check(p) for p in streams]
    false = sum(hour <= right for hours in reported for hour in hours)
    seen = [min(hour for hour in hours if hour > right) - right for hours in reported if hours and hours[-1] > right]
    share = len(seen) / len(streams)
    return false / len(streams) / RIGHT_DAYS * 365, share, float(np.median(seen)) if seen else float("nan")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration_drift", description=__doc__)
    parser.add_argument("--series", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    rng, found = np.random.default_rng(chosen.seed), []
    for kind, related in KINDS.items():
        for mean in MEANS:
            streams = [stream(rng, related, mean) for _ in range(chosen.series)]
            for name, check in CHECKS.items():
                false, seen, hours = measure(check, streams)
                row = {"rows": kind, "mean": mean, "by": name, "false a year": false, "seen": seen, "hours": hours}
                found.append(row)
    if chosen.json:
        print(json.dumps(found, indent=1))
        return
    view = Table(*found[0])
    for row in found:
        view.add_row(*(value if isinstance(value, str) else f"{value:.3g}" for value in row.values()))
    Console().print(view)


if __name__ == "__main__":
    main()
