"""Joined scores as probabilities."""

import numpy as np
import pytest

from models import calibration


def test_nats_are_those_of_the_law_and_rise_beyond_it() -> None:
    assert calibration.nats(np.array(calibration.LAW)) == pytest.approx(calibration.NATS)
    beyond = calibration.nats(np.linspace(0, 20, 500))
    assert (np.diff(beyond) > 0).all()


def test_what_is_not_known_stays_so() -> None:
    assert np.isnan(calibration.nats(np.array([np.nan, 1.0]))).tolist() == [True, False]
