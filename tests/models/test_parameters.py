"""Settings are checked on construction."""

from typing import Any

import pytest

from models.parameters import Parameters


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("window_seconds", 0),
        ("spread_half_life_hours", -1),
        ("outlier_share", 1.0),
        ("alarm_chance", 1.0),
        ("quiet_windows", 0),
        ("spike_nats", float("nan")),
        ("patience_minutes", 5),
    ],
)
def test_a_number_out_of_range_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        Parameters(**{name: value})


def test_a_time_holds_so_many_windows() -> None:
    assert Parameters(window_seconds=20).windows(minutes=1, hours=1) == 183
