"""Alarms: one an episode, fewer from those who talk much."""

import numpy as np
import pytest

from models import alarms
from models.alarms import AlarmParameters

HOUR = 3_600_000
START = 1_767_571_200_000


def tell(scores: list[float], p: AlarmParameters, step: int = HOUR) -> list[int]:
    s = alarms.begin(1)
    found = []
    for k, score in enumerate(scores):
        _, alarm = alarms.decide(s, np.array([START + step * k * 1.0]), np.array([score]), p)
        if alarm[0]:
            found.append(k)
    return found


def test_an_episode_alarms_once() -> None:
    assert tell([0, 20, 20, 20, 0, 20, 0, 0, 0, 0, 0, 20], AlarmParameters(quiet_hours=4)) == [1, 11]


def test_the_threshold_is_a_probability() -> None:
    p = AlarmParameters(probability=1e-3)
    assert tell([6.90], p) == []
    assert tell([6.91], p) == [0]


def test_what_is_not_known_is_no_alarm() -> None:
    assert tell([float("nan")] * 3, AlarmParameters()) == []


def test_a_talkative_series_must_be_rarer() -> None:
    scores = ([15.0] + [0.0] * 9) * 20
    free, held = (tell(scores, AlarmParameters(talkative_nats=k)) for k in (0.0, 4.0))
    assert len(free) == 20
    assert 1 <= len(held) <= 5


@pytest.mark.parametrize("bad", [{"probability": 0.0}, {"probability": 1.0}, {"quiet_hours": 0.0}])
def test_parameters_out_of_range_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"wanted|above"):
        AlarmParameters(**bad)
