"""Functions for compiled code, called on arrays by a test."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numba
import numpy as np

from models.core.arrays import Floats


@cache
def _loop(function: Callable[..., Any], arguments: int) -> Callable[..., None]:
    if arguments:

        @numba.njit(error_model="numpy")  # type: ignore[untyped-decorator]
        def with_argument(x: Floats, argument: float, out: Floats) -> None:
            for j in range(len(x)):
                out[j] = function(x[j], argument)

        return with_argument  # type: ignore[no-any-return]

    @numba.njit(error_model="numpy")  # type: ignore[untyped-decorator]
    def alone(x: Floats, out: Floats) -> None:
        for j in range(len(x)):
            out[j] = function(x[j])

    return alone  # type: ignore[no-any-return]


def over(function: Callable[..., Any], x: Floats, *argument: float) -> Floats:
    """The function of every number, `(n,)`."""
    out = np.empty(len(x))
    _loop(function, len(argument))(x, *argument, out)
    return out
