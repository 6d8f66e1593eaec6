"""Values and levels far beyond all that a series has been: their probability against closed forms, and what the model makes of them."""

import numpy as np
import pytest

from models.core.parameters import DetectorParameters
from models.detection.online import Detector
from models.stats import farthest

BLOCKS, DRAWS = 30, 40_000
Floats = np.ndarray


def exceeded(share: float, times: float) -> tuple[float, float]:
    """How often the block after `BLOCKS` is `times` as far as all of them, and how often `surprisal` says so, 1 in `exp(nats)`.

    Blocks are Pareto-distributed with the index that is assumed; all but a `share` of them are a thousandth as far, without bursts.
    """
    rng = np.random.default_rng(5)
    far = rng.pareto(farthest.POWER, (DRAWS, BLOCKS + 1)) + 1.0
    far = np.where(rng.random(far.shape) < share, far, 1e-3)
    before = far[:, :-1].max(axis=1)
    chance = np.exp(-farthest.surprisal(times * before, np.full(DRAWS, float(BLOCKS)), farthest.grades(before)))
    return float((far[:, -1] > times * before).mean()), float(chance.mean())


@pytest.mark.parametrize("times", [2.0, 5.0])
def test_its_chance_is_that_of_a_power_law(times: float) -> None:
    really, stated = exceeded(1.0, times)
    assert stated / 2.5 < really < stated  # the farthest is known by the end of its grade


@pytest.mark.parametrize("share", [0.3, 0.6])
def test_with_bursts_in_a_part_of_the_blocks_it_is_no_more(share: float) -> None:
    really, stated = exceeded(share, 3.0)
    assert 0 < really < 1.05 * stated


def test_a_grade_is_no_less_than_what_it_holds_and_less_than_half_more() -> None:
    distances = 10.0 ** np.random.default_rng(1).uniform(-26, 17, 10_000)
    ends = farthest.NEAREST * np.exp(farthest.WIDTH * farthest.grades(distances))
    assert (distances <= ends * (1 + 1e-9)).all()
    assert (ends < 1.5 * distances).all()
    assert farthest.grades(np.array([0.0, farthest.NEAREST, 1e300])).tolist() == [0, 0, farthest.LAST]


def bursts(seconds: float, hours: int) -> Floats:
    """A count of errors that is 0, but for a burst of half a minute to some minutes in every third hour, up to 4."""
    rng, rows = np.random.default_rng(9), int(3600 * hours / seconds)
    x = np.zeros(rows)
    for hour in range(1, hours, 3):
        first = int((hour + 0.2) * 3600 / seconds)
        x[first : first + rng.integers(3, 20)] = rng.uniform(2, 4)
    return x


@pytest.mark.parametrize("seconds", [10.0, 60.0])
def test_a_thousand_times_as_far_as_ever_is_novel_however_often_there_were_bursts(seconds: float) -> None:
    x = bursts(seconds, 18)
    found = {}
    for times in (1.0, 1000.0):
        detector = Detector(window_seconds=seconds)
        end = np.full(round(max(60.0, 3 * seconds) / seconds), 4 * times)
        rows = np.concatenate([x, end])
        answers = detector.detect_many((seconds * (k + 1), float(value)) for k, value in enumerate(rows))
        found[times] = [one for one in answers[len(x) :] if one.novelty]
    alert = DetectorParameters(window_seconds=seconds).alert_nats
    assert found[1.0] == []
    assert [one.kind for one in found[1000.0]] == ["anomaly"]
    assert found[1000.0][0].score > alert


@pytest.mark.parametrize("times", [2.0, 3.0])
def test_the_chance_of_a_level_that_lasts_is_that_of_three_rows_with_a_power_law(times: float) -> None:
    """The least of three independent Pareto rows has three times their index."""
    rng, exceeded_in = np.random.default_rng(6), []
    for _ in range(20):  # a part at a time, as all draws would be 600 MB
        levels = (rng.pareto(farthest.POWER, (3, DRAWS, BLOCKS + 1)) + 1.0).min(axis=0)
        exceeded_in.append((levels[:, -1] > times * levels[:, :-1].max(axis=1)).mean())
    really = float(np.mean(exceeded_in))
    stated = float(np.exp(-farthest.lasting_surprisal(np.array([times]), np.array([float(BLOCKS)])))[0])
    of_records = times**-farthest.LASTING_POWER / (BLOCKS + 1)
    assert 0.5 * of_records < really < 1.5 * of_records
    assert really < stated  # it counts from `FARTHER` on as if that were the record


def spiky(seconds: float, days: float) -> Floats:
    """A latency of about 20, in which one row in each 25 minutes is a spike of 80 to 160."""
    rng, rows = np.random.default_rng(3), int(86_400 * days / seconds)
    x = 20 * np.exp(0.2 * rng.normal(size=rows))
    spikes = rng.choice(rows, int(days * 58), replace=False)
    x[spikes] = rng.uniform(80, 160, len(spikes))
    return x


@pytest.mark.parametrize("seconds", [10.0, 60.0])
def test_a_level_as_high_as_spikes_that_were_single_rows_is_novel(seconds: float) -> None:
    """Each of its rows has a precedent. Together they have none."""
    x = spiky(seconds, 2.5)
    end = 120 * np.exp(0.2 * np.random.default_rng(4).normal(size=round(360 / seconds)))
    rows = np.concatenate([x, end])
    answers = Detector(window_seconds=seconds).detect_many(
        (seconds * (k + 1), float(one)) for k, one in enumerate(rows)
    )
    found = [k for k, one in enumerate(answers[len(x) :]) if one.novelty]
    assert len(found) == 1
    assert found[0] < 12
    assert answers[len(x) + found[0]].kind == "anomaly"


def test_rows_of_nonsense_hide_no_level_that_lasts() -> None:
    x = spiky(10.0, 2.5)
    x[[len(x) // 2, len(x) // 2 + 9]] = 4_294_967_295.0
    rows = np.concatenate([x, np.full(36, 120.0)])
    answers = Detector(window_seconds=10.0).detect_many((10.0 * (k + 1), float(one)) for k, one in enumerate(rows))
    assert any(one.novelty for one in answers[len(x) : len(x) + 12])


def test_what_grows_slowly_has_new_levels_and_none_is_novel() -> None:
    rng, rows = np.random.default_rng(7), 5 * 1440
    x = 40 + 0.005 * np.arange(rows) + 0.2 * rng.normal(size=rows)
    answers = Detector(window_seconds=60.0).detect_many((60.0 * (k + 1), float(one)) for k, one in enumerate(x))
    assert not any(one.novelty for one in answers[1440:])
