"""What is used of Spark beside its API is in one module, and was tried with the Spark that is installed."""

from __future__ import annotations

import ast
from pathlib import Path

import pyspark
import pytest

from app.core.settings import PROJECT
from pipelines import spark_internals

PRIVATE = {
    "_jvm",
    "_jsc",
    "_sc",
    "_jdf",
    "_jc",
    "_jrdd",
    "_jsparkSession",
    "_jlistener",
    "_jsq",
    "_jreader",
    "_jwrite",
    "_gateway",
}
OWN_GATEWAY = {"app/embedded/jvm.py"}  # py4j to the JVM of the embedded servers, which is not Spark's
ROOMS = ("app", "pipelines", "replay", "benchmarks", "deploy", "models", "dashboards")


def test_the_installed_spark_is_the_one_that_the_internals_were_tried_with() -> None:
    assert pyspark.__version__ == spark_internals.TESTED_WITH, (
        "another Spark: run the tests and the benchmarks of each function in pipelines/spark_internals.py, then set TESTED_WITH"
    )


def private_attributes(file: Path) -> set[str]:
    tree = ast.parse(file.read_text())
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in PRIVATE}


@pytest.mark.parametrize("room", ROOMS)
def test_no_other_module_uses_private_attributes_of_spark(room: str) -> None:
    files = {str(file.relative_to(PROJECT)): private_attributes(file) for file in (PROJECT / room).rglob("*.py")}
    assert files
    found = {name: sorted(names) for name, names in files.items() if names and name not in OWN_GATEWAY}
    found.pop("pipelines/spark_internals.py", None)
    assert not found


def test_it_uses_them_itself() -> None:
    """Otherwise the test before would find nothing anywhere."""
    assert private_attributes(PROJECT / "pipelines" / "spark_internals.py") >= {"_jvm", "_jsparkSession", "_jdf"}
