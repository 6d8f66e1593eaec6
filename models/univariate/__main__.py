"""Compile the univariate model alone, unless its machine code is there: `python -m models.univariate`.

It takes under a minute of a processor. Without it, the first batch of the first worker would wait so long.
"""

import numpy as np

from models.univariate.model import Univariate
from models.univariate.parameters import UnivariateParameters


def main() -> None:
    """Step a model of one series."""
    model = Univariate(UnivariateParameters())
    model.state.grow(1)
    model.step(0, np.zeros(1, np.int64), np.ones(1, np.int64), np.zeros(1), np.zeros(1))


if __name__ == "__main__":
    main()
