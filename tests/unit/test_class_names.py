"""A class name stands for one thing in the whole repository."""

from __future__ import annotations

import ast
from collections import defaultdict

from app.core.settings import PROJECT

FOLDERS = ("app", "pipelines", "models", "replay", "dashboards", "benchmarks", "tests")


def test_no_two_classes_have_one_name() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for folder in FOLDERS:
        for file in sorted((PROJECT / folder).rglob("*.py")):
            for node in ast.parse(file.read_text()).body:
                if isinstance(node, ast.ClassDef):
                    found[node.name].append(str(file.relative_to(PROJECT)))
    assert len(found) > 200
    assert not {name: files for name, files in found.items() if len(files) > 1}
