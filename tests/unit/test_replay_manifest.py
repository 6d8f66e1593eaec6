"""The manifest of an earlier replay gives all that the run depended on, or is refused in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.core.settings import ControlSettings, Settings
from app.runtime.run import depended_on
from models.core.parameters import DetectorParameters
from models.incidents.parameters import CorrelationParameters
from models.rules.rule import rules_of
from pipelines.errors import InputError
from pipelines.windowing import WindowingConfig
from replay.from_manifest import range_by, settings_by
from replay.run import FORMAT
from replay.slices import Asked

MUTED = ControlSettings(rules=rules_of([{"host": "db-*", "mute": True}]))
WHOLE = {"after": None, "until": 20_000, "offsets": {"telemetry": {"0": [3, 9]}, "logs": {"0": [0, 4]}}}


def manifest_of(settings: Settings) -> dict[str, Any]:
    """As a run of these settings keeps it."""
    kept = {"format": FORMAT, "configuration": depended_on(settings), "whole": WHOLE, "savepoint": None}
    found: dict[str, Any] = json.loads(json.dumps(kept))
    return found


def test_a_run_by_a_manifest_depends_on_what_the_earlier_one_did(tmp_path: Path) -> None:
    earlier = Settings(
        home=tmp_path,
        windowing=WindowingConfig(window_seconds=20, shards=3),
        control=MUTED,
        detection=DetectorParameters(warm_up_minutes=7),
        correlation=CorrelationParameters(join_seconds=5),
    )
    made = settings_by(Settings(home=tmp_path, version="again"), tmp_path / "m", manifest_of(earlier))
    assert depended_on(made) == depended_on(earlier)
    assert made.version == "again"


def test_the_range_is_that_of_the_earlier_run(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    begins, ends = ({("telemetry", 0): a, ("logs", 0): b} for a, b in ((3, 0), (9, 4)))
    assert range_by(settings, manifest_of(settings)) == Asked(None, 20_000, begins, ends)
    later = manifest_of(settings) | {"whole": WHOLE | {"after": 10_000}}
    assert range_by(settings, later) == Asked(10_000, 20_000, None, ends)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"format": 99}, "format 99, wanted"),
        ({"whole": {"until": 1}}, "it has no 'offsets'"),
        ({"whole": 3}, "not subscriptable"),
        ({"configuration": {}}, "it has no 'detection'"),
        ({"savepoint": {"name": "x"}}, "it has no 'hash'"),
    ],
)
def test_what_is_no_manifest_is_refused_in_one_line(tmp_path: Path, changed: dict[str, Any], says: str) -> None:
    settings = Settings(home=tmp_path)
    with pytest.raises(InputError, match=says) as refused:
        settings_by(settings, tmp_path / "m.json", manifest_of(settings) | changed)
    assert "\n" not in str(refused.value)
    with pytest.raises(InputError, match="it has no 'format'"):
        settings_by(settings, tmp_path / "m.json", {})
