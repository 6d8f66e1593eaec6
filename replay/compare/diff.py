"""The results of two versions side by side: records that only one has, records that differ, and by how much.

Topics are at-least-once, so repeats count once; versions may cover other parts of the log, so only windows count that
both have closed. All of it is done by Spark on columns; only counts and the first differences come to Python.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from app.core.report import Report, silent
from app.core.settings import Settings
from app.core.timestamps import iso
from app.versions.pinned_configuration import read_pinned
from models.records.records import Score, WatermarkMessage
from models.records.schema import spark_ddl
from pipelines.errors import InputError
from pipelines.windowing import WindowingConfig
from replay.compare import ground_truth as truths
from replay.compare.ground_truth import Truth
from replay.compare.version_results import VersionResults, closed_windows, incomplete_until, read

RequestedWindows = tuple[int | None, int | None]

SCORE = spark_ddl(Score)
# What identifies a record, in both versions alike.
KEYS = {
    "scores": ("window_end", "series"),
    "novelties": ("window_end", "series", "start", "status"),
    "incidents": ("window_end", "id", "status"),
}
COUNTS = ("left", "right", "only_left", "only_right", "different")
SIDES = ("left", "right")


def diff(
    spark: SparkSession,
    settings: Settings,
    left: str,
    right: str,
    most: int = 20,
    report: Report = silent,
    *,
    windows: RequestedWindows = (None, None),
    truth: Truth | None = None,
) -> dict[str, Any]:
    """Compare the results of two versions.

    Parameters
    ----------
    spark
        A session.
    settings
        Those of the deployment.
    left, right
        The versions.
    most
        How many differences of each kind to return.
    report
        Gets a line for each kind.
    windows
        The first and the last window end to compare, epoch milliseconds; None: all that both have.
    truth
        The ground truth of a simulation: both are judged by it.

    Returns
    -------
    dict
        Counts, sizes and the first differences of each kind, as JSON types.

    Raises
    ------
    InputError
        A version is not there, or the two have no window in common.
    """
    both = read(spark, settings, left), read(spark, settings, right)
    delays = _delay(settings, left), _delay(settings, right)
    return compare(*both, most, report, windows=windows, truth=truth, delays=delays)


def compare(
    left: VersionResults,
    right: VersionResults,
    most: int = 20,
    report: Report = silent,
    *,
    windows: RequestedWindows = (None, None),
    truth: Truth | None = None,
    delays: tuple[int, int] = (0, 0),
) -> dict[str, Any]:
    """As `diff`, of results that have been read. `delays`: the watermark delay of each version, ms."""
    span = common_windows(left, right, windows)
    report(f"comparing {span['compared']} windows of {left.version} and {right.version}")
    result: dict[str, Any] = {"versions": {"left": left.version, "right": right.version}, "windows": span}
    conflicts = dict.fromkeys(SIDES, 0)
    for kind in KEYS:
        with side_by_side(kind, left, right, (span["from"], span["to"])) as records:
            totals = _totals(records)
            unequal = totals["only_left"] + totals["only_right"] + totals["different"]
            counts = {name: totals[name] for name in COUNTS}
            first = _first(records, kind, most) if unequal else []
            result |= (
                {**counts, "by_how_much": _by_how_much(records, totals), "differences": first}
                if (kind == "scores")
                else {kind: counts, f"{kind}_differences": first}
            )
            for side in SIDES:
                conflicts[side] += totals[f"conflicts_{side}"]
        report(f"{kind}: {totals['left']} and {totals['right']}, {unequal} differ")
    result["conflicts"] = conflicts
    if truth is not None:
        windows_compared = span["from"], span["to"]
        sides = zip(SIDES, (left, right), delays, strict=True)
        result["truth"] = {side: _judged(results, truth, delay, windows_compared) for side, results, delay in sides}
    return result


# --- which windows


def common_windows(
    left: VersionResults, right: VersionResults, windows: RequestedWindows = (None, None)
) -> dict[str, int]:
    """The windows that both versions have closed: from the later first one to the earlier last one.

    Returns `from`, `to` (ends, epoch ms), how many are `compared`, how many of each side lie outside. Raises InputError
    where there is none.
    """
    watermarks = _sides(closed_windows(left), closed_windows(right)).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        whole = F.when(F.col("whole"), F.col("watermark"))
        bounds = watermarks.groupBy("side").agg(F.min(whole), F.max(whole)).collect()
        spans = {SIDES[row[0]]: (row[1], row[2]) for row in bounds if row[1] is not None}
        for side, results in zip(SIDES, (left, right), strict=True):
            if side not in spans:
                msg = f"version {results.version!r} has no window that all its shards have closed; run its jobs first"
                raise InputError(msg)
        kept = [until + 1 for until in (incomplete_until(left), incomplete_until(right)) if until is not None]
        first = max([*(span[0] for span in spans.values()), *kept, *([] if windows[0] is None else [windows[0]])])
        last = min([*(span[1] for span in spans.values()), *([] if windows[1] is None else [windows[1]])])
        inside = F.col("watermark").between(first, last)
        end = F.when(inside, F.col("watermark"))
        outside = [F.count_if(~inside & (F.col("side") == number)) for number in (0, 1)]
        found = watermarks.agg(F.min(end), F.max(end), F.count_distinct(end), *outside).collect()[0]
        if not found[2]:
            raise InputError(_nothing_in_common(left, right, spans, kept, windows))
        return dict(zip(("from", "to", "compared", "left_outside", "right_outside"), found, strict=True))
    finally:
        watermarks.unpersist()


def _nothing_in_common(
    left: VersionResults,
    right: VersionResults,
    spans: Mapping[str, tuple[int, int]],
    kept: list[int],
    windows: RequestedWindows,
) -> str:
    has = [
        f"{results.version} has {iso(spans[side][0])} to {iso(spans[side][1])}"
        for side, results in zip(SIDES, (left, right), strict=True)
    ]
    if kept:
        has.append(f"retention has deleted what was before {iso(max(kept))}")
    if windows != (None, None):
        has.append(f"asked for {' to '.join('any' if at is None else iso(at) for at in windows)}")
    return f"{left.version} and {right.version} have no window in common: {'; '.join(has)}; replay the same part of the log"


# --- the records


@contextmanager
def side_by_side(
    kind: str, left: VersionResults, right: VersionResults, windows: tuple[int, int]
) -> Iterator[DataFrame]:
    """A row for each key that a side has: the key, `left`, `right` (text where they are not equal), and what it is.

    `has_left, has_right, only_left, only_right, different, conflict_left, conflict_right` are booleans. The rows are kept
    while the block runs.
    """
    key = KEYS[kind]
    both = _sides(*(_keyed(kind, results.of(kind), windows) for results in (left, right)))
    own = [F.when(F.col("side") == number, F.struct("text", "raw")) for number in (0, 1)]
    # Least and largest text: with one text to a key, as the determinism rules have it, they are the same.
    ends = [end(own[n]).alias(f"{side}{i}") for n, side in enumerate(SIDES) for i, end in ((0, F.min), (1, F.max))]
    found = both.groupBy(*key).agg(*ends)
    has_left, has_right = F.col("left0").isNotNull(), F.col("right0").isNotNull()
    different = (
        has_left
        & has_right
        & ((F.col("left0.text") != F.col("right0.text")) | (F.col("left1.text") != F.col("right1.text")))
    )
    unequal = different | ~has_left | ~has_right
    rows = found.select(
        *key,
        has_left.alias("has_left"),
        has_right.alias("has_right"),
        (has_left & ~has_right).alias("only_left"),
        (has_right & ~has_left).alias("only_right"),
        different.alias("different"),
        *(F.coalesce(F.col(f"{s}0.text") != F.col(f"{s}1.text"), F.lit(False)).alias(f"conflict_{s}") for s in SIDES),
        *(F.when(unequal, F.coalesce(f"{s}0.raw", f"{s}0.text")).alias(s) for s in SIDES),
    ).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield rows
    finally:
        rows.unpersist()


def _sides(left: DataFrame, right: DataFrame) -> DataFrame:
    """Both under one another, with `side` 0 and 1."""
    return left.withColumn("side", F.lit(0)).unionByName(right.withColumn("side", F.lit(1)))


def _keyed(kind: str, raw: DataFrame, windows: tuple[int, int]) -> DataFrame:
    """Records within the windows: the key's columns, `text`, which is compared, and `raw`, the record where that is not
    what was written.
    """
    texts = raw.select(F.coalesce(F.col("value").cast("string"), F.lit("")).alias("text"))
    keyed = {"scores": _scores, "novelties": _novelties, "incidents": _incidents}[kind]
    # What cannot be read has no window: it is kept, so that it is not lost without a word.
    inside = F.col("window_end").isNull() | F.col("window_end").between(*windows)
    return keyed(texts, inside)


def _scores(texts: DataFrame, inside: Column) -> DataFrame:
    record = F.from_json("text", "series string, window_end long")
    found = texts.select("text", record.alias("r")).select("r.series", "r.window_end", "text").where(inside)
    return found.withColumn("raw", F.lit(None).cast("string"))


def _novelties(texts: DataFrame, inside: Column) -> DataFrame:
    return _without_version(
        _fields(texts).where(~F.col("fields.record").eqNullSafe(WatermarkMessage.KIND)), "novelties"
    ).where(inside)


def _incidents(texts: DataFrame, inside: Column) -> DataFrame:
    return _without_version(_fields(texts), "incidents").where(inside)


def _fields(texts: DataFrame) -> DataFrame:
    """Every field of a JSON object as its text, whatever fields there are."""
    return texts.select("text", F.from_json("text", "map<string,string>").alias("fields"))


def _without_version(fields: DataFrame, kind: str) -> DataFrame:
    """The key's columns and, as `text`, all fields but the version's name, in order; the record itself if it is none."""
    numbers = {"window_end", "start"}
    key = [F.col(f"fields.{name}").cast("long" if name in numbers else "string").alias(name) for name in KEYS[kind]]
    same = F.map_filter("fields", lambda name, _: name != "version")
    entries = F.to_json(F.array_sort(F.map_entries(same)), {"ignoreNullFields": "false"})
    return fields.select(*key, F.coalesce(entries, F.col("text")).alias("text"), F.col("text").alias("raw"))


# --- counts, sizes, examples


def _totals(records: DataFrame) -> dict[str, int]:
    names = {"left": "has_left", "right": "has_right", "conflicts_left": "conflict_left"}
    names |= {"conflicts_right": "conflict_right", **{name: name for name in ("only_left", "only_right", "different")}}
    row = records.agg(*(F.count_if(column).alias(name) for name, column in names.items())).collect()[0]
    return {name: int(row[name]) for name in names}


def _by_how_much(records: DataFrame, totals: Mapping[str, int]) -> dict[str, Any]:
    """Of scores that differ: the largest and the median absolute difference; how many have another kind.

    `unknown` counts those that only one side knows (the other is warming up): they have no difference in nats.
    """
    nothing = {"largest": None, "median": None, "unknown": 0}
    if not totals["different"]:
        return {"score": nothing, "typical": dict(nothing), "kind": 0}
    pairs = records.where("different").select(*(F.from_json(side, SCORE).alias(side) for side in SIDES))
    wanted = [F.count_if(~F.col("left.kind").eqNullSafe(F.col("right.kind")))]
    for name in ("score", "typical"):
        left, right = F.col(f"left.{name}"), F.col(f"right.{name}")
        wanted += [
            F.max(F.abs(left - right)),
            F.median(F.abs(left - right)),
            F.count_if(left.isNull() != right.isNull()),
        ]
    kind, *numbers = pairs.agg(*wanted).collect()[0]
    keys = ("largest", "median", "unknown")
    sizes = [dict(zip(keys, map(_finite, part), strict=True)) for part in (numbers[:3], numbers[3:])]
    return {"score": sizes[0], "typical": sizes[1], "kind": kind}


def _finite(number: float | None) -> float | None:
    """JSON has neither NaN nor infinity."""
    return number if number is not None and math.isfinite(number) else None


def _first(records: DataFrame, kind: str, most: int) -> list[dict[str, Any]]:
    """The first differences, in order of their keys: time first."""
    key = KEYS[kind]
    rows = records.where("only_left or only_right or different").orderBy(*key).limit(most).collect()
    what = ("only_left", "only_right", "different")
    return [
        {
            **{name: row[name] for name in key},
            "what": next(name for name in what if row[name]),
            **{side: _parsed(row[side]) for side in SIDES},
        }
        for row in rows
    ]


def _parsed(text: str | None) -> Any:
    """A record as an object; the text itself of what is none."""
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return text


def _judged(results: VersionResults, truth: Truth, delay: int, windows: tuple[int, int]) -> dict[str, Any]:
    """A version's findings against the truth. Novelties are rare: those of the windows fit in memory."""
    text = F.col("value").cast("string")
    end = F.get_json_object(text, "$.window_end").cast("long")
    is_watermark = F.get_json_object(text, "$.record").eqNullSafe(WatermarkMessage.KIND)
    found, unreadable = list[list[Mapping[str, Any]]](), 0
    for kind in ("novelties", "incidents"):
        rows = results.of(kind).where(~is_watermark).select(text.alias("text"), end.alias("end"))
        read = [truths.finding(row["text"]) for row in rows.where(F.col("end").between(*windows)).collect()]
        found.append([one for one in read if one is not None])
        unreadable += read.count(None) + rows.where(F.col("end").isNull()).count()
    return truths.compare_with_truth(truth, found[0], found[1], delay, windows) | {"unreadable": unreadable}


def _delay(settings: Settings, version: str) -> int:
    """How long after its end a version knows a window, ms: by the windowing that it began with, where that is kept."""
    kept = read_pinned(settings.model_copy(update={"version": version}))
    windowing = settings.windowing if kept is None else WindowingConfig(**kept["windowing"])
    return 1000 * windowing.watermark_delay_seconds
