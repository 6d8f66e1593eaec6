"""Simulated curves of eight kinds with labelled events: what a kind of curve needs, on data that are nobody's test data.

    bursts          counts, a rhythm of the day in the rate, bursts that are usual         multiplicative   gamma noise around a slow level
    requests        rates with a rhythm of the day, log-normal noise, quiet weekends       caps             a load that rests at its limit by day
    speeds          free flow, rush hours that differ from day to day, missing rows        weekly           a load that falls to a third at weekends
    occupancies     the same the other way round                                           prices           log-prices that return, heavy tails

A curve has three weeks of rows five minutes apart, and events from the fifth day on, each of a form that its kind has: more, or less, or at another
time of the day. Events come back, as incidents of one service do. Labels are exact; no event is hidden, but some are within the noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.collections import BEGIN, MS, BenchmarkSeries
from models.core.arrays import Bools, Floats, Ints

PERIOD, DAY_ROWS, DAYS, FIRST_EVENT_DAY = 300.0, 288, 21, 4
EVENTS, SHORTEST, LONGEST, APART = 10, 3, 18, 60  # of a curve; rows of an event; rows between two
CURVES = 3  # of each kind
HOURS = DAY_ROWS // 24
Rng = np.random.Generator


@dataclass(frozen=True)
class LabelledCurve:
    """A simulated curve and which of its rows lie in an event, `(rows,)`."""

    series: BenchmarkSeries
    label: Bools


def curves() -> list[LabelledCurve]:
    """`CURVES` curves of each kind, always the same."""
    return [curve(kind, k) for kind in KINDS for k in range(CURVES)]


def curve(kind: str, seed: int) -> LabelledCurve:
    """A curve of a kind; rows that are missing have no time."""
    rng = np.random.default_rng([seed, *kind.encode()])
    rows = np.arange(DAYS * DAY_ROWS)
    sizes, label = events(rng, len(rows))
    values, there = KINDS[kind](rng, rows, sizes)
    times = BEGIN + MS * PERIOD * (rows.astype(np.float64) + 1.0)
    return LabelledCurve(BenchmarkSeries(f"{kind} {seed}", times[there], values[there]), label[there])


def parsed(name: str) -> tuple[str, int]:
    """Kind and seed of the curve of this name."""
    kind, _, seed = name.partition(" ")
    return kind, int(seed)


def events(rng: Rng, rows: int) -> tuple[Floats, Bools]:
    """Sizes of events, in -1 to 1 and 0 where there is none, and where events are; `(rows,)` each."""
    sizes, label, ends = np.zeros(rows), np.zeros(rows, dtype=bool), 0
    for begins in np.sort(rng.integers(FIRST_EVENT_DAY * DAY_ROWS, rows - LONGEST, EVENTS)):
        if begins < ends + APART:
            continue
        ends = int(begins + rng.integers(SHORTEST, LONGEST + 1))
        sizes[begins:ends] = rng.choice([-1.0, 1.0]) * rng.uniform(0.5, 1.0)
        label[begins:ends] = True
    return sizes, label


def rhythm(rows: Ints, hour: float) -> Floats:
    """A wave of the day, 0 to 1, that is highest at `hour`, `(rows,)`."""
    out: Floats = (1 + np.cos(2 * np.pi * (rows / DAY_ROWS - hour / 24))) / 2
    return out


def weekend(rows: Ints) -> Bools:
    """Which rows lie in a weekend, `(rows,)`."""
    return np.asarray(rows // DAY_ROWS % 7 >= 5)


def drift(rng: Rng, rows: int, memory: float, deviation: float) -> Floats:
    """A first-order autoregressive process, `(rows,)`, whose values half forget in `memory` rows."""
    keep = 2 ** (-1 / memory)
    noise, out, value = rng.standard_normal(rows) * deviation * np.sqrt(1 - keep * keep), np.empty(rows), 0.0
    for row in range(rows):
        value = keep * value + noise[row]
        out[row] = value
    return out


def hills(rng: Rng, rows: Ints, hours: tuple[float, ...]) -> Floats:
    """A hill of about two hours at each of these hours, early or late and high or low as the day has it, `(rows,)`."""
    out = np.zeros(len(rows))
    for day in range(DAYS):
        for hour in hours:
            middle = day * DAY_ROWS + HOURS * (hour + 0.4 * rng.standard_normal())
            out += rng.uniform(0.6, 1.0) * np.exp(-(((rows - middle) / (HOURS * 0.9)) ** 2) / 2)
    return out


def gaps(rng: Rng, rows: int) -> Bools:
    """Which rows there are: 3 % are missing one by one, and now and then an hour of them, `(rows,)`."""
    there = rng.random(rows) > 0.03
    for begins in rng.integers(0, rows, DAYS // 2):
        there[begins : begins + rng.integers(2, HOURS)] = False
    return there


def everywhere(values: Floats) -> tuple[Floats, Bools]:
    """Values of which none is missing."""
    return values, np.ones(len(values), dtype=bool)


def bursts(rng: Rng, rows: Ints, sizes: Floats) -> tuple[Floats, Bools]:
    """Negative binomial counts; three usual bursts of up to four times the rate a day."""
    rate = 4 + 36 * rhythm(rows, 20)
    for begins in rng.integers(0, len(rows), 3 * DAYS):
        rate[begins : begins + 4] *= rng.uniform(1.5, 4)
    rate = rate * np.where(sizes < 0, 0.02, 1 + 12 * np.maximum(sizes, 0))
    return everywhere(rng.poisson(rate * rng.gamma(6, 1 / 6, len(rows))).astype(np.float64))


def requests(rng: Rng, rows: Ints, sizes: Floats) -> tuple[Floats, Bools]:
    """Rates with log-normal noise of 8 %, and 10 % that lasts for hours."""
    level = (300 + 1500 * rhythm(rows, 15)) * np.where(weekend(rows), 0.7, 1.0)
    noise = 0.08 * rng.standard_normal(len(rows)) + drift(rng, len(rows), 3 * HOURS, 0.1)
    return everywhere(np.round(level * np.exp(noise) * np.where(sizes < 0, 1 + 0.9 * sizes, 1 + 1.5 * sizes)))


def speeds(rng: Rng, rows: Ints, sizes: Floats) -> tuple[Floats, Bools]:
    """Free flow at 65; at rush hours and in events traffic is slow."""
    slow = 28 * hills(rng, rows, (8.0, 17.5)) * ~weekend(rows) + 45 * np.abs(sizes)
    return 65 - np.minimum(slow, 58) + 2 * rng.standard_normal(len(rows)), gaps(rng, len(rows))


def occupancies(rng: Rng, rows: Ints, sizes: Floats) -> tuple[Floats, Bools]:
    """Shares of time in per cent: low but at rush hours and in events."""
    share = 2 + 4 * rhythm(rows, 14) + 14 * hills(rng, rows, (8.0, 17.5)) * ~weekend(rows) + 35 * np.abs(sizes)
    return np.round(share * rng.gamma(20, 1 / 20, len(rows)), 1), gaps(rng, len(rows))


def prices(rng: Rng, rows: Ints, sizes: Floats) -> tuple[Floats, Bools]:
    """Prices whose logarithm returns to a level within a day, with t-distributed noise."""
    noise = 0.01 * rng.standard_t(4, len(rows)) + drift(rng, len(rows), DAY_ROWS / 2, 0.06)
    return everywhere(np.round(0.3 * np.exp(noise + 0.4 * sizes), 4))


def multiplicative(rng: Rng, rows: Ints, sizes: Floats) -> tuple[Floats, Bools]:
    """Gamma noise of 45 % around a level that moves slowly; no rhythm."""
    level = 50 * np.exp(drift(rng, len(rows), 2 * DAY_ROWS, 0.3))
    return everywhere(level * rng.gamma(5, 1 / 5, len(rows)) * np.where(sizes < 0, 0.08, 1 + 4 * sizes))


def caps(rng: Rng, rows: Ints, sizes: Floats) -> tuple[Floats, Bools]:
    """Per cent of a processor that is at its limit for hours each day; events are loads by night and rests by day."""
    load = 20 + 110 * rhythm(rows, 13) + 5 * rng.standard_normal(len(rows)) + drift(rng, len(rows), HOURS, 6.0)
    moved = np.where(rhythm(rows, 13) > 0.5, load - 90 * np.abs(sizes), load + 70 * np.abs(sizes))
    return everywhere(np.round(np.clip(moved, 0, 100), 1))


def weekly(rng: Rng, rows: Ints, sizes: Floats) -> tuple[Floats, Bools]:
    """A load that falls to 35 % at weekends; in events of less it does so on any day."""
    level = (20 + 80 * rhythm(rows, 14)) * np.where(weekend(rows) | (sizes < 0), 0.35, 1.0) * (1 + np.maximum(sizes, 0))
    return everywhere(level * (1 + 0.05 * rng.standard_normal(len(rows))))


KINDS: dict[str, Callable[[Rng, Ints, Floats], tuple[Floats, Bools]]] = {
    kind.__name__: kind for kind in (bursts, requests, speeds, occupancies, prices, multiplicative, caps, weekly)
}
