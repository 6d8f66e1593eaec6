"""Machine code of the models, which one process makes before jobs need it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

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


@pytest.fixture
def made_by(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Have a program of ours in the place of the one that compiles."""

    def put(code: str) -> None:
        (tmp_path / "instead_of_models.py").write_text(code)

    monkeypatch.setattr(compiled, "is_missing", lambda: True)
    monkeypatch.setattr(machine_code, "MODULE", "instead_of_models")
    monkeypatch.setattr(machine_code, "LOOK_SECONDS", 0.1)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return put


def test_ctrl_c_does_not_reach_what_compiles(
    made_by: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    made_by(
        "import signal, sys; sys.exit(f'held back: {signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())}')"
    )
    machine_code.ensure()
    assert "held back: True" in capsys.readouterr().out


def test_nobody_waits_for_it_who_is_to_stop(made_by: Callable[[str], None], capsys: pytest.CaptureFixture[str]) -> None:
    made_by("import signal; signal.pause()")
    machine_code.ensure(stopping=lambda: True)
    assert "could not" not in capsys.readouterr().out


def test_what_compiles_for_too_long_is_ended_and_the_jobs_go_on(
    made_by: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(machine_code, "MOST_SECONDS", 0.3)
    made_by("import signal; signal.pause()")
    looks: list[int] = []
    machine_code.ensure(alive=lambda: looks.append(1), stopping=lambda: len(looks) > 100)
    assert 1 <= len(looks) < 100
    assert "no end after 0 s" in capsys.readouterr().out
