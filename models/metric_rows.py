"""The table of metrics beside the univariate state: a row for each gauge and counter.

seen, host_window         the last window with a row, ms, and the windows that its host had had then
present_*                 how often and for how long it is absent: see `habits`, `silence`
total, total_seen         the last total of a counter, and when
lowest                    the least value that there has been, at most 0
loud_since                begin of the run of loud windows, ms; 0 outside of one
repeat_since              begin of the run of windows with one exact value, ms
repeat_evidence, repeat_* what the run has gathered, and how long such runs are: see `repeats`, `habits`
"""

from __future__ import annotations

COLUMNS = (
    "seen",
    "host_window",
    "present_trials",
    "present_begun",
    "present_asked",
    "present_stayed",
    "total",
    "total_seen",
    "lowest",
    "loud_since",
    "repeat_since",
    "repeat_evidence",
    "repeat_trials",
    "repeat_begun",
    "repeat_asked",
    "repeat_stayed",
)
SEEN, HOST_WINDOW = 0, 1
PRESENT = slice(2, 6)
TOTAL, TOTAL_SEEN, LOWEST, LOUD_SINCE, REPEAT_SINCE, REPEAT_EVIDENCE = range(6, 12)
REPEAT = slice(12, 16)
