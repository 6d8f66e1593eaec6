"""`make accuracy` without data says so; with figures there is one table with everybody in it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from app.core.settings import PROJECT

TABLE = """
import json, sys
from rich.console import Console
from benchmarks.accuracy import COLUMNS, PUBLISHED, table
ours = {name: {"kappa": dict.fromkeys(heads, 1.5) | {"seconds": 2.0}} for name, heads in COLUMNS.items()}
Console(width=200).print(table(ours))
print(json.dumps({name: list(others) for name, others in PUBLISHED.items()}))
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=PROJECT, timeout=120, check=False)


def test_without_data_it_says_so_in_one_line(tmp_path: Path) -> None:
    said = run("-m", "benchmarks.accuracy", "--data", str(tmp_path))
    assert said.returncode == 1
    assert said.stdout == ""
    assert said.stderr.count("\n") == 1
    assert f"no labelled data in {tmp_path}, nothing was measured" in said.stderr


def test_there_is_one_table_with_ours_and_what_others_published() -> None:
    said = run("-c", TABLE)
    assert said.returncode == 0, said.stderr
    *shown, published = said.stdout.splitlines()
    text = "\n".join(shown)
    assert text.count("kappa") == 5
    for others in json.loads(published).values():
        assert others
        assert all(who in text for who in others)
