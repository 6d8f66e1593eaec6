"""Many tables through one detector of a shard: a step of 150 series takes hardly longer than one of a single series.

Each table is a host, so its answers are those it has alone, to the bit: nothing of a series depends on another host. Tables whose
rows are as far apart share a detector, as the length of a window is a parameter of it. Each table is put on the clock of the
others so that as many rows as possible fall into the same windows,

    by whole weeks                  hours of the day and weekdays stay as they are
    by less than a row's distance   where every row stays in its hour, as nothing else of a time matters but distances

A window in which a table has no row is one of other hosts. Its host counts as silent there, which changes no score of a metric.
Only a gap longer than `forget_days` (14) may be noticed an hour earlier than alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from models.core.arrays import Floats, Ints
from models.core.parameters import DetectorParameters
from models.core.windows import Scores
from models.detection.detector import ShardDetector
from models.detection.host_score import HostParameters
from models.detection.table_score import TableScorer, make_detector, one_point_window
from models.records.records import EpisodeEvent

WEEK_MS, HOUR_MS = 604_800_000.0, 3_600_000.0
FIELDS = tuple(Scores.__dataclass_fields__)


@dataclass(frozen=True)
class TimedTable:
    """Rows of a table: `times` `(rows,)`, epoch ms, rising, `period` seconds apart as a rule; `values` `(rows, metrics)`.

    `host` says whether its metrics are joined to the score of a host.
    """

    name: str
    period: float
    times: Floats
    values: Floats
    host: bool


@dataclass(frozen=True)
class TableAnswers:
    """The answers to all rows of a table.

    Attributes
    ----------
    score
        Anomaly score of each row, nats, `(rows,)`; NaN where not known.
    changes
        When each announced change of state began, epoch ms.
    alerts
        1 in the rows in which something novel begins, as `kappa score` writes in its column `novelty`, 0 in the others, `(rows,)`.
    """

    score: Floats
    changes: list[int]
    alerts: Ints


def answers_of(
    tables: Sequence[TimedTable], parameters: DetectorParameters, joined: HostParameters | None = None
) -> list[TableAnswers]:
    """The answers to all tables, in their order; `parameters` but for the length of a window, which is that of each table."""
    answers: dict[int, TableAnswers] = {}
    kinds = sorted({(table.period, table.host) for table in tables})
    for period, host in kinds:
        places = [i for i, table in enumerate(tables) if (table.period, table.host) == (period, host)]
        own = replace(parameters, window_seconds=period)
        found = _stepped([tables[i] for i in places], own, joined, host=host)
        answers |= dict(zip(places, found, strict=True))
    return [answers[i] for i in range(len(tables))]


def _stepped(
    tables: Sequence[TimedTable], p: DetectorParameters, joined: HostParameters | None, *, host: bool
) -> list[TableAnswers]:
    """The same of tables whose rows are as far apart, by one detector."""
    detector, names = make_detector(p, host=host), [f"t{i:06d}" for i in range(len(tables))]
    scorers = [_scorer(table, name, p, detector, joined) for table, name in zip(tables, names, strict=True)]
    shifts = [shift(table.times, table.period, tables[0].times[0]) for table in tables]
    scores = [np.full(len(table.times), np.nan) for table in tables]
    alerts = [np.zeros(len(table.times), np.int64) for table in tables]
    changes: list[list[int]] = [[] for _ in tables]
    for now, rows in common_windows([table.times - by for table, by in zip(tables, shifts, strict=True)]):
        there = [(i, row, *scorers[i].row(tables[i].values[row])) for i, row in rows]
        there = [one for one in there if len(one[2])]
        if not there:
            continue
        series, values = (np.concatenate([one[k] for one in there]) for k in (2, 3))
        found, events = detector.step(now, one_point_window(series, values))
        own = events_by_host(events)
        end = 0
        for i, row, some, _, at in there:
            begin, end = end, end + len(some)
            part = found if len(there) == 1 else Scores(*(getattr(found, name)[begin:end] for name in FIELDS))
            answer = scorers[i].answer(now, part, at, own.get(names[i], ()))
            scores[i][row], alerts[i][row] = answer.anomaly_score, answer.novelty
            if answer.novelty and answer.kind == "change":
                changes[i].append(int(answer.since + shifts[i]))
    return [TableAnswers(*one) for one in zip(scores, changes, alerts, strict=True)]


def _scorer(
    table: TimedTable, name: str, p: DetectorParameters, detector: ShardDetector, joined: HostParameters | None
) -> TableScorer:
    metrics = [f"m{k:04d}" for k in range(table.values.shape[1])]
    return TableScorer(metrics, p, host=table.host, joined=joined, table=name, detector=detector)


def events_by_host(events: Iterable[EpisodeEvent]) -> dict[str, tuple[EpisodeEvent, ...]]:
    """The events about metrics, by host."""
    found: dict[str, tuple[EpisodeEvent, ...]] = {}
    for event in events:
        kind, host, *_ = event.series.split("/")
        if kind == "gauge":
            found[host] = (*found.get(host, ()), event)
    return found


def common_windows(times: Sequence[Floats]) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """Each time of any table, in order, and the tables and rows that have it; `times` `(rows,)` rise in each table."""
    table: Ints = np.repeat(np.arange(len(times)), [len(one) for one in times])
    row: Ints = np.concatenate([np.arange(len(one)) for one in times])
    every = np.concatenate(times).astype(np.int64)
    order = np.lexsort((table, every))
    ends = np.flatnonzero(np.diff(every[order], append=np.iinfo(np.int64).max))
    begin = 0
    for end in (ends + 1).tolist():
        chosen = order[begin:end]
        yield int(every[chosen[0]]), list(zip(table[chosen].tolist(), row[chosen].tolist(), strict=True))
        begin = end


def shift(times: Floats, period: float, anchor: float) -> float:
    """How many ms earlier a table is taken to be: whole weeks, then onto the raster of its rows if all stay in their hours."""
    weeks = WEEK_MS * np.round((times[0] - anchor) / WEEK_MS)
    phases, often = np.unique(times % (1000 * period), return_counts=True)
    phase = phases[often.argmax()]
    stays = np.array_equal(times // HOUR_MS, (times - phase) // HOUR_MS)
    return float(weeks + (phase if stays else 0.0))
