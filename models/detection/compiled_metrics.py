"""What a window does to the metrics of a shard around the univariate model, and to its hosts and contexts, as machine code.

A window of a small shard costs the calls that it is made of, so each of these functions is one call. All change the tables of the shard in
place: `hosts`, `contexts` and `gauges` are their numbers, `(columns, room)`, see `SeriesTable.storage`. Times are epoch ms.
"""

from __future__ import annotations

import numpy as np

from models.core.arrays import Array, Bools, Floats, Ints
from models.core.compiled import called, compiled
from models.core.parameters import LONGEST_SECONDS
from models.detection import gauge_columns as col
from models.detection import host_columns as hosts_col
from models.stats import run_length
from models.stats.elementary import exp2, log
from models.stats.interval_distance import BORDER
from models.stats.interval_distance import LARGEST as FARTHEST

LARGEST = 1e150  # squares of larger values would overflow
TWICE = 0.5  # share of the farthest value's distance that a second one needs where rows are far apart
STAYS = 0.75  # a value that keeps this share of its distance from the typical one is not on its way back
MOST_REPEATED = 0.5  # share of repeated values up to which a series counts as one that varies
MOST_DOUBLE = np.finfo(np.float64).max

# Rows of what is given of a window's metrics, `(GIVEN, n)`: numbers of points, means, sums of squared distances, last values.
POINTS, MEAN, SQUARES, LAST = range(4)
GIVEN = 4
# Rows of what is found of them, `(FOUND, n)`: as in `GaugeScores`, then the value before, whether it was the same one, and which share of
# the distance from the typical value is kept, how many windows its rows are apart, and its alert threshold.
SCORE, VALUE, TYPICAL, LOWER, UPPER, BASE, GAP, STUCK, DOMINANT, HEALTH, LAST_SEEN, BEFORE, SAME, KEPT, APART, ALERT = (
    range(16)
)
FOUND = 16
# Rows of parameters of `count_runs_above`: thresholds and times, and how an interval makes a candidate.
ALERT_NATS, WINDOW_SECONDS, CONFIRM_NATS, CONFIRM_SECONDS, STUCK_NATS, REACH, OPEN_SCALES = range(7)

BEGIN_PRIOR, BEGIN_STRENGTH = run_length.BEGIN_STRENGTH * run_length.BEGIN_MEAN, run_length.BEGIN_STRENGTH
STAY_PRIOR = run_length.STAY_STRENGTH * run_length.STAY_MEAN
STAY_BETA = run_length.STAY_STRENGTH - STAY_PRIOR
LEAST_ROWS = run_length.LEAST_ROWS
UNCOUNTED_RUN = run_length.UNCOUNTED_RUN
FIRST_RUN, FIRST_REPEAT, FIRST_EXPECTED = col.PRESENT.start, col.REPEAT.start, col.ALERT_EXPECTED.start
ALERT_SECONDS, EXCESS, SEEN = col.ALERT_SECONDS, col.ALERT_EXCESS_NATS, col.SEEN
SINGLE = np.array(col.SINGLE)
HOST_SEEN, HOST_WINDOWS, STEP, HOST_TRIALS = hosts_col.HOST_SEEN, hosts_col.WINDOWS, hosts_col.STEP, hosts_col.TRIALS
HOST_ASKED = HOST_TRIALS + 2
CONTEXT_SEEN, LINES, ROWS, METRICS = hosts_col.CONTEXT_SEEN, hosts_col.LINES, hosts_col.ROWS, hosts_col.METRICS


@called
def share_left(passed: float, half_life: float) -> float:
    """Share of a memory that is left after some time, in the unit of its half-life."""
    return exp2(max(-passed / half_life, -1000.0))


@called
def learn_gap(s: Floats, first: int, row: int, gap: float, kept: float) -> None:
    """Learn a run of `gap` >= 0 windows that has ended, as `run_length.learn_gap`; `kept` is left of what is known, in columns from `first` on."""
    s[first, row] = s[first, row] * kept + 1.0
    s[first + 1, row] = s[first + 1, row] * kept + (1.0 if gap > 0 else 0.0)
    s[first + 2, row] = s[first + 2, row] * kept + gap
    s[first + 3, row] = s[first + 3, row] * kept + max(gap - 1.0, 0.0)


@compiled
def learn_hosts(hosts: Floats, present: Bools, step: int, now: float, half_life: float, window: float) -> int:
    """Learn which hosts are present in window number `step`, `(n_hosts,)`; answers how many are not. `half_life` and `window`, its length, are in ms.

    The absence before the first window, or of a host that was given up, is not learnt as a usual one.
    """
    absent, passed, kept, lasted = 0, -1.0, 1.0, half_life
    for row in range(len(present)):
        if not present[row]:
            absent += 1
            continue
        gap = step - hosts[STEP, row] - 1.0
        trials = hosts[HOST_TRIALS, row]
        gap = gap if trials > 0 else 0.0
        apart = (trials + hosts[HOST_ASKED, row]) / trials if trials > 0 else 1.0  # windows from one report to the next
        lasting = max(half_life, LEAST_ROWS * window * apart)
        if now - hosts[HOST_SEEN, row] != passed or lasting != lasted:
            passed, lasted = now - hosts[HOST_SEEN, row], lasting
            kept = share_left(passed, lasting)
        learn_gap(hosts, HOST_TRIALS, row, gap, kept)
        hosts[HOST_SEEN, row], hosts[STEP, row] = now, step
        hosts[HOST_WINDOWS, row] += 1.0
    return absent


@called
def rate(last: float, previous: float, seconds: float) -> float:
    """Rate per second of a cumulative counter.

    NaN where the counter was reset (`last` is less than `previous`) or `previous` is not known (NaN): how long it has counted is not known
    then. A counter that is reset in every window has no rate at all. `seconds` is the time between the two totals, above 0.
    """
    grown = last - previous
    return grown / seconds if grown >= 0 else np.nan


@compiled
def find_values(
    gauges: Floats,
    windows: Floats,
    owners: Ints,
    previous: tuple[Floats, Array, Array],
    rows: Ints,
    counters: int,
    given: Floats,
    now: float,
    half_life: float,
    found: Floats,
    known: Ints,
) -> int:
    """Learn that the metrics of a window are present, and find their values.

    Parameters
    ----------
    windows
        Number of windows of each host, `(room,)`.
    owners
        Hosts of the metrics, `(owners, room)`, in the first row.
    previous
        Last values, numbers of rows and usual seconds between rows of the model, `(1, series)` each.
    rows
        Rows of the window's metrics in the table, `(n,)`; the first `counters` of them are counters.
    given
        What came, `(GIVEN, n)`: what the model learns is written into it.
    half_life
        Of how often a metric is absent, ms: at least that.
    found
        Gets values, the values before, and when each was seen last, `(FOUND, n)`.
    known
        Gets the places of the values that can be scored, `(n,)`.

    Returns
    -------
    The number of these.
    """
    n, passed, kept, size, lasted = len(rows), -1.0, 1.0, 0, half_life
    for i in range(n):
        row = rows[i]
        seen, windows_now = gauges[SEEN, row], windows[owners[0, row]]
        lasting = max(half_life, LEAST_ROWS * 1000.0 * previous[2][0, row])
        if now - seen != passed or lasting != lasted:
            passed, lasted = now - seen, lasting
            kept = share_left(passed, lasting)
        # as of hosts: one that was given up has no reports
        gap = windows_now - gauges[col.HOST_WINDOW, row] - 1.0 if gauges[FIRST_RUN, row] > 0 else 0.0
        learn_gap(gauges, FIRST_RUN, row, gap, kept)
        gauges[col.HOST_WINDOW, row] = windows_now
        x = given[MEAN, i]
        if i < counters:
            x = rate(given[LAST, i], gauges[col.TOTAL, row], (now - seen) / 1000.0)
            gauges[col.TOTAL, row], given[POINTS, i] = given[LAST, i], 1.0  # a rate has no spread within its window
        squares = given[SQUARES, i]
        given[MEAN, i] = x
        given[SQUARES, i] = 0.0 if np.isnan(squares) else min(max(squares, -MOST_DOUBLE), MOST_DOUBLE)
        before = previous[0][0, row]
        found[VALUE, i], found[BEFORE, i], found[LAST_SEEN, i] = x, before, seen
        found[SAME, i] = 1.0 if x == before and previous[1][0, row] > 0 else 0.0
        if abs(x) < LARGEST:  # false for NaN
            known[size] = i
            size += 1
    return size


@called
def continue_probability(ended: float, stayed: float, going: float) -> float:
    """Probability that a run of repeated values goes on which has done so `going` times.

    Each run has a probability of its own, Beta(a, b), as a service is busy or idle: lengths are beta-geometric, with a power law for a tail, where
    those of runs that are all alike are geometric. Their mean a / (b - 1) is that of the runs before, which ended `ended` times and went on `stayed`
    times; b is that of a series without any. All are faded counts.
    """
    more = STAY_BETA - 1.0
    alpha = more * (stayed + STAY_PRIOR) / (ended + more)
    return (alpha + going) / (alpha + STAY_BETA + going)


@called
def score_repeats(
    s: Floats,
    row: int,
    x: float,
    repeated: bool,
    warming: bool,
    seconds: float,
    left: tuple[float, float],
    longer: float,
) -> float:
    """Surprise of a series' run of exactly equal values, nats; learns the run.

    Runs of 0 have no surprise, as an idle gauge is not a stuck one, nor have those of a series that repeats values half of the time, nor
    those less than `longer` times as long as the longest run before.

    Parameters
    ----------
    s, row
        Columns of the table of metrics, changed in place, and the row of the series.
    x, repeated
        Its value, and whether that equals the one before.
    warming
        Whether it is warming up.
    seconds
        Time since the row before.
    left
        What is left after that time of the run lengths, and of the longest run.
    longer
        How many times as long as any before a run has to be; infinite where no run has a surprise.
    """
    of_runs, of_longest = left
    trials, begun, asked, stayed = (
        s[FIRST_REPEAT, row],
        s[FIRST_REPEAT + 1, row],
        s[FIRST_REPEAT + 2, row],
        s[FIRST_REPEAT + 3, row],
    )
    before, ended, longest = s[col.REPEAT_EVIDENCE, row], s[col.REPEAT_SECONDS, row], s[col.LONGEST_REPEAT_SECONDS, row]
    outside = before <= 0
    evidence, lasted = 0.0, 0.0
    if repeated:
        chance = (begun + BEGIN_PRIOR) / (trials + BEGIN_STRENGTH)
        going = max(ended / seconds - 1.0, 0.0)
        chance = chance if outside else continue_probability(asked - stayed, max(stayed - going, 0.0), going)
        counted = (outside and not warming) or before > UNCOUNTED_RUN
        evidence = before - log(chance) + UNCOUNTED_RUN if counted else UNCOUNTED_RUN
        lasted = ended + seconds
    varies = begun + stayed < MOST_REPEATED * (trials + asked)
    surprise = evidence if varies and x != 0 and lasted > longer * longest else 0.0
    s[col.LONGEST_REPEAT_SECONDS, row] = max(longest * of_longest, 0.0 if repeated else ended)
    s[FIRST_REPEAT, row] = trials * of_runs + (1.0 if outside else 0.0)
    s[FIRST_REPEAT + 1, row] = begun * of_runs + (1.0 if outside and repeated else 0.0)
    s[FIRST_REPEAT + 2, row] = asked * of_runs + (0.0 if outside else 1.0)
    s[FIRST_REPEAT + 3, row] = stayed * of_runs + (1.0 if repeated and not outside else 0.0)
    s[col.REPEAT_EVIDENCE, row], s[col.REPEAT_SECONDS, row] = evidence, lasted
    return surprise


@compiled
def join_repeats(
    gauges: Floats,
    rows: Ints,
    known: Ints,
    answers: tuple[Floats, ...],
    now: float,
    half_lives: tuple[float, float],
    longer: float,
    found: Floats,
) -> None:
    """Join what the model answers with the runs of repeated values, and learn these.

    Parameters
    ----------
    rows, known
        Rows of the window's metrics in the table, `(n,)`, and the places of those that the model has scored, `(m,)`.
    answers
        Of the model: score, base, health, dominant feature, typical, lower and upper, `(m,)` each.
    half_lives
        Of the run lengths, and of the longest run, seconds.
    longer
        See `score_repeats`.
    found
        Has what `find_values` has found, `(FOUND, n)`, and gets the others; NaN where the model has scored nothing.
    """
    score, base, health, dominant, typical, lower, upper = answers
    if len(known) < len(rows):
        for at in (SCORE, TYPICAL, LOWER, UPPER, BASE, GAP, STUCK, DOMINANT, HEALTH, KEPT):
            found[at] = np.nan
        for i in range(len(rows)):
            found[VALUE, i] = found[VALUE, i] if abs(found[VALUE, i]) < LARGEST else np.nan
    passed, left = -1.0, (1.0, 1.0)
    for j in range(len(known)):
        i = known[j]
        row, x, warming = rows[i], found[VALUE, i], np.isnan(base[j])
        seconds = (now - gauges[SEEN, row]) / 1000.0
        if seconds != passed:
            passed = seconds
            left = share_left(seconds, half_lives[0]), share_left(seconds, half_lives[1])
        surprise = score_repeats(gauges, row, x, found[SAME, i] > 0, warming, seconds, left, longer)
        surprise = 0.0 if warming else surprise
        bound = lower[j] if gauges[col.NEGATIVE, row] > 0 or np.isnan(lower[j]) else max(lower[j], 0.0)
        gauges[col.NEGATIVE, row] = 1.0 if x < 0 else gauges[col.NEGATIVE, row]
        found[SCORE, i] = score[j] if np.isnan(score[j]) else max(score[j], surprise)
        found[TYPICAL, i], found[LOWER, i], found[UPPER, i] = typical[j], bound, upper[j]
        found[BASE, i], found[GAP, i], found[HEALTH, i] = base[j], base[j] - score[j], health[j]
        found[STUCK, i], found[DOMINANT, i] = surprise, dominant[j]
        found[KEPT, i] = (x - typical[j]) / (found[BEFORE, i] - typical[j])


@called
def distance_in_widths(value: float, typical: float, lower: float, upper: float) -> float:
    """As `interval_distance.distance_in_widths`, 0 where something is not known."""
    away = value - typical
    width = upper - typical if away > 0 else typical - lower
    if not (np.isfinite(value) and np.isfinite(typical) and np.isfinite(lower) and np.isfinite(upper)):
        return 0.0
    if width > 0:
        return min(abs(away) / width, FARTHEST)
    return BORDER if away != 0 else 0.0


@called
def note_distance(s: Floats, row: int, begins: bool, value: float, typical: float, lower: float, upper: float) -> None:
    """Note how far the value of a run above the alert threshold is from what was expected when it began, which is with this window if it `begins`."""
    if begins:
        s[FIRST_EXPECTED, row], s[FIRST_EXPECTED + 1, row], s[FIRST_EXPECTED + 2, row] = typical, lower, upper
        s[col.ALERT_FARTHEST, row] = s[col.ALERT_SECOND, row] = 0.0
    distance = distance_in_widths(value, s[FIRST_EXPECTED, row], s[FIRST_EXPECTED + 1, row], s[FIRST_EXPECTED + 2, row])
    farthest = s[col.ALERT_FARTHEST, row]
    s[col.ALERT_FARTHEST, row] = max(farthest, distance)
    s[col.ALERT_SECOND, row] = max(s[col.ALERT_SECOND, row], min(farthest, distance))


@compiled
def count_runs_above(
    gauges: Floats,
    rows: Ints,
    found: Floats,
    not_learnt: Bools,
    now: float,
    p: Floats,
    persistent: Bools,
    strays: Bools,
) -> bool:
    """Count the runs of windows above the alert threshold; note that the window's metrics were seen, and round off what is known of them.

    A burst without meaning can exceed the threshold by as much as a fault, but falls back at once: so a short run is persistent only where the
    values keep their distance from the typical one. Where rows are further apart than `confirm_seconds`, and than windows, two of them
    have to be far off: the step back from a single strange value is as rare as the step to it.

    Parameters
    ----------
    rows
        Rows of the window's metrics in the table, `(n,)`.
    found
        What was found of them, `(FOUND, n)`; gets their alert thresholds.
    not_learnt
        Those that a rule keeps from being learnt, `(n,)`.
    p
        Parameters by `ALERT_NATS` to `OPEN_SCALES`.
    persistent
        Gets which metrics have been above the threshold for `confirm_seconds`, or in two windows by `confirm_nats`, `(n,)`.
    strays
        Gets which are so far off that they may be changing, `(n,)`.

    Returns
    -------
    Whether all is quiet: no metric strays or is persistent or stuck.
    """
    quiet, shortest = True, min(p[WINDOW_SECONDS], LONGEST_SECONDS)
    for i in range(len(rows)):
        row, base, apart = rows[i], found[BASE, i], found[APART, i]
        # One row in six windows is one test in six.
        fewer = min(apart * p[WINDOW_SECONDS], LONGEST_SECONDS) / shortest
        alert_nats = p[ALERT_NATS] - log(fewer) if fewer > 1 else p[ALERT_NATS]
        found[ALERT, i] = alert_nats
        run = gauges[ALERT_SECONDS, row]
        begins, above = run == 0, base >= alert_nats  # false for NaN
        excess = 0.0 if begins else gauges[EXCESS, row]  # the end of an episode ends the run alone
        elapsed = (now - gauges[SEEN, row]) / 1000.0 if run > 0 else p[WINDOW_SECONDS]
        run, excess = (run + elapsed, excess + base - alert_nats) if above else (0.0, 0.0)
        gauges[ALERT_SECONDS, row], gauges[EXCESS, row] = run, excess
        value, typical, upper = found[VALUE, i], found[TYPICAL, i], found[UPPER, i]
        if run > 0:
            note_distance(gauges, row, begins, value, typical, found[LOWER, i], upper)
            gauges[col.ALERT_SCORE, row] = max(0.0 if begins else gauges[col.ALERT_SCORE, row], base - found[GAP, i])
        elif not begins:
            for k in range(FIRST_EXPECTED, col.ALERT_SCORE + 1):
                gauges[k, row] = 0.0
        lasts = run >= p[CONFIRM_SECONDS]
        if begins or elapsed < max(p[CONFIRM_SECONDS], 2 * p[WINDOW_SECONDS]):
            lasts |= excess >= p[CONFIRM_NATS] and run >= 2 * p[WINDOW_SECONDS] and found[KEPT, i] >= STAYS
        else:
            lasts &= gauges[col.ALERT_SECOND, row] >= TWICE * gauges[col.ALERT_FARTHEST, row]
        persistent[i] = above and lasts
        scale = (upper - typical) / p[REACH]
        strays[i] = (
            np.isfinite(value)
            and scale > 0
            and not not_learnt[i]
            and (above or abs(value - typical) >= p[OPEN_SCALES] * scale)
        )
        quiet = quiet and not (strays[i] or persistent[i] or found[STUCK, i] >= p[STUCK_NATS])
        gauges[SEEN, row] = now
        for k in range(len(SINGLE)):
            gauges[SINGLE[k], row] = np.float32(gauges[SINGLE[k], row])
    return quiet


@compiled
def find_absent_metrics(
    gauges: Floats, windows: Floats, owners: Ints, present: Bools, least: float, absent: Ints
) -> int:
    """Find the metrics that have had no row though their host was present, and are present in at least `least` windows.

    `windows` and `owners` are as for `find_values`, `present` says which hosts are, `(n_hosts,)`; `absent` gets their rows, `(n_metrics,)`. Answers
    how many there are.
    """
    size = 0
    for row in range(len(absent)):
        host = owners[0, row]
        if present[host] and windows[host] > gauges[col.HOST_WINDOW, row] and gauges[FIRST_RUN, row] >= least:
            absent[size] = row
            size += 1
    return size


@compiled
def learn_contexts(
    contexts: Floats, metrics: Ints, counts: Ints, lines: Floats, now: float, half_life: float, size: int
) -> None:
    """Learn how many rows of metrics and lines of logs came from each context; older numbers fade with a half-life in seconds.

    Parameters
    ----------
    metrics, counts
        Contexts of the window's metrics and counts, `(n,)` and `(m,)`.
    lines
        Lines of the counts that are templates, which are the last, `(templates,)`.
    size
        Number of contexts.
    """
    of_metrics, of_lines, touched = np.zeros(size), np.zeros(size), np.zeros(size, np.bool_)
    for context in metrics:
        of_metrics[context] += 1.0
        touched[context] = True
    first = len(counts) - len(lines)
    for i in range(len(counts)):
        touched[counts[i]] = True
        if i >= first:
            of_lines[counts[i]] += lines[i - first]
    for context in range(size):
        if touched[context]:
            kept = share_left((now - contexts[CONTEXT_SEEN, context]) / 1000.0, half_life)
            for k in range(LINES, METRICS + 1):
                contexts[k, context] *= kept
            contexts[CONTEXT_SEEN, context] = now
            contexts[ROWS, context] += of_metrics[context]
            contexts[LINES, context] += of_lines[context]
