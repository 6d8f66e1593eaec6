"""Times as whoever sits at the terminal reads them."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from app.cli.local_time import clock, local, moment

NOON = 1_795_262_400_000  # 2026-11-21 12:00:00 UTC
VIENNA, AUCKLAND = ZoneInfo("Europe/Vienna"), ZoneInfo("Pacific/Auckland")


def test_a_moment_names_its_zone() -> None:
    assert [moment(NOON, zone) for zone in (UTC, VIENNA)] == ["11-21 12:00:00 UTC", "11-21 13:00:00 CET"]


@pytest.mark.parametrize(("zone", "text"), [(VIENNA, "11:00:00"), (AUCKLAND, "11-21 23:00:00")])
def test_a_time_of_day_has_its_date_where_that_is_another_one_there(zone: ZoneInfo, text: str) -> None:
    assert clock(NOON - 2 * 3_600_000, NOON, zone) == text


def test_without_a_zone_it_is_that_of_the_terminal() -> None:
    assert local(NOON) == datetime(2026, 11, 21, 12, tzinfo=UTC)
    assert local(NOON).utcoffset() == datetime(2026, 11, 21, 12, tzinfo=UTC).astimezone().utcoffset()
