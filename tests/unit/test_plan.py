"""`kappa plan`: what it says beforehand is what the models take, and grows with what is asked."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from app.cli.main import app
from app.core.settings import PROJECT, load
from app.runtime.plan import DOCUMENT, DOCUMENT_SECONDS, METRIC_BYTES, METRIC_STATE, Load, Plan, plan
from benchmarks import idle
from benchmarks.state import state_bytes
from models.core.parameters import DetectorParameters
from models.core.windows import Windows
from models.detection.detector import ShardDetector

SERIES = 6_000
PAGE, SCALE_PAGE = ((PROJECT / "docs" / name).read_text() for name in ("limits.md", "scale.md"))


@dataclass(frozen=True)
class MeasuredChain:
    """A shape, and what a whole chain took for it (`python -m benchmarks.flood --live`), GB but for disk (MB)."""

    series: int
    hosts: int
    shards: int
    memory: float
    jvm: float
    python: float
    driver: float
    disk: float

    @property
    def plan(self) -> Plan:
        """What the plan gives beforehand."""
        settings = load()
        windowing = replace(settings.windowing, window_seconds=10, shards=self.shards)
        return plan(Load(self.series, self.hosts, canonical=True), settings.model_copy(update={"windowing": windowing}))

    def rows(self) -> list[tuple[str, float, float | None]]:
        """Rows of the page: what, what the plan says, what was measured."""
        planned = self.plan
        return [
            ("memory, GB", planned.memory / 1e9, self.memory),
            ("of the JVM", planned.jvm / 1e9, self.jvm),
            ("of the Python workers", planned.python / 1e9, self.python),
            ("of `kappa run`", planned.driver / 1e9, self.driver),
            ("disk below `home`, the most at once, MB", planned.checkpoints / 1e6, self.disk),
            ("cores", planned.cores, None),
        ]


CHAINS = (
    MeasuredChain(2_000, 40, 64, 2.72, 1.71, 0.78, 0.24, 75),
    MeasuredChain(20_000, 50, 16, 2.82, 1.84, 0.76, 0.24, 111),
)


@pytest.mark.parametrize("chain", CHAINS, ids=lambda one: str(one.series))
def test_the_plan_of_a_chain_is_within_a_quarter_of_what_was_measured(chain: MeasuredChain) -> None:
    assert all(planned == pytest.approx(found, rel=0.25) for _, planned, found in chain.rows() if found is not None)


def test_the_page_has_the_figures_of_the_plan_and_those_that_were_measured() -> None:
    columns = [chain.rows() for chain in CHAINS]
    for rows in zip(*columns, strict=True):
        digits = 0 if rows[0][0].endswith("MB") else 2
        cells = [
            f"{planned:.{digits}f} | {'' if found is None else f'{found:.{digits}f}'}" for _, planned, found in rows
        ]
        assert f"| {rows[0][0]} | {' | '.join(cells)} |".replace("|  |", "| |") in PAGE


def test_cores_of_a_small_fleet_are_those_that_were_measured_on_a_machine_without_other_work() -> None:
    settings = load()
    assert (settings.windowing.window_seconds, settings.windowing.shards) == (10, 16)
    assert f"{plan(Load(idle.FLEET_SERIES, idle.FLEET_HOSTS, canonical=True), settings).cores:.2f}" == "0.34"
    assert "20 hosts and 720 gauges, each once in ten seconds, it is\n0.34 of a core" in SCALE_PAGE


@pytest.mark.parametrize(("series", "found"), [(300_000, 11.8), (500_000, 18.2)])
def test_cores_of_many_gauges_live_are_those_that_were_measured(series: int, found: float) -> None:
    core_seconds = 10 * plan(Load(series, series // 100, canonical=True), load()).cores
    assert core_seconds == pytest.approx(found, rel=0.1)
    assert f"| {series:,} |" in SCALE_PAGE
    assert f"| {found}, " in SCALE_PAGE
    assert f"| {core_seconds:.1f} |" in SCALE_PAGE


def gauges(series: int) -> np.ndarray[tuple[int], np.dtype[np.object_]]:
    names = sorted(f"gauge/host-{i % 60:05d}/app/metric.{i // 60:04d}.with.a.name" for i in range(series))
    return np.array(names, dtype=object)


def stepped(series: int) -> ShardDetector:
    """A detector after four windows of as many metrics."""
    names, rng = gauges(series), np.random.default_rng(1)
    detector, nothing = ShardDetector(DetectorParameters()), np.full(series, None, dtype=object)
    for window in range(4):
        x = 50 + rng.standard_normal(series)
        rows = Windows(names, np.ones(series, dtype=np.int64), x, np.zeros(series), x, x, x, nothing, nothing)
        detector.step(1_800_000_000_000 + 10_000 * window, rows)
    return detector


def test_memory_of_a_metric_is_within_a_quarter_of_the_plan() -> None:
    stepped(60)  # what is compiled and imported at first is no memory of a metric
    tracemalloc.start()
    try:
        detector = stepped(SERIES)
        found = tracemalloc.get_traced_memory()[0] / SERIES
    finally:
        tracemalloc.stop()
    assert detector.watched.series == SERIES
    assert found == pytest.approx(METRIC_BYTES, rel=0.25)


@pytest.mark.long
def test_state_of_a_metric_is_within_a_quarter_of_the_plan() -> None:
    assert state_bytes(series=300) == pytest.approx(METRIC_STATE, rel=0.25)


def test_more_series_lines_and_shorter_windows_need_more() -> None:
    settings = load()
    little, much = (plan(Load(n, 100, 10, 5.0), settings) for n in (10_000, 20_000))
    for name in ("state", "heap", "jvm", "python", "memory", "checkpoints", "broker", "cores"):
        assert getattr(much, name) > getattr(little, name)
    assert little.memory == little.jvm + little.python + little.driver
    assert plan(Load(10_000, 100, 10, 500.0), settings).broker > little.broker


def test_scores_that_are_indexed_need_disk_shards_and_cores() -> None:
    settings = load()
    load_of_all = Load(100_000, 1_000)
    assert plan(load_of_all, settings).documents == 0
    indexed = settings.model_copy(update={"index": settings.index.model_copy(update={"scores": True})})
    found = plan(load_of_all, indexed)
    assert found.documents == 8_640 * 100_000 * DOCUMENT
    assert found.cores - plan(load_of_all, settings).cores == pytest.approx(10_000 * DOCUMENT_SECONDS)
    (warning,) = found.warnings
    assert warning.startswith("864,000,000 scores a day") and warning.endswith("set elasticsearch.score_shards = 5")
    wider = indexed.elasticsearch.model_copy(update={"score_shards": 5, "replicas": 1})
    more = plan(load_of_all, indexed.model_copy(update={"elasticsearch": wider}))
    assert (more.documents, more.warnings) == (2 * found.documents, ())
    assert f"| {DOCUMENT} bytes for each score and copy" in PAGE
    assert f"{1e6 * DOCUMENT_SECONDS:.0f} where `index.scores` is on" in PAGE
    assert f"| {1e6 * DOCUMENT_SECONDS:.1f} | {DOCUMENT} |" in SCALE_PAGE


def test_the_disk_that_the_readme_warns_of_is_that_of_the_plan() -> None:
    of_three = load(topics={"replication": 3})
    assert (of_three.topics.retention_hours, of_three.topics.input_retention_hours) == (14 * 24, 14 * 24)
    terabytes = round(plan(Load(2_000 * 150, 2_000), of_three).broker / 1e12)
    readme = (PROJECT / "README.md").read_text()
    assert f"two weeks of 2,000 hosts with 150 metrics each in three copies are {terabytes} TB" in readme


def test_what_is_over_a_limit_is_said() -> None:
    settings = load()
    assert plan(Load(1_000, 10), settings).warnings == ()
    found = plan(Load(300_000, 10, 30_000), settings).warnings
    assert [one.split(" a host")[0] for one in found] == ["30,000 metric series", "3,000 log templates"]
    assert (
        plan(Load(20_000_000, 20_000), settings)
        .warnings[0]
        .startswith("2,000,000 events a second are more than 16 partitions")
    )
    lines = Load(1_000, 10, 10, 600_000.0)
    assert plan(lines, settings).warnings[0].startswith("600,000 log lines a second are more than 16 partitions")
    assert plan(replace(lines, canonical=True), settings).warnings == ()
    assert plan(Load(300_000, 200_000), settings).warnings[0].startswith("200,000 hosts are more than limits.hosts")
    assert plan(Load(500_000, 500, 1), settings).warnings[0].startswith("500,001 series and templates are more than")


def test_more_shards_are_advised_where_the_state_of_one_is_large() -> None:
    settings = load()
    assert settings.windowing.shards == 16
    assert not any("shards" in one for one in plan(Load(1_100_000, 11_000), settings).warnings)
    assert "each of 16 shards has a state of 66 MB" in plan(Load(1_500_000, 15_000), settings).warnings[-1]
    assert "windowing.shards = 32" in plan(Load(1_500_000, 15_000), settings).warnings[-1]
    more = settings.model_copy(update={"windowing": replace(settings.windowing, shards=32)})
    assert not any("shards" in one for one in plan(Load(1_500_000, 15_000), more).warnings)


@pytest.mark.parametrize("wrong", [{"series": 0}, {"hosts": 0}, {"templates": -1}, {"lines_per_second": -1.0}])
def test_a_load_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="wanted"):
        Load(**({"series": 1, "hosts": 1} | wrong))


def test_the_command_prints_a_table_or_json() -> None:
    run = CliRunner().invoke(app, ["plan", "--series", "20000", "--hosts", "200", "--window", "30", "--json"])
    assert run.exit_code == 0
    shown = json.loads(run.stdout)
    assert shown["memory"] == shown["jvm"] + shown["python"] + shown["driver"]
    table = CliRunner().invoke(app, ["plan", "--series", "20000", "--hosts", "200"])
    assert "memory of the Python workers" in table.stdout


def test_what_agents_write_takes_more_cores_than_the_canonical_form_and_nothing_else() -> None:
    asked = ["plan", "--series", "20000", "--hosts", "200", "--log-lines", "1000", "--window", "10", "--json"]
    agents, canonical = (json.loads(CliRunner().invoke(app, [*asked, *more]).stdout) for more in ([], ["--canonical"]))
    assert agents.pop("cores") - canonical.pop("cores") == pytest.approx(2_000 * 18e-6 + 1_000 * 12e-6, abs=0.01)
    assert agents == canonical
