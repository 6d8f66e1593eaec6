"""Settings are checked on construction."""

import math
from typing import Any

import pytest

from models.core.parameters import DetectorParameters


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("window_seconds", 0),
        ("spread_half_life_hours", -1),
        ("outlier_share", 1.0),
        ("alarm_chance", 1.0),
        ("clear_windows", 0),
        ("spike_nats", float("nan")),
        ("patience_minutes", 5),
    ],
)
def test_a_number_out_of_range_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        DetectorParameters(**{name: value})


def test_a_time_holds_so_many_windows() -> None:
    assert DetectorParameters(window_seconds=20).windows(minutes=1, hours=1) == 183


def test_the_threshold_of_metrics_is_a_probability_of_an_hour() -> None:
    assert DetectorParameters(alarm_chance=0.36).alert_nats == pytest.approx(-math.log(1e-3))
    assert DetectorParameters(window_seconds=60).alert_nats == pytest.approx(
        DetectorParameters().alert_nats - math.log(6)
    )
    assert DetectorParameters(window_seconds=3600).alert_nats == DetectorParameters(window_seconds=300).alert_nats


def test_a_new_normal_takes_as_many_windows_where_they_are_long() -> None:
    assert DetectorParameters().adoption_seconds(10) == 600
    assert DetectorParameters(window_seconds=5).adoption_seconds(10) == 600
    assert DetectorParameters(window_seconds=300).adoption_seconds(10) == 60 * 300
