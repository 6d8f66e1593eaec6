"""One word, one meaning: names that the project has given up in favour of the field's own do not come back."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from app.core.settings import PROJECT

# Word, as a regular expression -> the term that stands for it now.
GIVEN_UP = {
    r"LawBroken": "DeterminismViolation",
    r"[a-z_]*\blaw\.[a-z_]+": "windowing.*",
    r"own_law\w*": "per_series_calibration",
    r"at large": "reference distribution",
    r"model_off": "calibration_drift",
    r"habits?": "run length",
    r"doubts?": "change candidates",
    r"restaurant": "Pitman-Yor process",
    r"(gauge|count|mix)_watch|(Gauge|Count|Mix)Watch": "gauge, count and mixture detector",
    r"well_\w+": "robust_*",
    r"loud\w*": "above the alert threshold",
    r"calm\w*": "below the alert threshold",
    r"ticks?": "watermark message",
    r"origins?": "instance",
    r"statements?": "episode event",
    r"said|told": "published",
    r"believes": "describe_state",
    r"speaker": "dominant feature",
    r"whence": "source position",
    r"Twin": "ReferenceModel",
    r"Desk": "CommandRunner",
    r"IncidentBook|Beginning|ProcessesAround": "IncidentTracker, StartPosition, ProcessServices",
}
# File -> lines that may stand there: another meaning, or a name that other programs know.
KEPT = {
    "app/cli/output.py": '"watermark": "tick"',  # keys of `--json`, which stay
    "dashboards/pipeline.py": 'manifest["tick"]',
    "docs/replay.md": "with `--json`",
    "tests/unit/test_savepoint.py": 'manifest["tick"], manifest["ticks"]',
    "docs/inputs.md": "`.ticks`",  # metrics of an agent
    "pipelines/inputs/ecs.py": '".ticks"',
    "models/stats/regression.py": "origin of time",
    "deploy/sbom.py": "spec.origin",  # of Python's import machinery
    "models/detection/reasons.py": "calm hour",  # a sentence that people read in records
    "models/templates/log_header.py": "STATEMENT",  # a level of PostgreSQL
    "tests/streaming/test_inputs.py": 'log__level="loud"',  # levels that are none
    "tests/support/malformed.py": 'log__level="loud"',
    "tests/streaming/test_masking.py": "user 'ann' said",  # a line of a log
}
LEFT_OUT = ("CHANGELOG.md", "LICENSE", "app/simulator/vocabulary.py", "tests/unit/test_vocabulary.py")
SUFFIXES = (".py", ".md", ".java", ".toml", ".yml", ".json", ".example", "")


def texts() -> dict[str, str]:
    """The text of every file of the project."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=PROJECT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    names = [name for name in listed.stdout.splitlines() if name not in LEFT_OUT and Path(name).suffix in SUFFIXES]
    return {name: (PROJECT / name).read_text(errors="replace") for name in names if (PROJECT / name).is_file()}


@pytest.mark.parametrize("word", GIVEN_UP)
def test_word_that_was_given_up_is_not_used(word: str) -> None:
    pattern = re.compile(rf"(?<![\w-])({word})(?![\w-])")
    found = [
        f"{name}:{number}: {line.strip()[:100]}"
        for name, text in texts().items()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line) and KEPT.get(name, "\0") not in line
    ]
    assert not found, f"say {GIVEN_UP[word]!r} instead:\n" + "\n".join(found)


def test_lines_that_are_kept_are_there() -> None:
    everything = texts()
    assert all(kept in everything[name] for name, kept in KEPT.items())
