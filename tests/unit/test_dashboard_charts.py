"""What charts draw."""

import json
import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import altair as alt
import pandas as pd
import pytest

from dashboards.evidence import did, sentences
from dashboards.lanes import LABEL_PIXELS, drawn, swim_lanes
from dashboards.model_plot import model_plot, score_plot, with_gaps
from dashboards.pipeline import REFUSED_COLOURS
from dashboards.queries import NOVELTY, Span
from dashboards.queries.frames import frame_of
from dashboards.queries.series import POINT
from dashboards.theme import EXPECTED, KIND_STYLES, LEFT, OBSERVED, RIGHT, SURPRISE, Chart
from dashboards.words import expectation_text, explanation_text, percent

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOUR = Span(NOON - timedelta(hours=1), NOON)


def novelty(kind: str, began: int, heard: int, **other: object) -> dict[str, object]:
    """A row of NOVELTY; times in minutes before noon."""
    since, latest = ((NOON - timedelta(minutes=m)).isoformat() for m in (began, heard))
    until = latest if other.get("status") == "close" else None
    row = dict.fromkeys(NOVELTY) | {"host": "vm-1", "series": "gauge/vm-1/web/m", "score": 20.0, "status": "open"}
    return row | {"kind": kind, "since": since, "latest": latest, "until": until} | other


ROWS = frame_of(
    [
        novelty("anomaly", 90, 30, status="close", metric="cpu"),
        novelty("silence", 90, 90, series="host/vm-1"),
        novelty("new", 20, 20, template="lost <*>", level="error"),
        novelty("anomaly", 10, 5, series="logs/vm-1/web/error", level="error", status="close"),
    ],
    NOVELTY,
)


def test_lanes_stay_within_the_span_and_what_is_not_over_reaches_its_end() -> None:
    rows = drawn(ROWS.assign(lane=ROWS["host"]), HOUR, ZoneInfo("UTC"))
    minutes = [[(NOON - row[name]) / timedelta(minutes=1) for name in ("from", "to")] for _, row in rows.iterrows()]
    assert minutes == [[60, 30], [60, 0], [20, 20], [10, 5]]


@pytest.mark.parametrize("micros", [123_000, 123_456, 999_999])
def test_what_began_before_the_span_has_no_mark(micros: int) -> None:
    span = Span(HOUR.start.replace(microsecond=micros), HOUR.end)
    rows = drawn(ROWS.assign(lane=ROWS["host"]), span, ZoneInfo("UTC"))
    (chosen,) = swim_lanes(ROWS, ["vm-1"], span, ZoneInfo("UTC")).spec["layer"][1]["transform"]
    limit = int(chosen["filter"].removeprefix("datum.from > "))
    assert [at.timestamp() * 1000 > limit for at in rows["from"]] == [False, False, True, True]


def test_lanes_say_the_true_times_in_the_zone_and_what_it_is_about() -> None:
    rows = drawn(ROWS.assign(lane=ROWS["host"]), HOUR, ZoneInfo("Asia/Kolkata"))
    assert list(rows["began"])[:2] == ["2026-11-21 16:00:00 IST"] * 2
    assert list(rows["ended"])[:2] == ["2026-11-21 17:00:00 IST", "not over yet"]
    assert list(rows["what"]) == ["cpu", "whole host", "lost <*>", "error lines"]


def test_each_kind_has_a_colour_and_a_shape_of_its_own() -> None:
    colours, shapes = zip(*KIND_STYLES.values(), strict=True)
    assert len(set(colours)) == len(set(shapes)) == len(KIND_STYLES)


def test_chart_is_a_valid_one_with_named_axes() -> None:
    found = swim_lanes(ROWS, ["vm-1"], HOUR, ZoneInfo("Europe/Berlin"))
    bars = found.spec["layer"][0]["encoding"]
    assert bars["x"]["title"] == "event time (Europe/Berlin)"
    assert bars["x"]["scale"]["domain"] == [t.isoformat() for t in (HOUR.start, HOUR.end)]
    assert found.spec["encoding"]["y"]["sort"] == ["vm-1"]
    assert is_valid(found)


def test_the_title_of_lanes_has_room_beside_the_longest_name() -> None:
    found = swim_lanes(ROWS, ["vm-1"], HOUR, ZoneInfo("Europe/Berlin"))
    axis = found.spec["encoding"]["y"]["axis"]
    assert axis["maxExtent"] >= LABEL_PIXELS + axis["titlePadding"], "Vega draws the title within 200 pixels else"
    assert str(LABEL_PIXELS) in axis["labelLimit"]["expr"]
    assert is_valid(found)


def test_no_series_of_many_has_no_share_of_the_evidence() -> None:
    assert [percent(share) for share in (1.0, 0.126, 0.01, 1 / 295)] == ["100%", "13%", "1%", "under 1%"]


def is_valid(chart: Chart) -> bool:
    """Whether Vega-Lite's schema knows everything in it, and its fields are columns."""
    text = json.dumps(chart.spec)
    assert set(re.findall(r'"field": "(\w+)"', text)) <= set(chart.rows.columns)
    return bool(alt.Chart.from_dict({**chart.spec, "data": {"values": []}}))


def points(minutes: list[float], kind: str = "normal") -> pd.DataFrame:
    """Windows of a series so many minutes before noon; the last one of this kind."""
    rows = [
        {
            "time": NOON - timedelta(minutes=minute),
            "value": 5.0,
            "least": 4.0,
            "most": 6.0,
            "typical": 5.0,
            "lower": 3.0,
            "upper": 7.0,
            "score": 0.5,
            "kind": "normal",
        }
        for minute in minutes
    ]
    rows[-1]["kind"] = kind
    return frame_of(rows, POINT)


def test_line_is_not_drawn_across_windows_that_are_missing() -> None:
    assert len(with_gaps(points([9, 8, 7, 6, 5]))) == 5
    holed = with_gaps(points([30, 29, 28, 27, 5, 4]))
    assert len(holed) == 7
    assert holed["value"].isna().sum() == 1
    assert holed["time"].is_monotonic_increasing


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_points_are_drawn_as_they_are(count: int) -> None:
    assert len(with_gaps(points([50.0, 20.0, 1.0][:count]))) == count


def test_novel_windows_are_marked_and_others_are_not() -> None:
    ordinary = model_plot(points([3, 2, 1]), HOUR, ZoneInfo("UTC"), "cpu").spec
    novel = model_plot(points([3, 2, 1], "anomaly"), HOUR, ZoneInfo("UTC"), "cpu").spec
    assert len(novel["layer"]) == len(ordinary["layer"]) + 1
    mark = novel["layer"][-1]
    assert mark["transform"] == [{"filter": {"field": "kind", "oneOf": ["anomaly"]}}]
    assert mark["encoding"]["color"]["scale"]["range"] == [KIND_STYLES["anomaly"][0]]
    assert all(layer["encoding"]["y"]["title"] == "cpu" for layer in novel["layer"])


def test_extremes_are_drawn_only_of_points_that_stand_for_several_windows() -> None:
    several = points([3, 2, 1])
    one = several.assign(least=several["value"], most=several["value"])
    counts = [len(model_plot(rows, HOUR, ZoneInfo("UTC"), "cpu").spec["layer"]) for rows in (several, one)]
    assert counts[0] == counts[1] + 1


def test_model_and_score_plots_are_valid_charts() -> None:
    for chart in (
        model_plot(points([3, 2, 1]), HOUR, ZoneInfo("UTC"), "cpu"),
        score_plot(points([3]), HOUR, ZoneInfo("UTC")),
    ):
        assert is_valid(chart)


def test_tooltip_of_a_window_is_a_sentence() -> None:
    rows = points([3, 2, 1], "anomaly").assign(upper=[7.0, 7.0, float("nan")])
    descriptions = model_plot(rows, HOUR, ZoneInfo("Asia/Kolkata"), "cpu").rows["description"].tolist()
    assert descriptions[-1] == (
        "until 2026-11-21 17:29:00 IST: seen 5, expected 3 to –, typically 5 · score 0.5 nats · anomaly"
    )
    assert descriptions[0].endswith("expected 3 to 7, typically 5 · score 0.5 nats · normal")


def test_tooltip_of_a_score_says_when_and_how_much() -> None:
    score = score_plot(points([3]), HOUR, ZoneInfo("UTC")).spec["layer"][0]["encoding"]
    assert [(one["field"], one["title"]) for one in score["tooltip"]] == [
        ("time", "window until"),
        ("score", "score (nats)"),
    ]


def test_what_a_reason_says_of_values_is_not_said_again() -> None:
    row = {"reason": "cpu 9.13, expected 3 to 6%: an unusual level", "value": 9.134, "typical": 4.0, "unit": "%"}
    of = row | {"lower": 3.0, "upper": 6.0}
    assert expectation_text(of) == "typically 4%"
    assert expectation_text(of | {"reason": "an unusual spread"}) == "seen 9.13%, expected 3 to 6%, typically 4%"
    assert expectation_text(of | {"typical": float("nan")}) == ""
    assert expectation_text(row) == ""
    change = of | {"reason": "cpu new level 9.13%, was 4% (3 to 6%)", "before": 4.0, "after": 9.134, "part": "level"}
    assert (expectation_text(change), explanation_text(change)) == ("", "found by: level")
    assert explanation_text(change | {"reason": "cpu"}) == "was 4%, is 9.13% now, found by: level"


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        ("anomaly", 3.0, "came more often than usual"),
        ("anomaly", 1.0, "came less often than usual"),
        ("anomaly", float("nan"), "came more or less often than usual"),
        ("silence", 0.0, "vanished"),
    ],
)
def test_a_message_comes_more_or_less_often(kind: str, value: float, words: str) -> None:
    assert did({"kind": kind, "value": value, "typical": 2.0}) == words


@pytest.mark.parametrize("background", ["#ffffff", "#191917"])
def test_what_is_drawn_has_a_contrast_of_three_to_one_in_both_themes(background: str) -> None:
    drawn_in = {colour for colour, _ in KIND_STYLES.values()} | {OBSERVED, EXPECTED, SURPRISE, LEFT, RIGHT}
    assert {one for one in drawn_in | {*REFUSED_COLOURS.values()} if contrast(one, background) < 3} == set()


def contrast(*colours: str) -> float:
    """Of two colours, as WCAG 2 reckons it."""
    darker, lighter = sorted(map(luminance, colours))
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: str) -> float:
    """Relative to white, 0 to 1."""
    shares = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return sum(weight * each for weight, each in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_sentences_leave_the_name_at_their_beginning_as_it_is_and_say_nothing_twice() -> None:
    assert sentences(["vm-1: web off", "seen 3", "", "seen 3"]) == "vm-1: web off. Seen 3"
    assert sentences(["", ""]) == ""
