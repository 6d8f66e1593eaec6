"""The compiled step of a shard's metrics around the univariate model: against the same step in numpy, from the same tables, window after window."""

from typing import Any

import numpy as np
import pytest
from support import numpy_metrics as reference

from models.core.parameters import DetectorParameters
from models.core.windows import Windows
from models.detection import compiled_metrics as step
from models.detection import gauge_columns as col
from models.detection import host_columns as hosts_col
from models.detection.detector import ShardDetector
from models.detection.gauge_detector import LONGER

START, SECONDS = 1_767_571_200_000.0, 60.0
METRICS, HOSTS, COUNTERS, ROOM = 60, 4, 15, 64
HALF_LIFE, HALF_LIVES = 3_600_000.0, (7200.0, 86_400.0)
THRESHOLDS = np.empty(7)
THRESHOLDS[[step.ALERT_NATS, step.WINDOW_SECONDS, step.CONFIRM_NATS, step.CONFIRM_SECONDS]] = 6.0, SECONDS, 3.0, 150.0
THRESHOLDS[[step.STUCK_NATS, step.REACH, step.OPEN_SCALES]] = 9.0, 4.0, 2.5
Floats = np.ndarray


def alike(ours: Floats, theirs: Floats) -> None:
    """Equal, but for what the last bit of an exponential or a logarithm may become in single precision."""
    np.testing.assert_allclose(ours, theirs, rtol=3e-7, atol=1e-300, equal_nan=True)


def what_came(rng: np.random.Generator, k: int) -> tuple[Floats, Floats]:
    """Rows of a window, sorted, and what they have: noise, repeats, idle values, missing and huge ones, counters with resets."""
    rows = np.flatnonzero(rng.random(METRICS) < 0.9)
    x = np.where(rows % 4 == 1, 7.0 * (k > 5), np.round(rng.normal(3, 2, len(rows)), 1))
    x[rng.random(len(rows)) < 0.03] = np.nan
    x[rng.random(len(rows)) < 0.03] = -1e160
    given = np.array([rng.integers(1, 9, len(rows)), x, rng.random(len(rows)), 100.0 * k + rows])
    given[step.SQUARES, rng.random(len(rows)) < 0.1] = rng.choice([np.nan, np.inf])
    given[step.LAST, rng.random(len(rows)) < 0.1] = 3.0
    return rows, given


def model(rng: np.random.Generator, known: Floats, k: int) -> tuple[Floats, ...]:
    """What a model could answer: score, base, health, dominant feature, typical, lower, upper."""
    n, warming = len(known), (known % 7 == 0) & (k < 60)
    base = np.where(rng.random(n) < 0.3, rng.gamma(3, 3, n), 1.0) + 9.0 * ((known % 9 == 0) & (k % 20 > 14))
    typical, width = rng.normal(3, 1, n), rng.choice([0.0, 0.5, 2.0], n)
    found = [base - 0.1, base, base / 2, rng.integers(0, 7, n) * 1.0, typical, typical - width, typical + width]
    for numbers in found[:3] + found[4:]:
        numbers[warming] = np.nan
    return tuple(found)


@pytest.mark.parametrize("seed", [1, 2])
def test_windows_of_metrics_are_found_and_learnt_as_in_numpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    gauges, owners = np.zeros((len(col.COLUMNS), ROOM)), np.zeros((2, ROOM), np.int64)
    owners[0, :METRICS] = np.sort(rng.integers(0, HOSTS, METRICS))
    gauges[col.SEEN], gauges[col.TOTAL] = START - 1000 * SECONDS, np.nan
    hot = (
        np.zeros((1, METRICS)),
        np.zeros((1, METRICS), np.uint32),
        rng.choice([60.0, 90.0, 600.0], (1, METRICS)).astype("f4"),
    )
    windows, now, quiets, strong = np.zeros(8), START, [], 0
    for k in range(200):
        now += 1000.0 * SECONDS * (1 + 30 * (k % 50 == 49))
        windows[:HOSTS] += 1 + rng.integers(0, 2, HOSTS)
        rows, given = what_came(rng, k)
        counters, n = int(np.searchsorted(rows, COUNTERS)), len(rows)
        s = gauges[:, rows]
        with np.errstate(all="ignore"):
            x = reference.values(
                s, windows[owners[0, rows]], given, counters, now, HALF_LIFE, hot[2][0, rows].astype(float)
            )
            seen = s[col.SEEN].copy()

            found, known = np.empty((step.FOUND, n)), np.empty(n, np.int64)
            size = step.find_values(gauges, windows, owners, hot, rows, counters, given, now, HALF_LIFE, found, known)
            known = known[:size]
            assert np.array_equal(known, np.flatnonzero(np.abs(x) < step.LARGEST))
            np.testing.assert_array_equal(found[step.VALUE], x)
            np.testing.assert_array_equal(found[step.LAST_SEEN], seen)
            assert (given[step.POINTS, :counters] == 1).all()
            assert np.isfinite(given[step.SQUARES]).all()
            assert np.array_equal(given[step.MEAN], x, equal_nan=True)

            before = hot[0][0, rows].copy()
            same, answers = (x == before) & (hot[1][0, rows] > 0), model(rng, known, k)
            wanted = reference.judge(s, known, answers, (x, before, same, seen), now, HALF_LIVES)
            step.join_repeats(gauges, rows, known, answers, now, HALF_LIVES, LONGER, found)
            alike(found[: step.APART], wanted[: step.APART])
            found[step.APART] = 1 + 5 * (rows % 3 == 0)
            not_learnt = rng.random(n) < 0.05
            persistent, strays = np.empty(n, dtype=bool), np.empty(n, dtype=bool)
            quiet = step.count_runs_above(gauges, rows, found, not_learnt, now, THRESHOLDS, persistent, strays)
            their_persistent, their_strays = reference.runs_above(s, found, not_learnt, now, THRESHOLDS)
        assert np.array_equal(persistent, their_persistent)
        assert np.array_equal(strays, their_strays)
        assert quiet == (not (persistent | strays | (found[step.STUCK] >= THRESHOLDS[step.STUCK_NATS])).any())
        alike(gauges[:, rows], s)
        gauges[:, rows] = s  # each window begins with the same bits
        hot[0][0, rows], hot[1][0, rows] = np.nan_to_num(x), hot[1][0, rows] + 1
        quiets.append(quiet)
        strong += int(persistent.sum())
    assert strong > 20
    assert (gauges[col.ALERT_FARTHEST] > 1).any()
    over = gauges[col.ALERT_SECONDS] == 0
    assert not gauges[col.ALERT_EXPECTED.start :, over].any()


def test_a_run_above_the_threshold_has_nothing_of_the_run_that_the_end_of_an_episode_has_ended() -> None:
    gauges, rows = np.zeros((len(col.COLUMNS), 16)), np.arange(1)
    gauges[[col.ALERT_EXCESS_NATS, col.ALERT_FARTHEST, col.ALERT_SECOND, col.ALERT_SCORE]] = 50.0
    found = np.zeros((step.FOUND, 1))
    found[[step.BASE, step.GAP, step.KEPT, step.APART], 0] = 7.0, 1.0, 1.0, 1.0
    found[[step.VALUE, step.TYPICAL, step.LOWER, step.UPPER], 0] = 3.0, 1.0, 0.0, 2.0
    persistent, strays = np.empty(1, dtype=bool), np.empty(1, dtype=bool)
    for k in range(1, 3):
        step.count_runs_above(
            gauges, rows, found, np.zeros(1, dtype=bool), 1000 * SECONDS * k, THRESHOLDS, persistent, strays
        )
        assert not persistent[0]
        assert gauges[col.ALERT_EXCESS_NATS, 0] == k
        assert (gauges[[col.ALERT_FARTHEST, col.ALERT_SCORE], 0] == [2.0, 6.0]).all()


def test_hosts_and_contexts_are_learnt_as_in_numpy() -> None:
    rng = np.random.default_rng(3)
    hosts, contexts = np.zeros((len(hosts_col.HOST_COLUMNS), 16)), np.zeros((len(hosts_col.CONTEXT_COLUMNS), 16))
    hosts[hosts_col.TRIALS, 1] = -1.0
    now = START
    for k in range(1, 120):
        now += 1000 * SECONDS * int(rng.integers(1, 4))
        present, theirs = rng.random(6) < 0.8, hosts.copy()
        absent = step.learn_hosts(hosts, present, k, now, HALF_LIFE, 1000 * SECONDS)
        assert absent == reference.learn_hosts(theirs, present, k, now, HALF_LIFE, 1000 * SECONDS) == (~present).sum()
        alike(hosts, theirs)
        metrics, counts = np.sort(rng.integers(0, 5, 20)), np.sort(rng.integers(0, 6, int(rng.integers(0, 9))))
        lines, theirs = rng.integers(1, 99, len(counts) // 2).astype(np.float64), contexts.copy()
        step.learn_contexts(contexts, metrics, counts, lines, now, 3600.0, 6)
        reference.learn_contexts(theirs, metrics, counts, lines, now, 3600.0, 6)
        alike(contexts, theirs)
    assert not contexts[:, 6:].any()


def test_metrics_are_absent_whose_host_is_present_and_that_were_there_often_enough() -> None:
    gauges, owners, rows = np.zeros((len(col.COLUMNS), 16)), np.zeros((2, 16), np.int64), np.empty(6, np.int64)
    owners[0, :6] = [0, 0, 0, 1, 1, 0]
    gauges[col.HOST_WINDOW, :6] = [5, 9, 5, 5, 5, 8]
    gauges[col.PRESENT.start, :6] = [40, 40, 10, 40, 40, 30]
    found = step.find_absent_metrics(gauges, np.array([9.0, 9.0]), owners, np.array([True, False]), 30.0, rows)
    assert rows[:found].tolist() == [0, 5]


def test_a_memory_is_empty_after_longer_than_anything() -> None:
    hosts = np.ones((len(hosts_col.HOST_COLUMNS), 16))
    step.learn_hosts(hosts, np.array([True]), 2, 1e18, HALF_LIFE, 1000 * SECONDS)
    assert hosts[hosts_col.RUNS, 0].tolist() == pytest.approx([1.0, 0.0, 0.0, 0.0], abs=1e-12)


def test_each_function_is_compiled_once() -> None:
    """Arrays of another kind would be compiled for while a batch waits."""
    series = np.array(["counter/a//n", "gauge/a//x", "gauge/b//y", "logs/a//error"], dtype=object)
    detector = ShardDetector(DetectorParameters())
    for k in range(1, 8):
        chosen = np.arange(len(series)) != k  # one is missing at times
        x = np.array([k, k % 3, 1e200, 5.0])
        x.flags.writeable = k % 2 == 0
        none = np.full(len(series), None, dtype=object)
        columns: tuple[Any, ...] = (
            series,
            np.ones(len(series), np.int32 if k % 3 else np.int64),
            x,
            x,
            x,
            x,
            x,
            none,
            none,
        )
        detector.step(k * 10_000, Windows(*(column[chosen] if k < 4 else column for column in columns)))
        detector = ShardDetector.load(detector.dump(), DetectorParameters())
    names = "learn_hosts", "find_values", "join_repeats", "count_runs_above", "learn_contexts", "find_absent_metrics"
    assert {name: len(getattr(step, name).signatures) for name in names} == dict.fromkeys(names, 1)
