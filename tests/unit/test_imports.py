"""Imports stand at the top of a module. One inside a function is there for the start-up time, and says what it loads."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.core.settings import PROJECT

HEAVY = (
    "kafka",
    "numba",
    "pandas",
    "pyspark",
    "scipy",
    "sklearn",
    "streamlit",
)  # each takes longer than all that `kappa --help` needs
ROOMS = ("app", "pipelines", "models", "replay", "dashboards")


def imports_in_functions(tree: ast.AST) -> Iterator[list[ast.Import | ast.ImportFrom]]:
    """Runs of imports of our own packages inside functions."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        found = [each for each in ast.walk(function) if isinstance(each, ast.Import | ast.ImportFrom)]
        run = [each for each in found if rooms_of(each) & set(ROOMS)]
        if run:
            yield sorted(run, key=lambda each: each.lineno)


def rooms_of(node: ast.Import | ast.ImportFrom) -> set[str]:
    names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
    return {name.partition(".")[0] for name in names}


def unexplained(file: Path) -> list[int]:
    """Lines of imports in functions of which the first says nothing."""
    text = file.read_text()
    lines = text.splitlines()
    return [
        run[0].lineno for run in imports_in_functions(ast.parse(text)) if "  # loads " not in lines[run[0].lineno - 1]
    ]


@pytest.mark.parametrize("room", ROOMS)
def test_an_import_inside_a_function_says_what_it_loads(room: str) -> None:
    found = {str(file.relative_to(PROJECT)): unexplained(file) for file in sorted((PROJECT / room).rglob("*.py"))}
    assert found
    assert not {name: lines for name, lines in found.items() if lines}


def test_one_that_says_nothing_is_found(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(
        "import os\n\ndef f():\n    import json\n    from app.core import logs\n    return logs, os, json\n"
    )
    assert unexplained(file) == [5]
    file.write_text("def f():\n    from app.core import logs  # loads structlog\n    return logs\n")
    assert unexplained(file) == []


def test_no_command_waits_for_packages_that_it_does_not_use() -> None:
    code = f"import json, sys, app.cli.main; print(json.dumps([name for name in {HEAVY} if name in sys.modules]))"
    loaded = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True)
    assert json.loads(loaded.stdout) == []
