"""Curves of series whose scores are not indexed: `kappa dashboard` reads them from the topic `scores` when they are looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pandas as pd
import streamlit as st

from dashboards.queries.deployment import ask
from dashboards.queries.frames import frame_of, moment
from dashboards.queries.search import Span
from dashboards.queries.series import POINT

SECONDS = 2.0  # of reading, where nobody asked for more
AT_ONCE = 50  # series in one question
MORE_SECONDS = 15.0  # besides the reading: others may have asked before
KEPT_SECONDS = 60  # an answer, for all who look at the same
STEP = timedelta(seconds=10)


@dataclass(frozen=True)
class Curves:
    """A frame for each series that has scores, columns of POINT. Of all that was wanted the `share` was read; all takes about `seconds`."""

    points: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    share: float = 1.0
    seconds: float = 0.0

    @property
    def complete(self) -> bool:
        """Whether nothing was left out."""
        return self.share >= 1


def curves(version: str, series: Sequence[str], span: Span, focus: datetime, seconds: float = SECONDS) -> Curves:
    """Curves of series in a span, read in about so many seconds; what is far from the focus is left out where that is too little.

    Raises Unanswered.
    """
    since, until = rounded(span)
    middle = min(max(int(focus.timestamp() * 1000), since), until) if focus < span.end else until
    return kept(version, tuple(series[:AT_ONCE]), since, until, middle, seconds)


def rounded(span: Span) -> tuple[int, int]:
    """The span in epoch ms, on a grid: what is asked for again within a few seconds is the same question."""
    step = max(int(STEP.total_seconds() * 1000), int(span.length.total_seconds() * 1000) // 60)
    return int(span.start.timestamp() * 1000) // step * step, -int(-span.end.timestamp() * 1000 // step) * step


@st.cache_data(show_spinner=False, ttl=KEPT_SECONDS, max_entries=64)
def kept(version: str, series: tuple[str, ...], since: int, until: int, focus: int, seconds: float) -> Curves:
    """An answer, kept for a while."""
    question = {
        "version": version,
        "series": series,
        "since": since,
        "until": until,
        "focus": focus,
        "seconds": seconds,
    }
    found = ask("scores", question, seconds + MORE_SECONDS)
    points = {
        name: frame_of([{**one, "time": moment(one["time"])} for one in rows], POINT)
        for name, rows in found["series"].items()
    }
    return Curves(points, found["records"] / found["wanted"] if found["wanted"] else 1.0, found["seconds"])
