"""The reference distribution: joined scores as probabilities in normal data."""

import numpy as np
import pytest

from models.core.arrays import Floats
from models.core.parameters import DetectorParameters
from models.core.windows import Windows
from models.detection.detector import ShardDetector
from models.incidents.correlator import Correlator
from models.incidents.parameters import CorrelationParameters
from models.stats import reference_distribution

BEGIN, ROW_SECONDS = 1_767_571_200_000, 300


def test_surprisals_are_those_of_the_quantiles_and_rise_beyond_them() -> None:
    assert reference_distribution.surprisal(np.array(reference_distribution.QUANTILES)) == pytest.approx(
        reference_distribution.SURPRISALS
    )
    beyond = reference_distribution.surprisal(np.linspace(0, 20, 500))
    assert (np.diff(beyond) > 0).all()


def test_what_is_not_known_stays_so() -> None:
    assert np.isnan(reference_distribution.surprisal(np.array([np.nan, 1.0]))).tolist() == [True, False]


def test_the_same_score_is_less_rare_in_a_young_series() -> None:
    nats = reference_distribution.surprisal(np.array([2.0, 2.0, 2.0]), np.array([5.0, 20.0, 60.0]))
    assert (np.diff(nats) > 0).all()
    assert nats[-1] == pytest.approx(float(reference_distribution.surprisal(np.array(2.0))), rel=2e-3)


def test_a_few_blocks_of_windows_of_seconds_are_hardly_discounted() -> None:
    of_rows, of_windows = (
        float(reference_distribution.surprisal(np.array(2.0), 5.0, seconds)) for seconds in (300.0, 10.0)
    )
    assert of_windows == pytest.approx(float(reference_distribution.surprisal(np.array(2.0))), rel=0.06)
    assert of_rows < of_windows / 1.2


def fleet(values: Floats, p: DetectorParameters, budget: float) -> tuple[int, int]:
    """Episodes opened, and incidents published, of normal series `(rows, n)`."""
    n = values.shape[1]
    names = np.array([f"gauge/h{i % 20:02}//m{i // 20:02}" for i in range(n)], dtype=object)
    order, none, one = np.argsort(names), np.full(n, None, dtype=object), np.ones(n, int)
    detector, correlator = ShardDetector(p), Correlator(CorrelationParameters(false_alarms_per_day=budget))
    opened = published = 0
    for row, x in enumerate(values[:, order], 1):
        now = BEGIN + 1000 * ROW_SECONDS * row
        _, events = detector.step(now, Windows(names[order], one, x, np.zeros(n), x, x, x, none, none))
        opened += sum(k.status == "open" and k.kind != "change" for k in events)
        found = correlator.step(now, events, detector.watched)
        published += sum(incident.status == "open" for incident in found)
    return opened, published


@pytest.mark.slow
def test_a_young_fleet_of_noise_has_the_promised_number_of_false_alarms() -> None:
    rows, n = 300, 400
    p = DetectorParameters(window_seconds=ROW_SECONDS)
    opened, _ = fleet(np.random.default_rng(5).normal(20, 1, (rows, n)), p, 1.0)
    promised = n * rows * ROW_SECONDS / 3600 * p.alarm_chance
    assert promised / 5 < opened < 2 * promised  # on its first day a series is not judged by its rhythm


def waves(seed: int, rows: int, n: int) -> Floats:
    """Normal series that wander over minutes to hours, as loads do, `(rows, n)`."""
    rng = np.random.default_rng(seed)
    keep, out, state = rng.choice([0.5, 0.9, 0.97], n), np.empty((rows, n)), rng.normal(size=n)
    for row in range(rows):
        state = keep * state + np.sqrt(1 - keep**2) * rng.normal(size=n)
        out[row] = 50 + 5 * state + rng.normal(size=n)
    return out


@pytest.mark.slow
def test_incidents_of_a_normal_fleet_keep_to_the_budget_however_many_episodes_open() -> None:
    rows, budget = 432, 12.0
    opened, published = fleet(
        waves(6, rows, 200), DetectorParameters(window_seconds=ROW_SECONDS, alarm_chance=0.5), budget
    )
    assert opened > 150
    # half of the budget is kept for what is published about whole hosts
    assert published < 2 * budget / 2 * rows * ROW_SECONDS / 86_400


def test_nats_for_another_reason_are_discounted_alike_in_a_young_series() -> None:
    score, blocks = np.array([1.0, 1.0, 4.0]), np.array([np.inf, 5.0, np.inf])
    found = reference_distribution.surprisal(score, blocks, at_least=np.array([9.0, 9.0, 9.0]))
    alone = reference_distribution.surprisal(score, blocks)
    assert found[0] == 9.0
    assert found[1] / 9.0 == pytest.approx(alone[1] / alone[0])
    assert found[2] == alone[2] > 9.0
