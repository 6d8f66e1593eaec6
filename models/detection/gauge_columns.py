"""The columns of a shard's table of metrics, which has a row for each gauge and counter beside the univariate state.

    seen                   end of the last window with a row, ms
    host_window            number of windows that the host had had then
    present_*              run lengths of absence (`run_length`), see `silence`
    total                  last total of a counter
    negative               1 if there has been a value below 0
    alert_seconds          length of the run of windows above the alert threshold; 0 outside a run
    alert_excess_nats      sum over that run of surprise above the threshold
    repeat_seconds         length of the run of windows with exactly the same value
    repeat_evidence        surprise of that run
    repeat_*               run lengths of repeated values (`run_length`)
    longest_repeat_seconds the longest of these runs that have ended, decayed
    alert_typical, _lower, _upper
                           what was expected of the first window of the run above the alert threshold: the model learns from the
                           windows of the run, so that later intervals are wider
    alert_farthest, alert_second
                           largest and second largest distance of the run's values from that, in widths of the interval
    alert_score            greatest surprise of the run's windows under the series' own calibration; all six are of the run that goes on

The state is dumped with every window, so most columns have single precision, in memory too: a state that was dumped and
loaded goes on bit for bit.
"""

from __future__ import annotations

COLUMN_TYPES = {
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
    "longest_repeat_seconds": "f4",
    "alert_typical": "f4",
    "alert_lower": "f4",
    "alert_upper": "f4",
    "alert_farthest": "f4",
    "alert_second": "f4",
    "alert_score": "f4",
}
COLUMNS = tuple(COLUMN_TYPES)
SEEN, HOST_WINDOW = 0, 1
PRESENT = slice(2, 6)
TOTAL, NEGATIVE, ALERT_SECONDS, ALERT_EXCESS_NATS, REPEAT_SECONDS, REPEAT_EVIDENCE = range(6, 12)
REPEAT = slice(12, 16)
LONGEST_REPEAT_SECONDS = 16
ALERT_EXPECTED = slice(17, 20)  # typical, lower, upper
ALERT_FARTHEST, ALERT_SECOND, ALERT_SCORE = 20, 21, 22
SINGLE = [column for column, kind in enumerate(COLUMN_TYPES.values()) if kind == "f4"]
