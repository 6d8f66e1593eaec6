"""Types of numpy arrays by the type of their elements; shapes are given where they are used. What numpy does badly with texts."""

from __future__ import annotations

from collections.abc import Collection, Container
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Halves = NDArray[np.float16]
Counts = NDArray[np.uint16]
Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Bools = NDArray[np.bool_]
Texts = NDArray[np.object_]


def is_in(texts: Collection[str], known: Container[str]) -> Bools:
    """Whether each text is among the known ones, a set or what is as quick; `np.isin` compares each text with each."""
    return np.fromiter(map(known.__contains__, texts), dtype=np.bool_, count=len(texts))
