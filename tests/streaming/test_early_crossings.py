"""Which records raise an early alarm: bounds, rates of counters, templates; each series once, and not too many."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from pipelines.jobs import early
from pipelines.spark_internals import jvm_of
from pipelines.windowing import WindowingConfig

pytestmark = pytest.mark.spark

OBSERVED = "series string, event_time long, value double, template string"
WINDOW, JUDGED = 10_000, 1_000_000
CPU = "gauge/web-1//cpu"


class JudgedLane:
    """A lane with a table of its own, whose jobs have judged up to JUDGED."""

    def __init__(self, spark: SparkSession, name: str, *bounds: dict[str, Any]) -> None:
        self.lane = early.Lane("telemetry", "logs", name, "early", "live", WindowingConfig())
        self.table = jvm_of(spark).kappa.AlarmBounds.of(name)
        self._spark = spark
        for one in bounds:
            self.bound(**one)
        self.table.judged(JUDGED)

    def bound(self, series: str = CPU, **what: Any) -> None:
        self.table.take(json.dumps({"record": "bound", "series": series, "window_end": 5} | what).encode())

    def raised(self, *rows: tuple[Any, ...]) -> list[Row]:
        """The alarms of rows, which are taken in their order."""
        whole = [(*row, None, None)[:4] for row in rows]
        return early.find_crossings(self._spark.createDataFrame(whole, OBSERVED).coalesce(1), self.lane).collect()


def test_values_beyond_a_bound_raise_an_alarm_that_says_which(spark: SparkSession, request: Any) -> None:
    own = JudgedLane(spark, request.node.name, {"lower": 1, "upper": 2.0, "typical": 1.5, "chance": 1e-9})
    own.bound("gauge/web-2//cpu", lower=1.0)
    at = JUDGED + 3
    found = own.raised(
        (CPU, at, 1.0), (CPU, at, 2.0), (CPU, at, float("nan")), (CPU, at, 2.5), (CPU, at, 9.0), (None, at, 9.0)
    )
    (one,) = found
    assert (one.series, one.value, one.upper, one.lower, one.typical, one.chance) == (CPU, 2.5, 2.0, None, 1.5, 1e-9)
    assert (one.window_end, one.event_time, one.bound_window_end) == (JUDGED + WINDOW, at, 5)
    (low,) = own.raised(("gauge/web-2//cpu", at, 1e9), ("gauge/web-2//cpu", at, 0.5), ("gauge/web-3//cpu", at, 0.5))
    assert (low.series, low.lower, low.upper) == ("gauge/web-2//cpu", 1.0, None)


def test_a_series_raises_again_when_it_may_speak_and_a_bound_that_is_gone_raises_nothing(
    spark: SparkSession, request: Any
) -> None:
    own = JudgedLane(spark, request.node.name, {"upper": 2.0})
    assert [len(own.raised((CPU, JUDGED, 3.0), (CPU, JUDGED + WINDOW, 3.0))) for _ in range(2)] == [1, 0]
    own.table.speak(CPU)
    assert len(own.raised((CPU, JUDGED, 3.0))) == 1
    own.table.speak(CPU)
    own.bound()
    assert own.raised((CPU, JUDGED, 3.0)) == [] and own.table.size() == 0
    own.bound(upper=2.0)
    own.table.quiet(CPU)
    assert own.raised((CPU, JUDGED, 3.0)) == []


def test_windows_that_are_judged_and_times_that_the_jobs_have_not_reached_raise_nothing(
    spark: SparkSession, request: Any
) -> None:
    own = JudgedLane(spark, request.node.name, {"upper": 2.0})
    behind = own.lane.most_behind_ms
    assert own.raised((CPU, JUDGED - 1, 3.0), (CPU, JUDGED + behind, 3.0)) == []
    assert len(own.raised((CPU, JUDGED + behind - WINDOW, 3.0))) == 1
    unsettled = JudgedLane(spark, "nobody has judged")
    unsettled.table.judged(-(2**63))
    unsettled.bound(upper=2.0)
    assert unsettled.raised((CPU, JUDGED, 3.0)) == []


def test_a_counter_is_compared_by_its_rate_between_two_records(spark: SparkSession, request: Any) -> None:
    series, at = "counter/web-1//requests", JUDGED
    own = JudgedLane(spark, request.node.name, {"series": series, "lower": 5.0, "upper": 20.0})
    quiet = [(at, 1e9), (at + 1_000, 1e9 + 10), (at + 900, 1e9), (at + 2_000, 3.0), (at + 3_000, 13.0)]
    assert own.raised(*((series, *one) for one in quiet)) == [], (
        "the first, in bounds, out of order, a reset, in bounds"
    )
    own.bound(series, lower=5.0, upper=20.0, typical=10.0)  # goes on from the last total
    assert own.raised((series, at + 3_000 + 11 * WINDOW, 1e6)) == [], "too long ago"
    (one,) = own.raised((series, at + 3_000 + 11 * WINDOW + 500, 1e6 + 25))
    assert (one.value, one.upper) == (50.0, 20.0)


def test_a_line_of_a_template_that_is_not_known_raises_an_alarm(spark: SparkSession, request: Any) -> None:
    own = JudgedLane(
        spark, request.node.name, {"series": "template/web-1/shop", "known": ["00000000000000ff", "f" * 16]}
    )
    names = [f"template/web-1/{service}/info/{known}" for service, known in (("shop", "f" * 16), ("new", "a" * 16))]
    assert own.raised(*((name, JUDGED) for name in names), ("heartbeat", JUDGED)) == []
    (one,) = own.raised((f"template/web-1/shop/warn/{'a' * 16}", JUDGED, None, "no <*>"), (names[0], JUDGED))
    assert (one.series, one.template, one.value) == (f"template/web-1/shop/warn/{'a' * 16}", "no <*>", None)


def test_a_line_of_a_level_that_its_service_never_had_is_of_the_level(spark: SparkSession, request: Any) -> None:
    own = JudgedLane(
        spark, request.node.name, {"series": "template/web-1/shop", "known": ["f" * 16], "levels": ["info", "warn"]}
    )
    known, new = f"template/web-1/shop/error/{'f' * 16}", f"template/web-1/shop/error/{'a' * 16}"
    (one,) = own.raised((known, JUDGED, None, "on fire"), (new, JUDGED, None, "burnt"))
    assert (one.series, one.template) == ("logs/web-1/shop/error", "on fire")


def test_a_line_that_matches_a_known_pattern_is_no_news(spark: SparkSession, request: Any) -> None:
    own = JudgedLane(spark, request.node.name)
    patterns = ["queue <*> is full", "<*> of <*> items", "user <*>", "<*>/<*> done", "<*>=a=b<*>", "<*><*>!"]
    own.bound("template/web-1/shop", known=["f" * 16], levels=["info"], patterns=patterns)
    known = ["queue mail is full", "3 of a.b items", "user <*>", "a/b/c done", "user x", "x=a=a=b=b", "xy!"]
    news = [
        "queue is full",
        "queue a b is full",
        "the queue mail is full",
        "user ",
        "user a b",
        "a/ done",
        "",
        "ab/ cd done",
        "=a=b=b",
        "x=a=a=b",
        "x=a=a =b=b",
        "x!",
    ]
    lines = [
        (f"template/web-1/shop/info/{at:016x}", JUDGED + at * WINDOW, None, text)
        for at, text in enumerate([*known, *news])
    ]
    assert [one.template for one in own.raised(*lines)] == news


def test_a_storm_is_held_back_and_counted(spark: SparkSession, request: Any) -> None:
    own = JudgedLane(spark, request.node.name)
    series = [f"gauge/web-{host}//m{number}" for number in range(7) for host in range(50)]
    for name in series:
        own.bound(name, upper=2.0)
    found = own.raised(*((name, JUDGED, 3.0) for name in series for _ in range(2)))
    assert len(found) == 200
    assert max(Counter(one.series.split("/")[1] for one in found).values()) <= 5
    assert json.loads(own.table.held()) == []
    own.table.judged(JUDGED + WINDOW)
    assert json.loads(own.table.held()) == [[JUDGED + WINDOW, 150, 50]]
    assert json.loads(own.table.held()) == []


@pytest.mark.parametrize(
    "value",
    [b"", b"{", b"[]", b'{"record":"bound"}', b'{"record":"score","series":"a","window_end":1}', b"\x00" * 9,
     b'{"record":"bound","series":"a","window_end":"x"}', b'{"record":"bound","series":"a","window_end":1,"upper":"x"}',
     b'{"record":"bound","series":"a","window_end":1,"known":[1]}', b'{"record":"bound","series":"a","window_end":1,"known":["x"]}',
     b'{"record":"bound","series":"a","window_end":1,"known":["zzzzzzzzzzzzzzzz"]}', b"{" + b" " * (2 << 20),
     b'{"record":"bound","series":"a","window_end":1,"known":[],"levels":[1]}',
     b'{"record":"bound","series":"a","window_end":1,"known":[],"patterns":"x"}'],
    ids=range(14),
)  # fmt: skip
def test_what_is_no_bound_is_counted_and_changes_nothing(spark: SparkSession, value: bytes) -> None:
    own = JudgedLane(spark, "no bounds", {"upper": 2.0})
    before = own.table.refused()
    own.table.take(value)
    assert (own.table.refused(), own.table.size()) == (before + 1, 1)
