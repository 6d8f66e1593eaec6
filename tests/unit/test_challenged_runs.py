"""A challenger in the jobs, without Spark: live state as it is stored, and a bounded run in pieces, come to the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.savepoint_stories import QUICK, START, WINDOW, story

from models.core.parameters import DetectorParameters
from models.core.windows import Windows
from models.detection.detector import ShardDetector
from models.records.records import PEERS
from pipelines.jobs import detect
from pipelines.jobs.detect import Begin
from pipelines.jobs.detect_bounded import BoundedRun, make_partition_function
from pipelines.state.state_packing import pack_parts, unpack_parts

RIVER = dataclasses.replace(
    QUICK, challenger="river.anomaly.HalfSpaceTrees", challenger_options={"n_trees": 3, "height": 4, "window_size": 20}
)
SKLEARN = dataclasses.replace(
    QUICK, challenger="sklearn.ensemble.IsolationForest", challenger_options={"n_estimators": 3}
)
TOLD = story(0)[:110]
ENDS = tuple(START + WINDOW * k for k in range(1, len(TOLD) + 1))
COLUMNS = ("series", "n", "mean", "m2", "min", "max", "last", "template", "sample")


def frame(window_end: int, rows: Windows) -> pd.DataFrame:
    columns = {name: getattr(rows, name) for name in COLUMNS}
    peers = dict.fromkeys(PEERS, np.nan)
    return pd.DataFrame({"shard": 0, "window_end": window_end, **columns, **peers})


def live(p: DetectorParameters) -> tuple[list[Any], Mapping[str, bytes]]:
    """Scores and episode events, the state being stored and loaded after every 30 windows."""
    stored: dict[str, bytes] = {}
    answers: list[Any] = []
    for first in range(0, len(TOLD), 30):
        detector = ShardDetector.load(unpack_parts(stored), p) if stored else ShardDetector(p)
        for end, rows in list(zip(ENDS, TOLD, strict=True))[first : first + 30]:
            answers += detect.step_window(detector, 0, end, rows, "v", 1)
        stored |= pack_parts(detector.dump(only_changed=bool(stored)))
    return answers, unpack_parts(stored)


def standing(state: tuple[int, Mapping[str, bytes]]) -> Begin:
    """Every shard begins with a state."""
    return lambda shard: state


def bounded(p: DetectorParameters, cut: int) -> tuple[list[pd.DataFrame], Mapping[str, bytes]]:
    """The same in two runs, the second from the state that the first left."""
    answers: list[pd.DataFrame] = []
    state: tuple[int, Mapping[str, bytes]] | None = None
    for first, last in ((0, cut), (cut, len(TOLD))):
        frames = [frame(end, rows) for end, rows in zip(ENDS[first:last], TOLD[first:last], strict=True)]
        work = make_partition_function(
            BoundedRun(ENDS[first:last], p, "v", 1, None if state is None else standing(state))
        )
        rows = pd.concat([part.astype(object) for part in work(iter(frames))], ignore_index=True)
        is_state = rows["part"].notna()
        kept = rows[is_state]
        state = int(kept["done"].iloc[0]), dict(zip(kept["part"], kept["bytes"], strict=True))
        answers.append(rows[~is_state])
    assert state is not None
    return answers, state[1]


@pytest.mark.slow
@pytest.mark.parametrize("p", [RIVER, SKLEARN], ids=["river", "sklearn"])
def test_live_and_bounded_come_to_the_same_scores_and_state(p: DetectorParameters) -> None:
    answers, state = live(p)
    answers, other = bounded(p, 47)
    assert dict(state) == dict(other)
    own = pd.concat([pd.DataFrame(columns).astype(object) for columns in answers], ignore_index=True)
    found = pd.concat(answers, ignore_index=True)[own.columns]
    assert len(found) == len(own) > 500
    for name in own.columns:
        one, two = (["none" if pd.isna(value) else value for value in table[name]] for table in (own, found))
        assert one == two, name
