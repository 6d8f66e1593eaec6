"""Values far beyond all that a series has been: the probability against its closed form, and what the model makes of it."""

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
