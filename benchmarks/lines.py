"""Log lines: templates a second of one core, in Java and in Python, and `extract` against plain reading of the same topic."""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from app.core.settings import Settings
from app.runtime import jobs
from benchmarks.deployment import PARTITIONS, close_windows, far_ahead, log_lines, message, say
from benchmarks.throughput import RUNS, apart, numbered, plain, timed
from models.templates.extraction import template_of
from models.templates.masks import line_table
from pipelines.jvm import compress_table
from pipelines.spark_internals import java_array, java_object, jvm_of

LENGTHS = (120, 500)  # bytes
DIFFERENT = 2_000  # lines that are masked again and again
SECONDS = 2.0  # of a processor


def measure(spark: SparkSession, settings: Settings, lines: int) -> dict[str, float]:
    """All of it; `lines` of 120 bytes, and a quarter as many of 500, are in the topic."""
    figures: dict[str, float] = {}
    for length in LENGTHS:
        figures |= matchers(spark, length)
        figures |= extraction(spark, settings, lines * LENGTHS[0] // length, length)
    say(json.dumps(figures))
    return figures


def matchers(spark: SparkSession, length: int) -> dict[str, float]:
    """Templates a second of one core's processor time: medians, after a warm-up of as many seconds."""
    rows = spark.range(DIFFERENT).select(message(97 * F.col("id"), length).alias("m")).orderBy("id").collect()
    lines = [str(row["m"]) for row in rows]
    java = in_java(spark, lines)
    found = {
        "java": [float(java.perSecond(SECONDS)) for _ in range(RUNS + 1)],
        "python": [in_python(lines) for _ in range(RUNS + 1)],
    }
    say(f"lines of {length} bytes: {found}")
    return {f"lines_{length}_{name}_per_second": statistics.median(rates[1:]) for name, rates in found.items()}


def in_java(spark: SparkSession, lines: list[str]) -> Any:
    """An object of `Lines.java` over `LogTemplate`."""
    compiler = jvm_of(spark).org.codehaus.janino.SimpleCompiler()
    compiler.cook(Path(__file__).with_name("Lines.java").read_text())
    kind = compiler.getClassLoader().loadClass("kappa.bench.Lines")
    function = java_object(spark, "LogTemplate", compress_table(line_table()))
    arguments = (function, java_array(spark, "java.lang.String", lines))
    return kind.getConstructors()[0].newInstance(java_array(spark, "java.lang.Object", arguments))


def in_python(lines: list[str]) -> float:
    """Lines a second of `kappa templates`, reading and writing left out."""
    begin, many, taken = time.process_time(), 0, 0.0
    while taken < SECONDS:
        for line in lines:
            template_of(line)
        many += len(lines)
        taken = time.process_time() - begin
    return many / taken


def extraction(spark: SparkSession, settings: Settings, lines: int, length: int) -> dict[str, float]:
    """`extract` of log lines against plain reading of them, in turns; medians."""
    topics = settings.topics.model_copy(update={"logs_partitions": PARTITIONS})
    own = apart(settings.model_copy(update={"topics": topics}), f"lines-{length}")
    say(f"writing {lines:,} log lines of {length} bytes")
    log_lines(spark, own, lines, length)
    close_windows(own, far_ahead())
    plain(spark, own, lines, 100, "logs")
    timed(spark, numbered(own, 100), jobs.extract_job(numbered(own, 100)))
    read, extracted = [], []
    for number in range(RUNS):
        read.append(plain(spark, own, lines, number, "logs"))
        extracted.append(lines / timed(spark, own, jobs.extract_job(numbered(own, number))))
        say(f"plain reading {read[-1][0]:,.0f} lines/s, extract {extracted[-1]:,.0f}")
    return {
        f"extract_lines_{length}_per_second": statistics.median(extracted),
        f"extract_lines_{length}_to_plain": statistics.median(e / p for e, (p, _) in zip(extracted, read, strict=True)),
    }
