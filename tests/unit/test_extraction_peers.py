"""The comparison with other stream processors: what is installed is what the table names, and a wrong answer is found."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from app.core.settings import PROJECT, Settings, load
from app.embedded.jars import manifest
from benchmarks.environment import environment_of
from benchmarks.peers import detection
from benchmarks.peers.environments import CONNECTOR
from benchmarks.peers.extraction import SMALL_EVENTS, FailedError, Taken, answers, difference, row
from benchmarks.peers.programs import PROGRAMS
from benchmarks.peers.state_of_series import NOTHING, scored

REQUIREMENTS = PROJECT / "benchmarks" / "peers" / "requirements"
PACKAGE = {"flink": "apache-flink", "bytewax": "bytewax", "quix": "quixstreams"}


def pinned(name: str) -> dict[str, str]:
    """Packages of a peer and their versions; each has a hash."""
    text = (REQUIREMENTS / f"{name}.txt").read_text()
    found = re.findall(r"^([\w.-]+)==(\S+) \\\n    --hash=sha256:[0-9a-f]{64}", text, re.M)
    assert len(found) == len(re.findall(r"^[\w.-]+==", text, re.M))
    return dict(found)


@pytest.mark.parametrize("name", PACKAGE)
def test_the_version_that_the_table_names_is_the_one_that_is_installed(name: str) -> None:
    [program] = [one for one in PROGRAMS if one.name == name]
    assert pinned(name)[PACKAGE[name]] in program.what


def test_the_connector_is_for_the_release_of_flink_that_is_installed() -> None:
    release = CONNECTOR[2].split("-")[1]
    assert pinned("flink")["apache-flink"].startswith(f"{release}.")
    assert not any("flink" in jar for jars in manifest().values() for jar in jars)


def rows() -> list[dict[str, Any]]:
    one = {
        "series": "gauge/a//b",
        "window_end": 10_000,
        "n": 3,
        "mean": 2.0,
        "m2": 2.0,
        "min": 1.0,
        "max": 3.0,
        "last": 3.0,
    }
    return [one, one | {"window_end": 20_000}]


@pytest.mark.parametrize(("name", "wrong"), [("n", 4), ("mean", 2.0 + 1e-9), ("m2", 2.1), ("min", 1.5), ("last", 1.0)])
def test_an_answer_that_differs_in_a_figure_is_found(name: str, wrong: float) -> None:
    ours, theirs = answers(rows()), answers(rows())
    assert difference(ours, theirs) == ""
    theirs["gauge/a//b", 20_000][name] = wrong
    assert f": {name} is " in difference(ours, theirs)


def test_a_window_that_is_missing_or_comes_twice_is_found() -> None:
    found = rows()
    assert difference(answers(found), answers(found[:1])).startswith("2 and 1 windows")
    with pytest.raises(FailedError, match="3 rows of 2 windows"):
        answers([*found, found[0]])


def test_rounding_of_a_sum_of_squares_is_no_difference() -> None:
    ours, theirs = answers(rows()), answers(rows())
    for one, m2 in ((ours, 0.0), (theirs, 2.5e-13)):
        one["gauge/a//b", 20_000].update(min=50.0, max=50.0, mean=50.0, last=50.0, m2=m2)
    assert difference(ours, theirs) == ""


def test_what_a_start_takes_is_no_part_of_the_figures() -> None:
    [flink] = [one for one in PROGRAMS if one.name == "flink"]
    start = Taken(seconds=10.0, cores=20.0, memory=1 << 30)
    found = row(flink, SMALL_EVENTS + 1_000_000, start, [Taken(seconds=15.0, cores=28.0, memory=2 << 30)] * 3)
    assert (found["events_per_second"], found["core_seconds_per_million"]) == (200_000.0, 8.0)
    assert found["memory_mib"] == 2048
    assert row(flink, 5, "no wheel", [])["error"] == "no wheel"


def test_a_deployment_and_its_variables_are_the_same_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = load()
    settings = base.model_copy(
        update={
            "home": tmp_path,
            "jar_folder": tmp_path / "jars",
            "topics": base.topics.model_copy(
                update={"prefix": "a-", "timestamps": "create", "telemetry_partitions": 3}
            ),
            "windowing": replace(base.windowing, lateness_seconds=7, shards=8),
            "spark": base.spark.model_copy(update={"max_records_per_batch": 1234, "driver_memory": "3g"}),
            "kafka": base.kafka.model_copy(update={"bootstrap_servers": "127.0.0.1:1"}),
            "elasticsearch": base.elasticsearch.model_copy(update={"url": "http://127.0.0.1:2"}),
        }
    )
    for name, text in environment_of(settings).items():
        if name.startswith("KAPPA_"):
            monkeypatch.setenv(name, text)
    assert Settings().model_dump() == settings.model_dump()


def test_spark_gets_a_running_normal_distribution_of_each_series() -> None:
    values = np.random.default_rng(1).normal(5, 2, 50)
    frame = pd.DataFrame({"series": "gauge/a//b", "window_end": range(50), "mean": values})
    sums, first = scored(NOTHING, frame[:30].sample(frac=1, random_state=1))
    (n, mean, m2), second = scored(sums, frame[30:])
    assert n == 50
    assert (mean, m2 / 50) == pytest.approx((values.mean(), values.var()))
    assert first["window_end"].is_monotonic_increasing
    assert second["score"].iloc[-1] == pytest.approx(abs(values[-1] - values[:-1].mean()) / values[:-1].std())


@pytest.mark.parametrize(("what", "make"), [(what, make) for what, make, _ in detection.MODELS])
def test_each_detector_is_measured_on_the_same_values(what: str, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detection, "LEARNT", 3)
    monkeypatch.setattr(detection, "WINDOWS", 2)
    found = detection.of_python(what, make, 10)
    assert found["rows_per_second"] * found["core_seconds_per_million"] == pytest.approx(1e6)
    assert found["bytes_per_series"] > 500
