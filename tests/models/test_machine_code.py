"""`make setup` makes all machine code, so that no first batch and no first command waits for a compiler."""

import os
import subprocess
import sys

from app.core.settings import PROJECT
from models.templates import extraction, matcher

# what has machine code, and for how many kinds of arguments, before and after the models have been used as set-up does
FOUND = """
import importlib, pkgutil
import models
from models.core.compiled import _Cache
from models.__main__ import main
main()
for module in pkgutil.walk_packages(models.__path__, "models."):
    for name, one in vars(importlib.import_module(module.name)).items():
        if isinstance(getattr(one, "_cache", None), _Cache) and one.__module__ == module.name:
            print(module.name, name, len(one.signatures), sum(one.stats.cache_misses.values()))
"""


def test_set_up_makes_machine_code_of_every_function_that_is_kept_on_disk() -> None:
    """Once by this process if it was not there; the next one finds all of it."""
    for _ in range(2):
        command = [sys.executable, "-c", FOUND]
        printed = subprocess.run(
            command, cwd=PROJECT, env=os.environ, capture_output=True, text=True, check=True
        ).stdout
    found = [line.split() for line in printed.splitlines()]
    assert {f"{module}.{name}" for module, name, _, _ in found} >= {
        "models.univariate.compiled_step.step",
        "models.templates.matcher.apply_masks",
    }
    assert [line for line in found if line[2:] != ["1", "0"]] == []


def test_machine_code_is_there_for_every_line_and_table() -> None:
    for line in ("", "a", "\u2028", "\U0001f600 12", "\ud800", "a" * 5000):
        extraction.template_of(line)
        extraction.collapse_parameters(line)
    assert extraction.mask_messages(["ab"], [("a", "b")]) == ["bb"]
    assert len(matcher.apply_masks.signatures) == 1  # type: ignore[attr-defined]
