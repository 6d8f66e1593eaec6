"""What the univariate model keeps of each series: a hot part that every window changes, and a cold part.

Arrays have the series in the last axis. The cold part changes when a block or an hour of the series ends; it is
quantised in memory too, so a state that was dumped and loaded goes on to the bit. Bytes a series: see `test_univariate`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from models import rarity
from models.store import part, read_part

MEMBERS = ("log level", "step", "fast mean", "roughness", "rhythm", "local", "spread within")
LOG_LEVEL, STEP, FAST, ROUGH, RHYTHM, LOCAL, WITHIN = range(len(MEMBERS))
HEALTHY = (LOG_LEVEL, STEP, FAST, ROUGH, RHYTHM)  # members that the healthy state has a memory of
DIRECTED = {LOG_LEVEL: 7, FAST: 8, RHYTHM: 9}  # member -> its table of downward surprises; others have one for both
TABLES = len(MEMBERS) + len(DIRECTED)
EVER, WELL = len(MEMBERS), len(HEALTHY)
TAIL = 6  # counts of the calibration: see `calibration`

# name -> (type, length); hot columns, in the order in which they are dumped
HOT: dict[str, tuple[str, int]] = {
    "time": ("f8", 1),  # ms: the last row
    "block_time": ("f8", 1),  # ms: the block's first row
    "previous": ("f8", 1),  # the last value
    "fast": ("f8", 1),  # the fast mean
    "overall": ("f8", 1),  # the long-run mean
    "mean": ("f8", EVER),
    "well_mean": ("f8", WELL + 1),  # of HEALTHY, then of the value itself
    "sums": ("f4", EVER),
    "well_sums": ("f4", WELL + 1),
    "weight": ("f4", 1),
    "within_weight": ("f4", 1),
    "well_weight": ("f4", WELL + 1),
    "fast_weight": ("f4", 1),
    "rough": ("f4", 1),  # decayed sums: of absolute steps, rhythm residuals; long: absolute steps and values
    "residual": ("f4", 1),
    "rough_weight": ("f4", 1),
    "long_step": ("f4", 1),
    "long_size": ("f4", 1),
    "long_weight": ("f4", 1),
    "overall_weight": ("f4", 1),
    "hour_mean": ("f4", 1),  # of the hour of the day that is now, relative to the origin
    "hour_weight": ("f4", 1),
    "interval": ("f4", 1),  # seconds between rows, typically
    "tail": ("f4", TAIL),  # rows, and rows beyond each level of the calibration
    "well_tail": ("f4", TAIL),
    "rows": ("u4", 1),
    "blocks": ("u4", 1),
    "hour": ("i4", 1),  # hours since 1970
    "block_rows": ("u2", 1),
    "block_most": ("u1", TABLES),
    "hour_most": ("u1", TABLES),
    "well_most": ("u1", WELL),
}
COLD: dict[str, tuple[str, tuple[int, ...]]] = {
    "origin": ("f8", (1,)),  # the first value, that levels of hours are relative to
    "counts": ("f2", (TABLES, rarity.BINS)),
    "well_counts": ("f2", (WELL, rarity.BINS)),
    "ring": ("u1", (rarity.HOURS, TABLES, rarity.DAYS)),
    "rhythm": ("f4", (rarity.HOURS,)),
    "rhythm_weight": ("f2", (rarity.HOURS,)),
}
Array = NDArray[Any]


class UnivariateState:
    """The arrays of `HOT` and `COLD` for a number of series, by name, the series in the last axis."""

    def __init__(self, series: int = 0) -> None:
        self.series = series
        self.hot: dict[str, Array] = {k: np.zeros((size, series), kind) for k, (kind, size) in HOT.items()}
        self.cold: dict[str, Array] = {k: np.zeros((*shape, series), kind) for k, (kind, shape) in COLD.items()}
        self.cold["ring"].fill(rarity.EMPTY)
        self.pools = np.zeros((2, TAIL - 1, 0))  # chances of the pools: ever, well
        self.pools_at = -1  # the hour that they are of

    def grow(self, series: int) -> None:
        """Room for so many series; new ones know nothing."""
        if series < self.series:
            msg = f"{series} series; wanted at least {self.series}, as series keep their rows"
            raise ValueError(msg)
        fresh = UnivariateState(series - self.series)
        for mine, theirs in ((self.hot, fresh.hot), (self.cold, fresh.cold)):
            for name, array in mine.items():
                mine[name] = np.concatenate([array, theirs[name]], axis=-1)
        self.series = series

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Forget all series but those of `rows`, which move up in this order."""
        for arrays in (self.hot, self.cold):
            for name, array in arrays.items():
                arrays[name] = array[..., rows].copy()
        self.series = len(rows)

    def dump(self, *, cold: bool = True) -> dict[str, bytes]:
        """Parts by name: `hot`, and `cold` if asked for, each an Arrow batch with a row a series."""
        about = {"columns": list(HOT), "pools": self.pools.tolist(), "pools_at": self.pools_at}
        parts = {"hot": part({name: _rows(array) for name, array in self.hot.items()}, about)}
        if cold:
            arrays = dict(self.cold)
            ring = arrays.pop("ring")
            columns = {name: _rows(array) for name, array in arrays.items()}
            visits = (ring[:, 0] != rarity.EMPTY).sum(axis=1).astype(np.uint8)
            columns |= {"ring": _rows(rarity.pack(ring).T), "visits": _rows(visits)}
            parts["cold"] = part(columns, {"columns": list(COLD)})
        return parts

    @classmethod
    def load(cls, parts: Mapping[str, bytes]) -> UnivariateState:
        """The inverse of `dump`. Raises ValueError for other columns or another format."""
        state = cls()
        hot, about = read_part(parts["hot"])
        cold, about_cold = read_part(parts["cold"])
        for found, wanted in ((about["columns"], list(HOT)), (about_cold["columns"], list(COLD))):
            if found != wanted:
                msg = f"univariate state has columns {found}; wanted {wanted}"
                raise ValueError(msg)
        state.hot = {name: _array(hot[name], (size,), kind) for name, (kind, size) in HOT.items()}
        state.series = state.hot["time"].shape[-1]
        state.pools = np.array(about["pools"]).reshape(2, TAIL - 1, -1)
        state.pools_at = about["pools_at"]
        visits = _array(cold["visits"], (rarity.HOURS,), "u1")
        packed = _array(cold["ring"], (rarity.HOURS * TABLES * rarity.DAYS // 2,), "u1")
        others = {name: shape for name, (_, shape) in COLD.items() if name != "ring"}
        state.cold = {name: _array(cold[name], shape, COLD[name][0]) for name, shape in others.items()}
        state.cold["ring"] = rarity.unpack(np.ascontiguousarray(packed.T), TABLES, visits)
        return state


def _rows(array: Array) -> pa.Array:
    """A row a series: a list of fixed size."""
    flat = np.ascontiguousarray(np.moveaxis(array, -1, 0))
    size = int(np.prod(flat.shape[1:]))
    return pa.FixedSizeListArray.from_arrays(pa.array(flat.ravel()), size)


def _array(column: pa.Array, shape: tuple[int, ...], kind: str) -> Array:
    flat = column.flatten().to_numpy(zero_copy_only=False).astype(kind)
    return np.ascontiguousarray(np.moveaxis(flat.reshape(-1, *shape), 0, -1))
