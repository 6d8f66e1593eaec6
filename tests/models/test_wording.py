"""Numbers of things and lengths of time in sentences."""

from models.core.wording import counted, duration


def test_one_thing_is_in_the_singular() -> None:
    found = [counted(n, "record") for n in (0, 1, 2, 1_234_567)]
    assert found == ["0 records", "1 record", "2 records", "1,234,567 records"]
    assert [counted(n, "index", "indices") for n in (1, 2)] == ["1 index", "2 indices"]
    assert [counted(n, "hour") for n in (0.5, 1.0, 24.0)] == ["0.5 hours", "1 hour", "24 hours"]


def test_times_are_in_the_unit_of_which_there_are_some() -> None:
    seconds = (0, 40, 299, 300, 7_000, 7_200, 9_000, 86_400, 172_800, 200_000, 1_209_600)
    assert [duration(one) for one in seconds] == [
        "0 s",
        "40 s",
        "299 s",
        "5 min",
        "117 min",
        "2 h",
        "2.5 h",
        "24 h",
        "2 days",
        "2.3 days",
        "14 days",
    ]
