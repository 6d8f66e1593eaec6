"""Rates that rise: lines so rare that no single window of them is strange, which come several times as often as usual.

Windows with a line are counted, so that a burst within a window is one. Let a and b be the Gamma posterior of their rate, from all windows before a
*rise*, older ones fading over a week: half a window with a line in one, and those that were seen. Of n windows with a line among t since the rise
began, the evidence that their rate is k times the usual one is the logarithm of the ratio of two marginals, Gamma-Poisson with k times the rate
and with the rate itself, in nats:

    e_k(n, t) = n ln k - (a + n) ln((b + k t) / (b + t))

A rise begins with a line and is over when e_k <= 0, as in Page's test; each of `FACTORS` has its own. The evidence of a series is the largest of them
less ln(number of factors). By chance it reaches h nats within m windows with probability m e^-h at most: exp(e_k) of a beginning that was fixed
beforehand is a martingale with mean 1 (Ville's inequality), and there are m of them. As a rise begins with a line, which is k times as likely where
the rate is, it is no more than the mean of the k times e^-h for each line: 3e-7 for 18 nats. The rate of one line in a
window cannot be distinguished from more, and windows with several lines are less likely than Poisson's law says, so frequent lines have less
evidence, never more. While a rise lasts, a and b stay as they were before it.

Lines that come in bursts, or at some hours of the day, have rises that are usual. So the evidence has to be `GROWTH` times that of the greatest rise
before, which halves each week. What comes in the first day after the first line is learnt only. A rise is over after a day at most.

Nothing happens to a series in a window without a line, as e_k falls then: it is looked at with the next line.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.core.arrays import Bools, Floats, Ints
from models.stats.gamma_poisson import PRIOR_SUM, PRIOR_WINDOWS

FACTORS = np.array([[5.0], [30.0]])  # the slowest first: its rise is over last
LOG_FACTORS, LOG_FACTORS_TRIED = np.log(FACTORS), float(np.log(len(FACTORS)))
COLUMNS = (
    "rise_sum",  # windows with a line, and windows, before the rise
    "rise_windows",
    "rise_known",  # windows of the series that are in these two
    "rise_first",  # when the first line came, epoch ms; 0: none yet
    "rise_usual",  # evidence of the greatest rise before this one, nats
    "rise_highest",  # and of this one
    "rise_lines_slow",  # windows with a line since the rise began, by factor
    "rise_lines_fast",
    "rise_begun_slow",  # windows of the series before it began
    "rise_begun_fast",
)
SUM, WINDOWS, KNOWN, FIRST, USUAL, HIGHEST = range(6)
LINES, BEGUN = slice(6, 8), slice(8, 10)
DAY_HOURS, MEMORY_HOURS = 24.0, 168.0
GROWTH = 2.0


@dataclass(frozen=True)
class Rise:
    """Evidence of rises; `evidence` and `usual` are `(n,)`, nats, 0 for series without a line in the window or of which nothing is judged yet."""

    evidence: Floats
    usual: Floats

    def is_at_least(self, nats: float, more: Floats | float) -> Bools:
        """Which rises reach so many nats, and so much `more`, and are greater than is usual, `(n,)`."""
        return np.asarray(self.evidence - more >= np.maximum(nats, GROWTH * self.usual))


def evidence(s: Floats, lines: Floats, windows: Floats) -> Floats:
    """e_k of so many windows with a line among so many `windows`, both `(factors, n)`; of states as `COLUMNS`."""
    a, b = s[SUM] + PRIOR_SUM, s[WINDOWS] + PRIOR_WINDOWS
    out: Floats = lines * LOG_FACTORS - (a + lines) * np.log((b + FACTORS * windows) / (b + windows))
    return out


def step(s: Floats, rows: Ints, windows: Floats, now: int, window_seconds: float, held: Bools) -> Rise:
    """Learn a window in place in `s`; answers how certain it is that lines come more often than usual.

    Parameters
    ----------
    s
        States as `COLUMNS`, `(columns, n)`.
    rows
        Series with lines in the window that are taught, `(m,)`.
    windows
        Windows of each series so far, with this one, `(n,)`.
    now
        End of the window, epoch ms.
    window_seconds
        Its length.
    held
        Which series have an episode about something else, `(n,)`: their lines are no rise.
    """
    out = Rise(np.zeros(s.shape[1]), np.zeros(s.shape[1]))
    if not len(rows):
        return out
    own, before, held = s[:, rows], windows[rows] - 1, held[rows]
    day = 3600 * DAY_HOURS / window_seconds
    own[FIRST, own[FIRST] == 0] = now
    passed, age = before - own[BEGUN], (now - own[FIRST]) / (1000 * window_seconds)
    over = evidence(own, own[LINES], passed) <= 0  # so it is without lines
    ends = over[0] | held | (passed[0] >= day) | ((age >= day) & (age - passed[0] < day))
    at = np.flatnonzero(ends)
    if len(at):
        own[:, at] = _learnt(own[:, at], before[at], window_seconds)
        over |= ends
    own[LINES] = np.where(over, 1.0, own[LINES] + 1)
    own[BEGUN] = np.where(over, before, own[BEGUN])
    found = evidence(own, own[LINES], before + 1 - own[BEGUN]).max(axis=0) - LOG_FACTORS_TRIED
    found[held] = 0.0
    own[HIGHEST] = np.maximum(own[HIGHEST], found)
    s[:, rows] = own
    out.evidence[rows] = found * (age >= day)
    out.usual[rows] = own[USUAL]
    return out


def _learnt(s: Floats, windows: Floats, window_seconds: float) -> Floats:
    """States whose rise is over after so many windows, and learnt."""
    gap = windows - s[KNOWN]
    left = np.exp2(-gap * window_seconds / (3600 * MEMORY_HOURS))
    s[SUM] = s[SUM] * left + s[LINES][0]
    s[WINDOWS] = s[WINDOWS] * left + gap
    s[USUAL] = np.maximum(s[USUAL] * left, s[HIGHEST])
    s[HIGHEST], s[KNOWN] = 0.0, windows
    return s


def describe(s: Floats, windows: float) -> tuple[float, float, float, float]:
    """The rise of one series after so many windows: windows with a line, windows, and those of the rate that is usual.

    It is that of the factor with more evidence; `s` is its state, `(columns,)`.
    """
    passed = windows - s[BEGUN]
    best = int(np.argmax(evidence(s[:, None], s[LINES][:, None], passed[:, None])[:, 0]))
    return (
        float(s[LINES][best]),
        max(float(passed[best]), 1.0),
        float(s[SUM]) + PRIOR_SUM,
        float(s[WINDOWS]) + PRIOR_WINDOWS,
    )


def adopt(s: Floats, row: int, mean: float, windows: float, window_seconds: float) -> None:
    """Make `mean` lines a window the usual rate of a series that has had so many windows, as if known for a day; a rise may begin anew."""
    day = 3600 * DAY_HOURS / window_seconds
    s[SUM, row], s[WINDOWS, row], s[KNOWN, row] = -np.expm1(-mean) * day, day, windows
    s[HIGHEST, row], s[LINES, row] = 0.0, 0.0


def end_rise(s: Floats, row: int) -> None:
    """End the rise of one series: what it was is learnt, and another one begins with the next line."""
    s[SUM, row] += s[LINES, row][0]
    s[LINES, row] = 0.0


def combine_states(s: Floats, windows: float) -> Floats:
    """State of the sum of series that were one all along and have had so many windows, `(columns,)`: no rise goes on; `s` is `(columns, n)`."""
    out = np.zeros(len(COLUMNS))
    out[SUM], out[WINDOWS] = s[SUM].sum() + s[LINES][0].sum(), s[WINDOWS].max()
    out[USUAL] = np.maximum(s[USUAL], s[HIGHEST]).max()
    out[FIRST] = s[FIRST].min()
    out[KNOWN], out[BEGUN] = windows, windows
    return out
