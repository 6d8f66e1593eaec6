"""The step of a shard's metrics around the univariate model in numpy: the reference of `models.detection.compiled_metrics`.

Columns of tables are `(columns, n)`, of the rows of a window alone, and are changed in place.
"""

from __future__ import annotations

import numpy as np

from models.core.arrays import Bools, Floats, Ints
from models.core.parameters import LONGEST_SECONDS
from models.detection import compiled_metrics as step
from models.detection import gauge_columns as col
from models.detection import host_columns as hosts_col
from models.detection.gauge_detector import LONGER
from models.stats import run_length
from models.stats.interval_distance import BORDER, LARGEST


def learn_runs(chain: Floats, gap: Floats, passed: Floats, half_life: float, apart: Floats) -> None:
    """`apart` is how far rows are apart, ms."""
    chain *= np.exp2(-passed / np.maximum(half_life, run_length.LEAST_ROWS * apart))
    run_length.learn_gap(list(chain), gap)


def learn_hosts(hosts: Floats, present: Bools, steps: int, now: float, half_life: float, window: float) -> int:
    rows = np.flatnonzero(present)
    gap = (steps - hosts[hosts_col.STEP, rows] - 1) * (hosts[hosts_col.TRIALS, rows] > 0)
    chain = hosts[hosts_col.RUNS, rows]
    apart = window * np.where(chain[0] > 0, 1 + chain[2] / np.where(chain[0] > 0, chain[0], 1.0), 1.0)
    learn_runs(chain, gap, now - hosts[hosts_col.HOST_SEEN, rows], half_life, apart)
    hosts[hosts_col.RUNS, rows] = chain
    hosts[hosts_col.HOST_SEEN, rows], hosts[hosts_col.STEP, rows] = now, steps
    hosts[hosts_col.WINDOWS, rows] += 1
    return int((~present).sum())


def rates(last: Floats, previous: Floats, seconds: Floats) -> Floats:
    grown = last - previous
    out: Floats = np.where(grown >= 0, grown, np.nan) / seconds
    return out


def values(
    s: Floats, windows: Floats, given: Floats, counters: int, now: float, half_life: float, interval: Floats
) -> Floats:
    """Learns that the metrics are present; answers their values. `interval` are the usual seconds between their rows."""
    gap = (windows - s[col.HOST_WINDOW] - 1) * (s[col.PRESENT.start] > 0)
    learn_runs(s[col.PRESENT], gap, now - s[col.SEEN], half_life, 1000.0 * interval)
    s[col.HOST_WINDOW] = windows
    x: Floats = given[step.MEAN].copy()
    last, grown = given[step.LAST, :counters], s[col.TOTAL, :counters]
    x[:counters] = rates(last, grown, (now - s[col.SEEN, :counters]) / 1000)
    s[col.TOTAL, :counters] = last
    return x


def score_repeats(
    s: Floats, x: Floats, repeated: Bools, warming: Bools, seconds: Floats, half_lives: tuple[float, float]
) -> Floats:
    trials, begun, asked, stayed = s[col.REPEAT]
    varies = (begun + stayed) < step.MOST_REPEATED * (trials + asked)
    ended, longest = s[col.REPEAT_SECONDS].copy(), s[col.LONGEST_REPEAT_SECONDS]
    # `score_run` with counts that have the probability of going on of this run, which has done so so often
    going = np.where(s[col.REPEAT_EVIDENCE] > 0, np.maximum(ended / seconds - 1, 0.0), 0.0)
    beta = run_length.STAY_STRENGTH * (1 - run_length.STAY_MEAN)
    prior = run_length.STAY_STRENGTH - beta
    alpha = (beta - 1) * (np.maximum(stayed - going, 0.0) + prior) / (asked - stayed + beta - 1)
    own = [trials, begun, alpha - prior + going, alpha - prior + going]
    evidence = run_length.score_run(own, s[col.REPEAT_EVIDENCE], repeated, warming)
    lasted = np.where(repeated, ended + seconds, 0.0)
    surprise: Floats = np.where(varies & (x != 0) & (lasted > LONGER * longest), evidence, 0.0)
    of_runs, of_longest = (np.exp2(-seconds / half_life) for half_life in half_lives)
    s[col.LONGEST_REPEAT_SECONDS] = np.maximum(longest * of_longest, np.where(repeated, 0.0, ended))
    s[col.REPEAT] *= of_runs
    run_length.learn_run(list(s[col.REPEAT]), s[col.REPEAT_EVIDENCE], repeated)
    s[col.REPEAT_EVIDENCE] = evidence
    s[col.REPEAT_SECONDS] = lasted
    return surprise


def judge(
    s: Floats,
    known: Ints,
    answers: tuple[Floats, ...],
    row: tuple[Floats, Floats, Bools, Floats],
    now: float,
    half_lives: tuple[float, float],
) -> Floats:
    """What is found of the rows; `row` has their values, those before, whether they are the same, and when each was seen last."""
    score, base, health, dominant, typical, lower, upper = answers
    x, before, same = row[0][known], row[1][known], row[2][known]
    part, warming = s[:, known], np.isnan(base)
    stuck = score_repeats(part, x, same, warming, (now - part[col.SEEN]) / 1000, half_lives)
    stuck[warming] = 0.0
    lower = np.where(part[col.NEGATIVE] > 0, lower, np.maximum(lower, 0.0))
    part[col.NEGATIVE] = np.maximum(part[col.NEGATIVE], x < 0)
    s[:, known] = part
    found = np.full((step.FOUND, len(row[0])), np.nan)
    found[:10, known] = [
        np.maximum(score, stuck), x, typical, lower, upper, base, base - score, stuck, dominant, health,
    ]  # fmt: skip
    found[[step.LAST_SEEN, step.BEFORE, step.SAME]] = row[3], row[1], row[2]
    found[step.KEPT, known] = (x - typical) / (before - typical)
    return found


def in_widths_of_many(value: Floats, typical: Floats, lower: Floats, upper: Floats) -> Floats:
    """As `interval_distance.distance_in_widths`, of each value, `(n,)`."""
    away = value - typical
    width = np.where(away > 0, upper - typical, typical - lower)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        distance = np.minimum(np.abs(away) / width, LARGEST)
    known = np.isfinite(value) & np.isfinite(typical) & np.isfinite(lower) & np.isfinite(upper)
    out: Floats = np.where(width > 0, distance, np.where(away != 0, BORDER, 0.0))
    return np.where(known, out, np.nan)


def two_farthest_of_many(farthest: Floats, second: Floats, distance: Floats) -> tuple[Floats, Floats]:
    """As `interval_distance.two_farthest`, of each series, `(n,)`."""
    distance = np.nan_to_num(distance)
    return np.maximum(farthest, distance), np.maximum(second, np.minimum(farthest, distance))


def runs_above(s: Floats, found: Floats, not_learnt: Bools, now: float, p: Floats) -> tuple[Bools, Bools]:
    """Which metrics are persistent, and which stray."""
    base, value, typical, lower, upper = found[[step.BASE, step.VALUE, step.TYPICAL, step.LOWER, step.UPPER]]
    alert_seconds, excess = s[col.ALERT_SECONDS], s[col.ALERT_EXCESS_NATS]
    window = p[step.WINDOW_SECONDS]
    seconds = np.minimum(np.maximum(found[step.APART], 1.0) * window, LONGEST_SECONDS)
    alert = p[step.ALERT_NATS] - np.log(np.maximum(seconds / min(window, LONGEST_SECONDS), 1.0))
    begins, above = alert_seconds == 0, base >= alert
    elapsed = np.where(alert_seconds > 0, (now - s[col.SEEN]) / 1000, p[step.WINDOW_SECONDS])
    alert_seconds[:] = np.where(above, alert_seconds + elapsed, 0.0)
    excess[:] = np.where(above, np.where(begins, 0.0, excess) + base - alert, 0.0)
    strong = (excess >= p[step.CONFIRM_NATS]) & (alert_seconds >= 2 * p[step.WINDOW_SECONDS])
    at = np.flatnonzero(alert_seconds > 0)
    fresh = at[begins[at]]
    s[col.ALERT_EXPECTED, fresh] = typical[fresh], lower[fresh], upper[fresh]
    s[col.ALERT_FARTHEST, fresh] = s[col.ALERT_SECOND, fresh] = s[col.ALERT_SCORE, fresh] = 0.0
    distance = in_widths_of_many(value[at], *s[col.ALERT_EXPECTED, at])
    farthest, second = two_farthest_of_many(s[col.ALERT_FARTHEST, at], s[col.ALERT_SECOND, at], distance)
    s[col.ALERT_FARTHEST, at], s[col.ALERT_SECOND, at] = farthest, second
    s[col.ALERT_SCORE, at] = np.maximum(s[col.ALERT_SCORE, at], base[at] - found[step.GAP, at])
    s[col.ALERT_EXPECTED.start :, alert_seconds == 0] = 0.0
    strong &= found[step.KEPT] >= step.STAYS
    dense = begins | (elapsed < max(p[step.CONFIRM_SECONDS], 2 * window))
    twice = s[col.ALERT_SECOND] >= step.TWICE * s[col.ALERT_FARTHEST]
    lasts = alert_seconds >= p[step.CONFIRM_SECONDS]
    persistent = above & np.where(dense, lasts | strong, lasts & twice)
    scale = (upper - typical) / p[step.REACH]
    strays = above | (np.abs(value - typical) >= p[step.OPEN_SCALES] * scale)
    strays &= np.isfinite(value) & (scale > 0) & ~not_learnt
    s[col.SEEN] = now
    s[col.SINGLE] = s[col.SINGLE].astype(np.float32)
    return persistent, strays


def learn_contexts(
    contexts: Floats, metrics: Ints, counts: Ints, lines: Floats, now: float, half_life: float, size: int
) -> None:
    touched = np.unique(np.concatenate([metrics, counts]))
    passed = (now - contexts[hosts_col.CONTEXT_SEEN, touched]) / 1000
    contexts[hosts_col.LINES : hosts_col.METRICS + 1, touched] *= np.exp2(-passed / half_life)
    contexts[hosts_col.CONTEXT_SEEN, touched] = now
    contexts[hosts_col.ROWS, :size] += np.bincount(metrics, minlength=size)
    of_templates = counts[len(counts) - len(lines) :]
    contexts[hosts_col.LINES, :size] += np.bincount(of_templates, weights=lines, minlength=size)
