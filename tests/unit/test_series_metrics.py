"""`kappa export --prometheus`: points as metrics, and what is refused."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.distribution_programs import program
from typer.testing import CliRunner

from app.cli import main, series_metrics
from app.cli.series_metrics import exposition, without
from app.core.settings import PROJECT
from pipelines.errors import InputError

NAME = "gauge/web-1/shop/disk.io{device=%2Fsda}"
POINT = {"time": 1_795_262_400_000, "value": 93.5, "typical": 30.0, "lower": 21.0, "upper": None, "score": 15.25}


def metrics(points: dict[str, dict[str, Any]]) -> dict[str, tuple[dict[str, str], float]]:
    """The one series of each metric."""
    return {
        sample.name: (sample.labels, sample.value)
        for family in text_string_to_metric_families(exposition(points))
        for sample in family.samples
    }


def test_a_window_is_six_metrics_with_the_parts_of_the_name_and_what_is_not_known_is_none() -> None:
    found = metrics({NAME: POINT})
    labels = {"series": NAME, "kind": "gauge", "host": "web-1", "service": "shop", "name": "disk.io{device=/sda}"}
    assert {name: value for name, (own, value) in found.items() if own == labels} == {
        "kappa_series_score_nats": 15.25,
        "kappa_series_value": 93.5,
        "kappa_series_typical": 30.0,
        "kappa_series_lower": 21.0,
        "kappa_series_window_end_timestamp_seconds": 1_795_262_400.0,
    }
    assert len(found) == 5


def test_series_of_lines_are_named_by_their_level_or_template() -> None:
    points = [{"logs/h/s/error": POINT}, {"template/h//error/4f": POINT}, {'gauge/h/s/a"b\\c': POINT}]
    assert [metrics(one)["kappa_series_value"][0]["name"] for one in points] == ["error", "4f", 'a"b\\c']


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (["nonsense"], "not the name of a series"),
        (
            ["logs/h/s/info", "logs/h/s/ERROR"],
            "logs/h/s/ERROR' has the level 'ERROR'; wanted trace, .*, error or fatal",
        ),
        (["template/h/s/warning/4f"], "has the level 'warning'"),
        ([f"gauge/h/s/{n}" for n in range(1_001)], "wanted at most 1000"),
    ],
)
def test_what_is_no_series_and_too_many_of_them_are_refused(names: list[str], why: str) -> None:
    with pytest.raises(InputError, match=why):
        series_metrics.named(names)


def test_series_of_the_example_can_be_exported() -> None:
    page = (PROJECT / "docs" / "prometheus.md").read_text()
    (example,) = re.findall(r"^kappa export --prometheus (.*?) >", page, re.M)
    assert len(series_metrics.named(example.split())) == 2


def test_series_without_a_window_are_named() -> None:
    assert without(["gauge/h//a"], {"gauge/h//a": {}}) == ""
    assert ": gauge/h//b; check the name" in without(["gauge/h//a", "gauge/h//b"], {"gauge/h//a": {}})
    assert ": gauge/h//a and 1 more;" in without(["gauge/h//a", "gauge/h//b"], {})


def test_a_form_has_to_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answer = CliRunner().invoke(main.app, ["export", NAME])
    assert isinstance(answer.exception, InputError) and "wanted --prometheus" in str(answer.exception)


def test_every_metric_is_documented() -> None:
    page = (PROJECT / "docs" / "prometheus.md").read_text()
    assert [name for name, _ in series_metrics.METRICS.values() if f"`{name}`" not in page] == []


def test_promtool_has_nothing_to_say_about_them() -> None:
    command = [str(program("promtool").path), "check", "metrics"]
    done = subprocess.run(
        command, input=exposition({NAME: POINT}), capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
