"""`kappa plan`: what it says beforehand is what the models take, and grows with what is asked."""

from __future__ import annotations

import json
import tracemalloc

import numpy as np
import pytest
from typer.testing import CliRunner

from app.cli.main import app
from app.core.settings import load
from app.runtime.plan import METRIC_BYTES, METRIC_STATE, Load, plan
from benchmarks.throughput import state_bytes
from models.core.parameters import DetectorParameters
from models.core.windows import Windows
from models.detection.detector import ShardDetector

SERIES = 6_000


def gauges(series: int) -> np.ndarray[tuple[int], np.dtype[np.object_]]:
    names = sorted(f"gauge/host-{i % 60:05d}/app/metric.{i // 60:04d}.with.a.name" for i in range(series))
    return np.array(names, dtype=object)


def test_memory_of_a_metric_is_within_a_quarter_of_the_plan() -> None:
    tracemalloc.start()
    try:
        names, rng = gauges(SERIES), np.random.default_rng(1)
        detector = ShardDetector(DetectorParameters())
        nothing = np.full(SERIES, None, dtype=object)
        for window in range(4):
            x = 50 + rng.standard_normal(SERIES)
            rows = Windows(names, np.ones(SERIES, dtype=np.int64), x, np.zeros(SERIES), x, x, x, nothing, nothing)
            detector.step(1_800_000_000_000 + 10_000 * window, rows)
        found = tracemalloc.get_traced_memory()[0] / SERIES
    finally:
        tracemalloc.stop()
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


def test_what_is_over_a_limit_is_said() -> None:
    settings = load()
    assert plan(Load(1_000, 10), settings).warnings == ()
    found = plan(Load(300_000, 10, 30_000), settings).warnings
    assert [one.split(" a host")[0] for one in found] == ["30,000 metric series", "3,000 log templates"]
    assert plan(Load(300_000, 200_000), settings).warnings[0].startswith("200,000 hosts are more than limits.hosts")


@pytest.mark.parametrize("wrong", [{"series": 0}, {"hosts": 0}, {"templates": -1}, {"lines_per_second": -1.0}])
def test_a_load_that_cannot_be_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="wanted"):
        Load(**({"series": 1, "hosts": 1} | wrong))


def test_the_command_prints_a_table_or_json() -> None:
    run = CliRunner().invoke(app, ["plan", "--series", "20000", "--hosts", "200", "--window", "30", "--json"])
    assert run.exit_code == 0
    shown = json.loads(run.stdout)
    assert shown["memory"] == shown["jvm"] + shown["python"] + shown["driver"]
    table = CliRunner().invoke(app, ["plan", "--series", "20000", "--hosts", "200"])
    assert "memory of the Python workers" in table.stdout
