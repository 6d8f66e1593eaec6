"""State of the univariate model, for each series: a hot part that every window changes, and a cold part.

Arrays have the series in the last axis. The cold part changes when an hour of the series ends; it is
quantised in memory too, so a state that was dumped and loaded goes on to the bit. It takes less than 1,560 bytes a series.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from models.core.arrays import Array, Bytes, Ints
from models.core.store import read_numbers, read_part, write_numbers
from models.stats import calibration_drift, normal_gamma, per_series_calibration, rarity
from models.univariate import weekly

FEATURES = ("log level", "step", "fast mean", "roughness", "rhythm", "local", "spread within")
LOG_LEVEL, STEP, FAST, ROUGH, RHYTHM, LOCAL, WITHIN = range(len(FEATURES))
ROBUST_FEATURES = (LOG_LEVEL, STEP, FAST, ROUGH, RHYTHM)  # features of the robust memory
DIRECTED = {
    LOG_LEVEL: 7,
    FAST: 8,
    RHYTHM: 9,
}  # feature -> its table of downward surprises; others have one for both directions
N_TABLES = len(FEATURES) + len(DIRECTED)
N_FEATURES, N_ROBUST = len(FEATURES), len(ROBUST_FEATURES)
VALUE = N_ROBUST  # place of the value itself in the robust memory, after its features

# name -> (type, length); hot columns, in the order in which they are dumped
HOT: dict[str, tuple[str, int]] = {
    "time": ("f8", 1),  # ms: the last row
    "previous": ("f8", 1),  # the last value, as features saw it
    "fast": ("f8", 1),  # the fast mean
    "overall": ("f8", 1),  # the long-run mean
    "mean": ("f8", N_FEATURES),
    "robust_mean": ("f8", N_ROBUST + 1),  # of ROBUST_FEATURES, then of the value itself
    "sums": ("f4", N_FEATURES),
    "robust_sums": ("f4", N_ROBUST + 1),
    "weight": ("f4", 1),
    "within_weight": ("f4", 1),
    "robust_weight": ("f4", N_ROBUST + 1),
    "fast_weight": ("f4", 1),
    "rough": ("f4", 1),  # decayed sums of absolute steps; long: absolute steps and values
    "rough_weight": ("f4", 1),
    "long_step": ("f4", 1),
    "long_size": ("f4", 1),
    "long_weight": ("f4", 1),
    "overall_weight": ("f4", 1),
    "quantum": ("f4", 1),  # the least step between values; 0 before the first one, negative before the second
    "hour_mean": ("f4", 1),  # of the hour of the day that is now, relative to the first value
    "hour_weight": ("f4", 1),
    "interval": ("f4", 1),  # seconds between rows, typically
    "quantiles": ("f4", len(per_series_calibration.CHANCES)),  # nats that answers exceed with these chances
    "tail": ("f4", 2),  # excesses over the last level, and their sum
    "excesses": ("u1", 1),  # of the hour, and half of those before
    "block_chance": ("f4", 1),  # sum of the block's probabilities
    "rows": ("u4", 1),
    "block_rows": ("u2", 1),
    "block_farthest": ("u1", 1),  # grade of the greatest distance from the typical value: see `farthest`
    "earlier": ("f4", 1),  # the value before the previous one, relative to the first
    "block_lasting": ("f4", 2),  # those of the block, where they are beyond `lasting`, else infinite
    "block_most": ("u1", N_TABLES),
    "hour_most": ("u1", N_TABLES),
    "robust_most": ("u1", N_ROBUST),
}
COLD: dict[str, tuple[str, tuple[int, ...]]] = {
    "blocks": ("u4", (1,)),  # that have ended
    "farthest": ("u1", (1,)),  # grade of the greatest distance in blocks that have ended
    "lasting": ("f4", (2,)),  # lowest and highest level that lasted in blocks that have ended, from the first value
    "checked": ("f2", (3,)),  # check of the calibration: see `calibration_drift`
    "first_value": ("f8", (1,)),  # the first value, that levels of hours are relative to
    "counts": ("u2", (N_TABLES, rarity.BINS)),
    "robust_counts": ("u2", (N_ROBUST, rarity.BINS)),
    "robust_before": ("u1", (N_ROBUST,)),  # bins of the last block, of an event that goes on the greatest: see `rarity`
    "ring": ("u1", (rarity.HOURS, N_TABLES, rarity.DAYS)),
    "rhythm": ("f4", (rarity.HOURS,)),
    "rhythm_weight": ("f2", (rarity.HOURS,)),
    "week": ("u2", (weekly.SLOTS,)),  # offsets of the week's slots from the hours of the day: see `weekly`
    "week_fit": ("f4", (3,)),
    "week_now": ("f4", (2,)),
}
COUNTS = {"counts": N_TABLES, "robust_counts": N_ROBUST}
MOST = {
    "block_most": N_TABLES,
    "hour_most": N_TABLES,
    "robust_most": N_ROBUST,
}  # bins, of which a dump has two in a byte
# Features whose means stand where the values do, which may be far from 0 and close together. Means of others are single.
PRECISE = {"mean": [LOG_LEVEL, FAST], "robust_mean": [LOG_LEVEL, FAST, N_ROBUST]}
SINGLE = {name: [m for m in range(HOT[name][1]) if m not in precise] for name, precise in PRECISE.items()}
# What a part has of each series, by column: a type and how many numbers. The ring is packed, `visits` tells its empty places.
PARTS: dict[str, dict[str, tuple[str, int]]] = {
    "hot": {
        **{name: column for name, column in HOT.items() if name not in MOST and name not in PRECISE},
        **{name: ("f8", len(chosen)) for name, chosen in PRECISE.items()},
        **{f"single_{name}": ("f4", len(chosen)) for name, chosen in SINGLE.items()},
        "most": ("u1", (sum(MOST.values()) + 1) // 2),
    },
    "cold": {
        **{name: (kind, prod(shape)) for name, (kind, shape) in COLD.items() if name not in (*COUNTS, "ring")},
        "counted": ("u2", 1),  # blocks: all of them are in the first bin
        **{name: ("u2", tables * (rarity.BINS - 1)) for name, tables in COUNTS.items()},
        "ring": ("u1", rarity.HOURS * N_TABLES * rarity.DAYS // 2),
        "visits": ("u1", rarity.HOURS // 2),
    },
}


class UnivariateState:
    """The arrays of `HOT` and `COLD` for a number of series, by name, the series in the last axis.

    `layout` counts how often series have come or gone, `cold_changed` says whether the cold part has changed since the last
    dump.
    """

    def __init__(self, series: int = 0) -> None:
        self.series, self.layout, self.cold_changed = series, 0, True
        self.hot: dict[str, Array] = {k: np.zeros((size, series), kind) for k, (kind, size) in HOT.items()}
        self.cold: dict[str, Array] = {k: np.zeros((*shape, series), kind) for k, (kind, shape) in COLD.items()}
        self.cold["ring"].fill(rarity.EMPTY)
        self.cold["week"].fill(weekly.UNSEEN)

    def grow(self, series: int) -> None:
        """Make room for `series` series in all; new ones are empty. Raises ValueError for fewer than there are."""
        if series < self.series:
            msg = f"{series} series; wanted at least {self.series}, as series keep their rows"
            raise ValueError(msg)
        if series == self.series:
            return
        fresh = UnivariateState(series - self.series)
        for mine, theirs in ((self.hot, fresh.hot), (self.cold, fresh.cold)):
            for name, array in mine.items():
                mine[name] = np.concatenate([array, theirs[name]], axis=-1)
        self._rearranged(series)

    def keep(self, rows: Ints) -> None:
        """Forget all series but those of `rows`, which move up in this order."""
        for arrays in (self.hot, self.cold):
            for name, array in arrays.items():
                arrays[name] = array[..., rows].copy()
        self._rearranged(len(rows))

    def copied(self, rows: Ints) -> dict[str, Array]:
        """Copies of all columns of some series, for `put_back`."""
        return {name: array[..., rows].copy() for name, array in (self.hot | self.cold).items()}

    def put_back(self, rows: Ints, copied: Mapping[str, Array]) -> None:
        """Restore series as they were when they were `copied`.

        What is derived from the state has to be read again: see `RarityTables.read_again`.
        """
        for name, array in (self.hot | self.cold).items():
            array[..., rows] = copied[name]
        self.cold_changed = True

    def forget(self, rows: Ints) -> None:
        """Make these series empty, as new ones are."""
        self.put_back(rows, UnivariateState(len(rows)).copied(np.arange(len(rows))))
        self._rearranged(self.series)

    def _rearranged(self, series: int) -> None:
        self.series, self.cold_changed = series, True
        self.layout += 1

    def dump(self, *, only_changed: bool = False) -> dict[str, bytes]:
        """Save all series: parts by name, each an Arrow IPC batch with a row for each series.

        With `only_changed`, `cold` is left out if it has not changed since the last dump.
        """
        most = rarity.pack_nibbles(np.concatenate([self.hot[name] for name in MOST]))
        means = {name: self.hot[name][chosen] for name, chosen in PRECISE.items()}
        means |= {f"single_{name}": self.hot[name][chosen] for name, chosen in SINGLE.items()}
        parts = {"hot": part_of("hot", {**self.hot, **means, "most": most})}
        if self.cold_changed or not only_changed:
            ring = self.cold["ring"]
            visits = (ring[:, 0] != rarity.EMPTY).sum(axis=1).astype(np.uint8)
            packed = {
                "ring": rarity.pack(ring),
                "visits": rarity.pack_nibbles(visits),
                "counted": self.cold["counts"][0, 0],
            }
            packed |= {name: self.cold[name][:, 1:] for name in COUNTS}
            parts["cold"] = part_of("cold", {**self.cold, **packed})
        self.cold_changed = False
        return parts

    @classmethod
    def load(cls, parts: Mapping[str, bytes]) -> UnivariateState:
        """The inverse of `dump`. Raises ValueError for other columns or another format."""
        state = cls()
        hot, cold = columns_of("hot", parts["hot"]), columns_of("cold", parts["cold"])
        state.hot = {name: hot[name] for name in HOT if name not in MOST and name not in PRECISE}
        state._load_means(hot)
        state._load_most(hot["most"])
        state.series, state.cold_changed = state.hot["time"].shape[-1], False
        state._load_cold(cold)
        return state

    def _load_cold(self, cold: Mapping[str, Array]) -> None:
        others = {name: shape for name, (_, shape) in COLD.items() if name not in (*COUNTS, "ring")}
        self.cold = {name: cold[name].reshape(*shape, self.series) for name, shape in others.items()}
        for name, tables in COUNTS.items():
            first = np.broadcast_to(cold["counted"], (tables, 1, self.series))
            rest = cold[name].reshape(tables, rarity.BINS - 1, self.series)
            self.cold[name] = np.concatenate([first, rest], axis=1)
        self.cold["ring"] = rarity.unpack(cold["ring"], N_TABLES, rarity.unpack_nibbles(cold["visits"], rarity.HOURS))

    def _load_means(self, hot: Mapping[str, Array]) -> None:
        for name, chosen in PRECISE.items():
            self.hot[name] = np.empty((HOT[name][1], hot[name].shape[-1]))
            self.hot[name][chosen] = hot[name]
            self.hot[name][SINGLE[name]] = hot[f"single_{name}"]

    def _load_most(self, packed: Bytes) -> None:
        bins, at = rarity.unpack_nibbles(packed, sum(MOST.values())), 0
        for name, size in MOST.items():
            self.hot[name] = bins[at : at + size].copy()
            at += size

    def describe_state(self, row: int) -> dict[str, Any]:
        """The state of one series, for people.

        Returns
        -------
        Hot columns with one number, by name; `weekly_share`; `calibration_drift` with its evidence `too_sure_nats` and `too_wary_nats`; and
        under `ever` and `healthy` (the robust memory) the `mean` and `spread` of each feature.
        """
        hot = self.hot
        found: dict[str, Any] = {name: hot[name][0, row].item() for name, (_, size) in HOT.items() if size == 1}
        healthy = (*(FEATURES[m] for m in ROBUST_FEATURES), "value")
        checked = self.cold["checked"][:, [row]]
        found["weekly_share"] = float(weekly.share(self.cold["week_fit"][:, [row]])[0])
        found["calibration_drift"] = bool(calibration_drift.is_off(checked)[0])
        found["too_sure_nats"], found["too_wary_nats"] = checked[: calibration_drift.VARIANCE, 0].tolist()
        for title, names, prefix in (("ever", FEATURES, ""), ("healthy", healthy, "robust_")):
            mean, sums, weight = (hot[f"{prefix}{name}"][:, row] for name in ("mean", "sums", "weight"))
            weights = np.broadcast_to(weight, mean.shape).copy()
            if not prefix:
                weights[WITHIN] = found["within_weight"]
            spread = np.sqrt(sums / np.maximum(weights, normal_gamma.TINY))
            columns = zip(names, mean.tolist(), spread.tolist(), strict=True)
            found[title] = {name: {"mean": centre, "spread": width} for name, centre, width in columns}
        return found


def part_of(name: str, arrays: Mapping[str, Array]) -> bytes:
    """A part from arrays, `(..., series)`."""
    columns = PARTS[name].items()
    return write_numbers({k: arrays[k].reshape(size, -1).astype(kind, copy=False) for k, (kind, size) in columns})


def columns_of(name: str, data: bytes) -> dict[str, Array]:
    """The inverse of `part_of`, `(size, series)` each. Raises ValueError for other columns or another format."""
    arrays, about = read_part(data)
    found, wanted = about.get("columns"), list(PARTS[name])
    if found != wanted:
        msg = f"univariate state has columns {found}; wanted {wanted}"
        raise ValueError(msg)
    return {column: np.atleast_2d(numbers) for column, numbers in read_numbers(arrays, about).items()}
