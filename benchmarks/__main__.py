"""`make bench`: measures in one run, prints a table, writes JSON with the machine's description."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from app.core.settings import Settings
from benchmarks import catching_up, early_lane, forms, idle, latency, lines, pages, replays, steps, throughput
from benchmarks.deployment import deployment, machine

RESULTS = Path(__file__).parent / "results"

PARTS = ("steps", "throughput", "lines", "forms", "replay", "catching-up", "latency", "idle", "early", "pages")
# figure -> (what it says, what was promised)
WANTED = {
    "score_rows_per_second": ("`kappa score`, a curve, rows/s of a core", ">= 5,000"),
    **{
        f"step_{gauges}_ms": (f"step of a shard, gauges: {gauges:,}, ms of a core", "<= 0.2" if gauges == 1 else "")
        for gauges in steps.GAUGES
    },
    "plain_events_per_second": ("reading the topic without parsing, Kafka's defaults, events/s", ""),
    "plain_ours_events_per_second": ("the same with our consumer's options, events/s", ""),
    "extract_events_per_second": ("extract, topic to topic, events/s", ""),
    "extract_to_plain": ("extract / plain reading, Kafka's defaults", ">= 0.45"),
    "extract_to_plain_ours": ("extract / plain reading, our options", ""),
    "detect_rows_per_second": ("detect, series windows/s", ">= 250,000"),
    "state_bytes_after_a_day": ("state of a gauge after a day, its name included, bytes", "<= 600"),
    "state_bytes_per_gauge": ("the same after nine days", "<= 600"),
    "state_bytes_written": ("what a window writes of it, on average", ""),
    "index_documents_per_second": ("index, documents/s", ""),
    **{
        key: (what, wanted)
        for length, each_second in ((120, ">= 100,000"), (500, ">= 30,000"))
        for key, what, wanted in (
            (
                f"lines_{length}_java_per_second",
                f"templates of lines of {length} bytes, Java, lines/s of a core",
                each_second,
            ),
            (f"lines_{length}_python_per_second", "the same in Python, `kappa templates`", each_second),
            (f"extract_lines_{length}_per_second", f"extract, lines of {length} bytes, lines/s", ""),
            (f"extract_lines_{length}_to_plain", "the same / plain reading, Kafka's defaults", ">= 0.25"),
        )
    },
    **{
        forms.key_of(what, form): (f"reading {what} of {form}, {what}/s", "")
        for what, (_, some) in forms.TOPICS.items()
        for form in some
    },
    "replay_events_per_second": ("bounded replay, events/s", ""),
    "chain_events_per_second": ("extract, detect, correlate live, events/s", ""),
    "replay_to_plain": ("replay / plain reading, Kafka's defaults", ">= 0.45"),
    "replay_to_plain_ours": ("replay / plain reading, our options", ""),
    "replay_to_chain": ("replay / live chain", ">= 3"),
    "replay_times": ("replay of a fleet by the minute, times real time", ">= 1,000"),
    "catching_up_times": ("the live chain behind by as much, times real time", ">= 500"),
    "latency_median_seconds": ("window closed -> novelty searchable, median s", "< 2.5"),
    "latency_p99_seconds": ("window closed -> novelty searchable, p99 s", "< 5"),
    "scores_latency_median_seconds": ("the same with all scores indexed, median s", ""),
    "scores_latency_p99_seconds": ("the same with all scores indexed, p99 s", ""),
    "idle_cores": ("all jobs with nothing but heartbeats, cores", "<= 0.15"),
    "fleet_cores": (f"the same with a fleet of {idle.FLEET_HOSTS} hosts, {idle.FLEET_SERIES} series, cores", "<= 0.35"),
    **{
        f"early_{rate // 1000}k_{series // 1000}k_{key}": (
            f"record -> early alarm, {rate:,} events/s, {series:,} bounds, {what}",
            "< 200" if (rate, series, key) == (20_000, 10_000, "p99_ms") else "",
        )
        for rate in early_lane.RATES
        for series in early_lane.BOUNDS
        for key, what in (
            ("p50_ms", "median ms"),
            ("p99_ms", "p99 ms"),
            ("max_ms", "most ms"),
            ("batch_p50_ms", "micro-batches, median ms"),
            ("batch_p99_ms", "micro-batches, p99 ms"),
        )
    },
    "pages_overview_seconds": ("overview, 24 h of a million documents, s", "< 2"),
    "pages_overview_30d_seconds": ("overview, 30 days, s", "< 2"),
    "pages_incident_click_seconds": ("incident, by a click on the overview, what is in view, s", "< 1"),
    "pages_incident_whole_seconds": ("the same with all curves, s", ""),
    "pages_incident_seconds": ("incident, by its address in a new page, what is in view, s", ""),
}
# What was measured before the model was compiled and batches waited for windows to close: AMD EPYC, 2 cores.
BEFORE = {
    "score_rows_per_second": "226 to 297",
    "step_1_ms": "2.8",
    "step_36_ms": "3.3",
    "step_1000_ms": "7.6",
    "extract_to_plain": "0.36 to 0.38",
    "detect_rows_per_second": "110,000",
    "state_bytes_per_gauge": "1,200",
    "lines_500_python_per_second": "2,600",
    "replay_times": "183 with 4 shards",
    "catching_up_times": "32",
    "latency_median_seconds": "5.0",
    "latency_p99_seconds": "7.5",
    "idle_cores": "1.4 to 1.65",
}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--lines", type=int, default=1_000_000, help="log lines of 120 bytes")
    parser.add_argument("--log", type=int, default=20_000_000, help="events of the log that is replayed")
    parser.add_argument("--series", type=int, default=10_000)
    parser.add_argument("--many", type=int, default=500_000, help="series for detect")
    parser.add_argument("--hours", type=float, default=15.0, help="of a fleet by the minute, that is caught up with")
    parser.add_argument("--rate", type=int, default=20_000, help="events/s live")
    parser.add_argument("--seconds", type=float, default=120.0, help="live, after ten minutes' warm-up")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS), help="some of it, in one run")
    chosen = parser.parse_args()
    about = machine()
    figures: dict[str, float] = {}
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"{datetime.now(tz=UTC):%Y%m%dT%H%M%SZ}.json"
    try:
        for found in measured(chosen):
            figures |= found
            written = {"machine": about, "arguments": vars(chosen), "figures": figures}
            file.write_text(json.dumps(written, indent=2) + "\n")
    finally:  # what was measured until then, where something ends it
        Console().print(table_of(figures, about))
        Console().print(f"written to {file}")


def table_of(figures: Mapping[str, float], about: Mapping[str, Any]) -> Table:
    """The figures beside what was wanted, and what was measured before."""
    view = Table(title=f"{about['cpu']}, {about['cores']} cores, {about['memory_gib']} GiB", title_justify="left")
    for column in ("measured", "figure", "wanted", "before"):
        view.add_column(column)
    for name, (what, wanted) in WANTED.items():
        if name in figures:
            value = figures[name]
            view.add_row(what, f"{value:,.2f}" if value < 1000 else f"{value:,.0f}", wanted, BEFORE.get(name, ""))
    return view


def measured(chosen: argparse.Namespace) -> Iterator[dict[str, float]]:
    """Figures of each chosen part as soon as they are there; those of the jobs on a deployment of their own."""
    of_jobs: dict[str, Callable[[SparkSession, Settings], dict[str, float]]] = {
        "throughput": lambda spark, own: throughput.measure(spark, own, chosen.events, chosen.series, chosen.many),
        "lines": lambda spark, own: lines.measure(spark, own, chosen.lines),
        "forms": lambda spark, _: forms.measure(spark),
        "replay": lambda spark, own: replays.measure(spark, own, chosen.log, chosen.series),
        "catching-up": lambda spark, own: catching_up.measure(spark, own, chosen.hours),
        "latency": lambda spark, own: latency.measure(spark, own, chosen.rate, chosen.series, chosen.seconds),
        "idle": idle.measure,
        "early": lambda spark, own: early_lane.measure(spark, own, early_lane.RATES, early_lane.BOUNDS, chosen.seconds),
    }
    if "steps" in chosen.only:
        yield steps.measure()
    wanted = [measure for name, measure in of_jobs.items() if name in chosen.only]
    if wanted:
        with deployment() as (settings, spark):
            for measure in wanted:
                yield measure(spark, settings)
    if "pages" in chosen.only:
        yield pages.measure()


if __name__ == "__main__":
    main()
