"""Copies keep their labels, bootstraps are pairs, and what is chosen for a collection never saw that collection."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import left_out, trials
from benchmarks.ablation import verdict
from benchmarks.cases import COLLECTIONS, COPIES, Case, whole
from benchmarks.judgement import ResampledFigure, resampled
from benchmarks.left_out import choose, chosen_before
from benchmarks.naive import largest_z, never, pca_residual, random, seasonal, sum_of_squares, three_sigma
from benchmarks.together import TableAnswers, TimedTable

FOLDERS_OF_MODEL = ("models.core", "models.stats", "models.univariate", "benchmarks.numpy_form")
BEGIN, MINUTE, DAY_ROWS = 1_700_006_400_000.0, 60_000.0, 288


def case(rows: int, metrics: int = 1, taught: int = 0) -> Case:
    values = np.random.default_rng(1).normal(10.0, 1.0, (rows, metrics))
    times = np.asarray(BEGIN + 5 * MINUTE * np.arange(rows), dtype=np.float64)
    return whole(TimedTable("a", 300.0, times, values, host=metrics > 1), taught)


@pytest.mark.parametrize("copy", COPIES)
@pytest.mark.parametrize("metrics", [1, 3])
def test_answers_of_a_copy_are_put_back_onto_the_rows_of_the_original(copy: str, metrics: int) -> None:
    original = case(100, metrics, taught=20)
    changed = COPIES[copy](original)
    found = changed.scores(TableAnswers(changed.kept.astype(np.float64), [], np.zeros(len(changed.kept), np.int64)))
    assert len(found) == 80
    rows = np.arange(20.0, 100.0)
    known = np.isfinite(found)
    if metrics == 1:
        assert np.array_equal(found[known], rows[known])
        assert np.array_equal(known, np.isin(rows, changed.kept))
    else:
        assert known.all()
        assert ((rows - found >= 0) & (rows - found < 5)).all()
    assert len(changed.kept) == len(changed.table.times) == len(changed.table.values)


def test_a_change_in_a_copy_counts_from_its_row_in_the_original() -> None:
    every_second = COPIES["every second row"](case(100))
    since = [int(every_second.table.times[9])]
    assert every_second.changes(TableAnswers(np.zeros(50), since, np.zeros(50, np.int64))) == [20]


def test_each_copy_is_another_series() -> None:
    original = case(100)
    for copy in COPIES.values():
        one = copy(original).table
        same = len(one.times) == 100 and np.array_equal(one.times, original.table.times)
        assert not (same and np.array_equal(one.values, original.table.values))


def test_draws_of_two_configurations_are_pairs() -> None:
    blocks = np.random.default_rng(2).random(40)
    one, two = (resampled(lambda draw, up=up: float(np.mean(blocks[draw(40)]) + up)) for up in (0.0, 0.1))  # type: ignore[misc]
    better, spread = two.difference(one)
    assert better == pytest.approx(0.1)
    assert spread < 1e-9 < np.std(one.drawn)
    assert np.std(one.drawn) == pytest.approx(np.std(blocks) / np.sqrt(40), rel=0.3)


def test_a_part_stays_where_two_collections_are_worse_without_it_by_more_than_the_spread() -> None:
    assert verdict({"nab": (0.02, 0.01), "wsd": (0.03, 0.01), "smd": (-0.01, 0.02)}) == "stays"
    assert verdict({"nab": (0.02, 0.01), "wsd": (0.03, 0.04)}) == "goes"
    assert verdict({"nab": (0.0, 0.0), "wsd": (-0.03, 0.01)}) == "goes, better without in wsd"


def test_what_is_chosen_for_a_collection_never_saw_it() -> None:
    figures = {
        "{}": {"a": 0.5, "b": 0.5, "c": 0.5},
        '{"x": 1}': {"a": 0.9, "b": 0.45, "c": 0.5},
        '{"x": 2}': {"b": 0.52},
    }
    found = choose(figures)
    assert found["a"].configuration == {"x": 2}
    assert found["b"].configuration == found["c"].configuration == {"x": 1}
    figures['{"x": 1}']["a"] = 0.1
    assert choose(figures)["a"] == found["a"]
    assert choose(figures)["c"].configuration == {"x": 2}
    assert choose({"{}": {"a": 0.5, "b": 0.5}, '{"x": 1}': {"a": 0.5}})["b"].configuration == {}


def test_a_search_of_other_code_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "left_out.json"
    assert chosen_before(path)[0] == {}
    about = {"source": trials.source_hash(), "date": "2024-01-01", "chosen": {"nab": {"configuration": {"x": 1}}}}
    path.write_text(json.dumps(about))
    chosen, words = chosen_before(path)
    assert chosen == {"nab": {"x": 1}}
    assert "2024-01-01" in words
    path.write_text(json.dumps(about | {"source": "other"}))
    chosen, words = chosen_before(path)
    assert chosen == {}
    assert "other code" in words


def test_a_judgement_is_read_as_it_was_kept(tmp_path: Path) -> None:
    found = ResampledFigure(0.25, np.array([0.2, 0.3]))
    path = tmp_path / f"{trials.key_of('nab', {'x': 1})}.json"
    trials.write(path, "nab", {"x": 1}, found, 1.0)
    again = trials.known("nab", {"x": 1}, tmp_path)
    assert again is not None
    assert again.figure == found.figure
    assert np.array_equal(again.drawn, found.drawn)
    assert trials.known("nab", {"x": 2}, tmp_path) is None


def test_the_hash_of_the_code_covers_all_that_the_model_of_metrics_is_made_of() -> None:
    hashed = set(trials.hashed_files())
    assert {path.stem for path in hashed} >= {name for names in trials.SCORING.values() for name in names} - {"*"}
    without_figures = {"arrays", "store"}  # names of types; how a state is saved
    for path in hashed:
        if path.parent.name in ("univariate", "numpy_form", "stats"):
            for module in imported_modules(path) - without_figures:
                assert any(one.stem == module for one in hashed), f"{path.name} uses {module}"


def imported_modules(path: Path) -> set[str]:
    """Names of the modules of the univariate model, its statistics and its foundations that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            of, _, last = node.module.rpartition(".")
            if of in FOLDERS_OF_MODEL:
                found.add(last)
            elif node.module in FOLDERS_OF_MODEL:
                found |= {one.name for one in node.names}
    return found


def test_alternatives_name_their_collections() -> None:
    assert all(set(names) <= set(COLLECTIONS) for _, names in left_out.TUNABLE)


def test_baselines_find_what_is_far_off_by_what_was_before_it() -> None:
    quiet = case(5 * DAY_ROWS)
    quiet.table.values[4 * DAY_ROWS + 7] += 60
    for score in (three_sigma, seasonal):
        found = score(quiet)
        assert np.nanargmax(found) == 4 * DAY_ROWS + 7
        assert found[4 * DAY_ROWS + 7] > 1
        assert np.nanmean(found > 1) < 0.01
        cut = Case(
            "a",
            TimedTable("a", 300.0, quiet.table.times[:900], quiet.table.values[:900], host=False),
            quiet.kept[:900],
            (0, 900),
        )
        assert np.array_equal(score(cut), found[:900], equal_nan=True)
    assert np.isnan(never(quiet)).all()
    assert 0 < np.mean(random(case(20_000)) > 1) < 0.01


def test_baselines_of_hosts_know_the_train_part_alone() -> None:
    host = case(1200, metrics=4, taught=1000)
    host.table.values[:, 1:3] += 9 * (host.table.values[:, :1] - 10)
    host.table.values[1100, 2] += 80
    for score in (sum_of_squares, largest_z, pca_residual):
        found = score(host)
        assert len(found) == 200
        assert found.argmax() == 100
        assert found[100] > 1
        assert np.mean(found > 1) < 0.05


def test_means_of_two_rows_are_at_the_second_and_take_what_is_there() -> None:
    values = np.array([[1.0, np.nan], [3.0, 4.0], [5.0, np.nan], [7.0, np.nan], [9.0, 1.0]])
    original = whole(
        TimedTable("a", 300.0, np.asarray(BEGIN + 5 * MINUTE * np.arange(5), dtype=np.float64), values, host=True), 2
    )
    copy = COPIES["means of two"](original)
    assert copy.kept.tolist() == [1, 3]
    assert np.array_equal(copy.table.values, [[2.0, 4.0], [6.0, np.nan]], equal_nan=True)
    assert copy.table.period == 600.0
