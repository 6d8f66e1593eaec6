"""The tables of docs/scale.md that are computed: `python -m benchmarks.scale` prints them from the constants of `kappa plan`."""

from __future__ import annotations

import math
from dataclasses import replace

from app.core.settings import Settings, load
from app.runtime import plan
from app.runtime.plan import Load, ceilings, cores_of

LOADS = {
    "5,000 machines": Load(series=500_000, hosts=5_000, templates=100_000, lines_per_second=10_000, line_bytes=500),
    "100,000 events/s": Load(series=1_000_000, hosts=10_000),
    "1,000,000 events/s": Load(series=10_000_000, hosts=100_000),
    "10 TB of logs a day": Load(
        series=100_000, hosts=10_000, templates=500_000, lines_per_second=10e12 / 86_400 / 500, line_bytes=500
    ),
}
CORES_OF_MACHINE, SHARDS = 16, 64


def settings_of() -> Settings:
    """The defaults, windows of 10 s among them, with as many partitions and tasks as there can be."""
    base = load()
    most = plan.INPUT_PARTITIONS
    return base.model_copy(
        update={
            "windowing": replace(base.windowing, window_seconds=10, shards=SHARDS),
            "spark": base.spark.model_copy(update={"shuffle_partitions": SHARDS}),
            "topics": base.topics.model_copy(
                update={"telemetry_partitions": most, "logs_partitions": most, "partitions": most, "replication": 1}
            ),
        }
    )


def costs() -> list[str]:
    """The table of what each costs."""
    rows = (
        ("an event, in the canonical form, of a series with many in a window", plan.EVENT_SECONDS, plan.EVENT),
        ("the same, as agents write it", plan.AGENT_EVENT_SECONDS, None),
        ("a log line with a message of 120 bytes, in the canonical form", plan.LINE_SECONDS, plan.LINE),
        ("more of it, as agents write it", plan.AGENT_LINE_SECONDS, None),
        ("each 100 bytes more of it", 100 * plan.LINE_BYTE_SECONDS, 100 * plan.LINE_BYTE),
        ("a series in a window, `extract`", plan.ROW_EXTRACT_SECONDS, plan.ROW),
        ("the same, `detect`", plan.ROW_DETECT_SECONDS, plan.SCORE),
        ("the same, both jobs, more where each batch has one window", plan.ROW_LIVE_SECONDS, None),
        ("an episode event, `correlate`", plan.EPISODE_SECONDS, None),
    )
    return [
        f"| {what} | {1e6 * seconds:.1f} | {'' if size is None else f'{size:.0f}'} |".replace("|  |", "| |")
        for what, seconds, size in rows
    ]


def loads() -> list[str]:
    """The table of what loads need: a row for each figure, a column for each load."""
    settings = settings_of()
    found = [(plan.plan(one, settings), cores_of(one, settings)) for one in LOADS.values()]
    kept = [one.broker / 1e12 for one, _ in found]
    rows: list[tuple[str, list[float], int]] = [
        (
            "records a second, events and log lines",
            [one.series / 10 + one.lines_per_second for one in LOADS.values()],
            0,
        ),
        ("series, log templates among them", [one.series + plan.counts_of(one) for one in LOADS.values()], 0),
        ("cores: events", [cores["events"] for _, cores in found], 1),
        ("cores: log lines", [cores["lines"] for _, cores in found], 1),
        ("cores: windows of series, `extract`", [cores["rows of extract"] for _, cores in found], 1),
        ("cores: windows of series, `detect`", [cores["rows of detect"] for _, cores in found], 1),
        (
            "cores: the same, both, as each batch has one window",
            [cores["rows of small batches"] for _, cores in found],
            1,
        ),
        ("cores in all", [one.cores for one, _ in found], 1),
        (f"machines of {CORES_OF_MACHINE} cores, at 70 %", [machines(one.cores) for one, _ in found], 0),
        ("memory, GB", [one.memory / 1e9 for one, _ in found], 0),
        ("state of the models, GB", [one.state / 1e9 for one, _ in found], 1),
        ("disk of the brokers for each copy, TB", kept, 1),
    ]
    head = ["| " + " | ".join(["", *LOADS]) + " |", "| --- |" + " ---: |" * len(LOADS)]
    return [*head, *(f"| {what} | " + " | ".join(f"{n:,.{digits}f}" for n in row) + " |" for what, row, digits in rows)]


def machines(cores: float) -> int:
    """So many that each is busy for 70 % of the time."""
    return math.ceil(cores / (0.7 * CORES_OF_MACHINE))


def limits() -> list[str]:
    """The table of what does not grow with the machines."""
    found, canonical = ceilings(settings_of()), ceilings(settings_of(), canonical=True)
    flat = "in the canonical form"
    rows = (
        (
            f"`telemetry`: {plan.INPUT_PARTITIONS} partitions, a task each",
            f"{found.events:,.0f} events/s; {flat} {canonical.events:,.0f}",
        ),
        (
            f"`logs`: {plan.INPUT_PARTITIONS} partitions, a task each",
            f"{found.lines:,.0f} lines of 120 bytes a second; {flat} {canonical.lines:,.0f}",
        ),
        (f"`detect`: {SHARDS} shards, a task each", f"{found.rows:,.0f} series in windows of 10 s"),
        ("`correlate`: one task", f"{found.episodes:,.0f} episode events in a window of 10 s"),
    )
    return [f"| {what} | {most} |" for what, most in rows]


def main() -> None:
    """Print the tables."""
    for table in (costs(), loads(), limits()):
        print("\n".join([*table, ""]))


if __name__ == "__main__":
    main()
