"""`python -m benchmarks.chaos --seed N [--minutes M] [--faults N]`: exit code 1 where anything differs."""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from app.core.settings import load
from benchmarks.chaos import __doc__ as about
from benchmarks.chaos.disks import may_mount
from benchmarks.chaos.experiment import ChaosPlan, run
from benchmarks.chaos.page import publish
from benchmarks.chaos.schedule import (
    BLIND_SHARE,
    EVERYTHING,
    FULL_DISKS,
    KILLS,
    LONGEST_BLIND_WAIT,
    MANY_KILLS,
    schedule,
)
from benchmarks.deployment import say

RESULTS = Path(__file__).parents[1] / "results"


def main() -> int:
    """Run, print, write. Answers the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chaos", description=about)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long faults come; the comparison takes longer")
    parser.add_argument("--faults", type=int, help="end after so many")
    parser.add_argument("--kills", action="store_true", help="SIGKILL alone")
    parser.add_argument("--many-kills", action="store_true", help="the same, most of them without a start of the JVM")
    parser.add_argument(
        "--longest-wait", type=float, default=LONGEST_BLIND_WAIT, help="the longest wait before a fault, s"
    )
    parser.add_argument(
        "--blind", type=float, default=BLIND_SHARE, help="the share of faults that do not look at the jobs"
    )
    parser.add_argument("--only", nargs="+", choices=sorted(EVERYTHING), metavar="FAULT", help="these kinds alone")
    parser.add_argument("--hosts", type=int, default=6)
    parser.add_argument("--longest", type=float, default=12.0, help="the longest usual time of a fault that lasts, s")
    parser.add_argument("--home", type=Path, help="a folder, which is wiped; default: bench-chaos in home")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout instead of the tables")
    parser.add_argument(
        "--publish",
        type=Path,
        nargs="+",
        metavar="REPORT",
        help="write the figures of reports into docs/reliability.md",
    )
    options = parser.parse_args()
    if options.publish:
        publish(options.publish)
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # what it has started ends with it
    base = load()
    home = (options.home or base.home / "bench-chaos").resolve()
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    kinds = chosen(options)
    disks = not FULL_DISKS.keys().isdisjoint(kinds)
    left_out = "" if not disks or may_mount(home) else "full disks: this process may not mount file systems"
    if left_out:
        disks, kinds = False, {kind: weight for kind, weight in kinds.items() if kind not in FULL_DISKS}
    plan = ChaosPlan(options.seed, 60.0 * options.minutes, options.faults, options.hosts, disks=disks)
    outcome = run(
        plan, schedule(options.seed, kinds, options.longest, options.blind, options.longest_wait), home, base.jars
    )
    outcome.left_out = left_out
    RESULTS.mkdir(exist_ok=True)
    out = RESULTS / f"chaos-{options.seed}-{datetime.now(tz=UTC).strftime('%Y%m%dT%H%M%SZ')}.json"
    out.write_text(json.dumps(outcome.record(), indent=2) + "\n")
    if options.json:
        print(json.dumps(outcome.record(), indent=2))
    else:
        outcome.show(Console(width=None if sys.stdout.isatty() else 130))
    say(f"written to {out}")
    return 0 if outcome.passed else 1


def chosen(options: argparse.Namespace) -> Mapping[str, int]:
    """Kinds of faults and their weights."""
    if options.only:
        return {kind: EVERYTHING[kind] for kind in options.only}
    return MANY_KILLS if options.many_kills else KILLS if options.kills else EVERYTHING


if __name__ == "__main__":
    sys.exit(main())
