"""What is kept of metrics in single precision."""

import numpy as np

from models.core.store import SeriesTable
from models.detection import metric_rows as of


def test_what_is_rounded_off_is_dumped_to_the_bit() -> None:
    table = SeriesTable(of.COLUMNS, kinds=tuple(of.KINDS.values()))
    rng = np.random.default_rng(0)
    for name in "abc":
        table.add(name)
    table.matrix[:] = rng.gamma(2, 1000, table.matrix.shape)
    table.matrix[of.HOST_WINDOW] = [0, 7, 2**31]
    table.matrix[of.SEEN] = 1_767_571_200_000 + np.arange(3)
    of.round_off(table.matrix)
    loaded = SeriesTable(of.COLUMNS, kinds=tuple(of.KINDS.values()))
    loaded.load(table.names, table.dump())
    assert (loaded.matrix == table.matrix).all()
    assert loaded.dump() == table.dump()


def test_times_and_totals_keep_every_bit() -> None:
    exact = {"seen", "total", "host_window"}
    assert {name for name, kind in of.KINDS.items() if kind != "f4"} == exact
    s = np.full((len(of.COLUMNS), 1), 1_767_571_200_001.0)
    of.round_off(s)
    assert {name for name, value in zip(of.COLUMNS, s[:, 0], strict=True) if value == 1_767_571_200_001} == exact
