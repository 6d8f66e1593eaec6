"""Compile the model of metrics, unless its machine code is there: `python -m models.detection`, a part of `make setup`.

It takes about a minute of a processor. Without it, the first batch of the first worker would wait so long.
"""

import numpy as np

from models.core.parameters import DetectorParameters
from models.core.windows import Windows
from models.detection.detector import ShardDetector


def main() -> None:
    """Step a shard of two metrics, of which one is absent from the second window."""
    detector, names = ShardDetector(DetectorParameters()), np.array(["gauge/a//x", "gauge/a//y"], dtype=object)
    for window, n in enumerate((2, 1), 1):
        zeros, none = np.zeros(n), np.full(n, None, dtype=object)
        rows = Windows(names[:n], np.ones(n, np.int64), zeros, zeros, zeros, zeros, zeros, none, none)
        detector.step(10_000 * window, rows)


if __name__ == "__main__":
    main()
