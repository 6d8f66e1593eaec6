"""Refused records by reason, of the page Pipeline and of `kappa refused`."""

from __future__ import annotations

from typing import Any

import pytest

from app.cli.refused import SHOWN_CHARACTERS, row, show
from dashboards.queries.pipeline import MAX_REASONS, refused_rows


def bucket(reason: str, count: int, at: str, topic: str = "telemetry") -> dict[str, Any]:
    """A reason as Elasticsearch answers it, with its newest record."""
    place = {"topic": topic, "partition": 0, "offset": count, "stage": "extract"}
    newest = {"@timestamp": at, "message": f"sample of {at}", "pipeline": place}
    return {"key": reason, "doc_count": count, "newest": {"hits": {"hits": [{"_source": newest}]}}}


def dataset(**topics: list[dict[str, Any]]) -> dict[str, Any]:
    found = [{"key": topic, "reasons": {"buckets": reasons}} for topic, reasons in topics.items()]
    return {"key": "kappa.dead-letters", "topics": {"buckets": found}}


def test_reasons_that_differ_in_numbers_alone_are_one_with_the_newest_record() -> None:
    ahead = [bucket(f"event time is {n} s ahead", 5 - n, f"2026-01-05T10:00:0{n}Z") for n in range(3)]
    (found,) = refused_rows(dataset(telemetry=ahead))
    assert (found["count"], found["reason"]) == (12, "event time is 2 s ahead")
    assert (found["sample"], found["latest"]) == ("sample of 2026-01-05T10:00:02Z", "2026-01-05T10:00:02Z")


def test_a_reason_is_one_in_each_topic_and_the_most_frequent_come_first() -> None:
    text = bucket("not JSON", 3, "2026-01-05T10:00:00Z")
    found = refused_rows(dataset(telemetry=[text], logs=[bucket("not JSON", 7, "2026-01-05T10:00:00Z", "logs")]))
    assert [(one["count"], one["source_position"]) for one in found] == [(7, "logs/0/7"), (3, "telemetry/0/3")]


def test_no_more_reasons_of_a_kind_are_shown_than_fit() -> None:
    many = [bucket(f"reason {'x' * n}", n, "2026-01-05T10:00:00Z") for n in range(1, 3 * MAX_REASONS)]
    assert [one["count"] for one in refused_rows(dataset(logs=many))] == [
        3 * MAX_REASONS - 1 - i for i in range(MAX_REASONS)
    ]


def test_a_long_sample_is_cut_in_the_table_and_one_without_text_is_blank() -> None:
    (found,) = refused_rows(dataset(telemetry=[bucket("not JSON", 1_234, "2026-01-05T10:00:00Z")]))
    assert row(found)[1] == "1,234"
    assert row(found | {"sample": "x" * 1_000})[-1] == "x" * (SHOWN_CHARACTERS - 1) + "…"
    assert row(found | {"sample": None})[-1] == ""


@pytest.mark.parametrize(("total", "words"), [(1_234, ""), (9_999, "those of 1,234 of 9,999 records")])
def test_the_table_says_where_it_has_not_all_reasons(
    total: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show("refused", total, refused_rows(dataset(telemetry=[bucket("not JSON", 1_234, "2026-01-05T10:00:00Z")])))
    (last,) = capsys.readouterr().out.splitlines()[-1:]
    assert words in last and ("most frequent" in last) == bool(words)
