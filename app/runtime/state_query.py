"""The model's state of a series, read from the state that `detect` has committed, without touching it.

The answer has `series`, `shard`, `as_of` (ISO 8601) and `as_of_ms`, the end of the last window that the shard has processed,
`version`, `kind`, and

    typical, spread         location and scale of the next window: of a gauge its mean, of a
                            counter its rate per second, of lines and templates their number in a window
    lower, upper            the prediction interval; null while warming up
    warming                 whether there are too few windows for a score, and `windows_to_go`
    windows                 windows that had the series; `seen` is the last one
    episode                 the open episode, with its reason; null if there is none
    numbers                 all that the model holds, by name, as `ShardDetector.describe_state`; null for what is no number. Of a
                            metric also what its members have been, `ever` and while `healthy`: mean and spread of each
"""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from app.core.settings import Settings
from app.core.timestamps import iso_millis
from app.kafka.checkpoints import has_started, last_committed
from app.runtime.health import Ask
from models.core import series as names
from models.core.parameters import DetectorParameters
from models.core.store import read_part
from models.detection.detector import ShardDetector
from models.detection.shard_state import TABLES, host_of
from models.stats import gamma_poisson as poisson
from pipelines.errors import InputError
from pipelines.failures import reading_state
from pipelines.series_columns import shard_of
from pipelines.spark_internals import prepare_state_reader
from pipelines.state.shard_journal import restore_model
from pipelines.state.state_packing import BUFFER, unpack_parts
from pipelines.state.window_buffer import WindowBuffer

VARIABLE = "parts"
ATTEMPTS = 3
NEAREST = 3
MOST_COMPARED, LEAST_ALIKE = 200, 0.5  # names; share of two names


class UnknownSeries(InputError):
    """The model of a version has no such series."""


@dataclass(frozen=True)
class Shard:
    """The committed state of a shard, by name as it is stored."""

    number: int
    stored: Mapping[str, bytes]

    @property
    def done(self) -> int:
        """The end of the last window that it has processed, epoch milliseconds."""
        return WindowBuffer.load(self.stored[BUFFER]).done

    def detector(self, parameters: DetectorParameters) -> ShardDetector | None:
        """The model, loaded; None if the shard has none yet."""
        return restore_model(self.stored, self.done, parameters, self.number)


def describe_state(spark: SparkSession, settings: Settings, series: str) -> dict[str, Any]:
    """The model's state of a series.

    Parameters
    ----------
    spark
        A session.
    settings
        Those of the version.
    series
        Its name.

    Returns
    -------
    dict
        JSON types, as the docstring of this module lists them.

    Raises
    ------
    InputError
        The name is not that of a series, or the version has no state.
    UnknownSeries
        The model does not know the series; names the most similar ones.
    """
    host = host_in(series)
    shard = read_shard(spark, settings, host)
    with reading_state(f"the state of version {settings.version}"):
        detector = shard.detector(settings.detector) if shard is not None else None
    if shard is None or detector is None:
        raise unknown(spark, settings, series, host, [])
    if series not in detector:
        raise unknown(spark, settings, series, host, detector.series)
    return answer(settings, series, shard, detector)


def answers_from(spark: SparkSession, settings: Settings) -> Ask:
    """A function that answers from the state on disk, in a session beside that of the jobs."""
    own = spark.newSession()

    def ask(series: str) -> dict[str, Any]:
        own.sparkContext.setLocalProperty("spark.scheduler.pool", "state")  # a long batch must not hold it up
        return describe_state(own, settings, series)

    return ask


def answer(settings: Settings, series: str, shard: Shard, detector: ShardDetector) -> dict[str, Any]:
    """The answer for a series that the shard's model has."""
    numbers = detector.describe_state(series)
    episode = numbers.pop("episode")
    done = shard.done
    return {
        "series": series,
        "shard": shard.number,
        "as_of": iso_millis(done),
        "as_of_ms": done,
        "version": settings.version,
        "kind": names.parse(series).kind,
        **known(summary(series, numbers, settings.detector)),
        "episode": known(episode),
        "numbers": known(numbers),
    }


def known(value: Any) -> Any:
    """A value as JSON has it: NaN and infinity become null."""
    if isinstance(value, dict):
        return {key: known(inner) for key, inner in value.items()}
    return None if isinstance(value, float) and not isfinite(value) else value


def summary(series: str, numbers: Mapping[str, Any], p: DetectorParameters) -> dict[str, Any]:
    """What the model expects of the next window, in the series' unit."""
    kind = names.parse(series).kind
    expected = numbers if kind in ("gauge", "counter") else of_count(numbers, p)
    warming = expected["windows_to_go"] > 0
    return {
        "typical": expected["typical"],
        "spread": expected["spread"],
        "lower": None if warming else expected["lower"],
        "upper": None if warming else expected["upper"],
        "unit": {"gauge": "", "counter": "/s"}.get(kind, "lines/min"),
        "warming": warming,
        "windows_to_go": expected["windows_to_go"],
        "windows": int(numbers["rows"]),
        "seen": iso_millis(int(numbers["seen"])),
        "frozen": bool(numbers.get("frozen", False)),
    }


def of_count(numbers: Mapping[str, float], p: DetectorParameters) -> dict[str, Any]:
    """What the model expects of lines, a minute; the spread is the standard deviation of the negative binomial of a window."""
    columns = np.array([[value] for value in numbers.values()])
    belief = poisson.predict(columns, np.zeros(1), int(columns[poisson.SEEN, 0] + 1000 * p.window_seconds), p)
    lower, upper = belief.bounds(p.interval_probability)
    spread = np.sqrt(belief.mean + belief.mean**2 / belief.shape)
    found = {"typical": belief.mean, "spread": spread, "lower": lower, "upper": upper}
    return {
        **{name: float(one[0]) * p.windows(minutes=1) for name, one in found.items()},
        "windows_to_go": numbers["windows_to_go"],
    }


# --- the state


def host_in(series: str) -> str:
    """The host of a series' name as it decides the shard: quoted. Raises InputError for what is no name."""
    try:
        names.parse(series)
    except ValueError as error:
        raise InputError(str(error)) from error
    return host_of(series)


def read_shard(spark: SparkSession, settings: Settings, host: str) -> Shard | None:
    """The state of the shard that a host is in; None if nothing has been sent to that shard yet."""
    # Of a literal it is a constant: Spark works it out before it reads.
    number = shard_of(F.lit(host), settings.windowing.shards)
    rows = read(spark, settings, lambda state: state.where(F.col("shard") == number))
    if not rows:
        return None
    return Shard(rows[0]["shard"], {row["part"]: bytes(row["bytes"]) for row in rows})


def hosts(spark: SparkSession, settings: Settings) -> list[str]:
    """All hosts of a version as of the last snapshot of each shard, quoted, sorted."""
    rows = read(spark, settings, lambda state: state.where(F.col("part") == "names"))
    return sorted(
        host for row in rows for host in names_of(unpack_parts({"names": bytes(row["bytes"])})["names"])["hosts"]
    )


def read(spark: SparkSession, settings: Settings, choose: Any) -> Sequence[Any]:
    """Rows `shard, part, bytes` of the state as of the last batch that `detect` has committed.

    Raises InputError if there is none.
    """
    checkpoint = settings.checkpoint("detect")
    for attempt in range(ATTEMPTS):
        batch = committed(settings, checkpoint)
        try:
            return list(choose(state_of(spark, checkpoint, batch)).collect())
        except PySparkException:
            # A job that runs removes the files of batches of long ago: then there is a newer one.
            if attempt == ATTEMPTS - 1 or committed(settings, checkpoint) == batch:
                raise
    return []


def committed(settings: Settings, checkpoint: Path) -> int:
    """The last batch whose state is complete. Raises InputError if there is none."""
    batch = last_committed(checkpoint)
    if batch is None:
        what = (
            "detect has not ended a batch yet; wait for it"
            if has_started(checkpoint)
            else "detect has never run; `kappa run detect`"
        )
        msg = f"version {settings.version} has no state in {checkpoint}: {what}"
        raise InputError(msg)
    return batch


def state_of(spark: SparkSession, checkpoint: Path, batch: int) -> DataFrame:
    """The state of all shards after a batch: `shard, part, bytes`."""
    return variable_of(spark, checkpoint, VARIABLE, batch).select(
        F.col("key.shard").alias("shard"),
        F.col("user_map_key.part").alias("part"),
        F.col("user_map_value.bytes").alias("bytes"),
    )


def variable_of(spark: SparkSession, checkpoint: Path, variable: str, batch: int) -> DataFrame:
    """A state variable of a query as of a committed batch."""
    prepare_state_reader(spark)
    options = {"path": str(checkpoint), "stateVarName": variable, "batchId": str(batch)}
    return spark.read.format("statestore").options(**options).load()


def names_of(part: bytes) -> dict[str, list[str]]:
    """The part `names` by tables."""
    arrays, lengths = read_part(part)
    flat, at = arrays["name"].to_pylist(), 0
    found: dict[str, list[str]] = {}
    for table in TABLES:
        found[table] = flat[at : at + lengths[table]]
        at += lengths[table]
    return found


# --- unknown names


def unknown(spark: SparkSession, settings: Settings, series: str, host: str, known: Sequence[str]) -> UnknownSeries:
    """The error for an unknown series, with the most similar names: of the same host, else similar hosts."""
    of_host = [name for name in known if host_of(name) == host]
    if of_host:
        near = nearest(series, of_host)
        what = f"no series {series!r}, nearest are {', '.join(near)}" if near else f"no series {series!r}"
        what += f"; its host has {len(of_host)}"
    else:
        all_hosts = hosts(spark, settings)
        near = nearest(host, all_hosts)
        like = f", nearest are {', '.join(near)}" if near else ""
        number = f"among {len(all_hosts)}{like}" if all_hosts else "as it has judged no window yet"
        what = f"no series {series!r} and no host {host!r} {number}"
    return UnknownSeries(f"version {settings.version} knows {what}")


def nearest(name: str, known: Sequence[str]) -> list[str]:
    """The most similar names: those that go on where this one ends, or end where it goes on, the shortest first; then the most alike.

    So a host's short name finds its long one, and a metric's name without labels those with labels. Comparing two names otherwise takes time
    with the product of their lengths, and senders choose them: those are compared that have most characters in common, in any order, which
    takes time with their sum.
    """
    compared = difflib.SequenceMatcher(b=name)

    def in_common(one: str) -> float:
        compared.set_seq1(one)
        return compared.quick_ratio() if compared.real_quick_ratio() >= LEAST_ALIKE else 0.0

    longer = heapq.nsmallest(NEAREST, (one for one in known if goes_on(name, one) or goes_on(one, name)), key=len)
    likely = known if len(known) <= MOST_COMPARED else heapq.nlargest(MOST_COMPARED, known, key=in_common)
    alike = difflib.get_close_matches(name, likely, NEAREST, cutoff=LEAST_ALIKE)
    return list(dict.fromkeys([*longer, *alike]))[:NEAREST]


def goes_on(short: str, long: str) -> bool:
    """Whether a name is the other one with a further part, such as a domain or labels."""
    return long.startswith(short) and not long[len(short) : len(short) + 1].isalnum()
