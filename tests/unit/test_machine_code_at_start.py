"""Machine code of the models, which one process makes before jobs need it."""

from __future__ import annotations

import pytest

from app.runtime import machine_code
from models.core import compiled


def test_what_is_there_is_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "is_missing", lambda: False)
    monkeypatch.setattr(machine_code, "MODULE", "no_such_module")
    said: list[str] = []
    machine_code.ensure(said.append)
    assert said == []


def test_what_is_missing_is_made_once_and_a_failure_is_no_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compiled, "is_missing", lambda: True)
    monkeypatch.setattr(machine_code, "LOOK_SECONDS", 0.1)
    said: list[str] = []
    looks: list[int] = []
    machine_code.ensure(said.append, lambda: looks.append(1))
    assert len(said) == 1 and "compiling" in said[0] and looks
    assert "could not" not in capsys.readouterr().out
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    monkeypatch.setattr(machine_code, "MODULE", "no_such_module")
    machine_code.ensure()
    assert "No module named no_such_module" in capsys.readouterr().out
