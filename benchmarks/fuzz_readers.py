"""The readers of flat records against Spark's functions, on records made from seeds: `python -m benchmarks.fuzz_readers --records 2000000`.

A twentieth of the records are OpenTelemetry's protobuf, against its JSON, and damaged against the official decoder.

Prints each difference with its seed and the shortest record that shows it, and ends with exit code 1 if there is one.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from app.core.settings import PROJECT, Settings
from app.runtime.spark import own_session

sys.path.insert(0, str(PROJECT / "tests"))

from support.otlp_differences import unlike_json, unlike_official
from support.reader_differences import READERS, fuzzed

BATCH = 20_000  # records of a seed


def main() -> int:
    """Fuzz until there are enough records; answers the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--seed", type=int, default=0, help="the first seed: the records of a seed are always the same")
    parser.add_argument("--others", type=float, default=0.06, help="the share of records that are not flat")
    given = parser.parse_args()
    found, started = 0, time.monotonic()
    with (
        tempfile.TemporaryDirectory() as home,
        own_session(Settings(home=Path(home), jar_folder=PROJECT / ".kappa" / "jars"), "fuzz") as spark,
    ):
        for number in range(-(-given.records // BATCH)):
            topic = list(READERS)[number % len(READERS)]
            seed = given.seed + number
            differences = fuzzed(spark, topic, seed, BATCH, given.others)
            for unlike in (unlike_json, unlike_official):
                differences += unlike(spark, topic, seed, BATCH // 40)[0]
            for difference in differences:
                found += 1
                print(difference, flush=True)
            seconds = time.monotonic() - started
            print(f"{(number + 1) * BATCH} records in {seconds:.0f} s, {found} differences", flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
