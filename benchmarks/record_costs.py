"""What each of the records costs that are made to cost much: `python -m benchmarks.record_costs`.

Milliseconds of a core, from the bytes of a record to the rows that are summed. Ends with exit code 1 where one takes more than its
bound: 50, of many log lines 50 for each 128 KiB.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from app.core.settings import PROJECT, Settings
from app.runtime.spark import own_session

sys.path.insert(0, str(PROJECT / "tests"))

from support.attacks import ATTACKS
from support.costly_records import COSTLY
from support.poison import POISON, Poison
from support.record_costs import bound_ms, costs

COPIES, ROUNDS = 10, 4
SHOWN = 12  # of the attacks, those that cost most


def main() -> int:
    """Measure, print, and answer the exit code."""
    worst = 0.0  # of its bound
    settings = Settings(home=Path(tempfile.mkdtemp()), jar_folder=PROJECT / ".kappa" / "jars")
    with own_session(settings, "costs") as spark:
        for topic, costly in COSTLY.items():
            tried: list[tuple[str, list[Poison], int]] = [("", costly, len(costly))]
            tried.append(("attack: ", [a for a in (*POISON, *ATTACKS) if a.topic == topic], SHOWN))
            for word, records, shown in tried:
                found = costs(spark, topic, records, COPIES, ROUNDS)
                worst = max(worst, *(cost / bound_ms(each) for cost, each in zip(found, records, strict=True)))
                for cost, record in sorted(zip(found, records, strict=True), key=lambda pair: -pair[0])[:shown]:
                    print(
                        f"{topic:10} {word}{record.name:50} {len(record.value or b''):8} bytes {cost:8.2f} ms",
                        flush=True,
                    )
    return 0 if worst <= 1 else 1


if __name__ == "__main__":
    sys.exit(main())
