"""The table of metrics beside the univariate state: a row for each gauge and counter.

seen, host_window           the last window with a row, ms, and the windows that its host had had then
present_*                   how often and for how long it is absent: see `habits`, `silence`
total                       the last total of a counter
negative                    1 if there has been a value below 0
alert_seconds, alert_excess_nats     length of the run of loud windows, 0 outside of one; what it is above the threshold in all
repeat_seconds              length of the run of windows with one exact value
repeat_evidence, repeat_*   what the run has gathered, and how long such runs are: see `repeats`, `habits`

A dump of a state is written with every window, so most columns are kept in single precision, in memory too: a state that
is loaded goes on to the bit.
"""

from __future__ import annotations

import numpy as np

from models.core.arrays import Floats

KINDS = {
    "seen": "f8",
    "host_window": "u4",
    "present_trials": "f4",
    "present_begun": "f4",
    "present_asked": "f4",
    "present_stayed": "f4",
    "total": "f8",
    "negative": "f4",
    "alert_seconds": "f4",
    "alert_excess_nats": "f4",
    "repeat_seconds": "f4",
    "repeat_evidence": "f4",
    "repeat_trials": "f4",
    "repeat_begun": "f4",
    "repeat_asked": "f4",
    "repeat_stayed": "f4",
}
COLUMNS = tuple(KINDS)
SEEN, HOST_WINDOW = 0, 1
PRESENT = slice(2, 6)
TOTAL, NEGATIVE, ALERT_SECONDS, ALERT_EXCESS_NATS, REPEAT_SECONDS, REPEAT_EVIDENCE = range(6, 12)
REPEAT = slice(12, 16)
SINGLE = [column for column, kind in enumerate(KINDS.values()) if kind == "f4"]


def round_off(s: Floats) -> None:
    """Round what is kept in single precision, in place; `s` is `(columns, n)`."""
    s[SINGLE] = s[SINGLE].astype(np.float32)
