"""The columns of a shard's tables of hosts and of contexts, which are services of hosts.

first, seen            ends of the first and the last window with a row, ms
windows                number of windows with a row
step                   number of the shard's window that was the last with a row, see `silence`
trials to stayed       run lengths of absence (`run_length`); log_... are those of a host's log, counted in windows with the host
log_seen, log_window   the last window with a line: its end, ms, and its number among the windows with the host
log_longest to log_third
                       the three longest absences of a host's log, windows, which halve each day
refused, refused_delay the end of the last window, ms, in which records were refused for their time, and by how many seconds they were late; negative
                       of records that were ahead of it
away_0 to away_6       a day each, epoch days modulo seven: the hours of it in which the host was away, as bits; log_... its log; see `usual_hours`
away_usual             whether an absence is usual in this hour
lines, rows            lines of logs and rows of metrics of a context, decayed
templates, metrics     how many of either it has had, decayed
mix_...                see `models.stats.template_mixture`
"""

from __future__ import annotations

from models.stats import template_mixture

HOST_COLUMNS = (
    *("first", "seen", "windows", "step", "trials", "begun", "asked", "stayed"),
    *("log_seen", "log_window", "log_trials", "log_begun", "log_asked", "log_stayed"),
    *("log_longest", "log_second", "log_third"),
    *("refused", "refused_delay"),
    *(f"{prefix}away_{name}" for prefix in ("", "log_") for name in (*range(7), "usual")),
)
CONTEXT_COLUMNS = ("first", "seen", "lines", "templates", "rows", "metrics", *template_mixture.CONTEXT_COLUMNS)
HOST_PLACES, CONTEXT_PLACES = ({name: at for at, name in enumerate(names)} for names in (HOST_COLUMNS, CONTEXT_COLUMNS))
HOST_SEEN, WINDOWS, STEP, TRIALS = (HOST_PLACES[name] for name in ("seen", "windows", "step", "trials"))
HOST_RUNS = slice(TRIALS, None)
RUNS = slice(TRIALS, HOST_PLACES["stayed"] + 1)
LOG_RUNS = slice(HOST_PLACES["log_trials"], HOST_PLACES["log_stayed"] + 1)
LOG_GAPS = slice(HOST_PLACES["log_longest"], HOST_PLACES["log_third"] + 1)
CONTEXT_SEEN, LINES, ROWS, METRICS = (CONTEXT_PLACES[name] for name in ("seen", "lines", "rows", "metrics"))
