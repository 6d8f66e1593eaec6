"""The first page without an Elasticsearch, and what it computes."""

import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import altair as alt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from dashboards.charts import LOOKS, lanes, swim_lanes
from dashboards.overview import DEFAULT_RANGE, RANGES, in_words
from dashboards.queries import FRESH, NOVELTY, Connection, QueryError, Span, frame_of, newest_event, span_of

PAGE = Path(__file__).parents[2] / "dashboards" / "overview.py"
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOUR = Span(NOON - timedelta(hours=1), NOON)
LENGTHS = st.sampled_from([length for _, length in RANGES.values()])
OFFSETS = st.timedeltas(min_value=-timedelta(minutes=2), max_value=timedelta(days=30))


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> str:
    """The pages look for Elasticsearch where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
    monkeypatch.setenv("KAPPA_DASHBOARD_URL", url)
    monkeypatch.setenv("KAPPA_DASHBOARD_VERSION", "live")
    return url


def page(**query: str) -> AppTest:
    """The page, not yet run."""
    test = AppTest.from_file(str(PAGE), default_timeout=60)
    for name, value in query.items():
        test.query_params[name] = value
    return test


def shown(minutes_old: float | None) -> AppTest:
    """What is shown of a version without an incident whose newest event is so old."""

    def script(minutes_old: float | None) -> None:
        from datetime import UTC, datetime, timedelta
        from zoneinfo import ZoneInfo

        from dashboards.overview import show
        from dashboards.queries import INCIDENT, NOVELTY, REFUSED, Hosts, Listing, Overview, frame_of, span_of

        now = datetime(2026, 11, 21, 12, tzinfo=UTC)
        newest = None if minutes_old is None else now - timedelta(minutes=minutes_old)
        incidents, novelties = Listing(frame_of([], INCIDENT), 0), Listing(frame_of([], NOVELTY), 0)
        found = Overview(
            read=now,
            span=span_of(newest, now, timedelta(hours=1)),
            newest=newest,
            open_incidents=incidents,
            closed_incidents=incidents,
            hosts=Hosts([], 0, complete=True),
            novelties=novelties,
            changes=novelties,
            refused=Listing(frame_of([], REFUSED), 0),
        )
        show(found, "live", "1 h", ZoneInfo("Europe/Berlin"))

    test = AppTest.from_function(script, default_timeout=60, args=(minutes_old,)).run()
    assert not test.exception
    return test


def words(test: AppTest) -> str:
    """All sentences of a page."""
    return "\n".join(
        e.value for group in (test.error, test.warning, test.info, test.success, test.caption) for e in group
    )


@pytest.mark.usefixtures("nobody")
def test_server_that_is_away_is_a_sentence_with_what_to_do_and_no_numbers() -> None:
    test = page().run()
    assert not test.exception
    assert [e.value for e in test.error] == [
        "Elasticsearch does not answer: see whether it runs (`kappa status`), and check elasticsearch.url. "
        "This page tries again every 5 seconds."
    ]
    assert not test.metric
    assert not test.dataframe


def test_missing_address_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAPPA_DASHBOARD_URL", "")
    test = page().run()
    assert not test.exception
    assert "KAPPA_DASHBOARD_URL" in test.error[0].value


@pytest.mark.parametrize("url", ["localhost:9200", "http://", "what://127.0.0.1:1"])
def test_address_that_is_none_is_a_sentence(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("KAPPA_DASHBOARD_URL", url)
    test = page().run()
    assert not test.exception
    assert "elasticsearch.url" in test.error[0].value


@pytest.mark.usefixtures("nobody")
def test_range_is_kept_in_the_address_of_the_page() -> None:
    test = page(range="6h").run()
    assert test.radio(key="range").value == "6h"
    test.radio(key="range").set_value("7d").run()
    assert test.query_params["range"] == "7d"


@pytest.mark.usefixtures("nobody")
def test_range_that_is_unknown_becomes_the_default() -> None:
    test = page(range="fortnight").run()
    assert test.radio(key="range").value == DEFAULT_RANGE
    assert test.query_params["range"] == DEFAULT_RANGE


def test_empty_version_says_what_to_start_and_shows_no_tables() -> None:
    test = shown(None)
    assert "kappa run all" in test.info[0].value
    assert not test.metric
    assert not test.subheader


def test_quiet_version_is_no_warning() -> None:
    test = shown(1)
    assert not test.warning
    assert [metric.value for metric in test.metric] == ["0"] * 5
    assert test.success[0].value == "No incident is open."
    assert "Newest event 2026-11-21 12:59:00 CET, 60 s old" in words(test)
    assert "since 2026-11-21 12:00:00 CET" in words(test)


def test_stale_version_says_how_old_it_is_and_where_the_range_ends() -> None:
    test = shown(17)
    assert "17 min old" in test.warning[0].value
    assert "since 2026-11-21 11:43:00 CET" in words(test)


@given(LENGTHS, st.none() | OFFSETS)
def test_span_has_its_length_and_holds_the_newest_event(length: timedelta, age: timedelta | None) -> None:
    newest = None if age is None else NOON - age
    span = span_of(newest, NOON, length)
    assert span.end - span.start == length
    assert newest is None or span.start <= newest <= span.end
    if age is None or timedelta() <= age <= FRESH:
        assert span.end == NOON


def test_server_that_never_answers_is_given_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with (
            Connection(url, timeout_seconds=0.2).connect() as client,
            pytest.raises(QueryError, match="did not answer in time"),
        ):
            newest_event(client, "live")


def test_secrets_are_in_no_repr() -> None:
    names = {"URL": "http://127.0.0.1:1", "USERNAME": "reader", "PASSWORD": "secret-1", "API_KEY": "secret-2"}
    connection = Connection.of({f"KAPPA_DASHBOARD_{name}": value for name, value in names.items()})
    assert (connection.password, connection.api_key) == ("secret-1", "secret-2")
    assert "secret" not in repr(connection)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7_199, "120 min"), (7_200, "2 h"), (172_800, "2 days")],
)
def test_age_is_in_the_largest_unit_that_fits(seconds: int, said: str) -> None:
    assert in_words(timedelta(seconds=seconds)) == f"{said} old"


def test_clock_behind_the_events_is_said() -> None:
    assert in_words(-timedelta(seconds=40)) == "40 s ahead of this machine's clock"


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
        novelty("new", 20, 20, template="lost <*>", level="ERROR"),
        novelty("anomaly", 10, 5, series="logs/vm-1/web/ERROR", level="ERROR", status="close"),
    ],
    NOVELTY,
)


def test_lanes_stay_within_the_span_and_what_is_not_over_reaches_its_end() -> None:
    drawn = lanes(ROWS, HOUR, ZoneInfo("UTC"))
    minutes = [[(NOON - row[name]) / timedelta(minutes=1) for name in ("from", "to")] for _, row in drawn.iterrows()]
    assert minutes == [[60, 30], [60, 0], [20, 20], [10, 5]]


def test_lanes_say_the_true_times_in_the_zone_and_what_it_is_about() -> None:
    drawn = lanes(ROWS, HOUR, ZoneInfo("Asia/Kolkata"))
    assert list(drawn["began"])[:2] == ["2026-11-21 16:00:00 IST"] * 2
    assert list(drawn["ended"])[:2] == ["2026-11-21 17:00:00 IST", "not over yet"]
    assert list(drawn["what"]) == ["cpu", "whole host", "lost <*>", "ERROR lines"]


def test_each_kind_has_a_colour_and_a_shape_of_its_own() -> None:
    colours, shapes = zip(*LOOKS.values(), strict=True)
    assert len(set(colours)) == len(set(shapes)) == len(LOOKS)


def test_chart_is_a_valid_one_with_named_axes() -> None:
    found = swim_lanes(ROWS, ["vm-1"], HOUR, ZoneInfo("Europe/Berlin")).to_dict()
    bars = found["layer"][0]["encoding"]
    assert bars["x"]["title"] == "event time (Europe/Berlin)"
    assert bars["x"]["scale"]["domain"] == [int(t.timestamp() * 1000) for t in (HOUR.start, HOUR.end)]
    assert bars["y"]["sort"] == ["vm-1"]
    assert alt.Chart.from_dict(found)
