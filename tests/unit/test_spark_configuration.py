"""What Spark is configured with: the same in one process and on a cluster, but for what executors elsewhere need."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli.main import app
from app.core.settings import PROJECT, Settings
from app.runtime.spark import configuration, properties

JARS = PROJECT / ".kappa" / "jars"


def settings(folder: Path, master: str, **extra: str) -> Settings:
    return Settings(home=folder, jar_folder=JARS, spark={"master": master, "extra": extra})  # type: ignore[arg-type]


def test_executors_elsewhere_are_told_where_the_modules_are_and_get_the_same_otherwise(tmp_path: Path) -> None:
    alone = configuration(settings(tmp_path, "local[2]"))
    cluster = configuration(settings(tmp_path, "spark://127.0.0.1:7077"))
    assert cluster == alone | {
        "spark.master": "spark://127.0.0.1:7077",
        "spark.executorEnv.PYTHONPATH": str(PROJECT),
        "spark.executorEnv.NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
        "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.LocalFs",
    }
    assert any(
        Path(jar).parent.name == "own" for jar in cluster["spark.jars"].split(",")
    )  # our classes go with the rest


def test_what_is_set_by_hand_wins(tmp_path: Path) -> None:
    own = {"spark.executorEnv.PYTHONPATH": "/opt/kappa", "spark.cores.max": "4"}
    assert configuration(settings(tmp_path, "yarn", **own)).items() >= own.items()


def test_properties_are_a_line_each_and_keep_backslashes() -> None:
    assert properties({"b": "C:\\kappa", "a": "x=y z"}) == "a=x=y z\nb=C:\\\\kappa\n"


def test_command_writes_the_properties_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAPPA_HOME", str(tmp_path))
    monkeypatch.setenv("KAPPA_JAR_FOLDER", str(JARS))
    monkeypatch.setenv("KAPPA_SPARK__MASTER", "spark://127.0.0.1:7077")
    answer = CliRunner().invoke(app, ["config", "spark"])
    assert answer.exit_code == 0
    assert answer.stdout == properties(configuration(settings(tmp_path, "spark://127.0.0.1:7077")))
