"""Machine code of the models, which one process makes before jobs need it."""

from __future__ import annotations

import pytest

from app.runtime import machine_code
from models.core import compiled


def test_what_is_there_is_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "is_missing", lambda: False)
    monkeypatch.setattr(machine_code, "MODULE", "no_such_module")
    reported: list[str] = []
    machine_code.ensure(reported.append)
    assert reported == []


def test_what_is_missing_is_made_once_and_a_failure_is_no_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compiled, "is_missing", lambda: True)
    monkeypatch.setattr(machine_code, "LOOK_SECONDS", 0.1)
    reported: list[str] = []
    looks: list[int] = []
    machine_code.ensure(reported.append, lambda: looks.append(1))
    assert len(reported) == 1 and "compiling" in reported[0] and looks
    assert "could not" not in capsys.readouterr().out
    monkeypatch.setattr(machine_code, "MODULE", "no_such_module")
    machine_code.ensure()
    assert "No module named no_such_module" in capsys.readouterr().out
