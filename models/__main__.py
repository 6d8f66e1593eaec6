"""Compile the models, unless their machine code is there: `python -m models`, a part of `make setup`.

It takes about a minute of a processor. Without it, the first batch of the first worker, or the first line of `kappa templates`, would wait so long.
"""

import numpy as np

from models.core.parameters import DetectorParameters
from models.core.windows import Windows
from models.detection import change_point
from models.detection.change_candidates import ChangeCandidates
from models.detection.change_point import CandidateRows, ChangeParameters
from models.detection.detector import ShardDetector
from models.templates.extraction import template_of


def main() -> None:
    """Step a shard of two metrics, of which one is absent from the second window, weigh a change, make a template of one line."""
    detector, names = ShardDetector(DetectorParameters()), np.array(["gauge/a//x", "gauge/a//y"], dtype=object)
    for window, n in enumerate((2, 1), 1):
        zeros, none = np.zeros(n), np.full(n, None, dtype=object)
        rows = Windows(names[:n], np.ones(n, np.int64), zeros, zeros, zeros, zeros, zeros, none, none)
        detector.step(10_000 * window, rows)
    candidates, zero, one, no = ChangeCandidates(), np.zeros(1), np.ones(1), np.zeros(1, bool)
    candidates.add(np.arange(1))
    row = CandidateRows(zero, zero, one, no, no, zero, 10_000.0, one, zero, 600_000.0, one, zero)
    change_point.step(candidates, np.arange(1), row, ChangeParameters())
    template_of("ERROR 12 lines")


if __name__ == "__main__":
    main()
