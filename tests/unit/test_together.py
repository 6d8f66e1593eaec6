"""Tables that share a detector get the answers that each gets alone, to the bit; what an experiment changes is undone after it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.cases import table_of, whole
from benchmarks.collections import BenchmarkSeries
from benchmarks.configuration import applied
from benchmarks.together import HOUR_MS, WEEK_MS, TableAnswers, TimedTable, answers_of, common_windows, shift
from models.core.arrays import Floats
from models.core.parameters import DetectorParameters
from models.detection.table_score import TableScorer, make_increasing
from models.univariate.parameters import UnivariateParameters

BEGIN, MINUTE = 1_700_006_400_000.0, 60_000.0


def alone(table: TimedTable) -> TableAnswers:
    """The answers row by row, as `kappa score` has them."""
    p = replace(DetectorParameters(), window_seconds=table.period)
    scorer = TableScorer([f"m{k:04d}" for k in range(table.values.shape[1])], p, host=table.host)
    rows = [scorer.step(int(at), x) for at, x in zip(table.times, table.values, strict=True)]
    changes = [row.since for row in rows if row.novelty and row.kind == "change"]
    scores = np.array([row.anomaly_score for row in rows])
    return TableAnswers(scores, changes, np.array([int(row.novelty) for row in rows]))


def every(minutes: float, rows: int) -> Floats:
    return np.asarray(BEGIN + minutes * MINUTE * np.arange(rows), dtype=np.float64)


def wave(rng: np.random.Generator, rows: int, level: float) -> Floats:
    values = level + np.sin(np.arange(rows) / 40) + rng.normal(0, 0.3, rows)
    values[int(0.7 * rows) : int(0.7 * rows) + 12] += 9 * level
    values[int(0.85 * rows) :] += 3 * level
    return values


def curves() -> list[TimedTable]:
    """Curves of other dates, phases and distances, with gaps, repeated times and missing values; one of them has a new level."""
    rng, rows = np.random.default_rng(3), 320
    steady = every(5, rows)
    late = steady - 40 * WEEK_MS + 77 * MINUTE
    gaps = np.delete(every(5, rows + 60) + 3 * MINUTE, slice(150, 210))
    gaps[200:] += 2 * MINUTE + 11
    repeated = steady + 3 * WEEK_MS
    repeated[90:102] -= 60 * MINUTE
    times = [steady, late, gaps, make_increasing(repeated), every(30, rows)]
    tables = [
        TimedTable(f"curve {i}", 1800.0 if i == 4 else 300.0, at, wave(rng, rows, 1.0 + i)[:, None], host=False)
        for i, at in enumerate(times)
    ]
    tables[0].values[100:104] = np.nan
    changed = rng.normal(10.0, 1.0, rows)
    changed[rows // 2 :] += 2.0
    return [*tables, TimedTable("changed", 300.0, steady, changed[:, None], host=False)]


def hosts() -> list[TimedTable]:
    rng, rows = np.random.default_rng(4), 260
    tables = []
    for i in range(2):
        values = np.stack([wave(rng, rows, 2.0 + k) for k in range(3)], axis=1)
        values[120 + i : 125, i] = np.nan
        values[60] = np.nan
        tables.append(TimedTable(f"host {i}", 60.0, every(1, rows) + i * WEEK_MS, values, host=True))
    return tables


@pytest.mark.parametrize("tables", [curves(), hosts()], ids=["curves", "hosts"])
def test_tables_together_have_the_answers_of_each_alone(tables: list[TimedTable]) -> None:
    together = answers_of(tables, DetectorParameters())
    for table, found in zip(tables, together, strict=True):
        wanted = alone(table)
        np.testing.assert_array_equal(found.score, wanted.score)
        assert found.changes == wanted.changes
        np.testing.assert_array_equal(found.alerts, wanted.alerts)
    assert any(np.nanmax(one.score) > 20 for one in together)
    assert tables[0].host or any(one.changes for one in together)


def test_a_shift_keeps_hours_and_weekdays_and_puts_rows_onto_one_raster() -> None:
    tables = [table for table in curves() if table.period == 300]
    shifted = [table.times - shift(table.times, 300.0, BEGIN) for table in tables]
    for table, moved in zip(tables, shifted, strict=True):
        assert np.array_equal(moved // HOUR_MS % 168, table.times // HOUR_MS % 168)
        assert abs(moved[0] - BEGIN) <= WEEK_MS / 2 + 5 * MINUTE
        assert np.array_equal(np.diff(moved), np.diff(table.times))
    assert (shifted[1] % (5 * MINUTE) == 0).all()


def test_rows_of_the_same_time_are_one_window() -> None:
    found = list(common_windows([np.array([1.0, 3.0]), np.array([2.0, 3.0, 4.0])]))
    assert found == [(1, [(0, 0)]), (2, [(1, 0)]), (3, [(0, 1), (1, 1)]), (4, [(1, 2)])]


def test_what_an_experiment_changes_is_used_and_undone() -> None:
    table = curves()[0]
    shipped = answers_of([table], DetectorParameters())[0].score
    for changed in ({"univariate.norm": 2.0}, {"without": "fast mean"}, {"benchmarks.numpy_form.model:BODY": 0.3}):
        with applied(changed) as (p, _):
            other = answers_of([table], p)[0].score
        assert not np.array_equal(other, shipped, equal_nan=True)
        assert np.array_equal(answers_of([table], DetectorParameters())[0].score, shipped, equal_nan=True)


def test_a_parameter_that_does_not_exist_is_refused() -> None:
    for name in ("univariate.sigma", "other.norm", "norm", "univariate.warm_up_minutes"):
        with pytest.raises(ValueError, match="wanted"), applied({name: 1.0}):
            pass
    with pytest.raises(AttributeError), applied({"models.univariate.model:NOTHING": 1.0}):
        pass
    assert UnivariateParameters().norm == 3.0


def test_a_change_counts_from_its_first_row() -> None:
    case = whole(table_of(BenchmarkSeries("a", np.array([1.0, 2.0, 3.0, 4.0]), np.zeros(4))))
    assert case.changes(TableAnswers(np.zeros(4), [2, 2, 0, 4], np.zeros(4, np.int64))) == [2]
