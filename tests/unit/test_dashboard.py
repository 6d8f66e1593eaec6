"""The pages without an Elasticsearch: empty, stale, away; and what they compute."""

import json
import re
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest
from support.markdown import as_read

from dashboards import early_alarms
from dashboards.chrome import DEFAULT_RANGE, RANGES, View, listed_versions
from dashboards.evidence import episode_of
from dashboards.incident import since_when
from dashboards.navigation import PAGES
from dashboards.queries import Connection, QueryError, judged_until, span_of
from dashboards.queries.early import EarlySummary
from dashboards.queries.episodes import FRESH
from dashboards.queries.incident import of_document
from dashboards.words import age_text, clock, first_names, frequency_text, plural

PAGE = Path(__file__).parents[2] / "dashboards" / "navigation.py"
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
LENGTHS = st.sampled_from([length for _, length in RANGES.values()])
OFFSETS = st.timedeltas(min_value=-timedelta(minutes=2), max_value=timedelta(days=30))
# What a page asks Elasticsearch for only when it is asked for.
ADDRESSES = {"incident": {"incident": "0123"}, "series": {"series": "gauge/vm-1/web/cpu"}}


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> str:
    """The pages look for Elasticsearch where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
    monkeypatch.setenv("KAPPA_DASHBOARD_URL", url)
    monkeypatch.setenv("KAPPA_DASHBOARD_VERSION", "live")
    listed_versions.clear()
    return url


def page(**query: str) -> AppTest:
    """The pages at the first one, not yet run."""
    return with_query(AppTest.from_file(str(PAGE), default_timeout=60), query)


def page_named(name: str) -> AppTest:
    """The pages at this one, not yet run."""

    def script(first: str) -> None:
        from dashboards.navigation import run

        run(first)

    test = AppTest.from_function(script, default_timeout=60, kwargs={"first": name})
    return with_query(test, ADDRESSES.get(name, {}) | ({"version": "old"} if name == "versions" else {}))


def with_query(test: AppTest, query: dict[str, str]) -> AppTest:
    """A page at an address."""
    for name, value in query.items():
        test.query_params[name] = value
    return test


def shown(name: str, minutes_old: float | None) -> AppTest:
    """What a page shows of a version in which nothing was found and whose last window judged is so old."""

    def script(name: str, minutes_old: float | None) -> None:
        from datetime import UTC, datetime, timedelta
        from zoneinfo import ZoneInfo

        import pandas as pd

        from dashboards import chrome, incident, logs, overview, pipeline, series, versions
        from dashboards.queries import INCIDENT, NOVELTY, Listing, span_of
        from dashboards.queries.frames import frame_of
        from dashboards.queries.logs import NOVEL_COLUMNS, RATE, NovelTemplates
        from dashboards.queries.overview import Lanes, Overview
        from dashboards.queries.pipeline import REFUSED, Reasons, Refusals
        from dashboards.queries.versions import COUNT, Comparison

        now = datetime(2026, 11, 21, 12, tzinfo=UTC)
        newest = None if minutes_old is None else now - timedelta(minutes=minutes_old)
        span = span_of(newest, now, timedelta(hours=1))
        view = chrome.View("live", ["live", "old"], "1h", ZoneInfo("Europe/Berlin"), 5)
        none = {
            "incidents": Listing(frame_of([], INCIDENT), 0),
            "novelties": Listing(frame_of([], NOVELTY), 0),
            "rates": Listing(frame_of([], RATE), 0),
        }
        if name == "overview":
            found = Overview(
                read=now,
                span=span,
                newest=newest,
                open_incidents=none["incidents"],
                closed_incidents=none["incidents"],
                lanes=Lanes("host", [], 0, complete=True),
                novelties=none["novelties"],
                changes=none["novelties"],
                changes_from=span.start,
                refused=0,
            )
            overview.show(found, view)
        elif name == "incident":
            incident.show(incident.Missing("0123", newest, now), view)
        elif name == "choice":
            incident.show_choice(incident.OpenIncidents(now, newest, none["incidents"]), view)
        elif name.startswith("find "):
            series.show_found(none["rates"], view, name.removeprefix("find "))
        elif name == "series":
            series.show(
                series.SeriesPageData(now, newest, span, None, False, none["novelties"]), view, "gauge/vm-1/web/cpu"
            )
        elif name == "logs":
            novel = NovelTemplates(frame_of([], NOVEL_COLUMNS), 0)
            logs.show(logs.LogsPageData(now, newest, span, novel, none["rates"], False), view, "lines")
        elif name == "pipeline":
            reasons = Reasons(frame_of([], REFUSED), 0)
            pipeline.show(Refusals(now, span, newest, reasons, pd.DataFrame()), view)
        else:
            rows, counts = none["novelties"].rows, frame_of([], COUNT)
            both = (newest, newest)
            versions.show(Comparison("live", "old", span, both, counts, rows, rows, 0, 0), view)

    test = AppTest.from_function(script, default_timeout=60, args=(name, minutes_old)).run()
    assert not test.exception
    return test


def words(test: AppTest) -> str:
    """All sentences of a page."""
    return "\n".join(
        e.value for group in (test.error, test.warning, test.info, test.success, test.caption) for e in group
    )


@pytest.mark.usefixtures("nobody")
@pytest.mark.parametrize("name", PAGES)
def test_server_that_is_away_is_a_sentence_with_what_to_do_and_no_numbers(name: str) -> None:
    test = page_named(name).run()
    assert not test.exception
    errors = [as_read(e.value) for e in test.error if "Elasticsearch" in e.value]
    assert errors
    assert set(errors) == {
        "Elasticsearch does not answer: see whether it runs (`kappa status`), and check elasticsearch.url. "
        "This page tries again every 5 seconds."
    }
    assert not test.metric
    assert not test.dataframe


@pytest.mark.parametrize("name", PAGES)
def test_empty_version_is_explained_and_shows_no_tables(name: str) -> None:
    test = shown(name, None)
    assert "Nothing has been found in version `live` yet" in test.info[0].value
    assert not test.metric
    assert not test.dataframe
    assert not test.get("vega_lite_chart")


def test_no_incident_is_said_to_be_open_only_where_something_was_judged() -> None:
    assert "Nothing has been found" in words(shown("choice", None))
    assert "No incident is open" not in words(shown("choice", None))
    assert "No incident is open" in words(shown("choice", 1))


def test_words_are_mentioned_only_by_who_has_asked_for_some() -> None:
    assert "has these words in its name in the last 1 h." in words(shown("find vm-7 cpu", 1))
    assert "No series was novel in the last 1 h." in words(shown("find ", 1))


@pytest.mark.parametrize("name", ["overview", "incident", "choice", "series", "logs", "pipeline"])
def test_stale_version_says_how_old_it_is(name: str) -> None:
    stale = shown(name, 17).warning[0].value
    assert "17 min old" in stale
    assert "see Jobs on the page Pipeline" in stale, "`kappa status` knows of servers alone"
    assert "min old" not in words(shown(name, 1))


def test_version_without_indexed_scores_says_how_to_have_them_instead_of_an_empty_chart() -> None:
    for name in ("series", "logs"):
        test = shown(name, 1)
        assert "index.scores = true" in words(test)
        assert not test.get("vega_lite_chart")


@pytest.mark.usefixtures("nobody")
def test_pages_without_a_broker_or_a_command_say_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAPPA_DASHBOARD_JOBS", json.dumps([]))
    test = page_named("pipeline").run()
    assert "dashboard.jobs" in words(test)
    assert "kappa dashboard" in words(test)


def test_missing_address_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAPPA_DASHBOARD_URL", "")
    test = page().run()
    assert not test.exception
    assert "KAPPA_DASHBOARD_URL" in as_read(test.error[0].value)


@pytest.mark.parametrize("url", ["localhost:9200", "http://", "what://127.0.0.1:1"])
def test_address_that_is_none_is_a_sentence(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("KAPPA_DASHBOARD_URL", url)
    test = page().run()
    assert not test.exception
    assert "elasticsearch.url" in as_read(test.error[0].value)


@pytest.mark.usefixtures("nobody")
@pytest.mark.parametrize(("asked", "given"), [("6h", "6h"), ("fortnight", DEFAULT_RANGE)])
def test_range_is_that_of_the_address_and_the_default_for_an_unknown_one(asked: str, given: str) -> None:
    test = page(range=asked).run()
    assert not test.exception
    assert test.session_state["range"] == given


def test_empty_version_says_what_to_start() -> None:
    assert "kappa run all" in shown("overview", None).info[0].value


def test_what_a_version_without_news_says_holds_where_scores_are_not_indexed() -> None:
    for minutes in (None, 1, 4, 17):
        assert not re.search(
            "newest event|not even a score|no events", words(shown("overview", minutes)), re.IGNORECASE
        )
    assert not shown("overview", 4).warning, "while only heartbeats come, windows are closed once a minute"


def test_quiet_version_is_no_warning() -> None:
    test = shown("overview", 1)
    assert not test.warning
    assert [metric.value for metric in test.metric] == ["0"] * 5
    assert test.success[0].value == "No incident is open."
    assert "Judged until 2026-11-21 12:59:00 CET, 60 s old" in words(test)


@given(LENGTHS, st.none() | OFFSETS)
def test_span_has_its_length_and_holds_the_last_window_judged(length: timedelta, age: timedelta | None) -> None:
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
            judged_until(client, "live")


def test_secrets_are_in_no_repr() -> None:
    names = {"URL": "http://127.0.0.1:1", "USERNAME": "reader", "PASSWORD": "secret-1", "API_KEY": "secret-2"}
    connection = Connection.of({f"KAPPA_DASHBOARD_{name}": value for name, value in names.items()})
    assert (connection.password, connection.api_key) == ("secret-1", "secret-2")
    assert "secret" not in repr(connection)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7_199, "120 min"), (7_200, "2 h"), (172_800, "2 days")],
)
def test_age_is_in_the_largest_unit_that_fits(seconds: int, words: str) -> None:
    assert age_text(timedelta(seconds=seconds)) == f"{words} old"


@pytest.mark.parametrize(
    ("per_day", "words"),
    [
        (12.3, "12 a day"),
        (1.0, "one a day"),
        (0.7, "one a day"),
        (0.5, "one in 2 days"),
        (1 / 45, "one in 45 days"),
        (1 / 100, "one in 3 months"),
        (4.7e-05, "one in 58 years"),
        (4.7e-07, "one in 5,800 years"),
        (1e-300, "less than one in 10,000 years"),
        (0.0, "less than one in 10,000 years"),
    ],
)
def test_how_often_chance_makes_something_is_said_in_days_months_and_years(per_day: float, words: str) -> None:
    assert frequency_text(per_day) == words


def test_things_are_counted_in_words() -> None:
    assert [plural(1, "host"), plural(1_000, "host")] == ["1 host", "1,000 hosts"]
    assert [plural(n, "more series") for n in (1, 14)] == ["1 more series", "14 more series"]


def test_an_early_alarm_shows_on_which_side_of_its_bound_the_value_is() -> None:
    row = {"series": "gauge/vm-1/web/memory", "value": 2.00001e9, "upper": 2e9, "lower": float("nan"), "template": None}
    assert early_alarms.crossing_text(row) == "memory · vm-1 · web: 2.00001G, above 2G"
    below = row | {"upper": float("nan"), "lower": 35.3e9}
    assert early_alarms.crossing_text(below) == "memory · vm-1 · web: 2G, below 35.3G"


def test_hosts_that_an_incident_does_not_name_are_counted() -> None:
    names = ("a", "b", "c", "d")
    counts = (None, float("nan"), 2, 2_000)
    assert [first_names(names, count=n) for n in counts] == [*["a, b, c and 1 more"] * 3, "a, b, c and 1,997 more"]
    assert (first_names(names, 8), first_names((), count=5)) == ("a, b, c, d", "")


def test_clock_behind_the_events_is_said() -> None:
    assert age_text(-timedelta(seconds=40)) == "40 s ahead of this machine's clock"


def test_pages_ask_for_nothing_that_the_key_for_pages_may_not() -> None:
    sources = [*PAGE.parent.rglob("*.py"), Path(__file__).parents[2] / "app" / "cli" / "label.py"]
    calls = re.compile(r"\bclient(?:\.options\([^)]*\))?\.([a-z_.]+)\(")
    asked = {name for source in sources for name in calls.findall(source.read_text()) if name != "close"}
    # docs/security.md: `read` allows the one, `view_index_metadata` the other
    assert asked == {"search", "indices.get_alias"}


def causes_part(causes: list[dict[str, object]]) -> AppTest:
    """The part of the page of an incident that says who is likely its cause, run."""

    def script(causes: list[dict[str, object]]) -> None:
        from zoneinfo import ZoneInfo

        from dashboards.chrome import View
        from dashboards.evidence import show_causes
        from dashboards.queries.incident import of_document

        document = {"@timestamp": "2026-11-21T12:00:00Z", "novelty": {"causes": causes}}
        show_causes(of_document("0123", "live", document), View("live", ["live"], "6h", ZoneInfo("UTC"), None))

    return AppTest.from_function(script, default_timeout=60, kwargs={"causes": causes}).run()


def utc_clock(time: datetime) -> str:
    return clock(time, ZoneInfo("UTC"))


@given(st.timedeltas(min_value=-timedelta(days=800), max_value=timedelta(days=800)))
def test_a_time_of_another_year_says_which(ago: timedelta) -> None:
    now = datetime.now(UTC)
    time = (now - ago).replace(month=6, day=15)
    assert (f"15 Jun {time.year}, " in utc_clock(time)) == (time.year != now.year)


def test_the_likely_causes_of_an_incident_are_in_order_and_a_change_is_marked() -> None:
    change: dict[str, object] = {
        "kind": "change",
        "service": "cart",
        "metric": "deployment",
        "onset": "2026-11-21T11:59:20Z",
        "score": 7.0,
    }
    change |= {"why": "began 40 s after deployment [1.8.2](http://x) of cart"}
    strange: dict[str, object] = {
        "kind": "episode",
        "host": "vm-1",
        "metric": "cpu",
        "onset": "2026-11-21T12:00:00Z",
        "score": 9.0,
        "why": "cpu of vm-1 went 9.0 times",
    }
    test = causes_part([change, strange])
    assert not test.exception
    assert [one.value for one in test.subheader] == ["Probably why"]
    first, second = (as_read(one.value) for one in test.markdown)
    words = "1. :violet-badge[change] **cart**: began 40 s after deployment [1.8.2](http://x) of cart"
    assert first == f"{words} · since {utc_clock(NOON - timedelta(seconds=40))}"
    assert second == f"2. **vm-1**: cpu of vm-1 went 9.0 times · since {utc_clock(NOON)}"
    assert not causes_part([]).subheader


def test_an_incident_says_when_an_episode_of_it_began_before_it() -> None:
    document = {"@timestamp": "2026-11-21T12:00:00Z", "event": {"end": "2026-11-21T12:30:00Z"}}
    closed, utc, read = of_document("0123", "live", document), ZoneInfo("UTC"), datetime(2026, 11, 21, 13, tzinfo=UTC)
    usual = "2026-11-21 12:00:00 UTC, until 2026-11-21 12:30:00 UTC (30 min)"
    for began in (None, closed.since):
        assert since_when(closed, utc, read, began) == usual
    earlier = closed.since - timedelta(minutes=40)
    assert since_when(closed, utc, read, earlier) == f"{usual} · with an episode since {utc_clock(earlier)}"


@pytest.mark.parametrize("lacks", ["kind", "host", "onset", "score", "why"])
def test_a_cause_may_lack_anything(lacks: str) -> None:
    whole = {
        "kind": "episode",
        "host": "vm-1",
        "metric": "cpu",
        "onset": "2026-11-21T12:00:00Z",
        "score": 9.0,
        "why": "up",
    }
    test = causes_part([{name: value for name, value in whole.items() if name != lacks}])
    assert not test.exception
    (line,) = (as_read(one.value) for one in test.markdown)
    assert line.startswith("1. ")
    assert (f"since {utc_clock(NOON)}" in line) == (lacks != "onset")
    assert "nan" not in line.lower() and "nat" not in line.lower()


def test_a_cause_whose_time_is_none_breaks_no_page() -> None:
    test = causes_part([{"onset": "soon", "score": "high", "host": "vm-1"}])
    assert not test.exception
    assert [as_read(one.value)[:2] for one in test.markdown] == ["1."]


def test_a_series_of_an_incident_is_explained_by_the_episode_that_its_reason_is_of() -> None:
    found = {"series": "gauge/a//cpu", "reason": "cpu is missing", "score": 60.0, "kind": "silence"}
    later = {**found, "reason": "an unusual level", "score": 9.0, "kind": "anomaly"}
    episodes = pd.DataFrame([found, later, {**later, "series": "gauge/b//cpu"}])
    assert episode_of({**found, "reason": "a: cpu is missing"}, episodes)["kind"] == "silence"
    assert episode_of({**found, "reason": "an unusual level"}, episodes)["kind"] == "anomaly"
    assert episode_of({**found, "reason": "another"}, episodes)["score"] == 60.0
    assert episode_of({**found, "series": "gauge/c//cpu"}, episodes) is None


def test_early_alarms_say_of_which_time_they_are() -> None:
    """Those that wait for longer than the page's range, because the jobs are behind, are not among them."""
    view = View("live", ["live"], "6h", ZoneInfo("UTC"), None)
    found = early_alarms.summary_text(EarlySummary(confirmed=3, withdrawn=1), view)
    assert found.startswith(
        "0 alarms raised in the last 6 h and not settled yet. Of 4 raised and settled in that time 75%"
    )
