"""Lines that are judged by their place in the source: how they are read from a log, which count, and which places are one."""

from __future__ import annotations

from benchmarks.programs import BEFORE_PLACE, END, MOST, Located, figures, judged, located


def lines(place: str, *messages: str) -> list[Located]:
    return [Located(f"2026-01-05 10:00:03,123 INFO [main] Shop: {one}", one, place) for one in messages]


def test_a_log_is_cut_into_lines_and_their_places() -> None:
    written = (
        f"2026-01-05 10:00:03,123 INFO [main] Shop: sold: 3{BEFORE_PLACE}a.Shop:12{END}\n"
        f"2026-01-05 10:00:04,123 WARN [main] Shop: failed\nat a.Shop{BEFORE_PLACE}a.Shop:14{END}\n"
        f"2026-01-05 10:00:05,123 INFO [main] Shop: who?{BEFORE_PLACE}kafka.utils.Logging:66{END}\n"
    )
    assert [(one.message, one.place) for one in located(written)] == [("sold: 3", "a.Shop:12"), ("failed", "a.Shop:14")]


def test_what_a_place_passes_through_does_not_count() -> None:
    kept, labels = judged(lines("a:1", "sold 3", "closed") + lines("b:1", "open", "open again"))
    assert {one.place for one in kept} == set(labels) == {"b:1"}


def test_places_that_wrote_the_same_text_are_one() -> None:
    every = (
        lines("a:1", "sold 3", "sold out") + lines("b:1", "sold 4") + lines("c:1", "sold out") + lines("d:1", "sold at")
    )
    _, labels = judged(every)
    assert len(set(labels)) == 2
    assert len(set(labels[:4])) == 1


def test_a_place_that_writes_all_the_time_counts_so_often_only() -> None:
    kept, _ = judged(lines("a:1", *(f"sold {i}" for i in range(MOST + 9))))
    assert len(kept) == MOST


def test_templates_that_are_those_of_their_places_are_all_right() -> None:
    found = figures(lines("a:1", "sold 3", "sold 4") + lines("b:1", "shop closed") + lines("c:1", "x", "y"))
    assert found == {"lines": 3, "places": 2, "left_out": 2, "masks": (1.0, 1.0), "merged": (1.0, 1.0)}
