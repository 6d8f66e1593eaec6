"""The readers of flat records against Spark's functions, on records made from seeds: `python -m benchmarks.fuzz_readers --records 2000000`.

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

from support.reader_differences import READERS, fuzzed

BATCH = 20_000  # records of a seed


def main() -> int:
    """Fuzz until there are enough records; answers the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--seed", type=int, default=0, help="the first seed: the records of a seed are always the same")
    given = parser.parse_args()
    found, started = 0, time.monotonic()
    with (
        tempfile.TemporaryDirectory() as home,
        own_session(Settings(home=Path(home), jar_folder=PROJECT / ".kappa" / "jars"), "fuzz") as spark,
    ):
        for number in range(-(-given.records // BATCH)):
            topic = list(READERS)[number % len(READERS)]
            for difference in fuzzed(spark, topic, given.seed + number, BATCH):
                found += 1
                print(difference, flush=True)
            seconds = time.monotonic() - started
            print(f"{(number + 1) * BATCH} records in {seconds:.0f} s, {found} differences", flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
