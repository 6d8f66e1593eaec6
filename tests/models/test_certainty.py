"""How sure: against the bound that it is, and at its ends."""

import math

import numpy as np
import pytest
from scipy import optimize, stats

from models.detection.episodes import PRIOR, certainty


@pytest.mark.parametrize("nats", [2.0, 8.0, 14.0, 25.0])
def test_no_alternative_that_makes_small_probabilities_likelier_is_surer(nats: float) -> None:
    p = math.exp(-nats)
    # Alternatives: the p-value is Beta(x, 1) with x < 1. Chance: it is uniform, density 1.
    found = optimize.minimize_scalar(lambda x: -stats.beta.logpdf(p, x, 1), bounds=(1e-4, 1), method="bounded")
    likeliest = math.exp(-found.fun)
    assert certainty(nats) == pytest.approx(PRIOR * likeliest / (PRIOR * likeliest + 1 - PRIOR), rel=1e-4)


def test_more_evidence_is_surer_and_never_beyond_one() -> None:
    found = [certainty(s) for s in np.linspace(0, 800, 4001)]
    assert found == sorted(found)
    assert found[0] == pytest.approx(PRIOR)
    assert found[-1] == 1.0


def test_what_is_not_known_is_not_sure() -> None:
    assert math.isnan(certainty(math.nan))
