"""The rules for Prometheus: they name only what `/metrics` gives, promtool accepts them, and each alert fires when it should."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from support.distribution_programs import program
from support.exposed_metrics import metrics, named

from app.core.settings import PROJECT, Settings

FOLDER = PROJECT / "deploy" / "prometheus"
RULES = FOLDER / "kappa.rules.yml"
TESTS = PROJECT / "tests" / "unit" / "kappa.rules.test.yml"
PAGE = PROJECT / "docs" / "prometheus.md"


def read(file: Path) -> Any:
    return YAML(typ="safe").load(file)


def rules(kind: str) -> list[dict[str, Any]]:
    return [rule for group in read(RULES)["groups"] for rule in group["rules"] if kind in rule]


def test_rules_name_only_metrics_and_labels_that_there_are() -> None:
    known, recorded = metrics(), {rule["record"] for rule in rules("record")}
    for rule in rules("expr"):
        expression = rule["expr"]
        assert named(expression) <= known.keys(), expression
        assert named(expression) or any(name in expression for name in recorded), "an alert about nothing of ours"
        for name, selectors in re.findall(r"(kappa_[a-z_]+){([^}]*)}", expression):
            assert set(re.findall(r"(\w+)[=!]", selectors)) <= known[name]
        for labels in re.findall(r"by \(([^)]*)\)", expression):
            of_metrics = set().union(*(known[name] for name in named(expression)))
            assert set(re.split(r",\s*", labels)) <= of_metrics | {"instance"}


def test_the_search_for_names_finds_one_that_there_is_not() -> None:
    wrong = 'sum by (kappa_job) (rate(kappa_laag_records{kappa_job="index"}[5m])) > kappa_lag_records'
    assert named(wrong) - metrics().keys() == {"kappa_laag_records"}


def test_every_alert_is_documented_says_what_to_do_and_is_tested() -> None:
    page, tested = PAGE.read_text(), read(TESTS)["tests"]
    alerts = {rule["alert"]: rule for rule in rules("alert")}
    for name, rule in alerts.items():
        assert f"| `{name}` | {rule['labels']['severity']} |" in page
        assert rule["annotations"].keys() == {"summary", "description"}
    assert set(re.findall(r"`(Kappa\w+)` \|", page)) == alerts.keys()
    silent, firing = (
        {case["alertname"] for case in test["alert_rule_test"] if bool(case.get("exp_alerts")) == fires}
        for test, fires in zip(tested, (False, True), strict=True)
    )
    assert silent == firing == alerts.keys()


def test_the_example_scrapes_the_port_of_the_readme() -> None:
    (job,) = read(FOLDER / "prometheus.yml")["scrape_configs"]
    (group,) = job["static_configs"]
    (port,) = set(re.findall(r"^port = (\d+)", (PROJECT / "README.md").read_text(), re.M))
    assert group["targets"] == [f"{Settings().health.host}:{port}"]


@pytest.mark.parametrize(
    "command",
    [
        ("check", "config", str(FOLDER / "prometheus.yml")),
        ("check", "config", str(PROJECT / "docs" / "inputs" / "prometheus.yml")),
        ("test", "rules", str(TESTS)),
    ],
)
def test_promtool_accepts_the_examples_and_each_alert_fires_when_it_should(command: tuple[str, ...]) -> None:
    done = subprocess.run(
        [program("promtool").path, *command], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
